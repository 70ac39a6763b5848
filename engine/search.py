"""One query over the parts of a generation: candidates from each, one exact evaluation, order by (score, id).

Each part yields candidates by the cheapest means (`cost`): all allowed rows, an exact search, or a scan. The
depth of the scan belongs to the generation: parts are asked for their share by rows, and one whose list was
cut while it still held rows better than the generation's last candidate is asked again. So the candidates
are those that one large segment would have given, and results do not depend on segmentation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from aidre.engine.cost import exact_cost, gather_cost, scan_cost
from aidre.engine.filters import Filter
from aidre.engine.index import Column, Found, Scan, evaluate
from aidre.engine.parts import Allowed, Means, Part, Ranked, best

_SLACK = 16
_DEEPER = 4
_FILTERED = 2
"""Depths are calibrated on all rows; those that pass a filter may lie far from the query and close to each other."""
_GATHER_BYTES = 1 << 24


class _List:
    """The candidates of one part so far, best first, and whether the part has more."""

    def __init__(self, part: Part, column: Column, scan: Scan | None, allowed: Allowed) -> None:
        self.part = part
        self.column = column
        self.scan = scan
        self.allowed = allowed
        self.rows: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self.approximate: NDArray[np.float64] = np.empty(0)
        self.gathered = False

    @property
    def exhausted(self) -> bool:
        return len(self.rows) >= self.allowed.count

    @property
    def is_scored(self) -> bool:
        """Whether the approximate scores are the final ones: those of an exact search are."""
        return self.scan is None and not self.gathered

    def gather(self) -> None:
        self.gathered = True
        self.rows = self.allowed.rows(len(self.column))
        self.approximate = np.full(len(self.rows), np.inf)

    def fetch(self, query: NDArray[np.float32], count: int) -> None:
        if len(self.rows) >= min(count, self.allowed.count):
            return
        search: Callable[..., Found] = self.scan.search if self.scan else self.column.search
        count = min(count, self.allowed.count)
        self.rows, self.approximate = search(query, count, self.allowed.bits)
        if len(self.rows) < count:  # a scan passes rows by where their codes are all alike
            self.give_up()

    def give_up(self) -> None:
        """Search the part exactly from now on."""
        self.scan, self.rows, self.approximate = None, self.rows[:0], self.approximate[:0]

    def bound(self) -> float:
        """No row outside the list has a better (approximate) score than this."""
        return -np.inf if self.exhausted else float(self.approximate[-1])


def search(
    parts: Sequence[Part],
    space_id: str,
    query: NDArray[np.float32],
    *,
    wanted: int,
    depth: int | None = None,
    only: Filter | None = None,
) -> Ranked:
    """The best `wanted` rows over all parts; `depth` is the scan's number of candidates, None: search exactly."""
    if depth is not None and only is not None:
        depth *= _FILTERED
    lists = _lists(parts, space_id, wanted, depth, only)
    slack, deeper = _SLACK, depth or 0
    while True:
        scans = [entry for entry in lists if entry.scan]
        exacts = [entry for entry in lists if not entry.scan]
        for entry in exacts:
            entry.fetch(query, wanted + slack)
        threshold = _scan(scans, query, wanted, deeper)
        if not all(entry.scan for entry in scans):
            continue
        bounds = (threshold, _best_exact(exacts, wanted + slack))
        ranked, lowest = _evaluate(parts, lists, bounds, query=query, wanted=wanted)
        last = float(ranked.scores[-1]) if len(ranked.scores) >= wanted else -np.inf
        more_exact = any(entry.bound() >= last for entry in exacts if not entry.exhausted)
        more_scan = lowest <= threshold and any(not entry.exhausted for entry in scans)
        if not more_exact and not more_scan:
            return ranked
        slack = slack * _DEEPER if more_exact else slack
        if more_scan:
            deeper *= _DEEPER
            for entry in scans:
                if deeper > entry.allowed.count // 4:
                    entry.give_up()


def _lists(
    parts: Sequence[Part], space_id: str, wanted: int, depth: int | None, only: Filter | None
) -> list[_List]:
    lists = []
    for part in parts:
        allowed = part.allowed(only)
        if not allowed.count:
            continue
        means = part.means.get((space_id, depth)) if only is None else None
        if means is None:
            means = _means(part, space_id, depth, allowed)
            if only is None:
                part.means[space_id, depth] = means
        entry = _List(part, part.segment.columns[space_id], means.scan, allowed)
        if allowed.count <= wanted or means.gather:
            entry.scan = None
            entry.gather()
        lists.append(entry)
    return lists


