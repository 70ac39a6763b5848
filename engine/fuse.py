"""Hybrid search: the closeness of vectors and the words that are shared, as one score that every chunk has.

score = a * cosine + (1 - a) * bm25 / (bm25 + c). Neither side is normalised by what else was found, so a chunk's score
does not depend on candidates. They come from both sides and the missing side is computed exactly; when to stop is
Fagin's threshold ("Optimal Aggregation Algorithms for Middleware", 2003): no chunk that was not looked at can still
reach the last place. So hits are exact, as far as the dense side finds its nearest rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from aidre.engine import lexical
from aidre.engine.filters import Filter
from aidre.engine.index import evaluate
from aidre.engine.lexical import Statistics
from aidre.engine.model import EmbeddingSpace, Fusion
from aidre.engine.parts import Part, Ranked, ordered
from aidre.engine.search import search
from aidre.engine.vectors import is_unit

LEAST_DENSE: Final = 64
"""So many neighbours are looked at first, however few hits are wanted."""

_STEP: Final = 256
_MOST: Final = 16_384
"""Rather than to compare the query with more chunks at once for their words alone, look at more neighbours."""

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

    def last(self, wanted: int) -> float:
        """The score of the last hit, minus infinity while there are too few."""
        place = len(self.scores) - wanted
        return float(np.partition(self.scores, place)[place]) if place >= 0 else -np.inf


class Hybrid:
    """One query with a vector and words. `wanted` is how many hits it is asked for at most."""

    def __init__(
        self,
        parts: Sequence[Part],
        statistics: Statistics,
        text: str,
        fusion: Fusion,
        only: Filter | None = None,
    ) -> None:
        self._parts, self._fusion, self._only = parts, fusion, only
        words = lexical.asked(parts, statistics, text)
        self._scores = [lexical.score(part, statistics, words) if words else None for part in parts]

    def search(
        self,
        space: EmbeddingSpace,
        query: NDArray[np.float32],
        *,
        wanted: int,
        depth_for: Callable[[int], int | None],
    ) -> Ranked:
        """The best `wanted` rows. `depth_for` gives the scan's candidates for a number of neighbours."""
        count = max(LEAST_DENSE, 2 * wanted)
        while True:
            near = search(self._parts, space.id, query, wanted=count, depth=depth_for(count), only=self._only)
            found = _Found(near.parts, near.rows, self._fused(_cosines(space, near.scores), (near.parts, near.rows)))
            if len(near.rows) < count:
                break
            bound = self._fusion.a * float(_cosines(space, near.scores[-1:])[0])
            found, whole = self._with_words(space, query, found, bound=bound, wanted=wanted)
            if whole:  # the neighbours alone reach the bound, in the order of ids where they tie
                break
            count *= _DEEPER
        return ordered(self._parts, [found.parts], [found.rows], [found.scores], wanted)

    def rescored(
        self, ranked: Ranked, space: EmbeddingSpace, query: NDArray[np.float32], depth: int
    ) -> Ranked:
        """The same hits, the best `depth` of them with the cosine of another space.

        Those after them keep their order below: where they would reach the best, all score less by as much.
        """
        first = ranked.parts[:depth], ranked.rows[:depth]
        scores = self._fused(self._compare(space, query, first), first)
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

    def _fused(self, cosines: NDArray[np.float64], places: Places) -> NDArray[np.float64]:
        bm25 = np.zeros(len(cosines))
        for place, mine in self._by_part(places):
            scores = self._scores[place]
            if scores is not None:
                bm25[mine] = scores[places[1][mine]]
        return self._fusion.a * cosines + (1 - self._fusion.a) * (bm25 / (bm25 + self._fusion.c))

    def _with_words(
        self, space: EmbeddingSpace, query: NDArray[np.float32], found: _Found, *, bound: float, wanted: int
    ) -> tuple[_Found, bool]:
        """With the chunks that are not among the neighbours but can be hits for their words, best words first.

        `bound` is the most that the vector of such a chunk adds. Also says whether none is missing.
        """
        step = _STEP
        while step <= _MOST:
            places = self._promising(found.last(wanted) - bound, found, step)
            if not len(places[1]):
                return found, True
            found = found.with_more(*places, self._fused(self._compare(space, query, places), places))
            step *= _DEEPER
        return found, False

    def _promising(self, least: float, found: _Found, most: int) -> Places:
        """The best `most` of the allowed chunks that are not found yet and whose words add at least `least`."""
        share = least / (1 - self._fusion.a) if self._fusion.a < 1 else np.inf
        if share >= 1:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        # The same in terms of BM25, a little lower for what rounding may have taken.
        cut = max(0.0, self._fusion.c * share / (1 - share) * (1 - _ROUNDING)) if share > 0 else 0.0
        owners, rows, values = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0)]
        for place, (part, scores) in enumerate(zip(self._parts, self._scores, strict=True)):
            if scores is None:
                continue
            enough = (scores >= cut) & (scores > 0) if cut > 0 else scores > 0
            mask = part.allowed(self._only).mask
            chosen = np.flatnonzero(enough if mask is None else enough & mask)
            fresh = np.ones(len(scores), np.bool_)
            fresh[found.rows[found.parts == place]] = False
            chosen = chosen[fresh[chosen]]
            owners.append(np.full(len(chosen), place))
            rows.append(chosen)
            values.append(scores[chosen])
        owner, row, value = np.concatenate(owners), np.concatenate(rows), np.concatenate(values)
        if len(value) <= most:
            return owner, row
        best = np.argpartition(-value, most)[:most]
        return owner[best], row[best]

    def _by_part(self, places: Places) -> Iterator[tuple[int, Any]]:
        """Each part that is among the places, and what selects its own."""
        if len(self._parts) == 1:
            yield 0, slice(None)
            return
        for place in np.flatnonzero(np.bincount(places[0])).tolist():
            yield place, places[0] == place

    def _compare(self, space: EmbeddingSpace, query: NDArray[np.float32], places: Places) -> NDArray[np.float64]:
        """The cosine of the query with some chunks, by the kernel that all scores come from."""
        cosines = np.zeros(len(places[1]))
        for place, mine in self._by_part(places):
            column = self._parts[place].segment.columns[space.id]
            cosines[mine] = _cosines(space, evaluate(column.measure, column.take(places[1][mine]), query))
        return cosines


def _cosines(space: EmbeddingSpace, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores of a space of unit vectors as cosines: the distance of two is the chord between them."""
    return 1.0 - scores * scores / 2.0 if space.distance == "euclidean" else scores
