"""Wheels of this checkout, each built once for a run of the tests, from a copy of the sources."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT
from tests.support.kept import kept, of_run

FOLDERS = {"engine": "aidre/engine", "ingest": "aidre/ingest", "api": "aidre/api", "aidre": "aidre"}
"""The folders of the sources, with their places in the wheel."""
FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "MANIFEST.in", "CHANGELOG.md")
HERE = ("--no-build-isolation",)
"""Options of a build with the setuptools of this environment; one build, that of `wheel`, fetches its own."""
TIMEOUT_SECONDS = 300


def source(factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources, which no test changes: setuptools writes beside what it packs."""

    def fill(folder: Path) -> None:
        made = shutil.ignore_patterns("__pycache__", "*.so", "build", "*.egg-info")
        for name in (*FOLDERS, "packages"):
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=made)
        for name in FILES:
            shutil.copy(ROOT / name, folder)

    return kept(of_run(factory) / "source", fill)


def wheel(factory: pytest.TempPathFactory) -> Path:
    """The wheel of aidre."""
    copied = source(factory)
    [path] = kept(of_run(factory) / "wheel", lambda folder: build(copied, folder)).glob("*.whl")
    return path


def wheel_beside(factory: pytest.TempPathFactory, name: str) -> Path:
    """The wheel of a folder in packages/."""
    copied = source(factory) / "packages" / name
    [path] = kept(of_run(factory) / f"wheel-{name}", lambda folder: build(copied, folder, *HERE)).glob("*.whl")
    return path


def build(copied: Path, wheels: Path, *options: str, **environment: str) -> tuple[Path, str]:
    """The wheel, and what was printed meanwhile."""
    printed = pip("wheel", "-v", "--no-deps", "--wheel-dir", str(wheels), *options, str(copied), **environment)
    [path] = wheels.glob("*.whl")
    return path, printed


def pip(*words: str, **environment: str) -> str:
    """What pip prints, which must succeed."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *words]
    done = subprocess.run(
        command,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr
