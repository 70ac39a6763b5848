"""The words of a question that say what it is about: without stop words, and without words like "show" and "please"."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import cache
from typing import Final

from aidre.engine.index.text import LANGUAGES

WORD: Final = re.compile(r"\w+(?:['’.-]\w+)*")
MAX_TEXT_CHARS: Final = 2_000
"""Characters of a text whose words are read."""
REQUEST_WORDS: Final[frozenset[str]] = frozenset(
    """
    anything find get give i'd i'm it's let like list look looking looks lots need needs please recommend search
    searching see show some someone something sort suggest tell thing things try user want wants what's user's
    """.split()  # noqa: SIM905 -- a list of seventy quoted words is harder to read
)
"""Words of a request that say nothing about its object, in addition to the stop words of its language."""
_UNSPACED: Final = "\u2e80"
"""Code point from which scripts put no spaces between words, roughly."""


def content_words(text: str, language: str | None = None) -> list[str]:
    """The content words in their original case; `language` is a tag such as "de-AT", if it is known."""
    return words_except(text, _ignored_in_english() if language is None else REQUEST_WORDS | stop_words(language))


def word_count(text: str, language: str | None = None) -> float:
    """The number of content words; two characters of a script without spaces count as one."""
    return count_words(content_words(text, language))


def words_except(text: str, ignored: Collection[str]) -> list[str]:
    """The words of a text without the ignored ones and without single characters, except digits."""
    words = (word for word in WORD.findall(text[:MAX_TEXT_CHARS]) if len(word) > 1 or word.isdigit())
    return [word for word in words if word.lower() not in ignored]


def stop_words(language: str | None) -> frozenset[str]:
    """English stop words and those of the language."""
    tag = (language or "en").replace("_", "-").partition("-")[0].lower()
    analysis = LANGUAGES.get(tag)
    return LANGUAGES["en"].stop_words | (analysis.stop_words if analysis is not None else frozenset())


def count_words(words: Iterable[str]) -> float:
    """The number of words; two characters of a script without spaces count as one."""
    return sum(max(1, len(word) / 2) if word[0] >= _UNSPACED else 1 for word in words)


@cache
def _ignored_in_english() -> frozenset[str]:
    return REQUEST_WORDS | stop_words(None)
