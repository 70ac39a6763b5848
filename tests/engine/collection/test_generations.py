"""How one generation follows another: what a refused disk leaves, when segments are merged, how a first load ends."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aidre.engine.collection import garbage, generations
from aidre.engine.collection.generations import MAX_SEGMENTS
from aidre.engine.collection.store import Store
from aidre.engine.errors import StorageFailed
from aidre.engine.maintenance.verify import verify
from aidre.engine.search import calibration
from aidre.engine.storage import durable
from tests.support.stores import NAME, ROWS, SPACE, ask, everything, names, normal, put, space_of, structured, write


@pytest.mark.slow
@pytest.mark.usefixtures("quick_calibration")
def test_large_segments_stay_and_share_the_codebook_of_the_first(
    tmp_path: Path, in_background: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "MAX_TRAINING_ROWS", 20_000)  # so that a codebook of the end would be another one
    monkeypatch.setattr(generations, "LARGE_SEGMENT_ROWS", 1_700)
    monkeypatch.setattr(generations, "LARGE_SEGMENT_ROWS", 1_700)
    space, vectors = space_of("cosine", 768), structured(5_100, 768)
    ids = names(5_100)
    with Store(tmp_path).writer(NAME, spaces=[space]) as writer:
        for start in range(0, 5_100, 1_700):
            put(writer, ids[start : start + 1_700], vectors[start : start + 1_700])
            writer.begin_commit()
            writer.wait_for_commit()
        before = {part.segment.id for part in writer.generations.segments}
        assert [space.id in part.segment.scans for part in writer.generations.segments] == [True, False, False]
        writer.finish()
        parts = writer.generations.segments
        assert {part.segment.id for part in parts} == before
        assert all(space.id in part.segment.scans for part in parts)
        assert len({part.segment.scans[space.id].codebook_key for part in parts}) == 1
    snapshot = Store(tmp_path).open(NAME)
    assert snapshot.warnings == ()
    measured = snapshot.space(space.id).calibration
    assert measured is not None
    assert (measured.kind, measured.rows) == ("scan", 5_100)
    assert all(ask(snapshot, vectors[row], 1) == [ids[row]] for row in range(0, 5_100, 300))


def test_small_segments_of_a_first_load_become_one(tmp_path: Path, in_background: None) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        for start in range(0, 60, 20):
            put(writer, names(20, start), ROWS[start : start + 20])
            writer.begin_commit()
            writer.wait_for_commit()
        writer.finish()
        assert len(writer.generations.segments) == 1
    assert everything(Store(tmp_path).open(NAME)) == names(60)


@pytest.mark.slow
def test_a_collection_of_words_alone_is_merged_and_compacted(tmp_path: Path) -> None:
    for name in names(9):
        with Store(tmp_path).writer(NAME, spaces=[]) as writer:
            put(writer, [name], {})
            writer.commit()
            writer.finish()
    assert len(Store(tmp_path).open(NAME).segments) == 3  # four become one, again and again
    with Store(tmp_path).writer(NAME, spaces=[]) as writer:
        writer.compact()
    snapshot = Store(tmp_path).open(NAME)
    assert (len(snapshot.segments), snapshot.documents) == (1, 9)


def bytes_written(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by the size of every file that is made durable from now on."""
    sizes: list[int] = []
    sync_file, replace_file = durable.sync_file, durable.replace_file

    def counted_sync(path: Path) -> None:
        sizes.append(path.stat().st_size)
        sync_file(path)

    def counted_replace(path: Path, content: bytes) -> None:
        sizes.append(len(content))
        replace_file(path, content)

    monkeypatch.setattr(durable, "sync_file", counted_sync)
    monkeypatch.setattr(durable, "replace_file", counted_replace)
    monkeypatch.setattr("os.fsync", lambda descriptor: None)  # this is about files, not about the disk
    return sizes


@pytest.mark.slow
def test_many_small_commits_leave_few_segments_and_write_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = bytes_written(monkeypatch)
    space = space_of("cosine", 384)
    rows = normal(1500, 384)
    for first in range(0, 1500, 300):
        with Store(tmp_path).writer(NAME, spaces=[space]) as writer:
            for start in range(first, first + 300, 30):
                end = start + 30
                put(writer, names(end - start, start), rows[start:end])
                writer.commit()
            writer.finish()
            assert writer.snapshot is not None
            assert len(writer.snapshot.segments) <= MAX_SEGMENTS
    final = Store(tmp_path).open(NAME)
    assert final.documents == 1500
    assert final.status()["bytes"] < sum(written) <= 8 * final.status()["bytes"]
    with Store(tmp_path).writer(NAME, spaces=[space]) as writer:
        writer.compact()
    compacted = Store(tmp_path).open(NAME)
    assert len(compacted.segments) == 1
    assert compacted.documents == 1500


