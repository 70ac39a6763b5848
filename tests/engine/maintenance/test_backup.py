"""Backup and restore: what comes back, while writing goes on, over what is there, and from files that are not whole."""

from __future__ import annotations

import fcntl
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import orjson
import pytest

from aidre.engine.collection.store import Store
from aidre.engine.errors import (
    AidreError,
    CollectionMissing,
    Conflict,
    FormatTooNew,
    InvalidInput,
    Missing,
    StorageFailed,
    StoreDamaged,
    StoreLocked,
)
from aidre.engine.maintenance import backup as backups
from aidre.engine.maintenance.backup import back_up
from aidre.engine.maintenance.restore import restore_archive
from aidre.engine.maintenance.verify import verify
from aidre.engine.model import EmbeddingSpace
from aidre.engine.storage import durable
from aidre.engine.storage.lock import WriterLock
from aidre.engine.storage.manifest import read_manifest
from tests.support.stores import NAME, SPACE, ask, everything, fill, names, normal, put, structured, write


def saved(path: Path, collections: tuple[str, ...] = (NAME,)) -> Path:
    target = path.parent / "backup.tar"
    back_up(Store(path), collections, target)
    return target


def two_commits(path: Path) -> Store:
    write(path, names(30), description="Some")
    with Store(path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, names(10, first=30), normal(10, SPACE.dimensions, 1))
        writer.delete(names(5))
        writer.commit()
    return Store(path)


def leftovers(path: Path) -> list[str]:
    return sorted(one.name for one in path.iterdir() if one.name.endswith(".tmp"))


def test_a_restored_collection_is_the_one_that_was_saved(tmp_path: Path) -> None:
    store = two_commits(tmp_path / "store")
    target = tmp_path / "backup.tar"
    [said] = back_up(store, [NAME], target)
    assert (said.collection, said.generation, said.documents, said.chunks) == (NAME, 2, 35, 35)
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


def test_the_change_feed_goes_on_after_a_restore(tmp_path: Path) -> None:
    store = two_commits(tmp_path / "store")
    place = store.open(NAME).changes(None, 1_000).cursor
    target = saved(store.path)
    new = Store(tmp_path / "new")
    restore_archive(new, target)
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


