"""The words of many texts at once: as `analysis.words` reads them one by one, but numbered and counted by text.

Characters become classes by a table, tokens are where the class changes, and of equal tokens only one is looked at in
Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import compress, pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine.analysis import RUN, TOKEN, normalised, words_of
from aidre.engine.words import kernels

_POINT: Final = np.dtype("<u4")
"""A character in UTF-32, the form in which all are equally long."""

_COMPOUNDING: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ_"
"""Of ASCII what makes a token more than one word: the whole and one more for each of these, at most."""

_NONE, _LOWER, _OTHER, _UNSPACED = range(4)
"""What a character is: of no token; of one that is a word as it stands; of any other; of a run without spaces."""


class Tokens(NamedTuple):
    """The tokens of some texts in their order, encoded by a dictionary in UTF-32, and how many each text has.

    They have no more than `most_words` words.
    """

    encoded: Any
    counts: NDArray[np.int64]
    most_words: int


class Spoken(NamedTuple):
    """The words of some texts in their order, each as its place in a vocabulary, and how many each text has."""

    places: dict[str, int]
    codes: NDArray[np.int32]
    counts: NDArray[np.int64]


@lru_cache(maxsize=1)
def _kinds() -> NDArray[np.uint8]:
    """What every character is."""
    points = np.arange(0x110000, dtype=_POINT)
    points[0xD800:0xE000] = 0  # surrogates are no characters
    points[ord("\u0130")] = 0  # the one that is two in lower case
    characters = points.tobytes().decode("utf-32-le")
    kinds = np.full(len(points), _NONE, np.uint8)
    for kind, pattern in ((_OTHER, TOKEN), (_UNSPACED, RUN)):
        for found in pattern.finditer(characters):
            kinds[found.start() : found.end()] = kind
    is_lower = np.frombuffer(characters.lower().encode("utf-32-le"), _POINT) == points
    kinds[is_lower & (kinds == _OTHER)] = _LOWER
    kinds[[ord("_"), ord("\u0130")]] = _OTHER
    return kinds


@lru_cache(maxsize=1)
def _ascii() -> tuple[bytes, bytes]:
    """Of ASCII which characters are of tokens, as a table of zeros and ones, and those that are not."""
    is_token = _kinds()[:0x80] > _NONE
    others = np.flatnonzero(~is_token).astype(np.uint8)
    return is_token.tobytes() + bytes(0x80), others.tobytes()


def read_tokens(texts: Sequence[str]) -> Tokens:
    joined = "\n".join((*texts, ""))
    if joined.isascii():
        return _read_ascii(joined.encode(), texts)
    texts = [normalised(text) for text in texts]
    points = np.frombuffer("\n".join((*texts, "")).encode("utf-32-le", "surrogatepass"), _POINT)
    kinds = _kinds()[points]
    classes = kinds + 1 >> 1  # all words are of one
    bounds = np.flatnonzero(np.diff(classes, prepend=0, append=0))
    inside = classes[bounds[:-1]] > 0
    starts, lengths = bounds[:-1][inside], np.diff(bounds)[inside]
    tokens = _binary(lengths * _POINT.itemsize, points[kinds > 0])
    kinds_of = np.bincount(kinds, minlength=_UNSPACED + 1)
    most_words = len(starts) + 2 * int(kinds_of[_OTHER] + kinds_of[_UNSPACED])
    return Tokens(tokens.dictionary_encode(), _counts(starts, texts), most_words)


def _read_ascii(joined: bytes, texts: Sequence[str]) -> Tokens:
    """The same a byte a character; all tokens are words, there are no runs without spaces."""
    table, others = _ascii()
    inside = np.frombuffer(joined.translate(table), np.bool_)
    bounds = np.flatnonzero(np.diff(inside, prepend=False))
    starts = bounds[::2]
    tokens = _binary(bounds[1::2] - starts, np.frombuffer(joined.translate(None, others), np.uint8)).dictionary_encode()
    lengths = kernels.binary_length(tokens.dictionary).to_numpy()
    wide = np.frombuffer(_content(tokens.dictionary), np.uint8).astype(_POINT)
    encoded = pa.DictionaryArray.from_arrays(tokens.indices, _binary(lengths * _POINT.itemsize, wide))
    most_words = len(starts) + 2 * (len(joined) - len(joined.translate(None, _COMPOUNDING)))
    return Tokens(encoded, _counts(starts, texts), most_words)


def _counts(starts: NDArray[np.int64], texts: Sequence[str]) -> NDArray[np.int64]:
    """How many tokens each text has, from where they start in all of them."""
    ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)) + 1)
    return np.diff(np.searchsorted(starts, ends), prepend=0)


def _binary(sizes: NDArray[np.int64], content: NDArray[Any]) -> Any:
    """Binary values of these sizes in bytes, which follow each other."""
    offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    buffers: list[Any] = [None, pa.py_buffer(offsets), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.large_binary(), len(sizes), buffers)


def _content(values: Any) -> Any:
    """The bytes of binary values that begin with their first buffer."""
    return values.buffers()[2] or b""


def read_words(read: Sequence[Tokens]) -> Spoken:
    """The words of all texts whose tokens were read."""
    unified: Any = pa.chunked_array([each.encoded for each in read]).unify_dictionaries()
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in unified.chunks])
    counts = np.concatenate([each.counts for each in read])
    distinct, is_word = _strings(unified.chunk(0).dictionary)
    words = list(compress(distinct, is_word))
    places = {word: place for place, word in enumerate(words)}
    others: list[int] = []

    def words_of_others() -> Iterator[str]:
        """One after the other: of a text without spaces all of them are many times the text."""
        for token in compress(distinct, ~is_word):
            found = words_of(token)
            others.append(len(found))
            yield from found

    further = np.fromiter((places.setdefault(word, len(places)) for word in words_of_others()), np.int32)
    sizes = np.ones(len(distinct), np.int64)
    sizes[~is_word] = others
    stands = np.repeat(is_word, sizes)
    numbers = np.empty(len(stands), np.int32)
    numbers[stands] = np.arange(len(words))
    numbers[~stands] = further
    return Spoken(places, *_expanded(numbers, sizes, codes, counts))


def _strings(tokens: Any) -> tuple[list[str], NDArray[np.bool_]]:
    """Tokens in UTF-32 as strings, and which of them are words as they stand."""
    if not len(tokens):
        return [], np.zeros(0, np.bool_)
    _, offsets, content = tokens.buffers()
    ends = np.frombuffer(offsets, np.int64)[: len(tokens) + 1] // _POINT.itemsize
    points = np.frombuffer(content, _POINT)[: ends[-1]]
    is_word = np.maximum.reduceat(_kinds()[points], ends[:-1]) == _LOWER
    characters = points.tobytes().decode("utf-32-le")
    return [characters[start:end] for start, end in pairwise(ends.tolist())], is_word


def _expanded(
    numbers: NDArray[np.int32], sizes: NDArray[np.int64], codes: NDArray[np.int32], counts: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Each token replaced by its words: token n has `sizes[n]` of them, which follow each other in `numbers`."""
    if (sizes == 1).all():
        return numbers[codes], counts
    repeated = sizes[codes]
    ends = np.concatenate([[0], np.cumsum(repeated)])
    shifts = (np.cumsum(sizes) - sizes)[codes] - ends[:-1]
    words = numbers[np.repeat(shifts, repeated) + np.arange(ends[-1])]
    return words, np.diff(ends[np.cumsum(counts)], prepend=0)
