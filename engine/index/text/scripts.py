"""Writing systems: the script of a word, by its code points."""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from typing import Final

LATIN: Final = "latin"

_BLOCKS: Final = (
    (0x0000, LATIN), (0x0370, "greek"), (0x0400, "cyrillic"), (0x0530, "armenian"), (0x0590, "hebrew"),
    (0x0600, "arabic"), (0x0700, ""), (0x0750, "arabic"), (0x0780, ""), (0x0870, "arabic"), (0x0900, "devanagari"),
    (0x0980, "bengali"), (0x0A00, "gurmukhi"), (0x0A80, "gujarati"), (0x0B00, ""), (0x0B80, "tamil"),
    (0x0C00, "telugu"), (0x0C80, "kannada"), (0x0D00, "malayalam"), (0x0D80, "sinhala"), (0x0E00, "thai"),
    (0x0E80, "lao"), (0x0F00, "tibetan"), (0x1000, "myanmar"), (0x10A0, "georgian"), (0x1100, "hangul"),
    (0x1200, "ethiopic"), (0x13A0, ""), (0x1780, "khmer"), (0x1800, ""), (0x1C80, "cyrillic"), (0x1C90, "georgian"),
    (0x1CC0, ""), (0x1D00, LATIN), (0x1F00, "greek"), (0x2000, LATIN), (0x2C00, ""), (0x2C60, LATIN), (0x2C80, ""),
    (0x2D00, "georgian"), (0x2D30, ""), (0x2DE0, "cyrillic"), (0x2E00, ""), (0x3005, "han"), (0x3041, "kana"),
    (0x3100, "han"), (0x3131, "hangul"), (0x3190, "han"), (0x31F0, "kana"), (0x3200, ""), (0x3400, "han"),
    (0xA000, ""), (0xA640, "cyrillic"), (0xA6A0, ""), (0xA720, LATIN), (0xA800, ""), (0xA960, "hangul"), (0xA980, ""),
    (0xAB30, LATIN), (0xAB70, ""), (0xAC00, "hangul"), (0xD800, ""), (0xF900, "han"), (0xFB00, ""), (0x1B000, "kana"),
    (0x1B170, ""), (0x20000, "han"), (0x40000, ""),
)  # fmt: skip
"""The first code point of each block, and its script: the blocks of the Unicode standard, neighbours of one script
joined. No name: a script of which no language is in the table of languages."""

_STARTS: Final = tuple(start for start, _ in _BLOCKS)


def script_of(word: str) -> str:
    """The script of the word's greatest code point, so not of its digits; "" for one that has no name here."""
    return LATIN if word.isascii() else _script_of_letter(max(word))


@lru_cache(maxsize=1 << 12)
def _script_of_letter(letter: str) -> str:
    return _BLOCKS[bisect_right(_STARTS, ord(letter)) - 1][1]
