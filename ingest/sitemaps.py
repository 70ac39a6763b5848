"""Sitemaps: the addresses that one lists, or those of the sitemaps that an index lists. Fetches nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json
from aidre.ingest.members import instant
from aidre.ingest.xml import read_events

MOST_ADDRESSES = 50_000
"""Of one sitemap, by its standard."""

_LONGEST = 8192
_PAGES = ["urlset", "url"]
_SITEMAPS = ["sitemapindex", "sitemap"]
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True)
class Sitemap:
    """Addresses as they stand there, each with its date of change where it has one; of pages, or of sitemaps."""

    is_index: bool
    addresses: tuple[tuple[str, str | None], ...]


class _Listing:
    """Collects while the XML is read."""

    def __init__(self) -> None:
        self.path: list[str] = []
        self.found: list[list[str | None]] = []
        self._words: list[str] = []

    def start(self, name: str) -> None:
        self.path.append(name.rpartition(":")[2])
        self._words = []
        if self.path in (_PAGES, _SITEMAPS):
            if len(self.found) >= MOST_ADDRESSES:
                raise InvalidDocument(f"lists more than {MOST_ADDRESSES} addresses: split it")
            self.found.append([None, None])

    def words(self, text: str) -> None:
        if len(self.path) == 3:
            self._words.append(text)

    def end(self) -> None:
        name = self.path.pop()
        if self.path in (_PAGES, _SITEMAPS) and name in ("loc", "lastmod"):
            self.found[-1][name == "lastmod"] = "".join(self._words).strip()[:_LONGEST]


def parse(content: bytes, options: Mapping[str, Any]) -> Json:
    """For the sandbox: `index` and `addresses`, a pair of address and date each; raises InvalidDocument."""
    listing = _Listing()
    roots: list[str] = []

    def start(name: str) -> None:
        if not listing.path:
            roots.append(name.rpartition(":")[2])
        listing.start(name)

    read_events(content, start=start, words=listing.words, end=listing.end)
    if roots not in (["urlset"], ["sitemapindex"]):
        raise InvalidDocument("is no sitemap: its root is neither <urlset> nor <sitemapindex>")
    return {"index": roots == ["sitemapindex"], "addresses": [each for each in listing.found if each[0]]}


def sitemap(answer: Json) -> Sitemap:
    """The answer of the parser, which is not trusted."""
    addresses = answer.get("addresses") if type(answer) is dict else None
    if type(addresses) is not list or not all(map(_is_pair, addresses)):
        raise InvalidDocument("cannot be read: its parser gave no answer that makes sense")
    return Sitemap(answer.get("index") is True, tuple((address, date or None) for address, date in addresses))


def is_settled(date: str, now: datetime) -> bool:
    """Whether something that changed at this date and was fetched now will have another date when it changes again.

    A day is settled when it is over, in every time zone.
    """
    try:
        moment = datetime.fromisoformat(instant(date)).replace(tzinfo=UTC)
    except InvalidDocument:
        return False
    return moment + (timedelta(hours=36) if _DAY.fullmatch(date) else timedelta(seconds=1)) < now


def _is_pair(each: Json) -> bool:
    return type(each) is list and len(each) == 2 and type(each[0]) is str and type(each[1]) in (str, type(None))
