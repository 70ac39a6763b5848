"""RSS and Atom: every entry of a feed as a document. feedparser reads, in the sandbox; nothing here fetches."""

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
from aidre.ingest.found import File, Found, Rejected, Unchanged, content
from aidre.ingest.main_text import fragment_text
from aidre.ingest.members import document, document_id
from aidre.ingest.sandbox import SHARED
from aidre.ingest.vectors import VectorRules
from aidre.ingest.xml import MalformedXml, read_events

MOST_ENTRIES = 50_000
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")
_WEB = re.compile(r"https?://", re.IGNORECASE)
_ENTITY = re.compile(rb"<!ENTITY", re.IGNORECASE)


def feed(file: File, rules: VectorRules) -> Iterator[Found]:
    """The documents of a feed that is a file."""
    yield from entries(file)


def entries(file: File, content_type: str = "") -> Iterator[Found]:
    """The documents of a feed; `file.url` is what its relative links count from. Raises InvalidDocument, OSError."""
    options = {"url": file.url or "", "content_type": content_type}
    answer = SHARED.parse("feed", content(file), options)
    found = answer.get("entries") if type(answer) is dict else None
    if type(found) is not list:
        raise InvalidDocument("cannot be read: its parser gave no answer that makes sense")
    for number, entry in enumerate(found, 1):
        where = f"{file.origin}:entry {number}"
        try:
            if type(entry) is not dict:
                raise InvalidDocument("cannot be read: its parser gave no answer that makes sense")
            yield where, document(entry, file, _identity(entry, file))
        except InvalidDocument as error:
            yield Rejected(where, error.message, file.source, file.origin)
    if answer.get("broken"):  # it may have had more
        yield Unchanged(file.origin, file.source, file.origin, 0)


def _identity(entry: Mapping[str, Json], file: File) -> str:
    """The entry's own id, else its link. An id that is no URI is unique in its feed alone, and gets its name before."""
    identity = entry.get("id")
    if type(identity) is str and identity:
        return document_id(identity if _URI.fullmatch(identity) else f"{file.source}/{identity}")
    if entry.get("url"):
        return document_id(entry["url"], "link")
    digest = hashlib.blake2b(orjson.dumps([entry.get("title"), entry.get("text")]), digest_size=12)
    return document_id(f"{file.id}:{digest.hexdigest()}", "the path")


def parse(content: bytes, options: Mapping[str, Any]) -> Json:
    """For the sandbox: `entries`, each with the members of a row, and whether the feed is `broken` somewhere."""
    import feedparser

    broken = _fault(content)
    headers = {"content-type": options.get("content_type") or "application/xml"}
    if options.get("url"):
        headers["content-location"] = options["url"]
    # A stream, for feedparser takes bytes or text for the name of something to open.
    found = feedparser.parse(
        io.BytesIO(content), response_headers=headers, sanitize_html=False, resolve_relative_uris=False
    )
    if not found["entries"] and (broken is not None or not found["version"]):
        raise broken or InvalidDocument("is no feed: neither RSS nor Atom")
    if len(found["entries"]) > MOST_ENTRIES:
        raise InvalidDocument(f"has more than {MOST_ENTRIES} entries: split it")
    about = {"feed": _line(found["feed"].get("title_detail")), "language": found["feed"].get("language")}
    return {"entries": [_row(entry, about) for entry in found["entries"]], "broken": broken is not None}


def _fault(content: bytes) -> MalformedXml | None:
    """What is wrong with the XML where that is no danger: many feeds are broken, and feedparser reads them."""
    try:
        read_events(content)
    except MalformedXml as error:
        if _ENTITY.search(content.replace(b"\0", b"")):
            raise
        return error
    return None


def _row(entry: dict[str, Any], feed: Mapping[str, Any]) -> dict[str, Json]:
    body = _body(entry)
    tags = [tag.get("label") or tag.get("term") for tag in entry.get("tags") or ()]
    authors = [author.get("name") for author in entry.get("authors") or () if author.get("name")]
    metadata = {
        "author": (authors[0] if len(authors) == 1 else authors) or entry.get("author"),
        "tags": list(dict.fromkeys(filter(None, tags))),
        "language": body.get("language") or entry.get("language") or feed["language"],
        "feed": feed["feed"],
    }
    link = (entry.get("link") or "").strip()
    row = {
        "id": (entry.get("id") or "").strip(),
        "url": link if _WEB.match(link) else None,
        "title": _line(entry.get("title_detail")),
        "text": _words(body),
        "updated_at": _date(entry),
        "metadata": {name: value for name, value in metadata.items() if value},
    }
    return {name: value for name, value in row.items() if value}


def _body(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """The longest content, for several are one text in different forms; else the summary."""
    contents = [each for each in entry.get("content") or () if each.get("value")]
    longest: Mapping[str, Any] = max(contents, key=lambda each: len(each["value"]), default={})
    return longest or entry.get("summary_detail") or {}


def _words(detail: Mapping[str, Any] | None) -> str:
    value = (detail or {}).get("value") or ""
    if (detail or {}).get("type") == "text/plain":
        return str(value).strip()
    return fragment_text(str(value))


def _line(detail: Mapping[str, Any] | None) -> str | None:
    return " ".join(_words(detail).split()) or None


def _date(entry: dict[str, Any]) -> str | None:
    for name in ("updated_parsed", "published_parsed", "created_parsed"):
        # Asked with `get` for a missing date of change, feedparser answers with another one and warns.
        moment = dict.get(entry, name)
        if moment is not None:
            try:
                return datetime.fromtimestamp(calendar.timegm(moment), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            except (ValueError, OverflowError, OSError):
                continue
    return None
