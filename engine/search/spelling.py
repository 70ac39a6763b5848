"""Repairs typing errors in a query and completes its last word, from the words of all segments of a generation.

A word is a typing error only if no live chunk has a term of it, and if it is not a common English word: a collection
lacks many of these, and their neighbours mean something else. It becomes, by the first of these that there is,

1. the most frequent word of the collection that differs by one letter, of equally frequent ones the first; but two
   words of the collection that it is made of, where the rarer of them is _CLEARLY_MORE times as frequent;
2. two such words; stop words of the languages of the collection are as frequent as can be;
3. in a question in English, a common English word that differs by one letter;
4. two words one of which is common in English, in such a question;
5. the most frequent word of the collection that is long and differs by two letters, where a word counts _SAME_FIRST
   times if the first letter is the same, and half for each letter more or less.

Two neighbours become one word where that is in the collection and _CLEARLY_MORE times as frequent as the rarer of the
two: parts of a word are rare or no words at all. Where the collection has none of the three, the one word may be
English.

What is in quotation marks, and parts of what looks like a code, an address or a path, are left alone. `slips.py` says
which words are not taken for each other, however near they are. On six test collections (`bench_typos`) the first
letter and the length of a word told as much about the right one as the other words of the question did.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, reduce
from math import inf
from operator import itemgetter, or_
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aidre.engine.embedding import default_vocabulary
from aidre.engine.index.text import (
    DEFAULT_LANGUAGE,
    LANGUAGES,
    TOKEN,
    Language,
    WordCounts,
    Words,
    hash_of,
    hashes_of_one,
    hashes_of_two,
    is_affix,
    is_plain,
    likely_language,
    may_be_slip,
    normalize,
    share_ending,
    terms_of_word,
    token_words,
)
from aidre.engine.search.bm25 import Statistics
from aidre.engine.segment import SegmentView

MIN_CORRECTED: Final = 3
"""Letters of a word that may be a typing error. In capitals, fewer than MIN_CORRECTED_CAPITALS are an abbreviation."""

MIN_CORRECTED_CAPITALS: Final = 5

MAX_TEXT_CHARACTERS: Final = 2_000
"""A longer text is not a question."""

MAX_REPAIRED: Final = 32
"""Words of one text that are repaired; those that follow are left alone."""

_MIN_TWO: Final = 6
_MIN_MEANT: Final = 7
"""Letters of a word two of which may be wrong, and of the one that is meant: shorter ones have too many neighbours."""

_MAX_FAR: Final = 8
"""Words of one text that may be repaired by more than one letter, which takes longer."""

_MIN_JOINED: Final = 5
_MIN_PART: Final = 2
"""Letters of a word that may have been split, and of the parts of two that were joined."""

_CLEARLY_MORE: Final = 3
_SAME_FIRST: Final = 8
_ENGLISH_PART: Final = 0.5
"""The frequency that a common English word counts which the collection lacks."""

_COMPLETIONS_FACTOR: Final = 3
"""Words that are read for each completion at first: some are stop words, or of deleted chunks."""

_MAX_COMPLETIONS_READ: Final = 1_024

_MAX_CACHED: Final = 8_192
_MAX_CACHED_CHARACTERS: Final = 24
"""Tokens of queries that are known to be errors or none, and the characters of one: callers choose them."""

_MAX_NEAR: Final = 512
_MAX_NEAR_TWO: Final = 128
"""Words of one segment that are compared with an unknown one. Real collections have a few dozen. It takes some eight
microseconds to see whether two letters differ."""

_LAST_WORD: Final = re.compile(r"(?<![^\W\d_])[^\W\d_]+\Z")
"""The look-behind keeps the search linear: a match begins only where a word does."""

_COMPOUNDING: Final = frozenset({"da", "de", "et", "fi", "hu", "nl", "no", "sv"})
"""Languages in which two words that are one are hardly ever an error."""

_NEGATING: Final = frozenset({"a", "an", "in", "no", "non", "un"})
"""Words that would make the opposite of the next one, were they joined to it."""

_LITERAL: Final = re.compile(
    r"""\"[^"]*\"|\u201c[^\u201c\u201d]*\u201d|\u201e[^\u201c-\u201e]*[\u201c\u201d]|\u00ab[^\u00ab\u00bb]*\u00bb"""
    r"""|(?<!\S)(?!\d{1,3}-[^\W\d_]+[^\w\s]*(?!\S))\S*(?:[\d@#\\_=]|[^\W_][.:/][^\W_])\S*"""
)
"""What is in quotation marks; and a run without spaces that has a digit, but for words such as 10-minute, a sign of
addresses or paths, or a point, a colon or a slash within."""


