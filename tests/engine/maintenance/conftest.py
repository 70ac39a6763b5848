"""Fixtures of the maintenance tests: a store of three generations, a backup of it, and buckets."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidre.engine.collection.store import Store
from aidre.engine.maintenance.backup import back_up
from aidre.engine.model import Record
from tests.support.buckets import credentials, folder_place, place, s3, s3_place
from tests.support.calibrations import quick_calibration
from tests.support.stores import NAME, SPACE, copied, normal, put, record, write

__all__ = ["credentials", "folder_place", "place", "s3", "s3_place"]


@pytest.fixture(scope="session")
def three_generations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1: a, b, c. 2: b has another text, d is new. 3: a is gone."""
    path = tmp_path_factory.mktemp("generations")
    steps: list[tuple[list[Record | str], list[str]]] = [
        (["a", "b", "c"], []),
        ([record("b", ["other"]), "d"], []),
        ([], ["a"]),
    ]
    for records, doomed in steps:
        with Store(path).writer(NAME, spaces=[SPACE], description="Some") as writer:
            if records:
                put(writer, records, normal(len(records), SPACE.dimensions))
            writer.delete(doomed)
            writer.commit()
    return path


@pytest.fixture
def store(three_generations: Path, tmp_path: Path) -> Store:
    """A copy of the store of three generations."""
    return Store(copied(three_generations, tmp_path / "store"))


@pytest.fixture
def backup(store: Store, tmp_path: Path) -> Path:
    """A backup of the store."""
    back_up(store, [NAME], tmp_path / "backup.tar")
    return tmp_path / "backup.tar"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of one generation."""
    write(tmp_path / "store", ["a", "b", "c"])
    return tmp_path / "store"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"
