"""Analysis of text: words in lower case, stemmed by language; characters and their pairs in scripts without spaces.

    text -> tokens (runs of letters, digits and underscores) -> words -> terms

The same code reads documents and queries. A word of a document becomes one term, by the language of its chunk; a word
of a query becomes the terms of every language in the collection.

Beside these a lexicon holds four kinds of terms, which differ from words by their characters:

    c#      a name with its signs (`mark_names`), beside its letters
    ~resum  the plain spelling of a word with accents, where the word has another term: plain words are asked for so
    Who IT  a stop word with a capital, and one in capitals, which may be an acronym or a name
    to be or, the who   neighbours that are stop words (`stop_words`): questions of stop words alone find them
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from aidre.engine.index.text import characters
from aidre.engine.index.text.characters import MARKS, NON_JOINER, UNSPACED, fold, strip_ignored
from aidre.engine.index.text.languages import (
    LANGUAGES,
    LATIN,
    LIGHT_STEMMERS,
    Language,
    all_stop_words,
    language_of_word,
)

ANALYSIS_VERSION: Final = "3"
"""Stored in each lexicon. A lexicon of another version cannot answer queries of this one and is rebuilt."""

MAX_TERM_CHARACTERS: Final = 64
"""Longer words are data, not language, and get no term."""

MIN_PLAIN_CHARACTERS: Final = 3
MAX_PLAIN_CHARACTERS: Final = 24
MAX_CACHED_CHARACTERS: Final = 24
"""Longer tokens and words bypass the caches. Callers choose the texts, so entries must be small: with the numbers of
entries below, the caches hold some megabytes in all."""

UNSPACED_RUN: Final = re.compile(rf"[{UNSPACED}]+")
_NAME_SIGN: Final = re.compile(r"[#.+@]")
TOKEN: Final = re.compile(rf"[\w{MARKS}{UNSPACED}{NON_JOINER}{characters.SIGN_MARKS}]+")
_COMPOUND: Final = re.compile(f"[a-z0-9][A-Z]|[A-Z][A-Z][a-z]|[_{NON_JOINER}]")
_HUMP: Final = re.compile("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SEAM: Final = re.compile(f"[_{NON_JOINER}]")
_TO_SPACE: Final = re.compile(r".+(?=\s)", re.DOTALL)
_TO_GAP: Final = re.compile(rf".+(?=[^\w{MARKS}{UNSPACED}])", re.DOTALL)
PIECE: Final = re.compile(r".{1,1024}(?=\s)|.{1,1024}", re.DOTALL)
"""Normalisation takes time quadratic in the length of a run of combining marks, so texts are normalised in pieces."""

PLAIN: Final = "~"
"""Prefix of the term of a plain spelling."""

RUNS: Final = (2, 3)
"""Neighbouring stop words that are a term: two where the second has a capital, and any three."""

_OPERATORS: Final = frozenset({"AND", "OR", "NOT"})
"""Words in capitals that are not acronyms in a question."""

_LETTERS_OF_NAME: Final = 1 / 16
"""Occurrences that the letters of a name count in a question, where the collection has the name with its signs: a
weight of a quarter, so that every chunk with the name comes before those with its letters alone."""

_STEMMER_LOCK: Final = threading.Lock()
"""For the cached stemmers: a stemmer has state while it works."""


# -- text to words ---------------------------------------------------------------------------------------------


def tokenize(text: str) -> list[str]:
    """The words of a document in order, in lower case.

    A compound such as `fromBytes` or `from_bytes` gives the whole and its parts; a run of characters without spaces
    gives every character and every pair of adjacent characters. A name with signs stands before its letters; a stop
    word of any language that is written with capitals stands before itself, with them.
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
    if _NAME_SIGN.search(text) is not None:
        text = characters.mark_names(text)
    return TOKEN.findall(text if text.isascii() else UNSPACED_RUN.sub(r" \g<0> ", text))


