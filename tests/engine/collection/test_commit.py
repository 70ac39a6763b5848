"""Commits: what they list, and those that are under way while the writer goes on."""

from __future__ import annotations

import errno
import subprocess
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from aidre.engine.collection.commit import Committer
from aidre.engine.collection.store import Store
from aidre.engine.errors import StorageFailed
from aidre.engine.maintenance.verify import verify
from aidre.engine.storage import durable
from aidre.engine.storage.lock import WriterLock
from tests.support.clocks import WAIT_SECONDS
from tests.support.stores import NAME, ROWS, SPACE, everything, names, put, record, write

# -- commits under way -----------------------------------------------------------------------------------------


@pytest.mark.process
def test_a_commit_under_way_is_looked_into(tmp_path: Path, worker_processes: None) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, names(20), ROWS[:20])
        assert writer.begin_commit() is None
        known = writer.fingerprints([*names(20), "other"])
        assert [mark is not None for mark in known] == [True] * 20 + [False]
        put(writer, [names(20)[3], "new"], ROWS[20:22])
        settled = writer.wait_for_commit()
        assert settled is not None and settled.documents == 20
        assert writer.wait_for_commit() is None
        result = writer.commit()
        assert result is not None and result.documents == 21
        writer.finish()
    assert everything(Store(tmp_path).open(NAME)) == sorted([*names(20), "new"])
    assert [report.problems for report in verify(Store(tmp_path))] == [()]


def test_what_is_deleted_waits_for_a_commit_under_way(tmp_path: Path, in_background: None) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, names(5), ROWS[:5])
        writer.begin_commit()
        assert writer.delete(names(2)) == 2
        writer.commit()
    assert everything(Store(tmp_path).open(NAME)) == names(5)[2:]


