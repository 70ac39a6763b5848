"""Chooses the code size, the candidate depth and the lists of a space's scan by measuring recall on its own live rows.

Sampled rows are asked as queries (themselves excluded, ties tolerated); the depth that reaches the target is
doubled, since the rows of a corpus answer a little better than the queries of its users, and the lists that are gone
over may miss half of what may be missed. Where no depth that pays reaches the target, the space stays exact and says
why; where most lists would be gone over it has none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidre.engine.codebook import (
    LEARNED_ROWS,
    TRAIN_ROWS,
    assigned,
    blocks_of,
    code_sizes,
    fill,
    fitting,
    is_for,
    learned,
    lists_for,
    train,
    with_centroids,
)
from aidre.engine.cost import LEAST_SCANNED, beginning_cost, exact_cost, scan_cost, worth_a_scan
from aidre.engine.index import Scan
from aidre.engine.kernel import Column
from aidre.engine.manifest import Calibration, Depth
from aidre.engine.model import EmbeddingSpace
from aidre.engine.needs import Needed, needed_of, ranks_of, recalls
from aidre.engine.parts import Allowed
from aidre.engine.router import Router
from aidre.engine.schema import SEGMENT_ROWS
from aidre.engine.truth import Truth

MARGIN = 2
PROBED_MARGIN, GAP_MARGIN = 1.5, 1.4
"""So many times as many lists are gone over at most as sampled rows need, and lists so many times as far behind the
nearest. Queries of users lie farther from all centroids than rows do: of a million mixtures of 60,000 embeddings
real ones find .993 of their ten nearest by these two (`bench_peers --rows 1000000`)."""

MOST_PROBED = 0.25
"""Where more of the lists might be gone over than this share, all rows are gone over instead: lists hold every row
twice, those near to a query are longer than others, and each that begins makes the processor wait."""

LEAST_PER_RESULT, LEAST = 5, 50
"""No depth is less than LEAST_PER_RESULT * results + LEAST: so few candidates more cost little, and they cover
what a calibration cannot foresee, growth until the next one and segments with different codebooks."""

LEAST_UP_TO, LEAST_GROWTH = 60_000, 0.5
"""With more rows the least depth grows by this power of them, as what is needed does. Rows that have near-duplicates
are easy queries: of a million mixtures of 60,000 embeddings they promise .999 at 100, where real queries find .958."""

_DEEPEST = 16_384
_FIRST_DEEPEST = 4_096
_PAYING = 1
"""Lists have to pay for the first so many numbers of results: where all rows are gone over they take up room."""

_SEED = 20_260_101
_ROW = SEGMENT_ROWS - 1


Codebook = tuple[Any, int]
"""A trained index without rows, and how many rows it was trained on."""


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
    # A smaller size than the segments have was tried on fewer rows already; all of them would be encoded for nothing.
    least = min((target.scan.code_size for target in candidates if target.scan is not None), default=0)
    sizes = [size for size in code_sizes(space.dimensions) if size >= least]
    lacks = not all(_has(target, sizes[0]) for target in candidates)
    with ThreadPoolExecutor(1) as pool:  # a codebook takes one core, neighbours leave part of the other
        first = pool.submit(_codebook, space, targets, sizes[0]) if lacks else None
        truth = Truth(space, targets, rows)
        codebook = first.result() if first is not None else None
    centroids = _centroids(space, truth, targets, goal)
    for code_size in sizes:
        complete(space, targets, code_size, centroids, codebook if code_size == sizes[0] else None)
        depths = _depths(truth, targets, code_size, goal)
        if depths:
            return Calibration("scan", goal, rows, len(truth.queries), code_size, depths)
    for target in candidates:
        target.scan, target.built = None, None
    reason = f"no affordable depth reaches recall {goal:g} with 4-bit codes"
    return Calibration("exact", goal, rows, len(truth.queries), reason=reason)


def _centroids(
    space: EmbeddingSpace, truth: Truth, targets: Sequence[Target], goal: float
) -> NDArray[np.float32] | None:
    """Centroids for a space that has become large, None where it has some, or where lists would not pay.

    That is told by the true neighbours alone: nothing has to be encoded for it.
    """
    lists = lists_for(max(target.live.count for target in targets))
    if not lists or any(target.scan is not None and target.scan.lists for target in targets):
        return None
    centroids = learned(space, sample_rows(targets, lists * LEARNED_ROWS), lists)
    router, results = Router(space, centroids), truth.results[:_PAYING]
    chosen = [(known[groups < len(results)], groups[groups < len(results)]) for known, groups in truth.groups]
    places = _places(targets, centroids, np.unique(np.concatenate([known for known, _ in chosen])))
    needed = []
    for number, (known, group) in enumerate(chosen):
        ranks, _ = ranks_of(router, truth.queries[number : number + 1])
        probes = ranks[places(known)].min(axis=0)
        needed.append(Needed(np.zeros_like(group), probes, np.zeros(len(group)), group))
    pay = [_probes_for(needed, place, count, lists, goal) > 0 for place, count in enumerate(results)]
    return centroids if all(pay) else None


def _places(
    targets: Sequence[Target], centroids: NDArray[np.float32], known: NDArray[np.int64]
) -> Callable[[NDArray[np.int64]], NDArray[np.int64]]:
    """What tells the two lists (2, n) of any of some neighbours, given in ascending order."""
    owners = known >> 32
    rows = [targets[owner].column.take(known[owners == owner] & _ROW) for owner in np.unique(owners).tolist()]
    lists = np.stack(assigned(centroids, np.concatenate(rows).astype(np.float32)))
    return lambda some: lists[:, np.searchsorted(known, some)]


def complete(
    space: EmbeddingSpace,
    targets: Sequence[Target],
    code_size: int,
    centroids: NDArray[np.float32] | None = None,
    codebook: Codebook | None = None,
) -> None:
    """Build the scans that large targets lack, by the codebook, `_codebook` where none is given.

    With `centroids` those of its targets that lack lists get them, unless the space has other ones.
    """
    taught = _taught(targets, code_size)
    known = taught.scan.lists if taught is not None and taught.scan is not None else 0
    lists = known or (0 if centroids is None else len(centroids))
    lacking = [
        target
        for target in targets
        if large(target) and (not _has(target, code_size) or (centroids is not None and not _is_alike(target, lists)))
    ]
    if not lacking:
        return
    trained, trained_rows = codebook or _codebook(space, targets, code_size)
    if centroids is not None and not known:
        trained = with_centroids(space, trained, centroids)
    for target in lacking:
        _encode(space, target, fitting(trained, len(target.column)))
        target.trained_rows = trained_rows


def _taught(targets: Sequence[Target], code_size: int) -> Target | None:
    """The target whose codebook the others can have: while it knows enough rows."""
    rows = sum(target.live.count for target in targets)
    taught = max((target for target in targets if _has(target, code_size)), key=_knowledge, default=None)
    return None if taught is None or 2 * taught.trained_rows < min(rows, TRAIN_ROWS) else taught


def _codebook(space: EmbeddingSpace, targets: Sequence[Target], code_size: int) -> Codebook:
    """The codebook that one of the targets has, else one that is trained on the rows of all."""
    taught = _taught(targets, code_size)
    if taught is not None and taught.scan is not None:
        return taught.scan.codebook(), taught.trained_rows
    sample = sample_rows(targets, TRAIN_ROWS)
    return train(space, sample, code_size), len(sample)


def _encode(space: EmbeddingSpace, target: Target, codebook: Any) -> None:
    target.built = fill(codebook, blocks_of(target.column.codes))
    target.scan = Scan(space, target.built)


def _has(target: Target, code_size: int) -> bool:
    return target.scan is not None and target.scan.code_size == code_size


def _knowledge(target: Target) -> tuple[bool, int]:
    return bool(target.scan and target.scan.lists), target.trained_rows


def _is_alike(target: Target, lists: int) -> bool:
    """Whether its rows stand in lists or are too few for that."""
    return bool(target.scan and target.scan.lists) or not is_for(lists, len(target.column))


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


def _depths(truth: Truth, targets: Sequence[Target], code_size: int, goal: float) -> tuple[Depth, ...]:
    """One Depth for each number of results that an affordable depth can serve, () where the first cannot."""
    affordable = _affordable(targets, code_size)
    if affordable < truth.results[0]:
        return ()
    deepest = min(_FIRST_DEEPEST, affordable)
    scanned = {place: target for place, target in enumerate(targets) if target.scan is not None and large(target)}
    while True:
        needed = needed_of(truth, scanned, deepest)
        depths = _reaching(truth, targets, needed, deepest, goal)
        if len(depths) == len(truth.results) or deepest == affordable:
            return depths
        deepest = min(4 * deepest, affordable)


def _reaching(
    truth: Truth, targets: Sequence[Target], needed: Sequence[Needed], deepest: int, goal: float
) -> tuple[Depth, ...]:
    growth = max(1.0, sum(target.live.count for target in targets) / LEAST_UP_TO) ** LEAST_GROWTH
    lists = max((target.scan.lists for target in targets if target.scan is not None), default=0)
    depths = []
    for place, results in enumerate(truth.results):
        found = recalls(needed, place, results, lambda one: one.depth, deepest)
        reached = np.flatnonzero(found.mean(axis=0) >= goal)
        if not len(reached):
            break
        floor = math.ceil((LEAST_PER_RESULT * results + LEAST) * growth)
        depth = min(max((int(reached[0]) + 1) * MARGIN, floor), deepest)
        probes = _probes_for(needed, place, results, lists, goal)
        gap = _gap_for(needed, place, goal) if probes else 0.0
        recall = np.array([one.recall(place, results, depth, probes or lists, gap) for one in needed])
        depths.append(Depth(results, depth, float(recall.mean()), float(np.percentile(recall, 5)), probes, gap))
    return tuple(depths)


def _probes_for(needed: Sequence[Needed], place: int, results: int, lists: int, goal: float) -> int:
    """Of how many centroids the lists are gone over, 0: of all. Half of what may be missed may be missed for that."""
    covered = recalls(needed, place, results, lambda one: one.probes, lists + 1).mean(axis=0)
    probes = math.ceil(PROBED_MARGIN * int(np.argmax(covered >= (1 + goal) / 2)))
    return probes if probes <= MOST_PROBED * lists else 0


def _gap_for(needed: Sequence[Needed], place: int, goal: float) -> float:
    """By how much these may be less close to the query than the nearest, for as much as that many of them find."""
    gaps = np.concatenate([one.gaps[one.group <= place] for one in needed])
    return GAP_MARGIN * float(np.quantile(gaps, (1 + goal) / 2, method="higher"))


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
