"""The choice of a search depth: for each k the candidates, nprobe and gap at which every kind of query is found.

Each kind has to reach the goal by itself, and what is promised holds for the hardest: the lower end of a confidence
interval of its mean recall. Kinds that need more than those which every calibration measures leave factors
behind (`LearnedDepth`), by which a later calibration goes deeper if it cannot measure them.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aidre.engine.index.vectors import CoarseQuantizer, VectorIndex
from aidre.engine.search.cost import probing_cost, scan_cost, scan_setup_cost
from aidre.engine.search.query_samples import Kind
from aidre.engine.storage import Depth, LearnedDepth

NPROBE_MARGIN = 1.6
"""Safety factor on the nprobe that keeps the promise, which costs nothing: the gap ends most searches long before."""

GAP_MARGIN = 1.1
"""Safety factor on the gap: among many depths that keep the promise chance favours the cheapest. Without it other pairs
of a million rows found .939 for .95 and .987 for .99, with it .952 and .990; a search scans a fifth more."""

MAX_PROBING_SHARE = 0.8
"""Share of the expected time of a search that scans all rows: lists are probed where it takes less, as they take memory
and time to build."""

_NEEDED_LOSS: Final = 0.5
_PROBING_LOSSES: Final = tuple(0.95 * 0.93**step for step in range(56))
_DEEPER_CANDIDATES: Final = (1.0, 1.09, 1.19, 1.3, 1.41, 1.54, 1.68, 1.83, 2.0, 2.2, 2.4, 2.6)
"""Shares of the allowed recall loss that probing may have, and factors on the candidates of a full scan: of all pairs
the cheapest is chosen that keeps the promise. _NEEDED_LOSS is the share by which kinds of queries are compared."""

_COSTED_QUERIES: Final = 128
"""Queries of a kind from which it is estimated what probing reads."""

_ROUNDING: Final = 1e-9
_LEAST_GAP: Final = 1e-6
"""Stands for a gap of zero or less, which would mean no bound."""

MIN_DEPTH_PER_RESULT, MIN_DEPTH = 5, 50
"""Candidates: no depth is less than MIN_DEPTH_PER_RESULT * k + MIN_DEPTH, unless the affordable depth is. They cost
little, and cover what a calibration cannot foresee: growth until the next one, and segments with other codebooks."""

_MIN_DEPTH_GOAL, _GOAL_EXPONENT = 0.99, 2
"""The least depth is that of the first; for other goals it goes with a power of the logarithm of what may be missed, as
the required depth of embeddings does: a quarter for .90, two fifths for .95, four thirds for .995."""

MIN_DEPTH_ROWS, MIN_DEPTH_EXPONENT = 60_000, 0.5
"""With more rows than MIN_DEPTH_ROWS the least depth grows by this power of them, as the required depth does."""

_TAIL_FACTOR: Final = 4.0
"""How many times the allowed mean loss, or one hit, the fifth percentile may lose by probing: else one query in twenty
could lose everything while the mean is kept."""

_CONFIDENCE: Final = 1.645
"""Standard errors below the mean: the lower end of a one-sided interval of 95 %."""

_UNREACHED_FACTOR: Final = 2.0
"""A kind that no affordable depth finds is taken to need this many times the deepest one."""

_ALL_TIERS: Final = 1 << 30
_GENERATED: Final = ("rows", "mixtures", "pairs")
_HARD: Final = ("mixtures", "pairs")


@dataclass(frozen=True, slots=True)
class Reach:
    """What probing reads for queries: the gaps of the centroids by rank, and the entries of the lists up to each,
    copies included; arrays (nlist,), or (queries, nlist)."""

    gaps: NDArray[np.float32]
    entries: NDArray[np.int32]

    def probed(self, depth: Depth) -> tuple[float, float]:
        """The lists and the entries that searches of that depth read in the mean: lists within the gap, and as many
        more as hold two copies of each candidate, up to `probes`."""
        most = min(depth.probes, self.gaps.shape[-1])
        within = np.count_nonzero(self.gaps <= np.float32(depth.gap), axis=-1) if depth.gap else np.array(most)
        filled = np.count_nonzero(self.entries < 2 * depth.candidates, axis=-1) + 1
        lists = np.minimum(np.maximum(within, filled), most)
        entries = np.take_along_axis(self.entries, lists[..., None] - 1, axis=-1)
        return float(lists.mean()), float(entries.mean())


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
    Tier t of `tiers` holds the neighbours that are first needed for `k_values[t]`, up to `max_tier`. `reach` is None
    without lists. `missed` is the share of its neighbours that is not known, and counts as not found.
    """

    ranks: NDArray[np.int64]
    nprobe: NDArray[np.int64]
    gaps: NDArray[np.float64]
    tiers: NDArray[np.int64]
    reach: Reach | None = None
    max_tier: int = _ALL_TIERS
    missed: float = 0.0


