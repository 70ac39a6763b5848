"""Sources that are fetched, and one address of them: what it answers, as documents. Writes nothing.

What the store has from an address is asked for conditionally.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote

import orjson

from aidre.engine.errors import FetchFailed
from aidre.engine.writer import Writer
from aidre.ingest import feeds
from aidre.ingest.body import gunzipped, in_utf8, kind_of, listing_of
from aidre.ingest.fetch import Fetched, Fetcher
from aidre.ingest.found import File, Found, Listed, Rejected, Unchanged
from aidre.ingest.urls import Url, read_url, shown

ReadFile: TypeAlias = Callable[[File], Iterator[Found]]

VERSION = "1"
"""Of how pages become documents: with another one every page is fetched anew."""

_TEXTS = frozenset({".html", ".txt", ".md", ".csv", ".tsv"})


@dataclass(frozen=True, slots=True)
class WebSource:
    """An address, or the `file` of a sitemap, whose pages are elsewhere. `root` is the site that it belongs to."""

    name: str
    address: str
    root: str
    file: Path | None = None
    only: None = None


@dataclass(frozen=True, slots=True)
class Known:
    """What the store has from one address: how many documents, and the state (JSON) that they came with."""

    documents: int
    raw: bytes | None = None

    @property
    def state(self) -> Mapping[str, str]:
        state: Mapping[str, str] = orjson.loads(self.raw) if self.raw else {}
        return state


@dataclass(frozen=True, slots=True)
class Before:
    """What earlier runs left: by the address of each page, and the states of listings. `settings` names how texts are
    cut and embedded now; what was stored under others is fetched anew."""

    settings: str = ""
    pages: Mapping[str, Known] = field(default_factory=dict)
    listings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def state(self, origin: str) -> Mapping[str, str]:
        """What a request can be made conditional with; nothing where the store has no document of it."""
        known = self.pages.get(origin)
        state = self.listings.get(origin) or (known.state if known else {})
        is_here = known is not None or state.get("kind") == "sitemap"
        return state if is_here and state.get("settings") == self.settings else {}


def web_source(address: str, name: str | None = None) -> WebSource:
    """The source that an address is; one that is no URL is said to be so when it is read."""
    address = address.strip()
    try:
        url = read_url(address)
    except FetchFailed:
        return WebSource(name or shown(address), address, shown(address))
    return WebSource(name or f"{url.authority}{url.target}".rstrip("/"), address, f"{url.scheme}://{url.authority}")


def before(writer: Writer | None, source: WebSource, settings: bytes) -> Before:
    """What the store has of a source; call it with nothing pending. `settings` are what makes documents of texts."""
    if writer is None:
        return Before()
    counts: dict[str, int] = {}
    states: dict[str, bytes | None] = {}
    for origin, state in writer.states_of(source.name):
        counts[origin] = counts.get(origin, 0) + 1
        states[origin] = state or states.get(origin)
    pages = {origin: Known(count, states[origin]) for origin, count in counts.items()}
    digest = hashlib.blake2b(settings, digest_size=12).hexdigest()
    return Before(f"{VERSION}-{digest}", pages, writer.source_states())


class Visit:
    """One run's look at a source, address by address, in a folder for what comes. `read_file` reads files of
    `suffixes`; with `whole`, as --mirror needs it, a list of pages is read even where it has not changed."""

    def __init__(
        self,
        source: WebSource,
        fetcher: Fetcher,
        *,
        read_file: ReadFile,
        suffixes: frozenset[str],
        known: Before,
        whole: bool,
    ) -> None:
        self.source, self.fetcher, self.known, self.whole = source, fetcher, known, whole
        self._read_file, self._suffixes = read_file, suffixes
        self._left = fetcher.rules.total_bytes

    def check_budget(self) -> None:
        """Raises FetchFailed when the bytes of this source are used up."""
        if self._left <= 0:
            raise FetchFailed("has more to fetch than [sources] total_bytes allows")

    def get(
        self, url: Url, folder: Path, state: Mapping[str, str], within: Callable[[Url], bool] | None = None
    ) -> tuple[Fetched, Path, str | None] | None:
        """What came, the file that it is, and its kind (None: unknown); None where `state` still holds."""
        body = folder / "body"
        fetched = self.fetcher.get(url, body, state=state, within=within)
        if fetched is None:
            return None
        self._left -= fetched.bytes
        body = gunzipped(body, self.fetcher.rules.page_bytes)
        kind = kind_of(body, fetched, self._suffixes)
        name = re.sub(r"[^\w.-]+", "-", unquote(fetched.url.path).rstrip("/").rpartition("/")[2])[:60]
        stem = Path(name).stem.strip(".-") or fetched.url.host
        return fetched, body.replace(folder / f"{stem}{kind if kind and kind[0] == '.' else '.xml'}"), kind

    def documents(
        self, path: Path, kind: str, origin: str, fetched: Fetched, more: Mapping[str, str] | None = None
    ) -> Iterator[Found]:
        """The documents of what came; `more` belongs to the state of each."""
        file = File(path, self.source.name, origin, str(fetched.url), fetched=True)
        state = {**fetched.state, **(more or {})}
        if state:
            state["settings"] = self.known.settings
        if kind == "feed":
            charset = f"; charset={fetched.charset}" if fetched.charset else ""
            found = feeds.entries(file, f"{fetched.kind or 'application/xml'}{charset}")
        else:
            if fetched.charset and kind in _TEXTS:
                in_utf8(path, fetched.charset)
            found = self._read_file(file)
        listing = listing_of(kind)
        has_own_state = bool(state) and listing is None
        for each in found:
            if isinstance(each, tuple):
                where, document = each
                yield shown(where), replace(document, state=state) if has_own_state else document
            else:
                yield each
        if listing is not None:
            yield Listed(self.source.name, origin, listing, state)

    def unchanged(self, origin: str) -> Iterator[Unchanged]:
        """What the store has of this address."""
        known = self.known.pages.get(origin)
        if known is not None:
            yield Unchanged(shown(origin), self.source.name, origin, known.documents)

    def unchanged_pages(self, listing: str) -> Iterator[Unchanged]:
        """What the store has of the pages that a sitemap lists."""
        for page, known in self.known.pages.items():
            if known.state.get("listing") == listing:
                yield from self.unchanged(page)

    def failed(self, address: str, reason: str, *, everything: bool = False) -> Rejected:
        """A failure of one address; with `everything` it is not known what else the source has."""
        return Rejected(shown(address), reason, self.source.name, "." if everything else address, folder=everything)
