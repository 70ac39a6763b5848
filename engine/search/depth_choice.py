"""The choice of a search depth: for each k the candidates, nprobe and gap at which every kind of query is found.

Each kind has to reach the goal by itself, and what is promised holds for the hardest: the lower end of a confidence
interval of its mean recall. Kinds that need more than those which every calibration measures leave factors
behind (`LearnedDepth`), by which a later calibration goes deeper if it cannot measure them.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aidre.engine.index.vectors import CoarseQuantizer, VectorIndex
from aidre.engine.search.cost import probing_cost, scan_cost, scan_setup_cost
from aidre.engine.search.query_samples import Kind
from aidre.engine.storage import Depth, LearnedDepth

DEPTH_MARGIN = 1.25
"""Safety factor on the measured candidate depth, for the rows that are added until the next calibration."""

NPROBE_MARGIN, GAP_MARGIN = 1.6, 1.1
"""Safety factors on the nprobe and the gap that keep the promise: queries between clusters that no row is near to need
somewhat more lists than those that are mixed of rows."""

MAX_PROBING_SHARE = 0.8
"""Share of the expected time of a search that scans all rows: lists are probed where it takes less, as they take memory
and time to build."""

_NEEDED_LOSS: Final = 0.5
_PROBING_LOSSES: Final = (0.9, 0.75, 0.62, 0.5, 0.4, 0.32, 0.25, 0.2, 0.15, 0.1, 0.06, 0.03)
_DEEPER_CANDIDATES: Final = (1.0, 1.25, 1.6, 2.0, 2.5)
"""Shares of the allowed recall loss that probing may have, and factors on the candidates of a full scan: of all pairs
the cheapest is chosen that keeps the promise. _NEEDED_LOSS is the share by which kinds of queries are compared."""

MIN_DEPTH_PER_RESULT, MIN_DEPTH = 5, 50
"""Candidates: no depth is less than MIN_DEPTH_PER_RESULT * k + MIN_DEPTH, unless the affordable depth is. They cost
little, and cover what a calibration cannot foresee: growth until the next one, and segments with other codebooks."""

_MIN_DEPTH_GOAL, _GOAL_EXPONENT = 0.99, 2
"""The least depth is that of the first; for other goals it goes with a power of the logarithm of what may be missed, as
the required depth of embeddings does: a quarter for .90, two fifths for .95, four thirds for .995."""

MIN_DEPTH_ROWS, MIN_DEPTH_EXPONENT = 60_000, 0.5
"""With more rows than MIN_DEPTH_ROWS the least depth grows by this power of them, as the required depth does."""

_TAIL_FACTOR: Final = 4.0
"""How many times the allowed mean loss the fifth percentile may lose by probing: else one query in twenty could lose
everything while the mean is kept."""

_CONFIDENCE: Final = 1.645
"""Standard errors below the mean: the lower end of a one-sided interval of 95 %."""

_UNREACHED_FACTOR: Final = 2.0
"""A kind that no affordable depth finds is taken to need this many times the deepest one."""

_GENERATED: Final = ("rows", "mixtures", "pairs")
_HARD: Final = ("mixtures", "pairs")


@dataclass(frozen=True, slots=True)
class Reach:
    """What probing reads for a query: the gaps of the centroids by rank, and the entries of the lists up to each,
    copies included; arrays (nlist,)."""

    gaps: NDArray[np.float32]
    entries: NDArray[np.int32]

    def probed(self, depth: Depth) -> tuple[int, int]:
        """The lists and the entries that a search of that depth reads: those within the gap, and as many more as hold
        two copies of each candidate, up to `probes`."""
        within = int(self.gaps.searchsorted(np.float32(depth.gap), side="right")) if depth.gap else depth.probes
        filled = int(self.entries.searchsorted(2 * depth.candidates)) + 1
        lists = min(max(within, filled), depth.probes, len(self.gaps))
        return lists, int(self.entries[lists - 1])


def entries_by_centroid(indexes: Mapping[int, VectorIndex]) -> dict[bytes, NDArray[np.int64]]:
    """For each set of centroids the entries in the lists of each, copies included; rows of indexes without centroids,
    which every search scans, are left out."""
    entries = dict[bytes, NDArray[np.int64]]()
    for index in indexes.values():
        if index.nlist:
            key, own = index.codebook_key[1], index.list_sizes[: index.nlist]
            entries[key] = entries[key] + own if key in entries else own
    return entries


class RankedCentroids(NamedTuple):
    """The centroids by rank for a query, the rank of each, from 1, and the gap at each rank."""

    centroids: NDArray[np.int64]
    ranks: NDArray[np.int64]
    gaps: NDArray[np.float64]

    def reach(self, entries: NDArray[np.int64]) -> Reach:
        return Reach(self.gaps.astype(np.float32), entries[self.centroids].cumsum().astype(np.int32))


def rank_centroids(coarse_quantizer: CoarseQuantizer, query: NDArray[np.float32]) -> RankedCentroids:
    centroids, gaps = coarse_quantizer.rank(query, len(coarse_quantizer))
    ranks = np.empty(len(coarse_quantizer), np.int64)
    ranks[centroids] = np.arange(1, len(coarse_quantizer) + 1)
    return RankedCentroids(centroids, ranks, gaps)


@dataclass(frozen=True, slots=True)
class RequiredDepth:
    """For one sampled query: how deep a search must go to find each of its true neighbours; arrays (neighbours,).

    `ranks` are their ranks among the candidates (the largest measured depth means not found), `nprobe` the numbers of
    centroids whose lists must be probed (0: the row is in no list), `gaps` the gaps of the last of these centroids.
    Tier t of `tiers` holds the neighbours that are first needed for `k_values[t]`. `reach` is None without lists.
    """

    ranks: NDArray[np.int64]
    nprobe: NDArray[np.int64]
    gaps: NDArray[np.float64]
    tiers: NDArray[np.int64]
    reach: Reach | None = None

    def recall(self, tier: int, k: int, *, candidates: int, nprobe: int, max_gap: float) -> float:
        """The recall at k of a search of that depth; max_gap 0: no bound."""
        found = (self.tiers <= tier) & (self.ranks < candidates) & (self.nprobe <= nprobe)
        if max_gap:
            found &= self.gaps <= max_gap
        return min(int(found.sum()), k) / k


Requirements = Mapping[Kind, Sequence[RequiredDepth]]


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a search meets: `rows` rows of `row_bytes` bytes, with codes of `code_size`, in `nlist` lists (0: none).
    Depths of up to `max_depth` candidates were measured, to reach the recall `goal`."""

    rows: int
    nlist: int
    max_depth: int
    goal: float
    code_size: int = 64
    row_bytes: int = 768


