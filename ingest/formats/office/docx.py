"""DOCX as text: paragraphs, lists and tables in document order, heading styles as headings.

Runs in the sandbox's child; knows no file. A DOCX is a zip archive of XML, which is checked before a library reads it.
"""

from __future__ import annotations

import io
import re
import sys
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TypeAlias

from aidre.engine.errors import InvalidDocument
from aidre.ingest.formats.office.numbers import LEVELS, Numbering
from aidre.ingest.formats.office.package import XML_SUFFIXES, ArchiveKind, check_package
from aidre.ingest.formats.pages.markdown_table import write_table

if TYPE_CHECKING:
    from docx.document import Document

Element: TypeAlias = Any
"""An element of lxml, which ships no types."""

MAX_VALUE_CHARACTERS = 1000
"""Characters of a title, a heading or a property; further ones are cut off."""

DOCX = ArchiveKind("DOCX", "Word document", ".docx")
_NO_MEMORY = "unknown error"
"""The message of lxml if it runs out of memory."""

_RELATIONS = "_rels/.rels"
_STRICT_NAME = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w{1,40})/(\w{1,40})")
"""Namespaces and types of relations of ISO/IEC 29500 Strict ("Strict Open XML Document" in Word)."""

_MAX_STYLE_DEPTH = 20
_MAX_SPAN = 63
_MAX_NAME_ROWS = 4
"""Columns of a table in Word."""

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_CHARACTERS = {f"{_W}tab": "\t", f"{_W}br": "\n", f"{_W}cr": "\n", f"{_W}noBreakHyphen": "-", f"{_W}ptab": "\t"}
_SKIPPED = frozenset({f"{_W}{name}" for name in ("del", "moveFrom", "pPr", "rPr", "instrText", "rt")} | {_FALLBACK})
"""Elements of a paragraph that are not its text: deleted text, properties, pronunciation, a drawing's fallback."""

_CONTAINERS = frozenset(f"{_W}{name}" for name in ("sdt", "sdtContent", "customXml", "ins", "moveTo"))
"""Elements that contain paragraphs and tables."""

_HEADING = re.compile(r"heading ([1-9])")
_INVISIBLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\xad]")


@dataclass(frozen=True, slots=True)
class _ParagraphStyle:
    """The role of a paragraph: a heading of a level (0: none), a list item, or a line of the table of contents.

    `number` and `depth` are the id and the level of its numbering; without a depth the style's own level is meant.
    """

    level: int = 0
    is_title: bool = False
    is_item: bool = False
    is_contents: bool = False
    number: str = ""
    depth: int | None = None


@dataclass(frozen=True, slots=True)
class _BodyBlock:
    """A paragraph or a table as text; `label` is the number of an item or a heading."""

    text: str
    style: _ParagraphStyle = _ParagraphStyle()
    label: str = ""

    @property
    def shown(self) -> str:
        return f"{self.label} {self.text}" if self.label else self.text


def parse(content: bytes, options: Mapping[str, Any]) -> dict[str, Any]:
    """Text, headings and metadata of a DOCX; raises InvalidDocument."""
    check_package(content, DOCX)
    document = _open(_to_transitional(content))
    blocks = [block for block in _Body(document).blocks() if block.text and not block.style.is_contents]
    text, headings = _join_blocks(blocks)
    properties = _read_properties(document)
    if not properties.get("title"):
        titles = [block for block in blocks if block.style.level == 1]
        properties["title"] = _to_line(max(titles, key=lambda block: block.style.is_title).text) if titles else None
    return {"text": text, "headings": headings} | {name: value for name, value in properties.items() if value}