def test_a_writer_may_sweep_what_is_being_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = two_commits(tmp_path / "store")
    wanted = everything(store.open(NAME))
    copy = backups._copy

    def purging(*arguments: object) -> None:
        monkeypatch.setattr(backups, "_copy", copy)
        with store.writer(NAME, spaces=[SPACE]) as writer:
            writer.delete(names(10, first=10))
            writer.purge()
        copy(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(backups, "_copy", purging)
    target = saved(store.path)
    new = Store(tmp_path / "new")
    restore_archive(new, target)
    assert everything(new.open(NAME)) == wanted
    assert len(everything(store.open(NAME))) == len(wanted) - 10


def test_a_generation_that_is_swept_before_it_is_open_is_given_up_for_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = two_commits(tmp_path / "store")
    read = read_manifest

    def outdated(folder: Path, generation: int, name: str) -> object:
        monkeypatch.setattr(backups, "read_manifest", read)
        manifest = read(folder, generation, name)
        with store.writer(NAME, spaces=[SPACE]) as writer:
            writer.purge()
        return manifest

    monkeypatch.setattr(backups, "read_manifest", outdated)
    assert back_up(store, [NAME], tmp_path / "backup.tar")[0].generation == store.current(NAME) == 3


def test_replacing_needs_to_be_asked_for_and_moves_readers_on(tmp_path: Path) -> None:
    store = two_commits(tmp_path / "store")
    target = saved(store.path)
    write(store.path, ["later"])
    newest = store.current(NAME)
    opened = store.open(NAME)
    with pytest.raises(Conflict, match="--replace"):
        restore_archive(store, target)
    assert store.current(NAME) == newest
    restore_archive(store, target, replace_stored=True)
    after = store.open(NAME, previous=opened)
    assert after.generation == newest + 1
    assert "later" not in everything(after)
    assert "later" in everything(opened)
    assert leftovers(store.path) == []
    assert all(not report.problems for report in verify(store))
    write(store.path, ["again"])
    assert "again" in everything(store.open(NAME))


def test_what_a_killed_run_left_is_removed_and_what_runs_is_not(tmp_path: Path) -> None:
    target = saved(two_commits(tmp_path / "store").path)
    new = Store(tmp_path / "new")
    for name in ("1", "x"):
        (new.path / f".restore.{name}.tmp" / NAME).mkdir(parents=True)
    with WriterLock(new.path / ".restore.x.tmp", "x"):
        restore_archive(new, target)
    assert leftovers(new.path) == [".restore.x.tmp"]
    assert new.collections() == [NAME]


def test_a_collection_that_is_being_written_is_not_replaced(tmp_path: Path) -> None:
    store = two_commits(tmp_path / "store")
    target = saved(store.path)
    with store.writer(NAME, spaces=[SPACE]), pytest.raises(StoreLocked):
        restore_archive(store, target, replace_stored=True)
    assert store.current(NAME) == 2
    assert leftovers(store.path) == []


def test_damage_is_found_while_saving_and_nothing_is_left(tmp_path: Path) -> None:
    store = two_commits(tmp_path / "store")
    file = next((store.path / NAME / "segments").glob("*/chunks.arrow"))
    file.chmod(0o644)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(StoreDamaged, match=r"chunks\.arrow does not have the checksum"):
        saved(store.path)
    file.write_bytes(content[:-1])
    with pytest.raises(StoreDamaged, match="bytes instead of"):
        saved(store.path)
    file.unlink()
    with pytest.raises(StoreDamaged, match="is missing"):
        saved(store.path)
    assert [one.name for one in tmp_path.iterdir()] == ["store"]


def test_what_a_killed_backup_left_is_removed_and_what_runs_is_not(tmp_path: Path) -> None:
    store = two_commits(tmp_path / "store")
    for pid in (2**30, os.getpid(), 1):
        (tmp_path / f".backup.tar.{pid}.tmp").write_bytes(b"a part")
    (tmp_path / ".other.tar.4.tmp").touch()
    with (tmp_path / ".backup.tar.1.tmp").open("rb") as running:
        fcntl.flock(running, fcntl.LOCK_EX)
        saved(store.path)
    assert leftovers(tmp_path) == [".backup.tar.1.tmp", ".other.tar.4.tmp"]


def test_an_unfinished_backup_is_held_until_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = two_commits(tmp_path / "store")
    synced = durable.sync_file
    tried = []

    def sync(path: Path) -> None:
        tried.append(path)
        with path.open("rb") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        synced(path)

    monkeypatch.setattr(durable, "sync_file", sync)
    assert saved(store.path).exists()
    assert tried


def test_a_full_disk_leaves_no_backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = two_commits(tmp_path / "store")

    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(durable, "sync_file", full)
    with pytest.raises(StorageFailed, match="No space left"):
        saved(store.path)
    assert [one.name for one in tmp_path.iterdir()] == ["store"]


def test_where_a_backup_may_be_written(tmp_path: Path) -> None:
    store = two_commits(tmp_path / "store")
    target = saved(store.path)
    with pytest.raises(InvalidInput, match="exists already"):
        back_up(store, [NAME], target)
    with pytest.raises(InvalidInput, match="inside the store"):
        back_up(store, [NAME], store.path / "x.tar")
    with pytest.raises(StorageFailed):
        back_up(store, [NAME], tmp_path / "nowhere" / "x.tar")
    with pytest.raises(CollectionMissing):
        back_up(store, ["none"], tmp_path / "x.tar")
    assert not (tmp_path / "x.tar").exists()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_part_of_a_backup_is_refused(tmp_path: Path, share: float) -> None:
    target = saved(two_commits(tmp_path / "store").path)
    content = target.read_bytes()
    part = tmp_path / "part.tar"
    part.write_bytes(content[: int(len(content.rstrip(b"\0")) * share)])
    new = Store(tmp_path / "new")
    with pytest.raises((InvalidInput, StoreDamaged)):
        restore_archive(new, part)
    assert list(new.path.iterdir()) == []


def test_an_altered_backup_is_refused_wherever_it_was_altered(tmp_path: Path) -> None:
    store = two_commits(tmp_path / "store")
    target, receipts = tmp_path / "backup.tar", tmp_path / "receipts"
    receipts.write_bytes(b"of what nothing else knows the checksum")
    back_up(store, [NAME], target, [(".log/receipts", receipts)])
    content, rng = target.read_bytes(), np.random.default_rng(1)
    last = len(content.rstrip(b"\0"))
    places = [*rng.integers(last, size=40).tolist(), content.index(b"nothing else"), last + 1, len(content) - 1]
    for place in places:
        altered = bytearray(content)
        altered[place] ^= 1 << int(rng.integers(8))
        (tmp_path / "altered.tar").write_bytes(altered)
        new = Store(tmp_path / "new")
        with pytest.raises(AidreError):
            restore_archive(new, tmp_path / "altered.tar", beside=".log")
        assert list(new.path.iterdir()) == []
    for other in (content + b"\0" * 512, content[:-512], content[: last - 700]):
        (tmp_path / "altered.tar").write_bytes(other)
        with pytest.raises(AidreError):
            restore_archive(Store(tmp_path / "new"), tmp_path / "altered.tar", beside=".log")


def test_a_backup_of_an_earlier_release_has_no_last_member_and_comes_back(tmp_path: Path) -> None:
    store = two_commits(tmp_path / "store")
    old = tmp_path / "old.tar"
    with tarfile.open(saved(store.path)) as tar, tarfile.open(old, "w") as copy:
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


def of_members(path: Path, *members: tuple[str, bytes | str]) -> Path:
    """A tar of files (bytes) and links (their targets) behind a right header."""
    with tarfile.open(path, "w") as tar:
        header = orjson.dumps({"aidre_backup": 1, "created_at": "", "collections": [NAME]})
        for name, content in (("backup.json", header), *members):
            member = tarfile.TarInfo(name)
            if isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
                tar.addfile(member)
            else:
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return path


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "/tmp/evil",
        "docs/../../evil",
        "docs/segments/../../../evil",
        "docs/segments/a/..",
        "docs/segments/a//b",
        "docs/segments/.hidden/b",
        "docs/CURRENT",
        "docs/other/a",
        "docs/manifests/deep/a.json",
        "other/manifests/000001.json",
        ".log/a/b/c",
        ".ssh/a",
        "docs",
        "docs/segments/" + "a" * 300 + "/b",
    ],
)
def test_a_member_that_no_backup_has_is_refused(tmp_path: Path, name: str) -> None:
    hostile = of_members(tmp_path / "evil.tar", (name, b"evil"))
    new = Store(tmp_path / "deep" / "new")
    with pytest.raises(InvalidInput, match="nothing was restored"):
        restore_archive(new, hostile, beside=".log")
    assert list(new.path.iterdir()) == []
    assert {one.name for one in tmp_path.iterdir()} == {"evil.tar", "deep"}


