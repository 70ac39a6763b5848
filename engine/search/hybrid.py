"""Hybrid search: vector similarity and BM25+ fused into one score that every chunk has.

score = a * cosine + (1 - a) * bm25 / (bm25 + c), and a bonus for codes (`code_chunks`). Neither side is normalised
by the other results, so the score of a chunk does not depend on the candidates. Candidates come from both sides, and
the missing side is computed exactly. The search stops by Fagin's threshold ("Optimal Aggregation Algorithms for
Middleware", 2003): when no chunk that was not scored can still reach the k-th place. So hits are exact, as far as the
vector search finds its nearest rows.

Why it may stop: a chunk that is not among the neighbours has a cosine no larger than that of the last neighbour, so its
vector adds at most `bound`. To be a hit it has to reach the k-th score, so its words must add at least that score minus
`bound`, which is reached at a certain BM25 score (`_min_bm25`). All chunks with that BM25 score or a larger one are
scored, or else more neighbours are searched, which lowers `bound`. Chunks with a bonus are scored first of all.

The best FEEDBACK_DEPTH hits are then reordered by what the first ones have in common (`with_feedback`): soft
pseudo-relevance feedback, after Rocchio (1971) with the softmax of the scores as weights. Chosen on one half of nine
test collections, its parameters gain 0.0034 and 0.0054 nDCG@10 on the other half; on each set, chosen on all others,
they gain 0.0056 in the mean (`python -m benchmarks feedback`).

A cheaper search fuses the ranks of two bounded lists (`fused_by_rank`): nothing that only one of them has is computed
for the other, codes count as in the list of words but without the bonus, there is no feedback, and a chunk in neither
list is not found.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from math import fsum, isqrt
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from aidre.engine.index.fields import Filter
from aidre.engine.index.vectors import SearchDepth, score_rows
from aidre.engine.model import FUSED_RANKS, EmbeddingSpace, Fusion
from aidre.engine.search import bm25
from aidre.engine.search.bm25 import Bm25Scorer, Statistics
from aidre.engine.search.codes import code_chunks, search_lexical
from aidre.engine.search.dense import search_dense
from aidre.engine.search.question_language import language_of
from aidre.engine.segment import Segments, TopK, merge_top_k

if TYPE_CHECKING:
    from aidre.engine.native import kernel

MIN_NEIGHBOURS: Final = 100
"""Neighbours searched first, however small k is: the more there are, the fewer chunks are scored for their words. From
250,000 chunks on it is a fifth of their square root."""

FEEDBACK_DEPTH: Final = 25
"""Hits that are reordered: twice as many find little more, and take longer to find."""

_FEEDBACK_SEEDS: Final = 10
_FEEDBACK_WEIGHT: Final = 0.2
"""Weight of the similarity to the mean of the best hits, where a = 0.5; it grows with a."""

_FEEDBACK_SHARPNESS: Final = 40.0
"""A hit whose score is .05 less than the first one has a seventh of its share in the mean."""

_MAX_COMPARED: Final = 1 << 15
"""Chunks that are not neighbours, compared because of their words, before more neighbours are searched."""

_DEEPER: Final = 4
"""Factor by which each step takes more chunks and neighbours than the one before."""

RANK_CONSTANT: Final = 60
"""Added to each rank: that of Cormack et al."""

_ROUNDING: Final = 1e-9
"""Bound on the relative error of a fused score in float64."""

NO_DOUBTS: Final[Mapping[str, float]] = MappingProxyType({})

_ROWS: Final = (1 << 32) - 1
"""The bits of a row beside those of its segment."""

Rows = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Segment ordinals (n,) and rows (n,) of chunks."""


