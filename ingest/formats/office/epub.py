"""EPUB as text: the pages of a book in the order of its spine, read as pages of HTML, without its table of contents."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from aidre.engine.errors import InvalidDocument
from aidre.ingest.formats.markup import TextWriter, to_line
from aidre.ingest.formats.office.package import ArchiveKind, Package, read_dublin_core
from aidre.ingest.formats.pages.bounds import check_depth
from aidre.ingest.formats.pages.main_text import extract_fragment
from aidre.ingest.records import decode

EPUB = ArchiveKind("EPUB", "EPUB book", ".epub", has_doctypes=True)

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_PAGES = frozenset({"application/xhtml+xml", "text/html", "application/x-dtbook+xml", "text/x-oeb1-document"})
MAX_PAGES = 10_000


def parse(content: bytes, options: Mapping[str, Any]) -> dict[str, Any]:
    """Text, headings and metadata of a book; raises InvalidDocument."""
    package = Package(content, EPUB)
    root = next(iter(package.parse(_CONTAINER).iter("{*}rootfile")), None)
    name = "" if root is None else root.get("full-path") or ""
    book = package.parse(name)
    items = {item.get("id"): item for item in book.iter("{*}item")}
    locked = _find_locked(package)
    writer = TextWriter()
    seen: set[str] = set()
    for reference in book.iter("{*}itemref"):
        item = items.get(reference.get("idref"))
        is_page = item is not None and item.get("media-type") in _PAGES
        if item is None or not is_page or "nav" in (item.get("properties") or "").split():
            continue
        page = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(item.get("href") or "")))
        if page in locked:
            raise InvalidDocument("is protected against copying (DRM): ingest a copy without protection")
        if page in seen or page not in package:
            continue
        seen.add(page)
        if len(seen) > MAX_PAGES:
            raise InvalidDocument(f"has more than {MAX_PAGES:,} pages: split it")
        markup = decode(package.read(page)).text
        check_depth(markup)
        found = extract_fragment(markup)
        writer.extend(found.text, found.headings, found.verbatim)
    metadata = book.find("{*}metadata")
    members = read_dublin_core(metadata) if metadata is not None else {}
    return writer.answer(members | {"title": members.get("title") or to_line(writer.title)})


def _find_locked(package: Package) -> set[str]:
    """The pages that are encrypted; fonts may be so in any book."""
    if _ENCRYPTION not in package:
        return set()
    found = package.parse(_ENCRYPTION).iter("{*}CipherReference")
    return {posixpath.normpath(unquote(reference.get("URI") or "")) for reference in found}
