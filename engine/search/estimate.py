"""The estimated duration of a search before it is planned: what all allowed rows cost, without looking at any.

A search may probe few lists, and a filter may allow few rows, so it may take less. Callers choose by it between the
event loop and a thread, where a factor of two does not matter.
"""

from __future__ import annotations

from aidre.engine.search.cost import exact_cost, lexical_cost, scan_cost, scan_setup_cost
from aidre.engine.segment import Segments

_SEARCH = 150.0
"""Microseconds of a search beside comparing rows: checks, the plan, the order of the hits."""


def estimate_dense(segments: Segments, space_id: str, candidates: int | None, *, is_filtered: bool) -> float:
    """Seconds of a vector search; `candidates` is the depth of its scan, None for an exact search."""
    exact = scan = 0.0
    row_bytes = 0
    for view in segments:
        column, index = view.segment.columns[space_id], view.segment.scans.get(space_id)
        rows, row_bytes = len(column), column.row_bytes
        compared = exact_cost(rows, row_bytes)
        exact += compared
        scan += compared if index is None else min(compared, scan_cost(rows, index.code_size, rows - is_filtered))
    if candidates is not None:
        exact = min(exact, scan + scan_setup_cost(candidates, row_bytes))
    return (_SEARCH + exact) / 1e6


def estimate_lexical(segments: Segments, text: str) -> float:
    """Seconds of a lexical search, or of the lexical side of a hybrid one."""
    rows = sum(view.segment.entry.chunks for view in segments)
    return (_SEARCH + lexical_cost(rows, len(text.split()))) / 1e6
