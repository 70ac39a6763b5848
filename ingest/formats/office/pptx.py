"""PPTX as text: the slides in their order, each with its title as a heading, its lists, tables and notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aidre.ingest.formats.markup import TextWriter
from aidre.ingest.formats.office.package import ArchiveKind, Element, Package, read_core_properties

PPTX = ArchiveKind("PPTX", "PowerPoint presentation", ".pptx")

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_TITLES = frozenset({"title", "ctrTitle"})
_FURNITURE = frozenset({"sldNum", "dt", "ftr", "hdr", "sldImg"})
"""Places of a slide that repeat its number, the date, a footer."""


def parse(content: bytes, options: Mapping[str, Any]) -> dict[str, Any]:
    """Text, headings and metadata of a presentation; raises InvalidDocument."""
    package = Package(content, PPTX)
    main = next((name for kind, name in package.relations("").values() if kind == "officeDocument"), "")
    root, targets = package.parse(main), package.relations(main)
    writer = TextWriter()
    for slide in root.iter(f"{_P}sldId"):
        kind, name = targets.get(slide.get(f"{_R}id") or "", ("", ""))
        if kind == "slide" and name in package:
            _read_slide(package, name, writer)
    return writer.answer(read_core_properties(package))


def _read_slide(package: Package, name: str, writer: TextWriter) -> None:
    root = package.parse(name)
    if root.get("show") in ("0", "false"):
        return
    shapes = list(_shapes(root.find(f"{_P}cSld/{_P}spTree")))
    title = next((shape for shape in shapes if _place_of(shape) in _TITLES), None)
    if title is not None:
        writer.heading(" ".join(_paragraphs(title)), 1)
    for shape in shapes:
        if shape is not title and _place_of(shape) not in _FURNITURE:
            _read_shape(shape, writer)
    for kind, notes in package.relations(name).values():
        if kind == "notesSlide" and notes in package:
            shown = _shapes(package.parse(notes).find(f"{_P}cSld/{_P}spTree"))
            bodies = [each for each in shown if _place_of(each) == "body"]
            text = " ".join(line for body in bodies for line in _paragraphs(body))
            writer.paragraph(f"Notes: {text}" if text else "")


def _shapes(tree: Element) -> Iterator[Element]:
    """The shapes of a slide with those in groups, in their order."""
    for child in () if tree is None else tree.iterchildren(f"{_P}sp", f"{_P}graphicFrame", f"{_P}grpSp"):
        if child.tag == f"{_P}grpSp":
            yield from _shapes(child)
        else:
            yield child


def _place_of(shape: Element) -> str:
    """The kind of the place that a shape fills, such as `title` or `body`; empty for a shape of its own."""
    place = shape.find(f"{_P}nvSpPr/{_P}nvPr/{_P}ph")
    return "" if place is None else place.get("type") or "body"


def _read_shape(shape: Element, writer: TextWriter) -> None:
    for table in shape.iter(f"{_A}tbl"):
        writer.table(_rows(table))
    if shape.tag == f"{_P}sp":
        lines = list(_paragraphs(shape))
        for line in lines:
            if len(lines) == 1:
                writer.paragraph(line)
            else:
                writer.item(line, "")


def _rows(table: Element) -> Iterator[list[str]]:
    """The cells of each row; a cell that spans rows is in each of them."""
    above: dict[int, str] = {}
    for row in table.iter(f"{_A}tr"):
        texts = [" ".join(_paragraphs(cell)) for cell in row.iter(f"{_A}tc")]
        for column, cell in enumerate(row.iter(f"{_A}tc")):
            if cell.get("vMerge") in ("1", "true"):
                texts[column] = texts[column] or above.get(column, "")
        above = dict(enumerate(texts))
        yield texts


def _paragraphs(shape: Element) -> Iterator[str]:
    for paragraph in shape.iter(f"{_A}p"):
        pieces = [" " if piece.tag == f"{_A}br" else piece.text or "" for piece in paragraph.iter(f"{_A}t", f"{_A}br")]
        text = " ".join("".join(pieces).split())
        if text:
            yield text
