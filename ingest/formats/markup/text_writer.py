"""Writes the blocks of a document as one text, and keeps where its headings, code and tables are.

Paragraphs stand apart by blank lines, items of a list on lines of their own, tables are tables of Markdown. What
comes out is the answer of a parser in the sandbox. The front matter of a text in another markup than Markdown, as
Hugo, Jekyll and Pandoc take it there, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aidre.engine.errors import InvalidDocument
from aidre.ingest.formats import split_front_matter
from aidre.ingest.formats.pages.markdown_table import write_table as write_markdown_table

if TYPE_CHECKING:
    from aidre.engine.model import Json

MAX_VALUE_CHARACTERS = 1000
"""Characters of a title, a heading or a property; further ones are cut off."""

MAX_CELLS = 200_000
"""Cells of a table with those that fill its rows up; the rows of a larger one stay lines."""

MAX_BLOCKS = 1_000_000
_INVISIBLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\xad\ufeff]")
_MAX_LEVEL = 9


class TextWriter:
    """`title` is the first heading of level 1, None before there is one."""

    def __init__(self) -> None:
        self.title: str | None = None
        self._parts: list[str] = []
        self._headings: list[list[Any]] = []
        self._verbatim: list[list[int]] = []
        self._length = 0
        self._was_item = False

    def heading(self, title: str, level: int) -> None:
        """Write a heading on a line of its own; an empty one is skipped."""
        title = to_line(title)
        if title:
            start = self._add(title)
            self._headings.append([start, min(max(level, 1), _MAX_LEVEL), title])
            if level <= 1 and self.title is None:
                self.title = title

    def paragraph(self, text: str) -> None:
        self._add(clean(text).strip())

    def item(self, text: str, mark: str = "-", depth: int = 0) -> None:
        """An item of a list, which follows the item before it on the next line."""
        text = clean(text).strip()
        if text:
            self._add(f"{'  ' * min(depth, _MAX_LEVEL)}{mark} {text}" if mark else text, is_item=True)

    def code(self, text: str) -> None:
        """A block whose lines stay as they are."""
        text = clean(text.expandtabs(4)).strip("\n").rstrip()
        if text:
            start = self._add(text)
            self._verbatim.append([start, self._length])

    def table(self, rows: Iterable[Sequence[str]]) -> None:
        """Rows of cells, the first with the names of the columns."""
        text = write_table(rows)
        if text:
            start = self._add(text)
            if text.startswith("| "):
                self._verbatim.append([start, self._length])

    def extend(self, text: str, headings: Iterable[Sequence[Any]], verbatim: Iterable[Sequence[int]]) -> None:
        """A text whose headings and verbatim spans are known already."""
        if text.strip():
            start = self._add(text)
            for place, level, title in headings:
                self._headings.append([start + place, level, title])
                self.title = self.title or (title if level == 1 else None)
            self._verbatim += [[start + begin, start + end] for begin, end in verbatim]

    def answer(self, members: Mapping[str, Json]) -> dict[str, Json]:
        """The answer of a parser, with `members` as title, date, language and metadata; empty ones are left out."""
        stated = {name: value for name, value in members.items() if value}
        title = {} if self.title is None else {"title": self.title}
        found = {"text": "".join(self._parts), "headings": self._headings, "verbatim": self._verbatim}
        return title | stated | found

    def _add(self, text: str, *, is_item: bool = False) -> int:
        """Append a block; returns where it begins."""
        if not text:
            return self._length
        if len(self._parts) >= MAX_BLOCKS:
            raise InvalidDocument(f"has more than {MAX_BLOCKS:,} paragraphs: split it")
        gap = "" if not self._parts else "\n" if is_item and self._was_item else "\n\n"
        self._parts.append(gap + text)
        self._length += len(gap) + len(text)
        self._was_item = is_item
        return self._length - len(text)


def write_table(rows: Iterable[Sequence[str]]) -> str:
    """A table of several rows and columns as one of Markdown; others hold a text together, and are its lines."""
    filled = [[" ".join(clean(cell).split()) for cell in row] for row in rows]
    filled = [row for row in filled if any(row)]
    width = max(map(len, filled), default=0)
    if len(filled) < 2 or width < 2 or width * len(filled) > MAX_CELLS:
        return "\n".join("\t".join(row).rstrip("\t") for row in filled)
    return write_markdown_table(filled)


def to_line(text: str | None) -> str:
    """A title or a property on one line, without invisible characters."""
    return " ".join(clean((text or "")[:MAX_VALUE_CHARACTERS]).split())


def clean(text: str) -> str:
    return _INVISIBLE.sub("", text)


_OPENINGS = ("---", "+++")
_OF_ANSWERS = ("title", "updated_at", "language", "url", "canonical")
_NOT_METADATA = frozenset({"id", "type", "section", "metadata", "semantic_payload"})
"""Members that mean something in Markdown and in rows alone."""


def split_members(text: str) -> tuple[dict[str, Json], str]:
    """Members under the names of an answer, what else there is as its metadata, and the body."""
    if not text.lstrip("\ufeff\r\n\t ").startswith(_OPENINGS):
        return {}, text
    members, body = split_front_matter(text)
    if not members:
        return {}, text
    found = {name: str(members[name]) for name in _OF_ANSWERS if type(members.get(name)) in (str, int, float)}
    rest = {name: value for name, value in members.items() if name not in _OF_ANSWERS and name not in _NOT_METADATA}
    inner = members.get("metadata")
    return found | {"metadata": rest | (inner if type(inner) is dict else {})}, body
