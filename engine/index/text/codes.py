"""Codes in a text: part numbers, error codes, versions, names of files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

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
"""A number of so many digits is no quantity."""


def find_codes(text: str) -> list[str]:
    """The words of a query that look like codes, each once, in order."""
    words = _WORD.findall(text) if _DIGIT.search(text) else []
    return [word for word in dict.fromkeys(words) if _is_code(word)][:_MAX_CODES]


def _is_code(word: str) -> bool:
    """Whether a word with a digit is none of language: letters and digits in one part (`TR4410`, `sha256`), capitals
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
        return is_long and "." not in word and not all(len(one) == 4 and one[0] in "12" for one in numbers)
    if len(numbers) == 1:
        return len(numbers[0]) >= _MIN_DIGITS
    return len(numbers) != len(parts) or not _is_date(numbers)


def _is_date(numbers: Sequence[str]) -> bool:
    return len(numbers) == 3 and sorted(map(len, numbers))[-1] == 4
