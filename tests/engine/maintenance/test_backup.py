"""Backup: while writing goes on, of damaged files, beside killed runs, and where it may be written."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from aidre.engine.collection.store import Store
from aidre.engine.errors import CollectionMissing, InvalidInput, StorageFailed, StoreDamaged
from aidre.engine.maintenance import backup as backups
from aidre.engine.maintenance.backup import back_up
from aidre.engine.maintenance.restore import restore_archive
from aidre.engine.storage import durable
from aidre.engine.storage.manifest import read_manifest
from tests.support.stores import NAME, SPACE, everything, leftovers, write


def saved(store: Store) -> Path:
    """A backup of the collection, beside the store."""
    target = store.path.parent / "backup.tar"
    back_up(store, [NAME], target)
    return target


def test_a_writer_may_sweep_what_is_being_saved(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = everything(store.open(NAME))
    copy = backups._copy

    def purging(*arguments: object) -> None:
        monkeypatch.setattr(backups, "_copy", copy)
        with store.writer(NAME, spaces=[SPACE]) as writer:
            writer.delete(["b"])
            writer.purge()
        copy(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(backups, "_copy", purging)
    target = saved(store)
    new = Store(tmp_path / "new")
    restore_archive(new, target)
    assert everything(new.open(NAME)) == wanted
    assert len(everything(store.open(NAME))) == len(wanted) - 1


def test_a_generation_that_is_swept_before_it_is_open_is_given_up_for_the_newest(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = read_manifest

    def outdated(folder: Path, generation: int, name: str) -> object:
        monkeypatch.setattr(backups, "read_manifest", read)
        manifest = read(folder, generation, name)
        with store.writer(NAME, spaces=[SPACE]) as writer:
            writer.purge()
        return manifest

    monkeypatch.setattr(backups, "read_manifest", outdated)
    assert back_up(store, [NAME], tmp_path / "backup.tar")[0].generation == store.current(NAME) == 4


def test_damage_is_found_while_saving_and_nothing_is_left(tmp_path: Path, store: Store) -> None:
    file = next((store.path / NAME / "segments").glob("*/chunks.arrow"))
    file.chmod(0o644)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(StoreDamaged, match=r"chunks\.arrow does not have the checksum"):
        saved(store)
    file.write_bytes(content[:-1])
    with pytest.raises(StoreDamaged, match="bytes instead of"):
        saved(store)
    file.unlink()
    with pytest.raises(StoreDamaged, match="is missing"):
        saved(store)
    assert [one.name for one in tmp_path.iterdir()] == ["store"]


def test_what_a_killed_backup_left_is_removed_and_what_runs_is_not(tmp_path: Path, store: Store) -> None:
    for pid in (2**30, os.getpid(), 1):
        (tmp_path / f".backup.tar.{pid}.tmp").write_bytes(b"a part")
    (tmp_path / ".other.tar.4.tmp").touch()
    with (tmp_path / ".backup.tar.1.tmp").open("rb") as running:
        fcntl.flock(running, fcntl.LOCK_EX)
        saved(store)
    assert leftovers(tmp_path) == [".backup.tar.1.tmp", ".other.tar.4.tmp"]


def test_an_unfinished_backup_is_held_until_it_has_its_name(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = durable.sync_file
    tried = []

    def sync(path: Path) -> None:
        tried.append(path)
        with path.open("rb") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        synced(path)

    monkeypatch.setattr(durable, "sync_file", sync)
    assert saved(store).exists()
    assert tried


def test_a_full_disk_leaves_no_backup(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(durable, "sync_file", full)
    with pytest.raises(StorageFailed, match="No space left"):
        saved(store)
    assert [one.name for one in tmp_path.iterdir()] == ["store"]


def test_where_a_backup_may_be_written(tmp_path: Path, store: Store) -> None:
    target = saved(store)
    with pytest.raises(InvalidInput, match="exists already"):
        back_up(store, [NAME], target)
    with pytest.raises(InvalidInput, match="inside the store"):
        back_up(store, [NAME], store.path / "x.tar")
    with pytest.raises(StorageFailed):
        back_up(store, [NAME], tmp_path / "nowhere" / "x.tar")
    with pytest.raises(CollectionMissing):
        back_up(store, ["none"], tmp_path / "x.tar")
    assert not (tmp_path / "x.tar").exists()


@pytest.mark.slow
def test_lists_of_changes_are_saved_one_by_one_since_there_may_be_thousands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, held = Store(tmp_path / "store"), []
    for number in range(6):
        write(store.path, [f"d{number}"])
    lists = sorted(path.name for path in (store.path / NAME / "changes").iterdir())
    assert len(lists) == 6
    copy = backups._copy

    def copied(*arguments: Any) -> None:
        links = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
        held.append(sum(link.parent.name == "changes" for link in links))
        copy(*arguments)

    monkeypatch.setattr(backups, "_copy", copied)
    back_up(store, [NAME], tmp_path / "backup.tar")
    assert max(held) == 2  # the newest, and the one that is being copied
    restore_archive(Store(tmp_path / "new"), tmp_path / "backup.tar")
    assert sorted(path.name for path in (tmp_path / "new" / NAME / "changes").iterdir()) == lists


def test_a_list_of_changes_that_grew_too_old_meanwhile_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "store")
    for number in range(3):
        write(store.path, [f"d{number}"])
    first = store.path / NAME / "changes" / "000001.arrow"
    copy = backups._copy

    def copied(*arguments: Any) -> None:
        first.unlink(missing_ok=True)
        copy(*arguments)

    monkeypatch.setattr(backups, "_copy", copied)
    back_up(store, [NAME], tmp_path / "backup.tar")
    restore_archive(Store(tmp_path / "new"), tmp_path / "backup.tar")
    assert everything(Store(tmp_path / "new").open(NAME)) == ["d0", "d1", "d2"]
