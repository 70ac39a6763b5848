"""Whether a word that nobody knows can be a slip of the pen for another one, by what differs between the two."""

from __future__ import annotations

import unicodedata
from collections.abc import Container
from typing import Final

from aidre.engine.index.text.characters import fold
from aidre.engine.index.text.languages import LATIN, script_of

_MIN_STEM: Final = 4
"""Letters that two words share after their prefixes if these tell them apart."""

_MIN_ENDING: Final = 5
"""Letters of a word that may be the second part of others."""

_PREFIXES: Final = frozenset({
    "anti", "auto", "counter", "extra", "hetero", "homo", "hyper", "hypo", "infra", "inter", "intra", "iso", "macro",
    "meta", "micro", "mono", "multi", "over", "para", "peri", "poly", "post", "pseudo", "semi", "sub", "super", "supra",
    "tele", "thermo", "trans", "ultra", "under",
})  # fmt: skip
_NEGATIONS: Final = frozenset({"an", "dis", "in", "mis", "non", "re", "un"}) | _PREFIXES
"""Prefixes that make another word of one that has none."""
_ENDINGS: Final = frozenset(
    {"est", "ful", "ing", "ion", "ish", "ism", "ist", "ity", "ive", "ment", "ness", "ous", "tion"}
)
_INFLECTED_IN_FRONT: Final = frozenset({"arabic", "hebrew"})
"""Scripts whose words have articles, prepositions and persons as letters before them."""
_SIGN: Final = "Lm"
"""The category of letters that modify others, and stand for a stop of the voice."""
_WORDS: Final = frozenset({"an", "counter", "extra", "in", "over", "post", "super", "under"})


def may_be_slip(word: str, other: str) -> bool:
    """Whether `word` may have been typed for `other`, whose letters are nearly the same.

    It may not where it has a letter with an accent that `other` lacks: nobody strikes one by accident. It may not where
    the two differ in a prefix, as hypotension and hypertension do, or inorganic and organic; nor in their first two
    letters or more, which hardly anybody strikes wrong: accelerating and decelerating.
    """
    if script_of(word) in _INFLECTED_IN_FRONT and (word.endswith(other) or other.endswith(word)):
        return False
    return _keeps_accents(word, other) and not _differ_by_prefix(word, other)


def is_affix(word: str) -> bool:
    """Whether a word is a prefix or an ending, and none that is also used as a word."""
    return word in _ENDINGS or (word in _NEGATIONS and word not in _WORDS)


def share_ending(word: str, other: str, known: Container[str]) -> bool:
    """Whether two words end in the same known one, as osteogenesis and ontogenesis do: then both may be right."""
    shared = _shared_ending(word, other)
    return any(word[-length:] in known for length in range(_MIN_ENDING, shared + 1))


def _keeps_accents(word: str, other: str) -> bool:
    if word.isascii() or script_of(word) != LATIN:
        return True
    its = iter(_accented(other))
    return all(letter in its for letter in _accented(word))


def _accented(word: str) -> str:
    """The base letters of those beyond ASCII, in order: accents may be written wrong, but they are not left out. Signs
    such as the one in Hawaiʻi are: many write none, or an apostrophe."""
    letters = (letter for letter in word if not letter.isascii() and unicodedata.category(letter) != _SIGN)
    return "".join(fold(letter)[0] for letter in letters)


def _differ_by_prefix(word: str, other: str) -> bool:
    shared = _shared_ending(word, other)
    prefix, other_prefix = prefixes = word[: len(word) - shared], other[: len(other) - shared]
    if shared < _MIN_STEM:
        return False
    if _PREFIXES.issuperset(prefixes) or ("" in prefixes and not _NEGATIONS.isdisjoint(prefixes)):
        return True
    return min(map(len, prefixes)) > 1 and sorted(prefix) != sorted(other_prefix) and prefix[0] != other_prefix[0]


def _shared_ending(word: str, other: str) -> int:
    """The number of letters with which both words end."""
    shared = 0
    while shared < min(len(word), len(other)) and word[-1 - shared] == other[-1 - shared]:
        shared += 1
    return shared
