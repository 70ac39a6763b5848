"""Reads a web source from end to end: a page, a feed, or the pages of a sitemap in order. Writes nothing.

An address that cannot be fetched is one failure, and the documents that the store has of it are kept. A host that asks
for a longer pause (`Retry-After`) than a `Fetcher` waits is not requested again until the next run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from aidre.engine.errors import AidreError, FetchFailed, InvalidDocument
from aidre.ingest.fetch import FetchResult, Robots, Url, read_url
from aidre.ingest.formats import Sitemap, is_settled, read_sitemap
from aidre.ingest.records import File, Item, ListingEnd, Unpublished, escape_unprintable, read_content
from aidre.ingest.sandbox import SHARED
from aidre.ingest.sources.body import PAGE_KINDS, gunzip, listing_of
from aidre.ingest.sources.web import FetchSession

MAX_SITEMAPS = 1000
"""Sitemaps that the indexes of one source may list together."""

MAX_INDEX_DEPTH = 3
"""Levels of sitemap files: an index, the indexes that it lists, and their sitemaps."""

MAX_FAILURES = 5
"""Consecutive pages that a host fails to deliver, being down or overloaded, before the rest is not requested."""


def read_web_source(session: FetchSession, note: Callable[[str], None]) -> Iterator[Item]:
    """All documents of a source, with failures and unchanged pages; skipped addresses are reported to `note`."""
    try:
        with TemporaryDirectory(prefix="aidre-") as name:
            folder = Path(name)
            if session.source.file is None:
                yield from _read_address(session, read_url(session.source.address), folder, note)
            else:
                path = folder / "body"
                path.write_bytes(read_content(File(session.source.file, session.source.name, session.source.address)))
                sitemap = gunzip(path, session.fetcher.rules.page_bytes)
                yield from _SitemapReader(session, folder, None, note).read(sitemap)
    except (AidreError, OSError) as error:
        yield session.failed(session.source.address, _reason(error), everything=True)


def _read_address(session: FetchSession, url: Url, folder: Path, note: Callable[[str], None]) -> Iterator[Item]:
    former_kind = session.stored.listings.get(str(url), {}).get("kind")
    is_unconditional = session.read_all and former_kind == "sitemap"
    response = session.fetch(url, folder, {} if is_unconditional else session.stored.state_of(str(url)))
    if response is None:
        is_sitemap = former_kind == "sitemap"
        yield from session.unchanged_pages(str(url)) if is_sitemap else session.unchanged(str(url))
        return
    fetched, path, kind = response
    if former_kind not in (None, listing_of(kind)) and session.stored.pages:
        # Most often an error or maintenance page with a status of success.
        media_type = escape_unprintable(fetched.kind[:80]) or "something else"
        raise FetchFailed(f"was a list ({former_kind}) and is {media_type} now: give it another name with --source")
    if kind == "sitemap":
        yield from _SitemapReader(session, folder, (url, fetched), note).read(path)
    elif kind is None:
        media_type = escape_unprintable(fetched.kind[:80]) or "of no content type"
        raise FetchFailed(f"is {media_type}, and no kind of document that can be read")
    else:
        yield from session.documents(path, kind, str(url), fetched)


class _SitemapReader:
    """Reads every page of a sitemap, or of the sitemaps of an index, once.

    A sitemap that was fetched (`location`) may list pages of its own site only; one from the operator's disk any.
    """

    def __init__(
        self,
        session: FetchSession,
        folder: Path,
        location: tuple[Url, FetchResult] | None,
        note: Callable[[str], None],
    ) -> None:
        self._session, self._folder, self._location, self._note = session, folder, location, note
        self._sites = frozenset({location[0].site, location[1].url.site}) if location else None
        self._robots = Robots(session.fetcher, folder)
        self._now = datetime.now(UTC)
        self._seen: set[str] = set()
        self._sitemaps = 0
        self._skipped: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._not_requested: Counter[str] = Counter()
        self._paused_hosts: set[str] = set()
        self._is_settled = True

    def read(self, path: Path) -> Iterator[Item]:
        session = self._session
        root = self._parse(path)
        yield from self._read_entries(root, self._location[0] if self._location else None, 1)
        for host, count in self._not_requested.items():
            is_paused = host in self._paused_hosts
            cause = "asks for a pause" if is_paused else f"failed to deliver {MAX_FAILURES} pages in a row"
            reason = f"{host} {cause}, {count} other pages were not requested"
            yield session.failed(session.source.address, reason, everything=True)
        if self._skipped:
            kinds = ", ".join(f"{reason} {count}" for reason, count in self._skipped.most_common(5))
            self._note(
                f"{session.source.name}: {self._skipped.total()} addresses skipped ({escape_unprintable(kinds)})"
            )
        if self._location:
            url, fetched = self._location
            is_conditional = bool(fetched.state) and self._is_settled and not root.is_index
            state = {**fetched.state, "settings": session.stored.settings} if is_conditional else {}
            yield ListingEnd(session.source.name, str(url), "sitemap", state)

    def _parse(self, path: Path) -> Sitemap:
        content = path.read_bytes()
        path.unlink()
        return read_sitemap(SHARED.parse("sitemap", content))

    def _read_entries(self, sitemap: Sitemap, location: Url | None, depth: int) -> Iterator[Item]:
        for address, date in sitemap.addresses:
            try:
                url = location.join(address) if location else read_url(address)
            except FetchFailed as error:
                yield self._session.failed(address, error.message)
                continue
            if str(url) in self._seen:
                continue
            if not self._is_within(url):
                self._skipped["on another site"] += 1
                continue
            self._seen.add(str(url))
            yield from self._read_sitemap(url, depth) if sitemap.is_index else self._read_page(url, date, location)

    def _is_within(self, url: Url) -> bool:
        return self._sites is None or url.site in self._sites

    def _read_sitemap(self, url: Url, depth: int) -> Iterator[Item]:
        """The pages of one sitemap of an index. If it fails, its pages are unknown and all of the source is kept."""
        self._sitemaps += 1
        if self._sitemaps > MAX_SITEMAPS or depth >= MAX_INDEX_DEPTH:
            raise FetchFailed(f"is an index of more than {MAX_SITEMAPS} sitemaps, or of indexes of indexes")
        try:
            if url.authority in self._paused_hosts:
                raise FetchFailed("not requested: its host asks for a pause")
            response = self._session.fetch(url, self._folder, {}, self._is_within)
            if response is None or response.kind != "sitemap":
                raise FetchFailed("is no sitemap")
            sitemap = self._parse(response.path)
        except (AidreError, OSError) as error:
            self._note_pause(url, error)
            yield self._session.failed(str(url), _reason(error), everything=True)
            return
        yield from self._read_entries(sitemap, url, depth + 1)

    def _read_page(self, url: Url, date: str | None, location: Url | None) -> Iterator[Item]:
        session, origin = self._session, str(url)
        page_state = {"listing": str(location)} if location else {}
        if date and is_settled(date, self._now):
            page_state["lastmod"] = date
        else:
            self._is_settled = False
        state = session.stored.state_of(origin)
        if "expires" in state:
            self._is_settled = False
        if "lastmod" in page_state and state.get("lastmod") == date:
            yield from session.unchanged(origin)
            return
        if len(self._seen) > session.fetcher.rules.pages:
            raise FetchFailed(f"lists more than {session.fetcher.rules.pages} pages: raise [sources] pages")
        if self._failures[url.authority] >= MAX_FAILURES or url.authority in self._paused_hosts:
            self._not_requested[url.authority] += 1
            return
        session.check_budget()
        try:
            if self._robots.allow(url):
                yield from self._fetch_page(url, state, page_state)
            else:
                self._skipped["closed by robots.txt"] += 1
                yield from session.unchanged(origin)
        except (AidreError, OSError) as error:
            yield session.failed(origin, _reason(error))
            is_down = isinstance(error, FetchFailed) and error.details.get("down", False)
            self._failures[url.authority] = self._failures[url.authority] + 1 if is_down else 0
            self._note_pause(url, error)
        else:
            self._failures[url.authority] = 0

    def _note_pause(self, url: Url, error: Exception) -> None:
        if isinstance(error, FetchFailed) and "retry_after" in error.details:
            self._paused_hosts.add(url.authority)

    def _fetch_page(self, url: Url, state: Mapping[str, str], page_state: Mapping[str, str]) -> Iterator[Item]:
        response = self._session.fetch(url, self._folder, state, self._is_within)
        if response is None:
            yield from self._session.unchanged(str(url))
            return
        fetched, path, kind = response
        try:
            if kind in PAGE_KINDS:
                for item in self._session.documents(path, kind, str(url), fetched, page_state):
                    self._is_settled = self._is_settled and not _may_change_with_time(item)
                    yield item
            elif str(url) in self._session.stored.pages:
                raise InvalidDocument("is no page any more")
            else:
                self._skipped[fetched.kind or "of no content type"] += 1
        finally:
            path.unlink(missing_ok=True)


def _may_change_with_time(item: Item) -> bool:
    """Whether a page may be published, or not any more, though its sitemap stays as it is."""
    if isinstance(item, tuple):
        return "expires" in (item[1].state or {})
    return isinstance(item, Unpublished)


def _reason(error: Exception) -> str:
    if isinstance(error, AidreError):
        return error.message
    return f"cannot be read: {getattr(error, 'strerror', None) or error}"
