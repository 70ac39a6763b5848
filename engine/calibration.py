"""Chooses the code size and the candidate depth of a space's scan by measuring recall on its own live rows.

Sampled rows are asked as queries (themselves excluded, ties tolerated); the depth that reaches the target is
doubled, since the rows of a corpus answer a little better than the queries of its users. Where no depth
that pays reaches the target, the space stays exact and says why.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidre.engine.cost import LEAST_SCANNED, beginning_cost, exact_cost, scan_cost, worth_a_scan
from aidre.engine.index import (
    TRAIN_ROWS,
    Pass,
    Scan,
    Sweep,
    blocks_of,
    code_sizes,
    fill,
    train,
)
from aidre.engine.kernel import Column
from aidre.engine.manifest import Calibration, Depth
from aidre.engine.model import EmbeddingSpace
from aidre.engine.parts import Allowed, bitmap
from aidre.engine.schema import SEGMENT_ROWS

RESULTS = (10, 100, 1000)
MARGIN = 2
LEAST_PER_RESULT, LEAST = 5, 50
"""No depth is less than LEAST_PER_RESULT * results + LEAST: so few candidates more cost little, and they cover
what a calibration cannot foresee, growth until the next one and segments with different codebooks."""

LEAST_UP_TO, LEAST_GROWTH = 60_000, 0.4
"""With more rows the least depth grows by this power of them, as what is needed does. Rows that have near-duplicates
are easy queries: of a million mixtures of 60,000 embeddings they promise .999 at 100, where real queries find .958."""

QUERIES = 200
_DEEPEST = 16_384
_SEED = 20_260_101


@dataclass(slots=True)
class Target:
    """A segment to be calibrated on: its column, its live rows and its scan, where it has one."""

    segment_id: str
    column: Column
    live: Allowed
    scan: Scan | None
    built: Any = None
    trained_rows: int = 0


def row_bytes(column: Column) -> int:
    return int(column.codes.itemsize * column.codes.shape[1])


def large(target: Target) -> bool:
    """Whether enough of its rows are live for a scan of it to pay."""
    return target.live.count >= LEAST_SCANNED


def scannable(targets: Sequence[Target]) -> list[Target]:
    """The large targets; none where all of them are too few rows to learn from, to measure on or to gain by."""
    found = [target for target in targets if large(target)]
    worth = found and worth_a_scan(sum(target.live.count for target in found), row_bytes(found[0].column))
    return found if worth else []


def calibrate(space: EmbeddingSpace, targets: Sequence[Target], goal: float) -> Calibration:
    """Measure, and leave in each large target the scan that the chosen code size needs (`built` where it is new)."""
    rows = sum(target.live.count for target in targets)
    candidates = scannable(targets)
    if not candidates:
        return Calibration("exact", goal, rows, reason="small: comparing with every row is as fast")
    truth = _Truth(space, targets, rows)
    # A smaller size than the segments have was tried on fewer rows already; all of them would be encoded for nothing.
    least = min((target.scan.code_size for target in candidates if target.scan is not None), default=0)
    for code_size in (size for size in code_sizes(space.dimensions) if size >= least):
        complete(space, targets, code_size)
        depths = _depths(truth, targets, code_size, goal)
        if depths:
            return Calibration("scan", goal, rows, len(truth.queries), code_size, depths)
    for target in candidates:
        target.scan, target.built = None, None
    reason = f"no affordable depth reaches recall {goal:g} with 4-bit codes"
    return Calibration("exact", goal, rows, len(truth.queries), reason=reason)


def complete(space: EmbeddingSpace, targets: Sequence[Target], code_size: int) -> None:
    """Build the scans that large targets lack, with a codebook that one of them has while it knows enough rows."""
    lacking = [target for target in targets if large(target) and not _has(target, code_size)]
    if not lacking:
        return
    rows = sum(target.live.count for target in targets)
    taught = max((target for target in targets if _has(target, code_size)), key=_trained, default=None)
    if taught is not None and taught.scan is not None and 2 * taught.trained_rows >= min(rows, TRAIN_ROWS):
        codebook, trained = taught.scan.codebook(), taught.trained_rows
    else:
        sample = sample_rows(targets, TRAIN_ROWS)
        codebook, trained = train(space, sample, code_size), len(sample)
    for target in lacking:
        target.built = fill(codebook, blocks_of(target.column.codes))
        target.scan = Scan(space, target.built)
        target.trained_rows = trained


def _has(target: Target, code_size: int) -> bool:
    return target.scan is not None and target.scan.code_size == code_size


def _trained(target: Target) -> int:
    return target.trained_rows


def sample_rows(targets: Sequence[Target], count: int) -> NDArray[Any]:
    """Up to `count` live stored rows, drawn evenly over all targets with a fixed seed."""
    rng = np.random.default_rng(_SEED)
    total = sum(target.live.count for target in targets)
    taken = []
    for target in targets:
        live = target.live.rows()
        share = min(len(live), -(-count * len(live) // max(1, total)))
        taken.append(target.column.take(np.sort(rng.choice(live, share, replace=False))))
    return np.concatenate(taken)[:count]


class _Truth:
    """Sampled queries and their true neighbours, themselves excluded.

    `groups[q]` holds two arrays: the neighbours as target * 2^32 + row, ascending, and for each of them 0 where
    it belongs to the first `results[0]` (ties included), 1 where to the next number of results, and so on.
    """

    def __init__(self, space: EmbeddingSpace, targets: Sequence[Target], rows: int) -> None:
        rng = np.random.default_rng(_SEED)
        self.results = tuple(k for k in RESULTS if k < rows) or (max(1, rows - 1),)
        live = [target.live.rows() for target in targets]
        ends = np.cumsum([len(part) for part in live])
        starts = ends - [len(part) for part in live]
        picks = np.sort(rng.choice(rows, min(QUERIES, rows), replace=False))
        owners = np.searchsorted(ends, picks, side="right")
        own_rows = [int(live[o][p - starts[o]]) for o, p in zip(owners, picks, strict=True)]
        self.own = [place_of(int(o), r) for o, r in zip(owners, own_rows, strict=True)]
        parts = [targets[o].column.take(np.array([r])) for o, r in zip(owners, own_rows, strict=True)]
        self.queries: NDArray[np.float32] = np.concatenate(parts).astype(np.float32)
        nearest = _nearest(space, self, targets, live)
        self.groups = [_grouped(places, scores, self.results) for places, scores in nearest]


def place_of(target: int, rows: Any) -> Any:
    """One number for a row of a target."""
    return (target << 32) + rows


def _nearest(
    space: EmbeddingSpace, truth: _Truth, targets: Sequence[Target], live: Sequence[NDArray[np.int64]]
) -> list[tuple[NDArray[np.int64], NDArray[Any]]]:
    """Places and scores of the nearest rows of each query, best first, by matrix products block by block."""
    wide = np.float64 if space.dimensions < 64 else np.float32
    l2 = space.distance == "euclidean" or targets[0].column.measure.chord
    # Distances do not change when all is shifted; near the origin a matrix product loses no digits.
    centre: NDArray[Any] = truth.queries.mean(axis=0).astype(wide) * (space.distance == "euclidean")
    queries: NDArray[Any] = truth.queries.astype(wide) - centre
    keep = max(truth.results) + 1
    best: list[tuple[NDArray[np.int64], NDArray[Any]]] = [
        (np.empty(0, np.int64), np.empty(0, wide)) for _ in truth.queries
    ]
    for number, target in enumerate(targets):
        for block in blocks_of(live[number]):
            rows: NDArray[Any] = target.column.take(block).astype(wide) - centre
            scores = queries @ rows.T
            if l2:
                scores = 2 * scores - np.einsum("ij,ij->i", rows, rows)[None, :]
            places = place_of(number, block)
            best = [_best(old, places, row, keep) for old, row in zip(best, scores, strict=True)]
    result = []
    for (places, scores), own in zip(best, truth.own, strict=True):
        others = places != own
        order = np.argsort(-scores[others], kind="stable")
        result.append((places[others][order], scores[others][order]))
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


def _depths(truth: _Truth, targets: Sequence[Target], code_size: int, goal: float) -> tuple[Depth, ...]:
    """One Depth for each number of results that an affordable depth can serve, () where the first cannot."""
    deepest = _affordable(targets, code_size)
    if deepest < truth.results[0]:
        return ()
    passes = [(place, _alone(target)) for place, target in enumerate(targets) if target.scan and large(target)]
    found = [_found(truth, number, passes, deepest) for number in range(len(truth.queries))]
    growth = max(1.0, sum(target.live.count for target in targets) / LEAST_UP_TO) ** LEAST_GROWTH
    depths = []
    for place, results in enumerate(truth.results):
        recall = np.stack([np.minimum(row[place], results) / results for row in found])
        reached = np.flatnonzero(recall.mean(axis=0) >= goal)
        if not len(reached):
            break
        floor = math.ceil((LEAST_PER_RESULT * results + LEAST) * growth)
        depth = min(max((int(reached[0]) + 1) * MARGIN, floor), deepest)
        at = recall[:, depth - 1]
        depths.append(Depth(results, depth, float(at.mean()), float(np.percentile(at, 5))))
    return tuple(depths)


def _affordable(targets: Sequence[Target], code_size: int) -> int:
    """The largest depth at which scanning and re-ranking cost less than comparing with every row."""
    width = row_bytes(targets[0].column)
    exact = sum(exact_cost(len(target.column), width) for target in targets if large(target))
    depth = _DEEPEST
    while depth:
        scan = sum(scan_cost(len(target.column), code_size, target.live.count) for target in targets if large(target))
        if scan + beginning_cost(depth, width) < exact:
            return min(depth, sum(target.live.count for target in targets if large(target)))
        depth //= 2
    return 0


def _alone(target: Target) -> tuple[Pass, int]:
    """A pass over one target and how many rows it can find."""
    scan = target.scan
    assert scan is not None
    return Pass(Sweep([scan]), bits=bitmap([(scan.slot or 0, target.live)])), target.live.count


def _found(
    truth: _Truth, number: int, passes: Sequence[tuple[int, tuple[Pass, int]]], deepest: int
) -> list[NDArray[np.int64]]:
    """For each number of results: how many true neighbours lie in the first 1..deepest candidates.

    Segments without a scan are searched exactly: their neighbours are found at any depth.
    """
    query, (known, groups) = truth.queries[number : number + 1], truth.groups[number]
    found, near = [], []
    for place, (one, allowed) in passes:
        rows, seeming = one.search(query, min(deepest + 1, allowed))
        found.append(place_of(place, rows % SEGMENT_ROWS))
        near.append(seeming)
    merged = np.concatenate(found)
    candidates = merged[np.argsort(-np.concatenate(near), kind="stable")]
    candidates = candidates[candidates != truth.own[number]][:deepest]
    at = np.minimum(np.searchsorted(known, candidates), len(known) - 1)
    group = np.where(known[at] == candidates, groups[at], len(truth.results))
    elsewhere = groups[~np.isin(known >> 32, [place for place, _ in passes])]
    counts = []
    for place in range(len(truth.results)):
        # A scan may find nothing at all, where its codes are all alike.
        count = int((elsewhere <= place).sum()) + np.cumsum(np.append(group <= place, False))
        counts.append(np.pad(count, (0, max(0, deepest - len(count))), mode="edge")[:deepest])
    return counts
