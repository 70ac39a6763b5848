"""The plan of a vector search: for one space, depth and filter, the cheapest way to search each segment (see `cost`).

A plan is made once and cached with the segments. The segments to be scanned that share a codebook share one scan.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from aidre.engine.index.fields import Filter, filter_digest
from aidre.engine.index.vectors import Bitmap, PreparedScan, VectorColumn, VectorIndex
from aidre.engine.native import native
from aidre.engine.search.cost import exact_cost, gather_cost, scan_cost, scan_setup_cost
from aidre.engine.segment import RowMask, Segments, pack_bitmap as bitmap_of

if TYPE_CHECKING:
    from aidre.engine.native import kernel

_MAX_PLANS = 64
_MAX_PLAN_BYTES = 1 << 26
"""Bytes of all plans of a generation: where vectors are short, one plan can hold a million row numbers."""

_MAX_GATHERED_BYTES = 1 << 24
"""Bytes of vectors that are gathered from one segment; more are compared in place."""


@dataclass(frozen=True, slots=True)
class ExactSearch:
    """A segment to be searched exactly in place: the number of allowed rows, and their bitmap (None: all rows)."""

    segment_ord: int
    column: VectorColumn
    bitmap: Bitmap | None
    allowed: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Scans with their numbers of allowed rows, segments to search exactly, and rows to gather by segment ordinal.

    `columns` are those of all segments. `size` counts the bytes that the plan itself holds.
    """

    scans: tuple[tuple[PreparedScan, int], ...]
    exact: tuple[ExactSearch, ...]
    gathered: tuple[tuple[int, NDArray[np.int64]], ...]
    columns: tuple[VectorColumn, ...]
    size: int
    native: kernel.Plan | None = None
    """The same for the kernel."""
    selectivity: float | None = None
    """The share of the rows with centroids that are allowed; None without centroids."""


def plan_for(segments: Segments, space_id: str, depth: int | None, filter: Filter | None) -> Plan:
    """The plan of a search that scans for about `depth` candidates, or without scans for None."""
    if depth is not None:  # rounded up to a power of two, so that nearby values of k share a plan
        depth = 1 << depth.bit_length()
    key = space_id, depth, None if filter is None else filter_digest(filter)
    plan = segments.plans.get(key)
    if plan is None:
        plan = _make_plan(segments, space_id, depth, [view.row_mask(filter) for view in segments])
        if plan.size <= _MAX_PLAN_BYTES:
            _make_room(segments, plan.size)
            segments.plans[key] = plan
    return plan


def _make_room(segments: Segments, size: int) -> None:
    """Evict plans until one more fits. Another thread may do the same: no step relies on an earlier one."""
    with suppress(KeyError):
        while (
            len(segments.plans) >= _MAX_PLANS
            or size + sum(plan.size for plan in list(segments.plans.values())) > _MAX_PLAN_BYTES
        ):
            segments.plans.popitem(last=False)


def _make_plan(segments: Segments, space_id: str, depth: int | None, allowed: Sequence[RowMask]) -> Plan:
    columns = tuple(view.segment.columns[space_id] for view in segments)
    scanned = set() if depth is None else _scanned_segments(segments, space_id, depth, columns, allowed)
    exact, gathered = [], []
    for segment_ord, (column, rows) in enumerate(zip(columns, allowed, strict=True)):
        if segment_ord in scanned or not rows.count:
            continue
        if _cost_without_scan(column, rows)[1]:
            gathered.append((segment_ord, rows.rows()))
        else:
            bitmap = None if rows.mask is None else Bitmap(rows.packed)
            exact.append(ExactSearch(segment_ord, column, bitmap, rows.count))
    scans = _make_scans(segments, space_id, scanned, allowed)
    size = sum(scan.size for scan, _ in scans)
    size += sum(search.bitmap.packed.nbytes for search in exact if search.bitmap is not None)
    size += sum(rows.nbytes for _, rows in gathered)
    shares = [scan.selectivity for scan, _ in scans if scan.has_lists]
    plan = Plan(scans, tuple(exact), tuple(gathered), columns, size, selectivity=min(shares, default=None))
    return replace(plan, native=_native_plan(segments, space_id, allowed, plan))


def _native_plan(segments: Segments, space_id: str, allowed: Sequence[RowMask], plan: Plan) -> kernel.Plan | None:
    """The same plan for the kernel."""
    columns = segments.native_columns(space_id)
    if columns is None:
        return None
    codes = segments.native_codes(space_id, columns) if plan.scans else []
    groups = segments.scan_groups(space_id) if plan.scans else []
    made: kernel.Plan = native.Plan(
        columns,
        tuple(None if rows.mask is None else rows.packed for rows in allowed),
        tuple((codes[groups.index(scan.group)], scan.lists, total, scan.native_probe) for scan, total in plan.scans),
        tuple(search.segment_ord for search in plan.exact),
        plan.gathered,
    )
    return made


def _cost_without_scan(column: VectorColumn, rows: RowMask) -> tuple[float, bool]:
    """The cost of comparing all allowed rows, and whether gathering them is the cheaper way."""
    row_bytes = column.row_bytes
    exact = exact_cost(rows.count, row_bytes, 0 if rows.mask is None else len(column))
    gather = gather_cost(rows.count, row_bytes)
    is_gathered = gather < exact and rows.count * row_bytes <= _MAX_GATHERED_BYTES
    return min(exact, gather) if is_gathered else exact, is_gathered


def _full_scan_cost(index: VectorIndex, rows: RowMask) -> float:
    """The cost of scanning all allowed rows, list by list if few lists hold one."""
    lists = index.covering_lists(index.count_by_list(rows.mask))
    scanned_rows = int(index.list_sizes[lists].sum())
    return scan_cost(scanned_rows, index.code_size, rows.count, len(lists) if index.nlist else 0)


def _scanned_segments(
    segments: Segments, space_id: str, depth: int, columns: Sequence[VectorColumn], allowed: Sequence[RowMask]
) -> set[int]:
    """Ordinals of the segments where a scan is cheaper, if together they save more than the setup of a scan costs."""
    saved: dict[int, float] = {}
    for segment_ord, (view, column, rows) in enumerate(zip(segments, columns, allowed, strict=True)):
        index = view.segment.scans.get(space_id)
        if index is not None and rows.count:
            saving = _cost_without_scan(column, rows)[0] - _full_scan_cost(index, rows)
            if saving > 0:
                saved[segment_ord] = saving
    if not saved:
        return set()
    candidates = min(depth, sum(allowed[segment_ord].count for segment_ord in saved))
    setup = scan_setup_cost(candidates, columns[0].row_bytes)
    return set(saved) if sum(saved.values()) > setup else set()


def _make_scans(
    segments: Segments, space_id: str, scanned: set[int], allowed: Sequence[RowMask]
) -> tuple[tuple[PreparedScan, int], ...]:
    scans = []
    for group in segments.scan_groups(space_id) if scanned else ():
        slots = [index.slot or 0 for index in group.indexes]
        segment_ords = [segments.segment_ords[slot] for slot in slots]
        numbers = [number for number, segment_ord in enumerate(segment_ords) if segment_ord in scanned]
        if numbers:
            chosen = [(slots[number], allowed[segment_ords[number]]) for number in numbers]
            masks = zip(numbers, chosen, strict=True)
            counts = [group.indexes[number].count_by_list(rows.mask) for number, (_, rows) in masks]
            scan = PreparedScan(group, numbers, bitmap_of(chosen), counts)
            scans.append((scan, sum(rows.count for _, rows in chosen)))
    return tuple(scans)
