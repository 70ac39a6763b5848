"""Characters that say nothing of a word, those that no reader sees and the accents of Latin letters; and the signs that
belong to a name: C++, C#, A+, .NET, @handle, #tag.

Invisible are the marks of where a line may break, which way a text runs, and how neighbours join. Texts lose those that
only a page layout needs as soon as they are read from a file; the analysis of words ignores all of them. "cafe" is the
plain spelling of "café", "lodz" of "łódź". A sign of a name is replaced by a character of its own that belongs to
tokens, one for one, so that places stay. The token is a word with its signs, and its letters are words beside it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import cache
from typing import Final

# -- parts of words ---------------------------------------------------------------------------------------------

# \w matches letters and digits but no combining marks, without which words of Indic and other scripts would be split.
MARKS: Final = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0711\u0730-\u074a\u07a6-\u07b0\u0816-\u082d\u0900-\u0903"
    "\u093a-\u094f\u0951-\u0957\u0962\u0963\u0981-\u0983\u09bc-\u09cd\u09d7\u0a01-\u0a03\u0a3c-\u0a4d\u0a70\u0a71"
    "\u0a81-\u0a83\u0abc-\u0acd\u0b01-\u0b03\u0b3c-\u0b57\u0b82\u0bbe-\u0bcd\u0bd7\u0c00-\u0c04\u0c3e-\u0c56"
    "\u0c81-\u0c83\u0cbc-\u0cd6\u0d00-\u0d03\u0d3b-\u0d4d\u0d57\u0d81-\u0d83\u0dca-\u0ddf\u1dc0-\u1dff\u20d0-\u20f0"
)
# Han, kana, Bopomofo, Thai, Lao, Tibetan, Myanmar and Khmer; and Hangul, which attaches particles to words.
UNSPACED: Final = (
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3041-\u3096\u3099-\u30fa"
    "\u30fc-\u30ff\u3105-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f"
    "\uac00-\ud7ff\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)

# -- invisible characters --------------------------------------------------------------------------------------

_LAYOUT: Final = "\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff"
"""Soft hyphen, zero-width space, word joiner, byte order mark, and the marks of direction."""

_IGNORED: Final = (
    f"{_LAYOUT}\u034f\u17b4\u17b5\u180b-\u180f\u2061-\u2065\u206a-\u206f\ufdd0-\ufdef\ufe00-\ufe0f\U000e0000-\U000e0fff"
)
"""And what chooses among shapes of a character or is reserved for such uses: Default_Ignorable_Code_Point of Unicode,
without the fillers of Hangul, which are letters, and the joiners; and the noncharacters, which stand for signs."""

NON_JOINER: Final = "\u200c"
_ARABIC: Final = "\u0620-\u06ff\u0750-\u077f\u08a0-\u08ff"
"""Letters between which a non-joiner stands at the seam of a compound: Persian writes plurals and many nouns so. It
stays there; everywhere else both joiners only choose a shape."""

_OF_LAYOUT: Final = re.compile(f"[{_LAYOUT}]+")
_OF_WORDS: Final = re.compile(
    f"[{_IGNORED}\u200d{NON_JOINER}](?:(?<!{NON_JOINER})|(?<![{_ARABIC}]{NON_JOINER})|(?![{_ARABIC}]))"
)
"""Begins with a set of characters, which is found fast; what is before it is looked at from behind."""

_REFERENCE: Final = re.compile(
    r"&(?:shy|ZeroWidthSpace|NegativeVery(?:Thin|Thick)Space|NegativeMediumSpace|NoBreak|lrm|rlm);"
    r"|&#(?:[xX]0{0,4}([0-9a-fA-F]{2,4})|0{0,4}([0-9]{3,5}));"
)


def strip_layout(text: str) -> str:
    """The text without characters of layout. Joiners stay, which Persian and Hindi need."""
    return text if text.isascii() else _OF_LAYOUT.sub("", text)


def strip_layout_references(markup: str) -> str:
    """HTML or Markdown without references to characters of layout, such as `&shy;` and `&#8203;`."""
    return _REFERENCE.sub(_visible, markup) if "&" in markup else markup


def _visible(reference: re.Match[str]) -> str:
    point = int(reference[1], 16) if reference[1] else int(reference[2] or 0)
    is_layout = not point or (point <= 0xFFFF and not strip_layout(chr(point)))
    return "" if is_layout else reference[0]


def strip_ignored(text: str) -> str:
    """The text without all that the analysis of words ignores."""
    return text if text.isascii() else _OF_WORDS.sub("", text)


def places_of_kept(text: str) -> list[int] | None:
    """The places of the characters that `strip_ignored` keeps; None where it keeps all."""
    ignored = frozenset(match.start() for match in _OF_WORDS.finditer(text))
    return [place for place in range(len(text)) if place not in ignored] if ignored else None


# -- accents ---------------------------------------------------------------------------------------------------

_PLAIN: Final = {
    "ı": "i", "æ": "ae", "œ": "oe", "þ": "th", "ð": "d", "ß": "ss", "ŋ": "n", "ə": "e", "ɛ": "e", "ɔ": "o", "ĸ": "k",
    "ʻ": "", "ʼ": "", "ʾ": "", "ʿ": "",
}  # fmt: skip
"""Letters that Unicode neither decomposes nor names after a plain one. The last four are apostrophes, as in Hawaiʻi."""

_BLOCKS: Final = ((0x00DF, 0x02B0), (0x1D00, 0x1DC0), (0x1E00, 0x1F00), (0x2C60, 0x2C80), (0xA720, 0xA800))
"""Unicode ranges of the Latin letters beyond ASCII, with their ends."""

_VARIANT: Final = re.compile("LATIN SMALL LETTER ([A-Z])(?: WITH .+)?")
"""The name of a letter that is a plain one with a stroke, a hook or a tail: ł, ø and đ are not accents in Unicode."""


def fold(word: str) -> str:
    """A word in lower case in its plain spelling. Marks on letters of other scripts stay, and signs alone."""
    if word.isascii():
        return word
    folded: list[str] = []
    for letter in unicodedata.normalize("NFD", word).translate(_plain_letters()):
        if unicodedata.combining(letter) and folded and folded[-1].isascii():
            continue
        folded.append(letter)
    return unicodedata.normalize("NFC", "".join(folded)) or word


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


# -- signs of names --------------------------------------------------------------------------------------------

_SIGNS: Final = "#+.@"
SIGN_BYTES: Final = _SIGNS.encode()
FIRST_MARK: Final = 0xFDD0
"""The first of the noncharacters of Unicode that stand for signs: no text has them."""

SIGN_MARKS: Final = "".join(chr(FIRST_MARK + number) for number in range(len(_SIGNS)))
_TO_MARKS: Final = str.maketrans(_SIGNS, SIGN_MARKS)
_FROM_MARKS: Final = str.maketrans(SIGN_MARKS, _SIGNS)

_LETTER: Final = r"[^\W\d_\u0e00-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u31ff\u3400-\u9fff\ua960-\ua97f\uac00-\ud7ff]"
"""Letters of scripts that put spaces between words."""

_WORD: Final = rf"\w{MARKS}{UNSPACED}"
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
    end = 1 + max(map(token.rfind, SIGN_MARKS))
    if not end:
        return "", token, ""
    end = end if end > 1 else len(token)
    return token[:end].translate(_FROM_MARKS).lower(), token[:end].strip(SIGN_MARKS), token[end:]
