"""RSS, Atom and JSON Feed: every entry of a feed as a document. It is parsed in the sandbox; nothing is fetched."""

from __future__ import annotations

import calendar
import hashlib
import io
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json
from aidre.ingest.formats.pages.main_text import extract_fragment_text
from aidre.ingest.formats.xml import MalformedXml, decode_xml, escape_ampersands, read_events
from aidre.ingest.records import (
    File,
    Item,
    Rejected,
    Unchanged,
    VectorRules,
    decode,
    note,
    read_content,
    read_date,
    to_document,
    to_document_id,
)
from aidre.ingest.sandbox import SHARED, check_notice

MAX_CATEGORIES = 1_000
"""Categories of one entry."""
_CATEGORIES = frozenset({"category", "keywords", "subject"})

MAX_NAMESPACES = 1_000
"""Prefixes of one feed: feedparser compares each element with those before it."""
_PREFIX = re.compile(r"\sxmlns:([^\s=\"'<>/]++)")

MAX_ENTRIES = 50_000
"""Entries of one feed, as many as a sitemap may have addresses."""

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")
_HTTP_URL = re.compile(r"https?://", re.IGNORECASE)
_ENTITY = re.compile(r"<!ENTITY", re.IGNORECASE)


def read_feed(file: File, rules: VectorRules) -> Iterator[Item]:
    """The documents of a feed that is a local file; raises InvalidDocument, OSError."""
    yield from read_entries(file)


def read_entries(file: File) -> Iterator[Item]:
    """The documents of a feed, whose relative links are resolved against `file.url`; raises InvalidDocument, OSError.

    After a feed that is malformed, and so may have lost entries, follows an Unchanged for the whole feed.
    """
    yield from _read_answer(file, SHARED.parse("feed", read_content(file), _options(file)))


def read_json_feed(file: File) -> Iterator[Item]:
    """The documents of a JSON Feed; raises InvalidDocument, OSError."""
    yield from _read_answer(file, SHARED.parse("json feed", read_content(file), _options(file)))


def _options(file: File) -> dict[str, Json]:
    return {"url": file.url or "", "charset": file.charset or ""}


def _read_answer(file: File, answer: Json) -> Iterator[Item]:
    entries = answer.get("entries") if type(answer) is dict else None
    if type(entries) is not list:
        raise InvalidDocument("cannot be read: its parser gave an invalid answer")
    note(file, check_notice(answer))
    for number, entry in enumerate(entries, 1):
        where = f"{file.origin}:entry {number}"
        try:
            if type(entry) is not dict:
                raise InvalidDocument("cannot be read: its parser gave an invalid answer")
            yield where, to_document(entry, file, _find_id(entry, file))
        except InvalidDocument as error:
            yield Rejected(where, error.message, file.source, file.origin)
    if answer.get("broken"):
        yield Unchanged(file.origin, file.source, file.origin, 0)


def _find_id(entry: Mapping[str, Json], file: File) -> str:
    """The entry's own id, else its link, else a hash of its content.

    An id that is not a URI is unique only within its feed, so it gets the name of the source as a prefix.
    """
    identity = entry.get("id")
    if type(identity) is str and identity:
        return to_document_id(identity if _URI.fullmatch(identity) else f"{file.source}/{identity}")
    if entry.get("url"):
        return to_document_id(entry["url"], "link")
    digest = hashlib.blake2b(orjson.dumps([entry.get("title"), entry.get("text")]), digest_size=12)
    return to_document_id(f"{file.id}:{digest.hexdigest()}", "the path")


def parse(content: bytes, options: Mapping[str, Any]) -> Json:
    """For the sandbox: `entries`, each with the members of a row, and whether the feed is `broken` (malformed XML).

    `options` may have the `url` and the `charset` of the feed. Raises InvalidDocument.
    """
    import feedparser

    markup, _, notice = decode_xml(content, options.get("charset"))
    if len(set(_PREFIX.findall(markup))) > MAX_NAMESPACES:
        raise InvalidDocument(f"declares more than {MAX_NAMESPACES} prefixes of namespaces")
    broken = _find_malformation(markup)
    markup = markup if broken is None else escape_ampersands(markup)
    headers = {"content-type": "application/xml; charset=utf-8"}
    if options.get("url"):
        headers["content-location"] = options["url"]
    # A stream, since feedparser may take bytes or text for the name of a file or an address to open.
    parsed = feedparser.parse(
        io.BytesIO(markup.encode()), response_headers=headers, sanitize_html=False, resolve_relative_uris=False
    )
    if not parsed["entries"] and (broken is not None or not parsed["version"]):
        raise broken or InvalidDocument("is not a feed: neither RSS nor Atom")
    if len(parsed["entries"]) > MAX_ENTRIES:
        raise InvalidDocument(f"has more than {MAX_ENTRIES} entries: split it")
    feed = {"title": _to_line(parsed["feed"].get("title_detail")), "language": parsed["feed"].get("language")}
    entries = [_to_row(entry, feed) for entry in parsed["entries"]]
    return {"entries": entries, "broken": broken is not None, "notice": notice}


def is_json_feed(value: Json) -> bool:
    """Whether a JSON text is a feed (jsonfeed.org)."""
    if type(value) is not dict or type(value.get("items")) is not list:
        return False
    return type(version := value.get("version")) is str and "://jsonfeed.org/version/" in version[:100]


