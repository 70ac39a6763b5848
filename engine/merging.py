"""Which segments to merge after a commit. Knows no file.

Tiers by size (Lucene's and tantivy's idea): a segment of n live rows is in tier log4(n), and four of a tier
become one of the next, so every row is rewritten about log4(rows) times and few segments remain. A large segment is
searched so long that there being several costs little: it is left as it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

FAN_IN = 4
MOST_SEGMENTS = 24
LARGE = 3 << 15
"""Rows from which a segment is large. A bulk load holds twice as many in memory, those of a commit under way too."""

_SMALLEST = 64
_SPARSE = 0.5


@dataclass(frozen=True, slots=True)
class Size:
    """A segment as merging sees it: its live rows, and all rows it holds."""

    live: int
    rows: int


def tier(live: int) -> int:
    return int(math.log(max(live, _SMALLEST), FAN_IN))


def to_merge(sizes: Sequence[Size], most_rows: int) -> list[int]:
    """Places of the segments to merge into one now, [] when there is nothing to do.

    A segment that is more than half deleted is rewritten alone.
    """
    tiers: dict[int, list[int]] = {}
    for place, size in enumerate(sizes):
        if size.live < LARGE:
            tiers.setdefault(tier(size.live), []).append(place)
    for _, places in sorted(tiers.items()):
        if len(places) >= FAN_IN and (chosen := _fitting(places, sizes, most_rows)):
            return chosen
    if len(sizes) > MOST_SEGMENTS:
        smallest = sorted(range(len(sizes)), key=lambda place: sizes[place].live)
        if chosen := _fitting(smallest[: len(sizes) - MOST_SEGMENTS + 1], sizes, most_rows):
            return chosen
    return [place for place, size in enumerate(sizes) if size.live < size.rows * (1 - _SPARSE)][:1]


def _fitting(places: Sequence[int], sizes: Sequence[Size], most_rows: int) -> list[int]:
    """The longest beginning of `places` that fits one segment, [] where not even two do."""
    chosen, rows = [], 0
    for place in places:
        if rows + sizes[place].live > most_rows:
            break
        chosen.append(place)
        rows += sizes[place].live
    return sorted(chosen) if len(chosen) > 1 else []


def groups(lives: Sequence[int], most_rows: int) -> list[list[int]]:
    """All segments in groups of at most `most_rows` live rows each: full compaction."""
    result: list[list[int]] = []
    rows = most_rows + 1
    for place, live in enumerate(lives):
        if rows + live > most_rows:
            result.append([])
            rows = 0
        result[-1].append(place)
        rows += live
    return result
