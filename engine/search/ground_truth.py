"""Ground truth for calibration: the true neighbours of sampled queries, and how deep a search has to go for them.

Sixty queries that miss one neighbour in a hundred prove hardly more than .98, and proof is what a low depth needs. True
neighbours of hundreds of queries more would cost as much as all else. A deep scan finds nearly all of them in a tenth
of the time, and how many it misses is known from the queries whose neighbours were found exactly: for every further
query that share counts as missed, so that no more is proven than is true (`with_more_queries`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from aidre.engine.index.vectors import (
    Candidates,
    PreparedScan,
    ScanGroup,
    VectorIndex,
    group_by_codebook,
    row_blocks,
    score_rows,
)
from aidre.engine.model import EmbeddingSpace
from aidre.engine.search.depth_choice import (
    RankedCentroids,
    Reach,
    RequiredDepth,
    Requirements,
    entries_by_centroid,
    rank_centroids,
)
from aidre.engine.search.query_samples import (
    Kind,
    LiveColumn,
    QuerySample,
    generated_samples,
    row_key,
    row_of,
    target_of,
)
from aidre.engine.segment import pack_bitmap
from aidre.engine.storage import MAX_SEGMENT_ROWS

K_VALUES = (10, 100, 1000)
"""Numbers of neighbours (k) that are calibrated, those below the number of rows."""

THREADS = 2
"""Threads that share the blocks of rows: part of a block's time is a matrix product, the rest runs on one core."""

_TIE_TOLERANCE = 1e-6
"""Relative difference up to which scores count as tied: a matrix product rounds differently from FAISS's distances."""

_MIN_FLOAT32_DIMENSIONS = 64
"""Dimensions; with fewer, matrix products are computed in float64."""

MORE_QUERIES: Final = 600
"""Queries beside those whose neighbours are found exactly. With twice as many the depths are hardly less."""

_MORE_SHARES = 0.4, 0.3
"""Shares of rows and of pairs among them."""

_MORE_DEPTH, _MORE_DEPTH_ROWS = 1_024, 60_000
"""Candidates of the deep scan, and the rows of the collection for which this is their number. For others it grows with
the fourth root of the rows."""

_MORE_SEED: Final = 20_260_102
_QUERIES_AT_ONCE: Final = 25

_SCORED_AT_ONCE: Final = 256
"""Queries that are compared with a block of rows in one matrix product: the scores of all of them would take more
memory than all else that calibration needs."""

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
        column, low, high = targets[target_ord].column, int(block[0]), int(block[-1]) + 1
        is_contiguous = high - low == len(block)
        rows: NDArray[Any] = (column.codes[low:high] if is_contiguous else column.take(block)).astype(queries.dtype)
        if space.distance == "euclidean":
            rows -= centre
        squares = np.einsum("ij,ij->i", rows, rows)[None, :] if l2 else None
        keys = row_key(target_ord, block)
        for first in range(0, len(queries), _SCORED_AT_ONCE):
            scores = queries[first : first + _SCORED_AT_ONCE] @ rows.T
            if squares is not None:
                scores = 2 * scores - squares
            for number, row in enumerate(scores, first):
                best[number] = _with_block(best[number], keys, row, count)
    return best


def _with_block(best: _Nearest, keys: NDArray[np.int64], scores: NDArray[Any], count: int) -> _Nearest:
    """The best `count` of what was kept and one more block, of which the worst kept score rejects most rows."""
    if len(best[1]) >= count:
        passing = np.flatnonzero(scores > best[1].min())
        keys, scores = keys[passing], scores[passing]
    keys, scores = np.concatenate([best[0], keys]), np.concatenate([best[1], scores])
    if len(scores) > count:
        nearest = np.argpartition(-scores, count - 1)[:count]
        keys, scores = keys[nearest], scores[nearest]
    return keys, scores


def _with_tiers(keys: NDArray[np.int64], scores: NDArray[Any], k_values: Sequence[int]) -> Neighbours:
    """`keys` and `scores` are best first."""
    bounds = np.array([scores[k - 1] - abs(scores[k - 1]) * _TIE_TOLERANCE for k in k_values])
    tiers = (scores[:, None] < bounds[None, :]).sum(axis=1)
    order = np.argsort(keys)
    return Neighbours(keys[order], tiers[order])


