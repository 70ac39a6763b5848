"""The words of a segment as people write them: how often each occurs, and which differ from another by one letter.

The lexicon holds stems, which nobody would read; corrections and completions are shown, so they need whole words. The
dictionary of deletes follows Garbe's SymSpell: two words differ by one letter (inserted, left out, replaced, or swapped
with its neighbour) only if they become equal by leaving out at most one letter of each. It has the hash of each word
and of each of its deletes, sorted, with the word's code. A hash is a hint: a word that it gives is compared itself.

Only plain words are listed (`is_plain`): 3 to 24 letters of a script with spaces. That bounds an entry at
some 300 bytes; an English word takes 80.

Words in their order: whether a text has a phrase, or a code, as it is written.

A lexicon is a bag of words, so these look into texts. Case, form of characters (NFKC) and what stands between the words
do not count; their order and their ends do.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate
from operator import add, mul
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine.index.text.analysis import MAX_PLAIN_CHARACTERS, TOKEN, UNSPACED_RUN, is_plain, normalize, split_text
from aidre.engine.index.text.characters import MARKS, UNSPACED
from aidre.engine.index.text.inversion import split_tokens, split_words
from aidre.engine.index.text.stop_words import capitals
from aidre.engine.storage import (
    StringDictionary,
    binary_array,
    build_dictionary,
    check_lengths,
    check_rows,
    empty_binary_array,
    is_run_start,
    list_array,
    list_columns,
    list_values,
    to_utf8,
)

MAX_FREQUENCY: Final = (1 << 32) - 1

_VERSION: Final = b"1"
"""Version of the rules by which words are listed and hashed; other files are ignored until `compact` rewrites them."""

_MULTIPLIER: Final = 0x9E3779B97F4A7C15
_MIXER: Final = 0xD6E8FEB86659FD93
_MASK: Final = (1 << 64) - 1
_POWERS: Final = tuple(pow(_MULTIPLIER, i, 1 << 64) for i in range(MAX_PLAIN_CHARACTERS + 1))
_NO_LETTER: Final = _MASK
"""A code point that counts nothing in a hash."""
_SLICE_CHARACTERS: Final = 1 << 19
_MAX_PARTS: Final = 16
"""Lists of words that are collected before they are merged into one."""

_SAMPLED: Final = 2_048
_LEAST_SHARE: Final = 0.0005
"""Words that are read for the letters of a segment, and the share of them that a letter has at least."""

_SCHEMA: Final = pa.schema(
    [
        ("words", pa.large_list(pa.large_binary())),
        ("frequencies", pa.large_list(pa.uint32())),
        ("hashes", pa.large_list(pa.uint32())),
        ("codes", pa.large_list(pa.uint32())),
    ]
)


class _WordFrequencies(NamedTuple):
    """Distinct words in ascending order, and how often each occurs."""

    words: StringDictionary
    frequencies: NDArray[np.int64]


class Words:
    """A view over a batch of `WordCounts.to_batch`; immutable.

    `words` are in ascending order of their UTF-8; `frequencies` counts the occurrences of each in titles, section paths
    and texts. Raises ValueError for a batch of another version.
    """

    def __init__(self, batch: pa.RecordBatch) -> None:
        if not batch.schema.equals(_SCHEMA) or (batch.schema.metadata or {}).get(b"version") != _VERSION:
            raise ValueError("is of another version; compact the collection")
        words = list_array(batch.column("words"))
        self.frequencies: NDArray[np.uint32] = list_values(batch.column("frequencies"))
        self._hashes: NDArray[np.uint32] = list_values(batch.column("hashes"))
        self._codes: NDArray[np.uint32] = list_values(batch.column("codes"))
        check_lengths(words, self.frequencies)
        check_lengths(self._hashes, self._codes)
        check_rows(self._codes, len(words))
        self.words = StringDictionary(words)

    def frequency(self, word: str) -> int:
        """0 for a word that is not listed."""
        code = self.words.find(to_utf8(word))
        return int(self.frequencies[code]) if code >= 0 else 0

    def may_list(self, hashes: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """Whether words with these `hash_of` may be listed."""
        if not len(self._hashes):
            return np.zeros(len(hashes), np.bool_)
        places = np.minimum(self._hashes.searchsorted(hashes), len(self._hashes) - 1)
        found: NDArray[np.bool_] = self._hashes[places] == hashes
        return found

    def near(self, word: str, hashes: NDArray[np.uint32], most: int) -> Iterator[tuple[str, int]]:
        """The listed words that differ from a plain word by one letter, and their frequencies; by its `hashes_of_one`.

        Of more than `most` words that may differ so, only the most frequent are compared.
        """
        return (entry for entry in self._hinted(hashes, most) if word != entry[0] and is_one_edit(word, entry[0]))

    def near_two(self, word: str, hashes: NDArray[np.uint32], most: int) -> Iterator[tuple[str, int]]:
        """The same for words that differ by two letters and not by one; by its `hashes_of_two`."""
        return (entry for entry in self._hinted(hashes, most) if is_two_edits(word, entry[0]))

    def _hinted(self, hashes: NDArray[np.uint32], most: int) -> Iterator[tuple[str, int]]:
        """The words that the table has for some hashes: of more than `most` the most frequent."""
        starts = self._hashes.searchsorted(hashes, "left")
        is_found = (
            self._hashes[np.minimum(starts, len(self._hashes) - 1)] == hashes if len(self._hashes) else starts < 0
        )
        starts, ends = starts[is_found], self._hashes.searchsorted(hashes[is_found], "right")
        codes = {
            code
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
            for code in self._codes[start:end].tolist()
        }
        if len(codes) > most:
            codes = set(sorted(codes, key=lambda code: (-int(self.frequencies[code]), code))[:most])
        return map(self._entry, codes)

    @cached_property
    def letters(self) -> NDArray[np.uint64]:
        """The code points of the letters of listed words, without the rarest; by a sample."""
        codes = range(0, len(self.words), -(-len(self.words) // _SAMPLED) or 1)
        counts = Counter("".join(self._entry(code)[0] for code in codes))
        least = _LEAST_SHARE * counts.total()
        return np.array(sorted(ord(letter) for letter, count in counts.items() if count >= least), np.uint64)

    def starting(self, prefix: str, most: int) -> tuple[list[tuple[str, int]], int]:
        """The most frequent words with a prefix, with frequencies; and the greatest frequency of those left out."""
        key = to_utf8(prefix)
        start, end = self.words.first(key), self.words.first(key + b"\xff")
        frequencies = self.frequencies[start:end]
        if len(frequencies) <= most:
            return [self._entry(code) for code in range(start, end)], 0
        order = np.argpartition(frequencies, (-most - 1, -most))
        return [self._entry(start + code) for code in order[-most:].tolist()], int(frequencies[order[-most - 1]])

    def _entry(self, code: int) -> tuple[str, int]:
        return self.words[code].decode("utf-8", "surrogatepass"), int(self.frequencies[code])


# -- building --------------------------------------------------------------------------------------------------


class WordCounts:
    """Collects how often plain words occur, and makes the file of a segment of it."""

    def __init__(self) -> None:
        self._parts: list[_WordFrequencies] = []

    def add(self, words: Sequence[str], frequencies: NDArray[np.int64]) -> None:
        """Add distinct words; those that are not plain are left out."""
        is_listed = np.fromiter(map(is_plain, words), np.bool_, len(words))
        is_listed &= ~np.fromiter(map(capitals().__contains__, words), np.bool_, len(words))
        listed = [word for word, is_kept in zip(words, is_listed.tolist(), strict=True) if is_kept]
        distinct, codes = build_dictionary(binary_array(listed))
        counted = np.zeros(len(distinct), np.int64)
        counted[codes] = frequencies[is_listed]
        self._append(_WordFrequencies(distinct, counted))

    def add_words(self, words: Words) -> None:
        self._append(_WordFrequencies(words.words, words.frequencies.astype(np.int64)))

    def add_texts(self, texts: Iterable[str]) -> None:
        """Add the words of texts, as `build_lexicon` does for chunks."""
        waiting: list[str] = []
        characters = 0
        for text in texts:
            for piece in split_text(text, _SLICE_CHARACTERS):
                waiting.append(piece)
                characters += len(piece)
                if characters >= _SLICE_CHARACTERS:
                    self._add_slice(waiting)
                    waiting, characters = [], 0
        if waiting:
            self._add_slice(waiting)

    def subtract(self, other: WordCounts) -> None:
        """Take away the words of texts whose words have been added."""
        words, frequencies = other._merged()
        self._append(_WordFrequencies(words, -frequencies))

    def to_batch(self) -> pa.RecordBatch:
        """A batch of one row, a list in each column of the schema."""
        words, frequencies = self._merged()
        is_left = frequencies > 0
        listed = words.array if is_left.all() else words.array.filter(pa.array(is_left))
        hashes, codes = _table(listed.cast(pa.large_string()).to_pylist())
        stored = np.minimum(frequencies[is_left], MAX_FREQUENCY).astype(np.uint32)
        columns = list_columns(_SCHEMA, (listed, stored, hashes, codes))
        return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA.with_metadata({b"version": _VERSION}))

    def _add_slice(self, texts: Sequence[str]) -> None:
        vocabulary, codes, _ = split_words([split_tokens(texts)])
        self.add(list(vocabulary), np.bincount(codes, minlength=len(vocabulary)))

    def _append(self, counts: _WordFrequencies) -> None:
        self._parts.append(counts)
        if len(self._parts) >= _MAX_PARTS:
            self._parts = [self._merged()]

    def _merged(self) -> _WordFrequencies:
        if len(self._parts) == 1:
            return self._parts[0]
        strings = pa.concat_arrays([empty_binary_array(), *(part.words.array for part in self._parts)])
        words, codes = build_dictionary(strings)
        frequencies = np.zeros(len(words), np.int64)
        np.add.at(
            frequencies, codes, np.concatenate([np.empty(0, np.int64), *(part.frequencies for part in self._parts)])
        )
        return _WordFrequencies(words, frequencies)


# -- deletes ---------------------------------------------------------------------------------------------------


def hash_of(word: str) -> int:
    """The hash of a word; of one that is too long, of its beginning."""
    return _mixed(sum(map(mul, _values(word), _POWERS)))


def hashes_of_one(word: str) -> NDArray[np.uint32]:
    """The hashes of a word and of what is left of it without one letter: as `_hashes`, faster for a single word."""
    values = _values(word)
    powers = _POWERS[: len(values)]
    before = list(accumulate(map(mul, values, powers), initial=0))
    after = list(accumulate(map(mul, reversed(values[1:]), reversed(powers[:-1])), initial=0))
    return np.array(list(map(_mixed, (before[-1], *map(add, before, reversed(after))))), np.uint32)


def _values(word: str) -> list[int]:
    return [ord(letter) + 1 for letter in word]


def _mixed(value: int) -> int:
    value &= _MASK
    return ((value ^ (value >> 32)) * _MIXER & _MASK) >> 32


def is_one_edit(word: str, other: str) -> bool:
    """Whether two different words differ by one letter: inserted, left out, replaced, or swapped with its neighbour."""
    if len(word) > len(other):
        word, other = other, word
    i = next((i for i, (mine, its) in enumerate(zip(word, other, strict=False)) if mine != its), len(word))
    if len(word) < len(other):
        return word[i:] == other[i + 1 :]
    is_swapped = word[i : i + 2] == other[i : i + 2][::-1] and word[i + 2 :] == other[i + 2 :]
    return word[i + 1 :] == other[i + 1 :] or is_swapped


def is_two_edits(word: str, other: str) -> bool:
    """Whether two words differ by two letters and not by one, each as in `is_one_edit`, and none changed twice."""
    if word == other or is_one_edit(word, other):
        return False
    i = next(
        (i for i, (mine, its) in enumerate(zip(word, other, strict=False)) if mine != its), min(len(word), len(other))
    )
    mine, its = word[i:], other[i:]
    left = [(mine[1:], its), (mine, its[1:]), (mine[1:], its[1:])]
    if mine[:2] == its[1::-1]:
        left.append((mine[2:], its[2:]))
    return any(start == end or is_one_edit(start, end) for start, end in left)


def hashes_of_two(word: str, letters: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Hashes of which the table has one at least for each listed word that differs by two letters, ascending.

    The table has words and their deletes of one letter; so of two differences one may be undone there. The other is
    undone here, in each place and by each of the letters: left out, put in, swapped or replaced; and where both are
    letters that were left out of, put in or replaced in `word`, a second letter is left out.
    """
    points = _points([word], len(word))
    places, gaps = np.arange(len(word)), np.arange(len(word) + 1)
    sums = _sums(points)[0]
    powers = np.array(_POWERS[: len(word) + 1], np.uint64)
    others = np.tile(points, (len(word), 1))
    without = others[places[:, None] != places].reshape(len(word), -1)
    swapped = others[1:].copy()
    swapped[places[:-1], places[:-1]], swapped[places[:-1], places[1:]] = points[0, 1:], points[0, :-1]
    widened = points[0, np.minimum(gaps - (gaps > gaps[:, None]), len(word) - 1)]
    widened[gaps, gaps] = _NO_LETTER
    put_in = _sums(widened)[:, :1] + (letters + np.uint64(1)) * powers[:, None]
    change = (letters - points[0][:, None]) * powers[:-1, None]
    first, second = np.triu_indices(len(word), 1)
    replaced = sums[1 + second][:, None] + change[first]
    found = (_sums(without), _sums(swapped), put_in, sums[0] + change, replaced)
    hashes = _mix(np.concatenate([part.reshape(-1) for part in found]))
    hashes.sort()  # neighbours in the table are looked up one after the other
    return hashes


