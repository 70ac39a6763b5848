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
from aidre.engine.index import Candidates
from aidre.engine.kernel import Found, nearest
from aidre.engine.parts import Parts, Ranked, ordered
from aidre.engine.plan import Plan, plan_for
from aidre.engine.schema import SEGMENT_ROWS

_SLACK = 16
_DEEPER = 4
_FILTERED = 2
"""Depths are calibrated on all rows; those that pass a filter may lie far from the query and close to each other."""

_ROW = SEGMENT_ROWS - 1
_NOTHING: Candidates = np.empty(0, np.int64), np.empty(0, np.float32)


def search(
    parts: Parts,
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
    plan = plan_for(parts, space_id, depth, only)
    slack, deeper = _SLACK, depth or 0
    while True:
        scanned = _scan(plan, query, max(deeper, wanted))
        if scanned is None:
            plan = plan_for(parts, space_id, None, only)
            continue
        exact = [entry.column.search(query, min(wanted + slack, entry.allowed), entry.bits) for entry in plan.exact]
        ranked, more_scan = _ranked(parts, plan, scanned, exact, query=query, wanted=wanted)
        more_exact = bool(exact) and _cut_too_early(plan, exact, ranked, wanted)
        if not more_exact and not more_scan:
            return ranked
        slack = slack * _DEEPER if more_exact else slack
        if more_scan:
            deeper *= _DEEPER
            if deeper > sum(allowed for _, allowed in plan.passes) // 4:
                plan = plan_for(parts, space_id, None, only)


def _scan(plan: Plan, query: NDArray[np.float32], depth: int) -> tuple[Candidates, float] | None:
    """The best `depth` candidates, and how close the last of them seems, -inf where there are no others.

    None where a pass found less than it was asked for.
    """
    if not plan.passes:
        return _NOTHING, -np.inf
    found, total = [], 0
    for one, allowed in plan.passes:
        count = min(depth, allowed)
        rows, near = one.search(query, count)
        if len(rows) < count:
            return None
        found.append((rows, near))
        total += allowed
    if len(found) > 1:
        rows, near = (np.concatenate(one) for one in zip(*found, strict=True))
        best = np.argsort(-near, kind="stable")[:depth]
        rows, near = rows[best], near[best]
    return (rows, near), float(near[-1]) if total > len(rows) else -np.inf


def _ranked(
    parts: Parts,
    plan: Plan,
    scanned: tuple[Candidates, float],
    exact: Sequence[Found],
    *,
    query: NDArray[np.float32],
    wanted: int,
) -> tuple[Ranked, bool]:
    """The hits, and whether one of them was among the last candidates, so that there may be others just as good."""
    chosen, near = _by_part(parts, scanned[0])
    chosen += plan.gathered
    places, scores = nearest([(plan.columns[place], rows) for place, rows in chosen], query, wanted)
    owners, rows = _joined(chosen)
    found = [(owners[places], rows[places], scores)]
    for entry, (more, theirs) in zip(plan.exact, exact, strict=True):
        found.append((np.full(len(more), entry.place), more, theirs))
    ranked = ordered(parts, [one[0] for one in found], [one[1] for one in found], [one[2] for one in found], wanted)
    if scanned[1] == -np.inf or not len(ranked.scores):
        return ranked, False
    hits = places[: np.count_nonzero(scores >= ranked.scores[-1])]
    if plan.gathered:
        hits = hits[hits < len(near)]
    return ranked, bool(near[hits].min(initial=np.inf) <= scanned[1])


def _cut_too_early(plan: Plan, exact: Sequence[Found], ranked: Ranked, wanted: int) -> bool:
    """Whether an exact list ended, though its part has more rows, before the last of the hits."""
    last = ranked.scores[-1] if len(ranked.scores) >= wanted else -np.inf
    return any(
        len(rows) < entry.allowed and scores[-1] >= last
        for entry, (rows, scores) in zip(plan.exact, exact, strict=True)
    )


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


def _joined(chosen: Sequence[tuple[int, NDArray[np.int64]]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The part and the row of each."""
    if len(chosen) == 1:
        place, rows = chosen[0]
        return np.full(len(rows), place), rows
    owners = np.repeat(
        np.array([place for place, _ in chosen], np.int64), np.array([len(rows) for _, rows in chosen], np.int64)
    )
    return owners, np.concatenate([rows for _, rows in chosen] or [np.empty(0, np.int64)])
