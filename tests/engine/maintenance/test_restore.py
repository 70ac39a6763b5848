"""Restoring where something is in the way: a writer, a damaged collection, and backups that were made to do harm."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from aidre.engine.collection.store import Store
from aidre.engine.errors import Conflict, InvalidInput, StorageFailed, StoreLocked
from aidre.engine.maintenance import backup as backups, restore as restoring
from aidre.engine.maintenance.backup import back_up
from aidre.engine.maintenance.restore import restore_archive
from aidre.engine.maintenance.verify import verify_collection
from aidre.engine.storage import durable
from tests.support.stores import NAME, SPACE, everything, normal, put, record, write

OTHER = "other"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    write(tmp_path / "store", ["a", "b"])
    return Store(tmp_path / "store")


@pytest.fixture
def backup(tmp_path: Path, store: Store) -> Path:
    back_up(store, [NAME], tmp_path / "backup.tar")
    return tmp_path / "backup.tar"


def members(backup: Path) -> list[tuple[tarfile.TarInfo, bytes]]:
    """What a backup holds of its collections."""
    with tarfile.open(backup) as tar:
        files = [(member, tar.extractfile(member)) for member in tar.getmembers() if "/" in member.name]
        return [(member, file.read()) for member, file in files if file is not None]


def made(path: Path, collections: Sequence[str], *files: tuple[tarfile.TarInfo, bytes]) -> Path:
    """A backup with a right header of these collections and files."""
    header = orjson.dumps({"aidre_backup": 1, "created_at": "", "collections": collections})
    first = tarfile.TarInfo("backup.json")
    first.size = len(header)
    with tarfile.open(path, "w") as tar:
        for member, content in ((first, header), *files):
            tar.addfile(member, io.BytesIO(content))
    return path


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE])
def test_a_header_that_is_no_file_is_no_header(tmp_path: Path, kind: bytes) -> None:
    member = tarfile.TarInfo("backup.json")
    member.type, member.linkname = kind, "/etc/passwd"
    with tarfile.open(tmp_path / "evil.tar", "w") as tar:
        tar.addfile(member)
    with pytest.raises(InvalidInput, match="not a backup"):
        restore_archive(Store(tmp_path / "new"), tmp_path / "evil.tar")


def test_a_file_of_more_zeros_than_the_backup_holds_is_refused_unwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 200 << 20
    sparse = tarfile.TarInfo(f"{NAME}/segments/a/b")
    names = {"major": "1", "minor": "0", "name": sparse.name, "realsize": str(size)}
    sparse.pax_headers = {f"GNU.sparse.{name}": value for name, value in names.items()}
    content = b"1\n%d\n0\n".ljust(512, b"\0") % size
    sparse.size = len(content)
    evil = made(tmp_path / "evil.tar", [NAME], (sparse, content))
    assert evil.stat().st_size < 20_000
    monkeypatch.setattr(shutil, "copyfileobj", pytest.fail)
    with pytest.raises(InvalidInput, match="nothing was restored"):
        restore_archive(Store(tmp_path / "new"), evil)


def test_a_backup_that_names_a_collection_twice_restores_nothing(tmp_path: Path, backup: Path) -> None:
    twice = made(tmp_path / "twice.tar", [NAME, NAME], *members(backup))
    with pytest.raises(InvalidInput, match="twice"):
        restore_archive(Store(tmp_path / "new"), twice)
    assert Store(tmp_path / "new").collections() == []


def test_no_collection_is_replaced_where_one_of_them_is_being_written(tmp_path: Path, store: Store) -> None:
    with store.writer(OTHER, spaces=[SPACE]) as writer:
        put(writer, ["x"], normal(1, SPACE.dimensions))
        writer.commit()
    back_up(store, [NAME, OTHER], tmp_path / "both.tar")
    before = store.current(NAME)
    with store.writer(OTHER, spaces=[SPACE]), pytest.raises(StoreLocked):
        restore_archive(store, tmp_path / "both.tar", replace_stored=True)
    assert store.current(NAME) == before


def test_no_collection_is_replaced_where_there_is_no_room_for_one_of_them(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.writer(OTHER, spaces=[SPACE]) as writer:
        put(writer, ["x"], normal(1, SPACE.dimensions))
        writer.commit()
    back_up(store, [NAME, OTHER], tmp_path / "both.tar")
    before, replace = store.current(NAME), durable.replace_file

    def refuse(path: Path, content: bytes) -> None:
        if path.parent.parent.name == OTHER and path.name == "000002.json":
            raise StorageFailed("cannot write: No space left on device")
        replace(path, content)

    monkeypatch.setattr(durable, "replace_file", refuse)
    with pytest.raises(StorageFailed):
        restore_archive(store, tmp_path / "both.tar", replace_stored=True)
    assert (store.current(NAME), store.current(OTHER)) == (before, 1)


def test_a_collection_that_came_while_the_backup_was_checked_is_not_replaced(
    tmp_path: Path, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, check = Store(tmp_path / "new"), verify_collection

    def checked(unpacked: Store, name: str) -> object:
        write(new.path, ["late"])
        return check(unpacked, name)

    monkeypatch.setattr(restoring, "verify_collection", checked)
    with pytest.raises(Conflict):
        restore_archive(new, backup)
    assert everything(new.open(NAME)) == ["late"]


@pytest.mark.parametrize("content", [None, b"", b"garbage\n", b"000099\n"])
def test_what_lost_its_name_is_there_and_can_be_replaced(store: Store, backup: Path, content: bytes | None) -> None:
    write(store.path, ["later"])
    newest, opened = store.current(NAME), store.open(NAME)
    current = store.path / NAME / "CURRENT"
    current.unlink()
    if content is not None:
        current.write_bytes(content)
    with pytest.raises(Conflict):
        restore_archive(store, backup)
    assert [path.name for path in (store.path / NAME / "manifests").glob(f"*{newest}.json")] == [f"{newest:06d}.json"]
    restore_archive(store, backup, replace_stored=True)
    after = store.open(NAME, previous=opened)
    assert after.generation > newest
    assert everything(after) == ["a", "b"]


KILLED = """
import os, sys
from pathlib import Path
from aidre.engine.maintenance import restore
from aidre.engine.collection.store import Store