def _table(words: Sequence[str]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """The hashes of words and their deletes, ascending, and the code of the word of each."""
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    entries = [np.empty(0, np.uint64)]
    for length in np.unique(lengths).tolist():
        codes = np.flatnonzero(lengths == length)
        hashes = _hashes(_points([words[code] for code in codes.tolist()], length)).astype(np.uint64)
        entries.append(((hashes << np.uint64(32)) | codes.astype(np.uint64)[:, None]).reshape(-1))
    table = np.concatenate(entries)
    table.sort()
    # Leaving out either of two equal neighbours gives the same word: the entry is there once.
    table = table[is_run_start(table)]
    return (table >> np.uint64(32)).astype(np.uint32), table.astype(np.uint32)


def _points(words: Sequence[str], length: int) -> NDArray[np.uint64]:
    """The code points of words of one length, shape (words, length)."""
    encoded = "".join(words).encode("utf-32-le", "surrogatepass")
    return np.frombuffer(encoded, "<u4").astype(np.uint64).reshape(-1, length)


def _hashes(points: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """The hash of each row (column 0) and of each row without one of its columns, shape (rows, 1 + columns)."""
    return _mix(_sums(points))


def _sums(points: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """What is mixed to these hashes: a polynomial modulo 2^64, so that the one without column i follows from those of
    the columns before and after it."""
    rows, length = points.shape
    powers = np.array(_POWERS[: length + 1], np.uint64)
    weighted = (points + np.uint64(1)) * powers[:length]
    before = np.zeros((rows, length + 1), np.uint64)
    np.cumsum(weighted, axis=1, out=before[:, 1:])
    # Letter j counts with power j; after the column that is left out, with one power less.
    shifted = (points[:, 1:] + np.uint64(1)) * powers[: length - 1]
    after = np.zeros((rows, length), np.uint64)
    after[:, : length - 1] = np.cumsum(shifted[:, ::-1], axis=1)[:, ::-1]
    hashes = np.empty((rows, length + 1), np.uint64)
    hashes[:, 0] = before[:, length]
    hashes[:, 1:] = before[:, :length] + after
    return hashes


def _mix(sums: NDArray[np.uint64]) -> NDArray[np.uint32]:
    sums ^= sums >> np.uint64(32)
    sums *= np.uint64(_MIXER)
    return (sums >> np.uint64(32)).astype(np.uint32)


_BETWEEN: Final = rf"[^\w{MARKS}{UNSPACED}]"
_SPACED: Final = rf"(?![{UNSPACED}])[\w{MARKS}]"
"""A character of a word in a script that puts spaces between words."""
_GAP: Final = rf"(?:{_BETWEEN}|_){{1,8}}"
"""What separates two words of a phrase."""
_MAX_WORDS: Final = 64
"""Words of a phrase that are compared."""
_LETTERS: Final = string.ascii_lowercase[::-1] + string.digits
_OF_WORD: Final = re.compile(rf"[\w{MARKS}]")
_BEYOND_ASCII: Final = re.compile(r"[^\x00-\x7f]+")
_SIGN_BEYOND: Final = re.compile(r"[^\x00-\x7f]")


@lru_cache(maxsize=512)
def phrase_pattern(phrase: str) -> re.Pattern[str] | None:
    """Finds the words of a phrase in `comparable_text`; None where it has no word."""
    pieces = _pieces(phrase)
    if not pieces:
        return None
    pattern = before = ""
    for piece in pieces:
        is_spaced, written = not UNSPACED_RUN.match(piece), re.escape(piece)
        if before:
            pattern += _GAP if is_spaced and not UNSPACED_RUN.match(before) else rf"{_BETWEEN}{{0,8}}"
        pattern += written if is_spaced else f"{_BETWEEN}{{0,2}}".join(map(re.escape, piece))
        if not before and is_spaced:  # looked at from behind: a pattern that begins with letters is ten times as fast
            pattern += rf"(?<!{_SPACED}{written})"
        before = piece
    return re.compile(pattern + ("" if UNSPACED_RUN.match(before) else rf"(?!{_SPACED})"))


@lru_cache(maxsize=512)
def plain_phrase(phrase: str) -> bytes | None:
    """The words of a phrase as the kernel looks for them, with a space between two; None where it cannot, as for
    letters beyond ASCII."""
    pieces = _pieces(phrase)
    words = " ".join(pieces)
    is_plain = words.isascii() and not any(piece[0] == "_" for piece in pieces[1:]) and _free_letter(words)
    return words.encode() if words and is_plain else None


def plain_text(text: str, phrase: bytes) -> bytes:
    """A text in which the kernel finds a phrase of `plain_phrase` exactly where its pattern does.

    A letter that the phrase has not stands for each one beyond ASCII, and a space for each sign; characters of scripts
    without spaces separate words, but do not stand between those of a phrase.
    """
    letter = _free_letter(phrase.decode())

    def in_ascii(run: re.Match[str]) -> str:
        separated = UNSPACED_RUN.sub(f" {letter} ", run[0])
        return _SIGN_BEYOND.sub(" ", _OF_WORD.sub(letter, separated))

    return _BEYOND_ASCII.sub(in_ascii, comparable_text(text)).encode()


def _free_letter(phrase: str) -> str:
    """A letter or digit that a phrase has not; empty where it has all."""
    return next((letter for letter in _LETTERS if letter not in phrase), "")


def _pieces(phrase: str) -> list[str]:
    """The words of a phrase, and within them the parts that are written without spaces."""
    tokens = TOKEN.findall(comparable_text(phrase))[:_MAX_WORDS]
    return [run for token in tokens for run in re.split(f"({UNSPACED_RUN.pattern})", token) if run.strip("_")]


def comparable_text(text: str) -> str:
    """The form in which texts and phrases are compared."""
    return normalize(text).lower()
