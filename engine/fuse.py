"""Hybrid search: the closeness of vectors and the words that are shared, as one score that every chunk has.

score = a * cosine + (1 - a) * bm25 / (bm25 + c). Neither side is normalised by what else was found, so a chunk's score
does not depend on candidates. They come from both sides and the missing side is computed exactly; when to stop is
Fagin's threshold ("Optimal Aggregation Algorithms for Middleware", 2003): no chunk that was not looked at can still
reach the last place. So hits are exact, as far as the dense side finds its nearest rows.

Why it may stop: a chunk that is not among the neighbours has no larger cosine than the last of them, so its vector adds
at most `bound`. To be a hit it has to reach the last one's score, so its words must add at least that score - bound,
which is a BM25 score (`_cut`). All chunks of that score are looked at, or more neighbours are, which lowers `bound`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from aidre.engine import lexical
from aidre.engine.filters import Filter
from aidre.engine.kernel import nearest
from aidre.engine.lexical import Scorer, Statistics
from aidre.engine.model import EmbeddingSpace, Fusion
from aidre.engine.parts import Parts, Ranked, ordered
from aidre.engine.reach import Reach
from aidre.engine.search import search
from aidre.engine.vectors import is_unit

LEAST_DENSE: Final = 32
"""So many neighbours are looked at first, however few hits are wanted."""

_FETCHED: Final = 4_096
"""So many chunks at most are then taken for their words alone."""

_STEP: Final = 256
"""So many of them are compared with the query first."""

_DEEPER: Final = 4
_ROUNDING: Final = 1e-9

Places = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Parts (as places in a list) and their chunk rows."""


def can_fuse(space: EmbeddingSpace) -> bool:
    """Whether the scores of a space are cosines, or as good as: those of vectors of any length have no scale."""
    return is_unit(space)


