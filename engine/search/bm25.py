"""BM25 over the segments of a generation: every chunk that contains a word of the query, with its exact score.

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), with Lucene's idf and without
the constant factor K1 + 1: score = sum of idf * tf / (tf + K1 * (1 - B + B * length / mean length)). Document
frequencies and lengths are those of all live chunks of the generation, so no score depends on segments, deleted rows or
the filter.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from aidre.engine.index.fields import Filter
from aidre.engine.index.text import REQUEST_WORDS, Postings, QueryTerms, english_terms, query_terms
from aidre.engine.segment import SegmentView, TopK, merge_top_k

K1: Final = 1.2
B: Final = 0.75
DELTA: Final = 0.2
"""What a term adds at least, as a share of its weight, in hybrid search: BM25+ of Lv and Zhai, "Lower-Bounding Term
Frequency Normalization" (2011). There long chunks gain by it; in lexical search it costs relevance."""

ROUNDING: Final = 1e-5
"""Bound on the relative error of a sum in float32. Final scores are summed in float64, in the order of words."""

_BLOCK_ROWS: Final = 1 << 17
"""Rows of a large segment scored at once: their sums stay in the cache."""

_SMALL_SEGMENT_ROWS: Final = 1 << 16
"""Rows; a segment with no more is scored whole: that takes less time than finding posting lists that can be skipped."""

_SMALL_BLOCK_ROWS: Final = 1 << 16
"""Rows of the concatenated small segments from which hits are selected at once."""

_MAX_CACHED_POSTINGS: Final = 1 << 20
"""Postings of small segments, sixteen bytes each, whose term weights are cached for the next queries."""

_LOOKUP_COST: Final = 6
"""Postings that are added up in the time in which one is looked up."""

_SMALLEST_SCORE: Final = 5e-324
"""The smallest float64 above 0."""

Scores = NDArray[np.float64]
"""A score (n,) for each of n chunks, 0 where a chunk contains no word of the query."""


# -- statistics --------------------------------------------------------------------------------------------


class Statistics:
    """Statistics of a generation's live chunks for BM25, computed on first use."""

    def __init__(self, segments: Sequence[SegmentView]) -> None:
        self._segments = segments
        self._half_weight_counts: dict[str, NDArray[np.float32]] = {}

    @cached_property
    def chunks(self) -> int:
        return sum(view.live.count for view in self._segments)

    @cached_property
    def mean_length(self) -> float:
        """Terms a chunk."""
        return sum(view.total_terms for view in self._segments) / max(1, self.chunks)

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """Tags of the languages of live chunks, sorted."""
        return tuple(sorted({tag for view in self._segments for tag in view.languages}))

    @cached_property
    def chunks_by_language(self) -> dict[str, int]:
        """Live chunks by language tag, most frequent first."""
        counts: dict[str, int] = {}
        for view in self._segments:
            for tag, count in view.languages.items():
                counts[tag] = counts.get(tag, 0) + count
        return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))

    @cached_property
    def small(self) -> SmallSegments:
        return SmallSegments(self._segments, self.half_weight_counts)

    def half_weight_counts(self, view: SegmentView) -> NDArray[np.float32]:
        """For each chunk of a segment (rows,), the term count at which a term gets half of its weight.

        This is K1 * (1 - B + B * length / mean length): longer chunks need a higher count.
        """
        counts = self._half_weight_counts.get(view.segment.id)
        if counts is None:
            counts = half_weight_counts(view.segment.lexicon.lengths, self.mean_length)
            self._half_weight_counts[view.segment.id] = counts
        return counts


def half_weight_counts(lengths: NDArray[np.uint32], mean_length: float) -> NDArray[np.float32]:
    """For chunks of some lengths (n,), the term counts at which a term gets half of its weight."""
    relative = lengths / np.float64(max(mean_length, 1e-9))
    return (K1 * (1 - B + B * relative)).astype(np.float32)


