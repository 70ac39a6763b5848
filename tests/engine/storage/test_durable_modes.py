"""Nobody but the owner and its group reads a store."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from aidre.engine.collection.store import Store
from aidre.engine.maintenance.backup import back_up
from aidre.engine.maintenance.restore import restore_archive
from aidre.engine.storage import durable
from tests.support.stores import NAME, ROWS, SPACE, everything, names, put, write

LOCK = "LOCK"


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    """The mode of every file and folder, in octal."""
    paths = [folder, *folder.rglob("*")]
    return {str(path.relative_to(folder.parent)): oct(stat.S_IMODE(path.lstat().st_mode)) for path in paths}


def check_closed(folder: Path) -> None:
    found = modes(folder)
    assert len(found) > 10
    for name, mode in found.items():
        expected = "0o750" if (folder.parent / name).is_dir() else "0o640" if name.endswith(LOCK) else "0o440"
        assert mode == expected, name


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store after commits, deletes, a merge and an indexing."""
    path = tmp_path / "store"
    write(path, names(40))
    with Store(path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, names(20, 40), ROWS[40:60])
        writer.commit()
        writer.delete(names(3))
        writer.commit()
        writer.compact()
    return Store(path)


def test_the_files_of_a_collection_are_closed_to_others(store: Store) -> None:
    check_closed(store.path / NAME)
    assert modes(store.path)["store"] == "0o750"


def test_a_stricter_umask_holds(tmp_path: Path) -> None:
    os.umask(0o077)
    write(tmp_path / "store", ["a"])
    assert modes(tmp_path / "store")["store"] == modes(tmp_path / "store")[f"store/{NAME}"] == "0o700"


def test_an_older_store_is_closed_by_its_next_writer(store: Store) -> None:
    folder = store.path / NAME
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644 if path.name == LOCK else 0o444)
    with store.writer(NAME, spaces=[SPACE]):
        pass
    check_closed(folder)
    assert len(everything(store.open(NAME))) == 57


def test_an_interrupted_closing_is_repeated(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = store.path / NAME
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o444)
    monkeypatch.setattr(durable, "FOLDER_MODE", 0o755)  # stops before the folder itself
    durable.close_to_others(folder)
    monkeypatch.undo()
    durable.close_to_others(folder)
    assert modes(folder)[NAME] == "0o750"
    assert stat.S_IMODE((folder / "segments").stat().st_mode) == 0o750


def test_what_a_backup_restores_is_closed_too(store: Store, tmp_path: Path) -> None:
    back_up(store, [NAME], tmp_path / "backup.tar")
    restore_archive(Store(tmp_path / "new"), tmp_path / "backup.tar")
    check_closed(tmp_path / "new" / NAME)
    restore_archive(store, tmp_path / "backup.tar", replace_stored=True)
    check_closed(store.path / NAME)
