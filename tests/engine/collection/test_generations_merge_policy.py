"""Which segments are merged: few remain, each row is rewritten a few times, none outgrows its limit."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from aidre.engine.collection.generations import (
    LARGE_SEGMENT_ROWS,
    MAX_SEGMENTS,
    SegmentSize,
    group_by_rows,
    segments_to_merge,
)

MOST_ROWS = 1 << 21
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


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


@UNTIMED
@given(st.lists(st.integers(1, 1 << 16), max_size=80), st.integers(1 << 16, 1 << 20))
def test_merging_ends_and_loses_no_row(lives: list[int], most_rows: int) -> None:
    sizes, _ = settle([SegmentSize(live, live) for live in lives], most_rows)
    assert sum(size.live for size in sizes) == sum(lives)
    # Segments that are nearly full cannot be merged; all others stay few.
    assert len(sizes) <= MAX_SEGMENTS + 2 * math.ceil(sum(lives) / most_rows)


@pytest.mark.parametrize("more", [1, 2, 5])
def test_one_segment_too_many_merges_the_two_smallest_and_each_further_one_one_more(more: int) -> None:
    """The segments are too large for a tier."""
    lives = [LARGE_SEGMENT_ROWS + rows for rows in range(MAX_SEGMENTS + more, 0, -1)]
    sizes = [SegmentSize(live, live) for live in lives]
    assert segments_to_merge(sizes[:MAX_SEGMENTS], MOST_ROWS) == []
    chosen = segments_to_merge(sizes, MOST_ROWS)
    assert chosen == list(range(len(sizes) - more - 1, len(sizes)))
    assert len(sizes) - len(chosen) + 1 == MAX_SEGMENTS


def test_a_segment_that_is_mostly_deleted_is_rewritten_alone() -> None:
    assert segments_to_merge([SegmentSize(1000, 1000), SegmentSize(499, 1000)], MOST_ROWS) == [1]
    assert segments_to_merge([SegmentSize(1000, 1000), SegmentSize(500, 1000)], MOST_ROWS) == []


@UNTIMED
@given(st.lists(st.integers(1, 1000), max_size=50))
def test_full_compaction_keeps_the_order_and_the_limit(lives: list[int]) -> None:
    chosen = group_by_rows(lives, 1000)
    assert [place for group in chosen for place in group] == list(range(len(lives)))
    assert all(sum(lives[place] for place in group) <= 1000 for group in chosen)
