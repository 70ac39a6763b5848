"""Analysis of many texts at once: the same words as `analysis.tokenize`, as codes in a vocabulary, text by text.

Two steps, so that the first can run on small slices that fit the processor's cache. `split_tokens` maps characters to
classes by a table, cuts tokens where the class changes, and encodes equal tokens by a dictionary. `split_words` turns
the distinct tokens of several slices into words; only these pass through Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import compress, pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine.index.text.analysis import TOKEN, UNSPACED_RUN, normalize, token_words
from aidre.engine.index.text.characters import FIRST_MARK, NON_JOINER, SIGN_BYTES, SIGN_MARKS, sign_at
from aidre.engine.storage import kernels

_POINT: Final = np.dtype("<u4")
"""A character in UTF-32, where all have the same width."""

_COMPOUNDING: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ_"
"""The ASCII characters at which a compound is split. Each adds at most two words: the whole, and one more part."""

_NONE, _LOWER, _OTHER, _UNSPACED, _SIGN = range(5)
"""Kinds of characters: outside tokens; in tokens and unchanged by analysis; in other tokens; in a run without spaces;
outside tokens unless it is a sign of a name. A token of _LOWER characters alone is its only word."""

_FIRST_MARK_BYTE: Final = 0x80
"""The first of the bytes that stand for the marks of `names` in a text that is ASCII otherwise."""

_DOTTED_CAPITAL_I: Final = ord("\u0130")
"""The only character whose lower case is two characters."""


class Tokens(NamedTuple):
    """The tokens of some texts in order, as an Arrow dictionary array of UTF-32, and the number of tokens of each text.

    `max_words` is an upper bound on the number of their words.
    """

    encoded: Any
    counts: NDArray[np.int64]
    max_words: int


class EncodedWords(NamedTuple):
    """The words of some texts in order, as codes in a vocabulary, and the number of words of each text."""

    vocabulary: dict[str, int]
    codes: NDArray[np.int32]
    counts: NDArray[np.int64]


# -- texts to tokens -------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _kinds() -> NDArray[np.uint8]:
    """The kind of every code point: of a token, lower-case, without spaces, or none."""
    points = np.arange(0x110000, dtype=_POINT)
    points[0xD800:0xE000] = 0  # surrogates cannot be decoded
    points[_DOTTED_CAPITAL_I] = 0  # would shift the positions of all characters after it
    characters = points.tobytes().decode("utf-32-le")
    kinds = np.full(len(points), _NONE, np.uint8)
    for kind, pattern in ((_OTHER, TOKEN), (_UNSPACED, UNSPACED_RUN)):
        for match_ in pattern.finditer(characters):
            kinds[match_.start() : match_.end()] = kind
    is_lower = np.frombuffer(characters.lower().encode("utf-32-le"), _POINT) == points
    kinds[is_lower & (kinds == _OTHER)] = _LOWER
    kinds[[*map(ord, f"_{NON_JOINER}{SIGN_MARKS}"), _DOTTED_CAPITAL_I]] = _OTHER
    kinds[[*SIGN_BYTES]] = _SIGN
    return kinds


class _AsciiTables(NamedTuple):
    """Tables of 256 zeros and ones that mark the bytes of tokens and those of signs; the bytes outside tokens; and the
    code point of each byte."""

    tokens: bytes
    signs: bytes
    others: bytes
    points: NDArray[np.uint32]


@lru_cache(maxsize=1)
def _ascii() -> _AsciiTables:
    kinds, points = _kinds()[:0x100].copy(), np.arange(0x100, dtype=_POINT)
    kinds[0x80:] = _NONE
    marks = slice(_FIRST_MARK_BYTE, _FIRST_MARK_BYTE + len(SIGN_MARKS))
    kinds[marks], points[marks] = _OTHER, [*map(ord, SIGN_MARKS)]
    is_sign = kinds == _SIGN
    is_token = (kinds > _NONE) & ~is_sign
    others = np.flatnonzero(~is_token).astype(np.uint8)
    return _AsciiTables(is_token.tobytes(), is_sign.tobytes(), others.tobytes(), points)


def split_tokens(texts: Sequence[str]) -> Tokens:
    joined = "\n".join((*texts, ""))
    if joined.isascii():
        return _split_ascii(joined, texts)
    texts = [normalize(text) for text in texts]
    joined = "\n".join((*texts, ""))
    points = np.frombuffer(bytearray(joined.encode("utf-32-le", "surrogatepass")), _POINT)
    kinds = _kinds()[points]
    signs = np.flatnonzero(kinds == _SIGN)
    kinds[signs] = _NONE
    for place, mark in _marks(joined, points, signs, kinds > _NONE):
        points[place], kinds[place] = ord(mark), _OTHER
    classes = kinds + 1 >> 1  # 0: outside, 1: _LOWER or _OTHER, 2: _UNSPACED
    bounds = np.flatnonzero(np.diff(classes, prepend=0, append=0))
    is_token = classes[bounds[:-1]] > 0
    starts, lengths = bounds[:-1][is_token], np.diff(bounds)[is_token]
    tokens = _binary_array(lengths * _POINT.itemsize, points[kinds > 0])
    kind_counts = np.bincount(kinds, minlength=_UNSPACED + 1)
    max_words = len(starts) + 2 * int(kind_counts[_OTHER] + kind_counts[_UNSPACED])
    return Tokens(tokens.dictionary_encode(), _counts(starts, texts), max_words)


def _split_ascii(text: str, texts: Sequence[str]) -> Tokens:
    """The same for ASCII, at a byte a character; there are no runs without spaces."""
    tables, joined = _ascii(), bytearray(text.encode())
    is_token = np.frombuffer(joined.translate(tables.tokens), np.bool_)
    signs = np.flatnonzero(np.frombuffer(joined.translate(tables.signs), np.bool_))
    marks = list(_marks(text, np.frombuffer(joined, np.uint8), signs, is_token))
    for place, mark in marks:
        joined[place] = _FIRST_MARK_BYTE + ord(mark) - FIRST_MARK
    if marks:
        is_token = np.frombuffer(joined.translate(tables.tokens), np.bool_)
    bounds = np.flatnonzero(np.diff(is_token, prepend=False))
    starts = bounds[::2]
    content = np.frombuffer(joined.translate(None, tables.others), np.uint8)
    tokens = _binary_array(bounds[1::2] - starts, content).dictionary_encode()
    lengths = kernels.binary_length(tokens.dictionary).to_numpy()
    wide = tables.points[np.frombuffer(_content(tokens.dictionary), np.uint8)]
    encoded = pa.DictionaryArray.from_arrays(tokens.indices, _binary_array(lengths * _POINT.itemsize, wide))
    max_words = len(starts) + 2 * (len(marks) + len(joined) - len(joined.translate(None, _COMPOUNDING)))
    return Tokens(encoded, _counts(starts, texts), max_words)


def _marks(
    text: str, characters: NDArray[Any], signs: NDArray[np.intp], is_token: NDArray[np.bool_]
) -> Iterator[tuple[int, str]]:
    """The places of the signs of names in a text that ends outside a token, each with its mark.

    Only signs at one end of a token are looked at, and a point only before one: most end a sentence.
    """
    after, before = is_token[signs + 1], is_token[signs - 1]
    is_point = characters[signs] == ord(".")
    for place in signs[(after != before) & ~(is_point & before)].tolist():
        yield from enumerate(sign_at(text, place), place)


def _counts(starts: NDArray[np.int64], texts: Sequence[str]) -> NDArray[np.int64]:
    """The number of tokens of each text, by their starts in the joined texts."""
    ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)) + 1)
    return np.diff(np.searchsorted(starts, ends), prepend=0)


def _binary_array(sizes: NDArray[np.int64], content: NDArray[Any]) -> Any:
    """An Arrow array of binary values with these sizes in bytes, which lie in `content` one after the other."""
    offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    buffers: list[Any] = [None, pa.py_buffer(offsets), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.large_binary(), len(sizes), buffers)


def _content(values: Any) -> Any:
    """The bytes of a binary array whose first value begins its buffer."""
    return values.buffers()[2] or b""


# -- tokens to words -------------------------------------------------------------------------------------------


def split_words(slices: Sequence[Tokens]) -> EncodedWords:
    """The words of all texts of some slices."""
    unified: Any = pa.chunked_array([tokens.encoded for tokens in slices]).unify_dictionaries()
    token_codes = np.concatenate([chunk.indices.to_numpy() for chunk in unified.chunks])
    counts = np.concatenate([tokens.counts for tokens in slices])
    distinct, is_word = _strings(unified.chunk(0).dictionary)
    plain_words = list(compress(distinct, is_word))
    vocabulary = {word: code for code, word in enumerate(plain_words)}
    other_sizes: list[int] = []

    def words_of_other_tokens() -> Iterator[str]:
        """Lazily, token by token: the words of a text without spaces take many times its memory."""
        for token in compress(distinct, ~is_word):
            words = token_words(token)
            other_sizes.append(len(words))
            yield from words

    other_codes = np.fromiter(
        (vocabulary.setdefault(word, len(vocabulary)) for word in words_of_other_tokens()), np.int32
    )
    sizes = np.ones(len(distinct), np.int64)
    sizes[~is_word] = other_sizes
    is_plain = np.repeat(is_word, sizes)
    word_codes = np.empty(len(is_plain), np.int32)
    word_codes[is_plain] = np.arange(len(plain_words))
    word_codes[~is_plain] = other_codes
    return EncodedWords(vocabulary, *_expand_tokens(word_codes, sizes, token_codes, counts))


def _strings(tokens: Any) -> tuple[list[str], NDArray[np.bool_]]:
    """Tokens in UTF-32 as strings, and a mark for those that are their only word."""
    if not len(tokens):
        return [], np.zeros(0, np.bool_)
    _, offsets, content = tokens.buffers()
    ends = np.frombuffer(offsets, np.int64)[: len(tokens) + 1] // _POINT.itemsize
    points = np.frombuffer(content, _POINT)[: ends[-1]]
    is_word = np.maximum.reduceat(_kinds()[points], ends[:-1]) == _LOWER
    characters = points.tobytes().decode("utf-32-le")
    return [characters[start:end] for start, end in pairwise(ends.tolist())], is_word


def _expand_tokens(
    word_codes: NDArray[np.int32],
    sizes: NDArray[np.int64],
    token_codes: NDArray[np.int32],
    counts: NDArray[np.int64],
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Replace each token by its words: `word_codes` has `sizes[n]` entries for token n, one token after the other.

    Returns the word codes of the texts, and the number of words of each text.
    """
    if (sizes == 1).all():
        return word_codes[token_codes], counts
    repeated = sizes[token_codes]
    ends = np.concatenate([[0], np.cumsum(repeated)])
    shifts = (np.cumsum(sizes) - sizes)[token_codes] - ends[:-1]
    codes = word_codes[np.repeat(shifts, repeated) + np.arange(ends[-1])]
    return codes, np.diff(ends[np.cumsum(counts)], prepend=0)
