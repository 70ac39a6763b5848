"""What a search costs, in microseconds on one core: the model that chooses exact or scan.

The constants are rounded from single-query timings at 384 dimensions (a float16 row 25 ns exactly, 1.3 ns
scanned in 96 codes, 0.14 us gathered and re-ranked) and taken as linear in the bytes; only their ratios matter.
"""

from __future__ import annotations

CALL = 12.0
"""Fixed cost of one FAISS call from Python."""

SCAN_CALL = 30.0
"""Fixed cost of one scan: the call, the query's look-up tables, the heap."""

LEAST_ROWS = 1024
"""Fewer teach 16 centroids a code too little."""

_EXACT_PER_BYTE = 3.3e-5
_GATHER_PER_ROW = 0.03
_GATHER_PER_BYTE = 1.4e-4
_SCAN_PER_CODE = 1.3e-5
_DEPTH = 0.02


def exact_cost(rows: int, row_bytes: int) -> float:
    """Compare the query with every row of a column."""
    return CALL + rows * row_bytes * _EXACT_PER_BYTE


def gather_cost(rows: int, row_bytes: int) -> float:
    """Copy scattered rows together and compare the query with each: re-ranking, or a selective filter."""
    return CALL + rows * (_GATHER_PER_ROW + row_bytes * _GATHER_PER_BYTE)


def scan_cost(rows: int, code_size: int, depth: int) -> float:
    """Go over the codes of every row and keep the best `depth`, without re-ranking them."""
    return SCAN_CALL + rows * code_size * _SCAN_PER_CODE + depth * _DEPTH


def worth_an_index(rows: int, row_bytes: int) -> bool:
    """Whether a segment is large enough that a scan could pay."""
    return rows >= LEAST_ROWS and exact_cost(rows, row_bytes) > 3 * SCAN_CALL