@dataclass(frozen=True, slots=True)
class Need:
    """The candidates, nprobe and gap that a kind of query needs, without margins. `candidates` None: more than were
    measured."""

    candidates: float | None
    nprobe: float
    gap: float


@dataclass(frozen=True, slots=True)
class Choice:
    """A depth for each k up to the first that misses the goal, and what the kinds that were asked need beyond it."""

    depths: tuple[Depth, ...]
    learned: tuple[LearnedDepth, ...]

    def extended(self, deeper: Choice) -> Choice:
        """With the depths of a deeper measurement for each k beyond its own."""
        own = {depth.results for depth in self.depths}
        learned = [known for known in self.learned if known.results in own]
        learned += [known for known in deeper.learned if known.results not in own]
        return Choice(self.depths + deeper.depths[len(self.depths) :], tuple(learned))


def choose_depths(
    required: Requirements, k_values: Sequence[int], conditions: Conditions, learned: Sequence[LearnedDepth] = ()
) -> Choice:
    """`learned` holds what earlier calibrations learned of kinds that `required` lacks."""
    depths, measured = list[Depth](), list[LearnedDepth]()
    for tier, k in enumerate(k_values):
        needs = {kind: _need_of(queries, tier, k, conditions) for kind, queries in required.items()}
        generated = _largest([need for kind, need in needs.items() if kind in _GENERATED])
        if generated.candidates is None:
            break
        carried = [known for known in learned if known.results == k]
        need = _largest([*needs.values(), *(_scaled(generated, known) for known in carried)])
        depth = _depth_for(required, need, tier, k, conditions)
        if depth is not None:
            depth = _with_probes(required, depth, tier, conditions, carried)
        if depth is not None and len(depths) == tier:
            depths.append(replace(depth, mean=min([depth.mean, *(known.recall for known in carried)])))
        for kind, own in needs.items():
            if kind in _GENERATED:
                continue
            candidates = _ratio(own.candidates or _UNREACHED_FACTOR * conditions.max_depth, generated.candidates)
            probes, gap = _ratio(own.nprobe, generated.nprobe), _ratio(own.gap, generated.gap)
            if max(candidates, probes, gap) > 1:
                found = [] if depth is None else [_promise({kind: required[kind]}, depth, tier, conditions)[0]]
                measured.append(LearnedDepth(kind, k, candidates, probes, gap, min([conditions.goal, *found])))
    return Choice(tuple(depths), tuple(measured))


