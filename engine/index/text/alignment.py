"""The normalised form of a text, with the characters of the text that each of its characters comes from.

Unicode's form NFKC replaces characters one by one or in clusters: a character, and those after it that may be reordered
or composed with it. So the parts of a text between clusters are normalised apart, and the parts joined are the form of
the whole.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from aidre.engine.index.text.analysis import PIECE
from aidre.engine.index.text.characters import places_of_kept, strip_ignored

_JOINING: Final = frozenset(
    "\u09be\u09d7\u0b3e\u0b56\u0b57\u0bbe\u0bd7\u0cc2\u0cd5\u0cd6\u0d3e\u0d57\u0dcf\u0ddf\u0f73\u0f75\u0f81\u102e"
    "\u1b35\uff9e\uff9f\U00011127\U0001133e\U00011357\U000114b0\U000114ba\U000114bd\U000115af\U00011930"
)
"""Characters of combining class 0 that compose with a character before them, beside those of Hangul; a newer Unicode
may have more."""


class Aligned(NamedTuple):
    """A normalised text. Character n comes from the characters `starts[n]` to `ends[n]` of the text; where both are
    None, from the one in the same place."""

    text: str
    starts: list[int] | None = None
    ends: list[int] | None = None

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The characters of the text that a part of the normalised one, not empty, comes from."""
        if self.starts is None or self.ends is None:
            return start, end
        return self.starts[start], self.ends[end - 1]


def align(text: str) -> Aligned:
    """The text as `normalize` returns it, with its places."""
    if text.isascii():
        return Aligned(text)
    kept = places_of_kept(text)
    if kept is None:
        return _align(text)
    aligned = _align(strip_ignored(text))
    starts, ends = aligned.starts or range(len(kept)), aligned.ends or range(1, len(kept) + 1)
    return Aligned(aligned.text, [kept[start] for start in starts], [kept[end - 1] + 1 for end in ends])


def _align(text: str) -> Aligned:
    if text.isascii() or unicodedata.is_normalized("NFKC", text):
        return Aligned(text)
    forms = {letter: _form_alone(letter) for letter in set(text)}
    if None not in forms.values():  # such as the punctuation of Chinese
        for letter, form in forms.items():
            text = text if form is None or form == letter else text.replace(letter, form)
        return Aligned(text)
    parts: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    place = 0
    for piece in PIECE.findall(text):
        for cluster in _checked_clusters(piece):
            form = unicodedata.normalize("NFKC", cluster)
            parts.append(form)
            starts += [place] * len(form)
            place += len(cluster)
            ends += [place] * len(form)
    return Aligned("".join(parts), starts, ends)


@lru_cache(maxsize=1 << 12)
def _form_alone(letter: str) -> str | None:
    """The form of a character, if it is one character and the same in every text."""
    form = unicodedata.normalize("NFKC", letter)
    return form if len(form) == 1 and not _joins(letter) else None


def _checked_clusters(piece: str) -> list[str]:
    """The clusters of a piece; the piece itself where they are not apart, by characters of a newer Unicode."""
    if piece.isascii():
        return list(piece)
    clusters = list(_clusters(piece))
    forms = [unicodedata.normalize("NFKC", cluster) for cluster in clusters]
    return clusters if "".join(forms) == unicodedata.normalize("NFKC", piece) else [piece]


def _clusters(piece: str) -> Iterator[str]:
    start = 0
    for place in range(1, len(piece)):
        if not _joins(piece[place]):
            yield piece[start:place]
            start = place
    yield piece[start:]


@lru_cache(maxsize=1 << 12)
def _joins(letter: str) -> bool:
    """Whether a character may be reordered or composed with the one before it."""
    first = unicodedata.normalize("NFKD", letter)[0]
    is_jamo = "\u1161" <= first <= "\u1175" or "\u11a8" <= first <= "\u11c2"  # vowels and finals of Hangul
    return unicodedata.combining(letter) > 0 or unicodedata.combining(first) > 0 or is_jamo or first in _JOINING
