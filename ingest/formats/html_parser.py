"""The sandbox's HTML parser: main text with headings, the metadata of the head, and the JSON-LD of a page."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any
from urllib.parse import urljoin, urlsplit

import orjson
from selectolax.lexbor import LexborHTMLParser

from aidre.engine.index.text import strip_layout, strip_layout_references
from aidre.engine.model import Json
from aidre.ingest.formats import jsonld
from aidre.ingest.formats.pages.bounds import bound_markup, check_depth
from aidre.ingest.formats.pages.main_text import MainText, extract_fragment_text, extract_main_text, find_title
from aidre.ingest.formats.schemaorg import first_date, list_types
from aidre.ingest.records import decode, find_codec

MAX_EXTRACTED_DEPTH = 256
"""Nested elements of a page that trafilatura is given; a deeper page could break it."""

MAX_JSON_CHARACTERS = 4 << 20
MAX_OBJECTS = 1000
"""Characters of JSON-LD that are read from a page, and objects that are kept of it."""

MIN_BODY_CHARACTERS, BODY_RATIO = 200, 2
"""Characters of an `articleBody` that is taken for the text of a page, and how many times as long it must be."""

MAX_TITLE_CHARACTERS = 1000
MAX_ROBOTS = 100
"""Directives for robots that are kept of a page."""

_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s{0,9}=\s{0,9}[\"']?\s{0,9}([a-zA-Z0-9_:.-]{1,40})", re.IGNORECASE)
_CHARSET_BYTES = 1024
"""Bytes at the beginning of a page in which its encoding must be declared, as in browsers."""

_MAX_ADDRESS = 2_000
"""Characters; a longer one is the image itself."""

_DATES = ("article:modified_time", "og:updated_time", "article:published_time", "last-modified", "dcterms.modified")
_ROBOTS = ("robots", "aidre")
"""Names of the elements with directives for all robots, and for this one."""

_MARKUP = re.compile(r"</?(?:p|br|div|h[1-6]|li|ul|ol|a|span|em|strong|b|i)[\s/>]", re.IGNORECASE)
_DECLARATION = re.compile(r"\s*<\?xml[^>]{0,200}\?>")


def parse(content: bytes, options: Mapping[str, Any]) -> dict[str, Json]:
    """The members of `Extracted` that the page has; raises InvalidDocument.

    `options` may have the `url` of the page, against which a relative canonical address is resolved, and the `charset`
    that its server declares. `objects` are the schema.org objects that are not parts of others.
    """
    decoded = decode(content, options.get("charset") or _find_charset(content))
    depth = check_depth(decoded.text)
    markup = strip_layout_references(strip_layout(decoded.text))
    declaration = _DECLARATION.match(markup)
    markup = markup[declaration.end() :] if declaration else markup
    markup = bound_markup(markup)
    tree = LexborHTMLParser(markup)
    objects = list(islice(_find_objects(tree), MAX_OBJECTS))
    deep = depth > MAX_EXTRACTED_DEPTH and _depth_of(tree) > MAX_EXTRACTED_DEPTH
    if depth > MAX_EXTRACTED_DEPTH and not deep:  # tags that are never closed: with their ends the page is no deeper
        markup = tree.html or ""
    main = _or_body(extract_main_text(tree, markup, deep=deep), objects)
    page = _read_head(tree, options.get("url")) | {
        "text": main.text,
        "headings": main.headings,
        "verbatim": main.verbatim,
        "objects": objects,
        "notice": decoded.notice,
    }
    page["title"] = find_title(page["title"], main.headings, page.pop("site"))
    return {name: value for name, value in page.items() if value or name == "text"}


def _find_charset(raw: bytes) -> str | None:
    """The encoding that the page declares. As it was readable as single bytes, the page is not UTF-16."""
    declared = _CHARSET.search(raw[: 2 * _CHARSET_BYTES])
    if declared is None or declared.start() > _CHARSET_BYTES:
        return None
    label = declared[1].decode("ascii")
    return "utf-8" if find_codec(label).startswith("utf-16") else label


def _or_body(main: MainText, objects: Sequence[Mapping[str, Json]]) -> MainText:
    """The main text, or the longest `articleBody` of the page's objects if it is far longer: the page shows a part."""
    bodies = [item.get("articleBody") for item in objects]
    longest = max((body for body in bodies if type(body) is str), key=len, default="")
    if len(longest) < max(MIN_BODY_CHARACTERS, BODY_RATIO * len(main.text)):
        return main
    text = extract_fragment_text(longest if _MARKUP.search(longest) else html.escape(longest).replace("\n", "<br>"))
    return MainText(text, ()) if len(text) >= BODY_RATIO * len(main.text) else main


