"""The words of all segments of a generation, by which questions are repaired: how frequent they are, which are near
another, and which may be offered. The frequencies of all segments are added, so nothing depends on how chunks are
divided among them.

Frequencies include deleted chunks until a merge drops them. A word all of whose terms are gone is never offered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property, reduce
from operator import or_
from typing import Final

import numpy as np
from numpy.typing import NDArray

from aidre.engine.embedding import default_vocabulary
from aidre.engine.index.text import LANGUAGES, WordCounts, Words, hashes_of_one, hashes_of_two, to_term
from aidre.engine.search.bm25 import Statistics
from aidre.engine.segment import SegmentView

_MAX_NEAR: Final = 512
_MAX_NEAR_TWO: Final = 128
"""Words of one segment that are compared with an unknown one. Real collections have a few dozen. It takes some eight
microseconds to see whether two letters differ."""


class Vocabulary:
    """Safe to use from several threads."""

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
        return {to_term(word, language) for language in self.languages}

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
