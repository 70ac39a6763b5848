"""What a release consists of: every distribution of the repository, agreeing with the others, and a wheel each."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from platform import machine
from typing import Any

import pytest
import yaml

from tests import ROOT
from tests.commands.distributions import disagreements, distributions, missing_archives, platform_of, unraised
from tests.commands.kernel_wheels import KERNEL, PLATFORMS, cross_compiled, kernel_faults
from tests.commands.release import main
from tests.support.compiler import of_sources, version_of, zig
from tests.support.native import kernel
from tests.support.tools import made

PYTHON = 'requires-python = ">=3.11"\n'
AIDRE = f'[project]\nname = "aidre"\ndynamic = ["version"]\n{PYTHON}dependencies = ["aidre-low==1.2.3"]\n'
LOW = f'[project]\nname = "aidre-low"\nversion = "1.2.3"\n{PYTHON}'
ROWS = f'[project]\nname = "aidre-rows"\nversion = "1.2.3"\n{PYTHON}dependencies = ["aidre==1.2.3"]\n'
ADAPTER = f'[project]\nname = "x-aidre"\nversion = "0.7"\n{PYTHON}dependencies = ["aidre>=1.2"]\n'
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text("utf-8"))


def repository(folder: Path, *, aidre: str = AIDRE, rows: str = ROWS, adapter: str = ADAPTER) -> Path:
    files = {
        "aidre/__init__.py": '__version__ = "1.2.3"\n',
        "pyproject.toml": aidre,
        "packages/a-rows/pyproject.toml": rows,
        "packages/low/pyproject.toml": LOW,
        "integrations/x/pyproject.toml": adapter,
        "integrations/x/x_aidre/__init__.py": "",
        "integrations/x/tests/test_x.py": "",
        "packages/notes.txt": "no distribution",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def git(root: Path, *words: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *words], cwd=root, check=True, capture_output=True)


def wheel_with(folder: Path, platform: str, binary: bytes | None) -> Path:
    path = folder / f"aidre-1.2.3-cp311-abi3-{platform}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("aidre/__init__.py", "")
        if binary is not None:
            archive.writestr(KERNEL, binary)
    return path


def elf(machine: int) -> bytes:
    return b"\x7fELF" + bytes(14) + struct.pack("<H", machine) + bytes(40)


def mach(cpu: int, *commands: int) -> bytes:
    header = struct.pack("<IIIIIIII", 0xFEEDFACF, cpu, 0, 6, len(commands), 8 * len(commands), 0, 0)
    return header + b"".join(struct.pack("<II", command, 8) for command in commands) + bytes(8)


def test_what_is_uploaded_comes_after_what_it_needs(tmp_path: Path) -> None:
    names = [one.name for one in distributions(repository(tmp_path))]
    assert sorted(names) == ["aidre", "aidre-low", "aidre-rows", "x-aidre"]
    assert names.index("aidre-low") < names.index("aidre") < min(names.index("aidre-rows"), names.index("x-aidre"))


def test_distributions_that_agree_are_not_complained_of(tmp_path: Path) -> None:
    assert list(disagreements(repository(tmp_path))) == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"rows": ROWS.replace("1.2.3", "1.2.2", 1)}, "rows/pyproject.toml: the version is 1.2.2, but aidre is 1.2.3"),
        ({"rows": ROWS.replace("aidre==1.2.3", "aidre==1.2.2")}, "needs aidre==1.2.2, but they are released together"),
        ({"rows": ROWS.replace("aidre==1.2.3", "aidre>=1.2")}, "released together: write aidre==1.2.3"),
        ({"aidre": AIDRE.replace("low==1.2.3", "low==1.2.4")}, "pyproject.toml: it needs aidre-low==1.2.4"),
        (
            {"aidre": AIDRE + '[project.optional-dependencies]\nr = ["aidre-rows==1.2.2"]\n'},
            "it needs aidre-rows==1.2.2",
        ),
        ({"adapter": ADAPTER.replace(">=1.2", "<1.2")}, "aidre is 1.2.3: admit that version"),
        ({"adapter": ADAPTER.replace(">=3.11", ">=3.12")}, "requires-python is '>=3.12', but aidre has '>=3.11'"),
    ],
)
def test_a_distribution_that_disagrees_is_named_with_the_cure(
    tmp_path: Path, changed: dict[str, str], said: str
) -> None:
    [problem] = disagreements(repository(tmp_path, **changed))
    assert said in problem


def test_the_distributions_of_this_checkout_agree(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(disagreements(ROOT)) == []
    assert main(["--list"]) == 0
    listed = {one["name"]: one["stem"] for one in json.loads(capsys.readouterr().out)}
    folders = {
        path.parent.name for name in ("packages", "integrations") for path in ROOT.glob(f"{name}/*/pyproject.toml")
    }
    assert len(listed) == len(folders) + 1
    assert listed["aidre-rows"].startswith("aidre_rows-")


def test_an_adapter_that_changed_needs_a_version_that_no_registry_has(tmp_path: Path) -> None:
    root = repository(tmp_path)
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "one")
    git(root, "tag", "v1.2.3")
    (root / "integrations/x/tests/test_x.py").write_text("# more\n", encoding="utf-8")
    assert list(unraised(root, "v1.2.3")) == []
    (root / "integrations/x/x_aidre/__init__.py").write_text("# more\n", encoding="utf-8")
    [problem] = unraised(root, "v1.2.3")
    assert "x-aidre changed since v1.2.3, and its version is still 0.7: raise it" in problem
    (root / "integrations/x/pyproject.toml").write_text(ADAPTER.replace("0.7", "0.8"), encoding="utf-8")
    assert list(unraised(root, "v1.2.3")) == []


def test_what_a_release_lacks_is_named(tmp_path: Path) -> None:
    found = distributions(repository(tmp_path))
    others = [f"{one.stem}{end}" for one in found[:1] + found[2:] for end in (".tar.gz", "-py3-none-any.whl")]
    wheels = [
        "aidre-1.2.3-cp311-abi3-manylinux2014_aarch64.manylinux_2_17_aarch64.whl",
        "aidre-1.2.3-cp311-abi3-manylinux_2_28_x86_64.whl",
        "aidre-1.2.3-cp311-abi3-macosx_11_0_arm64.whl",
        "aidre-1.2.3-cp311-abi3-macosx_10_15_x86_64.whl",
    ]
    whole = ["aidre-1.2.3.tar.gz", *wheels, *others]
    assert list(missing_archives(whole, found, PLATFORMS)) == []
    for name in whole:
        missing = list(missing_archives([one for one in whole if one != name], found, PLATFORMS))
        assert len(missing) == 1, name
    assert list(missing_archives([*whole[:-1], "aidre-1.2.2-py3-none-any.whl"], found, PLATFORMS)) == [whole[-1]]


@pytest.mark.parametrize(
    ("name", "platform"),
    [
        ("a-1-cp311-abi3-manylinux_2_17_aarch64.manylinux2014_aarch64.whl", "linux_aarch64"),
        ("a-1-cp311-abi3-linux_x86_64.whl", "linux_x86_64"),
        ("a-1-cp311-abi3-macosx_11_0_x86_64.whl", "macosx_x86_64"),
        ("a-1-py3-none-any.whl", "any"),
    ],
)
def test_the_platform_of_a_wheel_is_read_from_its_name(name: str, platform: str) -> None:
    assert platform_of(name) == platform


def test_a_kernel_that_would_not_load_is_found(tmp_path: Path) -> None:
    signed, unsigned = mach(0x0100000C, 0x19, 0x1D), mach(0x0100000C, 0x19)
    good = {
        "manylinux_2_17_x86_64": elf(62),
        "manylinux_2_17_aarch64": elf(183),
        "macosx_11_0_x86_64": mach(0x01000007),
        "macosx_11_0_arm64": signed,
    }
    for platform, binary in good.items():
        assert list(kernel_faults(wheel_with(tmp_path, platform, binary))) == []
    bad = [
        ("manylinux_2_17_x86_64", None, "has no C kernel"),
        ("manylinux_2_17_aarch64", elf(62), "has a kernel for linux_x86_64, not for linux_aarch64"),
        ("macosx_11_0_arm64", mach(0x01000007), "for macosx_x86_64, not for macosx_arm64"),
        ("macosx_11_0_arm64", unsigned, "without a signature"),
        ("manylinux_2_17_x86_64", b"MZ", "for an unknown machine"),
    ]
    for platform, broken, said in bad:
        [problem] = kernel_faults(wheel_with(tmp_path, platform, broken))
        assert said in problem


def test_the_workflow_publishes_tags_alone_and_each_distribution_from_its_own_environment() -> None:
    jobs: dict[str, Any] = WORKFLOW["jobs"]
    assert {name for name, job in jobs.items() if "if" in job} == {"publish", "notes"}
    assert {jobs[name]["if"] for name in ("publish", "notes")} == {"github.ref_type == 'tag'"}
    assert jobs["publish"]["environment"] == "pypi-${{ matrix.distribution.name }}"
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert not any("id-token" in job.get("permissions", {}) for name, job in jobs.items() if name != "publish")
    assert set(jobs["publish"]["needs"]) >= {"whole"}
    assert "secrets." not in (ROOT / ".github/workflows/release.yml").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.network
def test_zig_compiles_kernels_for_other_machines_that_know_what_their_processor_can(tmp_path: Path) -> None:
    compiler = zig()
    platforms = ("macosx_11_0_arm64", f"linux_{machine()}")

    def build(folder: Path) -> None:
        sources = tmp_path / "sources"
        for name in ("aidre", "engine", "ingest", "api"):
            ignored = shutil.ignore_patterns("__pycache__", "*.so")
            shutil.copytree(ROOT / name, sources / name, symlinks=True, ignore=ignored)
        for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "MANIFEST.in"):
            shutil.copy(ROOT / name, sources)
        for platform in platforms:
            cross_compiled(sources, platform, folder, compiler)

    settings = (path.read_bytes() for path in (ROOT / "setup.py", ROOT / "tests/commands/kernel_wheels.py"))
    wheels = made("kernels", build, *of_sources(), *settings, version_of(compiler), *compiler, sys.version, *platforms)
    for platform in platforms:
        [wheel] = wheels.glob(f"*-{platform}.whl")
        assert list(kernel_faults(wheel)) == []
    if sys.platform == "linux":
        with zipfile.ZipFile(wheel) as archive:
            archive.extract(KERNEL, tmp_path)
        words = [sys.executable, "-c", "import kernel; print(kernel.choose(None))"]
        folder = str((tmp_path / KERNEL).parent)
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == (kernel.choose(None) if kernel is not None else done.stdout.strip())
