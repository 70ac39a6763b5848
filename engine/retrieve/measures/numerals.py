"""Numbers in words: "four hundred", "two thousand five hundred"; round ones in German, French and Spanish, too."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final, NamedTuple

_SMALL: Final = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_ONES: Final = {word: value for value, word in enumerate(_SMALL)}
_TENS: Final = {
    word: 10 * value
    for value, word in enumerate(["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"], 2)
}
_POWERS: Final = {"hundred": 100, "thousand": 1_000, "million": 1_000_000}
FOREIGN_NUMERALS: Final = {
    "hundert": 100, "zweihundert": 200, "dreihundert": 300, "vierhundert": 400, "fünfhundert": 500, "sechshundert": 600,
    "siebenhundert": 700, "achthundert": 800, "neunhundert": 900, "tausend": 1_000, "zweitausend": 2_000,
    "deux cents": 200, "trois cents": 300, "quatre cents": 400, "cinq cents": 500, "six cents": 600,
    "sept cents": 700, "huit cents": 800, "neuf cents": 900, "mille": 1_000, "deux mille": 2_000,
    "cien": 100, "doscientos": 200, "trescientos": 300, "cuatrocientos": 400, "quinientos": 500, "seiscientos": 600,
    "setecientos": 700, "ochocientos": 800, "novecientos": 900, "mil": 1_000, "dos mil": 2_000,
}  # fmt: skip
NUMERALS: Final = (*_ONES, *_TENS, *_POWERS)
"""Words of English numbers."""
_NUMERAL: Final = "|".join(NUMERALS)
_BELOW_HUNDRED: Final = "|".join((*_ONES, *_TENS))
_ENGLISH_NUMBER: Final = (
    rf"(?:a )?(?:{_NUMERAL})(?:[ -](?:{_NUMERAL}))*"
    rf"(?:(?:(?<=hundred)|(?<=thousand)|(?<=million)) and (?:{_BELOW_HUNDRED})(?:-(?:{_BELOW_HUNDRED}))?"
    rf"(?![\w-]| (?:{'|'.join(_POWERS)})))?"
)
_NUMBER_WORDS: Final = re.compile(
    rf"(?<![\w-])(?:{'|'.join(sorted(FOREIGN_NUMERALS, key=len, reverse=True))}|{_ENGLISH_NUMBER})(?![\w-])"
)


class Plain(NamedTuple):
    """A question in lower case, its number words replaced by digits. `edges` are pairs of offsets, in `text` and in the
    question, between which the distance of the two is constant."""

    text: str
    edges: list[tuple[int, int]]

    def place(self, place: int) -> int:
        """The place in the question."""
        here, there = self.edges[bisect_right(self.edges, (place, len(self.text) * 20)) - 1]
        return there + place - here


def with_digits(text: str) -> Plain | None:
    """None if the lower-case text has another length than the question."""
    lower = re.sub(r"\s", " ", text.lower().replace("’", "'"))
    if len(lower) != len(text):
        return None
    parts, edges, start, length = list[str](), [(0, 0)], 0, 0
    for match in _NUMBER_WORDS.finditer(lower):
        value = FOREIGN_NUMERALS.get(match[0], _value_of(match[0]))
        if value is None:
            continue
        digits = str(value)
        parts += [lower[start : match.start()], digits]
        length += match.start() - start + len(digits)
        start = match.end()
        edges.append((length, start))
    parts.append(lower[start:])
    return Plain("".join(parts), edges)


def _value_of(words: str) -> int | None:
    """The number of some words: "four hundred", "two thousand five hundred"; None where they are several ones."""
    total = part = 0
    last = 0
    for word in re.split(r"[ -]", words):
        if word in _POWERS:
            part = max(part, 1) * _POWERS[word]
            if _POWERS[word] > 100:
                total, part = total + part, 0
        elif word in _TENS or word in _ONES:
            value = _TENS.get(word, _ONES.get(word, 0))
            if part % 100 and not (word in _ONES and 0 < value < 10 and part % 10 == 0 and last >= 20):
                return None
            part += value
            last = value
    return total + part