@dataclass(frozen=True, slots=True)
class _Found:
    """Chunks with their fused scores, in no order."""

    parts: NDArray[np.int64]
    rows: NDArray[np.int64]
    scores: NDArray[np.float64]

    def with_more(self, parts: NDArray[np.int64], rows: NDArray[np.int64], scores: NDArray[np.float64]) -> _Found:
        return _Found(
            np.concatenate([self.parts, parts]),
            np.concatenate([self.rows, rows]),
            np.concatenate([self.scores, scores]),
        )

    def lacks(self, parts: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of some chunks are not among these."""
        if not len(self.rows):
            return np.ones(len(rows), np.bool_)
        mine, others = np.sort(self.parts << 32 | self.rows), parts << 32 | rows
        missing: NDArray[np.bool_] = mine[np.minimum(np.searchsorted(mine, others), len(mine) - 1)] != others
        return missing

    def last(self, wanted: int) -> float:
        """The score of the last hit, minus infinity while there are too few."""
        place = len(self.scores) - wanted
        return float(np.partition(self.scores, place)[place]) if place >= 0 else -np.inf


_NOTHING: Final = _Found(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


class Hybrid:
    """One query with a vector and words. `wanted` is how many hits it is asked for at most."""

    def __init__(
        self,
        parts: Parts,
        statistics: Statistics,
        text: str,
        fusion: Fusion,
        only: Filter | None = None,
    ) -> None:
        self._parts, self._fusion, self._only = parts, fusion, only
        self._words = Scorer(parts, statistics, text)

    def search(
        self,
        space: EmbeddingSpace,
        query: NDArray[np.float32],
        *,
        wanted: int,
        reach_for: Callable[[int], Reach | None],
    ) -> Ranked:
        """The best `wanted` rows. `reach_for` says how far the scan goes for a number of neighbours."""
        count, most, found = max(LEAST_DENSE, 2 * wanted), _FETCHED, _NOTHING
        while True:
            near = search(self._parts, space.id, query, wanted=count, reach=reach_for(count), only=self._only)
            cosines, order = _cosines(space, near.scores), _as_they_lie(near.parts, near.rows)
            fresh = order[found.lacks(near.parts[order], near.rows[order])]
            places = near.parts[fresh], near.rows[fresh]
            found = found.with_more(*places, self._fused(cosines[fresh], self._words.score(*places)))
            if len(near.rows) < count:
                break
            found, whole = self._with_words(
                space, query, found, bound=self._fusion.a * float(cosines[-1]), wanted=wanted, most=most
            )
            if whole:  # the neighbours alone reach the bound, in the order of ids where they tie
                if self._fusion.a == 0 and found.last(wanted) <= 0:
                    found = self._with_first(found, wanted)
                break
            count, most = count * _DEEPER, most * _DEEPER
        return ordered(self._parts, [found.parts], [found.rows], [found.scores], wanted)

    def rescored(self, ranked: Ranked, space: EmbeddingSpace, query: NDArray[np.float32], depth: int) -> Ranked:
        """The same hits, the best `depth` of them with the cosine of another space.

        Those after them keep their order below: where they would reach the best, all score less by as much.
        """
        order = _as_they_lie(ranked.parts[:depth], ranked.rows[:depth])
        first = ranked.parts[order], ranked.rows[order]
        scores = self._fused(self._compare(space, query, first), self._words.score(*first))
        best = ordered(self._parts, [first[0]], [first[1]], [scores], depth)
        if len(ranked.rows) <= depth:
            return best
        below, rest = np.nextafter(best.scores[-1], -np.inf), ranked.scores[depth:]
        rest = np.minimum(rest - max(0.0, rest[0] - below), below)  # so that no tie is out of the order of ids
        return Ranked(
            np.concatenate([best.parts, ranked.parts[depth:]]),
            np.concatenate([best.rows, ranked.rows[depth:]]),
            np.concatenate([best.scores, rest]),
        )

    def _fused(self, cosines: NDArray[np.float64], bm25: NDArray[np.float64]) -> NDArray[np.float64]:
        return self._fusion.a * cosines + (1 - self._fusion.a) * (bm25 / (bm25 + self._fusion.c))

    def _with_words(
        self,
        space: EmbeddingSpace,
        query: NDArray[np.float32],
        found: _Found,
        *,
        bound: float,
        wanted: int,
        most: int,
    ) -> tuple[_Found, bool]:
        """With the chunks that are not among the neighbours but can be hits for their words, best words first.

        `bound` is the most that the vector of such a chunk adds. Also says whether none is missing: no more than `most`
        are taken, for then it is better to look at more neighbours.
        """
        promising, whole = self._promising(found, found.last(wanted) - bound, most)
        start, step = 0, _STEP
        while start < len(promising.rows):
            places = promising.parts[start : start + step], promising.rows[start : start + step]
            order = _as_they_lie(*places)
            places = places[0][order], places[1][order]
            cosines = self._compare(space, query, places)
            found = found.with_more(*places, self._fused(cosines, self._words.score(*places)))
            start, step = start + len(places[1]), step * _DEEPER
            if promising.scores[start - 1] < self._cut(found.last(wanted) - bound) * (1 - lexical.ROUNDING):
                return found, True
        return found, whole

    def _with_first(self, found: _Found, wanted: int) -> _Found:
        """With the first of the chunks by their ids: all without a word tie where the vectors count for nothing."""
        for place, part in enumerate(self._parts):
            rows = part.allowed(self._only).rows()
            if len(rows) > wanted:
                rows = rows[np.argpartition(part.segment.ids.ranks[rows], wanted - 1)[:wanted]]
            owners = np.full(len(rows), place)
            fresh = found.lacks(owners, rows)
            found = found.with_more(owners[fresh], rows[fresh], np.zeros(np.count_nonzero(fresh)))
        return found

    def _cut(self, least: float) -> float:
        """The BM25 score of a chunk whose words add `least`, infinite where no words do."""
        share = least / (1 - self._fusion.a) if self._fusion.a < 1 else np.inf
        if share >= 1:
            return np.inf
        # A little lower for what rounding may have taken.
        return max(0.0, self._fusion.c * share / (1 - share) * (1 - _ROUNDING)) if share > 0 else 0.0

    def _promising(self, found: _Found, least: float, most: int) -> tuple[_Found, bool]:
        """The allowed chunks that are not found yet and whose words add at least `least`, with their BM25 scores: the
        best `most` of them in order. Also says whether these are all."""
        cut = self._cut(least)
        if cut == np.inf:
            return _NOTHING, True
        wanted = most + len(found.rows)
        owner, row, score = self._words.strongest(wanted=wanted, least=cut, only=self._only)
        whole, fresh = len(row) < wanted, found.lacks(owner, row)
        owner, row, score = owner[fresh], row[fresh], score[fresh]
        order = np.argsort(-score)[:most]
        return _Found(owner[order], row[order], score[order]), whole and len(order) == len(score)

    def _compare(self, space: EmbeddingSpace, query: NDArray[np.float32], places: Places) -> NDArray[np.float64]:
        """The cosine of the query with some chunks, given as they lie, by the kernel that all scores come from."""
        owners, rows = places
        bounds = np.searchsorted(owners, np.arange(len(self._parts) + 1)).tolist()
        lists = zip(self._parts, pairwise(bounds), strict=True)
        chosen = [(part.segment.columns[space.id], rows[start:stop]) for part, (start, stop) in lists if start < stop]
        found, scores = nearest(chosen, query)
        cosines = np.empty(len(rows))
        cosines[found] = _cosines(space, scores)
        return cosines


def _as_they_lie(parts: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.intp]:
    """The order of some chunks in memory: in it they are read several times as fast."""
    return np.argsort(parts << 32 | rows)


def _cosines(space: EmbeddingSpace, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores of a space of unit vectors as cosines: the distance of two is the chord between them."""
    return 1.0 - scores * scores / 2.0 if space.distance == "euclidean" else scores
