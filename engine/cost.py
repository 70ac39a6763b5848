"""What a search costs, in microseconds on one core: the model that chooses exact or scan.

The constants are rounded from `python -m benchmarks.bench_cost` (processor time of single queries over 60,000 rows,
lower quartiles; 64, 384 and 1536 dimensions in float16 and float32) and from the same over 2,000 to 300,000 rows at
384 dimensions. There a float16 row takes 26 ns exactly, 3 ns scanned in 96 codes and 0.13 to 0.18 us gathered. Only
ratios matter, and the model is drawn to be right within a half where means cost about the same: a scan gives way to
gathering where a filter lets through less than some 3 % of the rows. (Under far fewer a masked scan costs less than
is said here, and yet more than gathering.) A bitmap makes both the exact search and the scan dearer: FAISS asks for
every row whether it is allowed, and what is read here and there is read at the pace of memory. Making the mask of a
new filter takes the same time whatever searches with it: it has no part in the choice. What begins a scan and the call
that compares candidates are paid once for all segments of a generation, an exact search of a column for each.
"""

from __future__ import annotations

CALL = 12.0
"""Fixed cost of one FAISS call from Python."""

LEAST_ROWS = 1024
"""Fewer teach 16 centroids a code too little."""

LEAST_SCANNED = 256
"""A segment of fewer rows is searched exactly: nearly as fast as in a scan that goes over other segments anyway."""

_SCAN_CALL = 30.0
_PER_BYTE = 3.3e-5
_SCATTERED_PER_BYTE = 1.7e-4
_GATHER = 3.0
_GATHER_PER_ROW = 0.01
_MASKED_PER_ROW = 0.11
_BIT = 2e-3
_SCAN_PER_ROW = 1e-3
_SCAN_PER_CODE = 1.8e-5
_LIST = 0.5
_DEPTH = 0.05


def exact_cost(rows: int, row_bytes: int, among: int = 0) -> float:
    """Compare the query with every row of a column, or with those that a bitmap over `among` rows allows."""
    cost = CALL + rows * row_bytes * _PER_BYTE
    if among:
        cost += among * _BIT + rows * (1 - rows / among) * (_MASKED_PER_ROW + row_bytes * _SCATTERED_PER_BYTE)
    return cost


def gather_cost(rows: int, row_bytes: int) -> float:
    """Copy scattered rows of a part to where those of all parts are compared in one call, and compare them there."""
    return _GATHER + rows * (_GATHER_PER_ROW + row_bytes * (_PER_BYTE + _SCATTERED_PER_BYTE))


def scan_cost(rows: int, code_size: int, allowed: int, lists: int = 0) -> float:
    """Go over the codes of rows, of which a bitmap lets some through, in a scan that has begun.

    Where only the lists near to a query are gone over it takes less: how much less depends on the query.
    """
    masked = allowed < rows
    return rows * (_SCAN_PER_ROW + code_size * _SCAN_PER_CODE + masked * _BIT) + lists * _LIST


def beginning_cost(depth: int, row_bytes: int) -> float:
    """What a scan costs for however few rows: call, tables, heap, and the comparison of `depth` candidates."""
    return CALL + _SCAN_CALL + depth * _DEPTH + gather_cost(depth, row_bytes)


def worth_a_scan(rows: int, row_bytes: int) -> bool:
    """Whether so many rows in all are enough that a scan could pay."""
    return rows >= LEAST_ROWS and exact_cost(rows, row_bytes) > 3 * _SCAN_CALL