@dataclass(frozen=True, slots=True)
class NeededDepths:
    """What queries of a kind need to find their neighbours for k: a row for each query, filled up with what no search
    reaches; the nprobe and the gaps of all, of neighbours that tie the first k; and of some queries what probing reads,
    None without lists."""

    k: int
    ranks: NDArray[np.int64]
    nprobe: NDArray[np.int64]
    gaps: NDArray[np.float64]
    missed: NDArray[np.float64]
    sorted_nprobe: NDArray[np.int64]
    sorted_gaps: NDArray[np.float64]
    reach: Reach | None

    def recall(self, depth: Depth) -> NDArray[np.float64]:
        """The recall of each query in a search of that depth (n,); probes 0: all lists; gap 0: no bound."""
        found = self.ranks < depth.candidates
        if depth.probes:
            found &= self.nprobe <= depth.probes
        if depth.gap:
            found &= self.gaps <= depth.gap
        recall: NDArray[np.float64] = np.maximum(np.minimum(found.sum(axis=1), self.k) / self.k - self.missed, 0.0)
        return recall

    def needed(self, loss: float) -> tuple[float, float]:
        """The nprobe and the gap that lose this much recall."""
        place = math.ceil((len(self.sorted_gaps) - 1) * min(1.0, max(0.0, 1 - loss)) - _ROUNDING)
        return float(self.sorted_nprobe[place]), float(self.sorted_gaps[place])


def found_for(queries: Sequence[RequiredDepth], tier: int, k: int) -> NeededDepths:
    """What those of the queries need whose neighbours for k are known."""
    known = [query for query in queries if query.max_tier >= tier]
    own = [query.tiers <= tier for query in known]
    width = max((int(chosen.sum()) for chosen in own), default=0)
    ranks, nprobe = np.full((2, len(known), width), np.iinfo(np.int64).max)
    gaps = np.full((len(known), width), np.inf)
    for number, (query, chosen) in enumerate(zip(known, own, strict=True)):
        count = int(chosen.sum())
        ranks[number, :count], nprobe[number, :count] = query.ranks[chosen], query.nprobe[chosen]
        gaps[number, :count] = query.gaps[chosen]
    missed, reach = np.array([query.missed for query in known]), _stacked(known[:_COSTED_QUERIES])
    sorted_nprobe, sorted_gaps = (np.sort(np.sort(values, axis=1)[:, :k], axis=None) for values in (nprobe, gaps))
    return NeededDepths(k, ranks, nprobe, gaps, missed, sorted_nprobe, sorted_gaps, reach)


def _stacked(queries: Sequence[RequiredDepth]) -> Reach | None:
    """The reach of queries that have one, in the same centroids as the first."""
    reaches = [query.reach for query in queries if query.reach is not None]
    alike = [reach for reach in reaches if len(reach.gaps) == len(reaches[0].gaps)]
    if not alike:
        return None
    return Reach(np.stack([reach.gaps for reach in alike]), np.stack([reach.entries for reach in alike]))


Requirements = Mapping[Kind, Sequence[RequiredDepth]]
Tier = Mapping[Kind, NeededDepths]
"""What queries of each kind need for one k."""


@dataclass(frozen=True, slots=True)
class SearchConditions:
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
    required: Requirements, k_values: Sequence[int], conditions: SearchConditions, learned: Sequence[LearnedDepth] = ()
) -> Choice:
    """`learned` holds what earlier calibrations learned of kinds that `required` lacks."""
    return choose_for(tiers_of(required, k_values), conditions, learned)


def tiers_of(required: Requirements, k_values: Sequence[int]) -> list[Tier]:
    """What each k needs, from the smallest on: the same for all recalls."""
    return [
        {kind: found_for(queries, tier, k) for kind, queries in required.items()} for tier, k in enumerate(k_values)
    ]