class _SpellingError(NamedTuple):
    """A part of the text: two neighbours that are one word, `joined`; or one that may be an error."""

    start: int
    end: int
    joined: str | None


class _TokenKind(NamedTuple):
    """What a token is: whether it may be an error, is a stop word, and is one or a common English word."""

    is_error: bool
    is_function: bool
    is_common: bool


class Speller:
    """The words of one generation. Safe to use from several threads."""

    def __init__(self, segments: Sequence[SegmentView], statistics: Statistics) -> None:
        self._vocabulary = Vocabulary(segments, statistics)
        self._words = self._vocabulary.parts
        self._kinds: dict[str, _TokenKind] = {}
        self._joined: dict[str, str] = {}
        """Of two neighbours the word that they are, empty where they are none."""

    def corrected(self, text: str) -> str | None:
        """`Reader.corrected`: the text in Unicode's form NFKC with its errors replaced; None where none is."""
        if not self._words or len(text) > MAX_TEXT_CHARACTERS:
            return None
        text = normalize(text)
        errors = [*self._errors(text)]
        parts, end = list[str](), 0
        for error, repair in self._repairs(text, errors) if errors else ():
            parts += text[end : error.start], _in_case_of(text[error.start : error.end], repair)
            end = error.end
        return "".join((*parts, text[end:])) if parts else None

    def completions(self, text: str, limit: int) -> list[str]:
        """`Reader.completions`: at most `limit` texts, in Unicode's form NFKC."""
        text = normalize(text)
        last = _LAST_WORD.search(text[-MAX_TEXT_CHARACTERS:])
        if last is None or len(prefix := last[0].lower()) != len(last[0]):
            return []
        before = text[: len(text) - len(prefix)][-1:]
        if before and TOKEN.match(before):
            return []
        most = _COMPLETIONS_FACTOR * limit
        while True:
            found, is_complete = self._most_frequent(prefix, most)
            shown = [word for word in found if word != prefix and self._vocabulary.is_offered(word, stop_words=False)]
            if is_complete or len(shown) >= limit or most >= _MAX_COMPLETIONS_READ:
                return [text + word[len(prefix) :] for word in shown[:limit]]
            most *= _COMPLETIONS_FACTOR

    # -- errors ------------------------------------------------------------------------------------------------

    def _errors(self, text: str) -> Iterator[_SpellingError]:
        """The first words that may be errors, and neighbours that are one word."""
        tokens = [*TOKEN.finditer(text)]
        kinds = [self._kind_of(token[0]) for token in tokens]
        joined = self._joined_words(text, tokens, kinds)
        count = end = 0
        for place, (token, kind) in enumerate(zip(tokens, kinds, strict=True)):
            if token.start() < end or count == MAX_REPAIRED:
                continue
            repair = joined.get(place)
            if repair is not None or kind.is_error:
                end = token.end() if repair is None else tokens[place + 1].end()
                count += 1
                yield _SpellingError(token.start(), end, repair)

    def _kind_of(self, token: str) -> _TokenKind:
        kind = self._kinds.get(token)
        if kind is None:
            word = token.lower()
            is_function, is_english = self._vocabulary.is_stop_word(word), word in default_vocabulary()
            is_known = is_function or is_english or not _may_be_error(token) or self._vocabulary.is_held(word)
            kind = _TokenKind(not is_known, is_function, is_function or is_english)
            _remember(self._kinds, token, kind)
        return kind

    def _joined_words(self, text: str, tokens: Sequence[re.Match[str]], kinds: Sequence[_TokenKind]) -> dict[int, str]:
        """The words that a token and the next one are together, by the place of the token."""
        found, pairs = dict[int, str](), list[tuple[int, str]]()
        for place in range(len(tokens) - 1):
            first, two = kinds[place], kinds[place + 1]
            if (first.is_function or two.is_function) and first.is_common and two.is_common:
                continue
            start, end = tokens[place].start(), tokens[place + 1].end()
            if tokens[place].end() + 1 == tokens[place + 1].start() and text[tokens[place].end()] == " ":
                pair = text[start:end].lower()
                word = self._joined.get(pair)
                if word is None:
                    pairs.append((place, pair))
                elif word:
                    found[place] = word
        may_be_words = self._may_be_words([pair.replace(" ", "") for _, pair in pairs])
        for (place, pair), may_be_word in zip(pairs, may_be_words, strict=True):
            word = (self._one_word(*pair.split(" ")) if may_be_word else None) or ""
            _remember(self._joined, pair, word)
            if word:
                found[place] = word
        return found

    def _may_be_words(self, joined: Sequence[str]) -> list[bool]:
        """A cheap test whether two neighbours together may be a word; nearly always they are not."""
        if not joined:
            return []
        is_listed = self._vocabulary.may_list([*map(hash_of, joined)])
        english = default_vocabulary() if self._knows_english else {}
        return [
            len(word) >= _MIN_JOINED and (may_be or word in english) and is_plain(word)
            for word, may_be in zip(joined, is_listed, strict=True)
        ]

    def _one_word(self, word: str, after: str) -> str | None:
        if word in _NEGATING:
            return None
        joined, english = word + after, default_vocabulary()
        parts = [(part, self._frequency(part)) for part in (word, after)]
        if frequency := self._vocabulary.frequency(joined):
            return joined if frequency > _CLEARLY_MORE * min(often for _, often in parts) else None
        is_none = joined in english and any(part not in english and not often for part, often in parts)
        return joined if is_none else None

    def _frequency(self, part: str) -> float:
        """How often a part of a word occurs as a word; infinite for a stop word."""
        if self._vocabulary.is_stop_word(part):
            return inf
        return self._vocabulary.frequency(part) if is_plain(part) else self._vocabulary.is_held(part)

    # -- repairs -----------------------------------------------------------------------------------------------

    def _repairs(self, text: str, errors: Sequence[_SpellingError]) -> Iterator[tuple[_SpellingError, str]]:
        """The repairs of errors that are not in a part of the text that is meant literally."""
        literal = [match.span() for match in _LITERAL.finditer(text)]
        language = likely_language(TOKEN.findall(text.lower()), self._vocabulary.languages)
        has_names = language == DEFAULT_LANGUAGE and _has_names(text)
        repaired = dict[str, str | None]()
        for error in errors:
            if any(start < error.end and error.start < end for start, end in literal):
                continue
            token = text[error.start : error.end]
            if error.joined is None and token not in repaired:
                is_name = has_names and error.start > 0 and token.istitle()
                is_near = len(token) < _MIN_JOINED or is_name or token.isupper() or len(repaired) >= _MAX_FAR
                repaired[token] = self._repair(token.lower(), language, is_near=is_near)
            repair = repaired[token] if error.joined is None else error.joined
            if repair is not None:
                yield error, repair

    def _repair(self, unknown: str, language: str, *, is_near: bool) -> str | None:
        """See the module; `is_near` allows a single letter that is wrong, nothing else."""
        words = self._vocabulary
        word = self._best(unknown, words.one_letter_away(unknown))
        rarer, parts = (0.0, None) if is_near else self._best_parts(unknown, language)
        if parts is not None and rarer > (_CLEARLY_MORE * words.frequency(word) if word is not None else _ENGLISH_PART):
            return parts
        if word is None and language == DEFAULT_LANGUAGE and unknown.isascii():
            near = [entry for entry in english_one_letter_away(unknown) if may_be_slip(unknown, entry[0])]
            word = max(near, key=itemgetter(1))[0] if near else None
        return word or parts or (None if is_near else self._two_letters_away(unknown))

    def _two_letters_away(self, unknown: str) -> str | None:
        if len(unknown) < _MIN_TWO:
            return None
        near = self._vocabulary.two_letters_away(unknown)
        weights = {word: near[word] * _likeness(word, unknown) for word in near if len(word) >= _MIN_MEANT}
        english = default_vocabulary()
        return self._best(
            unknown, {word: weights[word] for word in weights if not share_ending(unknown, word, english)}
        )

    def _best(self, unknown: str, weights: Mapping[str, float]) -> str | None:
        """The heaviest of the words that may be meant and offered."""
        for word in sorted(weights, key=lambda word: (-weights[word], word)):
            if may_be_slip(unknown, word) and self._vocabulary.is_offered(word, stop_words=True):
                return word
        return None

    def _best_parts(self, unknown: str, language: str) -> tuple[float, str | None]:
        """The two words that an unknown one is made of, and the frequency of the rarer; None if there are none."""
        cuts = range(_MIN_PART, len(unknown) - _MIN_PART + 1)
        pairs = [(unknown[:cut], unknown[cut:]) for cut in cuts]
        parts = [part for pair in pairs for part in pair]
        may_list = dict(zip(parts, self._vocabulary.may_list([*map(hash_of, parts)]), strict=True))
        english = default_vocabulary() if language == DEFAULT_LANGUAGE else {}
        best, found = 0.0, None
        for pair in pairs:
            if language in _COMPOUNDING and not _are_function_words(pair, LANGUAGES[language]):
                continue
            if all(may_list[part] or part in english or part in self._vocabulary.stop_words for part in pair):
                weights = [self._weight(part, is_english=part in english) for part in pair]
                rarer = min(weights)
                if rarer > best and max(weights) > _ENGLISH_PART:
                    best, found = rarer, " ".join(pair)
        return best, found

    def _weight(self, part: str, *, is_english: bool) -> float:
        """The frequency of a part that is a word; infinite for a stop word, less than 1 for one of English alone."""
        if is_affix(part):
            return 0.0
        if part in self._vocabulary.stop_words:
            return inf
        if not is_plain(part):
            return 0.0
        return self._vocabulary.frequency(part) or (_ENGLISH_PART if is_english else 0.0)

    # -- languages ---------------------------------------------------------------------------------------------

    @property
    def _knows_english(self) -> bool:
        return DEFAULT_LANGUAGE in self._vocabulary.languages

    # -- words -------------------------------------------------------------------------------------------------

    def _most_frequent(self, prefix: str, most: int) -> tuple[list[str], bool]:
        """Words with a prefix, the most frequent first, and whether they are all; those left out are less frequent.

        Fagin's threshold algorithm: a word that is not among the `most` best of any segment has at most the sum of the
        frequencies at which these end.
        """
        parts = [(words, *words.starting(prefix, most)) for words in self._words]
        bound = sum(left_out for _, _, left_out in parts)
        totals = dict.fromkeys((word for _, found, _ in parts for word, _ in found), 0)
        for words, found, left_out in parts:
            known = dict(found)
            for word in totals:
                # A word that is not among a segment's candidates is in it only if the segment left some out.
                totals[word] += known.get(word) or (words.frequency(word) if left_out else 0)
        ordered = sorted((word for word in totals if totals[word] > bound), key=lambda word: (-totals[word], word))
        return ordered, not bound


