"""What the tests of Agent Intake share."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.intakes import client, fill_all


@pytest.fixture(scope="package")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of which each test gets a copy."""
    path = tmp_path_factory.mktemp("filled") / "store"
    fill_all(path)
    return path


@pytest.fixture
def store(tmp_path: Path, filled: Path) -> Path:
    """A store for one test."""
    return Path(shutil.copytree(filled, tmp_path / "store"))
