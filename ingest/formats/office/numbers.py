"""The numbers of lists and headings of a DOCX, as the document shows them: "2.1", "(c)", "Chapter IV".

A paragraph names a numbering (`w:num`) and a level. The number is counted here, since no file contains it. Bullets are
no numbers: they say nothing that the line of an item does not say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from aidre.ingest.formats.pages.inline import to_roman

if TYPE_CHECKING:
    from docx.document import Document

Element: TypeAlias = Any
"""An element of lxml, which ships no types."""

LEVELS = 9
_MAX_NUMBER = 1 << 20
_MAX_LABEL_CHARACTERS = 100
_MAX_LINKS = 5
"""Styles of lists that refer to each other."""

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_PLACE = re.compile(r"%([1-9])")
_SUFFIXES = {1: "st", 2: "nd", 3: "rd"}


@dataclass(frozen=True, slots=True)
class _Level:
    start: int = 1
    form: str = "decimal"
    text: str = ""
    style: str = ""
    is_legal: bool = False
    is_restarted: bool = True


@dataclass(slots=True)
class _LevelNumbers:
    """The numbers of all levels; numberings of the same abstract one go on with each other's."""

    levels: dict[int, _Level]
    numbers: list[int | None]


class Numbering:
    """Counts the paragraphs of a document, which must come in their order."""

    def __init__(self, document: Document) -> None:
        abstracts, nums = _find_definitions(document)
        counts = {name: _LevelNumbers(_read_levels(element), [None] * LEVELS) for name, element in abstracts.items()}
        self._counts: dict[str, _LevelNumbers] = {}
        self._levels: dict[str, dict[int, _Level]] = {}
        self._restarts: dict[str, dict[int, int]] = {}
        for name, num in nums.items():
            if (count := counts.get(_value(num.find(f"{_W}abstractNumId")))) is not None:
                self._counts[name] = count
                self._levels[name] = count.levels | _read_levels(num)
                self._restarts[name] = dict(_read_restarts(num))

    def find_level(self, number: str, style: str) -> int:
        """The level of a numbering that belongs to a style; 0 if none does."""
        levels = self._levels.get(number, {})
        return next((depth for depth, level in levels.items() if style and level.style == style), 0)

    def count(self, number: str, depth: int) -> str:
        """The number of the next paragraph at a level (from 0) of a numbering; empty for a bullet, or without one."""
        count = self._counts.get(number)
        if count is None or not 0 <= depth < LEVELS:
            return ""
        levels = self._levels[number]
        level = levels.get(depth, _Level())
        start = self._restarts[number].pop(depth, None)
        last = count.numbers[depth]
        if start is not None:
            count.numbers[depth] = start
        else:
            count.numbers[depth] = level.start if last is None else last + 1
        for deeper in range(depth + 1, LEVELS):
            if levels.get(deeper, _Level()).is_restarted:
                count.numbers[deeper] = None
        return _label(level, levels, count.numbers)


def _label(level: _Level, levels: dict[int, _Level], numbers: list[int | None]) -> str:
    if level.form == "bullet":
        return ""

    def fill(place: re.Match[str]) -> str:
        depth = int(place[1]) - 1
        shown = levels.get(depth, _Level())
        number = numbers[depth]
        form = "decimal" if level.is_legal and shown.form != "none" else shown.form
        return _write(shown.start if number is None else number, form)

    return " ".join(_PLACE.sub(fill, level.text).split())[:_MAX_LABEL_CHARACTERS]


def _write(number: int, form: str) -> str:
    """A number in a format of the standard; in another than these, which few documents have, it is decimal."""
    if form in {"none", "bullet"}:
        return ""
    if form in ("lowerRoman", "upperRoman"):
        return to_roman(number) if form == "upperRoman" else to_roman(number).lower()
    if form in ("lowerLetter", "upperLetter") and number > 0:  # Word repeats the letter: z, aa, bb
        letter = chr(ord("a") + (number - 1) % 26) * min((number - 1) // 26 + 1, _MAX_LABEL_CHARACTERS)
        return letter.upper() if form == "upperLetter" else letter
    if form == "decimalZero":
        return f"{number:02}"
    if form == "ordinal":
        return f"{number}{'th' if number % 100 in (11, 12, 13) else _SUFFIXES.get(number % 10, 'th')}"
    return str(number)


def _find_definitions(document: Document) -> tuple[dict[str, Element], dict[str, Element]]:
    """The abstract numberings and the numberings, by their ids; an abstract one may be that of a style of lists."""
    from docx.opc.constants import RELATIONSHIP_TYPE

    try:
        part: Any = document.part.part_related_by(RELATIONSHIP_TYPE.NUMBERING)
        root = part.element
    except (KeyError, AttributeError, ValueError):  # without lists, or with a part that is missing
        return {}, {}
    abstracts = {each.get(f"{_W}abstractNumId", ""): each for each in root.findall(f"{_W}abstractNum")}
    nums = {each.get(f"{_W}numId", ""): each for each in root.findall(f"{_W}num")}
    owners = {
        _value(each.find(f"{_W}styleLink")): each
        for each in abstracts.values()
        if each.find(f"{_W}styleLink") is not None
    }
    for name, abstract in abstracts.items():
        own = abstract
        for _ in range(_MAX_LINKS):
            link = own.find(f"{_W}numStyleLink")
            own = own if link is None else owners.get(_value(link), own)
        abstracts[name] = own
    return abstracts, nums


def _read_levels(parent: Element) -> dict[int, _Level]:
    """The levels of an abstract numbering, or those that a numbering has instead of them."""
    levels = {}
    for each in parent.iter(f"{_W}lvl"):
        legal = each.find(f"{_W}isLgl")
        levels[_to_number(each.get(f"{_W}ilvl"), 0)] = _Level(
            start=_to_number(_value(each.find(f"{_W}start")), 1),
            form=_value(each.find(f"{_W}numFmt")) or "decimal",
            text=_value(each.find(f"{_W}lvlText")),
            style=_value(each.find(f"{_W}pStyle")),
            is_legal=legal is not None and _value(legal) not in ("0", "false", "off"),
            is_restarted=_value(each.find(f"{_W}lvlRestart")) != "0",
        )
    return levels


def _read_restarts(num: Element) -> Iterator[tuple[int, int]]:
    """The levels that a numbering begins again, with their first numbers."""
    for each in num.findall(f"{_W}lvlOverride"):
        start = each.find(f"{_W}startOverride")
        if start is not None:
            yield _to_number(each.get(f"{_W}ilvl"), 0), _to_number(_value(start), 1)


def _value(element: Element) -> str:
    return "" if element is None else str(element.get(f"{_W}val") or "")


def _to_number(text: str | None, default: int) -> int:
    return int(text) if text and text.isascii() and text.isdecimal() and int(text[:9]) < _MAX_NUMBER else default
