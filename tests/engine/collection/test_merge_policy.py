"""Which segments are merged: few remain, each row is rewritten a few times, none outgrows its limit."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from aidre.engine.collection.merge_policy import MAX_SEGMENTS, SegmentSize, group_by_rows, segments_to_merge
from aidre.engine.collection.store import Store
from aidre.engine.storage import durable
from tests.support.stores import NAME, names, normal, put, space_of

MOST_ROWS = 1 << 21


def settle(sizes: list[SegmentSize], most_rows: int = MOST_ROWS) -> tuple[list[SegmentSize], int]:
    """Merge until nothing asks for it; answers the segments and how many rows were rewritten."""
    rewritten = 0
    for _ in range(1000):
        chosen = segments_to_merge(sizes, most_rows)
        if not chosen:
            return sizes, rewritten
        live = sum(sizes[place].live for place in chosen)
        assert live <= most_rows
        rewritten += live
        sizes = [size for place, size in enumerate(sizes) if place not in chosen] + [SegmentSize(live, live)]
    raise AssertionError("merging does not end")


def test_a_collection_of_words_alone_is_merged_and_compacted(tmp_path: Path) -> None:
    for name in names(MAX_SEGMENTS + 3):
        with Store(tmp_path).writer(NAME, spaces=[]) as writer:
            put(writer, [name], {})
            writer.commit()
            writer.finish()
    assert 1 < len(Store(tmp_path).open(NAME).segments) <= MAX_SEGMENTS
    with Store(tmp_path).writer(NAME, spaces=[]) as writer:
        writer.compact()
    snapshot = Store(tmp_path).open(NAME)
    assert (len(snapshot.segments), snapshot.documents) == (1, MAX_SEGMENTS + 3)


@pytest.mark.parametrize("rows", [64, 100, 3000])
def test_a_thousand_commits_leave_few_segments_and_rewrite_a_row_a_few_times(rows: int) -> None:
    sizes: list[SegmentSize] = []
    rewritten = 0
    for _ in range(1000):
        sizes, more = settle([*sizes, SegmentSize(rows, rows)])
        rewritten += more
        assert len(sizes) <= MAX_SEGMENTS
    assert sum(size.live for size in sizes) == 1000 * rows
    assert rewritten <= 6 * 1000 * rows


@given(st.lists(st.integers(1, 1 << 16), max_size=80), st.integers(1 << 16, 1 << 20))
def test_merging_ends_and_loses_no_row(lives: list[int], most_rows: int) -> None:
    sizes, _ = settle([SegmentSize(live, live) for live in lives], most_rows)
    assert sum(size.live for size in sizes) == sum(lives)
    # Segments that are nearly full cannot be merged; all others stay few.
    assert len(sizes) <= MAX_SEGMENTS + 2 * math.ceil(sum(lives) / most_rows)


def test_a_segment_that_is_mostly_deleted_is_rewritten_alone() -> None:
    assert segments_to_merge([SegmentSize(1000, 1000), SegmentSize(499, 1000)], MOST_ROWS) == [1]
    assert segments_to_merge([SegmentSize(1000, 1000), SegmentSize(500, 1000)], MOST_ROWS) == []


@given(st.lists(st.integers(1, 1000), max_size=50))
def test_full_compaction_keeps_the_order_and_the_limit(lives: list[int]) -> None:
    chosen = group_by_rows(lives, 1000)
    assert [place for group in chosen for place in group] == list(range(len(lives)))
    assert all(sum(lives[place] for place in group) <= 1000 for group in chosen)


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


def test_hundreds_of_small_commits_leave_few_segments_and_write_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = bytes_written(monkeypatch)
    space = space_of("cosine", 384)
    rows = normal(3000, 384)
    for first in range(0, 3000, 500):
        with Store(tmp_path).writer(NAME, spaces=[space]) as writer:
            for start in range(first, first + 500, 30):
                end = min(start + 30, first + 500)
                put(writer, names(end - start, start), rows[start:end])
                writer.commit()
            writer.finish()
            assert writer.snapshot is not None
            assert len(writer.snapshot.segments) <= MAX_SEGMENTS
    final = Store(tmp_path).open(NAME)
    assert final.documents == 3000
    assert sum(written) <= 8 * final.status()["bytes"]
    with Store(tmp_path).writer(NAME, spaces=[space]) as writer:
        writer.compact()
    compacted = Store(tmp_path).open(NAME)
    assert len(compacted.segments) == 1
    assert compacted.documents == 3000


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
