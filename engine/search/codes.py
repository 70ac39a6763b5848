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

MAX_TEXTS: Final = 256
"""Texts of a segment that are looked into for one code."""

ORDER_SHARE: Final = 0.5

TEXT_SECONDS: Final = 5e-7
"""About the time in which a text of some hundred characters is read and looked into for a code."""

CodeChunks = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]
"""Segment ordinals, rows and bonuses (n,) of the chunks that have any, in storage order."""


def search_lexical(
    segments: Sequence[SegmentView], statistics: Statistics, text: str, *, k: int, filter: Filter | None = None
) -> TopK:
    """The best k of the chunks that contain a word of the query and pass the filter: by BM25, and ORDER_SHARE of the
    weight of its words for each code of several parts that a chunk has as it is written."""
    sequences, found = find_sequences(text), list[CodeChunks]()
    if not sequences:
        return bm25.search(segments, statistics, text, k=k, filter=filter)
    for code in sequences:
        rows = _rows_with_code(segments, statistics, code)
        if any(map(len, rows)):
            weight = sum(word.weight for word in bm25.query_words(segments, statistics, code))
            found += _chunks_of(_as_written(segments, rows, code), ORDER_SHARE * weight)
    with_codes, code_rows, bonuses = _allowed(segments, _summed(found), filter)
    if not len(code_rows):
        return bm25.search(segments, statistics, text, k=k, filter=filter)
    scorer = Bm25Scorer(segments, statistics, text)
    best = scorer.search(k=k, filter=filter)
    keys, code_keys = best.segment_ords << 32 | best.rows, with_codes << 32 | code_rows
    others = code_keys.take(code_keys.searchsorted(keys), mode="clip") != keys
    return merge_top_k(
        segments,
        [best.segment_ords[others], with_codes],
        [best.rows[others], code_rows],
        [best.scores[others], scorer.score(with_codes, code_rows) + bonuses],
        k,
    )


def code_chunks(
    segments: Sequence[SegmentView], statistics: Statistics, text: str, *, filter: Filter | None = None
) -> CodeChunks:
    """The chunks that pass the filter and contain a code of the query, and the sum of its bonuses where a = 0.5.

    Models know part numbers, versions and the like badly, and in a long question the weight of their terms is one among
    many. A chunk that contains a rare code whole is scored in any case, and its score grows by

        CODE_WEIGHT * 2 * (1 - a) * max(0, 1 - 2 * ln df / ln N)

    where df of the N live chunks contain all terms of the code: nothing for a code in the square root of N or more. Of
    codes, dates, versions, addresses and paths of several parts the texts decide: a chunk with the parts in another
    order has no bonus, and one that has them as written at least LEAST_ORDERED of CODE_WEIGHT.
    """
    codes, sequences, found = find_codes(text), find_sequences(text), list[CodeChunks]()
    for code in dict.fromkeys([*codes, *sequences]):
        rows = _rows_with_code(segments, statistics, code)
        frequency = sum(map(len, rows))
        if not frequency:
            continue
        share = 1 - 2 * math.log(frequency) / math.log(max(statistics.chunks, 2)) if code in codes else 0.0
        if code in sequences:
            rows, share = _as_written(segments, rows, code), max(share, LEAST_ORDERED)
        if share > 0:
            found += _chunks_of(rows, CODE_WEIGHT * share)
    return _allowed(segments, _summed(found), filter)


def estimate_codes(segments: Sequence[SegmentView], statistics: Statistics, text: str) -> float:
    """Seconds in which the texts are looked into that may have a code of several parts: at most as many in a segment as
    contain its rarest word."""
    texts = 0
    for code in find_sequences(text):
        groups = required_words(code, statistics.languages)
        texts += sum(min(MAX_TEXTS, _least_frequency(view, groups)) for view in segments) if groups else 0
    return texts * TEXT_SECONDS


def _least_frequency(view: SegmentView, groups: Sequence[tuple[str, ...]]) -> int:
    return min(
        sum(len(postings.rows) for term in terms if (postings := view.postings(term)) is not None) for terms in groups
    )


def _chunks_of(rows: Sequence[NDArray[np.int64]], bonus: float) -> list[CodeChunks]:
    """The rows of each segment with their bonus."""
    return [
        (np.full(len(of_segment), segment_ord), of_segment, np.full(len(of_segment), bonus))
        for segment_ord, of_segment in enumerate(rows)
        if len(of_segment)
    ]


def _rows_with_code(segments: Sequence[SegmentView], statistics: Statistics, code: str) -> list[NDArray[np.int64]]:
    """The live chunks of each segment that contain all terms of a code, ascending."""
    groups = required_words(code, statistics.languages)
    if not groups:
        return []
    found = [rows_with(view, groups) for view in segments]
    return [
        rows if view.live.mask is None else rows[view.live.mask[rows]]
        for view, rows in zip(segments, found, strict=True)
    ]


def _as_written(
    segments: Sequence[SegmentView], rows: Sequence[NDArray[np.int64]], code: str
) -> list[NDArray[np.int64]]:
    """The rows whose texts have the code; of very many rows only the first are read."""
    pairs = zip(segments, rows, strict=True)
    return [rows_containing(view, of_segment[:MAX_TEXTS], code) for view, of_segment in pairs]


def _summed(found: Sequence[CodeChunks]) -> CodeChunks:
    """Each chunk once, with the sum of its bonuses."""
    if not found:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    if len(found) == 1:
        return found[0]
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
