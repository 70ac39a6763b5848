"""Text to terms: words in lower case, stemmed by their language; character bigrams in scripts without spaces.

The same code reads documents and queries. A document's word becomes one term, by the language of its chunk; a word of
a query becomes the terms of every language that the collection has.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from aidre.engine.languages import LANGUAGES
from aidre.engine.words import is_fresh

ANALYSIS: Final = "1"
"""Names this analysis in lexicons: one of another analysis cannot answer and is built anew."""

LONGEST: Final = 64
"""Characters of the longest word that is a term: longer ones are data, not language."""

REMEMBERED: Final = 24
"""Characters of the longest word that is looked for among those that came before: whoever sends texts decides what is
remembered, so an entry is small, and there are few (some megabytes in all)."""

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
RUN: Final = re.compile(rf"[{_UNSPACED}]+")
TOKEN: Final = re.compile(rf"[\w{_MARKS}{_UNSPACED}]+")
_COMPOUND: Final = re.compile("[a-z0-9][A-Z]|[A-Z][A-Z][a-z]|_")
_HUMP: Final = re.compile("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_TO_SPACE: Final = re.compile(r".+(?=\s)", re.DOTALL)
_TO_GAP: Final = re.compile(rf".+(?=[^\w{_MARKS}{_UNSPACED}])", re.DOTALL)
_PIECE: Final = re.compile(r".{1,1024}(?=\s)|.{1,1024}", re.DOTALL)
"""A run of combining marks takes the square of its length to be put in order, so texts are taken in pieces."""

_STEMMING: Final = threading.Lock()
"""A stemmer keeps state while it works."""


def words(text: str) -> list[str]:
    """The words of a document in order, in lower case.

    Of a compound such as `fromBytes` or `from_bytes` the whole and its parts, of a run of characters without spaces
    every character and every pair.
    """
    return [word for token in _tokens(text) for word in words_of(token)]


def query_words(text: str) -> list[str]:
    """The same of a query, but of a run without spaces its pairs alone, or its one character."""
    return [word for token in _tokens(text) for word in _asked_words(token)]


def _asked_words(token: str) -> Sequence[str]:
    return _pairs(token) or words_of(token)


def _tokens(text: str) -> list[str]:
    """The runs of letters, digits and underscores of one text, those of scripts without spaces apart."""
    text = normalised(text)
    return TOKEN.findall(text if text.isascii() else RUN.sub(r" \g<0> ", text))


def normalised(text: str) -> str:
    """One form for characters that Unicode has several of."""
    if text.isascii():
        return text
    return "".join(unicodedata.normalize("NFKC", piece) for piece in _PIECE.findall(text))


def cut(text: str, most: int) -> list[str]:
    """A text in pieces of so many characters at most, cut between two tokens unless there is none to cut after."""
    pieces, start = [], 0
    while len(text) - start > most:
        window = start, start + most + 1
        found = _TO_SPACE.match(text, *window) or _TO_GAP.match(text, *window)
        end = start + most if found is None else found.end()
        pieces.append(text[start:end])
        start = end
    return [*pieces, text[start:]]


def words_of(token: str) -> Sequence[str]:
    """The words that a document has of one of its tokens."""
    if RUN.match(token):
        return [*token, *_pairs(token)]
    return _known_parts(token) if len(token) <= REMEMBERED else _parts(token)


def _pairs(token: str) -> list[str]:
    return [token[place : place + 2] for place in range(len(token) - 1)] if RUN.match(token) else []


def _parts(token: str) -> tuple[str, ...]:
    """A token in lower case; of a compound the whole first, without underscores."""
    if not _COMPOUND.search(token):
        return (token.lower(),)
    parts = [part.lower() for part in _HUMP.sub("_", token).split("_") if part]
    return ("".join(parts), *parts) if len(parts) > 1 else tuple(parts)


_known_parts = lru_cache(maxsize=1 << 12)(_parts)


def term(word: str, language: str) -> str | None:
    """The term of a word in a language (a short tag); None for a stop word and for what is too long to be a word."""
    if len(word) <= REMEMBERED:
        return _known_term(word, language)
    return _term(word, language) if len(word) <= LONGEST else None


def _term(word: str, language: str) -> str | None:
    known = LANGUAGES.get(language)
    if known is None or RUN.match(word):
        return _folded(word)
    if word in known.stop_words:
        return None
    with _STEMMING:
        stem = _stemmer(known.stemmer)(word)
    return _folded(stem or word)


_known_term = lru_cache(maxsize=1 << 13)(_term)


@lru_cache(maxsize=64)
def _stemmer(algorithm: str) -> Callable[[str], str]:
    import Stemmer

    stem: Callable[[str], str] = Stemmer.Stemmer(algorithm, 0).stemWord
    return stem


def terms(words: Sequence[str], language: str) -> list[str | None]:
    """The `term` of each of many words, remembering none."""
    known = LANGUAGES.get(language)
    stems: Sequence[str]
    if known is None:
        stems, stop_words = words, frozenset[str]()
    else:
        import Stemmer

        # A stemmer of its own: another thread need not wait for all these words.
        stems, stop_words = Stemmer.Stemmer(known.stemmer, 0).stemWords(words), known.stop_words
    return [
        None
        if len(word) > LONGEST or word in stop_words
        else (stem or word)
        if stem.isascii()
        else _folded(word if RUN.match(word) else stem or word)
        for word, stem in zip(words, stems, strict=True)
    ]


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
    for token in _tokens(text):
        found = _known_variants if len(token) <= REMEMBERED else _variants
        for variants in found(token, tuple(languages)):
            asked[variants] = asked.get(variants, 0) + 1
    return asked


def _variants(token: str, languages: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The terms in these languages of each word that a query has of one of its tokens."""
    spoken = languages[:1] if RUN.match(token) else languages  # without spaces a word is the same term in each
    terms_of = (filter(None, (term(word, language) for language in spoken)) for word in _asked_words(token))
    return tuple(variants for variants in map(tuple, map(dict.fromkeys, terms_of)) if variants)


