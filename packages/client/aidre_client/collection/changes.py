"""The change feed of a collection (capability `delta_sync` of this project's servers), page by page.

A page is handed over whole, and its token with it: who stores the token after having applied the page goes on from
there, and has every change once. Applied in order, a change that comes again changes nothing: an add or a change says
what there is now under an id.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from urllib.parse import quote

from aidre_client.errors import InvalidInput, Unsupported
from aidre_client.exchange import Steps, decode, invalid_answer
from aidre_client.messages import Change, ChangePage
from aidre_client.session import ClientSession, expand
from aidre_client.values import check_range

MAX_CHANGES = 10_000
"""Changes of a page."""


@dataclass(slots=True)
class Feed:
    """The position of a client in the feed. `token` is where to go on from; None: at the beginning."""

    session: ClientSession
    name: str | None
    token: str | None
    limit: int | None
    _pending: deque[Change] = field(default_factory=deque, init=False)
    _page_token: str | None = field(default=None, init=False)
    _ended: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if self.name is None:
            raise InvalidInput("a change feed is that of a named collection: client.collection(name)")
        if self.token is not None and (not isinstance(self.token, str) or not self.token):
            raise InvalidInput("since is the token of an earlier reading, or None")
        if self.limit is not None:
            check_range("limit", self.limit, 1, MAX_CHANGES)

    def next_page(self) -> Steps[ChangePage | None]:
        """The next page; None when there is nothing new. HistoryMissing where the server no longer knows the token:
        begin again without it, and forget what is not listed then."""
        if self._ended:
            return None
        found = yield from self.session.discovery()
        if not found.can("delta_sync") or found.endpoints.changes is None:
            raise Unsupported(f"{self.session.url} has no change feed", capability="changes")
        url = expand(self.session.allowed(found.endpoints.changes), name=self.name or "")
        query = [("since", self.token)] if self.token is not None else []
        query += [("limit", str(self.limit))] if self.limit is not None else []
        if query:
            joined = "&".join(f"{name}={quote(value, safe='-._~')}" for name, value in query)
            url += ("&" if "?" in url else "?") + joined
        response = yield from self.session.respond("GET", url)
        page = decode(response, ChangePage)
        if page.more and page.token == self.token:
            raise invalid_answer(response, "the feed does not go on")
        self._ended = not page.more
        self.token = page.token
        return page if page.changes or page.more else None

    def next_change(self) -> Steps[Change | None]:
        """The next change; None after the last. `token` follows when the last change of a page has been handed over."""
        while not self._pending:
            before = self.token
            page = yield from self.next_page()
            if page is None:
                return None
            self._pending.extend(page.changes)
            if page.changes:
                self._page_token, self.token = self.token, before
        change = self._pending.popleft()
        if not self._pending:
            self.token = self._page_token
        return change
