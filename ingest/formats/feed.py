"""RSS and Atom: every entry of a feed as a document. feedparser parses it in the sandbox; nothing is fetched."""

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
from aidre.ingest.formats.pages import extract_fragment_text
from aidre.ingest.formats.xml import MalformedXml, decode_xml, escape_ampersands, read_events
from aidre.ingest.records import (
    File,
    Item,
    Rejected,
    Unchanged,
    VectorRules,
    note,
    read_content,
    to_document,
    to_document_id,
)
from aidre.ingest.sandbox import SHARED, check_notice

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
    options = {"url": file.url or "", "charset": file.charset or ""}
    answer = SHARED.parse("feed", read_content(file), options)
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

    An id that is no URI is unique only within its feed, so it gets the name of the source as a prefix.
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
        raise broken or InvalidDocument("is no feed: neither RSS nor Atom")
    if len(parsed["entries"]) > MAX_ENTRIES:
        raise InvalidDocument(f"has more than {MAX_ENTRIES} entries: split it")
    feed = {"title": _to_line(parsed["feed"].get("title_detail")), "language": parsed["feed"].get("language")}
    entries = [_to_row(entry, feed) for entry in parsed["entries"]]
    return {"entries": entries, "broken": broken is not None, "notice": notice}


def _find_malformation(markup: str) -> MalformedXml | None:
    """The error of malformed XML, which feedparser may still read; raises it if the feed declares entities."""
    try:
        read_events(markup)
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
