"""BM25 over the segments of a generation: every chunk that contains a word of the query, with its exact score.

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), with Lucene's idf and without
the constant factor K1 + 1: score = sum of idf * tf / (tf + K1 * (1 - B + B * length / mean length)). Document
frequencies and lengths are those of all live chunks of the generation, so no score depends on segments, deleted rows or
the filter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from aidre.engine.index.fields import Filter
from aidre.engine.index.text import REQUEST_WORDS, QueryTerms, english_terms, query_terms
from aidre.engine.native import native
from aidre.engine.segment import RowMask, SegmentView, TopK, merge_top_k
from aidre.engine.storage import BATCH_ROWS

if TYPE_CHECKING:
    from aidre.engine.native import kernel

K1: Final = 1.2
B: Final = 0.75
DELTA: Final = 0.2
"""What a term adds at least, as a share of its weight, in hybrid search: BM25+ of Lv and Zhai, "Lower-Bounding Term
Frequency Normalization" (2011). There long chunks gain by it; in lexical search it costs relevance."""

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
    def native(self) -> kernel.Lexicons | None:
        """The lexicons of all segments, for the kernel; None without it."""
        if native is None:
            return None
        lexicons = []
        for view in self._segments:
            lexicon, ids = view.segment.lexicon, view.segment.chunks.buffers("id")
            halves = self.half_weight_counts(view)
            lexicons.append((lexicon.starts, lexicon.rows, lexicon.counts, halves, ids, BATCH_ROWS))
        made: kernel.Lexicons = native.Lexicons(tuple(lexicons))
        return made

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
    content_words = _content_words(query_terms(text, statistics.languages))
    counts = statistics.chunks, statistics.chunks_by_language
    weights = [_idf(word, _frequency(segments, word), *counts) for word in content_words]
    sums = np.zeros(len(rows))
    for ordinal in np.unique(segment_ords).tolist():
        places = np.flatnonzero(segment_ords == ordinal)
        chosen = rows[places].astype(np.uint32)
        for word, weight in zip(content_words, weights, strict=True):
            is_met = np.zeros(len(places), np.bool_)
            for term in word.terms:
                postings = segments[ordinal].postings(term)
                if postings is not None:
                    is_met[_lookup(postings.rows, chosen)[1]] = True
            sums[places] += weight * is_met
    total = sum(weights)
    return len(content_words), sums / total if total > 0 else sums


def _content_words(words: Sequence[QueryTerms]) -> Sequence[QueryTerms]:
    telling = [word for word in words if not word.stop_in]
    return [word for word in telling if _request_terms().isdisjoint(word.terms)] or telling or words


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
    """The words of one query over the segments of a generation, the heaviest first.

    `delta` is 0 for BM25, DELTA for BM25+. The C kernel scores and finds chunks; without it numpy does, which scores
    all chunks of a segment first.
    """

    def __init__(
        self, segments: Sequence[SegmentView], statistics: Statistics, text: str, *, delta: float = 0.0
    ) -> None:
        self._segments, self._statistics, self._delta = segments, statistics, delta
        self.words = sorted(query_words(segments, statistics, text), key=lambda word: -word.weight)
        self._sums: dict[int, Scores] = {}

    @cached_property
    def query(self) -> kernel.Query:
        """The terms for the kernel: their numbers in each segment, their weights, and delta."""
        terms = [(term, word.weight) for word in self.words for term in word.terms]
        numbers = [
            -1 if (postings := view.postings(term)) is None else postings.term
            for view in self._segments
            for term, _ in terms
        ]
        return np.array(numbers, np.int64), np.array([weight for _, weight in terms]), self._delta

    def score(self, segment_ords: NDArray[np.int64], rows: NDArray[np.int64]) -> Scores:
        """The scores of some chunks, given by segment ordinals (n,) and rows (n,); fastest in storage order."""
        if self._statistics.native is not None:
            return np.frombuffer(self._statistics.native.score(self.query, segment_ords, rows))
        scores = np.empty(len(rows))
        for segment_ord in np.unique(segment_ords).tolist():
            own = segment_ords == segment_ord
            scores[own] = self.sums(segment_ord)[rows[own]]
        return scores

    def search(self, *, k: int, filter: Filter | None = None) -> TopK:
        """The best k of the chunks that contain a word of the query and pass the filter."""
        masks = [view.row_mask(filter) for view in self._segments]
        if self._statistics.native is not None:
            return top_of(self._statistics.native.search(self.query, k, bitmaps_of(masks)))
        chosen = [
            np.flatnonzero(self.sums(number) > 0 if mask.mask is None else (self.sums(number) > 0) & mask.mask)
            for number, mask in enumerate(masks)
        ]
        return merge_top_k(
            self._segments,
            [np.full(len(rows), number) for number, rows in enumerate(chosen)],
            chosen,
            [self.sums(number)[rows] for number, rows in enumerate(chosen)],
            k,
        )

    def sums(self, segment_ord: int) -> Scores:
        """The score of every chunk of a segment, deleted ones too, by numpy; summed like `score_rows`, so equal."""
        sums = self._sums.get(segment_ord)
        if sums is None:
            view = self._segments[segment_ord]
            halves = self._statistics.half_weight_counts(view)
            sums = self._sums[segment_ord] = np.zeros(len(halves))
            for word in self.words:
                for term in word.terms:
                    postings = view.postings(term)
                    if postings is not None:
                        counts = postings.counts.astype(np.float64)
                        sums[postings.rows] += word.weight * (counts / (counts + halves[postings.rows]) + self._delta)
        return sums


def bitmaps_of(masks: Sequence[RowMask]) -> tuple[NDArray[np.uint8] | None, ...]:
    """The masks of all segments for the kernel."""
    return tuple(None if mask.mask is None else mask.packed for mask in masks)


def top_of(arrays: kernel.Arrays) -> TopK:
    """Hits as the kernel gives them."""
    segment_ords, rows, scores = arrays
    return TopK(np.frombuffer(segment_ords, np.int64), np.frombuffer(rows, np.int64), np.frombuffer(scores))


def search(
    segments: Sequence[SegmentView], statistics: Statistics, text: str, *, k: int, filter: Filter | None = None
) -> TopK:
    """The best k of the chunks that contain a word of the query and pass the filter."""
    return Bm25Scorer(segments, statistics, text).search(k=k, filter=filter)


def _lookup(rows: NDArray[np.uint32], chosen: NDArray[np.uint32]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Positions in the ascending `rows` of those chosen rows that occur there, and their positions in `chosen`."""
    positions = rows.searchsorted(chosen)
    present = (rows.take(positions, mode="clip") == chosen).nonzero()[0]
    return positions[present], present
