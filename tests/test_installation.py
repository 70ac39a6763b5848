"""The lean installation: `lean.txt` is complete, and what it installs runs the default model without torch."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from setuptools import find_packages

from tests import ROOT

LEFT_OUT = {"sentence-transformers", "huggingface-hub", "onnx", "protobuf", "flatbuffers"}
"""What loads other models, and what ONNX Runtime uses to change graphs only."""
FOLDERS, FILES = ("aidre", "engine", "ingest", "api"), ("pyproject.toml", "README.md", "LICENSE", "lean.txt")
LIMIT_MIB = 700
TIMEOUT_SECONDS = 300


def pinned(name: str) -> dict[str, str]:
    """The versions of a file of pins by canonical name."""
    lines = (ROOT / name).read_text("utf-8").splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(package): version for package, version in pins}


def needed(package: str) -> set[str]:
    """`package` and all that it needs according to the installed distributions, without what is left out."""
    found: set[str] = set()

    @cache
    def visit(name: str, extras: tuple[str, ...]) -> None:
        found.add(name)
        for requirement in map(Requirement, distribution(name).requires or ()):
            marker = requirement.marker
            wanted = marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))
            if wanted and canonicalize_name(requirement.name) not in LEFT_OUT:
                visit(canonicalize_name(requirement.name), tuple(sorted(requirement.extras)))

    visit(package, ())
    return found


def test_lean_txt_names_all_that_aidre_needs_but_what_loads_other_models() -> None:
    assert set(pinned("lean.txt")) == needed("aidre") - {"aidre"}


def test_lean_txt_has_the_versions_that_were_tested_together() -> None:
    versions = pinned("constraints.txt")
    assert pinned("lean.txt") == {name: versions[name] for name in pinned("lean.txt")}


def test_the_makefile_and_the_guide_install_the_same() -> None:
    guide = (ROOT / "docs/guide.md").read_text("utf-8")
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert "install --no-deps -r lean.txt" in makefile
    assert pip_lines(guide) == ["pip install --no-deps -r lean.txt", "pip install --no-deps ."]


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


def pip_lines(document: str) -> list[str]:
    return re.findall(r"^pip install --no-deps .*$", document, re.MULTILINE)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the lines of the guide, from a copy: setuptools writes beside what it installs."""
    folder = tmp_path_factory.mktemp("lean") / "environment"
    checkout = folder.with_name("checkout")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, checkout / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, checkout)
    run([sys.executable, "-m", "venv", str(folder)])
    for line in pip_lines((ROOT / "docs/guide.md").read_text("utf-8")):
        run([str(folder / "bin/python"), "-m", *line.split(), "-q", "--disable-pip-version-check"], checkout)
    return folder


def run(command: list[str], folder: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.network
@pytest.mark.process
@pytest.mark.slow
def test_a_lean_installation_is_small_and_answers_from_an_empty_cache(environment: Path, tmp_path: Path) -> None:
    files = [path for path in environment.rglob("*") if path.is_file() and not path.is_symlink()]
    assert sum(path.stat().st_size for path in files) / 2**20 <= LIMIT_MIB
    packages = {path.name for path in environment.glob("lib/*/site-packages/*")}
    assert {"aidre", "onnxruntime"} <= packages
    assert not packages & {"torch", "sentence_transformers", "onnx"}
    aidre, store, cache = str(environment / "bin/aidre"), str(tmp_path / "store"), str(tmp_path)
    run([aidre, "ingest", "demo/corpus", "--collection", "ellery", "--store", store], AIDRE_CACHE=cache)
    found = run([aidre, "search", "a lentil dish without meat", "--store", store, "-k", "1"], AIDRE_CACHE=cache)
    assert "entil" in found.stdout
