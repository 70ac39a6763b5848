"""A bonus for chunks that contain a code of the query: a part number, an error code, a version, a file name.

Models of sentences know such words badly, and in a long question the weight of their terms is one among many. A rare
code that a chunk contains whole is a stronger sign than either: its chunks join the candidates of a hybrid search, and
their score grows by

    WEIGHT * 2 * (1 - a) * max(0, 1 - 2 * ln df / ln N)

where df of the N live chunks contain all terms of the code: nothing for a code in the square root of N chunks or more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Final

import numpy as np
from numpy.typing import NDArray

from aidre.engine.index.fields import Filter
from aidre.engine.index.text import analyze_query, find_codes
from aidre.engine.search.bm25 import Statistics
from aidre.engine.segment import SegmentView

WEIGHT: Final = 0.2
"""The bonus of a code that one chunk of many contains, where a = 0.5."""

CodeChunks = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]
"""Segment ordinals, rows and bonuses (n,) of the chunks that have any, in storage order."""


def code_chunks(
    segments: Sequence[SegmentView], statistics: Statistics, text: str, *, filter: Filter | None = None
) -> CodeChunks:
    """The chunks that pass the filter and contain a code of the query, and the sum of its bonuses where a = 0.5."""
    found: list[CodeChunks] = []
    for code in find_codes(text):
        groups = list(analyze_query(code, statistics.languages))
        rows = [_rows_of(view, groups) for view in segments] if groups else []
        frequency = sum(map(len, rows))
        bonus = WEIGHT * (1 - 2 * math.log(frequency) / math.log(max(statistics.chunks, 2))) if frequency else 0.0
        if bonus > 0:
            found += [
                (np.full(len(of_segment), segment_ord), of_segment, np.full(len(of_segment), bonus))
                for segment_ord, of_segment in enumerate(rows)
                if len(of_segment)
            ]
    return _allowed(segments, _summed(found), filter)


def _rows_of(view: SegmentView, groups: Sequence[tuple[str, ...]]) -> NDArray[np.int64]:
    """The live chunks of a segment that contain a term of each group, ascending."""
    lists = []
    for terms in groups:
        present = [postings.rows for term in terms if (postings := view.postings(term)) is not None]
        if not present:
            return np.empty(0, np.int64)
        lists.append(present[0] if len(present) == 1 else reduce(np.union1d, present))
    common = reduce(lambda a, b: np.intersect1d(a, b, assume_unique=True), sorted(lists, key=len)).astype(np.int64)
    return common if view.live.mask is None else common[view.live.mask[common]]


def _summed(found: Sequence[CodeChunks]) -> CodeChunks:
    """Each chunk once, with the sum of its bonuses."""
    if not found:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    segment_ords, rows, bonuses = (np.concatenate(column) for column in zip(*found, strict=True))
    keys, inverse = np.unique(segment_ords << 32 | rows, return_inverse=True)
    sums = np.bincount(inverse, bonuses).astype(np.float64)
    return (keys >> 32).astype(np.int64), (keys & 0xFFFFFFFF).astype(np.int64), sums


def _allowed(segments: Sequence[SegmentView], chunks: CodeChunks, filter: Filter | None) -> CodeChunks:
    segment_ords, rows, bonuses = chunks
    if filter is None or not len(rows):
        return chunks
    passes = np.ones(len(rows), np.bool_)
    for segment_ord in np.unique(segment_ords).tolist():
        own, mask = segment_ords == segment_ord, segments[segment_ord].row_mask(filter)
        if mask.mask is not None:
            passes[own] = mask.mask[rows[own]]
    return segment_ords[passes], rows[passes], bonuses[passes]
