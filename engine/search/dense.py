"""Vector search over the segments of a generation: candidates of the plan, one exact comparison, order by (score, id).

The depth of a scan belongs to the generation, not to a segment: the candidates are those that one large segment would
give, so results do not depend on segmentation. If a hit is among the last of a list that was cut off, rows just as good
may have been cut off with it: then the search goes deeper.

The C kernel does all of this in one call (`NativeSearch`): it scans, compares and orders the rows of all segments. A
probe that finds too few rows gives way to a scan of all lists. Without the kernel FAISS does it step by step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aidre.engine.index.fields import Filter
from aidre.engine.index.vectors import Candidates, Matches, SearchDepth, is_unit, score_rows, spare_core
from aidre.engine.search.plan import Plan, plan_for
from aidre.engine.segment import Segments, TopK, merge_top_k
from aidre.engine.storage import MAX_SEGMENT_ROWS

if TYPE_CHECKING:
    from aidre.engine.native import kernel


DEEPER = 4
"""Factor by which a search that missed ties goes deeper."""

_TIE_SLACK = 16
"""Rows fetched from an exact search beyond k, to see whether others tie with the k-th."""

_FILTERED_DEPTH = 2
"""Factor on the candidates of a filtered search: depths are calibrated on all rows, and rows that pass a filter may lie
far from the query and close to each other."""

_ROW_BITS = MAX_SEGMENT_ROWS - 1
_Scanned = tuple[Candidates, float]
"""Candidates of one query, and an upper bound on the estimated closeness of all other rows."""

Hits: TypeAlias = "tuple[list[int], list[int], list[float]]"

_NO_CANDIDATES: _Scanned = (np.empty(0, np.int64), np.empty(0, np.float32)), -np.inf


def search_dense(
    segments: Segments,
    space_id: str,
    query: NDArray[np.float32],
    *,
    k: int,
    depth: SearchDepth | None = None,
    filter: Filter | None = None,
) -> TopK:
    """The best k rows for an encoded query (1, d); exactly for depth None."""
    return search_dense_batch(segments, space_id, query, k=k, depth=depth, filter=filter)[0]


def search_dense_batch(
    segments: Segments,
    space_id: str,
    queries: NDArray[np.float32],
    *,
    k: int,
    depth: SearchDepth | None = None,
    filter: Filter | None = None,
) -> list[TopK]:
    """`search_dense` for each of several queries (n, d), which share one scan."""
    candidates = None if depth is None else depth.candidates * (1 if filter is None else _FILTERED_DEPTH)
    plan = plan_for(segments, space_id, candidates, filter)
    if plan.native is not None:
        search = NativeSearch(segments, plan, plan.native, k, max(candidates or 0, k))
        return [
            search.deeper(space_id, queries[number : number + 1], filter) if may_lack_ties else hits
            for number, (hits, may_lack_ties) in enumerate(search.search(queries, depth))
        ]
    scanned = _scan(plan, queries, max(candidates or 0, k), depth)
    return [
        _search_deeper(
            segments, space_id, plan, scan, query=queries[number : number + 1], k=k, depth=candidates, filter=filter
        )
        for number, scan in enumerate(scanned)
    ]


def prepare_search(segments: Segments, space_id: str, *, k: int, depth: SearchDepth | None) -> PreparedSearch | None:
    """A search without a filter that is one call of the kernel for each query; None where more is needed."""
    candidates = 0 if depth is None else depth.candidates
    plan = plan_for(segments, space_id, candidates or None, None)
    if plan.native is None:
        return None
    nprobe, gap = 0, 0.0
    if depth is not None and plan.selectivity is not None:
        nprobe, gap = depth.nprobe(plan.selectivity), depth.max_gap(plan.selectivity)
    if not nprobe and len(plan.scans) == 1 and plan.scans[0][0].is_long:
        return None  # which an idle core may share
    return PreparedSearch(plan.native, is_unit(plan.columns[0].space), k, max(candidates, k), nprobe, gap)


class PreparedSearch(NamedTuple):
    """The plan of a search, and how deep it goes."""

    native: kernel.Plan
    is_unit: bool
    k: int
    candidates: int
    nprobe: int
    gap: float

    def find(self, vectors: list[Any]) -> Sequence[Hits | None] | None:
        """Segment ordinals, rows and scores of the best k rows for each vector (dimensions,), best first; None for one
        that `search_dense` has to search for, or instead of all where a vector is no plain query."""
        return self.native.find(vectors, self.is_unit, self.k, self.candidates, self.nprobe, self.gap)


# -- by the kernel ---------------------------------------------------------------------------------------------


_Result: TypeAlias = "tuple[kernel.Arrays, bool]"
"""Columns, rows and scores of the best k rows, and whether ties with them may be missing."""

_Found = tuple[TopK, bool]
"""The same as arrays."""


class NativeSearch(NamedTuple):
    """A search for the best k rows of all segments: its plan, and how many candidates are compared."""

    segments: Segments
    plan: Plan
    native: kernel.Plan
    k: int
    candidates: int

    def search(self, queries: NDArray[np.float32], depth: SearchDepth | None) -> list[_Found]:
        """The best rows for each encoded query (n, d), which share one scan where all lists are scanned."""
        selectivity = self.plan.selectivity
        if depth is None or selectivity is None or not (nprobe := depth.nprobe(selectivity)):
            return self._search_all_lists(queries)
        found = self.native.probe(queries, self.k, self.candidates, nprobe, depth.max_gap(selectivity))
        return [
            self._search_all_lists(queries[number : number + 1])[0] if result is None else _top_k(result)
            for number, result in enumerate(found)
        ]

    def _search_all_lists(self, queries: NDArray[np.float32]) -> list[_Found]:
        """The best rows for each query; a long scan is shared with an idle core."""
        search, scans = self.native.search, self.plan.scans
        if len(scans) == 1 and scans[0][0].is_long:
            with spare_core() as second_thread:
                if second_thread is not None:
                    first, second = scans[0][0].halves()
                    pending = second_thread.submit(search, queries, self.k, self.candidates, (second,), False)
                    halves = search(queries, self.k, self.candidates, (first,), True), pending.result()
                    return [self._merged(*pair) for pair in zip(*halves, strict=True)]
        return list(map(_top_k, search(queries, self.k, self.candidates, None, True)))

    def _merged(self, *results: _Result) -> _Found:
        parts = [_top_k(result)[0] for result in results]
        hits = merge_top_k(
            self.segments,
            [part.segment_ords for part in parts],
            [part.rows for part in parts],
            [part.scores for part in parts],
            self.k,
        )
        return hits, any(may_lack_ties for _, may_lack_ties in results)

    def deeper(self, space_id: str, query: NDArray[np.float32], filter: Filter | None) -> TopK:
        """The best rows with all ties: of a deeper scan, or of all rows where that would compare a quarter of them."""
        candidates, plan = self.candidates, self.plan
        while True:
            candidates *= DEEPER
            if candidates > sum(allowed for _, allowed in plan.scans) // 4:
                plan = plan_for(self.segments, space_id, None, filter)
            assert plan.native is not None
            [(hits, may_lack_ties)] = self._replace(
                plan=plan, native=plan.native, candidates=candidates
            )._search_all_lists(query)
            if not may_lack_ties:
                return hits


def _top_k(result: _Result) -> _Found:
    (segment_ords, rows, scores), may_lack_ties = result
    found = np.frombuffer(segment_ords, np.int64), np.frombuffer(rows, np.int64), np.frombuffer(scores, np.float64)
    return TopK(*found), may_lack_ties


# -- by FAISS --------------------------------------------------------------------------------------------------


def _search_deeper(
    segments: Segments,
    space_id: str,
    plan: Plan,
    scanned: _Scanned | None,
    *,
    query: NDArray[np.float32],
    k: int,
    depth: int | None,
    filter: Filter | None,
) -> TopK:
    """The hits of one query, from its scanned candidates and, while these may lack ties, from more of them.

    A scan that was incomplete (None), or that would take more than a quarter of the allowed rows as candidates, gives
    way to exact search.
    """
    slack, scan_depth = _TIE_SLACK, depth or 0
    while True:
        if scanned is None:
            plan = plan_for(segments, space_id, None, filter)
            scanned = _NO_CANDIDATES
        exact = [search.column.search(query, min(k + slack, search.allowed), search.bitmap) for search in plan.exact]
        hits, scan_is_short = _rank(segments, plan, scanned, exact, query=query, k=k)
        last = hits.scores[-1] if len(hits.scores) >= k else -np.inf
        exact_is_short = bool(exact) and any(
            len(rows) < search.allowed and scores[-1] >= last
            for search, (rows, scores) in zip(plan.exact, exact, strict=True)
        )
        if not exact_is_short and not scan_is_short:
            return hits
        slack = slack * DEEPER if exact_is_short else slack
        if scan_is_short:
            scan_depth *= DEEPER
            if scan_depth > sum(allowed for _, allowed in plan.scans) // 4:
                plan = plan_for(segments, space_id, None, filter)
            scanned = _scan(plan, query, max(scan_depth, k), None)[0]


def _scan(plan: Plan, queries: NDArray[np.float32], count: int, depth: SearchDepth | None) -> list[_Scanned | None]:
    """The best `count` candidates of each query; None if a scan found fewer although more rows are allowed."""
    if not plan.scans:
        return [_NO_CANDIDATES] * len(queries)
    counts = [min(count, allowed) for _, allowed in plan.scans]
    by_scan = [
        scan.search_all(queries, scan_count, depth) for (scan, _), scan_count in zip(plan.scans, counts, strict=True)
    ]
    total = sum([allowed for _, allowed in plan.scans])
    return [_merge_scans(candidates, counts, count, total) for candidates in zip(*by_scan, strict=True)]


def _merge_scans(by_scan: Sequence[Candidates], counts: Sequence[int], count: int, total: int) -> _Scanned | None:
    """The candidates of all scans for one query, out of `total` allowed rows."""
    if any(len(row_ids) < expected for (row_ids, _), expected in zip(by_scan, counts, strict=True)):
        return None
    row_ids, estimates = by_scan[0]
    if len(by_scan) > 1:
        row_ids, estimates = (np.concatenate(arrays) for arrays in zip(*by_scan, strict=True))
        best = np.argsort(-estimates, kind="stable")[:count]
        row_ids, estimates = row_ids[best], estimates[best]
    return (row_ids, estimates), float(estimates[-1]) if total > len(row_ids) else -np.inf


def _rank(
    segments: Segments,
    plan: Plan,
    scanned: _Scanned,
    exact: Sequence[Matches],
    *,
    query: NDArray[np.float32],
    k: int,
) -> tuple[TopK, bool]:
    """The hits, and whether the scan may be short: a hit has an estimate that rows left out may have too."""
    candidates, bound = scanned
    chosen, estimates = _by_segment(segments, candidates)
    chosen += plan.gathered
    positions, scores = score_rows([(plan.columns[segment_ord], rows) for segment_ord, rows in chosen], query, k)
    segment_ords, rows = _locate(chosen, positions)
    exact_ords = [np.full(len(rows), search.segment_ord) for search, (rows, _) in zip(plan.exact, exact, strict=True)]
    hits = merge_top_k(
        segments,
        [segment_ords, *exact_ords],
        [rows, *(exact_rows for exact_rows, _ in exact)],
        [scores, *(exact_scores for _, exact_scores in exact)],
        k,
    )
    if bound == -np.inf or not len(hits.scores):
        return hits, False
    hit_positions = positions[: np.count_nonzero(scores >= hits.scores[-1])]
    if plan.gathered:
        hit_positions = hit_positions[hit_positions < len(estimates)]
    return hits, bool(estimates[hit_positions].min(initial=np.inf) <= bound)


def _by_segment(
    segments: Segments, candidates: Candidates
) -> tuple[list[tuple[int, NDArray[np.int64]]], NDArray[np.float32]]:
    """The candidates as rows by segment ordinal, and their estimates in that order."""
    row_ids, estimates = candidates
    if not len(row_ids):
        return [], estimates
    if len(segments) == 1:
        return [(0, row_ids & _ROW_BITS)], estimates
    order = np.argsort(row_ids)
    row_ids = row_ids[order]
    ends = np.searchsorted(row_ids, segments.slot_ends).tolist()
    rows = row_ids & _ROW_BITS
    chosen, start = [], 0
    for segment_ord, end in zip(segments.segment_ords, ends, strict=True):
        if end > start:
            chosen.append((segment_ord, rows[start:end]))
            start = end
    return chosen, estimates[order]


def _locate(
    chosen: Sequence[tuple[int, NDArray[np.int64]]], positions: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Maps positions in the chosen rows, counted through all segments, back to segment ordinals and rows."""
    if len(chosen) == 1:
        segment_ord, rows = chosen[0]
        return np.full(len(positions), segment_ord), rows[positions]
    segment_ords = np.repeat(
        np.array([segment_ord for segment_ord, _ in chosen], np.int64),
        np.array([len(rows) for _, rows in chosen], np.int64),
    )
    return segment_ords[positions], np.concatenate([rows for _, rows in chosen] or [np.empty(0, np.int64)])[positions]
