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

The best FEEDBACK_DEPTH hits are then ordered anew by what the first ones have in common (`with_feedback`): soft
pseudo-relevance feedback, after Rocchio (1971) with the softmax of the scores as weights. Chosen on one half of nine
test collections, its parameters gain 0.0034 and 0.0054 nDCG@10 on the other half; on each set, chosen on all others,
they gain 0.0056 in the mean (`python -m benchmarks.bench_feedback`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import fsum
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from aidre.engine.index.fields import Filter
from aidre.engine.index.vectors import SearchDepth, score_rows
from aidre.engine.model import EmbeddingSpace, Fusion
from aidre.engine.search import bm25
from aidre.engine.search.bm25 import Bm25Scorer, Statistics
from aidre.engine.search.codes import code_chunks
from aidre.engine.search.dense import search_dense
from aidre.engine.search.languages import language_of
from aidre.engine.segment import Segments, TopK, merge_top_k

MIN_NEIGHBOURS: Final = 100
"""Neighbours searched first, however small k is: the more there are, the fewer chunks are scored for their words."""

FEEDBACK_DEPTH: Final = 25
"""Hits that are ordered anew: twice as many find little more, and take longer to find."""

_FEEDBACK_SEEDS: Final = 10
_FEEDBACK_WEIGHT: Final = 0.2
"""Weight of the similarity to the mean of the best hits, where a = 0.5; it grows with a."""

_FEEDBACK_SHARPNESS: Final = 40.0
"""A hit whose score is .05 less than the first one has a seventh of its share in the mean."""

_MAX_LEXICAL: Final = 4_096
"""Chunks that are no neighbours, scored because of their words, before more neighbours are searched."""

_FIRST_LEXICAL: Final = 256
"""Of these chunks, how many are scored first."""

_DEEPER: Final = 4
"""Factor by which each step takes more chunks or neighbours than the one before."""

_ROUNDING: Final = 1e-9
"""Bound on the relative error of a fused score in float64."""

NO_DOUBTS: Final[Mapping[str, float]] = MappingProxyType({})

Rows = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Segment ordinals (n,) and rows (n,) of chunks."""


@dataclass(frozen=True, slots=True)
class _ScoredChunks:
    """Chunks and their scores, in no order."""

    segment_ords: NDArray[np.int64]
    rows: NDArray[np.int64]
    scores: NDArray[np.float64]

    def extended(self, chunks: Rows, scores: NDArray[np.float64]) -> _ScoredChunks:
        return _ScoredChunks(
            np.concatenate([self.segment_ords, chunks[0]]),
            np.concatenate([self.rows, chunks[1]]),
            np.concatenate([self.scores, scores]),
        )

    def lacks(self, segment_ords: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """A mask (n,) of the given chunks that are not among these."""
        if not len(self.rows):
            return np.ones(len(rows), np.bool_)
        own, others = np.sort(self.segment_ords << 32 | self.rows), segment_ords << 32 | rows
        missing: NDArray[np.bool_] = own[np.minimum(np.searchsorted(own, others), len(own) - 1)] != others
        return missing

    def split(self, count: int) -> tuple[_ScoredChunks, _ScoredChunks]:
        """The best `count` chunks, and the others."""
        if len(self.rows) <= count:
            return self, _NO_CHUNKS
        order = np.argpartition(-self.scores, count)
        return self._chosen(order[:count]), self._chosen(order[count:])

    def at_least(self, score: float) -> _ScoredChunks:
        """The chunks with this score or a larger one."""
        return self._chosen(np.flatnonzero(self.scores >= score)) if len(self.rows) else self

    def _chosen(self, places: NDArray[np.intp]) -> _ScoredChunks:
        return _ScoredChunks(self.segment_ords[places], self.rows[places], self.scores[places])

    def kth_best(self, k: int) -> float:
        """The k-th best score, minus infinity if there are fewer."""
        position = len(self.scores) - k
        return float(np.partition(self.scores, position)[position]) if position >= 0 else -np.inf


_NO_CHUNKS: Final = _ScoredChunks(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


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
        a = min(self._fusion.a, weights.get(self._language or "", 1.0) if weights else 1.0)
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
        neighbours, max_lexical, scored = max(MIN_NEIGHBOURS, 2 * k), _MAX_LEXICAL, _NO_CHUNKS
        if len(self._codes[1]):
            chunks = self._codes[:2]
            scored = scored.extended(chunks, self._score(self._cosines(space, query, chunks), chunks))
        while True:
            depth = depth_for(neighbours)
            near = search_dense(self._segments, space.id, query, k=neighbours, depth=depth, filter=self._filter)
            cosines, order = to_cosines(space, near.scores), _storage_order(near.segment_ords, near.rows)
            fresh = order[scored.lacks(near.segment_ords[order], near.rows[order])]
            chunks = near.segment_ords[fresh], near.rows[fresh]
            scored = scored.extended(chunks, self._score(cosines[fresh], chunks))
            if len(near.rows) < neighbours:
                break
            scored, is_complete = self._add_lexical(
                space, query, scored, bound=self._fusion.a * float(cosines[-1]), k=k, max_lexical=max_lexical
            )
            if is_complete:  # a chunk that ties with the last neighbour but is none comes after it by id
                if self._fusion.a == 0 and scored.kth_best(k) <= 0:
                    scored = self._add_first_by_id(scored, k)
                break
            neighbours, max_lexical = neighbours * _DEEPER, max_lexical * _DEEPER
        best = scored.at_least(scored.kth_best(k))
        return merge_top_k(self._segments, [best.segment_ords], [best.rows], [best.scores], k)

    def rescored(self, hits: TopK, space: EmbeddingSpace, query: NDArray[np.float32], depth: int) -> TopK:
        """The same hits, the best `depth` of them scored with the cosine of another space.

        The hits after them keep their order and stay below: if the first of these would reach the last rescored hit,
        the scores of all of them are lowered by the same amount.
        """
        order = _storage_order(hits.segment_ords[:depth], hits.rows[:depth])
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
        best = TopK(hits.segment_ords[:FEEDBACK_DEPTH], hits.rows[:FEEDBACK_DEPTH], hits.scores[:FEEDBACK_DEPTH])
        vectors, scores = self._vectors(space, best), best.scores
        if self._doubts:
            cosines = np.einsum("ij,j->i", vectors, query.ravel()).astype(np.float64)
            scores = scores - self._losses((best.segment_ords, best.rows), cosines)
        scores = fed_back(scores, vectors, self._fusion.a)
        anew = merge_top_k(self._segments, [best.segment_ords], [best.rows], [scores], FEEDBACK_DEPTH)
        return anew if len(hits.rows) <= FEEDBACK_DEPTH else _followed_by(anew, hits, FEEDBACK_DEPTH)

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

    def _vectors(self, space: EmbeddingSpace, hits: TopK) -> NDArray[np.float32]:
        """The unit vectors of hits, shape (n, dimensions)."""
        stored = [view.segment.columns[space.id].codes for view in self._segments]
        if len(stored) == 1:
            return np.asarray(stored[0])[hits.rows].astype(np.float32)
        places = zip(hits.segment_ords.tolist(), hits.rows.tolist(), strict=True)
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

    def _add_lexical(
        self,
        space: EmbeddingSpace,
        query: NDArray[np.float32],
        scored: _ScoredChunks,
        *,
        bound: float,
        k: int,
        max_lexical: int,
    ) -> tuple[_ScoredChunks, bool]:
        """Add the chunks that are no neighbours but may be hits by their words, best BM25 score first.

        `bound` is the most that the vector of such a chunk can add. Also returns whether none is missing: at most
        `max_lexical` are added, as beyond that it is better to search more neighbours.
        """
        promising, is_complete = self._promising(scored, scored.kth_best(k) - bound, max_lexical)
        if not len(promising.rows):
            return scored, is_complete
        lowest, step = float(promising.scores.min()), _FIRST_LEXICAL
        while True:
            best, rest = promising.split(step)
            order = _storage_order(best.segment_ords, best.rows)
            chunks = best.segment_ords[order], best.rows[order]
            scored = scored.extended(chunks, self._score(self._cosines(space, query, chunks), chunks))
            min_score = self._min_bm25(scored.kth_best(k) - bound) * (1 - bm25.ROUNDING)
            promising = rest.at_least(min_score)
            if not len(promising.rows):
                return scored, is_complete or lowest < min_score
            step *= _DEEPER

    def _add_first_by_id(self, scored: _ScoredChunks, k: int) -> _ScoredChunks:
        """Add the first k chunks of each segment by id: with a = 0 all chunks without a word tie at score 0."""
        for segment_ord, view in enumerate(self._segments):
            rows = view.row_mask(self._filter).rows()
            if len(rows) > k:
                rows = rows[np.argpartition(view.segment.ids.ranks[rows], k - 1)[:k]]
            segment_ords = np.full(len(rows), segment_ord)
            fresh = scored.lacks(segment_ords, rows)
            scored = scored.extended((segment_ords[fresh], rows[fresh]), np.zeros(np.count_nonzero(fresh)))
        return scored

    def _min_bm25(self, least: float) -> float:
        """The BM25 score at which words add `least` to the fused score; infinite if words never add so much."""
        return least_bm25(self._fusion, least)

    def _promising(self, scored: _ScoredChunks, least: float, count: int) -> tuple[_ScoredChunks, bool]:
        """The allowed chunks that are not scored yet and whose words add at least `least`, with their BM25 scores.

        The best `count` of them, in no order; also returns whether these are all.
        """
        min_score = self._min_bm25(least)
        if min_score == np.inf:
            return _NO_CHUNKS, True
        k = count + len(scored.rows)
        segment_ords, rows, scores = self._scorer.top_candidates(k=k, min_score=min_score, filter=self._filter)
        is_complete, fresh = len(rows) < k, scored.lacks(segment_ords, rows)
        segment_ords, rows, scores = segment_ords[fresh], rows[fresh], scores[fresh]
        promising = _ScoredChunks(segment_ords, rows, scores)
        return promising.split(count)[0], is_complete and len(rows) <= count

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


def fused(fusion: Fusion, cosines: NDArray[np.float64], words: NDArray[np.float64]) -> NDArray[np.float64]:
    """The fused scores of chunks (n,) without codes, from their cosines and BM25+ scores."""
    scores: NDArray[np.float64] = fusion.a * cosines + (1 - fusion.a) * (words / (words + fusion.c))
    return scores


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
    similarities = np.einsum("ij,j->i", vectors, mean).astype(np.float64)
    anew: NDArray[np.float64] = scores + 2 * a * _FEEDBACK_WEIGHT * similarities
    return anew


def _followed_by(best: TopK, hits: TopK, depth: int) -> TopK:
    """The hits whose best `depth` were scored anew. Those after them keep their order and stay below: if the first of
    these would reach the last of the others, the scores of all of them are lowered by the same amount."""
    below, rest = np.nextafter(best.scores[-1], -np.inf), hits.scores[depth:]
    rest = np.minimum(rest - max(0.0, rest[0] - below), below)  # below, so that no tie breaks the order of ids
    return TopK(
        np.concatenate([best.segment_ords, hits.segment_ords[depth:]]),
        np.concatenate([best.rows, hits.rows[depth:]]),
        np.concatenate([best.scores, rest]),
    )


def _storage_order(segment_ords: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.intp]:
    """The order of chunks in memory: read in it, they take a fraction of the time."""
    return np.argsort(segment_ords << 32 | rows)


def to_cosines(space: EmbeddingSpace, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """The cosines that scores of unit vectors stand for: a euclidean distance is the chord between them."""
    return 1.0 - scores * scores / 2.0 if space.distance == "euclidean" else scores
