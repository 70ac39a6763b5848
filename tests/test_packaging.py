"""The wheel holds every file of the packages, and the kernel; it works outside of the checkout, and uncompiled."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from aidre.engine.embedding.cache import cache_folder
from aidre.engine.native.loading import VARIABLE
from tests import ROOT
from tests.support import own_wheels
from tests.support.own_wheels import FOLDERS, HERE, TIMEOUT_SECONDS, build, pip

pytestmark = [pytest.mark.network, pytest.mark.process, pytest.mark.slow]

KERNEL = "aidre/engine/native/kernel.abi3.so"
BESIDE = ("client", "rows", "postgres")
UNCOMPILED = ("--no-deps", "--no-compile")
ENGINE = """
import sys
from pathlib import Path
from aidre.engine import Address, open_source
source = open_source(Path("store"), Address("postgres", "postgresql://127.0.0.1:1/there"))
print(sys.modules[type(source).__module__].__file__)
"""
PROGRAM = """
import sys
import aidre
assert aidre.__file__.startswith(sys.argv[1]), aidre.__file__
from aidre.api.cli.main import run
assert run(["ingest", sys.argv[2], "--store", sys.argv[3], "--collection", "notes"]) == 0
assert run(["search", "lentils", "--store", sys.argv[3]]) == 0
assert run(["status", "--store", sys.argv[3]]) == 0
"""
SDIST = """
import sys
from setuptools import build_meta
build_meta.build_sdist(sys.argv[1])
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources, which no test changes."""
    return own_wheels.source(tmp_path_factory)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return own_wheels.wheel(tmp_path_factory)


@pytest.fixture(scope="module")
def plain_wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Built on a machine without a compiler; and what was printed meanwhile."""
    folder = tmp_path_factory.mktemp("plain")
    copy = copied(source, folder)
    hidden = {"CC": "/nonexistent/cc", "CXX": "/nonexistent/c++", "LDSHARED": "/nonexistent/ld", "PATH": "/nonexistent"}
    return build(copy, folder / "wheels", *HERE, **hidden)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheels of the packages that are installed beside that of aidre, by their folder."""
    return {name: own_wheels.wheel_beside(tmp_path_factory, name) for name in BESIDE}


def copied(source: Path, folder: Path) -> Path:
    """The sources for a test that changes them, or builds beside them."""
    made = shutil.ignore_patterns("build", "*.egg-info")
    return Path(shutil.copytree(source, folder / "source", symlinks=True, ignore=made))


def packed_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def files_of(*folders: str) -> set[str]:
    return {
        f"{FOLDERS[source]}/{path.relative_to(ROOT / source).as_posix()}"
        for source in folders
        for path in (ROOT / source).rglob("*")
        if path.is_file() and not path.is_symlink() and path.suffix not in {".pyc", ".pyo", ".so"}
    }


def has_compiler() -> bool:
    return shutil.which((sysconfig.get_config_var("CC") or "cc").split()[0]) is not None


def used(wheel: Path, client: Path, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Install a wheel with the client, and ingest, search and ask for the status with it."""
    site, notes = folder / "site", folder / "notes"
    pip("install", "-q", *UNCOMPILED, "--target", str(site), str(client), str(wheel))
    notes.mkdir()
    (notes / "soup.md").write_text("# Soup\n\nA soup of lentils.\n", encoding="utf-8")
    inherited = {name: value for name, value in os.environ.items() if name != VARIABLE}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(site), str(notes), str(folder / "store")],
        cwd=folder,
        env={**inherited, "PYTHONPATH": str(site), "AIDRE_CACHE": str(cache_folder()), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_SECONDS,
    )


