"""Analysis of text: words in lower case, stemmed by language; characters and their pairs in scripts without spaces.

    text -> tokens (runs of letters, digits and underscores) -> words -> terms

The same code reads documents and queries. A word of a document becomes one term, by the language of its chunk; a word
of a query becomes the terms of every language in the collection.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from aidre.engine.index.text.languages import LANGUAGES, Language, language_of_word
from aidre.engine.index.text.light_stemmers import LIGHT_STEMMERS
from aidre.engine.index.text.scripts import LATIN

ANALYSIS_VERSION: Final = "2"
"""Stored in each lexicon. A lexicon of another version cannot answer queries of this one and is rebuilt."""

MAX_TERM_CHARACTERS: Final = 64
"""Longer words are data, not language, and get no term."""

MAX_CACHED_CHARACTERS: Final = 24
"""Longer tokens and words bypass the caches. Callers choose the texts, so entries must be small: with the numbers of
entries below, the caches hold some megabytes in all."""

# \w matches letters and digits but no combining marks, without which words of Indic and other scripts would be split.
MARKS: Final = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0711\u0730-\u074a\u07a6-\u07b0\u0816-\u082d\u0900-\u0903"
    "\u093a-\u094f\u0951-\u0957\u0962\u0963\u0981-\u0983\u09bc-\u09cd\u09d7\u0a01-\u0a03\u0a3c-\u0a4d\u0a70\u0a71"
    "\u0a81-\u0a83\u0abc-\u0acd\u0b01-\u0b03\u0b3c-\u0b57\u0b82\u0bbe-\u0bcd\u0bd7\u0c00-\u0c04\u0c3e-\u0c56"
    "\u0c81-\u0c83\u0cbc-\u0cd6\u0d00-\u0d03\u0d3b-\u0d4d\u0d57\u0d81-\u0d83\u0dca-\u0ddf\u1dc0-\u1dff\u20d0-\u20f0"
)
# Han, kana, Bopomofo, Thai, Lao, Tibetan, Myanmar and Khmer; and Hangul, which attaches particles to words.
UNSPACED: Final = (
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3041-\u3096\u3099-\u30fa"
    "\u30fc-\u30ff\u3105-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f"
    "\uac00-\ud7ff\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
UNSPACED_RUN: Final = re.compile(rf"[{UNSPACED}]+")
TOKEN: Final = re.compile(rf"[\w{MARKS}{UNSPACED}]+")
_COMPOUND: Final = re.compile("[a-z0-9][A-Z]|[A-Z][A-Z][a-z]|_")
_HUMP: Final = re.compile("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_TO_SPACE: Final = re.compile(r".+(?=\s)", re.DOTALL)
_TO_GAP: Final = re.compile(rf".+(?=[^\w{MARKS}{UNSPACED}])", re.DOTALL)
PIECE: Final = re.compile(r".{1,1024}(?=\s)|.{1,1024}", re.DOTALL)
"""Normalisation takes time quadratic in the length of a run of combining marks, so texts are normalised in pieces."""

_STEMMER_LOCK: Final = threading.Lock()
"""For the cached stemmers: a stemmer has state while it works."""


# -- text to words ---------------------------------------------------------------------------------------------


def tokenize(text: str) -> list[str]:
    """The words of a document in order, in lower case.

    A compound such as `fromBytes` or `from_bytes` gives the whole and its parts; a run of characters without spaces
    gives every character and every pair of adjacent characters.
    """
    return [word for token in _tokens(text) for word in token_words(token)]


def tokenize_query(text: str) -> list[str]:
    """The words of a query: as for a document, but a run without spaces gives only its pairs, or its one character."""
    return [word for token in _tokens(text) for word in _query_words(token)]


def query_tokens(text: str) -> dict[str, None]:
    """The distinct runs of letters, digits and underscores of a query, in order."""
    return dict.fromkeys(_tokens(text))


def _query_words(token: str) -> Sequence[str]:
    return _pairs(token) or token_words(token)


def _tokens(text: str) -> list[str]:
    """The runs of letters, digits and underscores, separated from runs of scripts without spaces."""
    text = normalize(text)
    return TOKEN.findall(text if text.isascii() else UNSPACED_RUN.sub(r" \g<0> ", text))


def normalize(text: str) -> str:
    """The text in Unicode's form NFKC."""
    if text.isascii():
        return text
    return "".join(unicodedata.normalize("NFKC", piece) for piece in PIECE.findall(text))


def split_text(text: str, max_characters: int) -> list[str]:
    """The text in pieces of at most `max_characters`, split between tokens, or within one that is longer."""
    pieces, start = [], 0
    while len(text) - start > max_characters:
        window = start, start + max_characters + 1
        match_ = _TO_SPACE.match(text, *window) or _TO_GAP.match(text, *window)
        end = start + max_characters if match_ is None else match_.end()
        pieces.append(text[start:end])
        start = end
    return [*pieces, text[start:]]


def token_words(token: str) -> Sequence[str]:
    """The words that a token gives in a document."""
    if UNSPACED_RUN.match(token):
        return [*token, *_pairs(token)]
    return _cached_parts(token) if len(token) <= MAX_CACHED_CHARACTERS else _parts(token)


def _pairs(token: str) -> list[str]:
    return [token[i : i + 2] for i in range(len(token) - 1)] if UNSPACED_RUN.match(token) else []


def _parts(token: str) -> tuple[str, ...]:
    """The token in lower case; a compound first as a whole without underscores, then its parts."""
    if not _COMPOUND.search(token):
        return (token.lower(),)
    parts = [part.lower() for part in _HUMP.sub("_", token).split("_") if part]
    return ("".join(parts), *parts) if len(parts) > 1 else tuple(parts)