def normalize(text: str) -> str:
    """The text in Unicode's form NFKC, without characters that no reader sees."""
    if text.isascii():
        return text
    return "".join(unicodedata.normalize("NFKC", piece) for piece in PIECE.findall(strip_ignored(text)))


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


def is_plain(word: str) -> bool:
    """Whether people may be shown a word: letters alone, of a script with spaces, neither short nor long."""
    is_sized = MIN_PLAIN_CHARACTERS <= len(word) <= MAX_PLAIN_CHARACTERS
    return is_sized and word.isalpha() and (word.isascii() or UNSPACED_RUN.search(word) is None)


def token_words(token: str) -> Sequence[str]:
    """The words that a token gives in a document."""
    if UNSPACED_RUN.match(token):
        return [*token, *_pairs(token)]
    return _cached_parts(token) if len(token) <= MAX_CACHED_CHARACTERS else _parts(token)


def _pairs(token: str) -> list[str]:
    return [token[i : i + 2] for i in range(len(token) - 1)] if UNSPACED_RUN.match(token) else []


def _parts(token: str) -> tuple[str, ...]:
    """The token in lower case; a compound first as a whole without underscores, then its parts."""
    if not token.isascii():
        name, token, rest = characters.split_name(token)
        if name:
            return (name, *_parts(token), *_parts(rest)) if rest else (name, *_parts(token))
    if not _COMPOUND.search(token):
        word = token.lower()
        if token[0] == word[0] or word not in all_stop_words():
            return (word,)
        return (word.upper() if len(word) > 1 and token.isupper() else word.capitalize(), word)
    parts = [part.lower() for part in _SEAM.split(_HUMP.sub("_", token)) if part]
    return ("".join(parts), *parts) if len(parts) > 1 else tuple(parts)


_cached_parts = lru_cache(maxsize=1 << 12)(_parts)


# -- words to terms --------------------------------------------------------------------------------------------


def to_term(word: str, language: str) -> str | None:
    """The term of a word in a language (a short tag); None for a stop word, for a word with a capital that is none, and
    for a word of more than MAX_TERM_CHARACTERS."""
    if len(word) <= MAX_CACHED_CHARACTERS:
        return _cached_term(word, language)
    return _term(word, language) if len(word) <= MAX_TERM_CHARACTERS else None


def _term(word: str, language: str) -> str | None:
    rules = language_of_word(word, language)
    if word[0].isupper():
        return _capital_term(word, frozenset() if rules is None else rules.stop_words)
    return None if rules is not None and word in rules.stop_words else _stemmed(word, rules)


_cached_term = lru_cache(maxsize=1 << 13)(_term)


def _capital_term(word: str, stop_words: frozenset[str]) -> str | None:
    return word if word.lower() in stop_words else None


def _stemmed(word: str, rules: Language | None) -> str:
    """The term of a word that is not a stop word."""
    if rules is None:
        return fold(word)
    stemmable = _given(word, rules)
    if rules.stemmer is not None:
        with _STEMMER_LOCK:
            stemmable = _stemmer(rules.stemmer)(stemmable) or stemmable
    return _kept(stemmable, rules)


def _given(word: str, rules: Language | None) -> str:
    """What is stemmed of a word."""
    return word if word.isascii() or (rules is not None and rules.plain != "before") else fold(word)


def _kept(stem: str, rules: Language | None) -> str:
    return stem if stem.isascii() or (rules is not None and rules.plain == "never") else fold(stem)


def to_plain_term(word: str, language: str) -> str | None:
    """The term that a word with accents has beside `to_term` in a document, so that its plain spelling finds it; None
    where the plain spelling has the term of the word."""
    plain, rules = fold(word), language_of_word(word, language)
    if plain in (word, "") or len(word) > MAX_TERM_CHARACTERS or rules is None or rules.plain == "before":
        return None
    if word in rules.stop_words or plain in rules.stop_words or word[0].isupper():
        return None
    term = _stemmed(plain, rules)
    return None if term == _stemmed(word, rules) else PLAIN + term