def test_links_and_doubles_are_refused(tmp_path: Path) -> None:
    new = Store(tmp_path / "new")
    with pytest.raises(InvalidInput):
        restore_archive(new, of_members(tmp_path / "a.tar", ("docs/manifests/000001.json", "/etc/passwd")))
    double = ("docs/manifests/000001.json", b"{}")
    with pytest.raises(InvalidInput, match="twice"):
        restore_archive(new, of_members(tmp_path / "b.tar", double, double))
    with pytest.raises(InvalidInput, match="one generation"):
        restore_archive(new, of_members(tmp_path / "c.tar"))
    with pytest.raises(StoreDamaged):
        restore_archive(new, of_members(tmp_path / "d.tar", double))


@pytest.mark.parametrize("write_file", [lambda path: path.write_bytes(b"x" * 5_000), lambda path: path.touch()])
def test_what_is_no_backup_is_refused(tmp_path: Path, write_file: Callable[[Path], object]) -> None:
    other = tmp_path / "other.tar"
    write_file(other)
    with pytest.raises(InvalidInput, match="not a"):
        restore_archive(Store(tmp_path / "new"), other)
    with pytest.raises(Missing):
        restore_archive(Store(tmp_path / "new"), tmp_path / "none.tar")


def test_a_backup_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "new.tar"
    with tarfile.open(path, "w") as tar:
        content = orjson.dumps({"aidre_backup": 2, "collections": []})
        member = tarfile.TarInfo("backup.json")
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    with pytest.raises(FormatTooNew, match="upgrade"):
        restore_archive(Store(tmp_path / "new"), path)


def test_a_scan_comes_back_without_being_built_again(tmp_path: Path) -> None:
    path, vectors = tmp_path / "store", structured(2_500, 768)
    space = EmbeddingSpace("wide", 768, "cosine")
    before = fill(path, space, vectors, finish=True)
    new = Store(tmp_path / "new")
    restore_archive(new, saved(path))
    after = new.open(NAME)
    assert before.space("wide").calibration == after.space("wide").calibration
    assert after.segments[0].segment.scans.keys() == before.segments[0].segment.scans.keys() == {"wide"}