exchange = restore._exchange

def exchange_and_die(one, other):
    exchange(one, other)
    os._exit(9)

restore._exchange = exchange_and_die
restore.restore_archive(Store(Path(sys.argv[1])), Path(sys.argv[2]), replace_stored=True)
"""
SECRET = "what nobody may read again"


def holders(store: Store) -> list[str]:
    """The files that hold the secret."""
    return [path.name for path in store.path.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


@pytest.fixture
def killed(store: Store, backup: Path) -> Store:
    """A restore was killed when it had just replaced the collection, which held a document more."""
    write(store.path, [record("private", [SECRET])])
    done = subprocess.run([sys.executable, "-c", KILLED, str(store.path), str(backup)], check=False)
    assert (done.returncode, holders(store)) == (9, ["chunks.arrow"])
    assert everything(store.open(NAME)) == ["a", "b"]
    return store


def test_what_a_killed_restore_replaced_is_removed_by_the_next_one(killed: Store, backup: Path) -> None:
    restore_archive(killed, backup, replace_stored=True)
    assert holders(killed) == []
    assert [path.name for path in killed.path.iterdir()] == [NAME]


def test_what_a_killed_restore_replaced_is_removed_by_the_next_writer_of_any_collection(killed: Store) -> None:
    with killed.writer(OTHER, spaces=[SPACE]):
        assert holders(killed) == []


def test_a_purge_removes_what_a_killed_restore_replaced_or_says_that_it_cannot(
    killed: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    [left] = killed.path.glob(".restore.*")
    unlink = os.unlink

    def refuse(path: Any, **named: Any) -> None:
        if os.fspath(path) == "chunks.arrow" and "dir_fd" in named:
            raise OSError(errno.EPERM, "Operation not permitted", path)
        unlink(path, **named)

    monkeypatch.setattr(os, "unlink", refuse)
    with killed.writer(NAME, spaces=None) as writer:
        with pytest.raises(
            StorageFailed, match=rf"cannot remove {left}/docs/segments/\w+/chunks\.arrow: Operation not permitted"
        ):
            writer.purge()
        assert left.exists()
        monkeypatch.undo()
        writer.purge()
    assert not left.exists()
    assert holders(killed) == []


def test_what_belongs_to_somebody_else_stops_a_purge_and_no_writer(
    killed: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    [left] = killed.path.glob(".restore.*")
    opened = os.open

    def refuse(path: Any, *arguments: Any, **named: Any) -> int:
        if left in Path(path).parents:
            raise OSError(errno.EACCES, "Permission denied", path)
        return opened(path, *arguments, **named)

    monkeypatch.setattr(os, "open", refuse)
    with killed.writer(NAME, spaces=None) as writer:
        assert writer.delete(["a"]) == 1
        writer.commit()
        with pytest.raises(StorageFailed, match=rf"cannot write {left.name}: Permission denied"):
            writer.purge()
    assert everything(killed.open(NAME)) == ["b"]


def test_a_restore_that_runs_is_left_alone_by_writers_and_by_purges(
    store: Store, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the number of its process: in a container all may have the same."""
    check = verify_collection

    def checked(unpacked: Store, name: str) -> object:
        with store.writer(OTHER, spaces=[SPACE]) as writer:
            writer.purge()
        return check(unpacked, name)

    monkeypatch.setattr(restoring, "verify_collection", checked)
    restore_archive(store, backup, replace_stored=True)
    assert everything(store.open(NAME)) == ["a", "b"]
    assert sorted(path.name for path in store.path.iterdir()) == [NAME, OTHER]


def test_what_lies_beside_the_collections_comes_back_for_its_owner_alone(tmp_path: Path, store: Store) -> None:
    receipts = tmp_path / "receipts"
    receipts.write_text("{}")
    labels = (".log/intent.sqlite", ".log/events/000001.jsonl")
    back_up(store, [NAME], tmp_path / "backup.tar", [(label, receipts) for label in labels])
    restore_archive(Store(tmp_path / "new"), tmp_path / "backup.tar", beside=".log")
    log = tmp_path / "new" / ".log"
    assert [path.stat().st_mode & 0o077 for path in (log, *log.rglob("*"))] == [0] * 4


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


def test_a_writer_that_opened_the_lock_of_a_replaced_folder_locks_the_new_one(
    store: Store, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[int] = []
    lock = fcntl.flock

    def late(descriptor: int, how: int) -> None:
        if not waited:
            waited.append(descriptor)
            restore_archive(store, backup, replace_stored=True)
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with store.writer(NAME, spaces=[SPACE]), pytest.raises(StoreLocked):
        store.writer(NAME, spaces=[SPACE])
    assert waited
