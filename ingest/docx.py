"""DOCX as text: paragraphs, lists and tables in the order of the document, heading styles as headings.

Runs in the sandbox's child; knows no file. A DOCX is a zip archive of XML: what is in it is counted and looked at
before any library inflates it.
"""

from __future__ import annotations

import io
import re
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from aidre.engine.errors import InvalidDocument

if TYPE_CHECKING:
    from docx.document import Document

Element: TypeAlias = Any
"""An lxml element, which has no types."""

MOST_MEMBERS = 4096
MOST_INFLATED = 64 << 20
"""Parts of the archive, and bytes of them all as they really inflate; pictures are compressed already."""

LONGEST_VALUE = 1000
_PIECE = 1 << 16
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED = 0x1
_NO_MEMORY = "unknown error"
"""What lxml says when it gets none."""

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_XML = (".xml", ".rels")
_DEEPEST_STYLE = 20
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_WRITTEN = {f"{_W}tab": "\t", f"{_W}br": "\n", f"{_W}cr": "\n", f"{_W}noBreakHyphen": "-", f"{_W}ptab": "\t"}
_UNREAD = frozenset({f"{_W}{name}" for name in ("del", "moveFrom", "pPr", "rPr", "instrText", "rt")} | {_FALLBACK})
"""What a paragraph holds beside its words: removed words, settings, how to pronounce it, a drawing's second form."""

_CONTAINERS = frozenset(f"{_W}{name}" for name in ("sdt", "sdtContent", "customXml", "ins", "moveTo"))
"""What may stand around paragraphs and tables."""

_HEADING = re.compile(r"heading ([1-9])")
_UNWRITTEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\xad]")


@dataclass(frozen=True, slots=True)
class _Style:
    """What a paragraph is by its style: a heading of a level (0: none), an item of a list, a line of the contents."""

    level: int = 0
    is_title: bool = False
    is_item: bool = False
    is_contents: bool = False


@dataclass(frozen=True, slots=True)
class _Block:
    """A paragraph or a table as text."""

    text: str
    style: _Style = _Style()


def parse(content: bytes, options: Mapping[str, Any]) -> dict[str, Any]:
    """Text, headings and metadata of a DOCX; raises InvalidDocument."""
    check(content)
    document = _opened(content)
    blocks = [block for block in _Body(document).blocks() if block.text and not block.style.is_contents]
    text, headings = _composed(blocks)
    facts = _facts(document)
    if not facts.get("title"):
        titles = [block for block in blocks if block.style.level == 1]
        facts["title"] = _value(max(titles, key=lambda block: block.style.is_title).text) if titles else None
    return {"text": text, "headings": headings} | {name: value for name, value in facts.items() if value}


def check(content: bytes) -> None:
    """Refuse an archive that inflates to too much, that is not what it says, or whose XML defines entities.

    The sizes that an archive declares are its author's: each member is inflated here, piece by piece, and must
    have the size that it declares, since a library reads by that.
    """
    if content.startswith(_OLE):
        raise InvalidDocument("is encrypted or of the older Word format: save it as .docx without a password")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            if len(members) > MOST_MEMBERS:
                raise InvalidDocument(f"is an archive of more than {MOST_MEMBERS} parts: no Word document")
            room = MOST_INFLATED
            for member in members:
                room -= _inflated(archive, member, room)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, UnicodeDecodeError):
        raise InvalidDocument("is no DOCX file, or a damaged one: its archive cannot be read") from None


def _inflated(archive: zipfile.ZipFile, member: zipfile.ZipInfo, room: int) -> int:
    """The real size of a member; raises InvalidDocument."""
    if member.flag_bits & _ENCRYPTED:
        raise InvalidDocument("is encrypted: ingest a copy without a password")
    if member.compress_type not in _METHODS:
        raise InvalidDocument("is compressed in a way that no Word document is")
    unbounded = copy(member)
    unbounded.file_size = sys.maxsize
    is_xml = member.filename.lower().endswith(_XML)
    size, tail = 0, b""
    with archive.open(unbounded) as stream:
        while piece := stream.read(_PIECE):
            size += len(piece)
            if size > room:
                raise InvalidDocument(f"inflates to more than {MOST_INFLATED >> 20} MiB: split it")
            if is_xml:
                # Also in UTF-16, where every second byte is zero.
                seen = (tail + piece).replace(b"\0", b"")
                if b"<!DOCTYPE" in seen or b"<!ENTITY" in seen:
                    raise InvalidDocument("defines XML entities, which no Word document does")
                tail = piece[-32:]
    if size != member.file_size:
        raise InvalidDocument("is a damaged archive: a part is not as large as it says")
    return size


def _opened(content: bytes) -> Document:
    import docx
    from docx.opc.exceptions import OpcError

    try:
        return docx.Document(io.BytesIO(content))
    except (OpcError, KeyError, ValueError, AttributeError, TypeError):
        raise InvalidDocument("is no Word document, or a damaged one: its parts do not fit together") from None
    except SyntaxError as error:  # what lxml raises is one
        if error.msg == _NO_MEMORY:
            raise MemoryError from None
        raise InvalidDocument(f"is a damaged Word document: {error.msg}") from None


