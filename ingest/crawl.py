"""A fetched source from end to end: a page, a feed, or the pages of a sitemap one after the other. Writes nothing.

Whatever cannot be fetched is one failure more, and what the store has of it stays. A host that asks for more time than
it is given (patience.py) is left alone until the next run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from aidre.engine.errors import AidreError, FetchFailed, InvalidDocument
from aidre.ingest.body import PAGES, gunzipped, listing_of
from aidre.ingest.fetch import Fetched
from aidre.ingest.found import File, Found, Listed, content
from aidre.ingest.members import printable
from aidre.ingest.robots import Robots
from aidre.ingest.sandbox import SHARED
from aidre.ingest.sitemaps import Sitemap, is_settled, sitemap
from aidre.ingest.urls import Url, read_url
from aidre.ingest.web import Visit

MOST_SITEMAPS = 1000
DEEPEST_INDEX = 3
MOST_FAILURES = 5
"""Pages in a row that a host does not give, being down or overworked; after them it is not asked for the others."""


def read(visit: Visit, note: Callable[[str], None]) -> Iterator[Found]:
    """Every document of a source, with what failed and what has not changed; `note` is told what was left out."""
    try:
        with TemporaryDirectory(prefix="aidre-") as name:
            folder = Path(name)
            if visit.source.file is None:
                yield from _address(visit, read_url(visit.source.address), folder, note)
            else:
                path = folder / "body"
                path.write_bytes(content(File(visit.source.file, visit.source.name, visit.source.address)))
                yield from _Pages(visit, folder, None, note).read(gunzipped(path, visit.fetcher.rules.page_bytes))
    except (AidreError, OSError) as error:
        yield visit.failed(visit.source.address, _reason(error), everything=True)


def _address(visit: Visit, url: Url, folder: Path, note: Callable[[str], None]) -> Iterator[Found]:
    state = visit.known.state(str(url))
    earlier = visit.known.listings.get(str(url), {}).get("kind")
    answer = visit.get(url, folder, {} if visit.whole and earlier == "sitemap" else state)
    if answer is None:
        yield from visit.unchanged_pages(str(url)) if earlier == "sitemap" else visit.unchanged(str(url))
        return
    fetched, path, kind = answer
    if earlier not in (None, listing_of(kind)) and visit.known.pages:
        # Most often the page of an error or of maintenance, under the status of success.
        what = printable(fetched.kind[:80]) or "something else"
        raise FetchFailed(f"was a list ({earlier}) and is {what} now: give it another name with --source")
    if kind == "sitemap":
        yield from _Pages(visit, folder, (url, fetched), note).read(path)
    elif kind is None:
        what = printable(fetched.kind[:80]) or "of no content type"
        raise FetchFailed(f"is {what}, and no kind of document that can be read")
    else:
        yield from visit.documents(path, kind, str(url), fetched)


class _Pages:
    """The pages of a sitemap, or of the sitemaps of an index, each once. A sitemap that was fetched speaks for its own
    site alone; one from the operator's disk for any."""

    def __init__(self, visit: Visit, folder: Path, at: tuple[Url, Fetched] | None, note: Callable[[str], None]) -> None:
        self._visit, self._folder, self._at, self._note = visit, folder, at, note
        self._sites = frozenset({at[0].site, at[1].url.site}) if at else None
        self._robots = Robots(visit.fetcher, folder)
        self._now = datetime.now(UTC)
        self._seen: set[str] = set()
        self._sitemaps = 0
        self._left_out: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._unasked: Counter[str] = Counter()
        self._overworked: set[str] = set()
        self._is_settled = True

    def read(self, path: Path) -> Iterator[Found]:
        root = self._parsed(path)
        yield from self._read(root, self._at[0] if self._at else None, 1)
        for host, count in self._unasked.items():
            why = "asks for time" if host in self._overworked else f"did not give {MOST_FAILURES} pages in a row"
            reason = f"{host} {why}, {count} others were not asked for"
            yield self._visit.failed(self._visit.source.address, reason, everything=True)
        if self._left_out:
            kinds = ", ".join(f"{why} {count}" for why, count in self._left_out.most_common(5))
            self._note(f"{self._visit.source.name}: {self._left_out.total()} addresses left out ({printable(kinds)})")
        if self._at:
            is_conditional = bool(self._at[1].state) and self._is_settled and not root.is_index
            state = {**self._at[1].state, "settings": self._visit.known.settings} if is_conditional else {}
            yield Listed(self._visit.source.name, str(self._at[0]), "sitemap", state)

    def _parsed(self, path: Path) -> Sitemap:
        content = path.read_bytes()
        path.unlink()
        return sitemap(SHARED.parse("sitemap", content))

    def _read(self, listing: Sitemap, at: Url | None, depth: int) -> Iterator[Found]:
        for text, date in listing.addresses:
            try:
                url = at.join(text) if at else read_url(text)
            except FetchFailed as error:
                yield self._visit.failed(text, error.message)
                continue
            if str(url) in self._seen:
                continue
            if not self._is_within(url):
                self._left_out["on another site"] += 1
                continue
            self._seen.add(str(url))
            yield from self._sitemap(url, depth) if listing.is_index else self._page(url, date, at)

    def _is_within(self, url: Url) -> bool:
        return self._sites is None or url.site in self._sites

    def _sitemap(self, url: Url, depth: int) -> Iterator[Found]:
        """The pages of one sitemap of an index. Without it nothing is known of the pages that it lists."""
        self._sitemaps += 1
        if self._sitemaps > MOST_SITEMAPS or depth >= DEEPEST_INDEX:
            raise FetchFailed(f"is an index of more than {MOST_SITEMAPS} sitemaps, or of indexes of indexes")
        try:
            if url.authority in self._overworked:
                raise FetchFailed("not asked for: its host asks for time")
            answer = self._visit.get(url, self._folder, {}, self._is_within)
            if answer is None or answer[2] != "sitemap":
                raise FetchFailed("is no sitemap")
            listing = self._parsed(answer[1])
        except (AidreError, OSError) as error:
            self._note_overworked(url, error)
            yield self._visit.failed(str(url), _reason(error), everything=True)
            return
        yield from self._read(listing, url, depth + 1)

    def _page(self, url: Url, date: str | None, at: Url | None) -> Iterator[Found]:
        origin = str(url)
        more = {"listing": str(at)} if at else {}
        if date and is_settled(date, self._now):
            more["lastmod"] = date
        else:
            self._is_settled = False
        state = self._visit.known.state(origin)
        if "lastmod" in more and state.get("lastmod") == date:
            yield from self._visit.unchanged(origin)
            return
        if len(self._seen) > self._visit.fetcher.rules.pages:
            raise FetchFailed(f"lists more than {self._visit.fetcher.rules.pages} pages: raise [sources] pages")
        if self._failures[url.authority] >= MOST_FAILURES or url.authority in self._overworked:
            self._unasked[url.authority] += 1
            return
        self._visit.check_budget()
        try:
            if self._robots.allow(url):
                yield from self._fetched(url, state, more)
            else:
                self._left_out["closed by robots.txt"] += 1
                yield from self._visit.unchanged(origin)
        except (AidreError, OSError) as error:
            yield self._visit.failed(origin, _reason(error))
            is_down = isinstance(error, FetchFailed) and error.details.get("down", False)
            self._failures[url.authority] = self._failures[url.authority] + 1 if is_down else 0
            self._note_overworked(url, error)
        else:
            self._failures[url.authority] = 0

    def _note_overworked(self, url: Url, error: Exception) -> None:
        if isinstance(error, FetchFailed) and "retry_after" in error.details:
            self._overworked.add(url.authority)

    def _fetched(self, url: Url, state: Mapping[str, str], more: Mapping[str, str]) -> Iterator[Found]:
        answer = self._visit.get(url, self._folder, state, self._is_within)
        if answer is None:
            yield from self._visit.unchanged(str(url))
            return
        fetched, path, kind = answer
        try:
            if kind in PAGES:
                yield from self._visit.documents(path, kind, str(url), fetched, more)
            elif str(url) in self._visit.known.pages:
                raise InvalidDocument("is no page any more")
            else:
                self._left_out[fetched.kind or "of no content type"] += 1
        finally:
            path.unlink(missing_ok=True)


def _reason(error: Exception) -> str:
    if isinstance(error, AidreError):
        return error.message
    return f"cannot be read: {getattr(error, 'strerror', None) or error}"
