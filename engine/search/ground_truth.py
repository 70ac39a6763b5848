"""Ground truth for calibration: the true nearest neighbours of sampled queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from aidre.engine.index.vectors import row_blocks
from aidre.engine.model import EmbeddingSpace
from aidre.engine.search.query_samples import Kind, LiveColumn, QuerySample, row_key

K_VALUES = (10, 100, 1000)
"""Numbers of neighbours (k) that are calibrated, those below the number of rows."""

THREADS = 2
"""Threads that share the blocks of rows: part of a block's time is a matrix product, the rest runs on one core."""

_TIE_TOLERANCE = 1e-6
"""Relative difference up to which scores count as tied: a matrix product rounds differently from FAISS's distances."""

_MIN_FLOAT32_DIMENSIONS = 64
"""Dimensions; with fewer, matrix products are computed in float64."""

T = TypeVar("T")

_Nearest = tuple[NDArray[np.int64], NDArray[Any]]
"""Row keys (n,) of one query's nearest rows, and their scores (n,)."""

_Block = tuple[int, NDArray[np.int64]]
"""A target's ordinal and some of its live rows, ascending."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The true neighbours of one query, by row key, ascending.

    A tier is 0 for the first `k_values[0]` neighbours (ties included), 1 for the rest of the first `k_values[1]`, ...
    """

    keys: NDArray[np.int64]
    tiers: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class GroundTruth:
    """Queries (n, d) with their own row keys, and for each its neighbours without itself. `kinds` says which queries
    are of a kind."""

    k_values: tuple[int, ...]
    queries: NDArray[np.float32]
    query_keys: list[int]
    neighbours: list[Neighbours]
    kinds: Mapping[Kind, slice]

    def by_kind(self, values: Sequence[T]) -> dict[Kind, Sequence[T]]:
        """What was found for each query, for the queries of each kind."""
        return {kind: values[own] for kind, own in self.kinds.items()}

    def every(self, step: int) -> GroundTruth:
        """One query in `step` of each kind, at least one."""
        chosen = {kind: range(own.start, own.stop, step) for kind, own in self.kinds.items()}
        numbers = [number for own in chosen.values() for number in own]
        ends = np.cumsum([len(own) for own in chosen.values()]).tolist()
        return GroundTruth(
            self.k_values,
            self.queries[numbers],
            [self.query_keys[number] for number in numbers],
            [self.neighbours[number] for number in numbers],
            {kind: slice(end - len(own), end) for (kind, own), end in zip(chosen.items(), ends, strict=True)},
        )


def find_ground_truth(
    space: EmbeddingSpace, targets: Sequence[LiveColumn], rows: int, samples: Sequence[QuerySample]
) -> GroundTruth:
    """Find the neighbours of the queries of all samples exactly, among the `rows` live rows of all targets."""
    k_values = tuple(k for k in K_VALUES if k < rows) or (max(1, rows - 1),)
    queries = np.concatenate([sample.queries for sample in samples])
    query_keys = np.concatenate([sample.row_keys for sample in samples]).tolist()
    ends = np.cumsum([len(sample.queries) for sample in samples]).tolist()
    kinds = {sample.kind: slice(end - len(sample.queries), end) for sample, end in zip(samples, ends, strict=True)}
    nearest = _nearest_rows(space, targets, queries, query_keys, max(k_values))
    return GroundTruth(k_values, queries, query_keys, [_with_tiers(*found, k_values) for found in nearest], kinds)


def _nearest_rows(
    space: EmbeddingSpace,
    targets: Sequence[LiveColumn],
    queries: NDArray[np.float32],
    query_keys: Sequence[int],
    k: int,
) -> list[_Nearest]:
    """The nearest k rows of each query but itself, best first."""
    dtype = np.float64 if space.dimensions < _MIN_FLOAT32_DIMENSIONS else np.float32
    # A shift changes no distance, and near the origin a matrix product loses fewer digits.
    centre: NDArray[Any] = queries.mean(axis=0).astype(dtype) * (space.distance == "euclidean")
    centred: NDArray[Any] = queries.astype(dtype) - centre

    def nearest_in(blocks: Sequence[_Block]) -> list[_Nearest]:
        return _nearest_in_blocks(space, targets, centred, blocks, centre=centre, count=k + 1)

    blocks = [(number, block) for number, target in enumerate(targets) for block in row_blocks(target.live.rows())]
    with ThreadPoolExecutor(THREADS) as pool:
        by_thread = list(pool.map(nearest_in, [blocks[start::THREADS] for start in range(THREADS)]))
    result = []
    for query_key, *parts in zip(query_keys, *by_thread, strict=True):
        keys, scores = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        order = np.argsort(-scores, kind="stable")
        order = order[keys[order] != query_key][:k]
        result.append((keys[order], scores[order]))
    return result


def _nearest_in_blocks(
    space: EmbeddingSpace,
    targets: Sequence[LiveColumn],
    queries: NDArray[Any],
    blocks: Iterable[_Block],
    *,
    centre: NDArray[Any],
    count: int,
) -> list[_Nearest]:
    """The nearest `count` rows of some blocks for each centred query, in no order, by matrix products."""
    l2 = space.distance == "euclidean" or targets[0].column.metric.chord
    best: list[_Nearest] = [(np.empty(0, np.int64), np.empty(0, queries.dtype)) for _ in queries]
    for target_ord, block in blocks:
        column, first, last = targets[target_ord].column, int(block[0]), int(block[-1]) + 1
        is_contiguous = last - first == len(block)
        rows: NDArray[Any] = (column.codes[first:last] if is_contiguous else column.take(block)).astype(queries.dtype)
        if space.distance == "euclidean":
            rows -= centre
        scores = queries @ rows.T
        if l2:
            scores = 2 * scores - np.einsum("ij,ij->i", rows, rows)[None, :]
        keys = row_key(target_ord, block)
        best = [_with_block(old, keys, row, count) for old, row in zip(best, scores, strict=True)]
    return best


def _with_block(best: _Nearest, keys: NDArray[np.int64], scores: NDArray[Any], count: int) -> _Nearest:
    """The best `count` of what was kept and one more block, of which the worst kept score rejects most rows."""
    if len(best[1]) >= count:
        passing = np.flatnonzero(scores > best[1].min())
        keys, scores = keys[passing], scores[passing]
    keys, scores = np.concatenate([best[0], keys]), np.concatenate([best[1], scores])
    if len(scores) > count:
        kept = np.argpartition(-scores, count - 1)[:count]
        keys, scores = keys[kept], scores[kept]
    return keys, scores


def _with_tiers(keys: NDArray[np.int64], scores: NDArray[Any], k_values: Sequence[int]) -> Neighbours:
    """`keys` and `scores` are best first."""
    bounds = np.array([scores[k - 1] - abs(scores[k - 1]) * _TIE_TOLERANCE for k in k_values])
    tiers = (scores[:, None] < bounds[None, :]).sum(axis=1)
    order = np.argsort(keys)
    return Neighbours(keys[order], tiers[order])
