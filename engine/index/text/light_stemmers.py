"""Light stemmers, which strip affixes without a dictionary: for Arabic and for Hebrew. For Urdu and Vietnamese, one
spelling of each word.

Both languages write the article, prepositions and conjunctions as one word with the noun: والحزمة is "and the
package". A word and its forms with such proclitics get one stem. A stem is a key and need not be a word: letters of a
root that look like a proclitic are stripped too, always alike.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

_ARABIC_MARKS: Final = re.compile("[\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed]")
"""Vowel signs and other marks, and tatweel, which only stretches a word."""

_DIGITS: Final = {zero + n: str(n) for zero in (0x0660, 0x06F0) for n in range(10)}
_ARABIC_LETTERS: Final = _DIGITS | {
    ord(written): letter
    for letter, variants in (("\u0627", "\u0622\u0623\u0625\u0671"), ("\u064a", "\u0649\u06cc"), ("\u0643", "\u06a9"))
    for written in variants
}
"""Alef with hamza, madda or wasla is alef; alef maqsura and the Persian yeh are yeh; the Persian keheh is kaf."""

_URDU_LETTERS: Final = _DIGITS | {0x0643: "\u06a9", 0x0649: "\u06cc", 0x064A: "\u06cc"}
"""Urdu typed on an Arabic keyboard: kaf is keheh, yeh and alef maqsura are Persian yeh."""

_ARABIC_ARTICLE: Final = re.compile("(?:[وف]?[بك]?ال|[وف]?لل(?=...))(?=..)|[وف]?ل(?=ل..$)")
"""The article with what may stand before it: wa- or fa- ("and"), bi- ("with"), ka- ("like"), and lil- ("for the"). The
last alternative is lil- before a short word that itself begins with lam, of which three are written as two."""

Suffixes: TypeAlias = tuple[tuple[tuple[str, int], ...], ...]
"""Groups of alternatives. Of each group the first one is stripped that leaves so many letters or more."""

_ARABIC_SUFFIXES: Final[Suffixes] = (
    (("ها", 2), ("هم", 3), ("ه", 3)),  # her, their, his
    (("يات", 3), ("ية", 3), ("ات", 2), ("ان", 3), ("ون", 3), ("ين", 3), ("ة", 2), ("ي", 3)),  # number and gender
    (("ا", 3), ("ت", 3)),  # the accusative; the feminine before another suffix
)

_HEBREW_MARKS: Final = re.compile("[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7]")
_HEBREW_FINALS: Final = str.maketrans("ךםןףץ", "כמנפצ")
_HEBREW_SUFFIXES: Final[Suffixes] = ((("יהמ", 3), ("ימ", 3), ("ות", 3), ("ה", 3), ("י", 3), ("ת", 4)),)
"""After final letters have become medial ones: their, the plurals, the feminine, the construct state."""

_TONES: Final = re.compile("[\u0300\u0301\u0303\u0309\u0323]")

_MIN_STEM: Final = 3
"""Letters that remain after a proclitic of one letter: the length of a root."""


def stem_arabic(word: str) -> str:
    """The stem of a word in Arabic letters.

    It is light10 (Larkey, Ballesteros and Connell, "Light Stemming for Arabic Information Retrieval", 2007, as in
    Lucene's ArabicNormalizer and ArabicStemmer), with these differences: a noun after bi- ("with"), li- ("for") or wa-
    ("and") without an article is found too; most suffixes need three remaining letters, so that a root keeps its own;
    only one suffix of number and gender is stripped; the feminine before a suffix and the accusative are stripped.
    """
    word = _ARABIC_MARKS.sub("", word).translate(_ARABIC_LETTERS)
    word = _ARABIC_ARTICLE.sub("", word, count=1) if _ARABIC_ARTICLE.match(word) else word
    return _strip_proclitics(_strip_suffixes(word, _ARABIC_SUFFIXES), "وبل")


def stem_hebrew(word: str) -> str:
    """The stem of a word in Hebrew letters: without points, and without what can stand before or after a noun.

    The proclitics are the letters of the mnemonic "moshe v-kalev". There is no published light stemmer to follow: with
    a dictionary, as HebMorph has, fewer distinct words would share a stem.
    """
    word = _HEBREW_MARKS.sub("", word).translate(_HEBREW_FINALS)
    return _strip_proclitics(_strip_suffixes(word, _HEBREW_SUFFIXES), "משהוכלב")


def unify_urdu(word: str) -> str:
    """A word of Urdu with one code point for each letter, and without marks."""
    return _ARABIC_MARKS.sub("", word).translate(_URDU_LETTERS)


def unify_vietnamese(word: str) -> str:
    """A syllable with the mark of its tone behind it: hòa and hoà are one word in two spellings, hoa is another."""
    if word.isascii():
        return word
    apart = unicodedata.normalize("NFD", word)
    return unicodedata.normalize("NFC", _TONES.sub("", apart)) + "".join(_TONES.findall(apart))


def _strip_suffixes(word: str, suffixes: Suffixes) -> str:
    for group in suffixes:
        found = (suffix for suffix, rest in group if word.endswith(suffix) and len(word) - len(suffix) >= rest)
        word = word.removesuffix(next(found, ""))
    return word


def _strip_proclitics(word: str, proclitics: str) -> str:
    """Strip all at the beginning: if only some were, a word and its form with one more would differ."""
    while len(word) > _MIN_STEM and word[0] in proclitics:
        word = word[1:]
    return word


LIGHT_STEMMERS: Final[Mapping[str, Callable[[str], str]]] = {
    "arabic": stem_arabic,
    "hebrew": stem_hebrew,
    "urdu": unify_urdu,
    "vietnamese": unify_vietnamese,
}
