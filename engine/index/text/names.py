"""Signs that belong to a name: C++, C#, A+, .NET, @handle, #tag.

Such a sign is replaced by a character of its own that belongs to tokens, one for one, so that places stay. The token
is a word with its signs, and its letters are words beside it.
"""

from __future__ import annotations

import re
from typing import Final

from aidre.engine.index.text import characters

_SIGNS: Final = "#+.@"
SIGN_BYTES: Final = _SIGNS.encode()
FIRST_MARK: Final = 0xFDD0
"""The first of the noncharacters of Unicode that stand for signs: no text has them."""

MARKS: Final = "".join(chr(FIRST_MARK + number) for number in range(len(_SIGNS)))
_TO_MARKS: Final = str.maketrans(_SIGNS, MARKS)
_FROM_MARKS: Final = str.maketrans(MARKS, _SIGNS)

_LETTER: Final = r"[^\W\d_\u0e00-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u31ff\u3400-\u9fff\ua960-\ua97f\uac00-\ud7ff]"
"""Letters of scripts that put spaces between words."""

_WORD: Final = rf"\w{characters.MARKS}{characters.UNSPACED}"
"""Characters of words, as in tokens."""

_SIGN: Final = re.compile(
    rf"[#+.@](?:(?<!\+)(?<![{_WORD}#+.@&)\]}}].)(?<!\]\(.)(?={_LETTER})"
    rf"|(?<={_LETTER}\+)\+(?!{_LETTER}|[#+])|(?<={_LETTER}[#+])(?![{_WORD}#+]))",
    re.DOTALL,
)
"""A sign before a name, unless it follows a word (as in addresses) or begins a link target in Markdown, or one that
ends a name. C++17 is a name and a number, a+b is none. What is before a sign is looked at from behind it: a
pattern that begins with a few characters is fast."""


def mark_names(text: str) -> str:
    """The text with the signs of names replaced by marks."""
    return _SIGN.sub(lambda sign: sign[0].translate(_TO_MARKS), text)


def sign_at(text: str, place: int) -> str:
    """The sign of a name that begins at a place of the text, as marks; "" where there is none."""
    sign = _SIGN.match(text, place)
    return sign[0].translate(_TO_MARKS) if sign is not None else ""


def split_name(token: str) -> tuple[str, str, str]:
    """A token in lower case with its signs, its letters as they are, and what follows the signs: "c++", "C" and "17" of
    C++17. "", the token and "" where it has no sign."""
    if token.isascii():
        return "", token, ""
    end = 1 + max(map(token.rfind, MARKS))
    if not end:
        return "", token, ""
    end = end if end > 1 else len(token)
    return token[:end].translate(_FROM_MARKS).lower(), token[:end].strip(MARKS), token[end:]
