"""Codes, dates, versions and paths of a query: which chunks have them, and what that adds to their scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from aidre.engine.index.fields import Filter
from aidre.engine.index.text import find_codes, find_sequences, required_words
from aidre.engine.search import bm25
from aidre.engine.search.bm25 import Bm25Scorer, Statistics
from aidre.engine.segment import SegmentView, TopK, merge_top_k, rows_containing, rows_with

CODE_WEIGHT: Final = 0.2
"""The bonus of a code that one chunk of many contains, where a = 0.5."""

LEAST_ORDERED: Final = 0.5
"""The share of CODE_WEIGHT that a code of several parts has where it is in many chunks."""

MAX_TEXTS: Final = 1_024
"""Texts of a segment that are looked into for one code."""

LEXICAL_FACTOR: Final = 2.0
"""What a bonus weighs in lexical search. With 5 nDCG@10 falls by .005 in scientific claims, with 2 by .002."""

CodeChunks = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]
"""Segment ordinals, rows and bonuses (n,) of the chunks that have any, in storage order."""


def search_lexical(
    segments: Sequence[SegmentView], statistics: Statistics, text: str, *, k: int, filter: Filter | None = None
) -> TopK:
    """The best k of the chunks that contain a word of the query and pass the filter: by BM25, and the bonus of codes
    whose parts have an order.

    A bonus is added as LEXICAL_FACTOR times its share of the weight of all words of the query.
    """
    with_codes, code_rows, bonuses = code_chunks(segments, statistics, text, filter=filter, only_ordered=True)
    if not len(code_rows):
        return bm25.search(segments, statistics, text, k=k, filter=filter)
    scorer = Bm25Scorer(segments, statistics, text)
    segment_ords, rows, _ = scorer.top_candidates(k=k, filter=filter)
    others = ~np.isin(segment_ords << 32 | rows, with_codes << 32 | code_rows)
    segment_ords, rows = np.concatenate([segment_ords[others], with_codes]), np.concatenate([rows[others], code_rows])
    scores = scorer.score(segment_ords, rows)
    scores[len(rows) - len(code_rows) :] += LEXICAL_FACTOR * sum(word.weight for word in scorer.words) * bonuses
    return merge_top_k(segments, [segment_ords], [rows], [scores], k)


def code_chunks(
    segments: Sequence[SegmentView],
    statistics: Statistics,
    text: str,
    *,
    filter: Filter | None = None,
    only_ordered: bool = False,
) -> CodeChunks:
    """The chunks that pass the filter and contain a code of the query, and the sum of its bonuses where a = 0.5.

    Models know part numbers, versions and the like badly, and in a long question the weight of their terms is one among
    many. A chunk that contains a rare code whole is scored in any case, and its score grows by

        CODE_WEIGHT * 2 * (1 - a) * max(0, 1 - 2 * ln df / ln N)

    where df of the N live chunks contain all terms of the code: nothing for a code in the square root of N or more. Of
    codes, dates, versions, addresses and paths of several parts the texts decide: a chunk with the parts in another
    order has no bonus, and one that has them as written at least LEAST_ORDERED of CODE_WEIGHT. With `only_ordered` the
    others are left out.
    """
    sequences, found = find_sequences(text), list[CodeChunks]()
    codes = [] if only_ordered else find_codes(text)
    for code in dict.fromkeys([*codes, *sequences]):
        groups = required_words(code, statistics.languages)
        rows = [_live_rows_with(view, groups) for view in segments] if groups else []
        frequency = sum(map(len, rows))
        if not frequency:
            continue
        share = 1 - 2 * math.log(frequency) / math.log(max(statistics.chunks, 2)) if code in codes else 0.0
        if code in sequences:
            rows = [_as_written(view, of_segment, code) for view, of_segment in zip(segments, rows, strict=True)]
            share = max(share, LEAST_ORDERED)
        if share > 0:
            found += [
                (np.full(len(of_segment), segment_ord), of_segment, np.full(len(of_segment), CODE_WEIGHT * share))
                for segment_ord, of_segment in enumerate(rows)
                if len(of_segment)
            ]
    return _allowed(segments, _summed(found), filter)


def _live_rows_with(view: SegmentView, groups: Sequence[tuple[str, ...]]) -> NDArray[np.int64]:
    """The live chunks of a segment that contain a term of each group, ascending."""
    rows = rows_with(view, groups)
    return rows if view.live.mask is None else rows[view.live.mask[rows]]


def _as_written(view: SegmentView, rows: NDArray[np.int64], code: str) -> NDArray[np.int64]:
    """Those of the rows whose texts have the code; of very many the first ones are looked into."""
    return rows_containing(view, rows[:MAX_TEXTS], (code,))


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
