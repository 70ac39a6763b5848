"""Words in their order: whether a text has a phrase, or a code, as it is written.

A lexicon is a bag of words, so these look into texts. Case, form of characters (NFKC) and what stands between the words
do not count; their order and their ends do.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from aidre.engine.index.text.analysis import TOKEN, UNSPACED_RUN, normalize
from aidre.engine.index.text.characters import MARKS, UNSPACED

_BETWEEN: Final = rf"[^\w{MARKS}{UNSPACED}]"
_SPACED: Final = rf"(?![{UNSPACED}])[\w{MARKS}]"
"""A character of a word in a script that puts spaces between words."""
_GAP: Final = rf"(?:{_BETWEEN}|_){{1,8}}"
"""What separates two words of a phrase."""
_MAX_WORDS: Final = 64
"""Words of a phrase that are compared."""


@lru_cache(maxsize=512)
def phrase_pattern(phrase: str) -> re.Pattern[str] | None:
    """Finds the words of a phrase in `comparable_text`; None where it has no word."""
    pieces: list[str] = []
    for token in TOKEN.findall(comparable_text(phrase))[:_MAX_WORDS]:
        pieces += [run for run in re.split(f"({UNSPACED_RUN.pattern})", token) if run.strip("_")]
    if not pieces:
        return None
    pattern = before = ""
    for piece in pieces:
        is_spaced, written = not UNSPACED_RUN.match(piece), re.escape(piece)
        if before:
            pattern += _GAP if is_spaced and not UNSPACED_RUN.match(before) else rf"{_BETWEEN}{{0,8}}"
        pattern += written if is_spaced else f"{_BETWEEN}{{0,2}}".join(map(re.escape, piece))
        if not before and is_spaced:  # looked at from behind: a pattern that begins with letters is ten times as fast
            pattern += rf"(?<!{_SPACED}{written})"
        before = piece
    return re.compile(pattern + ("" if UNSPACED_RUN.match(before) else rf"(?!{_SPACED})"))


def comparable_text(text: str) -> str:
    """The form in which texts and phrases are compared."""
    return normalize(text).lower()
