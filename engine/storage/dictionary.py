"""Sorted dictionaries of strings, and intervals of values. A string is stored as its code, its rank in the dictionary.

Codes keep the order of the strings, so a range of strings is an interval of codes, as a range of numbers is an interval
of numbers: fields and text index search both with the same operations. Strings are UTF-8 with lone surrogates passed
through, so the order of bytes is the order of code points.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine.native import native
from aidre.engine.storage.arrow import kernels

# -- intervals ---------------------------------------------------------------------------------------------------

Interval: TypeAlias = tuple[float, float]
"""Lowest and highest value, both included; empty where the first is greater."""

INT_MIN: Final = 1 - 2**63
INT_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class AdjacentValues:
    """The values of an ordered type around a given value v, which need not be one of the type.

    `lower` is the greatest value < v, `floor` the greatest <= v, `ceiling` the least >= v, `higher` the least > v.
    """

    minimum: float
    lower: float
    floor: float
    ceiling: float
    higher: float
    maximum: float

    def interval(self, operator: str) -> Interval:
        """The values x with `x operator v`; any operator but gt, gte, lt and lte means equality."""
        match operator:
            case "gt":
                return self.higher, self.maximum
            case "gte":
                return self.ceiling, self.maximum
            case "lt":
                return self.minimum, self.lower
            case "lte":
                return self.minimum, self.floor
        return self.ceiling, self.floor


def adjacent_integers(value: float) -> AdjacentValues:
    """Among the integers from INT_MIN to INT_MAX. Exact for floats too: 0.5 lies between 0 and 1."""
    bounded = max(min(value, 2**64), -(2**64))
    floor, ceil = math.floor(bounded), math.ceil(bounded)
    return AdjacentValues(
        INT_MIN, min(ceil - 1, INT_MAX), min(floor, INT_MAX), max(ceil, INT_MIN), max(floor + 1, INT_MIN), INT_MAX
    )


def adjacent_floats(value: float) -> AdjacentValues:
    """Among the floats. Exact for integers too: 2**53 + 1 is not a float and lies between two."""
    near = float(value)
    down, up = math.nextafter(near, -math.inf), math.nextafter(near, math.inf)
    lower, floor = near if near < value else down, near if near <= value else down
    higher, ceiling = near if near > value else up, near if near >= value else up
    if math.isinf(near):
        lower, higher = (lower, math.nan) if near > 0 else (math.nan, higher)
    return AdjacentValues(-math.inf, lower, floor, ceiling, higher, math.inf)


def merge_intervals(intervals: Iterable[Interval], *, whole: bool) -> list[Interval]:
    """The non-empty intervals in order, overlapping ones merged; `whole` merges adjacent intervals of integers too."""
    merged: list[Interval] = []
    for low, high in sorted(interval for interval in intervals if interval[0] <= interval[1]):
        if merged and (low <= merged[-1][1] or (whole and low == merged[-1][1] + 1)):
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged


# -- dictionaries ------------------------------------------------------------------------------------------------

BinaryArray: TypeAlias = "pa.Array[Any]"
"""Strings as an Arrow array of large binary."""
Codes: TypeAlias = NDArray[np.int32]
_SAMPLE_ROWS: Final = 4_096
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_SCANNED_PER_LOOK_UP: Final = 200
"""Strings that a scan of the dictionary tests in the time of one binary search."""


class StringDictionary:
    """Distinct strings in ascending order, read from the map. A damaged offset gives a wrong string, not a crash.

    A string is found by binary search in the map, which the C kernel does in a third of a microsecond: a table of
    hashes would be as fast, but take memory of its own in each process and time at the first search.
    """

    __slots__ = ("_bytes", "_native", "_offsets", "array")

    def __init__(self, array: BinaryArray) -> None:
        buffers: list[Any] = array.buffers()
        self.array = array
        offsets = np.frombuffer(buffers[1] if len(array) else bytes(8), np.int64)
        self._offsets = offsets[array.offset : array.offset + len(array) + 1] if len(array) else offsets
        self._bytes = memoryview(buffers[2] or b"")
        self._native = None if native is None else native.Strings(self._offsets, self._bytes)

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, code: int) -> bytes:
        start, stop = int(self._offsets[code]), int(self._offsets[code + 1])
        return bytes(self._bytes[max(start, 0) : max(stop, 0)])

    def texts(self) -> Iterator[str]:
        return (self[code].decode("utf-8", "surrogatepass") for code in range(len(self)))

    def codes(self, texts: Sequence[str]) -> Sequence[int]:
        """The codes of the texts that the dictionary holds, in any order: by binary search, or by one scan if many."""
        if len(texts) * _SCANNED_PER_LOOK_UP < len(self):
            return [code for text in texts if (code := self.find(to_utf8(text))) >= 0]
        is_in = kernels.is_in(self.array, value_set=binary_array(texts))
        return np.flatnonzero(is_in.to_numpy(zero_copy_only=False)).tolist()

    def containing(self, text: str) -> Sequence[int]:
        """The codes of the strings that have the text as a part."""
        key = to_utf8(text)
        if _SURROGATE.search(text):
            return [code for code in range(len(self)) if key in self[code]]
        return np.flatnonzero(kernels.match_substring(self.array, text).to_numpy(zero_copy_only=False)).tolist()

    def matching(self, pattern: str, most: int) -> list[str]:
        """The strings that contain a match of a regular expression that both RE2 and Python accept.

        Python checks each match of RE2, for which `\\W` is every letter beyond ASCII. More than `most` matches are cut
        to the first `most`, unchecked. Strings that are not Unicode (lone surrogates) never match.
        """
        try:
            strings = self.array.cast(pa.large_string())
        except pa.ArrowInvalid:
            strings = pa.array([text for text in self.texts() if _SURROGATE.search(text) is None], pa.large_string())
        matches = strings.filter(kernels.match_substring_regex(strings, pattern))
        texts: list[str] = matches[:most].to_pylist()
        return [text for text in texts if re.search(pattern, text)] if len(matches) <= most else texts

    def first(self, key: bytes) -> int:
        """The code of the first string that is not less than `key`; the length where there is none."""
        if self._native is not None:
            return int(self._native.first(key))
        return bisect_left(range(len(self)), key, key=self.__getitem__)

    def find(self, key: bytes) -> int:
        """The code of the string that is the key; -1 where there is none."""
        if self._native is not None:
            return int(self._native.find(key))
        first = self.first(key)
        return first if first < len(self) and self[first] == key else -1

    def adjacent_values(self, text: str) -> AdjacentValues:
        """The codes around a text: -1 and the length stand for values outside the dictionary."""
        key = to_utf8(text)
        first = self.first(key)
        after = first + (first < len(self) and self[first] == key)
        return AdjacentValues(0, first - 1, after - 1, first, after, len(self) - 1)


def to_utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def empty_binary_array() -> BinaryArray:
    return pa.array([], pa.large_binary())


def binary_array(texts: Sequence[str]) -> BinaryArray:
    try:
        return pa.array(texts, pa.large_string()).cast(pa.large_binary())
    except UnicodeEncodeError:
        return pa.array(list(map(to_utf8, texts)), pa.large_binary())


def is_run_start(values: NDArray[Any]) -> NDArray[np.bool_]:
    """True where a value differs from the one before it, and for the first."""
    starts = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=starts[1:])
    return starts


def build_dictionary(strings: BinaryArray) -> tuple[StringDictionary, Codes]:
    """The dictionary of the strings, and the code of each string (int32, shape (rows,)).

    Strings in strictly ascending order are their own dictionary. Otherwise a hash table is built where a sample shows
    many repetitions, and the strings are sorted where nearly all differ, which then is faster.
    """
    if kernels.all(kernels.less(strings[:-1], strings[1:])).as_py() is not False:
        return StringDictionary(strings), np.arange(len(strings), dtype=np.int32)
    sample = strings[:_SAMPLE_ROWS]
    if 2 * kernels.count_distinct(sample).as_py() > len(sample):
        return _build_by_sorting(strings)
    encoded = kernels.dictionary_encode(strings)
    order = kernels.sort_indices(encoded.dictionary).to_numpy()
    ranks = np.empty(len(order), np.int32)
    ranks[order] = np.arange(len(order), dtype=np.int32)
    return StringDictionary(encoded.dictionary.take(pa.array(order))), ranks[encoded.indices.to_numpy()]


def _build_by_sorting(strings: BinaryArray) -> tuple[StringDictionary, Codes]:
    order = kernels.sort_indices(strings)
    ordered = strings.take(order)
    is_distinct = np.ones(len(strings), np.bool_)
    is_distinct[1:] = kernels.not_equal(ordered[1:], ordered[:-1]).to_numpy(zero_copy_only=False)
    codes = np.empty(len(strings), np.int32)
    codes[order.to_numpy()] = np.cumsum(is_distinct, dtype=np.int32) - 1
    return StringDictionary(ordered if is_distinct.all() else ordered.filter(pa.array(is_distinct))), codes
