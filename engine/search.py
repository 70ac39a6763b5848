"""One query over the parts of a generation: candidates from each, one exact evaluation, order by (score, id).

Candidates come by the means that the plan chose. The depth of the scan belongs to the generation: the candidates are
those that one large segment would have given, so results do not depend on segmentation. Where a hit stands at the very
end of a list that was cut, others just as good may have been cut off: then the search goes deeper.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from aidre.engine.filters import Filter
from aidre.engine.kernel import Found, nearest
from aidre.engine.parts import Parts, Ranked, ordered
from aidre.engine.passes import Candidates
from aidre.engine.plan import Plan, plan_for
from aidre.engine.reach import Reach
from aidre.engine.schema import SEGMENT_ROWS

_SLACK = 16
_DEEPER = 4
_FILTERED = 2
"""Depths are calibrated on all rows; those that pass a filter may lie far from the query and close to each other."""

_ROW = SEGMENT_ROWS - 1
Scanned = tuple[Candidates, float]
"""Candidates of one query, and how close any other row may seem."""

_NOTHING: Scanned = (np.empty(0, np.int64), np.empty(0, np.float32)), -np.inf


def search(
    parts: Parts,
    space_id: str,
    query: NDArray[np.float32],
    *,
    wanted: int,
    reach: Reach | None = None,
    only: Filter | None = None,
) -> Ranked:
    """The best `wanted` rows over all parts; `reach` is how far the scan goes, None: search exactly."""
    return search_all(parts, space_id, query, wanted=wanted, reach=reach, only=only)[0]


def search_all(
    parts: Parts,
    space_id: str,
    queries: NDArray[np.float32],
    *,
    wanted: int,
    reach: Reach | None = None,
    only: Filter | None = None,
) -> list[Ranked]:
    """The same for each of several queries (n, d), which share the pass over the codes."""
    depth = None if reach is None else reach.candidates * (1 if only is None else _FILTERED)
    plan = plan_for(parts, space_id, depth, only)
    scanned = _scan(plan, queries, max(depth or 0, wanted), reach)
    return [
        _deepened(parts, space_id, plan, one, query=queries[number : number + 1], wanted=wanted, depth=depth, only=only)
        for number, one in enumerate(scanned)
    ]


def _deepened(
    parts: Parts,
    space_id: str,
    plan: Plan,
    scanned: Scanned | None,
    *,
    query: NDArray[np.float32],
    wanted: int,
    depth: int | None,
    only: Filter | None,
) -> Ranked:
    """The hits among the candidates of one query, and, where there may be others just as good, among more of them."""
    slack, deeper = _SLACK, depth or 0
    while True:
        if scanned is None:
            plan = plan_for(parts, space_id, None, only)
            scanned = _NOTHING
        exact = [entry.column.search(query, min(wanted + slack, entry.allowed), entry.bits) for entry in plan.exact]
        ranked, more_scan = _ranked(parts, plan, scanned, exact, query=query, wanted=wanted)
        last = ranked.scores[-1] if len(ranked.scores) >= wanted else -np.inf
        more_exact = bool(exact) and any(
            len(rows) < entry.allowed and scores[-1] >= last
            for entry, (rows, scores) in zip(plan.exact, exact, strict=True)
        )
        if not more_exact and not more_scan:
            return ranked
        slack = slack * _DEEPER if more_exact else slack
        if more_scan:
            deeper *= _DEEPER
            if deeper > sum(allowed for _, allowed in plan.passes) // 4:
                plan = plan_for(parts, space_id, None, only)
            scanned = _scan(plan, query, max(deeper, wanted), None)[0]


def _scan(plan: Plan, queries: NDArray[np.float32], depth: int, reach: Reach | None) -> list[Scanned | None]:
    """For each query the best `depth` candidates, and how close the last of them seems, -inf where there are no others.

    None where a pass found less than it was asked for.
    """
    if not plan.passes:
        return [_NOTHING] * len(queries)
    counts = [min(depth, allowed) for _, allowed in plan.passes]
    found = [one.search_all(queries, count, reach) for (one, _), count in zip(plan.passes, counts, strict=True)]
    total = sum([allowed for _, allowed in plan.passes])
    return [_together(theirs, counts, depth, total) for theirs in zip(*found, strict=True)]


def _together(found: Sequence[Candidates], counts: Sequence[int], depth: int, total: int) -> Scanned | None:
    """What the passes found for one query, of `total` rows that they went over."""
    if any(len(rows) < count for (rows, _), count in zip(found, counts, strict=True)):
        return None
    rows, near = found[0]
    if len(found) > 1:
        rows, near = (np.concatenate(one) for one in zip(*found, strict=True))
        best = np.argsort(-near, kind="stable")[:depth]
        rows, near = rows[best], near[best]
    return (rows, near), float(near[-1]) if total > len(rows) else -np.inf


def _ranked(
    parts: Parts,
    plan: Plan,
    scanned: Scanned,
    exact: Sequence[Found],
    *,
    query: NDArray[np.float32],
    wanted: int,
) -> tuple[Ranked, bool]:
    """The hits, and whether one of them was among the last candidates, so that there may be others just as good."""
    chosen, near = _by_part(parts, scanned[0])
    chosen += plan.gathered
    places, scores = nearest([(plan.columns[place], rows) for place, rows in chosen], query, wanted)
    owners, rows = _at(chosen, places)
    others = [np.full(len(more), entry.place) for entry, (more, _) in zip(plan.exact, exact, strict=True)]
    found = [owners, *others], [rows, *(more for more, _ in exact)], [scores, *(theirs for _, theirs in exact)]
    ranked = ordered(parts, *found, wanted)
    if scanned[1] == -np.inf or not len(ranked.scores):
        return ranked, False
    hits = places[: np.count_nonzero(scores >= ranked.scores[-1])]
    if plan.gathered:
        hits = hits[hits < len(near)]
    return ranked, bool(near[hits].min(initial=np.inf) <= scanned[1])


def _by_part(parts: Parts, scanned: Candidates) -> tuple[list[tuple[int, NDArray[np.int64]]], NDArray[np.float32]]:
    """The candidates as rows of their parts, and how close they seem in that order."""
    numbers, near = scanned
    if not len(numbers):
        return [], near
    if len(parts) == 1:
        return [(0, numbers & _ROW)], near
    order = np.argsort(numbers)
    numbers = numbers[order]
    ends = np.searchsorted(numbers, parts.slot_ends).tolist()
    rows = numbers & _ROW
    chosen, start = [], 0
    for place, end in zip(parts.places, ends, strict=True):
        if end > start:
            chosen.append((place, rows[start:end]))
            start = end
    return chosen, near[order]


def _at(
    chosen: Sequence[tuple[int, NDArray[np.int64]]], places: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The part and the row of some of the chosen, by their places counted through."""
    if len(chosen) == 1:
        place, rows = chosen[0]
        return np.full(len(places), place), rows[places]
    owners = np.repeat(
        np.array([place for place, _ in chosen], np.int64), np.array([len(rows) for _, rows in chosen], np.int64)
    )
    return owners[places], np.concatenate([rows for _, rows in chosen] or [np.empty(0, np.int64)])[places]
