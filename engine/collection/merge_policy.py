"""Merge policy: which segments to merge after a commit. A pure function of segment sizes.

Tiered by size, as in Lucene and tantivy: a segment of n live rows is in tier log4(n), and four segments of a tier are
merged into one of the next tier. So every row is rewritten about log4(rows) times and few segments remain. Large
segments are in no tier: a search spends so long in each that their number matters little.

A segment is named by its `segment_ord`, its position among the sizes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

FAN_IN = 4
MAX_SEGMENTS = 24
LARGE_SEGMENT_ROWS = 3 << 15
"""Rows from which a segment is large. A bulk load holds up to twice as many in memory: pending, and being committed."""

_MIN_TIER_ROWS = 64
"""Smaller segments are all in the lowest tier."""
_MAX_DELETED_SHARE = 0.5
"""A segment with a larger share of deleted rows is rewritten."""


@dataclass(frozen=True, slots=True)
class SegmentSize:
    """Live rows, and all rows with the deleted ones."""

    live: int
    rows: int


def tier(live: int) -> int:
    return int(math.log(max(live, _MIN_TIER_ROWS), FAN_IN))


def segments_to_merge(sizes: Sequence[SegmentSize], max_rows: int) -> list[int]:
    """The ords of segments to merge into one of at most `max_rows` rows now; [] where no merge is due.

    In this order: a full tier, more than MAX_SEGMENTS segments, and a segment that is mostly deleted, alone.
    """
    tiers: dict[int, list[int]] = {}
    for segment_ord, size in enumerate(sizes):
        if size.live < LARGE_SEGMENT_ROWS:
            tiers.setdefault(tier(size.live), []).append(segment_ord)
    for _, ords in sorted(tiers.items()):
        if len(ords) >= FAN_IN and (chosen := _fitting_prefix(ords, sizes, max_rows)):
            return chosen
    if len(sizes) > MAX_SEGMENTS:
        smallest = sorted(range(len(sizes)), key=lambda segment_ord: sizes[segment_ord].live)
        if chosen := _fitting_prefix(smallest[: len(sizes) - MAX_SEGMENTS + 1], sizes, max_rows):
            return chosen
    sparse = [i for i, size in enumerate(sizes) if size.live < size.rows * (1 - _MAX_DELETED_SHARE)]
    return sparse[:1]


def _fitting_prefix(ords: Sequence[int], sizes: Sequence[SegmentSize], max_rows: int) -> list[int]:
    """The longest prefix whose live rows fit one segment, sorted; [] where not even two segments do."""
    chosen, rows = [], 0
    for segment_ord in ords:
        if rows + sizes[segment_ord].live > max_rows:
            break
        chosen.append(segment_ord)
        rows += sizes[segment_ord].live
    return sorted(chosen) if len(chosen) > 1 else []


def group_by_rows(live_rows: Sequence[int], max_rows: int) -> list[list[int]]:
    """All segments in consecutive groups of at most `max_rows` live rows; a larger segment is a group of its own."""
    groups: list[list[int]] = []
    rows = max_rows + 1
    for segment_ord, live in enumerate(live_rows):
        if rows + live > max_rows:
            groups.append([])
            rows = 0
        groups[-1].append(segment_ord)
        rows += live
    return groups
