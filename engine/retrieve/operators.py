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
from aidre.engine.model import Json
from aidre.engine.retrieve.conditions import Condition, FieldOrder, to_filter

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
NOTHING_FITS: Final = "nothing fits it"
"""The note on conditions that are dropped."""
_VOWELS: Final = frozenset("aeiouy")


class QuestionReading(NamedTuple):
    """A question without its operators and without the words of the conditions that are applied, and what both ask for.

    `plain` is the text with the words of the conditions.
    """

    text: str
    phrases: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    plain: str = ""

    @property
    def understood(self) -> dict[str, Json]:
        """For answers: what was read, by name."""
        read: dict[str, Json] = {
            "phrases": list(self.phrases),
            "excluded": list(self.excluded),
            "conditions": [condition.told for condition in self.conditions],
        }
        return {name: texts for name, texts in read.items() if texts}

    @property
    def order(self) -> FieldOrder | None:
        """The order of the hits that is applied."""
        return next(
            (condition.order for condition in self.conditions if condition.applied and condition.order is not None),
            None,
        )

    @property
    def narrows(self) -> bool:
        """Whether conditions leave documents out."""
        return any(condition.applied and condition.filter is not None for condition in self.conditions)

    def widened(self) -> QuestionReading:
        """A copy whose conditions are not applied, with the note that they left nothing."""
        dropped = tuple(
            condition._replace(applied=False, note=NOTHING_FITS) if condition.applied else condition
            for condition in self.conditions
        )
        return self._replace(text=self.plain, conditions=dropped)

    def narrowed(self, filter: Filter | None, *, with_phrases: bool = True) -> Filter | None:
        """A filter that the hits have to pass beside what the question asks for."""
        wording = Wording(self.phrases if with_phrases else (), self.excluded)
        filters = [*to_filter(self.conditions), *([] if wording == Wording() else [wording])]
        wanted = [*([] if filter is None else [filter]), *filters]
        return And(tuple(wanted)) if len(wanted) > 1 else next(iter(wanted), None)


def read_operators(text: str) -> QuestionReading | None:
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
    return QuestionReading(searched, tuple(dict.fromkeys(phrases)), tuple(dict.fromkeys(excluded)))


def _is_word(word: str) -> bool:
    if not word.isascii():
        return True
    return sum(map(str.isalpha, word)) >= 3 and not _VOWELS.isdisjoint(word.lower())