_cached_parts = lru_cache(maxsize=1 << 12)(_parts)


# -- words to terms --------------------------------------------------------------------------------------------


def to_term(word: str, language: str) -> str | None:
    """The term of a word in a language (a short tag); None for a stop word and a word of more than
    MAX_TERM_CHARACTERS."""
    if len(word) <= MAX_CACHED_CHARACTERS:
        return _cached_term(word, language)
    return _term(word, language) if len(word) <= MAX_TERM_CHARACTERS else None


def _term(word: str, language: str) -> str | None:
    rules = language_of_word(word, language)
    if rules is None or rules.stemmer is None:
        return None if rules is not None and word in rules.stop_words else _fold_accents(word)
    if word in rules.stop_words:
        return None
    with _STEMMER_LOCK:
        stem = _stemmer(rules.stemmer)(word)
    return _fold_accents(stem or word)


_cached_term = lru_cache(maxsize=1 << 13)(_term)


@lru_cache(maxsize=64)
def _stemmer(algorithm: str) -> Callable[[str], str]:
    if algorithm in LIGHT_STEMMERS:
        return LIGHT_STEMMERS[algorithm]
    import Stemmer

    stem: Callable[[str], str] = Stemmer.Stemmer(algorithm, 0).stemWord
    return stem


def to_terms(words: Sequence[str], language: str) -> list[str | None]:
    """`to_term` of many words at once, without the caches."""
    rules = LANGUAGES.get(language)
    terms = _terms(words, rules)
    if rules is None:
        return terms
    of_other_languages: dict[Language | None, list[int]] = {}
    has_latin = LATIN in rules.scripts
    for position in [n for n, word in enumerate(words) if not (has_latin and word.isascii())]:
        of_word = language_of_word(words[position], language)
        if of_word is not rules:
            of_other_languages.setdefault(of_word, []).append(position)
    for other, positions in of_other_languages.items():
        for position, term in zip(positions, _terms([words[n] for n in positions], other), strict=True):
            terms[position] = term
    return terms


def _terms(words: Sequence[str], rules: Language | None) -> list[str | None]:
    """The terms of words that are all of one language."""
    stop_words = frozenset[str]() if rules is None else rules.stop_words
    return [
        None
        if len(word) > MAX_TERM_CHARACTERS or word in stop_words
        else (stem or word)
        if stem.isascii()
        else _fold_accents(stem or word)
        for word, stem in zip(words, _stems(words, None if rules is None else rules.stemmer), strict=True)
    ]


def _stems(words: Sequence[str], algorithm: str | None) -> Sequence[str]:
    if algorithm is None:
        return words
    if algorithm in LIGHT_STEMMERS:
        return list(map(LIGHT_STEMMERS[algorithm], words))
    import Stemmer

    # A stemmer of its own, so that no other thread waits for the lock until all words are done.
    stems: Sequence[str] = Stemmer.Stemmer(algorithm, 0).stemWords(words)
    return stems


def _fold_accents(word: str) -> str:
    """The word without accents on Latin letters, so that cafe finds café."""
    if word.isascii():
        return word
    folded: list[str] = []
    for letter in unicodedata.normalize("NFD", word):
        if unicodedata.combining(letter) and folded and folded[-1].isascii():
            continue
        folded.append(letter)
    return unicodedata.normalize("NFC", "".join(folded))


class QueryTerms(NamedTuple):
    """The words of a query, each as its distinct terms in the languages of a collection, without those that are stop
    words in all of them: how often each occurs; and of those that are stop words in some, and so have no term there,
    these languages."""

    occurrences: dict[tuple[str, ...], int]
    stop_in: dict[tuple[str, ...], frozenset[str]]


def query_terms(text: str, languages: Sequence[str]) -> QueryTerms:
    words = QueryTerms({}, {})
    occurrences, stop_in = words
    languages = tuple(languages)
    for token in _tokens(text):
        variants_of = _cached_variants if len(token) <= MAX_CACHED_CHARACTERS else _variants
        variants, stops = variants_of(token, languages)
        for terms in variants:
            occurrences[terms] = occurrences.get(terms, 0) + 1
        if stops:
            for terms, tags in zip(variants, stops, strict=True):
                stop_in[terms] = stop_in.get(terms, frozenset()) | frozenset(tags)
    return words


def analyze_query(text: str, languages: Sequence[str]) -> dict[tuple[str, ...], int]:
    """The words of a query, each as its distinct terms in these languages, with the number of its occurrences.

    Words that are stop words in all of the languages are left out.
    """
    return query_terms(text, languages).occurrences


Variants: TypeAlias = tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]]
"""Of each word the terms; and the languages in which it is a stop word, empty where no word is one in any."""


def _variants(token: str, languages: tuple[str, ...]) -> Variants:
    """The words that the token gives in a query, in these languages."""
    applicable = languages[:1] if UNSPACED_RUN.match(token) else languages  # an unspaced word has one term in all
    words = []
    for word in _query_words(token):
        by_language = {language: to_term(word, language) for language in applicable}
        terms = tuple(dict.fromkeys(term for term in by_language.values() if term is not None))
        if terms:
            words.append((terms, tuple(tag for tag, term in by_language.items() if term is None)))
    stop_in = tuple(stop_in for _, stop_in in words)
    return tuple(terms for terms, _ in words), stop_in if any(stop_in) else ()


_cached_variants = lru_cache(maxsize=1 << 13)(_variants)