class _Body:
    """The blocks of a document; the styles are looked up once."""

    def __init__(self, document: Document) -> None:
        body = getattr(document.element, "body", None)
        self._root: Element = () if body is None else body
        self._styles = _styles(document)

    def blocks(self) -> Iterator[_Block]:
        return self._blocks(self._root)

    def _blocks(self, container: Element) -> Iterator[_Block]:
        for child in container:
            if child.tag == f"{_W}p":
                yield from self._paragraph(child)
            elif child.tag == f"{_W}tbl":
                yield _Block("\n".join(self._rows(child)))
            elif child.tag in _CONTAINERS and not _is_contents(child):
                yield from self._blocks(child)

    def _paragraph(self, paragraph: Element) -> Iterator[_Block]:
        boxes: list[Element] = []
        text = "".join(_words(paragraph, boxes))
        yield _Block(_clean(text), self._style(paragraph))
        for box in boxes:
            yield from self._blocks(box)

    def _rows(self, table: Element) -> Iterator[str]:
        for row in table.iter(f"{_W}tr"):
            if next(row.iterancestors(f"{_W}tbl")) is table:
                cells = [cell for cell in row.iter(f"{_W}tc") if next(cell.iterancestors(f"{_W}tr")) is row]
                line = "\t".join(self._cell(cell) for cell in cells)
                if line.strip():
                    yield line

    def _cell(self, cell: Element) -> str:
        return " ".join(word for block in self._blocks(cell) for word in block.text.split())

    def _style(self, paragraph: Element) -> _Style:
        settings = paragraph.find(f"{_W}pPr")
        named = None if settings is None else settings.find(f"{_W}pStyle")
        style = self._styles.get(named.get(f"{_W}val"), _Style()) if named is not None else _Style()
        return _with(style, settings)


def _styles(document: Document) -> dict[str, _Style]:
    """What each style makes of a paragraph, by its id; a style that says nothing is as the one it is based on."""
    elements = {each.get(f"{_W}styleId"): each for each in document.styles.element.findall(f"{_W}style")}
    return {name: _resolved(name, elements, _DEEPEST_STYLE) for name in elements if name}


def _resolved(name: str, elements: Mapping[str, Element], depth: int) -> _Style:
    element = elements.get(name)
    if element is None or depth == 0:
        return _Style()
    called = element.find(f"{_W}name")
    called = "" if called is None else (called.get(f"{_W}val") or "").lower()
    heading = _HEADING.fullmatch(called)
    if heading:
        return _Style(level=int(heading[1]))
    if called == "title":
        return _Style(level=1, is_title=True)
    if called.startswith("toc "):
        return _Style(is_contents=True)
    parent = element.find(f"{_W}basedOn")
    style = _Style() if parent is None else _resolved(parent.get(f"{_W}val") or "", elements, depth - 1)
    if called.startswith("list "):
        style = _Style(is_item=True)
    return _with(style, element.find(f"{_W}pPr"))


def _with(style: _Style, settings: Element) -> _Style:
    """A style with what the settings of a paragraph or of a further style add."""
    if settings is None:
        return style
    outline = settings.find(f"{_W}outlineLvl")
    if outline is not None and not style.is_contents and (outline.get(f"{_W}val") or "").isdecimal():
        level = int(outline.get(f"{_W}val")) + 1
        return _Style(level=level if level <= 9 else 0, is_title=style.is_title and level <= 9)
    number = settings.find(f"{_W}numPr/{_W}numId")
    if number is not None and style.level == 0 and not style.is_contents:
        return _Style(is_item=number.get(f"{_W}val") != "0")
    return style


def _is_contents(control: Element) -> bool:
    """Whether a content control is the table of contents, which repeats the headings."""
    gallery = next(control.iter(f"{_W}docPartGallery"), None)
    return gallery is not None and gallery.get(f"{_W}val") == "Table of Contents"


def _words(element: Element, boxes: list[Element]) -> Iterator[str]:
    """The words inside a paragraph; the text boxes that are anchored in it are put into `boxes`."""
    for child in element:
        tag = child.tag
        if tag in (f"{_W}t", f"{_M}t"):
            yield child.text or ""
        elif tag in _WRITTEN:
            yield _WRITTEN[tag]
        elif tag == f"{_W}txbxContent":
            boxes.append(child)
        elif tag not in _UNREAD:
            yield from _words(child, boxes)


def _clean(text: str) -> str:
    return _UNWRITTEN.sub("", text).strip()


def _composed(blocks: list[_Block]) -> tuple[str, list[list[Any]]]:
    parts: list[str] = []
    headings: list[list[Any]] = []
    length = 0
    was_item = False
    for block in blocks:
        gap = "" if not parts else "\n" if was_item and block.style.is_item else "\n\n"
        if block.style.level:
            headings.append([length + len(gap), block.style.level, _value(block.text)])
        parts.append(gap + block.text)
        length += len(gap) + len(block.text)
        was_item = block.style.is_item
    return "".join(parts), headings


def _facts(document: Document) -> dict[str, Any]:
    """What the document says of itself, as far as it says anything."""
    from docx.opc.constants import RELATIONSHIP_TYPE

    try:
        document.part.package.part_related_by(RELATIONSHIP_TYPE.CORE_PROPERTIES)
        said = document.core_properties
        created = _date(said.created)
    except (KeyError, AttributeError):  # none: python-docx would make some up, and date them today; or others
        return {}
    metadata = {
        "author": _value(said.author),
        "subject": _value(said.subject),
        "category": _value(said.category),
        "keywords": [word for word in map(str.strip, re.split("[,;]", _value(said.keywords))) if word],
        "created": created,
    }
    return {
        "title": _value(said.title),
        "language": _value(said.language),
        "updated_at": _date(said.modified) or created,
        "metadata": {name: value for name, value in metadata.items() if value},
    }


def _value(text: str) -> str:
    return " ".join(_UNWRITTEN.sub("", text[:LONGEST_VALUE]).split())


def _date(moment: datetime | None) -> str | None:
    if moment is None:
        return None
    return (moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment).isoformat() + "Z"