def choose_for(tiers: Sequence[Tier], conditions: SearchConditions, learned: Sequence[LearnedDepth] = ()) -> Choice:
    """`choose_depths` of what `tiers_of` returns."""
    depths, measured = list[Depth](), list[LearnedDepth]()
    for tier, kinds in enumerate(tiers):
        needs = {kind: _need_of(found, conditions) for kind, found in kinds.items()}
        generated = _largest([need for kind, need in needs.items() if kind in _GENERATED])
        if generated.candidates is None:
            break
        k = next(iter(kinds.values())).k
        carried = [known for known in learned if known.results == k]
        need = _largest([*needs.values(), *(_scaled(generated, known) for known in carried)])
        depth = _depth_for(kinds, need, k, conditions)
        if depth is not None:
            depth = _with_probes(kinds, depth, conditions, carried)
        if depth is not None and len(depths) == tier:
            depths.append(replace(depth, mean=min([depth.mean, *(known.recall for known in carried)])))
        for kind, own in needs.items():
            if kind in _GENERATED:
                continue
            candidates = _ratio(own.candidates or _UNREACHED_FACTOR * conditions.max_depth, generated.candidates)
            probes, gap = _ratio(own.nprobe, generated.nprobe), _ratio(own.gap, generated.gap)
            if max(candidates, probes, gap) > 1:
                found = [] if depth is None else [_promise({kind: kinds[kind]}, depth)[0]]
                measured.append(LearnedDepth(kind, k, candidates, probes, gap, min([conditions.goal, *found])))
    return Choice(tuple(depths), tuple(measured))


# -- the need of one kind ------------------------------------------------------------------------------------


def _need_of(found: NeededDepths, conditions: SearchConditions) -> Need:
    """A kind of whose queries too few were asked to prove the goal needs to find all neighbours."""
    best = float(recall_bound(np.ones((len(found.ranks), 1)), found.k)[0])
    goal = min(conditions.goal, best) if conditions.goal <= 1 else conditions.goal

    def proves_goal(candidates: int) -> bool:
        recall = found.recall(Depth(found.k, candidates, 0.0, 0.0))
        return float(recall_bound(recall[:, None], found.k)[0]) >= goal

    counts = range(1, conditions.max_depth)
    number = bisect_left(counts, True, key=proves_goal)
    candidates = float(counts[number]) if number < len(counts) else None
    return Need(candidates, *found.needed(_NEEDED_LOSS * (1 - conditions.goal)))


