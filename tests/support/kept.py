"""Folders that are expensive to fill: each is filled by whichever process of the tests needs it first."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


def kept(folder: Path, fill: Callable[[Path], object]) -> Path:
    """A folder that is filled where it is not complete, and which nobody changes afterwards."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            fill(folder)
            (folder / "complete").touch()
    return folder


def of_run(factory: pytest.TempPathFactory) -> Path:
    """The temporary folder that all processes of this run of the tests have together."""
    own = factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


def link_or_copy(source: str, place: str) -> None:
    """A second name of a file, or a copy on another file system."""
    try:
        os.link(source, place)
    except OSError:
        shutil.copy2(source, place)
