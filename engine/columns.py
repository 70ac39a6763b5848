"""One typed column over documents: a field's values of one JSON type, and the rows whose value lies in an interval.

A common field is *dense*, one value a row with a mark for the missing ones; a rare or many-valued one is *sorted*,
(value, row) pairs in order of value. Both answer closed intervals. Knows nothing of filters and of names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aidre.engine.intervals import INT_MAX, INT_MIN, Interval, Landmarks, float_landmarks, integer_landmarks, merged
from aidre.engine.words import Words, no_strings

Kind: TypeAlias = Literal["string", "int", "float", "bool", "date", "other"]
"""`date` holds microseconds; `other` holds values that exist but compare with nothing: objects and NaN."""
Rows: TypeAlias = NDArray[np.int32]
Mask: TypeAlias = NDArray[np.bool_]
Values: TypeAlias = NDArray[Any]

INT_MISSING: Final = INT_MIN - 1
NO_WORDS: Final = Words(no_strings())
_MANY: Final = 12
_SPAN: Final = 1 << 16
_BLOCK: Final = 1 << 15
"""Rows at a time, so that what is between two steps stays in the cache."""


@dataclass(frozen=True, slots=True)
class _Range:
    """What a kind holds: the mark of a missing value, the lowest and the highest value."""

    missing: float
    bottom: float
    top: float


_CODE: Final = _Range(-1, 0, 2**31 - 1)
_INT: Final = _Range(INT_MISSING, INT_MIN, INT_MAX)
_FLOAT: Final = _Range(math.nan, -math.inf, math.inf)
_RANGES: Final[dict[Kind, _Range]] = {
    "string": _CODE, "bool": _CODE, "other": _CODE, "int": _INT, "date": _INT, "float": _FLOAT,
}  # fmt: skip


def dtype_of(kind: Kind, words: int = 0) -> Any:
    """How values are stored; codes as narrow as their number allows, for they are what is compared most."""
    if kind == "float":
        return np.float64
    if kind in {"int", "date"}:
        return np.int64
    return np.int8 if words < 2**7 else np.int16 if words < 2**15 else np.int32


@dataclass(frozen=True)
class Column:
    """`rows` is None where dense: then `values` has one entry for each of `size` rows. `words` belongs to strings."""

    kind: Kind
    size: int
    values: Values
    rows: Rows | None = None
    words: Words = NO_WORDS

    def landmarks(self, value: Any) -> Landmarks:
        """Of a str in a column of strings, a number in any other."""
        if self.kind == "string":
            return self.words.landmarks(value)
        return float_landmarks(value) if self.kind == "float" else integer_landmarks(value)

    def points(self, values: Sequence[Any]) -> Iterable[Interval]:
        """The intervals that hold nothing but these values."""
        if self.kind == "string":
            return ((code, code) for code in self.words.codes(values))
        if self.kind != "float":
            # Whole numbers stand for themselves; none is as low as the mark of a missing value.
            whole = [value for value in values if not isinstance(value, float) and value != INT_MISSING]
            if len(whole) == len(values):
                return ((value, value) for value in whole)
        return (self.landmarks(value).interval("eq") for value in values)

    def present(self) -> Mask:
        """The rows that have a value."""
        return _present(self.kind, self.values) if self.rows is None else self._scattered([self.rows])

    def pairs(self) -> tuple[Rows, Values]:
        """Every row that has a value with that value; a row with several comes several times."""
        if self.rows is not None:
            return self.rows, self.values
        rows = np.flatnonzero(self.present()).astype(np.int32)
        return rows, self.values[rows]

    def chosen(self, chosen: NDArray[np.intp], places: Rows) -> tuple[Rows, Values]:
        """The pairs of the chosen rows, a row renumbered by `places`, which is -1 for rows that are not chosen."""
        if self.rows is None:
            values = self.values[chosen]
            there = _present(self.kind, values)
            return places[chosen[there]], values[there]
        rows = places[self.rows]
        return rows[rows >= 0], self.values[rows >= 0]

    def within(self, intervals: Iterable[Interval]) -> Mask:
        """The rows with a value in any of the intervals."""
        wanted = merged(intervals, whole=self.kind != "float")
        if self.rows is not None:
            return self._scattered(self.rows[start:stop] for start, stop in self._slices(wanted))
        if len(wanted) > _MANY:
            return self._within_many(wanted)
        masks = (self._within_one(low, high) for low, high in wanted)
        mask = next(masks, None)
        if mask is None:
            return np.zeros(self.size, np.bool_)
        for other in masks:
            mask |= other
        return mask

    def _scattered(self, parts: Iterable[Rows]) -> Mask:
        mask = np.zeros(self.size, np.bool_)
        for rows in parts:
            mask[rows] = True
        return mask

    def _slices(self, wanted: Sequence[Interval]) -> Iterable[tuple[int, int]]:
        lows, highs = self._bounds(wanted)
        starts, stops = np.searchsorted(self.values, lows, "left"), np.searchsorted(self.values, highs, "right")
        return zip(starts.tolist(), stops.tolist(), strict=True)

    def _bounds(self, wanted: Sequence[Interval]) -> tuple[Values, Values]:
        dtype = self.values.dtype
        return np.array([low for low, _ in wanted], dtype), np.array([high for _, high in wanted], dtype)

    def _within_one(self, low: float, high: float) -> Mask:
        stored = _RANGES[self.kind]
        mask: Mask
        if low == high:
            mask = self.values == low
        elif high >= (len(self.words) - 1 if self.kind == "string" else stored.top):
            mask = self.values >= low
        else:
            mask = self.values <= high
            if low > stored.bottom or not self._mark_is_above:
                mask &= self.values >= low
        return mask

    @cached_property
    def _mark_is_above(self) -> bool:
        """No missing value passes `<=`: NaN never does, and there may be none."""
        return self.kind == "float" or bool(self.present().all())

    def _within_many(self, wanted: Sequence[Interval]) -> Mask:
        if self.kind == "string":
            allowed = np.zeros(len(self.words) + 1, np.bool_)  # the last stands for -1, the missing value
            for low, high in wanted:
                allowed[int(low) : int(high) + 1] = True
            return np.take(allowed, self.values)
        first, span = wanted[0][0], wanted[-1][1] - wanted[0][0]
        if self.kind != "float" and span < max(self.size, _SPAN):
            return self._within_table(wanted, int(first), int(span))
        lows, highs = self._bounds(wanted)
        place = np.searchsorted(lows, self.values, "right") - 1
        mask: Mask = (place >= 0) & (self.values <= highs[place])
        return mask

    def _within_table(self, wanted: Sequence[Interval], first: int, span: int) -> Mask:
        allowed = np.zeros(span + 2, np.bool_)  # the last stands for all other values
        for low, high in wanted:
            allowed[int(low) - first : int(high) - first + 1] = True
        mask = np.empty(self.size, np.bool_)
        for start in range(0, self.size, _BLOCK):
            block = slice(start, start + _BLOCK)
            # Differences wrap around: unsigned, whatever lies below the first value lies beyond the last.
            places = np.subtract(self.values[block], first, dtype=np.int64).view(np.uint64)
            mask[block] = np.take(allowed, np.minimum(places, np.uint64(span + 1)))
        return mask


def _present(kind: Kind, values: Values) -> Mask:
    mask: Mask = ~np.isnan(values) if kind == "float" else values != _RANGES[kind].missing
    return mask


def column_of(kind: Kind, size: int, rows: Rows, values: Values, words: Words = NO_WORDS) -> Column:
    """The column over `size` rows that holds these pairs; its layout follows from the set of pairs alone."""
    values = values.astype(dtype_of(kind, len(words)), copy=False)
    if not (rows[1:] > rows[:-1]).all():
        rows, values = _distinct(rows, values)
    if 2 * len(rows) < size or (rows[1:] == rows[:-1]).any():
        order = np.lexsort((rows, values))
        return Column(kind, size, values[order], rows[order], words)
    if len(rows) < size:
        dense = np.full(size, _RANGES[kind].missing, values.dtype)
        dense[rows] = values
        return Column(kind, size, dense, None, words)
    return Column(kind, size, values, None, words)


def _distinct(rows: Rows, values: Values) -> tuple[Rows, Values]:
    order = np.lexsort((values, rows))
    rows, values = rows[order], values[order]
    fresh = np.ones(len(rows), np.bool_)
    fresh[1:] = (rows[1:] != rows[:-1]) | (values[1:] != values[:-1])
    return rows[fresh], values[fresh]
