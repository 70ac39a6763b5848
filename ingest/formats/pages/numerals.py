"""Numbers as letters and as Roman numerals, as lists have them."""

from __future__ import annotations

_MAX_ROMAN = 4000
_ROMAN = (
    (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"),
    (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
)  # fmt: skip


def to_letters(number: int) -> str:
    """a, b, ..., z, aa, ab, ..."""
    letters = ""
    while number > 0:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("a") + rest) + letters
    return letters


def to_roman(number: int) -> str:
    """A Roman numeral in capitals; a number without one (0, 4000) stays decimal."""
    if not 0 < number < _MAX_ROMAN:
        return str(number)
    written = ""
    for value, letters in _ROMAN:
        written += letters * (number // value)
        number %= value
    return written