class SmallSegments:
    """The small segments of a generation, with their rows concatenated.

    `first_rows` holds for each segment of the generation its first row in the concatenation, -1 for a segment that is
    not small; `segment_ords` holds the segment ordinal of each concatenated row.
    """

    def __init__(
        self, segments: Sequence[SegmentView], half_weight_counts: Callable[[SegmentView], NDArray[np.float32]]
    ) -> None:
        ordinals = [number for number, view in enumerate(segments) if view.segment.entry.chunks <= _SMALL_SEGMENT_ROWS]
        sizes = [segments[segment_ord].segment.entry.chunks for segment_ord in ordinals]
        starts = np.cumsum([0, *sizes])
        self.views = [segments[segment_ord] for segment_ord in ordinals]
        self.first_rows = np.full(len(segments), -1)
        self.first_rows[ordinals] = starts[:-1]
        self.segment_ords = np.repeat(np.array(ordinals, np.int64), sizes)
        self._starts = starts.tolist()
        self._half_weight_counts = np.concatenate([np.empty(0, np.float32), *map(half_weight_counts, self.views)])
        self._term_weights: OrderedDict[str, tuple[NDArray[np.intp], Scores]] = OrderedDict()
        self._cached_postings, self._cache_lock = 0, threading.Lock()

    def __len__(self) -> int:
        return len(self.segment_ords)

    def term_weights(self, term: str) -> tuple[NDArray[np.intp], Scores]:
        """The concatenated rows that contain a term, and tf / (tf + half weight count) for each; cached."""
        weights = self._term_weights.get(term)
        if weights is None:
            weights = self._compute_term_weights(term)
            with self._cache_lock:
                self._cache(term, weights)
        return weights

    def _compute_term_weights(self, term: str) -> tuple[NDArray[np.intp], Scores]:
        lists = [(first, view.postings(term)) for first, view in zip(self._starts, self.views, strict=False)]
        present = [(first, postings) for first, postings in lists if postings is not None]
        rows = np.concatenate(
            [np.empty(0, np.intp), *(postings.rows.astype(np.intp) + first for first, postings in present)]
        )
        weights = np.concatenate([np.empty(0), *(postings.counts for _, postings in present)])
        weights /= weights + self._half_weight_counts[rows]
        return rows, weights

    def _cache(self, term: str, weights: tuple[NDArray[np.intp], Scores]) -> None:
        if term not in self._term_weights:
            self._term_weights[term] = weights
            self._cached_postings += len(weights[0]) + 1
        while self._cached_postings > _MAX_CACHED_POSTINGS:
            _, (rows, _) = self._term_weights.popitem(last=False)
            self._cached_postings -= len(rows) + 1


# -- queries -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QueryWord:
    """A word of the query: its terms in the languages of the collection, and the upper bound of its score."""

    terms: tuple[str, ...]
    weight: float


def query_words(segments: Sequence[SegmentView], statistics: Statistics, text: str) -> list[QueryWord]:
    """The words of a query that any live chunk contains. A word that languages stem differently counts once.

    The chunks of the languages in which it is a stop word count as having it: where one chunk of many is in another
    language, it would be the only one with the articles of the question, and these its rarest words.

    A word that occurs n times in the query is weighted by the square root of n: on nine test collections this is
    better than n, which suits long queries badly, and better than 1.
    """

    def is_held(term: str) -> bool:
        return any(view.document_frequency(term) for view in segments)

    words = []
    for word in query_terms(text, statistics.languages, is_held):
        frequency = _frequency(segments, word)
        if frequency:
            words.append(weighed_word(word, frequency, statistics.chunks, statistics.chunks_by_language))
    return words


def weighed_word(word: QueryTerms, frequency: int, chunks: int, chunks_by_language: Mapping[str, int]) -> QueryWord:
    """A word that `frequency` of the chunks contain, with its weight."""
    return QueryWord(word.terms, math.sqrt(word.occurrences) * _idf(word, frequency, chunks, chunks_by_language))


def _frequency(segments: Sequence[SegmentView], word: QueryTerms) -> int:
    return sum(view.document_frequency(term) for view in segments for term in word.terms)


def _idf(word: QueryTerms, frequency: int, chunks: int, chunks_by_language: Mapping[str, int]) -> float:
    for tag in word.stop_in:
        frequency += chunks_by_language[tag]
    return math.log1p((max(0, chunks - frequency) + 0.5) / (frequency + 0.5))