def _to_transitional(content: bytes) -> bytes:
    """A document of the strict form of the standard with the names of the other form, which libraries know."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if _RELATIONS not in archive.namelist() or not _STRICT_NAME.search(archive.read(_RELATIONS)):
            return content
        parts = {name: archive.read(name) for name in archive.namelist()}
    rewritten = io.BytesIO()
    with zipfile.ZipFile(rewritten, "w") as archive:
        for name, part in parts.items():
            is_xml = name.lower().endswith(XML_SUFFIXES)
            archive.writestr(name, _STRICT_NAME.sub(_to_transitional_name, part) if is_xml else part)
    return rewritten.getvalue()


def _to_transitional_name(name: re.Match[bytes]) -> bytes:
    part = re.sub(rb"(?<=[a-z])Properties\b", b"-properties", name[2])
    return b"http://schemas.openxmlformats.org/" + name[1] + b"/2006/" + part


def _open(content: bytes) -> Document:
    import docx
    from docx.opc.exceptions import OpcError

    try:
        return docx.Document(io.BytesIO(content))
    except (OpcError, KeyError, ValueError, AttributeError, TypeError):
        raise InvalidDocument("is not a Word document, or a damaged one: its parts do not fit together") from None
    except SyntaxError as error:  # lxml's errors are a subclass
        if error.msg == _NO_MEMORY:
            raise MemoryError from None
        raise InvalidDocument(f"is a damaged Word document: {error.msg}") from None


class _Body:
    """Reads the blocks of a document."""

    def __init__(self, document: Document) -> None:
        body = getattr(document.element, "body", None)
        self._root: Element = () if body is None else body
        self._styles = _resolve_styles(document)
        self._numbering = Numbering(document)

    def blocks(self) -> Iterator[_BodyBlock]:
        return self._read_blocks(self._root)

    def _read_blocks(self, container: Element) -> Iterator[_BodyBlock]:
        for child in container:
            if child.tag == f"{_W}p":
                yield from self._read_paragraph(child)
            elif child.tag == f"{_W}tbl":
                yield _BodyBlock(self._read_table(child))
            elif child.tag in _CONTAINERS and not _is_contents(child):
                yield from self._read_blocks(child)

    def _read_paragraph(self, paragraph: Element) -> Iterator[_BodyBlock]:
        boxes: list[Element] = []
        text = _clean("".join(_read_text(paragraph, boxes)))
        style, name = self._find_style(paragraph)
        label = ""
        if style.number and not style.is_contents:
            depth = self._numbering.find_level(style.number, name) if style.depth is None else style.depth
            label = self._numbering.count(style.number, depth)
        yield _BodyBlock(text, style, label)
        for box in boxes:
            yield from self._read_blocks(box)

    def _read_table(self, table: Element) -> str:
        """A table of several rows and columns as one of Markdown; others hold a text together, and are its lines."""
        names = _count_name_rows(table)
        rows = [row for row in self._read_rows(table, names) if any(row)]
        if len(rows) < 2 or max(map(len, rows)) < 2:
            return "\n".join("\t".join(row) for row in rows)
        return write_table(rows, min(names, len(rows) - 1))

    def _read_rows(self, table: Element, names: int) -> Iterator[list[str]]:
        """The cells of each row by column: a cell that spans rows is in each of them, one that spans columns is in the
        first; of the names of columns, which the first `names` rows have, it is in each."""
        merged: dict[int, str] = {}
        width = _count_columns(table)
        for row in table.iter(f"{_W}tr"):
            if next(row.iterancestors(f"{_W}tbl")) is table:
                above, merged = merged, {}
                texts = [""] * _find_number(row, "trPr/gridBefore", 0)
                for cell in row.iter(f"{_W}tc"):
                    if next(cell.iterancestors(f"{_W}tr")) is row:
                        span, merge = _find_number(cell, "tcPr/gridSpan", 1), _find_merge(cell)
                        own, column = self._read_cell(cell), len(texts)
                        text = own or above.get(column, "") if merge == "continue" else own
                        if merge:
                            merged[column] = text
                        texts += [text] + [text if names and span < width else ""] * (span - 1)
                names -= bool(names and any(texts))
                yield texts

    def _read_cell(self, cell: Element) -> str:
        return " ".join(word for block in self._read_blocks(cell) if block.text for word in block.shown.split())

    def _find_style(self, paragraph: Element) -> tuple[_ParagraphStyle, str]:
        """The role of a paragraph, and the id of its style."""
        properties = paragraph.find(f"{_W}pPr")
        reference = None if properties is None else properties.find(f"{_W}pStyle")
        name = "" if reference is None else reference.get(f"{_W}val") or ""
        style = self._styles.get(name, _ParagraphStyle())
        return _apply_number(_apply_properties(style, properties), properties), name


def _count_columns(table: Element) -> int:
    grid = table.find(f"{_W}tblGrid")
    return sys.maxsize if grid is None else len(grid.findall(f"{_W}gridCol"))


def _count_name_rows(table: Element) -> int:
    """The first rows that Word repeats on each page as names of the columns; else those over which a cell of the first
    row goes on beside one that spans columns; else the first alone."""
    rows = table.findall(f"{_W}tr")
    heads = sum(1 for _ in takewhile(lambda row: row.find(f"{_W}trPr/{_W}tblHeader") is not None, rows))
    first = [cell for row in rows[:1] for cell in row.iter(f"{_W}tc")]
    if not heads and any(_find_number(cell, "tcPr/gridSpan", 1) > 1 for cell in first):
        heads = 1 + sum(1 for _ in takewhile(_goes_on, rows[1:]))
    return heads if 0 < heads <= _MAX_NAME_ROWS else 1


def _goes_on(row: Element) -> bool:
    """Whether a cell of the row above continues in this row."""
    return any(_find_merge(cell) == "continue" for cell in row.iter(f"{_W}tc"))


def _find_number(element: Element, path: str, default: int) -> int:
    """A number of columns in the properties of a cell or a row."""
    found = element.find("/".join(f"{_W}{name}" for name in path.split("/")))
    value = "" if found is None else found.get(f"{_W}val") or ""
    return min(int(value), _MAX_SPAN) if value.isascii() and value.isdecimal() and len(value) < 9 else default


def _find_merge(cell: Element) -> str:
    """`restart` for the first cell of a span of rows, `continue` for the others, empty for a cell of one row."""
    found = cell.find(f"{_W}tcPr/{_W}vMerge")
    return "" if found is None else found.get(f"{_W}val") or "continue"


def _resolve_styles(document: Document) -> dict[str, _ParagraphStyle]:
    """The role of paragraphs of each style, by its id; a style inherits from the one that it is based on."""
    elements = {style.get(f"{_W}styleId"): style for style in document.styles.element.findall(f"{_W}style")}
    return {name: _resolve_style(name, elements, _MAX_STYLE_DEPTH) for name in elements if name}


def _resolve_style(name: str, elements: Mapping[str, Element], depth: int) -> _ParagraphStyle:
    element = elements.get(name)
    if element is None or depth == 0:
        return _ParagraphStyle()
    label = element.find(f"{_W}name")
    label = "" if label is None else (label.get(f"{_W}val") or "").lower()
    parent = element.find(f"{_W}basedOn")
    style = _ParagraphStyle() if parent is None else _resolve_style(parent.get(f"{_W}val") or "", elements, depth - 1)
    properties = element.find(f"{_W}pPr")
    heading = _HEADING.fullmatch(label)
    if heading:
        style = replace(style, level=int(heading[1]), is_title=False, is_item=False)
    elif label == "title":
        style = replace(style, level=1, is_title=True, is_item=False)
    elif label.startswith("toc "):
        return _ParagraphStyle(is_contents=True)
    else:
        style = replace(style, level=0, is_item=True) if label.startswith("list ") else style
        style = _apply_properties(style, properties)
    return _apply_number(style, properties)


def _apply_properties(style: _ParagraphStyle, properties: Element) -> _ParagraphStyle:
    """A style after the outline level and numbering in the properties of a paragraph or of a derived style."""
    if properties is None:
        return style
    outline = properties.find(f"{_W}outlineLvl")
    if outline is not None and not style.is_contents and (outline.get(f"{_W}val") or "").isdecimal():
        level = int(outline.get(f"{_W}val")) + 1
        is_title = style.is_title and level <= 9
        return replace(style, level=level if level <= 9 else 0, is_title=is_title, is_item=False)
    number = properties.find(f"{_W}numPr/{_W}numId")
    if number is not None and style.level == 0 and not style.is_contents:
        return replace(style, is_item=number.get(f"{_W}val") != "0")
    return style


def _apply_number(style: _ParagraphStyle, properties: Element) -> _ParagraphStyle:
    """A style after the numbering in the properties of a paragraph or of a derived style; 0 takes it away."""
    found = None if properties is None else properties.find(f"{_W}numPr")
    if found is None:
        return style
    name, level = (found.find(f"{_W}{member}") for member in ("numId", "ilvl"))
    number = style.number if name is None else name.get(f"{_W}val") or ""
    depth = "" if level is None else level.get(f"{_W}val") or ""
    is_depth = depth.isascii() and depth.isdecimal() and len(depth) == 1 and int(depth) < LEVELS
    return replace(style, number="" if number == "0" else number, depth=int(depth) if is_depth else style.depth)


def _is_contents(control: Element) -> bool:
    """Whether a content control is the table of contents, which repeats the headings."""
    gallery = next(control.iter(f"{_W}docPartGallery"), None)
    return gallery is not None and gallery.get(f"{_W}val") == "Table of Contents"


def _read_text(element: Element, boxes: list[Element]) -> Iterator[str]:
    """The text of a paragraph; text boxes anchored in it are appended to `boxes`."""
    for child in element:
        tag = child.tag
        if tag in (f"{_W}t", f"{_M}t"):
            yield child.text or ""
        elif tag in _CHARACTERS:
            yield _CHARACTERS[tag]
        elif tag == f"{_W}txbxContent":
            boxes.append(child)
        elif tag not in _SKIPPED:
            yield from _read_text(child, boxes)


def _clean(text: str) -> str:
    return _INVISIBLE.sub("", text).strip()


def _join_blocks(blocks: list[_BodyBlock]) -> tuple[str, list[list[Any]]]:
    parts: list[str] = []
    headings: list[list[Any]] = []
    length = 0
    was_item = False
    for block in blocks:
        gap = "" if not parts else "\n" if was_item and block.style.is_item else "\n\n"
        if block.style.level:
            headings.append([length + len(gap), block.style.level, _to_line(block.shown)])
        parts.append(gap + block.shown)
        length += len(gap) + len(block.shown)
        was_item = block.style.is_item
    return "".join(parts), headings


def _read_properties(document: Document) -> dict[str, Any]:
    """Title, language, date and metadata from the core properties; values that are missing are empty."""
    from docx.opc.constants import RELATIONSHIP_TYPE

    try:
        document.part.package.part_related_by(RELATIONSHIP_TYPE.CORE_PROPERTIES)
        core = document.core_properties
        created = _to_timestamp(core.created)
    except (KeyError, AttributeError):  # without them python-docx would invent some, dated today; or malformed ones
        return {}
    metadata = {
        "author": _to_line(core.author),
        "subject": _to_line(core.subject),
        "category": _to_line(core.category),
        "keywords": [word for word in map(str.strip, re.split("[,;]", _to_line(core.keywords))) if word],
        "created": created,
    }
    return {
        "title": _to_line(core.title),
        "language": _to_line(core.language),
        "updated_at": _to_timestamp(core.modified) or created,
        "metadata": {name: value for name, value in metadata.items() if value},
    }


def _to_line(text: str) -> str:
    return " ".join(_INVISIBLE.sub("", text[:MAX_VALUE_CHARACTERS]).split())


def _to_timestamp(date: datetime | None) -> str | None:
    if date is None:
        return None
    return (date.astimezone(UTC).replace(tzinfo=None) if date.tzinfo else date).isoformat() + "Z"