def test_a_commit_under_way_that_fails_is_told_of_and_leaves_the_store_as_it_was(
    tmp_path: Path, in_background: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    real = durable.publish_folder

    def refuse(temporary: Path, final: Path) -> None:
        raise StorageFailed("cannot write: No space left on device")

    with store.writer(NAME, spaces=[SPACE]) as writer:
        put(writer, ["a"], ROWS[:1])
        writer.commit()
        monkeypatch.setattr(durable, "publish_folder", refuse)
        put(writer, ["b"], ROWS[1:2])
        writer.begin_commit()
        with pytest.raises(StorageFailed, match="No space left"):
            writer.wait_for_commit()
        monkeypatch.setattr(durable, "publish_folder", real)
        assert writer.fingerprints(["b"]) == [None]
        put(writer, ["c"], ROWS[2:3])
        writer.commit()
    assert everything(store.open(NAME)) == ["a", "c"]
    assert not list((tmp_path / NAME / "segments").glob(".*"))


def test_a_writer_that_is_left_waits_for_its_commit_before_it_frees_the_lock(
    tmp_path: Path, in_background: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, close, free = durable.publish_folder, Committer.close, WriterLock.__exit__
    publishing, leaving, done = threading.Event(), threading.Event(), list[str]()

    def slowly(temporary: Path, final: Path) -> None:
        publishing.set()
        assert leaving.wait(WAIT_SECONDS)
        real(temporary, final)
        done.append("published")

    def left(committer: Committer) -> None:
        leaving.set()
        close(committer)

    def freed(lock: WriterLock, *error: Any) -> None:
        done.append("freed")
        free(lock, *error)

    monkeypatch.setattr(durable, "publish_folder", slowly)
    monkeypatch.setattr(Committer, "close", left)
    monkeypatch.setattr(WriterLock, "__exit__", freed)
    store = Store(tmp_path)
    with pytest.raises(KeyboardInterrupt), store.writer(NAME, spaces=[SPACE]) as writer:
        put(writer, ["a"], ROWS[:1])
        writer.begin_commit()
        assert publishing.wait(WAIT_SECONDS)
        raise KeyboardInterrupt
    assert done == ["published", "freed"]
    with store.writer(NAME, spaces=[SPACE]) as writer:
        put(writer, ["b"], ROWS[1:2])
        writer.commit()
    assert everything(store.open(NAME)) == ["a", "b"]
    assert [report.problems for report in verify(store)] == [()]
    assert not list((tmp_path / NAME / "segments").glob(".*"))


def test_what_was_begun_is_durable_or_told_of_when_the_writer_is_left(
    tmp_path: Path, in_background: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    with store.writer(NAME, spaces=[SPACE]) as writer:
        put(writer, ["a"], ROWS[:1])
        writer.begin_commit()
    assert everything(store.open(NAME)) == ["a"]

    def refuse(temporary: Path, final: Path) -> None:
        raise StorageFailed("cannot write: No space left on device")

    monkeypatch.setattr(durable, "publish_folder", refuse)
    with pytest.raises(StorageFailed, match="No space left"), Store(tmp_path).writer("b", spaces=[SPACE]) as writer:
        put(writer, ["b"], ROWS[1:2])
        writer.begin_commit()
    with store.writer("b", spaces=[SPACE]):
        assert store.collections() == [NAME]


@pytest.mark.parametrize("started", [0, pytest.param(1, marks=pytest.mark.process)])
def test_where_no_process_can_be_started_a_commit_does_without(
    tmp_path: Path, worker_processes: None, monkeypatch: pytest.MonkeyPatch, started: int
) -> None:
    begun: list[subprocess.Popen[bytes]] = []
    real: Any = subprocess.Popen

    def limited(*arguments: Any, **options: Any) -> Any:
        if len(begun) == started:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        begun.append(real(*arguments, **options))
        return begun[-1]

    monkeypatch.setattr(subprocess, "Popen", limited)
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, names(5), ROWS[:5])
        writer.begin_commit()
    assert len(begun) == started
    assert everything(Store(tmp_path).open(NAME)) == names(5)


# -- what a commit writes --------------------------------------------------------------------------------------


def test_a_commit_does_not_write_into_files_that_an_interrupted_one_left(tmp_path: Path) -> None:
    """They are read-only: writing in place would fail for everyone but root."""
    write(tmp_path, ["a", "b"])
    left = [tmp_path / NAME / folder / "000002.arrow" for folder in ("changes", "deletes")]
    for path in left:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"left by a writer that was killed")
        path.chmod(0o444)
    with left[0].open("rb") as changes, left[1].open("rb") as deletes:
        with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
            writer.delete(["a"])
            writer.commit()
        assert changes.read() == deletes.read() == b"left by a writer that was killed"
    assert everything(Store(tmp_path).open(NAME)) == ["b"]
    assert [report.problems for report in verify(Store(tmp_path))] == [()]


def changes(path: Path, generation: int) -> set[tuple[str, str]]:
    with pa.memory_map(str(path / NAME / "changes" / f"{generation:06d}.arrow")) as source:
        table = pa.ipc.open_file(source).read_all()
    return set(zip(table["op"].to_pylist(), table["chunk_id"].to_pylist(), strict=True))


def test_each_commit_lists_what_it_did_and_a_merge_lists_nothing(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, [record("a", ["one ", "two"]), "b", "c"], ROWS[:4])
        writer.commit()
        put(writer, [record("a", ["three"]), "d"], ROWS[:2])
        writer.delete(["b"])
        writer.commit()
        writer.compact()
        writer.delete(["c"])
        writer.commit()
    assert changes(tmp_path, 1) == {("add", f"{one}#chunk_1") for one in "abc"} | {("add", "a#chunk_2")}
    assert changes(tmp_path, 2) == {
        ("change", "a#chunk_1"),
        ("delete", "a#chunk_2"),
        ("add", "d#chunk_1"),
        ("delete", "b#chunk_1"),
    }
    assert not (tmp_path / NAME / "changes" / "000003.arrow").exists()
    assert changes(tmp_path, 4) == {("delete", "c#chunk_1")}
