"""Web sources: their state in the store, and the documents of one address. Writes nothing.

Requests for pages that the store has are conditional: an unchanged page is neither transferred nor read again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, TypeAlias
from urllib.parse import unquote

import orjson

from aidre.engine.errors import FetchFailed
from aidre.engine.model import Document
from aidre.engine.ports import Sink
from aidre.ingest.fetch import Fetcher, FetchResult, Url, display_url, read_url
from aidre.ingest.formats import feed
from aidre.ingest.records import (
    PUBLISHED,
    File,
    Item,
    ListingEnd,
    Noted,
    Notes,
    Rejected,
    Unchanged,
    Unpublished,
    read_robots,
)
from aidre.ingest.sources.body import gunzip, kind_of, listing_of

ReadFile: TypeAlias = Callable[[File], Iterator[Item]]

READER_VERSION = "5"
"""Version of what readers make of files and pages. A new one causes every page to be fetched again."""

_MAX_NAME = 60
"""Characters of a file name made from a URL."""


@dataclass(frozen=True, slots=True)
class WebSource:
    """An address, or a sitemap `file` on disk whose pages are fetched. `root` is the site, or the path of the file."""

    name: str
    address: str
    root: str
    file: Path | None = None
    only: None = None


@dataclass(frozen=True, slots=True)
class StoredPage:
    """One address in the store: its number of documents, and the state (JSON) of its last response."""

    documents: int
    raw_state: bytes | None = None

    @property
    def state(self) -> Mapping[str, str]:
        state: Mapping[str, str] = orjson.loads(self.raw_state) if self.raw_state else {}
        return state


@dataclass(frozen=True, slots=True)
class StoredState:
    """A source in the store: pages by address, and states of listings by address.

    `settings` names the current settings of chunking and embedding; pages stored under others are fetched again, and
    those that were to be published until a time before `now`.
    """

    settings: str = ""
    now: datetime | None = None
    pages: Mapping[str, StoredPage] = field(default_factory=dict)
    listings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def state_of(self, origin: str) -> Mapping[str, str]:
        """The state that makes a request conditional.

        Empty if the settings have changed, if the store has no document of the address, which a sitemap never has, or
        if that document is not to be published any more.
        """
        page = self.pages.get(origin)
        state = self.listings.get(origin) or (page.state if page else {})
        is_stored = page is not None or state.get("kind") == "sitemap"
        is_over = "expires" in state and self.now and datetime.fromisoformat(state["expires"]) <= self.now
        return state if is_stored and state.get("settings") == self.settings and not is_over else {}


class FetchedFile(NamedTuple):
    """`kind` is "feed", "sitemap" or the suffix of its reader; None if there is no reader."""

    fetched: FetchResult
    path: Path
    kind: str | None


def web_source(address: str, name: str | None = None) -> WebSource:
    """The source of an address. A malformed URL is accepted here and fails when it is read."""
    address = address.strip()
    try:
        url = read_url(address)
    except FetchFailed:
        return WebSource(name or display_url(address), address, display_url(address))
    return WebSource(name or f"{url.authority}{url.target}".rstrip("/"), address, f"{url.scheme}://{url.authority}")


def load_stored_state(writer: Sink | None, source: WebSource, settings: bytes, now: datetime | None) -> StoredState:
    """Reads the state of a source from the store. Call it with nothing pending.

    `settings` is a digest of the settings that stored chunks and vectors depend on.
    """
    if writer is None:
        return StoredState()
    counts: dict[str, int] = {}
    states: dict[str, bytes | None] = {}
    for origin, state in writer.states_of(source.name):
        counts[origin] = counts.get(origin, 0) + 1
        states[origin] = state or states.get(origin)
    pages = {origin: StoredPage(count, states[origin]) for origin, count in counts.items()}
    digest = hashlib.blake2b(settings, digest_size=12).hexdigest()
    return StoredState(f"{READER_VERSION}-{digest}", now, pages, writer.source_states())


class FetchSession:
    """Fetches the addresses of one source during one run, within its budget of bytes.

    `read_file` reads files of `suffixes`. With `read_all`, which --mirror needs, a list of pages is read even if it has
    not changed. Documents that are not published at `as_of` are left out; None takes them.
    """

    def __init__(
        self,
        source: WebSource,
        fetcher: Fetcher,
        *,
        read_file: ReadFile,
        suffixes: frozenset[str],
        stored: StoredState,
        read_all: bool,
        as_of: datetime | None = None,
    ) -> None:
        self.source, self.fetcher, self.stored, self.read_all = source, fetcher, stored, read_all
        self._read_file, self._suffixes, self._as_of = read_file, suffixes, as_of
        self._remaining_bytes = fetcher.rules.total_bytes

    def check_budget(self) -> None:
        """Raises FetchFailed when the bytes of this source are used up."""
        if self._remaining_bytes <= 0:
            raise FetchFailed("has more to fetch than [sources] total_bytes allows")

    def fetch(
        self, url: Url, folder: Path, state: Mapping[str, str], within: Callable[[Url], bool] | None = None
    ) -> FetchedFile | None:
        """Fetch a URL into a file of `folder`, named after the URL; None if the server confirms `state`.

        `within` decides which URLs a redirect may lead to. Raises FetchFailed.
        """
        body = folder / "body"
        fetched = self.fetcher.get(url, body, state=state, within=within)
        if fetched is None:
            return None
        self._remaining_bytes -= fetched.bytes
        body = gunzip(body, self.fetcher.rules.page_bytes)
        kind = kind_of(body, fetched, self._suffixes)
        name = re.sub(r"[^\w.-]+", "-", unquote(fetched.url.path).rstrip("/").rpartition("/")[2])[:_MAX_NAME]
        stem = Path(name).stem.strip(".-") or fetched.url.host
        path = body.replace(folder / f"{stem}{kind if kind and kind[0] == '.' else '.xml'}")
        return FetchedFile(fetched, path, kind)

    def documents(
        self, path: Path, kind: str, origin: str, fetched: FetchResult, page_state: Mapping[str, str] | None = None
    ) -> Iterator[Item]:
        """The documents of a fetched file; `page_state` is added to the state that is stored with each."""
        listing = listing_of(kind)
        # What a server says of a list is for the list alone: many exclude their feeds and sitemaps.
        as_of = self._as_of if listing is None else None
        publication = PUBLISHED if as_of is None else read_robots(fetched.robots, as_of)
        if publication.reason is not None:
            reason = f"X-Robots-Tag: {publication.reason}"
            yield Unpublished(display_url(origin), reason, self.source.name, origin)
            return
        notes = Notes()
        file = File(
            path, self.source.name, origin, str(fetched.url), fetched=True, charset=fetched.charset, notes=notes
        )
        expiry = {"expires": publication.until} if publication.until else {}
        state = {**fetched.state, **(page_state or {}), **expiry}
        if state:
            state["settings"] = self.stored.settings
        items = feed.read_entries(file) if kind == "feed" else self._read_file(file)
        for item in items:
            if isinstance(item, tuple):
                where, document = item
                yield display_url(where), document if listing else _with_state(document, state)
            elif isinstance(item, Unpublished | Noted):
                yield replace(item, where=display_url(item.where))
            else:
                yield item
        yield from notes.items(display_url(origin))
        if listing is not None:
            yield ListingEnd(self.source.name, origin, listing, state)

    def unchanged(self, origin: str) -> Iterator[Unchanged]:
        """The documents that the store has of an address, if any."""
        page = self.stored.pages.get(origin)
        if page is not None:
            yield Unchanged(display_url(origin), self.source.name, origin, page.documents)

    def unchanged_pages(self, listing: str) -> Iterator[Unchanged]:
        """The documents that the store has of the pages of a sitemap."""
        for origin, page in self.stored.pages.items():
            if page.state.get("listing") == listing:
                yield from self.unchanged(origin)

    def failed(self, address: str, reason: str, *, everything: bool = False) -> Rejected:
        """The failure of one address; with `everything` the rest of the source is unknown as well, and kept."""
        return Rejected(
            display_url(address), reason, self.source.name, "." if everything else address, folder=everything
        )


def _with_state(document: Document, state: Mapping[str, str]) -> Document:
    """The document with the state of its response. Of two times until which it is published the earlier counts."""
    own = document.state or {}
    times = [each["expires"] for each in (own, state) if "expires" in each]
    merged = {**own, **state} | ({"expires": min(times)} if times else {})
    return replace(document, state=merged) if merged else document