class HybridQuery:
    """A text query and its filter over the segments of a generation, to be searched with a vector of any space."""

    def __init__(
        self,
        segments: Segments,
        statistics: Statistics,
        text: str,
        fusion: Fusion,
        filter: Filter | None = None,
    ) -> None:
        self._segments, self._statistics, self._text = segments, statistics, text
        self._fusion, self._filter = fusion, filter
        self._floor, self._doubts = 0.0, NO_DOUBTS
        self._scorer = Bm25Scorer(segments, statistics, text, delta=bm25.DELTA)
        self._codes = code_chunks(segments, statistics, text, filter=filter)

    def weighed(self, weights: Mapping[str, float], floor: float = 0.0) -> HybridQuery:
        """The same query for a space.

        Where the text is in a language that its model does not know, the cosine has at most the weight that `weights`
        has for it. Where the cosines of any two texts are about `floor`, its weight is that of (cosine - floor) / (1 -
        floor), which differs by a constant: a / (1 - floor) beside 1 - a.
        """
        a = least_weight(self._fusion.a, weights, self._language) if weights else self._fusion.a
        doubts = {tag: 1 - weight / a for tag, weight in weights.items() if weight < a}
        a = without_floor(a, floor)
        if a == self._fusion.a and not doubts:
            return self
        other = copy.copy(self)
        other._fusion, other._floor, other._doubts = replace(self._fusion, a=a), floor, doubts
        return other

    @cached_property
    def _language(self) -> str | None:
        return language_of(self._segments, self._statistics, self._text, self._scorer)

    def search(
        self,
        space: EmbeddingSpace,
        query: NDArray[np.float32],
        *,
        k: int,
        depth_for: Callable[[int], SearchDepth | None],
    ) -> TopK:
        """The best k chunks by fused score; `depth_for` gives the search depth for a number of neighbours."""
        chunks = sum(view.segment.entry.chunks for view in self._segments)
        neighbours, most = max(MIN_NEIGHBOURS, 2 * k, isqrt(chunks) // 5), _MAX_COMPARED
        while True:
            depth = depth_for(neighbours)
            near = search_dense(self._segments, space.id, query, k=neighbours, depth=depth, filter=self._filter)
            near = TopK(near.segment_ords, near.rows, to_cosines(space, near.scores))
            bound = float(near.scores[-1]) if len(near.rows) >= neighbours else None
            columns = self._segments.native_columns(space.id)
            if columns is None:
                found: TopK | None = self._fused(space, query, near, bound, k)
            else:
                found = self._fused_natively(columns, query, near, bound=bound, k=k, most=most)
            if found is not None:
                break
            neighbours, most = neighbours * _DEEPER, most * _DEEPER
        if self._fusion.a == 0 and bound is not None and (len(found.rows) < k or found.scores[-1] <= 0):
            return self._with_first_by_id(found, k)
        return found

    def _fused_natively(
        self,
        columns: kernel.Columns,
        query: NDArray[np.float32],
        near: TopK,
        *,
        bound: float | None,
        k: int,
        most: int,
    ) -> TopK | None:
        """The best k chunks, of which the neighbours are known and no other has a larger cosine than `bound` (None:
        there is no other). None where more than `most` others would have to be compared."""
        lexicons, (segment_ords, rows, bonuses) = self._statistics.native, self._codes
        assert lexicons is not None
        found = lexicons.fuse(
            self._scorer.query,
            k,
            bm25.bitmaps_of([view.row_mask(self._filter) for view in self._segments]),
            columns,
            query,
            self._fusion.a,
            self._fusion.c,
            (near.segment_ords, near.rows, near.scores),
            (segment_ords, rows, 2 * (1 - self._fusion.a) * bonuses),
            bound,
            most,
        )
        return None if found is None else bm25.top_of(found)

    def _fused(
        self, space: EmbeddingSpace, query: NDArray[np.float32], near: TopK, bound: float | None, k: int
    ) -> TopK:
        """The same by numpy, however many there are to compare."""
        keys = np.union1d(near.segment_ords << 32 | near.rows, self._codes[0] << 32 | self._codes[1])
        chunks = keys >> 32, keys & _ROWS
        scores = self._score(self._cosines(space, query, chunks), chunks)
        if bound is not None:
            kth = float(np.partition(scores, len(scores) - k)[len(scores) - k]) if len(scores) >= k else -np.inf
            others = np.setdiff1d(self._reaching(self._min_bm25(kth - self._fusion.a * bound)), keys)
            more = others >> 32, others & _ROWS
            scores = np.concatenate([scores, self._score(self._cosines(space, query, more), more)])
            chunks = np.concatenate([chunks[0], more[0]]), np.concatenate([chunks[1], more[1]])
        return merge_top_k(self._segments, [chunks[0]], [chunks[1]], [scores], k)

    def _reaching(self, min_score: float) -> NDArray[np.int64]:
        """The allowed chunks with a word and this BM25 score or a larger one: segment << 32 | row, ascending."""
        found = [np.empty(0, np.int64)]
        for segment_ord, view in enumerate(self._segments):
            sums, mask = self._scorer.sums(segment_ord), view.row_mask(self._filter).mask
            reaches = (sums >= min_score) & (sums > 0)
            found.append(segment_ord << 32 | np.flatnonzero(reaches if mask is None else reaches & mask))
        return np.concatenate(found)

    def rescored(self, hits: TopK, space: EmbeddingSpace, query: NDArray[np.float32], depth: int) -> TopK:
        """The same hits, the best `depth` of them scored with the cosine of another space.

        The hits after them keep their order and stay below: if the first of these would reach the last rescored hit,
        the scores of all of them are lowered by the same amount.
        """
        # Read in the order of memory, chunks take a fraction of the time.
        order = np.argsort(hits.segment_ords[:depth] << 32 | hits.rows[:depth])
        chunks = hits.segment_ords[order], hits.rows[order]
        cosines = self._cosines(space, query, chunks)
        scores = self._score(cosines, chunks)
        if self._doubts:
            scores -= self._losses(chunks, cosines)
        best = merge_top_k(self._segments, [chunks[0]], [chunks[1]], [scores], depth)
        return best if len(hits.rows) <= depth else _followed_by(best, hits, depth)

    def with_feedback(self, hits: TopK, space: EmbeddingSpace, query: NDArray[np.float32]) -> TopK:
        """The same hits, the best FEEDBACK_DEPTH of them by the sum of their score, less `_losses`, and of

            2 * a * WEIGHT * (sum of p_i * v_i) * v

        over the vectors v_i of the best _FEEDBACK_SEEDS, whose shares p_i fall exponentially with their scores. A
        question whose best hits are about one thing finds more of that. The hits after them stay below.
        """
        if len(hits.rows) < 2 or self._fusion.a == 0:
            return hits
        segment_ords, rows = hits.segment_ords[:FEEDBACK_DEPTH], hits.rows[:FEEDBACK_DEPTH]
        scores = hits.scores[:FEEDBACK_DEPTH]
        if self._doubts:
            cosines = np.einsum("ij,j->i", self._vectors(space, segment_ords, rows), query.ravel()).astype(np.float64)
            scores = scores - self._losses((segment_ords, rows), cosines)
        weight = 2 * self._fusion.a * _FEEDBACK_WEIGHT
        columns = self._segments.native_columns(space.id)
        if columns is None:
            scores = fed_back(scores, self._vectors(space, segment_ords, rows), self._fusion.a)
            reordered = merge_top_k(self._segments, [segment_ords], [rows], [scores], FEEDBACK_DEPTH)
        else:
            seeds = _FEEDBACK_SEEDS
            reordered = bm25.top_of(columns.feedback(segment_ords, rows, scores, seeds, _FEEDBACK_SHARPNESS, weight))
        return reordered if len(hits.rows) <= FEEDBACK_DEPTH else _followed_by(reordered, hits, FEEDBACK_DEPTH)

    def _losses(self, chunks: Rows, cosines: NDArray[np.float64]) -> NDArray[np.float64]:
        """How much less than their scores hits count (n,), where they are in several languages.

        In a language that the model knows less than that of the question, vectors give too much,

            a * (1 - weight of the language / weight of that of the question) * (cosine - floor)

        of which hits lose the mean over those in their language, so that these keep their order among themselves. A
        text and its translation share names, numbers and codes, and the translation would often come first.
        """
        by_language: dict[str, list[float]] = {}
        tags = []
        for segment_ord, row, cosine in zip(chunks[0].tolist(), chunks[1].tolist(), cosines.tolist(), strict=True):
            lexicon = self._segments[segment_ord].segment.lexicon
            tags.append(lexicon.tags[lexicon.languages[row]])
            by_language.setdefault(tags[-1], []).append(cosine)
        lost = {
            tag: self._fusion.a * self._doubts.get(tag, 0.0) * (fsum(own) / len(own) - self._floor)
            for tag, own in by_language.items()
        }
        least = min(lost.values(), default=0.0)
        return np.array([lost[tag] - least for tag in tags], np.float64)

    def _vectors(
        self, space: EmbeddingSpace, segment_ords: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """The unit vectors of hits, shape (n, dimensions)."""
        stored = [view.segment.columns[space.id].codes for view in self._segments]
        if len(stored) == 1:
            return np.asarray(stored[0])[rows].astype(np.float32)
        places = zip(segment_ords.tolist(), rows.tolist(), strict=True)
        return np.array([stored[segment_ord][row] for segment_ord, row in places], np.float32)

    def _score(self, cosines: NDArray[np.float64], chunks: Rows) -> NDArray[np.float64]:
        """Fused scores of chunks from their cosines, their words and the codes that they contain."""
        scores = fused(self._fusion, cosines, self._scorer.score(*chunks))
        segment_ords, rows, bonuses = self._codes
        if len(rows):
            keys, wanted = segment_ords << 32 | rows, chunks[0] << 32 | chunks[1]
            positions = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            scores += 2 * (1 - self._fusion.a) * np.where(keys[positions] == wanted, bonuses[positions], 0.0)
        return scores

    def _with_first_by_id(self, hits: TopK, k: int) -> TopK:
        """The hits, and the first k chunks of each segment by id: with a = 0 all chunks without a word tie at 0."""
        known, segment_ords, rows = hits.segment_ords << 32 | hits.rows, [hits.segment_ords], [hits.rows]
        for segment_ord, view in enumerate(self._segments):
            own = view.row_mask(self._filter).rows()
            if len(own) > k:
                own = own[np.argpartition(view.segment.ids.ranks[own], k - 1)[:k]]
            own = own[~np.isin(segment_ord << 32 | own, known)]
            segment_ords.append(np.full(len(own), segment_ord))
            rows.append(own)
        scores = [hits.scores, *(np.zeros(len(own)) for own in rows[1:])]
        return merge_top_k(self._segments, segment_ords, rows, scores, k)

    def _min_bm25(self, least: float) -> float:
        """The BM25 score at which words add `least` to the fused score; infinite if words never add so much."""
        return least_bm25(self._fusion, least)

    def _cosines(self, space: EmbeddingSpace, query: NDArray[np.float32], chunks: Rows) -> NDArray[np.float64]:
        """The cosines of the query with chunks in storage order, computed like every other score."""
        segment_ords, rows = chunks
        limits = np.searchsorted(segment_ords, np.arange(len(self._segments) + 1)).tolist()
        ranges = zip(self._segments, pairwise(limits), strict=True)
        chosen = [(view.segment.columns[space.id], rows[start:stop]) for view, (start, stop) in ranges if start < stop]
        positions, scores = score_rows(chosen, query)
        cosines = np.empty(len(rows))
        cosines[positions] = to_cosines(space, scores)
        return cosines


def fused_by_rank(
    segments: Segments,
    statistics: Statistics,
    text: str,
    near: TopK,
    *,
    a: float,
    weights: Mapping[str, float],
    k: int,
    filter: Filter | None,
) -> TopK:
    """The best k chunks of two lists, `near` and one as long of lexical search, by the sum of a / (60 + rank) and
    (1 - a) / (60 + rank), as a share of what a chunk has that comes first in both. `weights` are those of `weighed`.

    Reciprocal rank fusion: Cormack, Clarke and Buettcher, "Reciprocal Rank Fusion Outperforms Condorcet and Individual
    Rank Learning Methods" (2009).
    """
    words = search_lexical(segments, statistics, text, k=max(FUSED_RANKS, k), filter=filter)
    if weights:
        a = least_weight(a, weights, language_of(segments, statistics, text))
    by_near, by_words = rank_shares(len(near.rows), len(words.rows), a)
    if statistics.native is not None:
        lists = (near.segment_ords, near.rows, by_near), (words.segment_ords, words.rows, by_words)
        return bm25.top_of(statistics.native.join(k, *lists))
    numbers, scores = joined(
        near.segment_ords << 32 | near.rows, by_near, words.segment_ords << 32 | words.rows, by_words
    )
    return merge_top_k(segments, [numbers >> 32], [numbers & _ROWS], [scores], k)


def rank_shares(near: int, words: int, a: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What the ranks of two lists of so many chunks add to their scores."""
    shares = (RANK_CONSTANT + 1.0) / np.arange(RANK_CONSTANT + 1, RANK_CONSTANT + 1 + max(near, words))
    return a * shares[:near], (1 - a) * shares[:words]


def joined(
    near: NDArray[np.int64], by_near: NDArray[np.float64], words: NDArray[np.int64], by_words: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The chunks of two lists by their numbers, in no order, and the sums of what each list adds to them."""
    numbers, places = np.unique(np.concatenate([near, words]), return_inverse=True)
    return numbers, np.bincount(places, np.concatenate([by_near, by_words])).astype(np.float64)


def least_weight(a: float, weights: Mapping[str, float], language: str | None) -> float:
    """The weight `a` of the cosine for a question, less in a language that is among `weights`."""
    return min(a, weights.get(language or "", 1.0))


def fused(fusion: Fusion, cosines: NDArray[np.float64], words: NDArray[np.float64]) -> NDArray[np.float64]:
    """The fused scores of chunks (n,) without codes, from their cosines and BM25+ scores."""
    return fusion.a * cosines + (1 - fusion.a) * (words / (words + fusion.c))


def least_bm25(fusion: Fusion, least: float) -> float:
    """The BM25 score at which words add `least` to the fused score; infinite if words never add so much."""
    share = least / (1 - fusion.a) if fusion.a < 1 else np.inf
    if share >= 1:
        return np.inf
    # A little lower, for what rounding may have taken.
    return max(0.0, fusion.c * share / (1 - share) * (1 - _ROUNDING)) if share > 0 else 0.0


def without_floor(a: float, floor: float) -> float:
    """The weight of a cosine where those of any two texts are about `floor` (`HybridQuery.weighed`)."""
    return a / (a + (1 - a) * (1 - floor)) if floor else a


def fed_back(scores: NDArray[np.float64], vectors: NDArray[np.float32], a: float) -> NDArray[np.float64]:
    """The scores of the best hits (n,), best first, with what their unit vectors (n, dimensions) have in common with
    the first ones (`HybridQuery.with_feedback`)."""
    shares = np.exp(_FEEDBACK_SHARPNESS * (scores[:_FEEDBACK_SEEDS] - scores[:_FEEDBACK_SEEDS].max()))
    mean = (shares / shares.sum()).astype(np.float32) @ vectors[:_FEEDBACK_SEEDS]
    # Each row on its own, unlike a product of matrices: equal vectors must have equal scores.
    similarities: NDArray[np.float64] = np.einsum("ij,j->i", vectors, mean).astype(np.float64)
    return scores + 2 * a * _FEEDBACK_WEIGHT * similarities


def _followed_by(best: TopK, hits: TopK, depth: int) -> TopK:
    """The hits whose best `depth` were scored again, and those after them."""
    return TopK(
        np.concatenate([best.segment_ords, hits.segment_ords[depth:]]),
        np.concatenate([best.rows, hits.rows[depth:]]),
        np.concatenate([best.scores, kept_below(best.scores[-1], hits.scores[depth:])]),
    )


def kept_below(least: float, rest: NDArray[np.float64]) -> NDArray[np.float64]:
    """The scores of the hits after those that were scored again, the least of which is `least`. They keep their order
    and stay below: if the first of them would reach `least`, all are lowered by the same amount."""
    below = np.nextafter(least, -np.inf)  # so that no tie breaks the order of ids
    floors: NDArray[np.float64] = np.minimum(rest - max(0.0, rest[0] - below), below)
    return floors


def to_cosines(space: EmbeddingSpace, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """The cosines that scores of unit vectors stand for: a euclidean distance is the chord between them."""
    return 1.0 - scores * scores / 2.0 if space.distance == "euclidean" else scores
