"""Near-copies of texts: a signature of each text, and how alike two are.

The shingles of a text are its runs of four words; in scripts whose letters take three bytes (Chinese, Thai, Hindi) of
four letters. Of the shingles of two texts that either has, both have a share (the Jaccard index), which the share of
equal bytes in their signatures estimates: each byte belongs to the least of the shingles under one of 32 hash functions
(MinHash; Broder 1997). A text of 150 words in which four are replaced shares four fifths.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine.storage import SIGNATURE_BYTES

NEEDED_EQUAL: Final = 20
"""Equal bytes from which two texts are near-copies: of pairs with a shared half that are one in ten, with seven tenths
nine in ten, with eight tenths all; so about one word in twenty may differ."""
_WORDS: Final = 4
_LEAST_WORDS: Final = 16
"""Shorter texts have no signature: a title, a label or one sentence may be the same in documents about other things."""
_SLICE_BYTES: Final = 1 << 18
"""Bytes of texts that are hashed at once: the arrays, of eight times as many bytes, stay in the cache."""
_LONGEST: Final = 64
"""Bytes of a word whose places count."""


def _random(count: int, seed: int) -> NDArray[np.uint64]:
    """Numbers of SplitMix64, odd: stored signatures depend on them, so they are of no library."""
    mask, state, numbers = (1 << 64) - 1, seed, []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & mask
        mixed = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & mask
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB & mask
        numbers.append((mixed ^ (mixed >> 31)) | 1)
    return np.array(numbers, np.uint64)


def _letters() -> NDArray[np.uint64]:
    """A number for each byte of a word, 0 for other bytes; capitals of ASCII have that of their small letter."""
    numbers = _random(256, 1)
    for byte in range(128):
        character = chr(byte)
        numbers[byte] = numbers[ord(character.lower())] if character.isalnum() else 0
    return numbers


_LETTERS: Final = _letters()
_PLACES: Final = _random(_LONGEST, 2)
_IN_SHINGLE: Final = _random(_WORDS, 3)
_HASHES: Final = _random(SIGNATURE_BYTES, 4)
_MIX: Final = _random(1, 5)[0]
_WIDE_LEAD: Final = 0xE0
"""First byte of UTF-8 characters of three bytes and more."""


def signatures(texts: Any) -> NDArray[np.uint8]:
    """The signature of each text of an Arrow array of large strings without nulls, shape (n, SIGNATURE_BYTES); of one
    with too few words zeros."""
    result = np.zeros((len(texts), SIGNATURE_BYTES), np.uint8)
    if not len(texts):
        return result
    _, offset_buffer, data_buffer = texts.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    row = 0
    while row < len(texts):
        end = int(np.searchsorted(offsets, offsets[row] + _SLICE_BYTES, side="right")) - 1
        end = min(max(end, row + 1), len(texts))
        bounds = offsets[row : end + 1]
        _sign(data[bounds[0] : bounds[-1]], bounds - bounds[0], result[row:end])
        row = end
    return result


def signatures_of(texts: Sequence[str]) -> NDArray[np.uint8]:
    """As `signatures`."""
    return signatures(pa.array([text.encode("utf-8", "surrogatepass") for text in texts], pa.large_binary()))


def near_copies(some: NDArray[np.uint8], others: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Which texts are near-copies of which others, by their signatures: shape (of some, of others). Texts without
    a signature are those of each other."""
    alike: NDArray[np.bool_] = np.count_nonzero(some[:, None] == others, axis=2) >= NEEDED_EQUAL
    return alike


def _sign(data: NDArray[np.uint8], bounds: NDArray[np.int64], result: NDArray[np.uint8]) -> None:
    """Writes the signatures of consecutive texts, of which text n is `data[bounds[n] : bounds[n + 1]]`."""
    words, starts = _words(data, bounds)
    firsts = np.searchsorted(starts, bounds)
    counts = np.diff(firsts)
    is_signed = counts >= _LEAST_WORDS
    if not is_signed.any():
        return
    windows = np.where(is_signed, counts - _WORDS + 1, 0)
    ends = np.cumsum(windows)
    places = np.repeat(firsts[:-1] - (ends - windows), windows) + np.arange(ends[-1])
    shingles = np.zeros(len(places), np.uint64)
    for number, factor in enumerate(_IN_SHINGLE):
        shingles += words[places + number] * factor
    shingles = _mixed(shingles)
    first_windows = (ends - windows)[is_signed]
    for number, factor in enumerate(_HASHES):
        least = np.minimum.reduceat(shingles * factor, first_windows)
        result[is_signed, number] = (least >> np.uint64(24)).astype(np.uint8)


def _words(data: NDArray[np.uint8], bounds: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """A hash of each word, and where it begins."""
    letters = _LETTERS[data]
    is_letter = letters != 0
    begins = is_letter.copy()
    begins[1:] &= ~is_letter[:-1] | (data[1:] >= _WIDE_LEAD)
    firsts = bounds[:-1][bounds[:-1] < bounds[1:]]
    begins[firsts] = is_letter[firsts]
    starts = np.flatnonzero(begins)
    if not len(starts):
        return np.empty(0, np.uint64), starts
    lengths = np.diff(starts, append=len(data))
    places = np.arange(starts[0], len(data)) - np.repeat(starts, lengths)
    weighed = letters[starts[0] :] * _PLACES[np.minimum(places, _LONGEST - 1)]
    return _mixed(np.add.reduceat(weighed, starts - starts[0])), starts


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spreads each bit over all."""
    mixed: NDArray[np.uint64] = (numbers ^ (numbers >> np.uint64(32))) * _MIX
    return mixed ^ (mixed >> np.uint64(29))
