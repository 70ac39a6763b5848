"""Sitemaps: the addresses of the pages, or of an index the addresses of further sitemaps. Fetches nothing.

Source: the protocol of sitemaps.org.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json
from aidre.ingest.formats.xml import read_events
from aidre.ingest.records import normalize_timestamp

MAX_ADDRESSES = 50_000
"""Addresses of one sitemap, by the protocol."""

_MAX_CHARACTERS = 8192
"""Characters of an address or a date; further ones are cut off."""

_PAGES = ["urlset", "url"]
_SITEMAPS = ["sitemapindex", "sitemap"]
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True)
class Sitemap:
    """Addresses of pages, or of sitemaps if it `is_index`, each with its date of change or None; both unchecked."""

    is_index: bool
    addresses: tuple[tuple[str, str | None], ...]


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


def parse(content: bytes, options: Mapping[str, Any]) -> Json:
    """For the sandbox: `index`, and `addresses`, a pair of address and date each; raises InvalidDocument."""
    builder = _SitemapBuilder()
    read_events(content, start=builder.start, text=builder.add_text, end=builder.end)
    if builder.root not in ("urlset", "sitemapindex"):
        raise InvalidDocument("is no sitemap: its root is neither <urlset> nor <sitemapindex>")
    return {"index": builder.root == "sitemapindex", "addresses": [entry for entry in builder.entries if entry[0]]}


def read_sitemap(answer: Json) -> Sitemap:
    """The Sitemap in the sandbox's answer, which is not trusted; raises InvalidDocument."""
    addresses = answer.get("addresses") if type(answer) is dict else None
    if type(addresses) is not list or not all(map(_is_pair, addresses)):
        raise InvalidDocument("cannot be read: its parser gave an invalid answer")
    return Sitemap(answer.get("index") is True, tuple((address, date or None) for address, date in addresses))


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
