"""Commits that are under way while the writer goes on, and the processes that make what is derived."""

from __future__ import annotations

import errno
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aidre.engine.collection import commit, generations, merge_policy
from aidre.engine.collection.store import Store
from aidre.engine.errors import AidreError, StorageFailed
from aidre.engine.maintenance.verify import verify
from aidre.engine.segment import build
from aidre.engine.segment.build import Task, build_file
from aidre.engine.segment.workers import Workers
from aidre.engine.storage import durable
from aidre.engine.storage.arrow import FileEntry
from tests.support.stores import NAME, ROWS, SPACE, ask, everything, names, put


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every commit of a first bulk load goes on ahead, and processes make what is derived."""
    monkeypatch.setattr(commit, "MIN_BACKGROUND_ROWS", 1)
    monkeypatch.setattr(commit, "MIN_WORKER_ROWS", 1)
    monkeypatch.setattr(commit, "available_cores", lambda: 2)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """The folder of a segment that is being written: its truth alone."""
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, names(40), ROWS[:40])
        writer.commit()
        assert writer.snapshot is not None
        folder = tmp_path / NAME / "segments" / writer.snapshot.segments[0].segment.id
        for name in ("ids.arrow", "fields.arrow", "lexicon.arrow"):
            (folder / name).unlink()
        yield folder


def tasks(place: Path) -> list[Task]:
    return [Task(str(place), what) for what in build.ROW_FILES]


def in_this_process(place: Path) -> dict[str, FileEntry]:
    return dict(build_file(task) for task in tasks(place))


def test_a_worker_that_ends_costs_no_file(place: Path) -> None:
    wanted = in_this_process(place)
    some = Workers(2)
    try:
        for task in tasks(place):
            some.submit(task)
        for worker in some._workers:
            worker._process.kill()
        assert some.results() == wanted
        for task in tasks(place):
            some.submit(task)
        assert some.results() == wanted
    finally:
        some.close()
        some.close_pipes()


def test_a_worker_that_fails_says_so_where_the_reason_can_be_seen(place: Path) -> None:
    (place / "documents.arrow").unlink()
    some = Workers(1)
    try:
        for task in tasks(place):
            some.submit(task)
        with pytest.raises((OSError, AidreError)):
            some.results()
    finally:
        some.close()
        some.close_pipes()


def test_workers_that_were_closed_make_nothing_more(place: Path) -> None:
    some = Workers(1)
    some.submit(tasks(place)[0])
    some.close()
    with pytest.raises(StorageFailed):
        some.results()
    some.close_pipes()


def test_a_worker_ends_with_the_process_that_started_it() -> None:
    script = (
        "import os, sys\nfrom aidre.engine.segment.workers import Workers\nsome = Workers(2)\n"
        "print(*(worker._process.pid for worker in some._workers), flush=True)\nsys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pids = [int(pid) for pid in process.stdout.readline().split()]
        assert len(pids) == 2
        process.kill()
        process.wait()
        for _ in range(500):
            left = [pid for pid in pids if is_running(pid)]
            if not left:
                break
            time.sleep(0.02)
        assert not left


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


# -- commits under way -----------------------------------------------------------------------------------------


def test_a_commit_under_way_is_looked_into(tmp_path: Path, shared: None) -> None:
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


def test_what_is_deleted_waits_for_a_commit_under_way(tmp_path: Path, shared: None) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, names(5), ROWS[:5])
        writer.begin_commit()
        assert writer.delete(names(2)) == 2
        writer.commit()
    assert everything(Store(tmp_path).open(NAME)) == names(5)[2:]


def test_a_commit_under_way_that_fails_is_told_of_and_leaves_the_store_as_it_was(
    tmp_path: Path, shared: None, monkeypatch: pytest.MonkeyPatch
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
    tmp_path: Path, shared: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = durable.publish_folder

    def slowly(temporary: Path, final: Path) -> None:
        time.sleep(0.2)
        real(temporary, final)

    monkeypatch.setattr(durable, "publish_folder", slowly)
    store = Store(tmp_path)
    with pytest.raises(KeyboardInterrupt), store.writer(NAME, spaces=[SPACE]) as writer:
        put(writer, ["a"], ROWS[:1])
        writer.begin_commit()
        raise KeyboardInterrupt
    with store.writer(NAME, spaces=[SPACE]) as writer:
        put(writer, ["b"], ROWS[1:2])
        writer.commit()
    assert [report.problems for report in verify(store)] == [()]
    assert not list((tmp_path / NAME / "segments").glob(".*"))


def test_what_was_begun_is_durable_or_told_of_when_the_writer_is_left(
    tmp_path: Path, shared: None, monkeypatch: pytest.MonkeyPatch
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


@pytest.mark.parametrize("started", [0, 1])
def test_where_no_process_can_be_started_a_commit_does_without(
    tmp_path: Path, shared: None, monkeypatch: pytest.MonkeyPatch, started: int
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


# -- how a first load ends -------------------------------------------------------------------------------------


def test_large_segments_stay_and_share_the_codebook_of_the_first(
    tmp_path: Path, shared: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.support.stores import space_of, structured

    monkeypatch.setattr(merge_policy, "LARGE_SEGMENT_ROWS", 6000)
    monkeypatch.setattr(generations, "LARGE_SEGMENT_ROWS", 6000)
    space, vectors = space_of("cosine", 256), structured(18_000, 256)
    ids = names(18_000)
    with Store(tmp_path).writer(NAME, spaces=[space]) as writer:
        for start in range(0, 18_000, 6000):
            put(writer, ids[start : start + 6000], vectors[start : start + 6000])
            writer.begin_commit()
            writer.wait_for_commit()
        before = {part.segment.id for part in writer.generations.segments}
        assert [space.id in part.segment.scans for part in writer.generations.segments] == [True, False, False]
        writer.finish()
        parts = writer.generations.segments
        assert {part.segment.id for part in parts} == before
        assert all(space.id in part.segment.scans for part in parts)
        assert len({part.segment.trained_rows[space.id] for part in parts}) == 1
    snapshot = Store(tmp_path).open(NAME)
    assert snapshot.warnings == ()
    calibration = snapshot.space(space.id).calibration
    assert calibration is not None
    assert (calibration.kind, calibration.rows) == ("scan", 18_000)
    assert all(ask(snapshot, vectors[row], 1) == [ids[row]] for row in range(0, 18_000, 900))


def test_small_segments_of_a_first_load_become_one(tmp_path: Path, shared: None) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        for start in range(0, 60, 20):
            put(writer, names(20, start), ROWS[start : start + 20])
            writer.begin_commit()
            writer.wait_for_commit()
        writer.finish()
        assert len(writer.generations.segments) == 1
    assert everything(Store(tmp_path).open(NAME)) == names(60)
