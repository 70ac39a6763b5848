"""Text to terms: words in lower case, stemmed by their language; character bigrams in scripts without spaces.

The same code reads documents and queries. A document's word becomes one term, by the language of its chunk; a word of
a query becomes the terms of every language that the collection has.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from aidre.engine.languages import LANGUAGES

ANALYSIS: Final = "1"
"""Names this analysis in lexicons: one of another analysis cannot answer and is built anew."""

LONGEST: Final = 64
"""Characters of the longest word that is a term: longer ones are data, not language."""

DEFAULT: Final = "en"
LEAST_EVIDENCE: Final = 3
"""So many different stop words of another language, and twice as many as of the default one, make a text one of it:
every language has words that mean more in another. A word beyond the Latin alphabet, where this is rare, counts twice.
"""

# Letters and digits are \w; combining marks, without which words of Indic and other scripts fall apart, are not.
_MARKS: Final = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0711\u0730-\u074a\u07a6-\u07b0\u0816-\u082d\u0900-\u0903"
    "\u093a-\u094f\u0951-\u0957\u0962\u0963\u0981-\u0983\u09bc-\u09cd\u09d7\u0a01-\u0a03\u0a3c-\u0a4d\u0a70\u0a71"
    "\u0a81-\u0a83\u0abc-\u0acd\u0b01-\u0b03\u0b3c-\u0b57\u0b82\u0bbe-\u0bcd\u0bd7\u0c00-\u0c04\u0c3e-\u0c56"
    "\u0c81-\u0c83\u0cbc-\u0cd6\u0d00-\u0d03\u0d3b-\u0d4d\u0d57\u0d81-\u0d83\u0dca-\u0ddf\u1dc0-\u1dff\u20d0-\u20f0"
)
# Han, kana, Thai, Lao, Tibetan, Myanmar, Khmer; and Hangul, whose words carry their particles.
_UNSPACED: Final = (
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3041-\u3096\u3099-\u30fa"
    "\u30fc-\u30ff\u3105-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f"
    "\uac00-\ud7ff\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_RUN: Final = re.compile(rf"[{_UNSPACED}]+")
_WORD: Final = re.compile(rf"[\w{_MARKS}{_UNSPACED}]+")
_COMPOUND: Final = re.compile("[a-z0-9][A-Z]|[A-Z][A-Z][a-z]|_")
_HUMP: Final = re.compile("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_PIECE: Final = re.compile(r".{1,1024}(?=\s)|.{1,1024}", re.DOTALL)
"""A run of combining marks takes the square of its length to be put in order, so texts are taken in pieces."""

_STEMMING: Final = threading.Lock()
"""A stemmer keeps state while it works."""


def words(text: str) -> list[str]:
    """The words of a document in order, in lower case.

    Of a compound such as `fromBytes` or `from_bytes` the whole and its parts, of a run of characters without spaces
    every character and every pair.
    """
    return _words(text, alone=True)


def query_words(text: str) -> list[str]:
    """The same of a query, but of a run without spaces its pairs alone, or its one character."""
    return _words(text, alone=False)


def _words(text: str, *, alone: bool) -> list[str]:
    if not text.isascii():
        text = "".join(unicodedata.normalize("NFKC", piece) for piece in _PIECE.findall(text))
        if _RUN.search(text):
            separate = _WORD.findall(_RUN.sub(r" \g<0> ", text))
            return [word for run in separate for word in _grams(run, alone=alone)]
    if _COMPOUND.search(text):
        return [part for word in _WORD.findall(text) for part in _parts(word)]
    return _WORD.findall(text.lower())


def _grams(run: str, *, alone: bool) -> Sequence[str]:
    if not _RUN.match(run):
        return _parts(run)
    pairs = [run[place : place + 2] for place in range(len(run) - 1)]
    return [*run, *pairs] if alone or not pairs else pairs


def _parts(word: str) -> tuple[str, ...]:
    """A word in lower case; of a compound the whole first, without underscores."""
    return _known_parts(word) if len(word) <= LONGEST else _split(word)


@lru_cache(maxsize=1 << 16)
def _known_parts(word: str) -> tuple[str, ...]:
    return _split(word)


def _split(word: str) -> tuple[str, ...]:
    if not _COMPOUND.search(word):
        return (word.lower(),)
    parts = [part.lower() for part in _HUMP.sub("_", word).split("_") if part]
    return ("".join(parts), *parts) if len(parts) > 1 else tuple(parts)


def term(word: str, language: str) -> str | None:
    """The term of a word in a language (a short tag); None for a stop word and for what is too long to be a word."""
    return _term(word, language) if len(word) <= LONGEST else None


@lru_cache(maxsize=1 << 17)
def _term(word: str, language: str) -> str | None:
    known = LANGUAGES.get(language)
    if known is None or _RUN.match(word):
        return _folded(word)
    if word in known.stop_words:
        return None
    with _STEMMING:
        stem = _stemmer(known.stemmer)(word)
    return _folded(stem or word)


@lru_cache(maxsize=64)
def _stemmer(algorithm: str) -> Callable[[str], str]:
    import Stemmer

    stem: Callable[[str], str] = Stemmer.Stemmer(algorithm, 0).stemWord
    return stem


def _folded(word: str) -> str:
    """Latin letters without their accents, so that cafe finds café."""
    if word.isascii():
        return word
    folded: list[str] = []
    for letter in unicodedata.normalize("NFD", word):
        if unicodedata.combining(letter) and folded and folded[-1].isascii():
            continue
        folded.append(letter)
    return unicodedata.normalize("NFC", "".join(folded))


def query_terms(text: str, languages: Sequence[str]) -> dict[tuple[str, ...], int]:
    """What a query asks for: each word as its terms in these languages, with how often it is asked.

    Words that say nothing in every one of the languages are left out.
    """
    asked: dict[tuple[str, ...], int] = {}
    for word, times in Counter(query_words(text)).items():
        # Without spaces a word is the same term in every language.
        spoken = languages[:1] if _RUN.match(word) else languages
        variants = tuple(dict.fromkeys(filter(None, (term(word, language) for language in spoken))))
        if variants:
            asked[variants] = asked.get(variants, 0) + times
    return asked


@lru_cache(maxsize=1)
def _recognised() -> tuple[tuple[str, frozenset[str]], ...]:
    """The languages that can be told by their stop words, the default one first: it wins a tie."""
    by_tag = [(tag, language.stop_words) for tag, language in LANGUAGES.items() if language.stop_words]
    return tuple(sorted(by_tag, key=lambda pair: pair[0] != DEFAULT))


def recognised(vocabulary: Sequence[str], codes: NDArray[np.int32], rows: NDArray[np.int64], size: int) -> list[str]:
    """The language of each of `size` rows by its stop words; word `codes[i]` of the vocabulary stands in `rows[i]`."""
    candidates = _recognised()
    known = frozenset().union(*(stop_words for _, stop_words in candidates))
    relevant = np.fromiter((word in known for word in vocabulary), np.bool_, len(vocabulary))
    chosen = relevant[codes] if len(codes) else np.zeros(0, np.bool_)
    said = np.unique(rows[chosen] << 32 | codes[chosen])
    rows, codes = said >> 32, (said & 0xFFFFFFFF).astype(np.int32)
    weights = np.fromiter((2 if word > "\u024f" else 1 for word in vocabulary), np.int64, len(vocabulary))
    evidence = np.zeros((len(candidates), size))
    for place, (_, stop_words) in enumerate(candidates):
        stops = np.fromiter((word in stop_words for word in vocabulary), np.bool_, len(vocabulary))
        mine = stops[codes]
        evidence[place] = np.bincount(rows[mine], weights[codes[mine]], size)
    best, most = evidence.argmax(axis=0), evidence.max(axis=0, initial=0)
    best[(most < LEAST_EVIDENCE) | (most < 2 * evidence[0])] = 0
    return [candidates[place][0] for place in best.tolist()]