# -- required depth ------------------------------------------------------------------------------------------


class IndexedColumn(LiveColumn, Protocol):
    """A column with its live rows and their index."""

    @property
    def index(self) -> VectorIndex | None: ...


class _Scans:
    """A deep scan of all indexes; `indexed` are the scanned columns by their ordinals in the ground truth."""

    def __init__(self, indexed: Mapping[int, IndexedColumn], max_depth: int) -> None:
        self.indexed, self.max_depth = indexed, max_depth
        self.indexes = {number: column.index for number, column in indexed.items() if column.index is not None}
        self.target_of_slot = _assign_free_slots(self.indexes)
        self.entries = entries_by_centroid(self.indexes)
        self._scans = list[tuple[PreparedScan, int]]()
        for group in group_by_codebook(self.indexes.values()):
            chosen = [(index.slot or 0, indexed[self.target_of_slot[index.slot or 0]].live) for index in group]
            allowed = sum(live.count for _, live in chosen)
            self._scans.append(
                (PreparedScan(ScanGroup(group), bitmap=pack_bitmap(chosen)), min(max_depth + 1, allowed))
            )

    def each(
        self,
        queries: NDArray[np.float32],
        query_keys: Sequence[int],
        measure: Callable[[int, NDArray[np.int64]], T],
    ) -> list[T]:
        """`measure` of the number of each query and the keys of its candidates without itself, best first."""

        def batch(first: int) -> list[T]:
            some = queries[first : first + _QUERIES_AT_ONCE]
            by_query = zip(*(scan.search_all(some, count) for scan, count in self._scans), strict=True)
            return [
                measure(number, self._keys(candidates, query_keys[number]))
                for number, candidates in enumerate(by_query, first)
            ]

        with ThreadPoolExecutor(THREADS) as pool:
            return [truth for truths in pool.map(batch, range(0, len(queries), _QUERIES_AT_ONCE)) for truth in truths]

    def _keys(self, candidates: Sequence[Candidates], query_key: int) -> NDArray[np.int64]:
        row_ids, estimates = (np.concatenate(arrays) for arrays in zip(*candidates, strict=True))
        row_ids = row_ids[np.argsort(-estimates, kind="stable")]
        keys: NDArray[np.int64] = row_key(self.target_of_slot[row_ids // MAX_SEGMENT_ROWS], row_ids % MAX_SEGMENT_ROWS)
        others: NDArray[np.int64] = keys[keys != query_key][: self.max_depth]
        return others

    def ranks(self, keys: NDArray[np.int64], neighbours: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rank of each of the neighbours (ascending) among the candidates. Those in other columns are compared
        exactly: every depth finds them."""
        ranks = np.where(np.isin(target_of(neighbours), self.target_of_slot), self.max_depth, 0)
        if len(keys):  # a scan may find nothing, if all codes are alike
            order = np.argsort(keys)
            positions = order[np.minimum(np.searchsorted(keys, neighbours, sorter=order), len(order) - 1)]
            ranks = np.where(keys[positions] == neighbours, positions, ranks)
        return ranks

    def probes(
        self, query: NDArray[np.float32], neighbours: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], Reach | None]:
        """The `nprobe` and the `gaps` of the true neighbours of a query (1, d), and what probing reads for it."""
        nprobe, gaps = np.zeros(len(neighbours), np.int64), np.zeros(len(neighbours))
        ranked = dict[bytes, RankedCentroids]()
        reach: Reach | None = None
        for target_ord, index in self.indexes.items():
            own = target_of(neighbours) == target_ord
            if not index.nlist or not own.any():
                continue
            centroids_key = index.codebook_key[1]
            if centroids_key not in ranked:
                ranked[centroids_key] = rank_centroids(index.coarse_quantizer, query)
                reach = ranked[centroids_key].reach(self.entries[centroids_key])
            ranks, gap_at_rank = ranked[centroids_key].ranks, ranked[centroids_key].gaps
            nprobe[own] = ranks[index.assignments[:, row_of(neighbours[own])]].min(axis=0)
            gaps[own] = gap_at_rank[nprobe[own] - 1]
        return nprobe, gaps, reach

    def nearest(self, keys: NDArray[np.int64], query: NDArray[np.float32], k: int) -> NDArray[np.int64]:
        """The ranks of the nearest k of the candidates to a query (1, d), by exact comparison."""
        numbers = [np.flatnonzero(target_of(keys) == target_ord) for target_ord in self.indexed]
        chosen = [
            (column.column, row_of(keys[own])) for column, own in zip(self.indexed.values(), numbers, strict=True)
        ]
        positions, _ = score_rows(chosen, query, k)
        ranks: NDArray[np.int64] = np.concatenate(numbers)[positions[:k]]
        return ranks


def measure_required_depths(
    truth: GroundTruth, indexed: Mapping[int, IndexedColumn], max_depth: int
) -> list[RequiredDepth]:
    """The required depth of each query, as one search of all indexes finds it."""
    scans = _Scans(indexed, max_depth)

    def required(number: int, keys: NDArray[np.int64]) -> RequiredDepth:
        known = truth.neighbours[number]
        nprobe, gaps, reach = scans.probes(truth.queries[number : number + 1], known.keys)
        return RequiredDepth(scans.ranks(keys, known.keys), nprobe, gaps, known.tiers, reach)

    return scans.each(truth.queries, truth.query_keys, required)


def with_more_queries(
    space: EmbeddingSpace,
    truth: GroundTruth,
    indexed: Mapping[int, IndexedColumn],
    required: Requirements,
    max_depth: int,
) -> Requirements:
    """The requirements with those of more generated queries for the smallest k."""
    columns, k = list(indexed.values()), truth.k_values[0]
    rows = sum(column.live.count for column in columns)
    max_depth = min(max_depth, math.ceil(_MORE_DEPTH * max(1.0, rows / _MORE_DEPTH_ROWS) ** 0.25))
    scans, more, neighbours = _Scans(indexed, max_depth), dict(required), truth.by_kind(truth.neighbours)
    for sample in generated_samples(space, columns, rows, MORE_QUERIES, seed=_MORE_SEED, shares=_MORE_SHARES):
        ordinals = np.array(list(indexed))
        missed = _missed_share(required[sample.kind], neighbours[sample.kind], ordinals, max_depth)
        own_keys = np.where(sample.row_keys < 0, sample.row_keys, _with_targets(sample.row_keys, ordinals)).tolist()

        def found(
            number: int, keys: NDArray[np.int64], queries: NDArray[np.float32] = sample.queries, missed: float = missed
        ) -> RequiredDepth:
            query = queries[number : number + 1]
            ranks = scans.nearest(keys, query, k)
            nprobe, gaps, reach = scans.probes(query, keys[ranks])
            return RequiredDepth(ranks, nprobe, gaps, np.zeros(len(ranks), np.int64), reach, 0, missed)

        more[sample.kind] = [*required[sample.kind], *scans.each(sample.queries, own_keys, found)]
    return more


def _with_targets(keys: NDArray[np.int64], ordinals: NDArray[np.int64]) -> NDArray[np.int64]:
    """Row keys whose targets are counted through some columns, as keys of the ordinals of these."""
    found: NDArray[np.int64] = row_key(ordinals[target_of(keys)], row_of(keys))
    return found


def _missed_share(
    queries: Sequence[RequiredDepth], neighbours: Sequence[Neighbours], ordinals: NDArray[np.int64], max_depth: int
) -> float:
    """The share of the nearest neighbours in the scanned columns, by their ordinals, that no scan finds; all of them
    where none is known."""
    pairs = zip(queries, neighbours, strict=True)
    ranks = np.concatenate(
        [near.ranks[(near.tiers == 0) & np.isin(target_of(known.keys), ordinals)] for near, known in pairs]
    )
    return float(np.count_nonzero(ranks >= max_depth)) / len(ranks) if len(ranks) else 1.0


def _assign_free_slots(indexes: Mapping[int, VectorIndex]) -> NDArray[np.int64]:
    """Assign slots to indexes that no generation has yet; returns the target of each slot, -1 for a free one."""
    taken = {index.slot for index in indexes.values()}
    free = (slot for slot in itertools.count() if slot not in taken)
    for index in indexes.values():
        if index.slot is None:
            index.assign_slot(next(free))
    targets = {index.slot or 0: target_ord for target_ord, index in indexes.items()}
    return np.array([targets.get(slot, -1) for slot in range(max(targets, default=0) + 1)])