def _depth_of(tree: LexborHTMLParser) -> int:
    """The nested elements of a parsed page."""
    node, depth, deepest = tree.root, 1, 1
    while node is not None:
        if node.child is not None:
            node, depth = node.child, depth + 1
            deepest = max(deepest, depth)
            continue
        while node is not None and node.next is None:
            node, depth = node.parent, depth - 1
        node = None if node is None else node.next
    return deepest


def _read_head(tree: LexborHTMLParser, url: str | None) -> dict[str, Json]:
    metas: dict[str, str] = {}
    robots: list[str] = []
    for node in tree.css("meta[content]"):
        name = (node.attributes.get("property") or node.attributes.get("name") or "").lower()
        content = (node.attributes.get("content") or "").strip()
        metas.setdefault(name, content)
        if name.strip() in _ROBOTS:
            robots.append(f"{name.strip()}: {content}")
    title = tree.css_first("head > title") or tree.css_first("title:not(svg title)")
    language = tree.root.attributes.get("lang") if tree.root is not None else None
    description = metas.get("description") or metas.get("og:description")
    image = metas.get("og:image") or metas.get("twitter:image") or ""
    metadata = {"description": description, "image": image if len(image) <= _MAX_ADDRESS else None}
    return {
        "title": _to_title(title.text() if title is not None else "") or metas.get("og:title"),
        "site": metas.get("og:site_name") or metas.get("application-name"),
        "canonical": _find_canonical(tree, metas.get("og:url"), url),
        "updated_at": first_date(metas.get(name) for name in _DATES),
        "language": (language or "").strip(),
        "robots": robots[:MAX_ROBOTS],
        "metadata": {name: value for name, value in metadata.items() if value},
    }


def _find_canonical(tree: LexborHTMLParser, og_url: str | None, url: str | None) -> str | None:
    """rel=canonical, else og:url, as an absolute http(s) address; None if neither is one."""
    hrefs = [
        node.attributes.get("href") or ""
        for node in tree.css("link[rel][href]")
        if "canonical" in (node.attributes.get("rel") or "").lower().split()
    ]
    node = tree.css_first("base[href]")
    base = (node.attributes.get("href") if node is not None else None) or ""
    for address in (*hrefs[:1], og_url or ""):
        absolute = _to_absolute(address.strip(), base.strip(), url)
        if absolute is not None:
            return absolute
    return None


def _to_absolute(address: str, base: str, url: str | None) -> str | None:
    try:
        absolute = urljoin(urljoin(url or "", base), address)
        parts = urlsplit(absolute)
        return absolute if address and parts.scheme in ("http", "https") and parts.hostname else None
    except ValueError:
        return None


def _find_objects(tree: LexborHTMLParser) -> Iterator[dict[str, Json]]:
    """The distinct objects of all scripts, as one graph; malformed scripts are skipped."""
    values: list[Json] = []
    budget = MAX_JSON_CHARACTERS
    for script in tree.css('script[type*="ld+json" i]'):
        text = script.text()
        budget -= len(text)
        if budget < 0:
            break
        values += _parse_script(text)
    seen: set[bytes] = set()
    for _, item in jsonld.find_documents(values):
        if isinstance(item, dict) and list_types(item):
            count = len(seen)
            seen.add(orjson.dumps(item, option=orjson.OPT_SORT_KEYS))
            if len(seen) > count:
                yield item


def _parse_script(text: str) -> list[dict[str, Json]]:
    """The objects of a script. Templates written by hand may put line ends into strings, or a comment around all."""
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
    return [item for item in (value if type(value) is list else [value]) if type(item) is dict]


def _to_title(text: str) -> str:
    return " ".join(text.split())[:MAX_TITLE_CHARACTERS]
