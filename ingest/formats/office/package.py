"""Zip archives that are one document (DOCX, PPTX, ODT, EPUB): checked in full before any part of them is used.

Declared sizes are not trusted: each part is inflated here, piece by piece, and must have its declared size, since
libraries rely on that size. Runs in the sandbox's child. Title, authors and dates of a document of Office, from its
core properties (Dublin Core).
"""

from __future__ import annotations

import io
import re
import sys
import zipfile
import zlib
from collections.abc import Mapping
from copy import copy
from typing import Any, NamedTuple, TypeAlias

from aidre.engine.errors import InvalidDocument
from aidre.ingest.formats.markup import to_line

Element: TypeAlias = Any
"""An element of lxml, which ships no types."""

MAX_MEMBERS = 4096
MAX_INFLATED_BYTES = 64 << 20
"""Bytes of all members as they really inflate; pictures are compressed already."""

_PIECE_BYTES = 1 << 16
_OLE_SIGNATURE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED_FLAG = 0x1
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
XML_SUFFIXES = (".xml", ".rels")
_NO_MEMORY = "unknown error"
"""The message of lxml if it runs out of memory."""


class ArchiveKind(NamedTuple):
    """What an archive should be, for messages: `DOCX`, `Word document`, `.docx`; `has_doctypes` is for pages."""

    name: str
    noun: str
    suffix: str
    has_doctypes: bool = False


def check_package(content: bytes, kind: ArchiveKind) -> None:
    """Raises InvalidDocument for an archive that inflates to too much, declares wrong sizes or defines XML entities."""
    if content.startswith(_OLE_SIGNATURE):
        older = kind.noun.split(" ")[0]
        raise InvalidDocument(
            f"is encrypted or of the older {older} format: save it as {kind.suffix} without a password"
        )
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            if len(members) > MAX_MEMBERS:
                raise InvalidDocument(f"is an archive of more than {MAX_MEMBERS} parts: no {kind.noun}")
            budget = MAX_INFLATED_BYTES
            for member in members:
                budget -= _measure_member(archive, member, budget, kind)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, UnicodeDecodeError):
        problem = f"is not {_with_article(kind.name)} file, or a damaged one"
        raise InvalidDocument(f"{problem}: its archive cannot be read") from None


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'AEIO' else 'a'} {noun}"


def _measure_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, budget: int, kind: ArchiveKind) -> int:
    """The real size of a member in bytes; raises InvalidDocument for one larger than the budget or malformed."""
    if member.flag_bits & _ENCRYPTED_FLAG:
        raise InvalidDocument("is encrypted: ingest a copy without a password")
    if member.compress_type not in _COMPRESSIONS:
        raise InvalidDocument(f"is compressed in a way that no {kind.noun} is")
    unbounded = copy(member)
    unbounded.file_size = sys.maxsize
    is_xml = member.filename.lower().endswith(XML_SUFFIXES)
    size, tail = 0, b""
    with archive.open(unbounded) as stream:
        while piece := stream.read(_PIECE_BYTES):
            size += len(piece)
            if size > budget:
                raise InvalidDocument(f"inflates to more than {MAX_INFLATED_BYTES >> 20} MiB: split it")
            if is_xml:
                # Without null bytes, so that UTF-16 is found too.
                text = (tail + piece).replace(b"\0", b"")
                if b"<!ENTITY" in text or (b"<!DOCTYPE" in text and not kind.has_doctypes):
                    raise InvalidDocument(f"defines XML entities, which no {kind.noun} does")
                tail = piece[-32:]
    if size != member.file_size:
        raise InvalidDocument("is a damaged archive: a part is not as large as it says")
    return size


class Package:
    """The parts of a checked archive, by name."""

    def __init__(self, content: bytes, kind: ArchiveKind) -> None:
        check_package(content, kind)
        self._archive = zipfile.ZipFile(io.BytesIO(content))
        self._names = set(self._archive.namelist())
        self._kind = kind

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def read(self, name: str) -> bytes:
        """The bytes of a part; raises InvalidDocument for one that is missing."""
        if name not in self._names:
            problem = f"is not {_with_article(self._kind.noun)}, or a damaged one"
            raise InvalidDocument(f"{problem}: {name[:100] or 'a part'} is missing")
        return self._archive.read(name)

    def parse(self, name: str) -> Element:
        """The root element of a part in XML; raises InvalidDocument."""
        from lxml import etree

        parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True)
        try:
            return etree.fromstring(self.read(name), parser)
        except etree.XMLSyntaxError as error:
            if error.msg == _NO_MEMORY:
                raise MemoryError from None
            raise InvalidDocument(f"is a damaged {self._kind.noun}: {ascii(error.msg)[1:-1]}") from None

    def relations(self, name: str) -> Mapping[str, tuple[str, str]]:
        """By its id, the kind of each relation of a part of Office, and the name of its target."""
        import posixpath

        folder, file = posixpath.split(name)
        own = posixpath.join(folder, "_rels", f"{file}.rels")
        found: dict[str, tuple[str, str]] = {}
        for each in self.parse(own) if own in self else ():
            if each.get("TargetMode") != "External":
                target = posixpath.normpath(posixpath.join("/", folder, each.get("Target") or "")).lstrip("/")
                found[each.get("Id") or ""] = (each.get("Type") or "").rpartition("/")[2], target
        return found


_PLACEHOLDER = re.compile(r"(?:powerpoint presentation|presentation\d*|untitled\d*|slide \d+|title)?", re.IGNORECASE)
"""Titles that programs give."""


def read_core_properties(package: Package) -> dict[str, Any]:
    """The members of an answer; none for a document whose properties are missing or damaged."""
    name = next((name for kind, name in package.relations("").values() if kind == "core-properties"), "")
    if name not in package:
        return {}
    try:
        return read_dublin_core(package.parse(name))
    except InvalidDocument:
        return {}


def read_dublin_core(root: Element) -> dict[str, Any]:
    """The members of an answer by the elements below `root`, whatever their namespaces."""
    found: dict[str, str] = {}
    keywords: list[str] = []
    for element in root.iter():
        name = element.tag.rpartition("}")[2] if type(element.tag) is str else ""
        text = to_line("".join(element.itertext())) if not len(element) else ""
        if name in ("keyword", "keywords") and text:
            keywords += [word for part in re.split("[,;]", text) if (word := part.strip())]
        elif name == "meta" and element.get("property") == "dcterms:modified":
            found.setdefault("modified", text)
        elif text:
            found.setdefault(name, text)
    title = found.get("title", "")
    created = found.get("created") or found.get("creation-date")
    metadata = {
        "author": found.get("creator") or found.get("initial-creator"),
        "subject": found.get("subject"),
        "category": found.get("category"),
        "description": found.get("description"),
        "publisher": found.get("publisher"),
        "keywords": keywords,
        "created": created,
    }
    return {
        "title": None if _PLACEHOLDER.fullmatch(title) else title,
        "language": found.get("language"),
        "updated_at": found.get("modified") or found.get("date") or created,
        "metadata": {name: value for name, value in metadata.items() if value},
    }