@pytest.mark.slow
def test_a_first_load_waits_for_its_end_and_is_then_one_segment(tmp_path: Path) -> None:
    space = space_of("cosine", 8)
    with Store(tmp_path).writer(NAME, spaces=[space]) as writer:
        for start in range(0, 400, 40):
            put(writer, names(40, start), normal(40, 8, start))
            writer.commit()
        assert writer.snapshot is not None
        assert len(writer.snapshot.segments) == 10
        writer.finish()
    snapshot = Store(tmp_path).open(NAME)
    assert (len(snapshot.segments), snapshot.documents) == (1, 400)


def test_merging_drops_deleted_rows_and_keeps_all_others(tmp_path: Path) -> None:
    space = space_of("cosine", 8)
    rows = normal(200, 8)
    with Store(tmp_path).writer(NAME, spaces=[space]) as writer:
        for start in (0, 100):
            put(writer, names(100, start), rows[start : start + 100])
            writer.commit()
        writer.delete(names(200)[::2])
        writer.commit()
        writer.compact()
    snapshot = Store(tmp_path).open(NAME)
    assert [part.segment.entry.chunks for part in snapshot.segments] == [100]
    for row, one in enumerate(names(200)):
        chunk = snapshot.get(f"{one}#chunk_1")
        assert (chunk is None) is (row % 2 == 0)
        assert chunk is None or np.allclose(chunk.vectors()[space.id], rows[row], atol=1e-5)


@pytest.mark.slow
def test_a_disk_that_refuses_leaves_the_old_generation_and_the_next_try_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, ["a"])
    real = os.fsync
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, ["b"], ROWS[:1])
        for failing in range(1, 30):
            calls = iter(range(1, 1000))

            def refuse(descriptor: int, calls: Any = calls, failing: int = failing) -> None:
                if next(calls) == failing:
                    raise OSError(28, "No space left on device")
                real(descriptor)

            monkeypatch.setattr(os, "fsync", refuse)
            try:
                writer.commit()
            except StorageFailed as error:
                assert "No space left" in str(error)
                assert everything(Store(tmp_path).open(NAME)) in (["a"], ["a", "b"])
            else:
                break
        monkeypatch.setattr(os, "fsync", real)
    assert failing > 8
    assert everything(Store(tmp_path).open(NAME)) == ["a", "b"]
    assert all(report.ok for report in verify(Store(tmp_path)))


def test_a_try_after_an_unacknowledged_commit_touches_nothing_that_readers_may_have_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, ["a", "b"])
    real = durable.replace_file

    def named_but_not_synced(path: Path, content: bytes) -> None:
        real(path, content)
        if path.name == "CURRENT":
            raise StorageFailed("cannot write CURRENT: Input/output error")

    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        writer.delete(["a"])
        monkeypatch.setattr(durable, "replace_file", named_but_not_synced)
        with pytest.raises(StorageFailed):
            writer.commit()
        monkeypatch.setattr(durable, "replace_file", real)
        assert everything(Store(tmp_path).open(NAME)) == ["b"]
        writer.delete(["b"])
        put(writer, ["c"], ROWS[:1])
        writer.commit()
    store = Store(tmp_path)
    assert everything(store.open(NAME)) == ["c"]
    assert everything(store.open(NAME, generation=2)) == ["b"]


def test_a_sweep_that_fails_neither_fails_the_commit_nor_repeats_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        monkeypatch.setattr(garbage, "collect", refuse)
        put(writer, ["a"], ROWS[:1])
        assert writer.commit() is not None
        assert writer.commit() is None
        put(writer, ["b"], ROWS[:1])
        writer.commit()
    assert everything(Store(tmp_path).open(NAME)) == ["a", "b"]


def test_a_full_disk_is_met_before_a_merge_writes_through_a_map(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, ["a"])
    write(tmp_path, ["b"])

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        monkeypatch.setattr(os, "posix_fallocate", refuse)
        with pytest.raises(StorageFailed, match="No space left"):
            writer.compact()
        monkeypatch.undo()
        assert not list((tmp_path / NAME / "segments").glob(".*"))
        writer.compact()
        assert writer.snapshot is not None
        assert len(writer.snapshot.segments) == 1
    assert everything(Store(tmp_path).open(NAME)) == ["a", "b"]
