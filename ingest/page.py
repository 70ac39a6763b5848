"""The parser of HTML pages, for the sandbox: main text with headings, what the head says, and the JSON-LD inside."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any
from urllib.parse import urljoin, urlsplit

import orjson
from selectolax.lexbor import LexborHTMLParser

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json
from aidre.ingest import jsonld
from aidre.ingest.charsets import codec_of
from aidre.ingest.found import decoded
from aidre.ingest.main_text import main_text
from aidre.ingest.members import instant
from aidre.ingest.schemaorg import types_of

DEEPEST = 5000
"""The parser's time grows with the square of the depth; browsers stop at 512."""

DEEPEST_SIEVED = 256
MOST_JSON = 4 << 20
MOST_OBJECTS = 1000
"""Characters of JSON-LD that are read of a page, and objects that are kept of it."""

LONGEST_TITLE = 1000

_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s{0,9}=\s{0,9}[\"']?\s{0,9}([a-zA-Z0-9_:.-]{1,40})", re.IGNORECASE)
_CHARSET_WITHIN = 1024
_TAG = re.compile(rb"<(/?)([a-zA-Z][a-zA-Z0-9]*)")
_UNCOUNTED = frozenset(
    b"area base br col embed hr img input link meta source track wbr p li dt dd tr td th option thead tbody tfoot "
    b"html head body".split()
)
"""Elements without an end tag, or whose end tag may be left out."""

_DATES = ("article:modified_time", "og:updated_time", "article:published_time", "last-modified", "dcterms.modified")
_DECLARATION = re.compile(r"\s*<\?xml[^>]{0,200}\?>")


def parse(content: bytes, options: Mapping[str, Any]) -> dict[str, Json]:
    """What a page says, members that it has not left out; raises InvalidDocument.

    `options` may have the `url` of the page, against which a relative canonical address is read. `objects` are its
    schema.org objects that are no parts of others.
    """
    if (depth := _depth(content)) > DEEPEST:
        raise InvalidDocument(f"more than {DEEPEST} elements are open inside each other: not a page")
    markup = _decoded(content)
    declaration = _DECLARATION.match(markup)
    markup = markup[declaration.end() :] if declaration else markup
    tree = LexborHTMLParser(markup)
    objects = list(islice(_objects(tree), MOST_OBJECTS))
    main = main_text(tree, markup, deep=depth > DEEPEST_SIEVED)
    page = _head(tree, options.get("url")) | {"text": main.text, "headings": main.headings, "objects": objects}
    return {name: value for name, value in page.items() if value or name == "text"}


def _decoded(raw: bytes) -> str:
    """The page in the encoding that it declares; else in UTF-8, where a copy was converted and says what it was."""
    try:
        return decoded(raw, _charset(raw))
    except InvalidDocument:
        with suppress(InvalidDocument):
            return decoded(raw)
        raise


def _charset(raw: bytes) -> str:
    """The encoding that the page declares in its first kilobyte, as browsers look for it; else UTF-8."""
    declared = None if raw.startswith(codecs.BOM_UTF8) else _CHARSET.search(raw[: 2 * _CHARSET_WITHIN])
    if declared is None or declared.start() > _CHARSET_WITHIN:
        return "utf-8"
    codec = codec_of(declared[1].decode("ascii"))
    # Where this could be read byte by byte, it is not in two bytes a letter.
    return "utf-8" if codec.startswith("utf-16") else codec


def _depth(raw: bytes) -> int:
    """How many elements are open at once, at most, by their tags alone."""
    depth = deepest = 0
    for match in _TAG.finditer(raw) if raw.count(b"<") > DEEPEST_SIEVED else ():
        if match[2].lower() not in _UNCOUNTED:
            depth = max(0, depth - 1) if match[1] else depth + 1
            deepest = max(deepest, depth)
    return deepest


def _head(tree: LexborHTMLParser, url: str | None) -> dict[str, Json]:
    metas: dict[str, str] = {}
    for node in tree.css("meta[content]"):
        name = (node.attributes.get("property") or node.attributes.get("name") or "").lower()
        metas.setdefault(name, (node.attributes.get("content") or "").strip())
    title = tree.css_first("head > title") or tree.css_first("title:not(svg title)")
    language = tree.root.attributes.get("lang") if tree.root is not None else None
    description = metas.get("description") or metas.get("og:description")
    return {
        "title": _one_line(title.text() if title is not None else "") or metas.get("og:title"),
        "canonical": _canonical(tree, metas.get("og:url"), url),
        "updated_at": next(filter(None, (_date(metas.get(name)) for name in _DATES)), None),
        "language": (language or "").strip(),
        "metadata": {"description": description} if description else {},
    }


def _canonical(tree: LexborHTMLParser, og_url: str | None, url: str | None) -> str | None:
    """rel=canonical, else og:url, as an absolute address."""
    named = [
        node.attributes.get("href") or ""
        for node in tree.css("link[rel][href]")
        if "canonical" in (node.attributes.get("rel") or "").lower().split()
    ]
    node = tree.css_first("base[href]")
    base = (node.attributes.get("href") if node is not None else None) or ""
    for address in (*named[:1], og_url or ""):
        absolute = _absolute(address.strip(), base.strip(), url)
        if absolute is not None:
            return absolute
    return None


def _absolute(address: str, base: str, url: str | None) -> str | None:
    try:
        absolute = urljoin(urljoin(url or "", base), address)
        parts = urlsplit(absolute)
        return absolute if address and parts.scheme in ("http", "https") and parts.hostname else None
    except ValueError:
        return None


def _date(value: str | None) -> str | None:
    """A date of the page; one in another notation is no fault of the document."""
    try:
        return instant(value) if value else None
    except InvalidDocument:
        return None


def _objects(tree: LexborHTMLParser) -> Iterator[dict[str, Json]]:
    """The objects of all scripts as one graph, each once; a script that is broken is passed over."""
    values: list[Json] = []
    room = MOST_JSON
    for script in tree.css('script[type*="ld+json" i]'):
        text = script.text()
        room -= len(text)
        if room < 0:
            break
        values += _loaded(text)
    seen: set[bytes] = set()
    for _, found in jsonld.objects(values):
        if isinstance(found, dict) and types_of(found):
            known = len(seen)
            seen.add(orjson.dumps(found, option=orjson.OPT_SORT_KEYS))
            if len(seen) > known:
                yield found


def _loaded(text: str) -> list[dict[str, Json]]:
    """The objects of a script, which by hand-made templates may have line ends in strings or stand in a comment."""
    text = text.strip()
    for opening, closing in (("<!--", "-->"), ("//<![CDATA[", "//]]>"), ("<![CDATA[", "]]>")):
        text = text.removeprefix(opening).removesuffix(closing).strip()
    try:
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError:
            value = json.loads(text.rstrip("; \n"), strict=False, parse_constant=lambda _: None)
        orjson.dumps(value)
    except (ValueError, TypeError, RecursionError):
        return []
    return [each for each in (value if type(value) is list else [value]) if type(each) is dict]


def _one_line(text: str) -> str:
    return " ".join(text.split())[:LONGEST_TITLE]