def test_the_wheel_holds_every_file_of_the_packages_and_the_kernel_instead_of_its_sources(wheel: Path) -> None:
    packed, expected = packed_in(wheel), files_of(*FOLDERS)
    sources = {name for name in expected if name.endswith((".c", ".h"))}
    assert {"aidre/engine/native/kernel.h", "aidre/engine/native/module.c"} <= sources
    if has_compiler():
        assert packed == expected - sources | {KERNEL}
        assert "-cp311-abi3-" in wheel.name
    assert {"aidre/py.typed", "aidre/api/operations/page/search.html", "aidre/__init__.pyi"} <= packed
    assert "aidre/engine/native/kernel.pyi" in packed


def test_the_sdist_holds_each_file_once_and_the_sources_of_the_kernel(source: Path, tmp_path: Path) -> None:
    copy = copied(source, tmp_path)
    command = [sys.executable, "-c", SDIST, str(tmp_path / "sdist")]
    subprocess.run(command, cwd=copy, capture_output=True, check=True, timeout=TIMEOUT_SECONDS)
    [path] = (tmp_path / "sdist").iterdir()
    with tarfile.open(path) as archive:
        packed = {one.name.partition("/")[2]: one for one in archive.getmembers()}
    assert {name for name, one in packed.items() if one.isfile()} >= files_of(*FOLDERS) | {"setup.py", "pyproject.toml"}
    assert all(one.isfile() or one.isdir() for one in packed.values()), "a link would lead nowhere"
    assert not any(name.endswith(".so") or name.startswith(("engine", "ingest", "api")) for name in packed)


def test_a_tree_whose_links_became_files_is_not_built(source: Path, tmp_path: Path) -> None:
    """As a zip of the repository is unpacked where links are unknown: the wheel would lack the engine."""
    copy = copied(source, tmp_path)
    (copy / "aidre" / "engine").unlink()
    (copy / "aidre" / "engine").write_text("../engine", encoding="utf-8")
    command = [sys.executable, "setup.py", "--version"]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
    assert done.returncode != 0
    assert "aidre/engine is not a folder" in done.stderr and "ln -sfn ../engine aidre/engine" in done.stderr


def test_the_installed_wheel_ingests_and_searches(wheel: Path, packages: dict[str, Path], tmp_path: Path) -> None:
    done = used(wheel, packages["client"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "A soup of lentils" in done.stdout
    assert ("kernel: faiss" not in done.stdout) == has_compiler()


def test_an_engine_that_is_installed_beside_the_wheel_is_found(
    wheel: Path, packages: dict[str, Path], tmp_path: Path
) -> None:
    pytest.importorskip("psycopg")
    site = tmp_path / "site"
    pip("install", "-q", *UNCOMPILED, "--target", str(site), str(wheel), *map(str, packages.values()))
    environment = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run(
        [sys.executable, "-c", ENGINE], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(site / "aidre_postgres" / "source.py")
    assert (site / "aidre_postgres" / "py.typed").exists() and (site / "aidre_rows" / "__init__.pyi").exists()


def test_without_a_compiler_the_build_goes_on_and_says_so_in_one_line(plain_wheel: tuple[Path, str]) -> None:
    path, printed = plain_wheel
    said = [line.strip() for line in printed.splitlines() if "the C kernel was not built" in line]
    assert len(said) == 1
    assert said[0].startswith("aidre: the C kernel was not built (")
    assert said[0].endswith("): searches use FAISS and numpy, slower")
    assert packed_in(path) == {name for name in files_of(*FOLDERS) if not name.endswith((".c", ".h"))}


def test_without_the_kernel_all_runs_and_a_kernel_that_is_asked_for_is_missed(
    plain_wheel: tuple[Path, str], packages: dict[str, Path], tmp_path: Path
) -> None:
    done = used(plain_wheel[0], packages["client"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "A soup of lentils" in done.stdout
    assert "kernel: faiss" in done.stdout
    asked = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from aidre.api.cli.main import run; sys.exit(run(['status', '--store', 'store']))",
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site"), VARIABLE: "scalar"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.returncode != 0
    assert "AIDRE_KERNEL is 'scalar', but the C kernel was not built here: unset it" in asked.stderr