def word_shares(
    segments: Sequence[SegmentView],
    statistics: Statistics,
    text: str,
    segment_ords: NDArray[np.int64],
    rows: NDArray[np.int64],
) -> tuple[int, Scores]:
    """The number of content words of a question, and which share of their idf each of some chunks has.

    Words that no chunk has count, with the largest idf. Stop words, and those of requests such as "find", count where
    the question has no others.
    """
    asked = _content_words(query_terms(text, statistics.languages))
    counts = statistics.chunks, statistics.chunks_by_language
    weights = [_idf(word, _frequency(segments, word), *counts) for word in asked]
    sums = np.zeros(len(rows))
    for ordinal in np.unique(segment_ords).tolist():
        places = np.flatnonzero(segment_ords == ordinal)
        chosen = rows[places].astype(np.uint32)
        for word, weight in zip(asked, weights, strict=True):
            is_met = np.zeros(len(places), np.bool_)
            for term in word.terms:
                postings = segments[ordinal].postings(term)
                if postings is not None:
                    is_met[_lookup(postings.rows, chosen)[1]] = True
            sums[places] += weight * is_met
    total = sum(weights)
    return len(asked), sums / total if total > 0 else sums


def _content_words(words: Sequence[QueryTerms]) -> Sequence[QueryTerms]:
    told = [word for word in words if not word.stop_in]
    return [word for word in told if _request_terms().isdisjoint(word.terms)] or told or words


@cache
def _request_terms() -> frozenset[str]:
    return frozenset(english_terms(REQUEST_WORDS))


def score_rows(
    view: SegmentView,
    statistics: Statistics,
    words: Sequence[QueryWord],
    rows: NDArray[np.int64],
    *,
    delta: float = 0.0,
) -> Scores:
    """The scores of some chunks of a segment; several times faster if the rows ascend."""
    sums, half_weight_counts = np.zeros(len(rows)), statistics.half_weight_counts(view)[rows]
    narrow = rows.astype(np.uint32)
    for word in words:
        for term in word.terms:
            postings = view.postings(term)
            if postings is not None:
                positions, present = _lookup(postings.rows, narrow)
                counts = postings.counts[positions].astype(np.float64)
                sums[present] += word.weight * (counts / (counts + half_weight_counts[present]) + delta)
    return sums


