"""Characters that no reader sees: where a line may break, which way a text runs, how its neighbours join.

They belong to the appearance of a text and not to its words. Texts lose those that only a page layout needs, as soon as
they are read from a file; the analysis of words ignores all of them.
"""

from __future__ import annotations

import re
from typing import Final

_LAYOUT: Final = "\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff"
"""Soft hyphen, zero-width space, word joiner, byte order mark, and the marks of direction."""

_IGNORED: Final = (
    f"{_LAYOUT}\u034f\u17b4\u17b5\u180b-\u180f\u2061-\u2065\u206a-\u206f\ufdd0-\ufdef\ufe00-\ufe0f\U000e0000-\U000e0fff"
)
"""And what chooses among shapes of a character or is reserved for such uses: Default_Ignorable_Code_Point of Unicode,
without the fillers of Hangul, which are letters, and the joiners; and the noncharacters, which `names` uses."""

NON_JOINER: Final = "\u200c"
_JOINED_APART: Final = "\u0620-\u06ff\u0750-\u077f\u08a0-\u08ff"
"""Letters of the Arabic script, between which a non-joiner stands at the seam of a compound: Persian writes plurals and
many nouns so. It stays there; everywhere else both joiners only choose a shape."""

_OF_LAYOUT: Final = re.compile(f"[{_LAYOUT}]+")
_OF_WORDS: Final = re.compile(
    f"[{_IGNORED}\u200d]+|(?<![{_JOINED_APART}]){NON_JOINER}+|{NON_JOINER}+(?![{_JOINED_APART}])"
)


def strip_layout(text: str) -> str:
    """The text without characters of layout. Joiners stay, which Persian and Hindi need."""
    return text if text.isascii() else _OF_LAYOUT.sub("", text)


def strip_ignored(text: str) -> str:
    """The text without all that the analysis of words ignores."""
    return text if text.isascii() else _OF_WORDS.sub("", text)


def places_of_kept(text: str) -> list[int] | None:
    """The places of the characters that `strip_ignored` keeps; None where it keeps all."""
    ignored = [place for match in _OF_WORDS.finditer(text) for place in range(*match.span())]
    if not ignored:
        return None
    left_out = frozenset(ignored)
    return [place for place in range(len(text)) if place not in left_out]
