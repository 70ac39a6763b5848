"""A typed column over documents: a field's values of one JSON type, and masks of the rows with values in intervals.

A common field is *dense*: one value a row, with a reserved value for missing ones. A rare or many-valued field is
*sorted*: (value, row) pairs in order of value. Both answer closed intervals. Knows no filters and no field names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aidre.engine.storage import (
    INT_MAX,
    INT_MIN,
    AdjacentValues,
    Interval,
    StringDictionary,
    adjacent_floats,
    adjacent_integers,
    empty_binary_array,
    merge_intervals,
)

Kind: TypeAlias = Literal["string", "int", "float", "bool", "date", "other"]
"""`string` and `bool` columns hold codes, `date` microseconds since 1970 in UTC; `other` holds values that exist but
compare with nothing: objects and NaN."""
Rows: TypeAlias = NDArray[np.int32]
Mask: TypeAlias = NDArray[np.bool_]
Values: TypeAlias = NDArray[Any]

INT_MISSING: Final = INT_MIN - 1
"""Marks a missing value in dense columns of kind `int` and `date`. An integer of this value is stored as a float."""

EMPTY_DICTIONARY: Final = StringDictionary(empty_binary_array())

_MAX_COMPARED_INTERVALS: Final = 12
"""Up to this many intervals a dense column is compared with each; more are looked up in a table or by bisection."""

_MIN_TABLE_SPAN: Final = 1 << 16
"""A look-up table may always span this many values; beyond it, no more than there are rows."""

_BLOCK_ROWS: Final = 1 << 15
"""Rows that pass through a look-up table at a time, so that intermediate arrays stay in the processor's cache."""


@dataclass(frozen=True, slots=True)
class _Range:
    """A kind's marker of missing values, and its lowest and highest value."""

    missing: float
    bottom: float
    top: float


_CODE: Final = _Range(-1, 0, 2**31 - 1)
_INT: Final = _Range(INT_MISSING, INT_MIN, INT_MAX)
_FLOAT: Final = _Range(math.nan, -math.inf, math.inf)
_RANGES: Final[dict[Kind, _Range]] = {
    "string": _CODE, "bool": _CODE, "other": _CODE, "int": _INT, "date": _INT, "float": _FLOAT,
}  # fmt: skip


def dtype_of(kind: Kind, distinct: int = 0) -> Any:
    """The dtype of the stored values. Codes of `distinct` strings are as narrow as possible, which speeds up scans."""
    if kind == "float":
        return np.float64
    if kind in {"int", "date"}:
        return np.int64
    return np.int8 if distinct < 2**7 else np.int16 if distinct < 2**15 else np.int32


