"""Restore: what comes back, and what is in the way: a writer, a damaged collection, a killed run."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import orjson
import pytest

from aidre.engine.collection.store import Store
from aidre.engine.errors import Conflict, StorageFailed, StoreLocked
from aidre.engine.maintenance import restore as restoring
from aidre.engine.maintenance.backup import back_up
from aidre.engine.maintenance.restore import restore_archive
from aidre.engine.maintenance.verify import verify, verify_collection
from aidre.engine.model import EmbeddingSpace
from aidre.engine.storage import durable
from aidre.engine.storage.lock import WriterLock
from tests.support.stores import (
    NAME,
    SPACE,
    ask,
    copied,
    everything,
    fill,
    leftovers,
    normal,
    put,
    record,
    structured,
    write,
)

OTHER = "other"


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
    assert everything(after) == ["b", "c", "d"]


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


@pytest.fixture(scope="module")
def killed_once(three_generations: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A restore was killed when it had just replaced the collection, which held a document more."""
    folder = tmp_path_factory.mktemp("killed")
    store = Store(copied(three_generations, folder / "store"))
    back_up(store, [NAME], folder / "backup.tar")
    write(store.path, [record("private", [SECRET])])
    done = subprocess.run([sys.executable, "-c", KILLED, str(store.path), str(folder / "backup.tar")], check=False)
    assert (done.returncode, holders(store)) == (9, ["chunks.arrow"])
    assert everything(store.open(NAME)) == ["b", "c", "d"]
    return store.path


@pytest.fixture
def killed(killed_once: Path, tmp_path: Path) -> Store:
    return Store(copied(killed_once, tmp_path / "killed"))


@pytest.mark.process
def test_what_a_killed_restore_replaced_is_removed_by_the_next_one(killed: Store, backup: Path) -> None:
    restore_archive(killed, backup, replace_stored=True)
    assert holders(killed) == []
    assert [path.name for path in killed.path.iterdir()] == [NAME]


@pytest.mark.process
def test_what_a_killed_restore_replaced_is_removed_by_the_next_writer_of_any_collection(killed: Store) -> None:
    with killed.writer(OTHER, spaces=[SPACE]):
        assert holders(killed) == []


