"""Latin letters without their accents: "cafe" is the plain spelling of "café", "lodz" of "łódź"."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import cache
from typing import Final

_PLAIN: Final = {
    "ı": "i", "æ": "ae", "œ": "oe", "þ": "th", "ð": "d", "ß": "ss", "ŋ": "n", "ə": "e", "ɛ": "e", "ɔ": "o", "ĸ": "k",
    "ʻ": "", "ʼ": "", "ʾ": "", "ʿ": "",
}  # fmt: skip
"""Letters that Unicode neither decomposes nor names after a plain one. The last four are apostrophes, as in Hawaiʻi."""

_BLOCKS: Final = ((0x00DF, 0x02B0), (0x1D00, 0x1DC0), (0x1E00, 0x1F00), (0x2C60, 0x2C80), (0xA720, 0xA800))
"""Of Latin letters beyond ASCII, each with its end."""

_VARIANT: Final = re.compile("LATIN SMALL LETTER ([A-Z])(?: WITH .+)?")
"""The name of a letter that is a plain one with a stroke, a hook or a tail: ł, ø and đ are no accents in Unicode."""


def fold(word: str) -> str:
    """A word in lower case in its plain spelling. Marks on letters of other scripts stay."""
    if word.isascii():
        return word
    folded: list[str] = []
    for letter in unicodedata.normalize("NFD", word).translate(_plain_letters()):
        if unicodedata.combining(letter) and folded and folded[-1].isascii():
            continue
        folded.append(letter)
    return unicodedata.normalize("NFC", "".join(folded))


@cache
def _plain_letters() -> Mapping[int, str]:
    """By code point, the plain letters that a Latin one stands for."""
    letters = {ord(letter): plain for letter, plain in _PLAIN.items()}
    for block in _BLOCKS:
        for point in range(*block):
            variant = _VARIANT.fullmatch(unicodedata.name(chr(point), ""))
            if variant is not None and not unicodedata.decomposition(chr(point)):
                letters[point] = variant[1].lower()
    return letters
