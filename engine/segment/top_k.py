"""The best k hits of several segments, ordered by score and then by chunk id.

The merge is associative: hits that were merged before can be merged again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aidre.engine.segment.view import SegmentView


@dataclass(frozen=True, slots=True)
class TopK:
    """Hits, best first: for each the ordinal of its segment in the generation, its chunk row and its score."""

    segment_ords: NDArray[np.int64]
    rows: NDArray[np.int64]
    scores: NDArray[np.float64]


def merge_top_k(
    segments: Sequence[SegmentView],
    segment_ords: Sequence[NDArray[np.int64]],
    rows: Sequence[NDArray[np.int64]],
    scores: Sequence[NDArray[np.float64]],
    k: int,
) -> TopK:
    """The best `k` hits of several lists; list n is `segment_ords[n]`, `rows[n]` and `scores[n]`, of one length.

    Larger scores are better, and ties go to the smaller chunk id, in order of its UTF-8 bytes.
    """
    if not segment_ords:
        return TopK(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    if len(segment_ords) == 1:
        segment_ord, row, score = segment_ords[0], rows[0], scores[0]
    else:
        segment_ord, row, score = np.concatenate(segment_ords), np.concatenate(rows), np.concatenate(scores)
    if (score[1:] < score[:-1]).all():  # in descending order without ties already
        return TopK(segment_ord[:k], row[:k], score[:k])
    order = _select(segments, segment_ord, row, score, k)
    return TopK(segment_ord[order], row[order], score[order])


def _select(
    segments: Sequence[SegmentView],
    segment_ord: NDArray[np.int64],
    row: NDArray[np.int64],
    scores: NDArray[np.float64],
    k: int,
) -> NDArray[np.int64]:
    """The indices of the best `k` hits by (-score, chunk id). Reads ids only where scores tie."""
    order = np.argsort(-scores, kind="stable")
    if len(order) > k:
        order = order[: int(np.searchsorted(-scores[order], -scores[order[k - 1]], side="right"))]
    sorted_scores = scores[order]
    if not (sorted_scores[1:] == sorted_scores[:-1]).any():
        return order[:k]
    # Within a segment the stored rank of an id breaks a tie; ids are compared only between segments.
    ranks = np.empty(len(order), dtype=np.uint32)
    for ord_ in np.unique(segment_ord[order]):
        is_own = segment_ord[order] == ord_
        ranks[is_own] = segments[ord_].segment.ids.ranks[row[order][is_own]]
    order = order[np.lexsort((ranks, segment_ord[order], -sorted_scores))]
    order = order[_first_of_each_run(segment_ord[order], scores[order], k)]
    keys = [(-scores[i], segments[segment_ord[i]].segment.chunks.bytes("id")[row[i]]) for i in order.tolist()]
    return order[sorted(range(len(keys)), key=keys.__getitem__)][:k]


def _first_of_each_run(segment_ord: NDArray[np.int64], scores: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """At most `k` hits of each run of one segment and score, so that a tie of thousands reads few ids."""
    starts = np.flatnonzero(np.r_[True, (segment_ord[1:] != segment_ord[:-1]) | (scores[1:] != scores[:-1])])
    within = np.arange(len(segment_ord)) - np.repeat(starts, np.diff(np.r_[starts, len(segment_ord)]))
    return np.flatnonzero(within < k)
