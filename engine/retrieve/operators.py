"""What signs in a question ask for: a phrase in quotes has to stand in a hit, and `-word` must not.

    find "connection reset by peer" -proxy

The quotes are straight or typographic double ones, before and after whole words. A minus counts after a blank and
before a word of at least three letters with a vowel (of any length in other scripts), so that `-rf`, `-5` and `a - b`
are none; the first word is never excluded. Everything else is a question as it is written.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from aidre.engine.index.fields import And, Filter, Wording
from aidre.engine.index.text import phrase_pattern

_MAX_OPERATORS: Final = 16
"""Phrases and excluded words that are read of one question."""
_QUOTED: Final = re.compile(
    r"""
    (?<![^\s(\[{,;:])
    (?: "(?=\S)([^"\n]{1,1024}?)(?<=\S)"
      | “([^“”\n]{1,1024})”
      | „([^„“”\n]{1,1024})[“”]
      | «\s?([^«»\n]{1,1024}?)\s?»
      | 「([^「」\n]{1,1024})」
    )
    (?![^\W_])
    """,
    re.VERBOSE,
)
_EXCLUDED: Final = re.compile(r"(?<=\s)-([^\W\d_][\w'’.-]{0,62}\w|[^\W\d_\x00-\x7f])(?![^\s,;.!?)\]}])")
_VOWELS: Final = frozenset("aeiouy")


class Reading(NamedTuple):
    """A question without its operators, and what they ask for."""

    text: str
    phrases: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    @property
    def understood(self) -> dict[str, list[str]]:
        """For answers: what was read, by name."""
        read = {"phrases": list(self.phrases), "excluded": list(self.excluded)}
        return {name: texts for name, texts in read.items() if texts}

    def narrowed(self, filter: Filter | None, *, with_phrases: bool = True) -> Filter | None:
        """A filter that the hits have to pass beside what the operators ask for."""
        wording = Wording(self.phrases if with_phrases else (), self.excluded)
        if wording == Wording():
            return filter
        return wording if filter is None else And((filter, wording))


def read_operators(text: str) -> Reading | None:
    """None for a question without operators, and for one that has nothing else than excluded words."""
    if not ("-" in text or any(quote in text for quote in '"“„«「')):
        return None
    text = text.strip()
    phrases: list[str] = []

    def unquoted(match: re.Match[str]) -> str:
        phrase = next(group for group in match.groups() if group is not None).strip()
        if len(phrases) >= _MAX_OPERATORS or phrase_pattern(phrase) is None:
            return match[0]
        phrases.append(phrase)
        return phrase

    excluded: list[str] = []

    def left_out(match: re.Match[str]) -> str:
        if len(excluded) >= _MAX_OPERATORS or not _is_word(match[1]):
            return match[0]
        excluded.append(match[1])
        return ""

    parts, start = [], 0
    for match in _QUOTED.finditer(text):  # a minus inside of quotes belongs to the phrase
        parts += [_EXCLUDED.sub(left_out, text[start : match.start()]), unquoted(match)]
        start = match.end()
    parts.append(_EXCLUDED.sub(left_out, text[start:]))
    searched = " ".join("".join(parts).split())
    if not searched or not (phrases or excluded):
        return None
    return Reading(searched, tuple(dict.fromkeys(phrases)), tuple(dict.fromkeys(excluded)))


def _is_word(word: str) -> bool:
    if not word.isascii():
        return True
    return sum(map(str.isalpha, word)) >= 3 and not _VOWELS.isdisjoint(word.lower())