def terms_of_word(word: str, language: str) -> tuple[str, ...]:
    """The terms by which documents in a language have a word of a query: a plain word is found in words with accents,
    and a word with accents in its plain spelling. No document has two of them for one word."""
    term = to_term(word, language)
    rules = language_of_word(word, language)
    if term is None or rules is None or rules.plain == "before":
        return () if term is None else (term,)
    plain = fold(word)
    if plain != word:
        other = to_term(plain, language) if plain else None  # a sign that is a word alone has no plain spelling
        return (term,) if other is None else (term, other)
    return (term, PLAIN + term) if word.isascii() and not word.isdigit() else (term,)


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
    stemmables = words if rules is not None and rules.plain != "before" else [_given(word, rules) for word in words]
    return [
        None
        if len(word) > MAX_TERM_CHARACTERS or word in stop_words
        else _capital_term(word, stop_words)
        if word[0].isupper()
        else stem or plain
        if stem.isascii()
        else _kept(stem, rules)
        for word, plain, stem in zip(
            words, stemmables, _stems(stemmables, None if rules is None else rules.stemmer), strict=True
        )
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


def english_terms(words: Iterable[str]) -> set[str]:
    """English stems, by which texts of any language are compared: its words are cut alike in all of them."""
    return {term for word in set(words) if (term := to_term(word, "en")) is not None}


class QueryTerms(NamedTuple):
    """A word of a query: its distinct terms in the languages of a collection, the languages in which it is a stop word
    and so has none, and how often it occurs."""

    terms: tuple[str, ...]
    stop_in: tuple[str, ...] = ()
    occurrences: float = 1


class _TokenReading(NamedTuple):
    """What a token of a query asks for: its words; and where it is a name with signs, the terms of that, and the words
    that are asked for beside it. `stop_words` are its words where each is one in some language, `capitals` is such a
    token if it has some."""

    words: tuple[QueryTerms, ...]
    name: tuple[str, ...] = ()
    beside: tuple[QueryTerms, ...] = ()
    stop_words: tuple[str, ...] = ()
    capitals: str = ""


def query_terms(text: str, languages: Sequence[str], is_held: Callable[[str], bool] = bool) -> list[QueryTerms]:
    """The words of a query, each once, without those that are stop words in all of the languages.

    A question of stop words alone is one for places where they stand as in it, and for those where they have capitals.
    `is_held` says whether the collection has a term: where it has not, a name with signs is its letters.
    """
    tags = tuple(languages)
    readings = [reading for token in _tokens(text) if (reading := _reading_of(token, tags))]
    words: dict[tuple[str, ...], QueryTerms] = {}
    acronyms = []
    for own, name, beside, _, capitals in readings:
        if capitals and capitals[1:].isupper() and capitals not in _OPERATORS:
            acronyms.append(capitals)
        for word in (QueryTerms(name), *beside) if name and any(map(is_held, name)) else own:
            terms = word[0]
            words[terms] = _joined(words[terms], word) if terms in words else word
    more: Iterable[tuple[str, ...]] = ()
    if readings and all(reading.stop_words for reading in readings):
        more = _stop_word_terms(readings, is_held)
    elif acronyms and not text.isupper():
        more = ((acronym,) for acronym in acronyms)
    for terms in more:
        words[terms] = _joined(words[terms], QueryTerms(terms)) if terms in words else QueryTerms(terms)
    return list(words.values())


def _joined(term: QueryTerms, other: QueryTerms) -> QueryTerms:
    """Two words of the same terms as one."""
    stop_in = term.stop_in if term.stop_in == other.stop_in else tuple(dict.fromkeys((*term.stop_in, *other.stop_in)))
    return QueryTerms(term.terms, stop_in, term.occurrences + other.occurrences)


def _stop_word_terms(readings: Sequence[_TokenReading], is_held: Callable[[str], bool]) -> Iterator[tuple[str, ...]]:
    """The terms of a question of stop words alone: its runs, and each word with a capital."""
    words = [word for reading in readings for word in reading.stop_words]
    for length in RUNS:
        yield from ((" ".join(words[n : n + length]),) for n in range(len(words) - length + 1))
    for reading in readings:
        if reading.capitals and is_held(reading.capitals):
            yield (reading.capitals,)
        else:
            yield from (tuple(dict.fromkeys((word.capitalize(), word.upper()))) for word in reading.stop_words)


def _read(token: str, languages: tuple[str, ...]) -> _TokenReading | None:
    """What a token asks for in documents of these languages; None where it has no word."""
    name, letters, rest = ("", token, "") if token.isascii() else characters.split_name(token)
    words = [*_query_words(letters)]
    capitals = words.pop(0) if words and words[0][0].isupper() else ""
    word_terms = _asked(words, languages)
    if name:
        rest_asked = _asked([*_query_words(rest)] if rest else [], languages)
        beside = () if len(letters) == 1 else (word._replace(occurrences=_LETTERS_OF_NAME) for word in word_terms)
        terms = tuple(term for tag in languages if (term := to_term(name, tag)) is not None)
        return _TokenReading((*word_terms, *rest_asked), tuple(dict.fromkeys(terms)), (*beside, *rest_asked))
    has_stop_words = len(word_terms) < len(words) or any(word.stop_in for word in word_terms)
    is_stop_word = has_stop_words and all(any(_is_stop_word(word, tag) for tag in languages) for word in words)
    if not words or not (word_terms or is_stop_word):
        return None
    return _TokenReading(word_terms, (), (), tuple(words), capitals) if is_stop_word else _TokenReading(word_terms)


def _asked(words: Sequence[str], languages: tuple[str, ...]) -> tuple[QueryTerms, ...]:
    """The words that have terms in documents of these languages."""
    terms_of_words = []
    for word in words:
        applicable = languages[:1] if UNSPACED_RUN.match(word) else languages  # an unspaced word has one term in all
        by_language = {tag: terms_of_word(word, tag) for tag in applicable}
        terms = tuple(dict.fromkeys(term for own in by_language.values() for term in own))
        if terms:
            terms_of_words.append(QueryTerms(terms, tuple(tag for tag, own in by_language.items() if not own)))
    return tuple(terms_of_words)


def _is_stop_word(word: str, language: str) -> bool:
    rules = language_of_word(word, language)
    return rules is not None and word in rules.stop_words


_cached_reading = lru_cache(maxsize=5 << 10)(_read)


def _reading_of(token: str, languages: tuple[str, ...]) -> _TokenReading | None:
    return (_cached_reading if len(token) <= MAX_CACHED_CHARACTERS else _read)(token, languages)


def required_words(text: str, languages: Sequence[str]) -> list[tuple[str, ...]]:
    """The words that each chunk with this text has, in whatever of these languages it is: the terms of each."""
    tags = tuple(languages)
    readings = (_reading_of(token, tags) for token in _tokens(text))
    return [word.terms for reading in readings if reading is not None for word in reading.words if not word.stop_in]


def words_met(question: str, text: str) -> tuple[float, bool]:
    """The share of a question's words that a text contains, and whether it contains a code of the question."""
    words = tokenize_query(question)
    english = english_terms(words)
    if not english:  # stop words alone
        wanted = set(words)
        return len(wanted.intersection(tokenize(text))) / len(wanted) if wanted else 0.0, False
    # Few stems begin otherwise than their words, and to stem all words of the text would take most of the time.
    starts = {word[:2] for word in (*words, *english)}
    near = (word for word in set(tokenize(text)) if word[:2] in starts or not word.isascii())
    met = english & english_terms(near)
    has_code = any(english_terms(tokenize_query(code)) <= met for code in find_codes(question))
    return len(met) / len(english), has_code


# -- codes -----------------------------------------------------------------------------------------------------


_MAX_CODES: Final = 8
"""Codes of a query that count; a query of more is a list, in which none stands out."""
_WORD: Final = re.compile(r"(?<![^\W_])(?=[^\s\d]{0,63}\d)[^\W_][\w./:+#-]{1,62}[^\W_](?![^\W_])")
"""A word with a digit in it, and signs inside; every repetition is bounded, so that a long text takes linear time."""
_DIGIT: Final = re.compile(r"\d")
_SIGNS: Final = re.compile(r"[\W_]+")
_PLAIN: Final = re.compile(
    r"\d{1,3}[a-z]{1,2}|\d{1,6}(?:st|nd|rd|th|s)"
    r"|[1-9]\d{3,5}(?:[kmgt]b|[mcknµ]?m|[mk]?g|[mcd]?l|[kmg]?[vw]|[kmg]?hz|[mnu]s|px|pt|ft|lb|oz|hp|cc|am|pm|[hk])"
)
"""Ordinals, decades, and numbers with a unit: 21st, 1980s, 15mm, 1024px. Of four digits or more only those with a unit
that is known here are quantities."""
_MIN_DIGITS: Final = 5
"""Digits from which a number counts as a code, not as a quantity."""
_SEQUENCE: Final = re.compile(r"(?<![^\W_])[^\W_]+(?:[./:#@+_-]{1,2}[^\W_]+){1,15}(?![^\W_])")
_INNER_SIGN: Final = re.compile(r"[\d./:#@+_]")
_LETTERS: Final = re.compile(r"[^\W\d_](?:[./][^\W\d_])+")


def find_codes(text: str) -> list[str]:
    """The words of a query that look like codes, each once, in order."""
    words = _WORD.findall(text) if _DIGIT.search(text) else []
    return [word for word in dict.fromkeys(words) if _is_code(word)][:_MAX_CODES]


def _is_code(word: str) -> bool:
    """Whether a word with a digit belongs to no language: letters and digits in one part (`TR4410`, `sha256`), capitals
    or few letters beside a number (`AB-1234`, `ab-1234`), a long number or one of many parts (`2.13.0`)."""
    parts = _SIGNS.split(word)
    numbers, letters = [part for part in parts if part.isdigit()], [part for part in parts if part.isalpha()]
    if any(not part.isdigit() and not part.isalpha() and not _PLAIN.fullmatch(part) for part in parts):
        return True
    if not numbers:
        return False
    if letters:
        few = all(len(part) <= 3 for part in letters) and max(map(len, numbers)) >= 3
        return few or any(part.isupper() and len(part) > 1 for part in letters)
    if len(numbers) == 2:
        is_long = max(map(len, numbers)) >= _MIN_DIGITS or sum(map(len, numbers)) >= 2 * _MIN_DIGITS - 2
        return is_long and "." not in word and not all(len(number) == 4 and number[0] in "12" for number in numbers)
    if len(numbers) == 1:
        return len(numbers[0]) >= _MIN_DIGITS
    return len(numbers) != len(parts) or not _is_date(numbers)


def _is_date(numbers: Sequence[str]) -> bool:
    return len(numbers) == 3 and sorted(map(len, numbers))[-1] == 4


def find_sequences(text: str) -> list[str]:
    """The words of a query that have parts whose order counts: dates, versions, addresses, paths; each once, in order.

    Words with hyphens alone, such as `well-known`, are none, and abbreviations of letters, such as `e.g`.
    """
    if _INNER_SIGN.search(text) is None:
        return []
    found = dict.fromkeys(_SEQUENCE.findall(text))
    ordered = [
        sequence for sequence in found if _INNER_SIGN.search(sequence) is not None and not _LETTERS.fullmatch(sequence)
    ]
    return ordered[:_MAX_CODES]