def recall_bound(recall: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """The lower end of a confidence interval of the mean recall at k over the queries, which are axis 0.

    One more query that misses one neighbour is counted: that a sample found all proves no recall of 1.
    """
    counted = np.concatenate([recall, np.full((1, recall.shape[1]), 1 - 1 / k)])
    bound: NDArray[np.float64] = counted.mean(axis=0) - _CONFIDENCE * counted.std(axis=0) / math.sqrt(len(counted))
    return bound


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


def _depth_for(kinds: Tier, need: Need, k: int, conditions: SearchConditions) -> Depth | None:
    """The depth that serves a need, with the recall that it promises; None if it is deeper than was measured."""
    if need.candidates is None or need.candidates > conditions.max_depth:
        return None
    candidates = min(max(math.ceil(need.candidates), _least_depth(k, conditions)), conditions.max_depth)
    return _promising(kinds, Depth(k, candidates, 0.0, 0.0))


def _with_probes(kinds: Tier, full: Depth, conditions: SearchConditions, carried: Sequence[LearnedDepth]) -> Depth:
    """The same depth with the probing that makes it cheapest; without, where all rows are scanned in about the time.

    Probing is judged by the time that it is expected to take: the gap ends most searches long before `probes`.
    """
    if not conditions.nlist:
        return full
    tail = min(full.p5, 1 - max(_TAIL_FACTOR * (1 - conditions.goal), 1 / full.results)) - _ROUNDING
    probings = [_probing(kinds, full, conditions, carried, loss=loss) for loss in _PROBING_LOSSES]
    best, best_cost = full, MAX_PROBING_SHARE * _full_cost(full, conditions)
    for factor in _DEEPER_CANDIDATES:
        candidates = min(math.ceil(factor * full.candidates), conditions.max_depth)
        shallowest = _with_margin(probings[0], candidates)
        if not shallowest.probes or _probing_cost(kinds, shallowest, conditions)[0] >= best_cost:
            break

        def keeps_promise(number: int, candidates: int = candidates) -> bool:
            mean, p5 = _promise(kinds, replace(probings[number], candidates=candidates))
            return mean >= min(conditions.goal, full.mean) and p5 >= tail

        number = bisect_left(range(len(probings)), True, key=keeps_promise)
        if number < len(probings):
            proven = _promising(kinds, replace(probings[number], candidates=candidates))
            depth = _with_margin(proven, candidates)
            cost, scanned = _probing_cost(kinds, depth, conditions)
            if cost < best_cost:
                best, best_cost = replace(depth, scanned=scanned), cost
    return best


def _with_margin(depth: Depth, candidates: int) -> Depth:
    return replace(depth, candidates=candidates, gap=GAP_MARGIN * depth.gap)


def _probing(
    kinds: Tier, full: Depth, conditions: SearchConditions, carried: Sequence[LearnedDepth], *, loss: float
) -> Depth:
    """The depth with the probing that loses a share of what may be missed, without probing where no neighbour is in a
    list."""
    nprobe, gap = _kinds_probing(kinds, loss * max(0.0, 1 - conditions.goal), carried)
    probes = min(math.ceil(NPROBE_MARGIN * nprobe), conditions.nlist)
    return replace(full, probes=probes, gap=max(gap, _LEAST_GAP) if probes else 0.0)


def _kinds_probing(kinds: Tier, loss: float, carried: Sequence[LearnedDepth]) -> tuple[float, float]:
    """The nprobe and the gap that every kind needs, those included that are not measured now."""
    needs = {kind: found.needed(loss) for kind, found in kinds.items()}
    generated = [need for kind, need in needs.items() if kind in _GENERATED]
    nprobe, gap = (max(values) for values in zip(*generated, strict=True))
    learned = [(nprobe * known.probes, gap * known.gap) for known in carried]
    nprobe, gap = (max(values) for values in zip(*needs.values(), *learned, strict=True))
    return nprobe, gap


def _full_cost(depth: Depth, conditions: SearchConditions) -> float:
    """Microseconds of a search that scans all rows."""
    scan = scan_cost(conditions.rows, conditions.code_size, conditions.rows)
    return scan + scan_setup_cost(depth.candidates, conditions.row_bytes)


def _probing_cost(kinds: Tier, depth: Depth, conditions: SearchConditions) -> tuple[float, int]:
    """Microseconds of a search that probes, and the entries that it scans: means over the kinds of queries that users
    may ask, so without those that are made to be hard."""
    by_kind = []
    for kind, found in kinds.items():
        if kind not in _HARD or len(kinds) <= len(_HARD):
            nothing = conditions.nlist, 2 * conditions.rows
            by_kind.append(nothing if found.reach is None else found.reach.probed(depth))
    lists, entries = np.mean(by_kind, axis=0).tolist()
    cost = probing_cost(round(entries), conditions.code_size, lists, conditions.nlist, conditions.row_bytes)
    return cost + scan_setup_cost(depth.candidates, conditions.row_bytes), max(1, round(entries))


def _promising(kinds: Tier, depth: Depth) -> Depth:
    """The depth with what it promises."""
    mean, p5 = _promise(kinds, depth)
    return replace(depth, mean=mean, p5=p5)


def _least_depth(k: int, conditions: SearchConditions) -> int:
    growth = math.pow(max(1.0, conditions.rows / MIN_DEPTH_ROWS), MIN_DEPTH_EXPONENT)
    share = 1.0
    if conditions.goal < 1:
        share = math.pow(math.log(1 - conditions.goal) / math.log(1 - _MIN_DEPTH_GOAL), _GOAL_EXPONENT)
    return max(k, math.ceil((MIN_DEPTH_PER_RESULT * k + MIN_DEPTH) * growth * share))


def _promise(kinds: Tier, depth: Depth) -> tuple[float, float]:
    """The lowest bound of the mean recall of a kind, and the lowest fifth percentile of one."""
    bounds, percentiles = [], []
    for found in kinds.values():
        recall = found.recall(depth)
        bounds.append(float(recall_bound(recall[:, None], found.k)[0]))
        percentiles.append(float(np.percentile(recall + found.missed, 5)))  # unknown neighbours do not count as lost
    return min(bounds), min(percentiles)
