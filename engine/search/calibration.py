"""Calibration of a space: measures how deep a scan of its live rows must go to reach a target recall.

1. Take queries of several kinds (`query_samples`) and find their true neighbours (`ground_truth`).
2. If the largest segment has enough rows for inverted lists, train centroids, and keep them if probing would pay.
3. Find out whether rotating the rows may pay (`rotation_choice`); if not, the smallest code size is left out.
4. For each code size, smallest first: quantize the segments, scan them for these queries, and find for every true
   neighbour the required depth: its rank among the candidates, and how many lists must be probed to see it.
5. Choose for each target recall and each k the candidates and the nprobe that every kind of query needs, with a margin
   (`depth_choice`). The joint recall is measured again, and that of the hardest kind is promised.
6. Record the code size that makes the search cheapest, and its depths, as a Calibration. If no affordable depth reaches
   the target with any code size, the space stays exact and the record says why; where probing is expected to take
   about the time of a full scan, all rows are scanned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aidre.engine.index.vectors import (
    MAX_TRAINING_ROWS,
    TRAINING_ROWS_PER_LIST,
    CoarseQuantizer,
    Codebook,
    Transform,
    VectorColumn,
    VectorIndex,
    assign_lists,
    code_sizes,
    codebook_for,
    nlist_for,
    quantize_rows,
    rotated_dimensions,
    row_blocks,
    train_centroids,
    train_codebook,
    train_transform,
    uses_lists,
    with_centroids,
)
from aidre.engine.model import RECALLS, EmbeddingSpace
from aidre.engine.search.cost import (
    MIN_SCANNED_ROWS,
    exact_cost,
    scan_can_pay,
    scan_cost,
    scan_setup_cost,
    transform_cost,
)
from aidre.engine.search.depth_choice import (
    MIN_DEPTH,
    Choice,
    RequiredDepth,
    Requirements,
    SearchConditions,
    choose_depths,
    choose_for,
    rank_centroids,
    tiers_of,
)
from aidre.engine.search.ground_truth import GroundTruth, find_ground_truth, measure_required_depths, with_more_queries
from aidre.engine.search.query_samples import QuerySample, generated_samples, row_of, target_of
from aidre.engine.search.rotation_choice import promises_less_distortion, rotation_may_pay, rotation_pays
from aidre.engine.segment import RowMask
from aidre.engine.storage import Calibration, LearnedDepth, TargetDepths

_MAX_DEPTH = 16_384
"""Candidates; the largest depth that is measured."""

_FIRST_MAX_DEPTH = 2_048
"""Candidates measured at first; four times as many if some k needs more."""

_DEEPER_SHARE = 4
"""Every n-th query is measured again for a k that needs more: the recalls of large k differ little."""

_SIZED_ROWS = 1 << 15
"""Rows from whose lists the sizes of all lists are estimated."""

_K_VALUES_THAT_PAY = 1
"""Inverted lists are kept only if probing pays for the first k values, as many as this number: they take memory, and a
larger k scans all rows anyway."""

_WORTHWHILE_COST = 0.8
"""Larger codes are tried if a search of the least depth would cost at most this share of the one found so far."""

_WORTHWHILE_MICROSECONDS = 10.0
"""... and save as much: larger codes take seconds to train."""

_RETRIED_DEPTH = 1_000
"""Candidates; smaller codes than the stored ones are tried again if even this depth makes them the cheaper ones."""

_SMALLEST_CODES_DEPTH, _LARGER_CODES_DEPTH = 250, 100
"""Candidates that rotated codes of the smallest size and of the next one usually need: the smallest codes are tried
only if these depths make them the cheaper ones, so where there are many rows."""

_SEED = 20_260_101

TrainedCodebook = tuple[Codebook, int]
"""A codebook, and the number of rows that it was trained on."""


@dataclass(slots=True)
class CalibrationTarget:
    """The vectors of one space in one segment: column, live rows, and vector index if there is one.

    Calibration replaces `index` and sets `built` to its quantized rows if the segment needs a new one; `trained_rows`
    counts the rows that its codebook was trained on.
    """

    segment_id: str
    column: VectorColumn
    live: RowMask
    index: VectorIndex | None
    built: Any = None
    trained_rows: int = 0

    @property
    def is_large(self) -> bool:
        """Whether enough rows are live for a scan of the segment to pay."""
        return self.live.count >= MIN_SCANNED_ROWS


class _Coded(NamedTuple):
    """What a code size achieves, and the index, built rows and trained rows of each target in it."""

    code_size: int
    choices: Mapping[float, Choice]
    cost: float
    indexes: Sequence[tuple[VectorIndex | None, Any, int]]


def calibrate(
    space: EmbeddingSpace,
    targets: Sequence[CalibrationTarget],
    goal: float,
    *,
    queries: Sequence[QuerySample] = (),
    previous: Calibration | None = None,
) -> Calibration:
    """Measure the depths that reach a recall of `goal`, and of RECALLS with the same codes; gives each large target
    the index of the chosen code size.

    `queries` are samples beside the generated ones; what `previous` learned of such queries is kept.
    """
    rows, kinds = _live_rows(targets), {sample.kind for sample in queries}
    goals = goal, *(other for other in RECALLS if other != goal)
    known = {target: () if previous is None else previous.learned_for(target) for target in goals}
    large = scannable_targets(targets)
    if not large:
        return _exact("small: comparing with every row is as fast", goal, rows, known)
    carried = {target: tuple(own for own in learned if own.kind not in kinds) for target, learned in known.items()}
    sizes = _code_sizes_to_try(space, large)
    is_missing = not all(_has_code_size(target, sizes[0]) for target in large)
    with ThreadPoolExecutor(1) as pool:  # training uses one thread; the ground truth uses two that are not always busy
        training = pool.submit(_first_codebook, space, targets, sizes) if is_missing else None
        truth = find_ground_truth(space, targets, rows, [*generated_samples(space, targets, rows), *queries])
        codebook = None
        if training is not None:
            first, codebook = training.result()
            sizes = sizes[sizes.index(first) :]
    centroids = _centroids_that_pay(space, truth, targets, sizes[0], goals)
    best: _Coded | None = None
    known = carried
    for code_size in sizes:
        if best is not None and not _is_worth_trying(_search_cost(large, code_size, MIN_DEPTH), best.cost):
            break
        build_missing_indexes(space, targets, code_size, centroids, codebook if code_size == sizes[0] else None)
        choices = _measure_depths(truth, targets, code_size, carried, space)
        depths = choices[goal].depths
        if depths:
            cost = _search_cost(large, code_size, depths[0].candidates) + _transform_cost(large)
            if best is None or cost < best.cost:
                indexes = [(target.index, target.built, target.trained_rows) for target in targets]
                best = _Coded(code_size, choices, cost, indexes)
        shown = choices if best is None else best.choices
        known = {target: (*carried[target], *choice.learned) for target, choice in shown.items()}
    if best is None:
        for target in large:
            target.index, target.built = None, None
        reason = f"no affordable depth reaches recall {goal:g} with 4-bit codes"
        return _exact(reason, goal, rows, known, len(truth.queries))
    for target, index in zip(targets, best.indexes, strict=True):
        target.index, target.built, target.trained_rows = index
    targeted = [TargetDepths(target, choice.depths, known[target]) for target, choice in best.choices.items()]
    own, *others = targeted
    return Calibration(
        "scan",
        goal,
        rows,
        len(truth.queries),
        best.code_size,
        own.depths,
        learned=own.learned,
        others=tuple(sorted(others, key=attrgetter("target"))),
    )


def _exact(
    reason: str, goal: float, rows: int, learned: Mapping[float, tuple[LearnedDepth, ...]], queries: int = 0
) -> Calibration:
    """The calibration of a space whose rows are all compared; what was learned is kept for when it has grown."""
    others = tuple(TargetDepths(target, (), own) for target, own in learned.items() if target != goal and own)
    return Calibration("exact", goal, rows, queries, reason=reason, learned=learned[goal], others=others)


def _is_worth_trying(least_cost: float, best_cost: float) -> bool:
    """Whether codes whose searches cost at least this may be better than the best so far."""
    return least_cost <= min(_WORTHWHILE_COST * best_cost, best_cost - _WORTHWHILE_MICROSECONDS)


def _code_sizes_to_try(space: EmbeddingSpace, large: Sequence[CalibrationTarget]) -> list[int]:
    """Code sizes, from the smallest that may be best.

    Those below the size of the stored segments have lost already, on fewer rows, where a scan of more codes costs less.
    """
    sizes = code_sizes(space.dimensions)
    if len(sizes) > 1 and not any(target.index is not None and target.index.code_size == sizes[0] for target in large):
        smallest = _search_cost(large, sizes[0], _SMALLEST_CODES_DEPTH)
        if smallest >= _search_cost(large, sizes[1], _LARGER_CODES_DEPTH):
            sizes = sizes[1:]
    stored = min((target.index.code_size for target in large if target.index is not None), default=0)
    saved = [
        size
        for size in sizes
        if size < stored and _search_cost(large, size, _RETRIED_DEPTH) < _search_cost(large, stored, MIN_DEPTH)
    ]
    return [size for size in sizes if size >= min([stored, *saved])]


def _search_cost(large: Sequence[CalibrationTarget], code_size: int, candidates: int) -> float:
    """Microseconds of a scan of all rows, as planned."""
    scan = sum(scan_cost(len(target.column), code_size, target.live.count) for target in large)
    return scan + scan_setup_cost(candidates, large[0].column.row_bytes)


def _transform_cost(large: Sequence[CalibrationTarget]) -> float:
    """Microseconds to rotate a query for the indexes of the targets."""
    transforms = [target.index.transform for target in large if target.index is not None]
    return transform_cost(max((transform.rotation.size for transform in transforms if transform), default=0))


def scannable_targets(targets: Sequence[CalibrationTarget]) -> list[CalibrationTarget]:
    """The large targets; none if together they have too few rows to train on, to measure, or to gain by a scan."""
    large = [target for target in targets if target.is_large]
    can_pay = large and scan_can_pay(_live_rows(large), large[0].column.row_bytes)
    return large if can_pay else []


def _live_rows(targets: Sequence[CalibrationTarget]) -> int:
    return sum(target.live.count for target in targets)


# -- indexes -----------------------------------------------------------------------------------------------


def build_missing_indexes(
    space: EmbeddingSpace,
    targets: Sequence[CalibrationTarget],
    code_size: int,
    centroids: NDArray[np.float32] | None = None,
    codebook: TrainedCodebook | None = None,
) -> None:
    """Build the indexes that large targets lack, with `codebook`, or with the one that `_find_codebook` trains.

    With `centroids`, targets without inverted lists get them, unless the space already has other centroids.
    """
    source = _codebook_source(targets, code_size)
    known_nlist = source.index.nlist if source is not None and source.index is not None else 0
    nlist = known_nlist or (0 if centroids is None else len(centroids))
    lacking = [
        target
        for target in targets
        if target.is_large
        and (not _has_code_size(target, code_size) or (centroids is not None and _lacks_lists(target, nlist)))
    ]
    if not lacking:
        return
    trained, trained_rows = codebook or _find_codebook(space, targets, code_size)
    if centroids is not None and not known_nlist:
        trained = with_centroids(space, trained, centroids)
    for target in lacking:
        own_codebook = codebook_for(trained, len(target.column))
        codes = None if target.index is None else target.index.known_codes(own_codebook)
        target.built = quantize_rows(own_codebook, row_blocks(target.column.codes), codes)
        target.index = VectorIndex(space, target.built)
        target.trained_rows = trained_rows


def _first_codebook(
    space: EmbeddingSpace, targets: Sequence[CalibrationTarget], sizes: Sequence[int]
) -> tuple[int, TrainedCodebook]:
    """The first of the code sizes that is to be measured, and its codebook.

    The smallest size of a space is too coarse for rows that are not rotated, and left out where rotating does not pay.
    """
    is_smallest = len(sizes) > 1 and sizes[0] == code_sizes(space.dimensions)[0]
    if not is_smallest or _codebook_source(targets, sizes[0]) is not None:
        return sizes[0], _find_codebook(space, targets, sizes[0])
    sample = sample_rows(targets, MAX_TRAINING_ROWS)
    transform = _affordable_transform(space, targets, sample, sizes[0])
    if transform is None or not promises_less_distortion(sample, sizes[0], transform):
        return sizes[1], _find_codebook(space, targets, sizes[1])
    return sizes[0], (train_codebook(space, sample, sizes[0], transform), len(sample))


def _find_codebook(space: EmbeddingSpace, targets: Sequence[CalibrationTarget], code_size: int) -> TrainedCodebook:
    """The codebook of one of the targets, or a new one trained on the rows of all."""
    source = _codebook_source(targets, code_size)
    if source is not None and source.index is not None:
        return source.index.codebook(), source.trained_rows
    return _train_codebook(space, targets, code_size)


def _train_codebook(space: EmbeddingSpace, targets: Sequence[CalibrationTarget], code_size: int) -> TrainedCodebook:
    """A codebook trained on the rows of all targets, which rotates them where a trial shows that it pays."""
    sample = sample_rows(targets, MAX_TRAINING_ROWS)
    transform, rows = _affordable_transform(space, targets, sample, code_size), _live_rows(targets)
    if transform is not None:
        _, mixtures, _ = generated_samples(space, targets, rows)
        if not promises_less_distortion(sample, code_size, transform) or not rotation_pays(
            space, sample, mixtures.queries, (code_size, transform), rows
        ):
            transform = None
    return train_codebook(space, sample, code_size, transform), len(sample)


def _affordable_transform(
    space: EmbeddingSpace, targets: Sequence[CalibrationTarget], sample: NDArray[Any], code_size: int
) -> Transform | None:
    """A rotation for the rows of a sample; None if it would take too long a part of a search."""
    dimensions = rotated_dimensions(space.dimensions, code_size)
    is_affordable = rotation_may_pay(space.dimensions, dimensions, code_size, _live_rows(targets))
    return train_transform(sample, code_size, dimensions) if is_affordable else None


def _codebook_source(targets: Sequence[CalibrationTarget], code_size: int) -> CalibrationTarget | None:
    """The target with the best trained codebook; None if it was trained on far fewer rows than there are now."""

    def training(target: CalibrationTarget) -> tuple[bool, int]:
        return bool(target.index and target.index.nlist), target.trained_rows

    best = max((target for target in targets if _has_code_size(target, code_size)), key=training, default=None)
    is_outgrown = best is not None and 2 * best.trained_rows < min(_live_rows(targets), MAX_TRAINING_ROWS)
    return None if is_outgrown else best


def _has_code_size(target: CalibrationTarget, code_size: int) -> bool:
    return target.index is not None and target.index.code_size == code_size


def _lacks_lists(target: CalibrationTarget, nlist: int) -> bool:
    """Whether the target is large enough for inverted lists but has none."""
    return not (target.index and target.index.nlist) and uses_lists(nlist, len(target.column))


def sample_rows(targets: Sequence[CalibrationTarget], count: int) -> NDArray[Any]:
    """Up to `count` live stored rows (n, d), drawn evenly from all targets with a fixed seed."""
    rng = np.random.default_rng(_SEED)
    total = _live_rows(targets)
    taken = []
    for target in targets:
        live = target.live.rows()
        share = min(len(live), -(-count * len(live) // max(1, total)))
        taken.append(target.column.take(np.sort(rng.choice(live, share, replace=False))))
    return np.concatenate(taken)[:count]


# -- choice ------------------------------------------------------------------------------------------------


def _measure_depths(
    truth: GroundTruth,
    targets: Sequence[CalibrationTarget],
    code_size: int,
    learned: Mapping[float, Sequence[LearnedDepth]],
    space: EmbeddingSpace,
) -> dict[float, Choice]:
    """By goal, those of `learned`, a Depth for each k that an affordable depth can serve, from the smallest on; none if
    there is none."""
    affordable = _affordable_depth(targets, code_size)
    if affordable < truth.k_values[0]:
        return dict.fromkeys(learned, Choice((), ()))
    max_depth = min(_FIRST_MAX_DEPTH, affordable)
    indexed = {number: target for number, target in enumerate(targets) if target.index is not None and target.is_large}
    nlist = max((target.index.nlist for target in targets if target.index is not None), default=0)
    row_bytes = targets[0].column.row_bytes
    conditions = SearchConditions(_live_rows(targets), nlist, max_depth, next(iter(learned)), code_size, row_bytes)
    required: Requirements = truth.by_kind(measure_required_depths(truth, indexed, max_depth))
    if nlist:
        required = with_more_queries(space, truth, indexed, required, max_depth)

    def chosen(goal: float) -> Choice:
        return choose_for(tiers, replace(conditions, goal=goal), learned[goal])

    tiers = tiers_of(required, truth.k_values)
    choices = {goal: chosen(goal) for goal in learned}
    while max_depth < affordable:
        short = [goal for goal, choice in choices.items() if len(choice.depths) < len(truth.k_values)]
        if not short:
            break
        max_depth = min(4 * max_depth, affordable)
        conditions = replace(conditions, max_depth=max_depth)
        sample = truth.every(_DEEPER_SHARE) if choices[conditions.goal].depths else truth
        required = sample.by_kind(measure_required_depths(sample, indexed, max_depth))
        tiers = tiers_of(required, truth.k_values)
        choices |= {goal: choices[goal].extended(chosen(goal)) for goal in short}
    return choices


def _affordable_depth(targets: Sequence[CalibrationTarget], code_size: int) -> int:
    """The largest power of two, up to `_MAX_DEPTH`, at which a scan costs less than comparing every row; 0 if none."""
    row_bytes = targets[0].column.row_bytes
    large = [target for target in targets if target.is_large]
    exact = sum(exact_cost(len(target.column), row_bytes) for target in large)
    depth = _MAX_DEPTH
    while depth:
        if _search_cost(large, code_size, depth) < exact:
            return min(depth, _live_rows(large))
        depth //= 2
    return 0


# -- centroids ---------------------------------------------------------------------------------------------


def _centroids_that_pay(
    space: EmbeddingSpace,
    truth: GroundTruth,
    targets: Sequence[CalibrationTarget],
    code_size: int,
    goals: Sequence[float],
) -> NDArray[np.float32] | None:
    """Centroids for a space that has become large; None if it has some already, or if probing would pay for no goal.

    Whether it pays follows from the lists of the true neighbours, and from the sizes of lists of sampled rows, before
    any row is encoded: `choose_depths` decides it by the expected time, as it will when the lists are there.
    """
    rows, nlist = _live_rows(targets), nlist_for(max(target.live.count for target in targets))
    if not nlist or any(target.index is not None and target.index.nlist for target in targets):
        return None
    sample = sample_rows(targets, nlist * TRAINING_ROWS_PER_LIST)
    centroids = train_centroids(space, sample, nlist)
    sizes = np.bincount(assign_lists(centroids, sample[:_SIZED_ROWS].astype(np.float32))[0], minlength=nlist)
    entries = (sizes * (2 * rows / sizes.sum())).astype(np.int64)
    coarse_quantizer, k_values = CoarseQuantizer(space, centroids), truth.k_values[:_K_VALUES_THAT_PAY]
    considered = [neighbours.tiers < len(k_values) for neighbours in truth.neighbours]
    keys = [neighbours.keys[own] for neighbours, own in zip(truth.neighbours, considered, strict=True)]
    tiers = [neighbours.tiers[own] for neighbours, own in zip(truth.neighbours, considered, strict=True)]
    lists_of = _lists_of_rows(targets, centroids, np.unique(np.concatenate(keys)))
    required = []
    for number in range(len(truth.queries)):
        ranked = rank_centroids(coarse_quantizer, truth.queries[number : number + 1])
        nprobe = ranked.ranks[lists_of(keys[number])].min(axis=0)
        unmeasured, gaps = np.zeros_like(tiers[number]), ranked.gaps[nprobe - 1]
        required.append(RequiredDepth(unmeasured, nprobe, gaps, tiers[number], ranked.reach(entries)))
    by_kind, row_bytes = truth.by_kind(required), targets[0].column.row_bytes
    for goal in goals:
        conditions = SearchConditions(rows, nlist, _FIRST_MAX_DEPTH, goal, code_size, row_bytes)
        if all(depth.probes for depth in choose_depths(by_kind, k_values, conditions).depths):
            return centroids
    return None


def _lists_of_rows(
    targets: Sequence[CalibrationTarget], centroids: NDArray[np.float32], keys: NDArray[np.int64]
) -> Callable[[NDArray[np.int64]], NDArray[np.int64]]:
    """A look-up from some of the ascending row keys to the two lists (2, n) that their rows would be in."""
    target_ords = target_of(keys)
    rows = [
        targets[target_ord].column.take(row_of(keys[target_ords == target_ord]))
        for target_ord in np.unique(target_ords).tolist()
    ]
    lists = np.stack(assign_lists(centroids, np.concatenate(rows).astype(np.float32)))
    return lambda some: lists[:, np.searchsorted(keys, some)]