def _are_function_words(parts: Sequence[str], language: Language) -> bool:
    """Whether parts are stop words, and none so short as the first parts of adverbs such as wovon."""
    return all(part in language.stop_words and len(part) > _MIN_PART for part in parts)


def _has_names(text: str) -> bool:
    """Whether capitals mean something in a text: most of its words have none."""
    words: list[str] = [word for word in TOKEN.findall(text) if word[0].isalpha()]
    return 2 * sum(word[0].islower() for word in words) > len(words)


def _may_be_error(token: str) -> bool:
    """Whether a token is one plain word, of enough letters."""
    least = MIN_CORRECTED_CAPITALS if token.isupper() else MIN_CORRECTED
    return len(token) >= least and is_plain(token) and len(token_words(token)) == 1


def _likeness(word: str, unknown: str) -> float:
    """The weight of a word of the same first letter, and of as many letters."""
    return (_SAME_FIRST if word[0] == unknown[0] else 1.0) * 0.5 ** abs(len(word) - len(unknown))


def _remember(cache: dict[str, Any], key: str, value: Any) -> None:
    if len(cache) >= _MAX_CACHED:
        cache.clear()
    if len(key) <= _MAX_CACHED_CHARACTERS:
        cache[key] = value


def _in_case_of(token: str, word: str) -> str:
    """The word in capitals, or with a capital, as the token is."""
    if token.isupper():
        return word.upper()
    return word[0].upper() + word[1:] if token[0].isupper() else word