class Bm25Scorer:
    """The words of one query over the segments of a generation. Small segments are scored whole, together and once.

    `delta` is 0 for BM25, DELTA for BM25+.
    """

    def __init__(
        self, segments: Sequence[SegmentView], statistics: Statistics, text: str, *, delta: float = 0.0
    ) -> None:
        self._segments, self._statistics, self._delta = segments, statistics, delta
        self.words = query_words(segments, statistics, text)

    def score(self, segment_ords: NDArray[np.int64], rows: NDArray[np.int64]) -> Scores:
        """The scores of some chunks, given by segment ordinals (n,) and rows (n,)."""
        first_rows = self._statistics.small.first_rows[segment_ords]
        is_small = first_rows >= 0
        if is_small.all():
            return self._small_scores[first_rows + rows]
        scores = np.empty(len(rows))
        scores[is_small] = self._small_scores[(first_rows + rows)[is_small]]
        for segment_ord in np.flatnonzero(np.bincount(segment_ords[~is_small])).tolist():
            own = segment_ords == segment_ord
            view = self._segments[segment_ord]
            scores[own] = score_rows(view, self._statistics, self.words, rows[own], delta=self._delta)
        return scores

    def top_candidates(
        self, *, k: int, min_score: float = 0.0, filter: Filter | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Segment ordinals, rows and scores, in no order, of a superset of the best k chunks that pass the filter.

        Contains every chunk with a word of the query and a score of at least `min_score` that is among the best k or
        ties with the k-th. The scores are exact but for ROUNDING.
        """
        small = self._statistics.small
        small_rows, values = self._top_small(k, min_score, filter)
        segment_ords = [small.segment_ords[small_rows]]
        rows, scores = [small_rows - small.first_rows[segment_ords[0]]], [values]
        for segment_ord in np.flatnonzero(small.first_rows < 0).tolist():
            # A hit of another segment must reach the k-th best so far.
            min_score = max(min_score, _kth_best(np.concatenate(scores), k) * (1 - ROUNDING))
            segment_rows, segment_scores = _top_of_segment(
                self._segments[segment_ord],
                self._statistics,
                self.words,
                k=k,
                min_score=min_score,
                filter=filter,
                delta=self._delta,
            )
            segment_ords.append(np.full(len(segment_rows), segment_ord))
            rows.append(segment_rows)
            scores.append(segment_scores.astype(np.float64))
        return np.concatenate(segment_ords), np.concatenate(rows), np.concatenate(scores)

    def _top_small(self, k: int, min_score: float, filter: Filter | None) -> tuple[NDArray[np.int64], Scores]:
        """`top_candidates` of the small segments, as concatenated rows and scores."""
        mask = self._small_mask(filter)
        rows, values = np.empty(0, np.int64), np.empty(0)
        min_score = max(min_score, _SMALLEST_SCORE)
        for first in range(0, len(self._small_scores), _SMALL_BLOCK_ROWS):
            scores = self._small_scores[first : first + _SMALL_BLOCK_ROWS]
            reaches = scores >= min_score
            chosen = np.flatnonzero(reaches if mask is None else reaches & mask[first : first + _SMALL_BLOCK_ROWS])
            rows, values = np.concatenate([rows, chosen + first]), np.concatenate([values, scores[chosen]])
            if len(values) > k:
                min_score = max(min_score, _kth_best(values, k))
                rows, values = rows[values >= min_score], values[values >= min_score]
        return rows, values

    def _small_mask(self, filter: Filter | None) -> NDArray[np.bool_] | None:
        """A mask of the concatenated rows that pass the filter; None if all do."""
        allowed = [view.row_mask(filter) for view in self._statistics.small.views]
        if all(rows.mask is None for rows in allowed):
            return None
        return np.concatenate([np.ones(rows.count, np.bool_) if rows.mask is None else rows.mask for rows in allowed])

    @cached_property
    def _small_scores(self) -> Scores:
        """The score of every concatenated row, deleted ones too; summed like `score_rows`, so exactly equal."""
        small = self._statistics.small
        sums = np.zeros(len(small))
        for word in self.words:
            for term in word.terms:
                rows, weights = small.term_weights(term)
                added = weights + self._delta
                added *= word.weight  # in place: another array of this size takes as long as the sum
                np.add.at(sums, rows, added)
        return sums


def search(
    segments: Sequence[SegmentView], statistics: Statistics, text: str, *, k: int, filter: Filter | None = None
) -> TopK:
    """The best k of the chunks that contain a word of the query and pass the filter."""
    scorer = Bm25Scorer(segments, statistics, text)
    segment_ords, rows, _ = scorer.top_candidates(k=k, filter=filter)
    return merge_top_k(segments, [segment_ords], [rows], [scorer.score(segment_ords, rows)], k)


# -- large segments ----------------------------------------------------------------------------------------


def _top_of_segment(
    view: SegmentView,
    statistics: Statistics,
    words: Sequence[QueryWord],
    *,
    k: int,
    min_score: float,
    filter: Filter | None,
    delta: float,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Rows and scores as in `top_candidates`, by MaxScore over blocks of rows.

    Turtle and Flood, "Query Evaluation: Strategies and Optimizations" (1995). The k-th best score of the first blocks
    is the threshold for the next ones.
    """
    allowed = view.row_mask(filter)
    lists = [(view.postings(term), word.weight) for word in words for term in word.terms]
    present = [(postings, weight) for postings, weight in lists if postings is not None]
    if not allowed.count or not present:
        return np.empty(0, np.int64), np.empty(0, np.float32)
    threshold = min_score * (1 - ROUNDING)
    if allowed.count * _LOOKUP_COST < sum(len(postings.rows) for postings, _ in present):
        rows = allowed.rows()
        scores = score_rows(view, statistics, words, rows, delta=delta).astype(np.float32)
        reaches = (scores >= threshold) & (scores > 0)
        return rows[reaches], scores[reaches]
    half_weight_counts = statistics.half_weight_counts(view)
    rows, scores = np.empty(0, np.int64), np.empty(0, np.float32)
    for first in range(0, len(half_weight_counts), _BLOCK_ROWS):
        block = slice(first, first + _BLOCK_ROWS)
        block_lists = _lists_of_block(present, first, float(half_weight_counts[block].min()), delta)
        mask = None if allowed.mask is None else allowed.mask[block]
        block_rows, block_scores = _top_of_block(block_lists, half_weight_counts[block], mask, threshold)
        if len(block_rows):
            rows, scores = np.concatenate([rows, block_rows + first]), np.concatenate([scores, block_scores])
            threshold = max(threshold, _kth_best(scores, k) * (1 - ROUNDING))
            rows, scores = rows[scores >= threshold], scores[scores >= threshold]
    return rows, scores


@dataclass(frozen=True, slots=True)
class _PostingList:
    """The postings of a term in one block, rows counted from its first; `bound` is the upper bound of their scores."""

    rows: NDArray[np.uint32]
    counts: NDArray[np.uint16]
    weight: np.float32
    bound: float
    delta: np.float32

    def add_all(self, sums: NDArray[np.float32], half_weight_counts: NDArray[np.float32]) -> None:
        """Add the scores of all postings to the sums of their rows."""
        rows, counts = self.rows.astype(np.intp), self.counts.astype(np.float32)
        sums[rows] += self.weight * (counts / (counts + half_weight_counts[rows]) + self.delta)

    def add_chosen(
        self, chosen: NDArray[np.intp], sums: NDArray[np.float32], half_weight_counts: NDArray[np.float32]
    ) -> None:
        """Add the scores of those postings whose rows are chosen."""
        positions, present = _lookup(self.rows, chosen.astype(np.uint32))
        rows, counts = chosen[present], self.counts[positions].astype(np.float32)
        sums[rows] += self.weight * (counts / (counts + half_weight_counts[rows]) + self.delta)


def _lists_of_block(
    present: Sequence[tuple[Postings, float]], first: int, min_half_weight_count: float, delta: float
) -> list[_PostingList]:
    """The posting lists of the block that begins at row `first`, highest bound first.

    `min_half_weight_count` is that of the block's shortest chunk, where a term scores most.
    """
    lists, limits = [], np.array([first, first + _BLOCK_ROWS], np.uint32)
    for postings, weight in present:
        rows, counts = postings
        if first or not len(rows) or int(rows[-1]) >= _BLOCK_ROWS:
            start, stop = rows.searchsorted(limits).tolist()
            rows, counts = rows[start:stop] - limits[0], counts[start:stop]
        if len(rows):
            max_count = int(counts.max())
            bound = weight * (max_count / (max_count + min_half_weight_count) + delta)
            lists.append(_PostingList(rows, counts, np.float32(weight), bound, np.float32(delta)))
    return sorted(lists, key=lambda postings: -postings.bound)


def _top_of_block(
    lists: Sequence[_PostingList],
    half_weight_counts: NDArray[np.float32],
    mask: NDArray[np.bool_] | None,
    threshold: float,
) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """The rows of a block whose scores reach the threshold, and these scores.

    Lists are added up while a chunk that is in none of the lists before could still reach it. In the rest, which are
    the longest, only the remaining chunks are looked up.
    """
    rest = sum(postings.bound for postings in lists)
    if rest < threshold:
        return np.empty(0, np.intp), np.empty(0, np.float32)
    sums = np.zeros(len(half_weight_counts), np.float32)
    chosen: NDArray[np.intp] | None = None
    for postings in lists:
        if rest < threshold:
            partial = sums if chosen is None else sums[chosen]
            remaining = np.flatnonzero(partial >= threshold - rest)
            chosen = remaining if chosen is None else chosen[remaining]
            if not len(chosen):
                return chosen, sums[:0]
        if chosen is not None and len(chosen) * _LOOKUP_COST < len(postings.rows):
            postings.add_chosen(chosen, sums, half_weight_counts)
        else:
            postings.add_all(sums, half_weight_counts)
        rest -= postings.bound
    if chosen is None:
        chosen = np.flatnonzero(sums > 0)  # on bools several times faster than on floats
    if mask is not None:
        chosen = chosen[mask[chosen]]
    scores = sums[chosen]
    reaches = scores >= threshold
    return chosen[reaches], scores[reaches]


def _lookup(rows: NDArray[np.uint32], chosen: NDArray[np.uint32]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Positions in the ascending `rows` of those chosen rows that occur there, and their positions in `chosen`."""
    positions = rows.searchsorted(chosen)
    present = (rows.take(positions, mode="clip") == chosen).nonzero()[0]
    return positions[present], present


def _kth_best(scores: NDArray[Any], k: int) -> float:
    """The k-th best score, minus infinity if there are fewer."""
    position = len(scores) - k
    return float(np.partition(scores, position)[position]) if position >= 0 else -np.inf
