"""Untrusted XML: its kind by the root element in its first bytes, and its elements as events.

Declared entities, external documents and nesting deeper than any feed's are refused; nothing is expanded.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from typing import Literal
from xml.parsers import expat

from aidre.engine.errors import InvalidDocument
from aidre.ingest.records import Decoded, decode, find_mark

MAX_DEPTH = 256
SNIFF_BYTES = 8192
"""Bytes at the beginning of a file in which its root element must appear."""

XmlKind = Literal["feed", "sitemap", "html"]
_ROOTS: dict[str, XmlKind] = {
    "rss": "feed",
    "feed": "feed",
    "rdf": "feed",
    "urlset": "sitemap",
    "sitemapindex": "sitemap",
    "html": "html",
}
MAX_ATTRIBUTES = 1_000
"""Attributes of one element: parsers need time quadratic in their number."""

_PROLOG = (("<?", "?>"), ("<!--", "-->"), ("<!doctype", ">"))
_ROOT = re.compile(r"<(?:[A-Za-z_][\w.-]*:)?([A-Za-z_][\w.-]*)[\s/>]")
_DECLARED = re.compile(rb"\s{0,99}<\?xml[^>]{0,200}?encoding\s{0,9}=\s{0,9}[\"']([A-Za-z0-9_:.-]{1,40})[\"']")
_AMPERSAND = re.compile(r"&(?!(?:#[0-9]{1,7}|#x[0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{0,31});)")
_DECLARATION = re.compile(r"\s{0,99}<\?xml[^>]{0,200}\?>")


def sniff_xml(start: bytes) -> XmlKind | None:
    """The kind of a file by the root element in its first bytes; None for any other root."""
    text = start[:SNIFF_BYTES].decode(find_mark(start) or "utf-8", "replace").lstrip("\ufeff")
    while True:
        text = text.lstrip()
        for opening, closing in _PROLOG:
            if text[: len(opening)].lower() == opening:
                end = text.find(closing, len(opening))
                if end < 0:
                    return None
                text = text[end + len(closing) :]
                break
        else:
            root = _ROOT.match(text)
            return _ROOTS.get(root[1].lower()) if root else None


def decode_xml(content: bytes, charset: str | None = None) -> Decoded:
    """An XML text without its declaration; `charset` is the encoding that a server declares, else its own counts."""
    declared = _DECLARED.match(content.removeprefix(codecs.BOM_UTF8))
    decoded = decode(content, charset or (declared[1].decode("ascii") if declared else None))
    return decoded._replace(text=_DECLARATION.sub("", decoded.text, count=1))


def escape_ampersands(markup: str) -> str:
    """The markup with `&amp;` for ampersands that begin no reference; those of CDATA sections stay."""
    first, *others = markup.split("<![CDATA[")
    parts = [_AMPERSAND.sub("&amp;", first)]
    for other in others:
        section, closing, text = other.partition("]]>")
        parts += ["<![CDATA[", section, closing, _AMPERSAND.sub("&amp;", text)]
    return "".join(parts)


def strict_parser(refusal: str, encoding: str | None = None) -> expat.XMLParserType:
    """A parser that expands nothing: what declares an entity raises InvalidDocument with the refusal."""

    def refuse(*_: object) -> int:
        raise InvalidDocument(refusal)

    parser = expat.ParserCreate(encoding)
    parser.buffer_text = True
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    parser.EntityDeclHandler = parser.UnparsedEntityDeclHandler = parser.ExternalEntityRefHandler = refuse
    return parser


def read_events(
    markup: str,
    *,
    start: Callable[[str], None] | None = None,
    text: Callable[[str], None] | None = None,
    end: Callable[[], None] | None = None,
) -> None:
    """Call back for each start tag (with the prefixed name), text and end tag; raises InvalidDocument."""
    depth = 0

    def handle_start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if len(attributes) > MAX_ATTRIBUTES:
            raise InvalidDocument(f"an element has more than {MAX_ATTRIBUTES} attributes")
        if depth > MAX_DEPTH:
            raise InvalidDocument(f"more than {MAX_DEPTH} elements are open inside each other")
        if start is not None:
            start(name)

    def handle_end(_: str) -> None:
        nonlocal depth
        depth -= 1
        if end is not None:
            end()

    parser = strict_parser(
        "declares entities of its own, which are not expanded: write the characters instead", "utf-8"
    )
    parser.StartElementHandler, parser.EndElementHandler = handle_start, handle_end
    parser.CharacterDataHandler = text
    try:
        parser.Parse(markup.encode(), True)
    except expat.ExpatError as error:
        raise MalformedXml(f"malformed XML at line {error.lineno}: {expat.ErrorString(error.code)}") from None


class MalformedXml(InvalidDocument):
    """XML that is not well-formed; a lenient parser may still read it."""