@pytest.mark.process
def test_a_purge_removes_what_a_killed_restore_replaced_or_says_that_it_cannot(
    killed: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    [left] = killed.path.glob(".restore.*")
    unlink = os.unlink

    def refuse(path: Any, **named: Any) -> None:
        folder = Path(f"/proc/self/fd/{named.get('dir_fd')}").resolve()
        if os.fspath(path) == "chunks.arrow" and left in folder.parents:
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


@pytest.mark.process
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
        assert writer.delete(["b"]) == 1
        writer.commit()
        with pytest.raises(StorageFailed, match=rf"cannot write {left.name}: Permission denied"):
            writer.purge()
    assert everything(killed.open(NAME)) == ["c", "d"]


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
    assert everything(store.open(NAME)) == ["b", "c", "d"]
    assert sorted(path.name for path in store.path.iterdir()) == [NAME, OTHER]


def test_what_lies_beside_the_collections_comes_back_for_its_owner_alone(tmp_path: Path, store: Store) -> None:
    receipts = tmp_path / "receipts"
    receipts.write_text("{}")
    labels = (".log/intent.sqlite", ".log/events/000001.jsonl")
    back_up(store, [NAME], tmp_path / "backup.tar", [(label, receipts) for label in labels])
    restore_archive(Store(tmp_path / "new"), tmp_path / "backup.tar", beside=".log")
    log = tmp_path / "new" / ".log"
    assert [path.stat().st_mode & 0o077 for path in (log, *log.rglob("*"))] == [0] * 4


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


def test_a_restored_collection_is_the_one_that_was_saved(tmp_path: Path, store: Store) -> None:
    target = tmp_path / "backup.tar"
    [said] = back_up(store, [NAME], target)
    assert (said.collection, said.generation, said.documents, said.chunks) == (NAME, 3, 3, 3)
    assert target.stat().st_mode & 0o777 == 0o600
    new = Store(tmp_path / "new")
    assert restore_archive(new, target) == [said]
    old_snapshot, snapshot = store.open(NAME), new.open(NAME)
    assert everything(snapshot) == everything(old_snapshot)
    assert snapshot.manifest == old_snapshot.manifest
    query = normal(1, SPACE.dimensions, 9)[0]
    assert ask(snapshot, query) == ask(old_snapshot, query)
    assert [report.problems for report in verify(new)] == [()]
    assert leftovers(new.path) == []
    write(new.path, ["more"])
    assert "more" in everything(new.open(NAME))


def test_the_change_feed_goes_on_after_a_restore(tmp_path: Path, store: Store, backup: Path) -> None:
    place = store.open(NAME).changes(None, 1_000).cursor
    new = Store(tmp_path / "new")
    restore_archive(new, backup)
    write(new.path, ["more"])
    assert [change.id for change in new.open(NAME).changes(place, 10).changes] == ["more#chunk_1"]


def test_several_collections_and_files_beside_them(tmp_path: Path) -> None:
    path = tmp_path / "store"
    write(path, ["a"])
    with Store(path).writer("other", spaces=[SPACE]) as writer:
        put(writer, ["b"], normal(1, SPACE.dimensions))
        writer.commit()
    receipts = tmp_path / "receipts.jsonl"
    receipts.write_text("one\n")
    target = tmp_path / "backup.tar"
    back_up(Store(path), ["docs", "other"], target, [(".log/events/000001.jsonl", receipts)])
    new = Store(tmp_path / "new")
    assert [one.collection for one in restore_archive(new, target, beside=".log")] == ["docs", "other"]
    assert (new.path / ".log/events/000001.jsonl").read_text() == "one\n"
    assert everything(new.open("other")) == ["b"]
    (new.path / ".log/events/000001.jsonl").write_text("newer\n")
    restore_archive(new, target, beside=".log", replace_stored=True)
    assert (new.path / ".log/events/000001.jsonl").read_text() == "newer\n"


def test_replacing_needs_to_be_asked_for_and_moves_readers_on(store: Store, backup: Path) -> None:
    write(store.path, ["later"])
    newest = store.current(NAME)
    opened = store.open(NAME)
    with pytest.raises(Conflict, match="--replace"):
        restore_archive(store, backup)
    assert store.current(NAME) == newest
    restore_archive(store, backup, replace_stored=True)
    after = store.open(NAME, previous=opened)
    assert after.generation == newest + 1
    assert "later" not in everything(after)
    assert "later" in everything(opened)
    assert leftovers(store.path) == []
    assert all(not report.problems for report in verify(store))
    write(store.path, ["again"])
    assert "again" in everything(store.open(NAME))


def test_what_a_killed_run_left_is_removed_and_what_runs_is_not(tmp_path: Path, backup: Path) -> None:
    new = Store(tmp_path / "new")
    for name in ("1", "x"):
        (new.path / f".restore.{name}.tmp" / NAME).mkdir(parents=True)
    with WriterLock(new.path / ".restore.x.tmp", "x"):
        restore_archive(new, backup)
    assert leftovers(new.path) == [".restore.x.tmp"]
    assert new.collections() == [NAME]


def test_a_collection_that_is_being_written_is_not_replaced(store: Store, backup: Path) -> None:
    with store.writer(NAME, spaces=[SPACE]), pytest.raises(StoreLocked):
        restore_archive(store, backup, replace_stored=True)
    assert store.current(NAME) == 3
    assert leftovers(store.path) == []


def test_a_backup_of_an_earlier_release_has_no_last_member_and_comes_back(
    tmp_path: Path, store: Store, backup: Path
) -> None:
    old = tmp_path / "old.tar"
    with tarfile.open(backup) as tar, tarfile.open(old, "w") as copy:
        for member in tar.getmembers()[:-1]:
            content = tar.extractfile(member)
            assert content is not None
            if member.name == "backup.json":
                header = {name: value for name, value in orjson.loads(content.read()).items() if name != "sealed"}
                content = io.BytesIO(orjson.dumps(header))
                member.size = len(content.getvalue())
            copy.addfile(member, content)
    restore_archive(Store(tmp_path / "new"), old)
    assert everything(Store(tmp_path / "new").open(NAME)) == everything(store.open(NAME))


@pytest.mark.slow
@pytest.mark.usefixtures("quick_calibration")
def test_a_scan_comes_back_without_being_built_again(tmp_path: Path) -> None:
    path, vectors = tmp_path / "store", structured(1_700, 768)
    space = EmbeddingSpace("wide", 768, "cosine")
    before = fill(path, space, vectors, finish=True)
    new = Store(tmp_path / "new")
    back_up(Store(path), [NAME], tmp_path / "backup.tar")
    restore_archive(new, tmp_path / "backup.tar")
    after = new.open(NAME)
    assert before.space("wide").calibration == after.space("wide").calibration
    assert after.segments[0].segment.scans.keys() == before.segments[0].segment.scans.keys() == {"wide"}