# -- the words of a collection ------------------------------------------------------------------------------


class Vocabulary:
    """The words of all segments of a generation: how frequent they are, which are near another, which may be offered.

    The frequencies of all segments are added, so nothing depends on how chunks are divided among them. They include
    deleted chunks until a merge drops them; a word all of whose terms are gone is never offered. Safe to use from
    several threads.
    """

    def __init__(self, segments: Sequence[SegmentView], statistics: Statistics) -> None:
        self._segments = segments
        self._statistics = statistics
        self.parts = [view.segment.words for view in segments if view.segment.words is not None]
        self._has_deleted = any(view.live.mask is not None for view in segments)

    @property
    def languages(self) -> tuple[str, ...]:
        return self._statistics.languages

    def terms(self, word: str) -> set[str | None]:
        """The terms of a word in the languages of the collection; None among them where it is a stop word in one."""
        return {term for language in self.languages for term in terms_of_word(word, language) or (None,)}

    @cached_property
    def stop_words(self) -> frozenset[str]:
        """Those of the languages of the collection."""
        return frozenset().union(*(LANGUAGES[tag].stop_words for tag in self.languages if tag in LANGUAGES))

    def is_stop_word(self, word: str) -> bool:
        return None in self.terms(word)

    def is_held(self, word: str) -> bool:
        """Whether a live chunk holds a form of the word."""
        terms = [term for term in self.terms(word) if term is not None]
        return any(view.document_frequency(term) for term in terms for view in self._segments)

    def is_offered(self, word: str, *, stop_words: bool) -> bool:
        """Whether people may be shown a listed word: a live chunk holds a form of it, or it is a stop word."""
        if stop_words and not self._has_deleted:
            return True
        if self.is_stop_word(word):
            return stop_words
        return not self._has_deleted or self.is_held(word)

    def frequency(self, word: str) -> int:
        """How often a word is listed; 0 also for one that may not be offered."""
        found = sum(words.frequency(word) for words in self.parts)
        return found if found and self.is_offered(word, stop_words=True) else 0

    def may_list(self, hashes: Sequence[int]) -> list[bool]:
        """Whether words with these `hash_of` may be listed: much faster than to look all of them up."""
        array = np.array(hashes, np.uint32)
        found: list[bool] = reduce(or_, (words.may_list(array) for words in self.parts)).tolist()
        return found

    def one_letter_away(self, word: str) -> dict[str, int]:
        """The words that differ by one letter, and their frequencies."""
        hashes = hashes_of_one(word)
        return _sums(words.near(word, hashes, _MAX_NEAR) for words in self.parts)

    def two_letters_away(self, word: str) -> dict[str, int]:
        """The same for two letters; those that differ by one are not among them."""
        hashes = hashes_of_two(word, self._letters)
        return _sums(words.near_two(word, hashes, _MAX_NEAR_TWO) for words in self.parts)

    @cached_property
    def _letters(self) -> NDArray[np.uint64]:
        return np.unique(np.concatenate([np.empty(0, np.uint64), *(words.letters for words in self.parts)]))


def _sums(found: Iterable[Iterable[tuple[str, int]]]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for entries in found:
        for word, frequency in entries:
            sums[word] = sums.get(word, 0) + frequency
    return sums


def english_one_letter_away(word: str) -> Iterator[tuple[str, int]]:
    """The common English words that differ by one letter; the lower its number in the vocabulary, the more frequent."""
    return _english().near(word, hashes_of_one(word), _MAX_NEAR)


@cache
def _english() -> Words:
    counts, vocabulary = WordCounts(), default_vocabulary()
    counts.add(list(vocabulary), 1 + max(vocabulary.values(), default=0) - np.fromiter(vocabulary.values(), np.int64))
    return Words(counts.to_batch())