@dataclass(frozen=True)
class Column:
    """The values of `size` rows. `rows` is None if dense: then `values[i]` is the value of row i.

    A column of strings holds codes into its `dictionary` of distinct strings in order.
    """

    kind: Kind
    size: int
    values: Values
    rows: Rows | None = None
    dictionary: StringDictionary = EMPTY_DICTIONARY

    def adjacent_values(self, value: Any) -> AdjacentValues:
        """The stored values next to `value`: a str for a column of strings, a number for any other."""
        if self.kind == "string":
            return self.dictionary.adjacent_values(value)
        return adjacent_floats(value) if self.kind == "float" else adjacent_integers(value)

    def point_intervals(self, values: Sequence[Any]) -> Iterable[Interval]:
        """Intervals that contain these values and no other."""
        if self.kind == "string":
            return ((code, code) for code in self.dictionary.codes(values))
        if self.kind != "float":
            # An integer is its own interval, unless it is the one that marks missing values.
            whole = [value for value in values if not isinstance(value, float) and value != INT_MISSING]
            if len(whole) == len(values):
                return ((value, value) for value in whole)
        return (self.adjacent_values(value).interval("eq") for value in values)

    def present(self) -> Mask:
        """The rows that have a value."""
        return _present(self.kind, self.values) if self.rows is None else self._scattered([self.rows])

    def pairs(self) -> tuple[Rows, Values]:
        """(rows, values) of all values; a row with several values appears several times."""
        if self.rows is not None:
            return self.rows, self.values
        rows = np.flatnonzero(self.present()).astype(np.int32)
        return rows, self.values[rows]

    def renumbered(self, chosen: NDArray[np.intp], new_rows: Rows) -> tuple[Rows, Values]:
        """The pairs of the `chosen` rows, where `new_rows[row]` replaces each row and is -1 for rows not chosen."""
        if self.rows is None:
            values = self.values[chosen]
            has_value = _present(self.kind, values)
            return new_rows[chosen[has_value]], values[has_value]
        rows = new_rows[self.rows]
        return rows[rows >= 0], self.values[rows >= 0]

    def mask_within(self, intervals: Iterable[Interval]) -> Mask:
        """The rows with a value in any of the intervals."""
        disjoint = merge_intervals(intervals, whole=self.kind != "float")
        if self.rows is not None:
            return self._scattered(self.rows[start:stop] for start, stop in self._slices(disjoint))
        if len(disjoint) > _MAX_COMPARED_INTERVALS:
            return self._within_many(disjoint)
        masks = (self._within_one(low, high) for low, high in disjoint)
        mask = next(masks, None)
        if mask is None:
            return np.zeros(self.size, np.bool_)
        for other in masks:
            mask |= other
        return mask

    def _scattered(self, runs: Iterable[Rows]) -> Mask:
        mask = np.zeros(self.size, np.bool_)
        for rows in runs:
            mask[rows] = True
        return mask

    def _slices(self, intervals: Sequence[Interval]) -> Iterable[tuple[int, int]]:
        """The slice of a sorted column that lies in each interval."""
        lows, highs = self._bounds(intervals)
        starts, stops = np.searchsorted(self.values, lows, "left"), np.searchsorted(self.values, highs, "right")
        return zip(starts.tolist(), stops.tolist(), strict=True)

    def _bounds(self, intervals: Sequence[Interval]) -> tuple[Values, Values]:
        dtype = self.values.dtype
        return np.array([low for low, _ in intervals], dtype), np.array([high for _, high in intervals], dtype)

    def _within_one(self, low: float, high: float) -> Mask:
        range_ = _RANGES[self.kind]
        mask: Mask
        if low == high:
            mask = self.values == low
        elif high >= (len(self.dictionary) - 1 if self.kind == "string" else range_.top):
            mask = self.values >= low
        else:
            mask = self.values <= high
            if low > range_.bottom or not self._is_upper_bound_enough:
                mask &= self.values >= low
        return mask

    @cached_property
    def _is_upper_bound_enough(self) -> bool:
        """Whether no missing value passes `<=`: NaN never does, and a column may have no missing value."""
        return self.kind == "float" or bool(self.present().all())

    def _within_many(self, intervals: Sequence[Interval]) -> Mask:
        if self.kind == "string":
            table = np.zeros(len(self.dictionary) + 1, np.bool_)  # the last entry is that of -1, the missing value
            for low, high in intervals:
                table[int(low) : int(high) + 1] = True
            return np.take(table, self.values)
        first, span = intervals[0][0], intervals[-1][1] - intervals[0][0]
        if self.kind != "float" and span < max(self.size, _MIN_TABLE_SPAN):
            return self._within_table(intervals, int(first), int(span))
        lows, highs = self._bounds(intervals)
        nearest = np.searchsorted(lows, self.values, "right") - 1
        mask: Mask = (nearest >= 0) & (self.values <= highs[nearest])
        return mask

    def _within_table(self, intervals: Sequence[Interval], first: int, span: int) -> Mask:
        table = np.zeros(span + 2, np.bool_)  # the last entry is that of all values outside the span
        for low, high in intervals:
            table[int(low) - first : int(high) - first + 1] = True
        mask = np.empty(self.size, np.bool_)
        for start in range(0, self.size, _BLOCK_ROWS):
            block = slice(start, start + _BLOCK_ROWS)
            # Differences wrap around: read as unsigned, a value below the first lies beyond the span.
            entries = np.subtract(self.values[block], first, dtype=np.int64).view(np.uint64)
            mask[block] = np.take(table, np.minimum(entries, np.uint64(span + 1)))
        return mask


def _present(kind: Kind, values: Values) -> Mask:
    mask: Mask = ~np.isnan(values) if kind == "float" else values != _RANGES[kind].missing
    return mask


def build_column(
    kind: Kind, size: int, rows: Rows, values: Values, dictionary: StringDictionary = EMPTY_DICTIONARY
) -> Column:
    """The column over `size` rows that holds these (row, value) pairs, which may come in any order.

    Its layout depends on the set of pairs alone, so rebuilding and merging give equal columns.
    """
    values = values.astype(dtype_of(kind, len(dictionary.array)), copy=False)
    if not (rows[1:] > rows[:-1]).all():
        rows, values = _distinct(rows, values)
    if 2 * len(rows) < size or (rows[1:] == rows[:-1]).any():
        order = np.lexsort((rows, values))
        return Column(kind, size, values[order], rows[order], dictionary)
    if len(rows) < size:
        dense = np.full(size, _RANGES[kind].missing, values.dtype)
        dense[rows] = values
        return Column(kind, size, dense, None, dictionary)
    return Column(kind, size, values, None, dictionary)


def _distinct(rows: Rows, values: Values) -> tuple[Rows, Values]:
    order = np.lexsort((values, rows))
    rows, values = rows[order], values[order]
    is_new = np.ones(len(rows), np.bool_)
    is_new[1:] = (rows[1:] != rows[:-1]) | (values[1:] != values[:-1])
    return rows[is_new], values[is_new]
