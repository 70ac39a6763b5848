"""The wheel holds every file of the packages, and works outside of the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from aidre.engine.embedding.cache import cache_folder
from tests import ROOT

pytestmark = [pytest.mark.network, pytest.mark.process, pytest.mark.slow]

FOLDERS = {"engine": "aidre/engine", "ingest": "aidre/ingest", "api": "aidre/api", "aidre": "aidre"}
FILES = ("pyproject.toml", "README.md", "LICENSE")
TIMEOUT_SECONDS = 300
PROGRAM = """
import sys
import aidre
assert aidre.__file__.startswith(sys.argv[1]), aidre.__file__
from aidre.api.cli.main import run
assert run(["ingest", sys.argv[2], "--store", sys.argv[3], "--collection", "notes"]) == 0
assert run(["search", "lentils", "--store", sys.argv[3]]) == 0
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: setuptools writes beside what it packs."""
    folder = tmp_path_factory.mktemp("packaging")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / "source" / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, folder / "source")
    pip("wheel", "--no-deps", "--wheel-dir", str(folder / "wheels"), str(folder / "source"))
    [path] = (folder / "wheels").iterdir()
    return path


def pip(*words: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
    assert done.returncode == 0, done.stderr


def test_the_wheel_holds_every_file_of_the_packages(wheel: Path) -> None:
    expected = {
        f"{target}/{path.relative_to(ROOT / source).as_posix()}"
        for source, target in FOLDERS.items()
        for path in (ROOT / source).rglob("*")
        if path.is_file() and path.suffix not in {".pyc", ".pyo"}
    }
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == expected
    assert {"aidre/py.typed", "aidre/api/operations/search_page.html", "aidre/__init__.pyi"} <= packed


def test_the_installed_wheel_ingests_and_searches(wheel: Path, tmp_path: Path) -> None:
    site, notes = tmp_path / "site", tmp_path / "notes"
    pip("install", "--no-deps", "--target", str(site), str(wheel))
    notes.mkdir()
    (notes / "soup.md").write_text("# Soup\n\nA soup of lentils.\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(site), str(notes), str(tmp_path / "store")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site), "AIDRE_CACHE": str(cache_folder())},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert "A soup of lentils" in done.stdout
