"""Repairs typing errors in a query and completes its last word, from the words of all segments of a generation.

A word is a typing error only if no live chunk has a term of it, and if it is no common English word: a collection lacks
many of these, and their neighbours mean something else. It is replaced by the most frequent word of the collection that
differs by one letter, of equally frequent ones by the first. The frequencies of all segments are added, so the choice
does not depend on how chunks are divided among them.

Frequencies include deleted chunks until a merge drops them. A word all of whose terms are gone is never offered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import islice
from operator import itemgetter
from typing import Final

import numpy as np

from aidre.engine.embedding import default_vocabulary
from aidre.engine.index.text import TOKEN, WordCounts, Words, is_plain, normalize, terms_of_word, token_words
from aidre.engine.search.bm25 import Statistics
from aidre.engine.segment import SegmentView

MIN_CORRECTED: Final = 3
"""Letters of a word that may be a typing error. In capitals, fewer than MIN_CORRECTED_CAPITALS are an abbreviation."""

MIN_CORRECTED_CAPITALS: Final = 5

MAX_TEXT_CHARACTERS: Final = 2_000
"""A longer text is no question."""

MAX_REPAIRED: Final = 32
"""Words of one text that are repaired; those that follow are left alone."""

_MAX_NEAR: Final = 512
"""Words of one segment that are compared with an unknown one. Real collections have a few dozen."""

_COMPLETIONS_FACTOR: Final = 3
"""Words that are read for each completion at first: some are stop words, or of deleted chunks."""

_MAX_COMPLETIONS_READ: Final = 1_024

_MAX_CACHED: Final = 8_192
_MAX_CACHED_CHARACTERS: Final = 24
"""Tokens of queries that are known to be errors or none, and the characters of one: callers choose them."""

_LAST_WORD: Final = re.compile(r"(?<![^\W\d_])[^\W\d_]+\Z")
"""The look-behind keeps the search linear: a match begins only where a word does."""


class Speller:
    """The words of one generation. Safe to use from several threads."""

    def __init__(self, segments: Sequence[SegmentView], statistics: Statistics) -> None:
        self._segments = segments
        self._statistics = statistics
        self._words = [view.segment.words for view in segments if view.segment.words is not None]
        self._has_deleted = any(view.live.mask is not None for view in segments)
        self._is_error: dict[str, bool] = {}

    def corrected(self, text: str) -> str | None:
        """`Reader.corrected`: the text in Unicode's form NFKC with its errors replaced; None where none is."""
        if not self._words or len(text) > MAX_TEXT_CHARACTERS:
            return None
        text = normalize(text)
        errors = list(islice((token for token in TOKEN.finditer(text) if self._may_be_error(token[0])), MAX_REPAIRED))
        if not errors:
            return None
        repairs = {word: self._repair(word) for word in {token[0].lower() for token in errors}}
        parts, end = list[str](), 0
        for token in errors:
            repair = repairs[token[0].lower()]
            if repair is not None:
                parts += text[end : token.start()], _in_case_of(token[0], repair)
                end = token.end()
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
            shown = [word for word in found if word != prefix and self._is_offered(word, stop_words=False)]
            if is_complete or len(shown) >= limit or most >= _MAX_COMPLETIONS_READ:
                return [text + word[len(prefix) :] for word in shown[:limit]]
            most *= _COMPLETIONS_FACTOR

    # -- errors ------------------------------------------------------------------------------------------------

    def _may_be_error(self, token: str) -> bool:
        found = self._is_error.get(token)
        if found is None:
            found = self._is_unknown(token)
            if len(self._is_error) >= _MAX_CACHED:
                self._is_error.clear()
            if len(token) <= _MAX_CACHED_CHARACTERS:
                self._is_error[token] = found
        return found

    def _is_unknown(self, token: str) -> bool:
        """Whether a token of the query is one plain word of which no live chunk holds any form."""
        least = MIN_CORRECTED_CAPITALS if token.isupper() else MIN_CORRECTED
        if len(token) < least or not is_plain(token) or len(token_words(token)) != 1:
            return False
        terms = self._terms(token.lower())
        return None not in terms and not self._is_held(terms) and token.lower() not in default_vocabulary()

    def _repair(self, unknown: str) -> str | None:
        """The most frequent word that differs by one letter, of the collection, else of English; None without one."""
        candidates: dict[str, int] = {}
        for words in self._words:
            for word, frequency in words.near(unknown, _MAX_NEAR):
                candidates[word] = candidates.get(word, 0) + frequency
        ordered = sorted(candidates, key=lambda word: (-candidates[word], word))
        repair = next((word for word in ordered if self._is_offered(word, stop_words=True)), None)
        return repair or max(_english().near(unknown, _MAX_NEAR), key=itemgetter(1), default=(None, 0))[0]

    # -- words -------------------------------------------------------------------------------------------------

    def _terms(self, word: str) -> set[str | None]:
        """The terms of a word in the languages of the collection; None among them where it is a stop word in one."""
        return {term for language in self._statistics.languages for term in terms_of_word(word, language) or (None,)}

    def _is_held(self, terms: Iterable[str | None]) -> bool:
        return any(view.document_frequency(term) for term in terms if term is not None for view in self._segments)

    def _is_offered(self, word: str, *, stop_words: bool) -> bool:
        """Whether people may be shown a listed word: a live chunk holds a form of it, or it is a stop word."""
        if stop_words and not self._has_deleted:
            return True
        terms = self._terms(word)
        return stop_words if None in terms else not self._has_deleted or self._is_held(terms)

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
                # What is not among the best of a segment that left none out is not in it.
                totals[word] += known.get(word) or (words.frequency(word) if left_out else 0)
        ordered = sorted((word for word in totals if totals[word] > bound), key=lambda word: (-totals[word], word))
        return ordered, not bound


@cache
def _english() -> Words:
    """The common English words; each is as frequent as its number in the vocabulary is low."""
    counts, vocabulary = WordCounts(), default_vocabulary()
    counts.add(list(vocabulary), 1 + max(vocabulary.values(), default=0) - np.fromiter(vocabulary.values(), np.int64))
    return Words(counts.to_batch())


def _in_case_of(token: str, word: str) -> str:
    """The word in capitals, or with a capital, as the token is."""
    if token.isupper():
        return word.upper()
    return word[0].upper() + word[1:] if token[0].isupper() else word
