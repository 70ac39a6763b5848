"""Sorted dictionaries of strings: a string is stored as its place (code) among the distinct ones of its column.

Strings are UTF-8 with lone surrogates passed through, so the order of bytes is the order of code points.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from aidre.engine.intervals import Landmarks

Strings: TypeAlias = "pa.Array[Any]"
Codes: TypeAlias = NDArray[np.int32]
kernels: Final[Any] = pc
"""Arrow's functions, whose published types know no arrays of unknown type."""
_SAMPLE: Final = 4_096
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_WORDS_A_LOOK_UP: Final = 200
"""How many words are looked over in the time of one look-up."""


class Words:
    """The distinct strings of a column in order, read where they lie; a damaged offset gives a wrong word, no crash."""

    __slots__ = ("_bytes", "_offsets", "array")

    def __init__(self, array: Strings) -> None:
        buffers: list[Any] = array.buffers()
        self.array = array
        self._offsets = np.frombuffer(buffers[1] if len(array) else bytes(8), np.int64)[array.offset :]
        self._bytes = memoryview(buffers[2] or b"")

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, code: int) -> bytes:
        start, stop = int(self._offsets[code]), int(self._offsets[code + 1])
        return bytes(self._bytes[max(start, 0) : max(stop, 0)])

    def texts(self) -> Iterator[str]:
        return (self[code].decode("utf-8", "surrogatepass") for code in range(len(self)))

    def codes(self, texts: Sequence[str]) -> Sequence[int]:
        """The codes of those texts that are here, in any order: each looked up, or all words looked over once."""
        if len(texts) * _WORDS_A_LOOK_UP < len(self):
            found = ((self.first(word), word) for word in map(encoded, texts))
            return [code for code, word in found if code < len(self) and self[code] == word]
        among = kernels.is_in(self.array, value_set=strings_of(texts))
        return np.flatnonzero(among.to_numpy(zero_copy_only=False)).tolist()

    def matching(self, pattern: str, most: int) -> list[str]:
        """The strings in which a regular expression is found that RE2 and Python take; none that is not Unicode.

        Python looks again at what RE2 finds, for which `\\W` is every letter beyond ASCII. Of more than `most` it gives
        the first.
        """
        try:
            strings = self.array.cast(pa.large_string())
        except pa.ArrowInvalid:
            strings = pa.array([text for text in self.texts() if _SURROGATE.search(text) is None], pa.large_string())
        among = strings.filter(kernels.match_substring_regex(strings, pattern))
        found: list[str] = among[:most].to_pylist()
        return [text for text in found if re.search(pattern, text)] if len(among) <= most else found

    def first(self, word: bytes) -> int:
        """The code of a word, or of the next one in order where it is not here."""
        return bisect_left(range(len(self)), word, key=self.__getitem__)

    def landmarks(self, text: str) -> Landmarks:
        word = encoded(text)
        first = self.first(word)
        after = first + (first < len(self) and self[first] == word)
        return Landmarks(0, first - 1, after - 1, first, after, len(self) - 1)


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def no_strings() -> Strings:
    return pa.array([], pa.large_binary())


def strings_of(texts: Sequence[str]) -> Strings:
    try:
        return pa.array(texts, pa.large_string()).cast(pa.large_binary())
    except UnicodeEncodeError:
        return pa.array(list(map(encoded, texts)), pa.large_binary())


def is_fresh(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Which of the values differ from the one before them."""
    fresh = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=fresh[1:])
    return fresh


def ranked(strings: Strings) -> tuple[Words, Codes]:
    """The distinct strings in order, and for each string its code."""
    if kernels.all(kernels.less(strings[:-1], strings[1:])).as_py() is not False:
        return Words(strings), np.arange(len(strings), dtype=np.int32)
    sample = strings[:_SAMPLE]
    if 2 * kernels.count_distinct(sample).as_py() > len(sample):
        return _ranked_by_sorting(strings)
    dictionary = kernels.dictionary_encode(strings)
    order = kernels.sort_indices(dictionary.dictionary).to_numpy()
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    return Words(dictionary.dictionary.take(pa.array(order))), place[dictionary.indices.to_numpy()]


def _ranked_by_sorting(strings: Strings) -> tuple[Words, Codes]:
    """Faster than a hash table where nearly all strings differ."""
    order = kernels.sort_indices(strings)
    ordered = strings.take(order)
    fresh = np.ones(len(strings), np.bool_)
    fresh[1:] = kernels.not_equal(ordered[1:], ordered[:-1]).to_numpy(zero_copy_only=False)
    codes = np.empty(len(strings), np.int32)
    codes[order.to_numpy()] = np.cumsum(fresh, dtype=np.int32) - 1
    return Words(ordered if fresh.all() else ordered.filter(pa.array(fresh))), codes
