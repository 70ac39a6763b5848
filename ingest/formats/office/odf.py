"""ODT and ODP as text: headings, paragraphs, lists and tables in document order; the slides of a presentation.

What is deleted, the table of contents, and remarks beside the text are left out; notes stand behind their word.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aidre.engine.errors import InvalidDocument
from aidre.ingest.formats.markup import TextWriter
from aidre.ingest.formats.office.package import ArchiveKind, Element, Package, read_dublin_core

ODF = ArchiveKind("OpenDocument", "OpenDocument text", ".odt")

MAX_REPEATED = 1000
"""Times that one cell, row or space is repeated; programs fill the rest of a sheet so."""

MAX_ADDED_CELLS = 100_000
"""Cells of a table that repetition adds; then all that is repeated is there once."""

_NAMES = "{urn:oasis:names:tc:opendocument:xmlns:"
_TEXT, _TABLE, _OFFICE, _DRAW = (f"{_NAMES}{name}:1.0}}" for name in ("text", "table", "office", "drawing"))
_PRESENTATION = f"{_NAMES}presentation:1.0}}"
_MANIFEST = f"{_NAMES}manifest:1.0}}"
_SKIPPED = frozenset(
    {
        *(f"{_TEXT}{name}" for name in (
            "tracked-changes", "table-of-content", "alphabetical-index", "illustration-index", "table-index",
            "bibliography", "sequence-decls", "variable-decls", "user-field-decls", "ruby-text", "note-citation",
            "page-number", "page-count",
        )),
        f"{_OFFICE}annotation", f"{_OFFICE}forms", f"{_OFFICE}event-listeners", f"{_DRAW}custom-shape-geometry",
    }
)  # fmt: skip
_CHARACTERS = {f"{_TEXT}tab": "\t", f"{_TEXT}line-break": " ", f"{_TEXT}soft-page-break": ""}
_FURNITURE = frozenset({"page-number", "date-time", "footer", "header"})


def parse(content: bytes, options: Mapping[str, Any]) -> dict[str, Any]:
    """Text, headings and metadata; raises InvalidDocument."""
    package = Package(content, ODF)
    if "META-INF/manifest.xml" in package:
        manifest = package.parse("META-INF/manifest.xml")
        if next(manifest.iter(f"{_MANIFEST}encryption-data"), None) is not None:
            raise InvalidDocument("is encrypted: ingest a copy without a password")
    body = package.parse("content.xml").find(f"{_OFFICE}body")
    writer = TextWriter()
    if body is not None:
        _read_blocks(body, writer)
    return writer.answer(read_dublin_core(package.parse("meta.xml")) if "meta.xml" in package else {})


def _read_blocks(container: Element, writer: TextWriter) -> None:
    for child in container.iterchildren("*"):
        tag = child.tag
        if tag == f"{_TEXT}h":
            level = child.get(f"{_TEXT}outline-level") or ""
            writer.heading(_words(child, writer), int(level) if level.isascii() and level.isdecimal() else 1)
        elif tag == f"{_TEXT}p":
            _read_paragraph(child, writer)
        elif tag == f"{_TEXT}list":
            _read_list(child, writer, 0)
        elif tag == f"{_TABLE}table":
            writer.table(_rows(child))
        elif tag == f"{_DRAW}page":
            _read_page(child, writer)
        elif tag == f"{_PRESENTATION}notes":
            text = " ".join(each for each in _own_paragraphs(child) if each)
            writer.paragraph(f"Notes: {text}" if text else "")
        elif tag not in _SKIPPED:
            _read_blocks(child, writer)


def _read_paragraph(paragraph: Element, writer: TextWriter) -> None:
    boxes: list[Element] = []
    writer.paragraph("".join(_pieces(paragraph, boxes)))
    for box in boxes:
        _read_blocks(box, writer)


def _read_list(found: Element, writer: TextWriter, depth: int) -> None:
    for item in found.iterchildren(f"{_TEXT}list-item", f"{_TEXT}list-header"):
        for child in item.iterchildren("*"):
            if child.tag == f"{_TEXT}list":
                _read_list(child, writer, depth + 1)
            elif child.tag == f"{_TEXT}h":
                _read_blocks(item, writer)
                break
            else:
                writer.item(_words(child, writer), "")


def _read_page(page: Element, writer: TextWriter) -> None:
    """A slide: its title, then its other shapes."""
    frames = list(page.iterchildren("*"))
    title = next((frame for frame in frames if frame.get(f"{_PRESENTATION}class") == "title"), None)
    if title is not None:
        writer.heading(" ".join(_own_paragraphs(title)), 1)
    for frame in frames:
        if frame is not title and frame.get(f"{_PRESENTATION}class") not in _FURNITURE:
            holder = frame if frame.tag == f"{_PRESENTATION}notes" else None
            if holder is None:
                _read_blocks(frame, writer)
            else:
                text = " ".join(each for each in _own_paragraphs(holder) if each)
                writer.paragraph(f"Notes: {text}" if text else "")


def _own_paragraphs(element: Element) -> Iterator[str]:
    """The texts of the paragraphs in an element, each once: also of those in the boxes of others."""
    if element.tag in (f"{_TEXT}p", f"{_TEXT}h"):
        boxes: list[Element] = []
        yield "".join(_pieces(element, boxes)).strip()
        for box in boxes:
            yield from _own_paragraphs(box)
    else:
        for child in element.iterchildren("*"):
            yield from _own_paragraphs(child)


def _words(element: Element, writer: TextWriter) -> str:
    return " ".join("".join(_pieces(element, [])).split())


def _pieces(element: Element, boxes: list[Element]) -> Iterator[str]:
    """The text of a paragraph; frames in it are appended to `boxes`."""
    yield element.text or ""
    for child in element:
        tag = child.tag
        if tag in _CHARACTERS:
            yield _CHARACTERS[tag]
        elif tag == f"{_TEXT}s":
            yield " "
        elif tag == f"{_TEXT}note":
            body = child.find(f"{_TEXT}note-body")
            text = " ".join(_own_paragraphs(body)) if body is not None else ""
            yield f" ({text})" if text else ""
        elif type(tag) is str and tag.startswith(_DRAW):
            boxes.append(child)
        elif type(tag) is str and tag not in _SKIPPED:
            yield from _pieces(child, boxes)
        yield child.tail or ""


def _rows(table: Element) -> Iterator[list[str]]:
    """The cells of each row; what is repeated is bounded, and what is empty behind the last text falls away."""
    left = MAX_ADDED_CELLS
    for row in table.iter(f"{_TABLE}table-row"):
        texts: list[str] = []
        for cell in row.iterchildren(f"{_TABLE}table-cell", f"{_TABLE}covered-table-cell"):
            text = " ".join(" ".join(_own_paragraphs(cell)).split())
            times = min(_count(cell, "number-columns-repeated"), left + 1)
            texts += [text] * times
            left -= times - 1
        while texts and not texts[-1]:
            texts.pop()
        times = min(_count(row, "number-rows-repeated"), left // max(1, len(texts)) + 1) if texts else 1
        left -= (times - 1) * len(texts)
        yield from [texts] * times


def _count(element: Element, name: str) -> int:
    value = element.get(f"{_TABLE}{name}") or "1"
    return min(int(value), MAX_REPEATED) if value.isascii() and value.isdecimal() and len(value) < 9 else 1