def parse_json_feed(content: bytes, options: Mapping[str, Any]) -> Json:
    """For the sandbox: as `parse`, of a JSON Feed. Raises InvalidDocument."""
    decoded = decode(content, options.get("charset"))
    try:
        value = orjson.loads(decoded.text)
    except orjson.JSONDecodeError as error:
        raise InvalidDocument(f"is not JSON: {error}") from None
    if not is_json_feed(value):
        raise InvalidDocument("is not a JSON Feed: it has no version of jsonfeed.org, or no items")
    items = [item for item in value["items"] if type(item) is dict]
    if len(items) > MAX_ENTRIES:
        raise InvalidDocument(f"has more than {MAX_ENTRIES} entries: split it")
    feed = {name: _text_member(value, name) for name in ("title", "language")}
    authors = _list_authors(value)
    return {"entries": [_to_json_row(item, feed, authors) for item in items], "notice": decoded.notice}


def _to_json_row(item: Mapping[str, Json], feed: Mapping[str, str], authors: list[str]) -> dict[str, Json]:
    markup = _text_member(item, "content_html")
    text = extract_fragment_text(markup) if markup else _text_member(item, "content_text").strip()
    own = _list_authors(item) or authors
    tags = item.get("tags")
    metadata = {
        "author": own[0] if len(own) == 1 else own,
        "tags": [tag for tag in tags if type(tag) is str] if type(tags) is list else [],
        "language": _text_member(item, "language") or feed["language"],
        "feed": feed["title"],
    }
    link = (_text_member(item, "url") or _text_member(item, "external_url")).strip()
    identity = item.get("id")
    row = {
        "id": str(identity).strip() if type(identity) in (str, int) else "",
        "url": link if _HTTP_URL.match(link) else None,
        "title": " ".join(_text_member(item, "title").split()),
        "text": text or _text_member(item, "summary").strip(),
        "updated_at": read_date(_text_member(item, "date_modified") or _text_member(item, "date_published") or None),
        "metadata": {name: value for name, value in metadata.items() if value},
    }
    return {name: value for name, value in row.items() if value}


def _list_authors(value: Mapping[str, Json]) -> list[str]:
    """The names of authors, of which version 1 of the format has one."""
    authors = value.get("authors")
    listed = authors if type(authors) is list else [value.get("author")]
    return [name for each in listed if type(each) is dict and (name := _text_member(each, "name"))]


def _text_member(value: Mapping[str, Json], name: str) -> str:
    found = value.get(name)
    return found if type(found) is str else ""


def _find_malformation(markup: str) -> MalformedXml | None:
    """The error of malformed XML, which feedparser may still read; raises it if the feed declares entities.

    Raises InvalidDocument for more categories than feedparser, which compares each with those before it, may be given.
    """
    categories = 0

    def count(name: str) -> None:
        nonlocal categories
        kind = name.rpartition(":")[2].lower()
        categories = 0 if kind in ("item", "entry") else categories + (kind in _CATEGORIES)
        if categories > MAX_CATEGORIES:
            raise InvalidDocument(f"an entry has more than {MAX_CATEGORIES} categories")

    try:
        read_events(markup, start=count)
    except MalformedXml as error:
        if _ENTITY.search(markup):
            raise
        return error
    return None


def _to_row(entry: dict[str, Any], feed: Mapping[str, Any]) -> dict[str, Json]:
    body = _find_body(entry)
    tags = [tag.get("label") or tag.get("term") for tag in entry.get("tags") or ()]
    authors = [author.get("name") for author in entry.get("authors") or () if author.get("name")]
    metadata = {
        "author": (authors[0] if len(authors) == 1 else authors) or entry.get("author"),
        "tags": list(dict.fromkeys(filter(None, tags))),
        "language": body.get("language") or entry.get("language") or feed["language"],
        "feed": feed["title"],
    }
    link = (entry.get("link") or "").strip()
    row = {
        "id": (entry.get("id") or "").strip(),
        "url": link if _HTTP_URL.match(link) else None,
        "title": _to_line(entry.get("title_detail")),
        "text": _to_text(body),
        "updated_at": _find_date(entry),
        "metadata": {name: value for name, value in metadata.items() if value},
    }
    return {name: value for name, value in row.items() if value}


def _find_body(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """The longest content, since several contents are one text in different forms; else the summary."""
    contents = [content for content in entry.get("content") or () if content.get("value")]
    longest: Mapping[str, Any] = max(contents, key=lambda content: len(content["value"]), default={})
    return longest or entry.get("summary_detail") or {}


def _to_text(detail: Mapping[str, Any] | None) -> str:
    value = (detail or {}).get("value") or ""
    if (detail or {}).get("type") == "text/plain":
        return str(value).strip()
    return extract_fragment_text(str(value))


def _to_line(detail: Mapping[str, Any] | None) -> str | None:
    return " ".join(_to_text(detail).split()) or None


def _find_date(entry: dict[str, Any]) -> str | None:
    for name in ("updated_parsed", "published_parsed", "created_parsed"):
        # feedparser's own `get` answers with another date for a missing date of change, and warns.
        date = dict.get(entry, name)
        if date is not None:
            try:
                return datetime.fromtimestamp(calendar.timegm(date), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            except (ValueError, OverflowError, OSError):
                continue
    return None
