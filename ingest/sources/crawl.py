"""Reads a web source from end to end: a page, a feed, or the pages of a sitemap in order. Writes nothing.

An address that cannot be fetched is one failure, and the documents that the store has of it are kept. A host that asks
for a longer pause (`Retry-After`) than a `Fetcher` waits is not requested again until the next run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from zlib import crc32

from aidre.engine.errors import AidreError, FetchFailed, InvalidDocument
from aidre.engine.model import Document
from aidre.ingest.fetch import FetchResult, Robots, Url, display_url, read_url
from aidre.ingest.formats import Sitemap, is_settled, read_sitemap
from aidre.ingest.records import File, Item, ListingEnd, Unchanged, Unpublished, escape_unprintable, read_content
from aidre.ingest.sandbox import SHARED
from aidre.ingest.sources.body import PAGE_KINDS, gunzip, listing_of
from aidre.ingest.sources.web import FetchSession

MAX_SITEMAPS = 1000
"""Sitemaps that the indexes of one source may list together."""

MAX_INDEX_DEPTH = 3
"""Levels of sitemap files: an index, the indexes that it lists, and their sitemaps."""

MAX_FAILURES = 5
"""Consecutive pages that a host fails to deliver, being down or overloaded, before the rest is not requested."""


_NEAR = 0.1
"""Share by which the lengths of two texts of one page may differ: a list of links, a date."""


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
        raise FetchFailed(f"has the media type {media_type}, which is not supported")
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
        self._pages = _Pages()

    def read(self, path: Path) -> Iterator[Item]:
        session = self._session
        charset = self._location[1].charset if self._location else None
        root = self._parse(path, session.source.address, charset)
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

    def _parse(self, path: Path, address: str, charset: str | None) -> Sitemap:
        content = path.read_bytes()
        path.unlink()
        sitemap = read_sitemap(SHARED.parse("sitemap", content, {"charset": charset} if charset else {}))
        for text in filter(None, (sitemap.notice, sitemap.fault if sitemap.is_whole else None)):
            self._note(f"{display_url(address)}: {text}")
        return sitemap

    def _read_entries(self, sitemap: Sitemap, location: Url | None, depth: int) -> Iterator[Item]:
        entries = [(self._resolve(address, location), address, date) for address, date in sitemap.addresses]
        if not sitemap.is_index:
            self._pages.expect(str(url) for url, _, _ in entries)
        if sitemap.fault is not None:  # what it lists besides is unknown, and kept
            self._is_settled = False
            yield self._unknown(sitemap.fault, is_failure=not sitemap.is_whole)
        for url, address, date in entries:
            if isinstance(url, FetchFailed):
                yield self._session.failed(address, url.message)
                continue
            if str(url) in self._seen:
                continue
            if not self._is_within(url):
                self._skipped["on another site"] += 1
                continue
            self._seen.add(str(url))
            yield from self._read_sitemap(url, depth) if sitemap.is_index else self._read_page(url, date, location)

    def _unknown(self, fault: str, *, is_failure: bool) -> Item:
        """What keeps the documents of a sitemap that may list more pages than could be read."""
        source = self._session.source
        if is_failure:
            return self._session.failed(source.address, fault, everything=True)
        return Unchanged(display_url(source.address), source.name, ".", 0)

    @staticmethod
    def _resolve(address: str, location: Url | None) -> Url | FetchFailed:
        try:
            return location.join(address) if location else read_url(address)
        except FetchFailed as error:
            return error

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
                raise FetchFailed("is not a sitemap")
            sitemap = self._parse(response.path, str(url), response.fetched.charset)
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
            yield from self._unchanged(origin, state)
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
                yield from self._unchanged(origin, state)
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

    def _unchanged(self, origin: str, state: Mapping[str, str]) -> Iterator[Item]:
        self._pages.keep(origin, state)
        yield from self._session.unchanged(origin)

    def _fetch_page(self, url: Url, state: Mapping[str, str], page_state: Mapping[str, str]) -> Iterator[Item]:
        response = self._session.fetch(url, self._folder, state, self._is_within)
        if response is None:
            yield from self._unchanged(str(url), state)
            return
        fetched, path, kind = response
        try:
            if kind in PAGE_KINDS:
                for item in self._session.documents(path, kind, str(url), fetched, page_state):
                    self._is_settled = self._is_settled and not _may_change_with_time(item)
                    if not isinstance(item, tuple):
                        yield item
                    elif self._pages.is_repeated(str(url), str(fetched.url), item[1]):
                        self._skipped["second addresses of a page"] += 1
                    else:
                        yield item[0], _with_mark(str(url), item[1])
            elif str(url) in self._session.stored.pages:
                raise InvalidDocument("is not a page any more")
            else:
                self._skipped[fetched.kind or "of no content type"] += 1
        finally:
            path.unlink(missing_ok=True)


class _Pages:
    """The pages of a run by their own addresses: a redirect, or an address whose page calls another one its canonical
    address, is the same page and no second document.

    Many sites call their first page the canonical address of all others by mistake. So two pages are the same only if
    their texts are, or their titles and nearly the lengths of their texts; the state of a page keeps what tells that.
    """

    def __init__(self) -> None:
        self._listed: set[str] = set()
        self._marks: dict[str, str] = {}

    def expect(self, addresses: Iterable[str]) -> None:
        """Addresses that will be read, too: what redirects to one of them is left to it."""
        self._listed.update(addresses)

    def keep(self, origin: str, state: Mapping[str, str]) -> None:
        """A page that is stored, and unchanged."""
        self._marks.setdefault(state.get("url", origin), state.get("page", ""))

    def is_repeated(self, origin: str, final: str, document: Document) -> bool:
        """Whether the page at `origin`, which answered at `final`, is read at another address, or was."""
        if final != origin and final in self._listed:
            return True
        mark = _mark_of(document)
        known = self._marks.setdefault(document.url or final, mark)
        return known is not mark and _are_same(known, mark)


def _mark_of(document: Document) -> str:
    title, text = (crc32((part or "").encode("utf-8", "replace")) for part in (document.title, document.text))
    return f"{title:x} {text:x} {len(document.text)}"


def _are_same(mark: str, other: str) -> bool:
    if not mark or not other:
        return False
    (title, text, length), (other_title, other_text, other_length) = mark.split(), other.split()
    is_near = abs(int(length) - int(other_length)) <= _NEAR * int(length)
    return text == other_text or (title == other_title and is_near)


def _with_mark(origin: str, document: Document) -> Document:
    """The document with what `_Pages` needs of it when it is unchanged."""
    if not document.state:
        return document
    own = {} if document.url in (None, origin) else {"url": document.url}
    return replace(document, state={**document.state, **own, "page": _mark_of(document)})


def _may_change_with_time(item: Item) -> bool:
    """Whether a page may be published, or not any more, though its sitemap stays as it is."""
    if isinstance(item, tuple):
        return "expires" in (item[1].state or {})
    return isinstance(item, Unpublished)


def _reason(error: Exception) -> str:
    if isinstance(error, AidreError):
        return error.message
    return f"cannot be read: {getattr(error, 'strerror', None) or error}"
