"""XML of strangers: its root by a look at the first bytes, and its elements as events. Nothing is ever expanded.

Entities and documents of other addresses are refused, and so is what is nested deeper than any feed is.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from typing import Literal
from xml.parsers import expat

from aidre.engine.errors import InvalidDocument

DEEPEST = 256
SNIFFED = 8192
"""Bytes at the beginning of a file in which its root must stand."""

Kind = Literal["feed", "sitemap", "html"]
_ROOTS: dict[str, Kind] = {
    "rss": "feed",
    "feed": "feed",
    "rdf": "feed",
    "urlset": "sitemap",
    "sitemapindex": "sitemap",
    "html": "html",
}
_SKIPPED = (("<?", "?>"), ("<!--", "-->"), ("<!doctype", ">"))
_NAME = re.compile(r"<(?:[A-Za-z_][\w.-]*:)?([A-Za-z_][\w.-]*)[\s/>]")
_WIDE = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


def kind_of_xml(start: bytes) -> Kind | None:
    """What a file that begins so is by its root element: a feed, a sitemap, a page, or None for anything else."""
    encoding = _WIDE.get(start[:2], "utf-8")
    text = start[:SNIFFED].decode(encoding, "replace").lstrip("\ufeff")
    while True:
        text = text.lstrip()
        for opening, closing in _SKIPPED:
            if text[: len(opening)].lower() == opening:
                end = text.find(closing, len(opening))
                if end < 0:
                    return None
                text = text[end + len(closing) :]
                break
        else:
            root = _NAME.match(text)
            return _ROOTS.get(root[1].lower()) if root else None


def read_events(
    content: bytes,
    *,
    start: Callable[[str], None] | None = None,
    words: Callable[[str], None] | None = None,
    end: Callable[[], None] | None = None,
) -> None:
    """Call back for each element, by its name as it stands there; raises InvalidDocument."""
    depth = 0

    def opened(name: str, _: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > DEEPEST:
            raise InvalidDocument(f"more than {DEEPEST} elements are open inside each other")
        if start is not None:
            start(name)

    def closed(_: str) -> None:
        nonlocal depth
        depth -= 1
        if end is not None:
            end()

    def refused(*_: object) -> int:
        raise InvalidDocument("declares entities of its own, which are not expanded: write the characters instead")

    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    parser.StartElementHandler = opened
    parser.EndElementHandler = closed
    parser.CharacterDataHandler = words
    parser.EntityDeclHandler = refused
    parser.UnparsedEntityDeclHandler = refused
    parser.ExternalEntityRefHandler = refused
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        place = f"line {error.lineno}"
        raise MalformedXml(f"malformed XML at {place}: {expat.ErrorString(error.code)}") from None


class MalformedXml(InvalidDocument):
    """Not well-formed; what reads it leniently may still make something of it."""
