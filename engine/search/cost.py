"""A cost model of searches, in microseconds on one core: it chooses between exact comparison and scan.

The constants are rounded from `python -m benchmarks.bench_cost` (processor time of single queries over 60,000 rows,
lower quartiles; 64, 384 and 1536 dimensions in float16 and float32) and from the same over 2,000 to 300,000 rows at
384 dimensions. There a float16 row takes 26 ns compared in place, 3 ns scanned in 96 codes and 0.13 to 0.18 us
gathered. Only ratios matter; the model is fitted to be right within a half where two ways cost about the same: a scan
loses to gathering if a filter allows less than about 3 % of the rows. (For far fewer rows a masked scan costs less than
the model says, but still more than gathering.)

A bitmap makes both exact search and scan slower: FAISS tests every row, and scattered rows are read at the speed of
memory. Computing the mask of a new filter takes the same time for every way of searching, so it is not in the model.
The setup of a scan and the call that compares candidates are paid once for all segments of a generation, an exact
search once for each column.
"""

from __future__ import annotations

CALL = 12.0
"""Microseconds: fixed cost of one FAISS call from Python."""

MIN_SPACE_ROWS = 1024
"""Rows of a space; fewer do not suffice to train the 16 centroids of each 4-bit code."""

MIN_SCANNED_ROWS = 256
"""Rows; a smaller segment is searched exactly: joining a scan of other segments would save almost nothing."""

_MIN_SCAN_CALLS = 3
"""A scan can pay only if comparing all rows costs more than this many calls of a scan."""

# Microseconds.
_SCAN_CALL = 30.0
_SCAN_ROW = 1e-3
_SCAN_CODE = 1.8e-5
_LIST = 0.5
_CANDIDATE = 0.05
_BITMAP_ROW = 2e-3
_BYTE = 3.3e-5
_SCATTERED_BYTE = 1.7e-4
_MASKED_ROW = 0.11
_GATHER_CALL = 3.0
_GATHER_ROW = 0.01
_POSTING = 1.5e-2
_WORD_SHARE = 0.1
"""Share of the chunks that contain a word of a query."""
_ROTATED_NUMBER = 1.1e-4


def exact_cost(rows: int, row_bytes: int, bitmap_rows: int = 0) -> float:
    """Compare the query with every row of a column, or with the `rows` that a bitmap over `bitmap_rows` allows."""
    cost = CALL + rows * row_bytes * _BYTE
    if bitmap_rows:
        scattered = rows * (1 - rows / bitmap_rows) * (_MASKED_ROW + row_bytes * _SCATTERED_BYTE)
        cost += bitmap_rows * _BITMAP_ROW + scattered
    return cost


def gather_cost(rows: int, row_bytes: int) -> float:
    """Copy scattered rows of a segment into the buffer of all segments' rows, and compare them there."""
    return _GATHER_CALL + rows * (_GATHER_ROW + row_bytes * (_BYTE + _SCATTERED_BYTE))


def scan_cost(rows: int, code_size: int, allowed: int, lists: int = 0) -> float:
    """Scan the codes of `rows` rows, of which a bitmap allows `allowed`, after the setup of the scan.

    This is a full scan. Probing costs less; how much less depends on the query.
    """
    is_masked = allowed < rows
    return rows * (_SCAN_ROW + code_size * _SCAN_CODE + is_masked * _BITMAP_ROW) + lists * _LIST


def scan_setup_cost(candidates: int, row_bytes: int) -> float:
    """The cost of a scan that does not depend on its rows: call, look-up tables, heap and comparing the candidates."""
    return CALL + _SCAN_CALL + candidates * _CANDIDATE + gather_cost(candidates, row_bytes)


def transform_cost(numbers: int) -> float:
    """Rotate the query of a scan, by a matrix of so many numbers."""
    return numbers * _ROTATED_NUMBER


def scan_can_pay(rows: int, row_bytes: int) -> bool:
    """Whether a space has enough rows for a scan to be worth calibrating."""
    return rows >= MIN_SPACE_ROWS and exact_cost(rows, row_bytes) > _MIN_SCAN_CALLS * _SCAN_CALL


def lexical_cost(rows: int, words: int) -> float:
    """Add up the postings of the words of a query; words that occur in many more chunks than most cost more."""
    return CALL * words + rows * words * _WORD_SHARE * _POSTING