_known_variants = lru_cache(maxsize=1 << 13)(_variants)


@lru_cache(maxsize=1)
def _recognised() -> tuple[tuple[str, frozenset[str]], ...]:
    """The languages that can be told by their stop words, the default one first: it wins a tie."""
    by_tag = [(tag, language.stop_words) for tag, language in LANGUAGES.items() if language.stop_words]
    return tuple(sorted(by_tag, key=lambda pair: pair[0] != DEFAULT))


def recognised(places: Mapping[str, int], codes: NDArray[np.int32], rows: NDArray[np.int32], size: int) -> list[str]:
    """The language of each of `size` rows by its stop words: `rows[i]` has the word whose place is `codes[i]`."""
    candidates = _recognised()
    known = [word for word in frozenset().union(*(stop_words for _, stop_words in candidates)) if word in places]
    weights = np.array([[(word in each) * (2 if word > "\u024f" else 1) for word in known] for _, each in candidates])
    numbers = np.full(len(places), -1, np.int32)
    numbers[[places[word] for word in known]] = np.arange(len(known))
    said = numbers[codes]
    keys = rows[said >= 0].astype(np.int64)
    keys *= len(known)
    keys += said[said >= 0]
    keys.sort()
    places_said, said = np.divmod(keys[is_fresh(keys)], max(1, len(known)))
    # Few rows can be of another language than the default one: only they are looked at closely.
    other, default = (np.bincount(places_said, of[said], size) for of in (weights[1:].max(axis=0), weights[0]))
    doubtful = (other >= LEAST_EVIDENCE) & (other >= 2 * default)
    mine = doubtful[places_said]
    places_of = np.cumsum(doubtful) - 1
    evidence = np.stack([np.bincount(places_of[places_said[mine]], of[said[mine]], doubtful.sum()) for of in weights])
    best, most = evidence.argmax(axis=0), evidence.max(axis=0, initial=0)
    best[(most < LEAST_EVIDENCE) | (most < 2 * evidence[0])] = 0
    languages = np.zeros(size, np.intp)
    languages[doubtful] = best
    return [candidates[place][0] for place in languages.tolist()]
