"""What calibration measures against: live rows that are asked as queries, and their true neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from aidre.engine.codebook import blocks_of
from aidre.engine.kernel import Column
from aidre.engine.model import EmbeddingSpace
from aidre.engine.parts import Allowed

RESULTS = (10, 100, 1000)
QUERIES = 200
THREADS = 2
"""Of the time of a block one part is spent on a matrix product, the rest on what one thread can do."""

_SEED = 20_260_101
_Best = list[tuple[NDArray[np.int64], NDArray[Any]]]


class Source(Protocol):
    """A column with its live rows."""

    @property
    def column(self) -> Column: ...

    @property
    def live(self) -> Allowed: ...


class Truth:
    """Sampled queries and their true neighbours, themselves excluded.

    `groups[q]` holds two arrays: the neighbours as `place_of` their target and row, ascending, and for each of them 0
    where it belongs to the first `results[0]` (ties included), 1 where to the next number of results, and so on.
    """

    def __init__(self, space: EmbeddingSpace, targets: Sequence[Source], rows: int) -> None:
        rng = np.random.default_rng(_SEED)
        self.results = tuple(k for k in RESULTS if k < rows) or (max(1, rows - 1),)
        ends = np.cumsum([target.live.count for target in targets])
        starts = ends - [target.live.count for target in targets]
        picks = np.sort(rng.choice(rows, min(QUERIES, rows), replace=False))
        owners = np.searchsorted(ends, picks, side="right")
        live = {owner: targets[owner].live.rows() for owner in set(owners.tolist())}
        own_rows = [int(live[o][p - starts[o]]) for o, p in zip(owners, picks, strict=True)]
        self.own = [place_of(int(o), r) for o, r in zip(owners, own_rows, strict=True)]
        parts = [targets[o].column.take(np.array([r])) for o, r in zip(owners, own_rows, strict=True)]
        self.queries: NDArray[np.float32] = np.concatenate(parts).astype(np.float32)
        nearest = _nearest(space, self, targets)
        self.groups = [_grouped(places, scores, self.results) for places, scores in nearest]


def place_of(target: Any, rows: Any) -> Any:
    """One number for a row of a target."""
    return (target << 32) + rows


def _nearest(
    space: EmbeddingSpace, truth: Truth, targets: Sequence[Source]
) -> list[tuple[NDArray[np.int64], NDArray[Any]]]:
    """Places and scores of the nearest rows of each query, best first, by matrix products block by block."""
    wide = np.float64 if space.dimensions < 64 else np.float32
    l2 = space.distance == "euclidean" or targets[0].column.measure.chord
    # Distances do not change when all is shifted; near the origin a matrix product loses no digits.
    centre: NDArray[Any] = truth.queries.mean(axis=0).astype(wide) * (space.distance == "euclidean")
    queries: NDArray[Any] = truth.queries.astype(wide) - centre
    keep = max(truth.results) + 1

    def among(blocks: Iterable[tuple[int, NDArray[np.int64]]]) -> _Best:
        best: _Best = [(np.empty(0, np.int64), np.empty(0, wide)) for _ in queries]
        for number, block in blocks:
            column, first, last = targets[number].column, int(block[0]), int(block[-1]) + 1
            whole = last - first == len(block)
            rows: NDArray[Any] = (column.codes[first:last] if whole else column.take(block)).astype(wide)
            if space.distance == "euclidean":
                rows -= centre
            scores = queries @ rows.T
            if l2:
                scores = 2 * scores - np.einsum("ij,ij->i", rows, rows)[None, :]
            places = place_of(number, block)
            best = [_best(old, places, row, keep) for old, row in zip(best, scores, strict=True)]
        return best

    blocks = [(number, block) for number, target in enumerate(targets) for block in blocks_of(target.live.rows())]
    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(among, [blocks[start::THREADS] for start in range(THREADS)]))
    result = []
    for own, *theirs in zip(truth.own, *found, strict=True):
        places, scores = (np.concatenate(each) for each in zip(*theirs, strict=True))
        order = np.argsort(-scores, kind="stable")
        order = order[places[order] != own][: keep - 1]
        result.append((places[order], scores[order]))
    return result


def _best(
    old: tuple[NDArray[np.int64], NDArray[Any]], places: NDArray[np.int64], scores: NDArray[Any], keep: int
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """The best `keep` of what was kept and one more block; most of a block falls to the threshold at once."""
    if len(old[1]) >= keep:
        passing = np.flatnonzero(scores > old[1].min())
        places, scores = places[passing], scores[passing]
    places, scores = np.concatenate([old[0], places]), np.concatenate([old[1], scores])
    if len(scores) > keep:
        chosen = np.argpartition(-scores, keep - 1)[:keep]
        places, scores = places[chosen], scores[chosen]
    return places, scores


def _grouped(
    places: NDArray[np.int64], scores: NDArray[Any], results: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    # The matrix product rounds unlike the search kernel: a hair's breadth counts as a tie.
    bounds = np.array([scores[k - 1] - abs(scores[k - 1]) * 1e-6 for k in results])
    groups = (scores[:, None] < bounds[None, :]).sum(axis=1)
    order = np.argsort(places)
    return places[order], groups[order]
