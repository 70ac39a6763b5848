"""Sitemaps: the addresses of the pages, or of an index the addresses of further sitemaps. Fetches nothing.

Source: the protocol of sitemaps.org. A sitemap is XML, or a text with an address in each line.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json
from aidre.ingest.formats.xml import MalformedXml, decode_xml, read_events
from aidre.ingest.records import normalize_timestamp
from aidre.ingest.sandbox import check_notice

MAX_ADDRESSES = 50_000
"""Addresses of one sitemap, by the protocol."""

_MAX_CHARACTERS = 8192
"""Characters of an address or a date; further ones are cut off."""

_PAGES = ["urlset", "url"]
_SITEMAPS = ["sitemapindex", "sitemap"]
_ADDRESS = re.compile(r"https?://[^\s<>\"]+", re.IGNORECASE)
_ROOT = re.compile(r"<(?:[\w.-]{1,60}:)?(urlset|sitemapindex)(?=[\s>])", re.IGNORECASE)
_ENTRY = re.compile(r"<(?:[\w.-]{1,60}:)?(?:url|sitemap)\s*>((?:[^<]|<(?!/?(?:[\w.-]{1,60}:)?(?:url|sitemap)\s*>))*)")
_MEMBERS = {
    "loc": re.compile(r"<(?:[\w.-]{1,60}:)?loc\s{0,9}>(.*?)</(?:[\w.-]{1,60}:)?loc\s{0,9}>", re.DOTALL),
    "lastmod": re.compile(r"<(?:[\w.-]{1,60}:)?lastmod\s{0,9}>(.*?)</(?:[\w.-]{1,60}:)?lastmod\s{0,9}>", re.DOTALL),
}
_END_CHARACTERS = 1000
_CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
"""Patterns that read a sitemap which is not well-formed."""

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True)
class Sitemap:
    """Addresses of pages, or of sitemaps if it `is_index`, each with its date of change or None; both unchecked.

    `notice` is what the author should know of the file, `fault` why addresses may be missing; a file that
    ends early is not whole."""

    is_index: bool
    addresses: tuple[tuple[str, str | None], ...]
    notice: str | None = None
    fault: str | None = None
    is_whole: bool = True


class _SitemapBuilder:
    """Collects the root and the entries, pairs of address and date, from XML events."""

    def __init__(self) -> None:
        self.root: str | None = None
        self.entries: list[list[str | None]] = []
        self._path: list[str] = []
        self._text: list[str] = []

    def start(self, name: str) -> None:
        self._path.append(name.rpartition(":")[2])
        self._text = []
        self.root = self.root or self._path[0]
        if self._path in (_PAGES, _SITEMAPS):
            if len(self.entries) >= MAX_ADDRESSES:
                raise InvalidDocument(f"lists more than {MAX_ADDRESSES} addresses: split it")
            self.entries.append([None, None])

    def add_text(self, text: str) -> None:
        if len(self._path) == 3:
            self._text.append(text)

    def end(self) -> None:
        name = self._path.pop()
        if self._path in (_PAGES, _SITEMAPS) and name in ("loc", "lastmod"):
            self.entries[-1][name == "lastmod"] = "".join(self._text).strip()[:_MAX_CHARACTERS]


def is_address_list(text: str) -> bool:
    """Whether each line of a text is an http(s) address, as in a sitemap that is a text; blank lines do not count."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return bool(lines) and all(map(_ADDRESS.fullmatch, lines))


def parse(content: bytes, options: Mapping[str, Any]) -> Json:
    """For the sandbox: `index`, `addresses`, a pair of address and date each, and a `notice`; raises InvalidDocument.

    `options` may have the `charset` that the server declares.
    """
    markup, _, notice = decode_xml(content, options.get("charset"))
    if is_address_list(markup):
        addresses = [[line.strip(), None] for line in markup.splitlines() if line.strip()]
        if len(addresses) > MAX_ADDRESSES:
            raise InvalidDocument(f"lists more than {MAX_ADDRESSES} addresses: split it")
        return {"index": False, "addresses": addresses, "notice": notice}
    builder, fault = _read_xml(markup)
    if builder.root not in ("urlset", "sitemapindex"):
        raise InvalidDocument("is not a sitemap: its root is neither <urlset> nor <sitemapindex>")
    addresses = [entry for entry in builder.entries if entry[0]]
    is_whole = fault is None or f"</{builder.root}" in markup[-_END_CHARACTERS:].lower().replace(":", "</")
    answer = {"index": builder.root == "sitemapindex", "addresses": addresses, "whole": is_whole}
    return answer | {"notice": notice, "fault": fault}


def _read_xml(markup: str) -> tuple[_SitemapBuilder, str | None]:
    """The entries of a sitemap, and what is wrong with it: of malformed XML the entries that are whole."""
    builder = _SitemapBuilder()
    try:
        read_events(markup, start=builder.start, text=builder.add_text, end=builder.end)
        return builder, None
    except MalformedXml as error:
        fault = error
    builder = _SitemapBuilder()
    root = _ROOT.search(markup)
    if root is None or "<!entity" in markup.lower():
        raise fault
    builder.start(root[1].lower())
    for entry in _ENTRY.finditer(markup, root.end()):
        builder.start("url" if builder.root == "urlset" else "sitemap")
        for name, pattern in _MEMBERS.items():
            found = pattern.search(entry[1])
            if found is not None:
                builder.start(name)
                builder.add_text(html.unescape(_CDATA.sub(r"\1", found[1])))
                builder.end()
        builder.end()
    if not any(address for address, _ in builder.entries):
        raise fault
    return builder, f"{fault.message}, {len(builder.entries):,} addresses could be read"


def read_sitemap(answer: Json) -> Sitemap:
    """The Sitemap in the sandbox's answer, which is not trusted; raises InvalidDocument."""
    addresses = answer.get("addresses") if type(answer) is dict else None
    if type(addresses) is not list or not all(map(_is_pair, addresses)):
        raise InvalidDocument("cannot be read: its parser gave an invalid answer")
    pairs = tuple((address, date or None) for address, date in addresses)
    notice, fault = check_notice(answer), check_notice(answer, "fault")
    return Sitemap(answer.get("index") is True, pairs, notice, fault, answer.get("whole") is not False)


def is_settled(date: str, now: datetime) -> bool:
    """Whether a page with this date of change, fetched `now`, will have another date after its next change.

    A date without a time is settled once the day is over in every time zone.
    """
    try:
        changed_at = datetime.fromisoformat(normalize_timestamp(date)).replace(tzinfo=UTC)
    except InvalidDocument:
        return False
    return changed_at + (timedelta(hours=36) if _DAY.fullmatch(date) else timedelta(seconds=1)) < now


def _is_pair(value: Json) -> bool:
    return type(value) is list and len(value) == 2 and type(value[0]) is str and type(value[1]) in (str, type(None))
