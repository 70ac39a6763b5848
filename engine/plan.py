"""How each part of a generation is searched for one space, depth and filter: by the cheapest means (`cost`).

A plan is made once and kept with the parts. Of the parts that are scanned one pass goes over those with one codebook.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aidre.engine.cost import beginning_cost, exact_cost, gather_cost, scan_cost
from aidre.engine.filters import Filter, canonical
from aidre.engine.index import Scan
from aidre.engine.kernel import Bits, Column
from aidre.engine.parts import Allowed, Parts, bitmap
from aidre.engine.passes import Pass

_PLANS = 64
_PLAN_BYTES = 1 << 26
"""What the plans of a generation may hold together: where vectors are narrow, one can name a million rows."""

_GATHER_BYTES = 1 << 24


@dataclass(frozen=True, slots=True)
class Exact:
    """A part whose column is searched in place; `allowed` rows of it, all where `bits` is None."""

    place: int
    column: Column
    bits: Bits | None
    allowed: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Passes over codes and how many rows each may find; parts searched exactly; and rows to be gathered, by part.

    `size` are the bytes of what it holds on its own account.
    """

    passes: tuple[tuple[Pass, int], ...]
    exact: tuple[Exact, ...]
    gathered: tuple[tuple[int, NDArray[np.int64]], ...]
    columns: tuple[Column, ...]
    size: int


def plan_for(parts: Parts, space_id: str, depth: int | None, only: Filter | None) -> Plan:
    """The plan of a search; `depth` is about how many candidates a scan has to find, None: without a scan."""
    if depth is not None:  # a plan for every number of hits that is asked for would be made again and again
        depth = 1 << depth.bit_length()
    key = space_id, depth, None if only is None else canonical(only)
    plan = parts.plans.get(key)
    if plan is None:
        plan = _plan(parts, space_id, depth, [part.allowed(only) for part in parts])
        if plan.size <= _PLAN_BYTES:
            _make_room(parts, plan.size)
            parts.plans[key] = plan
    return plan


def _make_room(parts: Parts, size: int) -> None:
    """Forget plans until there is room for one more; every step is one of its own, another thread may be here too."""
    with suppress(KeyError):
        while len(parts.plans) >= _PLANS or size + sum(plan.size for plan in list(parts.plans.values())) > _PLAN_BYTES:
            parts.plans.popitem(last=False)


def _plan(parts: Parts, space_id: str, depth: int | None, allowed: Sequence[Allowed]) -> Plan:
    columns = tuple(part.segment.columns[space_id] for part in parts)
    scanned = set() if depth is None else _scanned(parts, space_id, depth, columns, allowed)
    exact, gathered = [], []
    for place, (column, rows) in enumerate(zip(columns, allowed, strict=True)):
        if place in scanned or not rows.count:
            continue
        if _direct_cost(column, rows)[1]:
            gathered.append((place, rows.rows()))
        else:
            exact.append(Exact(place, column, None if rows.mask is None else Bits(rows.packed), rows.count))
    passes = _passes(parts, space_id, scanned, allowed)
    size = sum(one.size for one, _ in passes)
    size += sum(each.bits.packed.nbytes for each in exact if each.bits is not None)
    size += sum(chosen.nbytes for _, chosen in gathered)
    return Plan(passes, tuple(exact), tuple(gathered), columns, size)


def _row_bytes(column: Column) -> int:
    return int(column.codes.itemsize * column.codes.shape[1])


def _direct_cost(column: Column, rows: Allowed) -> tuple[float, bool]:
    """What comparing with all allowed rows costs, and whether they are gathered for it."""
    width = _row_bytes(column)
    exact = exact_cost(rows.count, width, 0 if rows.mask is None else len(column))
    gather = gather_cost(rows.count, width)
    by_gathering = gather < exact and rows.count * width <= _GATHER_BYTES
    return min(exact, gather) if by_gathering else exact, by_gathering


def _scan_cost(scan: Scan, rows: Allowed) -> float:
    """What going over its codes costs; where few lists hold an allowed row, over those."""
    lists = scan.once(scan.counts(rows.mask))
    return scan_cost(int(scan.sizes[lists].sum()), scan.code_size, rows.count, len(lists) if scan.lists else 0)


def _scanned(
    parts: Parts, space_id: str, depth: int, columns: Sequence[Column], allowed: Sequence[Allowed]
) -> set[int]:
    """The parts where a scan saves something, if all together it saves more than it costs to begin one."""
    saved: dict[int, float] = {}
    for place, (part, column, rows) in enumerate(zip(parts, columns, allowed, strict=True)):
        scan = part.segment.scans.get(space_id)
        if scan is not None and rows.count:
            saving = _direct_cost(column, rows)[0] - _scan_cost(scan, rows)
            if saving > 0:
                saved[place] = saving
    if not saved:
        return set()
    candidates = min(depth, sum(allowed[place].count for place in saved))
    begun = beginning_cost(candidates, _row_bytes(columns[0]))
    return set(saved) if sum(saved.values()) > begun else set()


def _passes(parts: Parts, space_id: str, scanned: set[int], allowed: Sequence[Allowed]) -> tuple[tuple[Pass, int], ...]:
    passes = []
    for sweep in parts.sweeps(space_id) if scanned else ():
        slots = [scan.slot or 0 for scan in sweep.scans]
        places = [parts.places[slot] for slot in slots]
        scans = [number for number, place in enumerate(places) if place in scanned]
        if scans:
            chosen = [(slots[number], allowed[places[number]]) for number in scans]
            bits = bitmap(chosen)
            counts = [sweep.scans[number].counts(rows.mask) for number, (_, rows) in zip(scans, chosen, strict=True)]
            passes.append((Pass(sweep, scans, bits, counts), sum(rows.count for _, rows in chosen)))
    return tuple(passes)
