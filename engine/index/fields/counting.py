"""Counts of the distinct values of a column among some of its rows.

Codes and integers of a narrow range are counted in a table, others are sorted; a sorted column is in order already.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aidre.engine.index.fields.columns import INT_MISSING, Column, Kind, Mask, Values
from aidre.engine.storage import StringDictionary, is_run_start

_MIN_TABLE_SPAN: Final = 1 << 16
"""A table may always have this many entries; beyond it, no more than there are values."""

_DAY: Final = 86_400_000_000
"""Microseconds. Dates without a time are counted by day."""

_CENTS: Final = 100.0
"""Most floats of documents have two decimals at most, such as prices, and are counted as integers."""


class ValueCounts(NamedTuple):
    """The distinct values of one kind in ascending order, and the number of rows that have each.

    Values are codes into the `dictionary` for strings, 0 and 1 for `bool`, microseconds since 1970 for `date`.
    """

    kind: Kind
    values: Values
    counts: NDArray[np.int64]
    dictionary: StringDictionary


def count_values(column: Column, mask: Mask | None) -> ValueCounts:
    """The counts among the rows of a mask, among all rows if it is None. A row counts once for each of its values."""
    if column.rows is not None:
        values = column.values if mask is None else column.values[mask[column.rows]]
        counted = _count_runs(values)
    else:
        counted = _count_dense(column, column.values if mask is None else column.values[mask])
    return ValueCounts(column.kind, *counted, column.dictionary)


def bounds_of(column: Column, mask: Mask | None) -> tuple[Any, Any] | None:
    """The least and the greatest value among the rows of a mask; None where there is none."""
    if column.rows is not None:
        values = column.values if mask is None else column.values[mask[column.rows]]
        return (values[0].item(), values[-1].item()) if len(values) else None
    present = column.present() if mask is None else column.present() & mask
    values = column.values[present]
    return (values.min().item(), values.max().item()) if len(values) else None


def _count_dense(column: Column, values: Values) -> tuple[Values, NDArray[np.int64]]:
    if column.kind == "float":
        return _count_floats(values[~np.isnan(values)])
    if column.kind in {"int", "date"}:
        return _count_integers(values[values != INT_MISSING])
    counts = np.bincount(np.add(values, 1, dtype=np.intp))[1:]  # the first entry is that of -1, the missing value
    found = np.flatnonzero(counts)
    return found, counts[found]


def _count_integers(values: Values) -> tuple[Values, NDArray[np.int64]]:
    if not len(values):
        return values, np.empty(0, np.int64)
    counted = _count_in_table(values)
    if counted is None:
        days = values // _DAY
        by_day = _count_in_table(days) if (days * _DAY == values).all() else None
        counted = None if by_day is None else (by_day[0] * _DAY, by_day[1])
    return counted or _count_runs(np.sort(values))


def _count_floats(values: Values) -> tuple[Values, NDArray[np.int64]]:
    if len(values) and _is_narrow(values.min() * _CENTS, values.max() * _CENTS, len(values)):
        cents = np.rint(values * _CENTS)
        if (cents / _CENTS == values).all():
            found, counts = _count_integers(cents.astype(np.int64))
            return found / _CENTS, counts
    return _count_runs(np.sort(values))


def _count_in_table(values: Values) -> tuple[Values, NDArray[np.int64]] | None:
    """None for a range that is too wide for a table."""
    least = int(values.min())
    if not _is_narrow(least, int(values.max()), len(values)):
        return None
    counts = np.bincount(values - least)
    found = np.flatnonzero(counts)
    return found + least, counts[found]


def _is_narrow(least: float, most: float, count: int) -> bool:
    return bool(most - least < max(_MIN_TABLE_SPAN, count) and abs(least) < 2**62)


def _count_runs(ordered: Values) -> tuple[Values, NDArray[np.int64]]:
    starts = np.flatnonzero(is_run_start(ordered))
    return ordered[starts], np.diff(starts, append=len(ordered))