# -- the need of one kind ------------------------------------------------------------------------------------


def _need_of(queries: Sequence[RequiredDepth], tier: int, k: int, conditions: Conditions) -> Need:
    goal = conditions.goal
    bounds = recall_bound(_recall_by_depth(queries, tier, k, lambda query: query.ranks, conditions.max_depth), k)
    best = float(recall_bound(np.ones((len(queries), 1)), k)[0])  # few queries cannot prove the goal
    reaching = np.flatnonzero(bounds >= (min(goal, best) if goal <= 1 else goal))
    candidates = float(reaching[0] + 1) if len(reaching) else None
    return Need(candidates, *_needed_probing(queries, tier, k, _NEEDED_LOSS * (1 - goal)))


def _needed_probing(queries: Sequence[RequiredDepth], tier: int, k: int, loss: float) -> tuple[float, float]:
    """The nprobe and the gap that lose so much of the recall at k; of neighbours that tie, the first k count."""
    needed = []
    for name in ("nprobe", "gaps"):
        values = [np.sort(getattr(query, name)[query.tiers <= tier])[:k] for query in queries]
        needed.append(float(np.quantile(np.concatenate(values), min(1.0, 1 - loss), method="higher")))
    return needed[0], needed[1]


def recall_bound(recall: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """The lower end of a confidence interval of the mean recall at k over the queries, which are axis 0.

    One more query that misses one neighbour is counted: that a sample found all proves no recall of 1.
    """
    counted = np.concatenate([recall, np.full((1, recall.shape[1]), 1 - 1 / k)])
    bound: NDArray[np.float64] = counted.mean(axis=0) - _CONFIDENCE * counted.std(axis=0) / math.sqrt(len(counted))
    return bound


def _recall_by_depth(
    queries: Sequence[RequiredDepth], tier: int, k: int, field: Callable[[RequiredDepth], NDArray[np.int64]], size: int
) -> NDArray[np.float64]:
    """The recall at k of each query if `field` is limited to 0, 1, ... size - 1: (queries, size)."""
    counts = [np.bincount(field(query)[query.tiers <= tier], minlength=size + 1)[:size].cumsum() for query in queries]
    recall: NDArray[np.float64] = np.minimum(np.stack(counts), k) / k
    return recall


def _largest(needs: Sequence[Need]) -> Need:
    candidates = [need.candidates for need in needs]
    return Need(
        None if None in candidates else max(count for count in candidates if count is not None),
        max(need.nprobe for need in needs),
        max(need.gap for need in needs),
    )


def _scaled(generated: Need, known: LearnedDepth) -> Need:
    """The need of a kind that is not measured now, from that of the generated kinds."""
    assert generated.candidates is not None
    return Need(generated.candidates * known.candidates, generated.nprobe * known.probes, generated.gap * known.gap)


def _ratio(own: float, generated: float | None) -> float:
    return max(1.0, own / generated) if generated else 1.0


# -- the depth for a need ------------------------------------------------------------------------------------


def _depth_for(required: Requirements, need: Need, tier: int, k: int, conditions: Conditions) -> Depth | None:
    """The depth that serves a need, with the recall that it promises; None if it is deeper than was measured."""
    if need.candidates is None or need.candidates > conditions.max_depth:
        return None
    least = _least_depth(k, conditions)
    candidates = min(max(math.ceil(need.candidates * DEPTH_MARGIN), least), conditions.max_depth)
    return _promising(required, Depth(k, candidates, 0.0, 0.0), tier, conditions)


def _with_probes(
    required: Requirements, full: Depth, tier: int, conditions: Conditions, carried: Sequence[LearnedDepth]
) -> Depth:
    """The same depth with the probing that makes it cheapest; without, where all rows are scanned in about the time.

    Probing is judged by the time that it is expected to take: the gap ends most searches long before `probes`.
    """
    if not conditions.nlist:
        return full
    tail = min(full.p5, 1 - _TAIL_FACTOR * (1 - conditions.goal))
    probings = [_probing(required, full, tier, conditions, carried, loss=loss) for loss in _PROBING_LOSSES]
    best, best_cost = full, MAX_PROBING_SHARE * _full_cost(full, conditions)
    for factor in _DEEPER_CANDIDATES:
        candidates = min(math.ceil(factor * full.candidates), conditions.max_depth)
        setup = scan_setup_cost(candidates, conditions.row_bytes)

        def keeps_promise(number: int, candidates: int = candidates) -> bool:
            mean, p5 = _promise(required, replace(probings[number][0], candidates=candidates), tier, conditions)
            return mean >= min(conditions.goal, full.mean) and p5 >= tail

        number = bisect_left(range(len(probings)), True, key=keeps_promise)
        if number < len(probings) and probings[number][2] + setup < best_cost:
            best, best_cost = replace(probings[number][1], candidates=candidates), probings[number][2] + setup
    return best if best is full else _promising(required, best, tier, conditions)


def _probing(
    required: Requirements,
    full: Depth,
    tier: int,
    conditions: Conditions,
    carried: Sequence[LearnedDepth],
    *,
    loss: float,
) -> tuple[Depth, Depth, float]:
    """The depth with the probing that loses a share of what may be missed; the same with margins; and what the latter
    costs without the candidates, infinite where no neighbour is in a list."""
    nprobe, gap = _kinds_probing(required, tier, full.results, loss * max(0.0, 1 - conditions.goal), carried)
    needed = replace(full, probes=math.ceil(nprobe), gap=gap)
    margined = replace(full, probes=min(math.ceil(NPROBE_MARGIN * nprobe), conditions.nlist), gap=GAP_MARGIN * gap)
    if not margined.probes:
        return needed, margined, math.inf
    cost, scanned = _probing_cost(required, margined, conditions)
    return needed, replace(margined, scanned=scanned), cost


def _kinds_probing(
    required: Requirements, tier: int, k: int, loss: float, carried: Sequence[LearnedDepth]
) -> tuple[float, float]:
    """The nprobe and the gap that every kind needs, those included that are not measured now."""
    needs = {kind: _needed_probing(queries, tier, k, loss) for kind, queries in required.items()}
    generated = [need for kind, need in needs.items() if kind in _GENERATED]
    nprobe, gap = (max(values) for values in zip(*generated, strict=True))
    learned = [(nprobe * known.probes, gap * known.gap) for known in carried]
    nprobe, gap = (max(values) for values in zip(*needs.values(), *learned, strict=True))
    return nprobe, gap


def _full_cost(depth: Depth, conditions: Conditions) -> float:
    """Microseconds of a search that scans all rows."""
    scan = scan_cost(conditions.rows, conditions.code_size, conditions.rows)
    return scan + scan_setup_cost(depth.candidates, conditions.row_bytes)


def _probing_cost(required: Requirements, depth: Depth, conditions: Conditions) -> tuple[float, int]:
    """Microseconds of a search that probes, without its candidates, and the entries that it scans: means over the kinds
    of queries that users may ask, so without those that are made to be hard."""
    by_kind = []
    for kind, queries in required.items():
        if kind in _HARD and len(required) > len(_HARD):
            continue
        read = [query.reach.probed(depth) for query in queries if query.reach is not None]
        by_kind.append(np.mean(read, axis=0) if read else np.array([conditions.nlist, 2 * conditions.rows]))
    lists, entries = np.mean(by_kind, axis=0).tolist()
    cost = probing_cost(round(entries), conditions.code_size, lists, conditions.nlist, conditions.row_bytes)
    return cost, max(1, round(entries))


def _promising(required: Requirements, depth: Depth, tier: int, conditions: Conditions) -> Depth:
    """The depth with what it promises."""
    mean, p5 = _promise(required, depth, tier, conditions)
    return replace(depth, mean=mean, p5=p5)


def _least_depth(k: int, conditions: Conditions) -> int:
    growth = math.pow(max(1.0, conditions.rows / MIN_DEPTH_ROWS), MIN_DEPTH_EXPONENT)
    share = 1.0
    if conditions.goal < 1:
        share = math.pow(math.log(1 - conditions.goal) / math.log(1 - _MIN_DEPTH_GOAL), _GOAL_EXPONENT)
    return max(k, math.ceil((MIN_DEPTH_PER_RESULT * k + MIN_DEPTH) * growth * share))


def _promise(required: Requirements, depth: Depth, tier: int, conditions: Conditions) -> tuple[float, float]:
    """The lowest bound of the mean recall of a kind, and the lowest fifth percentile of one."""
    k, candidates, nprobe = depth.results, depth.candidates, depth.probes or conditions.nlist
    bounds, percentiles = [], []
    for queries in required.values():
        found = [query.recall(tier, k, candidates=candidates, nprobe=nprobe, max_gap=depth.gap) for query in queries]
        recall = np.array(found)[:, None]
        bounds.append(float(recall_bound(recall, k)[0]))
        percentiles.append(float(np.percentile(recall, 5)))
    return min(bounds), min(percentiles)
