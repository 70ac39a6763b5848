"""What the places of characters on a PDF page tell of its text: lines of tables, and letters of one glyph.

Runs in the sandbox's child. PDFium gives a text in reading order and a box for each character.
"""

from __future__ import annotations

import re
from ctypes import byref, c_double
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pypdfium2 import PdfTextPage

UNSPACED = "[\\u3000-\\u30ff\\u3400-\\u9fff\\uf900-\\ufaff\\uff00-\\uff60]"
"""Characters of scripts without spaces between words, as a pattern."""

_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]")
_WORD = re.compile(r"\S+")
_LINE_END = re.compile(r"[\r\n]+")

_WIDE, _LONE = 0.7, 1.2
"""Width of a gap between two cells by the height of the line: where a line has several, and where it has one. The gaps
of justified lines are rarely wider than half of it."""

_PROSE_WORDS, _PROSE_SHARE = 6, 0.6
"""A line is prose if it has this many words, and this share of them in small letters."""

_SAME = 0.01
"""Points by which boxes of letters of one glyph may differ."""


class TableLines(NamedTuple):
    """Lines of a page, in the words of its text, with several wide gaps between words, and with one."""

    rows: frozenset[str] = frozenset()
    pairs: frozenset[str] = frozenset()

    def are_apart(self, line: str, following: str) -> bool:
        """Whether two consecutive lines are not one paragraph: one is a row of a table, or both have a gap."""
        both = {line, following}
        return any(map(is_ruled, both)) or bool(both & self.rows) or both <= self.pairs


def is_ruled(line: str) -> bool:
    """Whether a line is a row of Markdown."""
    return len(line) > 1 and line[0] == line[-1] == "|"


def find_table_lines(page: PdfTextPage) -> TableLines:
    text = page.get_text_range()
    if len(text) != page.count_chars():  # characters beyond 16 bits, whose places are unknown here
        return TableLines()
    boxes = _Boxes(page)
    rows, pairs = set(), set()
    start = 0
    for end in [*(match.start() for match in _LINE_END.finditer(text)), len(text)]:
        line = text[start:end].strip()
        if " " in line and not _is_prose(line):
            gaps = boxes.gaps(text, start, end)
            if sum(gap >= _WIDE for gap in gaps) > 1:
                rows.add(line)
            elif any(gap >= _LONE for gap in gaps):
                pairs.add(line)
        start = end
    return TableLines(frozenset(rows), frozenset(pairs))


def _is_prose(line: str) -> bool:
    """Whether a line is so surely one of a paragraph that its gaps are not looked at, which takes time."""
    words = line.split()
    return len(words) >= _PROSE_WORDS and sum(map(str.islower, words)) >= _PROSE_SHARE * len(words)


def order_ligatures(text: str, page: PdfTextPage) -> str:
    """The text with the letters of one glyph in their order, which PDFium reverses in scripts from right to left.

    Such letters, as lam and alef of Arabic, have one box. `text` is that of the page or a part of it.
    """
    if not _RIGHT_TO_LEFT.search(text):
        return text
    boxes = _Boxes(page)
    characters = [chr(boxes.unicode(index)) for index in range(page.count_chars())]
    ordered = list(characters)
    start = 0
    for index in range(1, len(characters) + 1):
        is_one = (
            index < len(characters) and _RIGHT_TO_LEFT.match(characters[index]) and boxes.are_same(index - 1, index)
        )
        if not is_one:
            if index - start > 1:
                ordered[start:index] = reversed(ordered[start:index])
            start = index
    if "".join(characters) == text:
        return "".join(ordered)
    words: dict[str, str] = {}
    for match in _WORD.finditer("".join(characters)):
        words.setdefault(match[0], "".join(ordered[match.start() : match.end()]))
    return _WORD.sub(lambda match: words.get(match[0], match[0]), text)


class _Boxes:
    """The boxes of the characters of a page, by their numbers."""

    def __init__(self, page: PdfTextPage) -> None:
        from pypdfium2 import raw

        self._raw, self._page = raw, page
        self._sides = [c_double() for _ in range(4)]
        self._references = [byref(side) for side in self._sides]
        self._loose = raw.FS_RECTF()

    def unicode(self, index: int) -> int:
        return int(self._raw.FPDFText_GetUnicode(self._page, index))

    def box(self, index: int) -> tuple[float, ...] | None:
        """Left, right, bottom and top."""
        found = self._raw.FPDFText_GetCharBox(self._page, index, *self._references)
        return tuple(side.value for side in self._sides) if found else None

    def are_same(self, number: int, other: int) -> bool:
        first, second = self.box(number), self.box(other)
        if first is None or second is None or first[0] == first[1]:
            return False
        return all(abs(side - another) <= _SAME for side, another in zip(first, second, strict=True))

    def gaps(self, text: str, start: int, end: int) -> list[float]:
        """The gaps between the words of a line, by its height; none for a line that is not horizontal."""
        words = list(_WORD.finditer(text, start, end))
        height = self._height(words[0].start()) if words else 0.0
        found: list[float] = []
        for word, other in pairwise(words) if height > 0 else ():
            before, behind = self.box(word.end() - 1), self.box(other.start())
            if before is None or behind is None:
                continue
            # In a line from right to left the next word stands left of the one before it.
            gap = max(behind[0] - before[1], before[0] - behind[1])
            if abs(before[2] - behind[2]) <= height:
                found.append(gap / height)
        return found

    def _height(self, index: int) -> float:
        box: Any = self._loose
        if not self._raw.FPDFText_GetLooseCharBox(self._page, index, byref(box)):
            return 0.0
        return abs(float(box.top) - float(box.bottom))
