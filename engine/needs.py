"""What it takes to find the true neighbours of sampled queries: how many candidates, the lists of which centroids."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from aidre.engine.index import Scan
from aidre.engine.parts import bitmap
from aidre.engine.passes import Candidates, Pass, Sweep, together
from aidre.engine.router import Router
from aidre.engine.schema import SEGMENT_ROWS
from aidre.engine.truth import THREADS, Source, Truth, place_of

_TOGETHER = 25
_ROW = SEGMENT_ROWS - 1


class Scanned(Source, Protocol):
    """A column with its live rows and the scan of its codes."""

    @property
    def scan(self) -> Scan | None: ...


@dataclass(frozen=True, slots=True)
class Needed:
    """What it takes to find each true neighbour of one query.

    `depth` is its place among the candidates (their number: not among them), `probes` how many centroids' lists have to
    be gone over (0: none), `gaps` by how much the last of these is less close to the query than the first, `group` as
    in Truth.
    """

    depth: NDArray[np.int64]
    probes: NDArray[np.int64]
    gaps: NDArray[np.float64]
    group: NDArray[np.int64]

    def recall(self, place: int, results: int, depth: int, probes: int, gap: float) -> float:
        """What is found of so many results by a search that goes so far; a gap of 0 is none."""
        found = (self.group <= place) & (self.depth < depth) & (self.probes <= probes)
        if gap:
            found &= self.gaps <= gap
        return min(int(found.sum()), results) / results


def recalls(
    needed: Sequence[Needed], place: int, results: int, what: Callable[[Needed], NDArray[np.int64]], most: int
) -> NDArray[np.float64]:
    """The recall of each query where up to 0, 1, ... most - 1 of something are needed."""
    counts = [np.bincount(what(one)[one.group <= place], minlength=most + 1)[:most].cumsum() for one in needed]
    recall: NDArray[np.float64] = np.minimum(np.stack(counts), results) / results
    return recall


def needed_of(truth: Truth, targets: Mapping[int, Scanned], deepest: int) -> list[Needed]:
    """For each query, of the candidates of all scans together. `targets` are those of the truth's that have one, by
    their places there; neighbours in others are found by any means."""
    scans = {place: target.scan for place, target in targets.items() if target.scan is not None}
    owners = _numbered(scans)
    passes = []
    for alike in together(scans.values()):
        chosen = [(scan.slot or 0, targets[owners[scan.slot or 0]].live) for scan in alike]
        allowed = sum(live.count for _, live in chosen)
        passes.append((Pass(Sweep(alike), bits=bitmap(chosen)), min(deepest + 1, allowed)))
    near = [_lists_of(truth, scans, number) for number in range(len(truth.queries))]

    def searched(first: int) -> list[Needed]:
        queries = truth.queries[first : first + _TOGETHER]
        found = zip(*(one.search_all(queries, count) for one, count in passes), strict=True)
        return [
            Needed(_ranks(truth, number, owners, each, deepest), *near[number], truth.groups[number][1])
            for number, each in enumerate(found, first)
        ]

    with ThreadPoolExecutor(THREADS) as pool:
        return [one for some in pool.map(searched, range(0, len(truth.queries), _TOGETHER)) for one in some]


def _numbered(places: Mapping[int, Scan]) -> NDArray[np.int64]:
    """Number the scans that no generation has yet; the target of each slot, -1 for one that is free."""
    taken = {scan.slot for scan in places.values()}
    free = (slot for slot in itertools.count() if slot not in taken)
    for scan in places.values():
        if scan.slot is None:
            scan.number(next(free))
    slots = {scan.slot or 0: place for place, scan in places.items()}
    return np.array([slots.get(slot, -1) for slot in range(max(slots, default=0) + 1)])


def _ranks(
    truth: Truth, number: int, owners: NDArray[np.int64], found: Sequence[Candidates], deepest: int
) -> NDArray[np.int64]:
    known = truth.groups[number][0]
    rows, near = (np.concatenate(each) for each in zip(*found, strict=True))
    rows = rows[np.argsort(-near, kind="stable")]
    candidates = place_of(owners[rows // SEGMENT_ROWS], rows % SEGMENT_ROWS)
    candidates = candidates[candidates != truth.own[number]][:deepest]
    ranks = np.where(np.isin(known >> 32, owners), deepest, 0)
    if len(candidates):  # a scan may find nothing at all, where its codes are all alike
        order = np.argsort(candidates)
        at = order[np.minimum(np.searchsorted(candidates, known, sorter=order), len(order) - 1)]
        ranks = np.where(candidates[at] == known, at, ranks)
    return ranks


def _lists_of(truth: Truth, scans: Mapping[int, Scan], number: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """`probes` and `gaps` of the neighbours of one query."""
    known = truth.groups[number][0]
    probes, gaps = np.zeros(len(known), np.int64), np.zeros(len(known))
    ranked: dict[bytes, tuple[NDArray[np.int64], NDArray[np.float64]]] = {}
    for place, scan in scans.items():
        mine = known >> 32 == place
        if not scan.lists or not mine.any():
            continue
        key = scan.codebook_key[1]
        if key not in ranked:
            ranked[key] = ranks_of(scan.router, truth.queries[number : number + 1])
        ranks, behind = ranked[key]
        probes[mine] = ranks[scan.places[:, known[mine] & _ROW]].min(axis=0)
        gaps[mine] = behind[probes[mine] - 1]
    return probes, gaps


def ranks_of(router: Router, query: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The place of each centroid in the order in which they are near to a query, from 1; and the gap of each place."""
    numbers, gaps = router.ranked(query, len(router))
    ranks = np.empty(len(router), np.int64)
    ranks[numbers] = np.arange(1, len(router) + 1)
    return ranks, gaps