def _means(part: Part, space_id: str, depth: int | None, allowed: Allowed) -> Means:
    """The cheapest means for a part."""
    column = part.segment.columns[space_id]
    row_bytes = column.codes.itemsize * column.codes.shape[1]
    masked = allowed.bits is not None
    costs = {"exact": exact_cost(allowed.count, row_bytes, len(column) if masked else 0)}
    # A list without a bitmap is searched in place; gathering pays only where few of many rows are allowed.
    if masked and allowed.count * row_bytes <= _GATHER_BYTES:
        costs["gather"] = gather_cost(allowed.count, row_bytes)
    scan = part.segment.scans.get(space_id)
    if scan is not None and depth is not None:
        scanning = scan_cost(len(column), scan.code_size, depth, masked=masked)
        costs["scan"] = scanning + gather_cost(min(depth, allowed.count), row_bytes)
    cheapest = min(costs, key=costs.__getitem__)
    return Means(scan if cheapest == "scan" else None, cheapest == "gather")


def _best_exact(exacts: Sequence[_List], count: int) -> float:
    """The score of the last of the best `count` exact candidates: with these lists alone none below could be a hit.

    Gathered rows, whose scores are not known yet, count for nothing.
    """
    scores = np.concatenate([np.empty(0), *(entry.approximate for entry in exacts if not entry.gathered)])
    return float(np.partition(scores, len(scores) - count)[len(scores) - count]) if len(scores) > count else -np.inf


def _scan(scans: Sequence[_List], query: NDArray[np.float32], wanted: int, depth: int) -> float:
    """Fetch the generation's best `depth` candidates; returns the approximate score of the last one.

    A part that gives up makes the answer void: its neighbours have to be asked for again.
    """
    total = sum(len(entry.column) for entry in scans)
    for entry in scans:
        share = depth * len(entry.column) / max(1, total)
        entry.fetch(query, min(depth, max(wanted, int(share * 1.5) + _SLACK)))
        if not entry.scan:
            return -np.inf
    threshold = _last(scans, depth)
    cut = [entry for entry in scans if entry.bound() > threshold]
    for entry in cut:
        entry.fetch(query, depth)
        if not entry.scan:
            return -np.inf
    return _last(scans, depth) if cut else threshold


def _last(scans: Sequence[_List], depth: int) -> float:
    if not scans:
        return -np.inf
    scores = np.concatenate([entry.approximate for entry in scans])
    if len(scores) <= depth:
        return float(scores.min()) if any(not entry.exhausted for entry in scans) else -np.inf
    return float(np.partition(scores, len(scores) - depth)[len(scores) - depth])


def _evaluate(
    parts: Sequence[Part],
    lists: Sequence[_List],
    bounds: tuple[float, float],
    *,
    query: NDArray[np.float32],
    wanted: int,
) -> tuple[Ranked, float]:
    """Score the candidates with the one kernel: those of scans and those of exact lists down to their `bounds`.

    Also returns the lowest approximate score of a scanned hit.
    """
    if not lists:
        return Ranked(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)), np.inf
    kept = []
    for entry in lists:
        count = int(np.count_nonzero(entry.approximate >= bounds[0 if entry.scan else 1]))
        if count:
            kept.append((entry, count))
    # Exact lists have their scores from the same kernel already: only the others are evaluated, which come first.
    kept.sort(key=lambda pair: pair[0].is_scored)
    codes = [entry.column.take(entry.rows[:count]) for entry, count in kept if not entry.is_scored]
    known = [entry.approximate[:count] for entry, count in kept if entry.is_scored]
    if codes:
        gathered = codes[0] if len(codes) == 1 else np.concatenate(codes)
        known.insert(0, evaluate(lists[0].column.measure, gathered, query, wanted))
    scores = np.concatenate(known)
    places = {id(part): place for place, part in enumerate(parts)}
    owner = np.repeat([places[id(entry.part)] for entry, _ in kept], [count for _, count in kept])
    row = np.concatenate([entry.rows[:count] for entry, count in kept])
    order = best(parts, owner, row, scores, wanted)
    near = np.concatenate([e.approximate[:count] if e.scan else np.full(count, np.inf) for e, count in kept])
    reached = scores >= scores[order[-1]] if len(order) else np.zeros(0, bool)
    lowest = float(near[reached].min()) if reached.any() else np.inf
    return Ranked(owner[order], row[order], scores[order]), lowest
