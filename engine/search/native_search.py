"""Vector search by the C kernel: one call scans, compares and orders the rows of all segments.

The rules are those of `dense`: a probe that finds too few rows gives way to a scan of all lists, and a scan whose last
candidates are as good as its hits goes deeper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aidre.engine.index.fields import Filter
from aidre.engine.index.vectors import SearchDepth, spare_core
from aidre.engine.search.plan import Plan, plan_for
from aidre.engine.segment import Segments, TopK, merge_top_k

if TYPE_CHECKING:
    from aidre.engine.native import kernel

DEEPER = 4
"""Factor by which a search that missed ties goes deeper."""

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
        if depth is None or not any(scan.has_lists for scan, _ in self.plan.scans):
            return self._search_all_lists(queries)
        return [self._probe(queries[number : number + 1], depth) for number in range(len(queries))]

    def _probe(self, query: NDArray[np.float32], depth: SearchDepth) -> _Found:
        """The best rows in the nearest lists; in all lists where that is better, or where these hold too few rows."""
        probed = tuple([scan.probed_lists(query, self.candidates, depth) for scan, _ in self.plan.scans])
        if any(lists is not None for lists in probed):
            results = self.native.search(query, self.k, self.candidates, probed, True, True)
            if results is not None:
                return _top_k(results[0])
        return self._search_all_lists(query)[0]

    def _search_all_lists(self, queries: NDArray[np.float32]) -> list[_Found]:
        """The best rows for each query; a long scan is shared with an idle core."""
        search, scans = self.native.search, self.plan.scans
        if len(scans) == 1 and scans[0][0].is_long:
            with spare_core() as second_thread:
                if second_thread is not None:
                    first, second = scans[0][0].halves()
                    pending = second_thread.submit(search, queries, self.k, self.candidates, (second,), False, False)
                    halves = search(queries, self.k, self.candidates, (first,), False, True), pending.result()
                    return [self._merged(*pair) for pair in zip(*map(_complete, halves), strict=True)]
        return list(map(_top_k, _complete(search(queries, self.k, self.candidates, None, False, True))))

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


def _complete(results: tuple[_Result, ...] | None) -> tuple[_Result, ...]:
    """The results of a search of all lists, which finds as many candidates as there are."""
    assert results is not None
    return results


def _top_k(result: _Result) -> _Found:
    (segment_ords, rows, scores), may_lack_ties = result
    found = np.frombuffer(segment_ords, np.int64), np.frombuffer(rows, np.int64), np.frombuffer(scores, np.float64)
    return TopK(*found), may_lack_ties
