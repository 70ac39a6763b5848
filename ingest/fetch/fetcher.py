"""A guarded GET: public addresses only, few redirects, deadlines, and a limit on inflated bytes, written to a file.

Every failure is a FetchFailed with a one-line reason. Content is not interpreted but robots.txt (RFC 9309), which says
what crawlers may fetch, and is applied to pages that a sitemap lists.
"""

from __future__ import annotations

import re
import socket
import ssl
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, TypeAlias
from urllib.robotparser import RobotFileParser

from aidre.engine.errors import FetchFailed
from aidre.ingest.fetch.urls import PORTS, Resolve, Url, checked_addresses, look_up, read_url
from aidre.ingest.records import escape_unprintable, read_robots

if TYPE_CHECKING:
    from httpcore2 import Response

    from aidre.ingest.fetch.fetch_connection import FetchConnection, FetchDeadline

Connect: TypeAlias = Callable[[str, int, float], socket.socket]

MAX_WAITS = 2
MAX_WAIT_SECONDS = 60.0
MAX_TOTAL_WAIT_SECONDS = 300.0
"""Limits on honouring Retry-After: waits per address, seconds per wait, and seconds per source."""

RETRY_STATUSES = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})

_MIN_WAIT_SECONDS = 1.0
_SECONDS = re.compile(r"[0-9]{1,9}")


def retry_after(value: str | None, now: datetime) -> float | None:
    """The seconds of a Retry-After field (a number or a date, RFC 9110 10.2.3); None if missing or malformed."""
    text = (value or "").strip()
    if _SECONDS.fullmatch(text):
        return max(_MIN_WAIT_SECONDS, float(text))
    try:
        moment = parsedate_to_datetime(text)
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now
    except (ValueError, OverflowError):
        return None
    return max(_MIN_WAIT_SECONDS, seconds.total_seconds())


class RetryBudget:
    """The remaining time that one source may be waited for."""

    def __init__(self) -> None:
        self._seconds = MAX_TOTAL_WAIT_SECONDS

    def allows(self, seconds: float, waits: int) -> bool:
        """Whether to wait `seconds` after `waits` earlier ones for the same address; if so, they are spent."""
        if waits >= MAX_WAITS or seconds > min(MAX_WAIT_SECONDS, self._seconds):
            return False
        self._seconds -= seconds
        return True


REDIRECTS = frozenset({301, 302, 303, 307, 308})
MAX_REDIRECTS = 5
HEADER_BYTES = 1 << 20
"""Allowance beyond the body: headers, chunk sizes, encoding overhead."""

_BLOCK = 1 << 16
_ACCEPT = (
    "text/html, application/xhtml+xml, application/atom+xml, application/rss+xml, application/xml;q=0.9, "
    "text/xml;q=0.9, */*;q=0.5"
)
_WBITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_VALIDATOR = re.compile(r"[\x20-\x7e]{1,512}")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FetchRules:
    """The operator's limits. `page_bytes` bounds one body, `total_bytes` and `pages` one source; `timeout` covers one
    body with its redirects; `delay` is the pause between two requests. Times are in seconds."""

    allow_private_addresses: bool = False
    timeout: float = 60.0
    connect_timeout: float = 10.0
    read_timeout: float = 20.0
    delay: float = 0.0
    page_bytes: int = 16 << 20
    total_bytes: int = 4 << 30
    pages: int = 50_000
    robots: bool = True
    user_agent: str = "aidre"


PUBLIC_ONLY = FetchRules()


@dataclass(frozen=True, slots=True)
class FetchResult:
    """A fetched body: `url` after redirects, `kind` the media type in lower case, `charset` if the header has one.

    `state` holds the validators for the next conditional request: etag, last_modified, and the url they belong to.
    `robots` are the values of X-Robots-Tag.
    """

    url: Url
    kind: str
    charset: str | None
    state: Mapping[str, str] = field(default_factory=dict)
    bytes: int = 0
    robots: tuple[str, ...] = ()


def dial(address: str, port: int, seconds: float) -> socket.socket:
    """A TCP connection to a numeric address."""
    return socket.create_connection((address, port), timeout=seconds)


class Fetcher:
    """Sends requests under one set of rules, GET with a pause between them. Each name is resolved once and the socket
    connects to a checked address, which defeats DNS rebinding. Tests replace resolver, dialer and pause."""

    def __init__(
        self,
        rules: FetchRules,
        *,
        resolve: Resolve = look_up,
        connect: Connect = dial,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        self.rules, self._resolve, self._connect = rules, resolve, connect
        self._stopped = threading.Event()
        self._pause = pause or self._stopped.wait
        self._next = monotonic()
        self._open: FetchConnection | None = None
        self._retry_budget = RetryBudget()

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return ssl.create_default_context()

    def get(
        self,
        url: Url,
        into: Path,
        *,
        state: Mapping[str, str] | None = None,
        within: Callable[[Url], bool] | None = None,
    ) -> FetchResult | None:
        """Fetch the decompressed body of a URL into a file; None if `state` is still valid. Raises FetchFailed.

        `within` decides which URLs a redirect may lead to. Retry-After is honoured within the limits; beyond them the
        failure carries it as `details["retry_after"]`.
        """
        waits = 0
        while True:
            try:
                return self._follow(url, into, state or {}, within)
            except FetchFailed as error:
                seconds = error.details.get("retry_after")
                if seconds is None or not self._retry_budget.allows(seconds, waits):
                    raise
            waits += 1
            self._next = max(self._next, monotonic() + seconds)

    def _follow(
        self, url: Url, into: Path, state: Mapping[str, str], within: Callable[[Url], bool] | None
    ) -> FetchResult | None:
        from aidre.ingest.fetch.fetch_connection import FetchDeadline

        rules = self.rules
        wait = self._next - monotonic()
        if wait > 0:
            self._pause(wait)
        if self._stopped.is_set():
            raise FetchFailed("not fetched: the run ends")
        self._next = monotonic() + rules.delay
        deadline = FetchDeadline(rules.timeout, rules.read_timeout)
        seen = {str(url)}
        own_port = url.port
        while True:
            if not (url.port in PORTS.values() or url.port == own_port or rules.allow_private_addresses):
                raise FetchFailed(f"refused: it leads to port {url.port}, and redirects may only lead to 80 and 443")
            outcome = self._request(url, into, state, deadline)
            if not isinstance(outcome, str):
                return outcome
            url = url.join(outcome)
            if str(url) in seen:
                raise FetchFailed(f"its redirects form a loop at {str(url)[:200]}")
            if len(seen) > MAX_REDIRECTS:
                raise FetchFailed(f"more than {MAX_REDIRECTS} redirects, the last one to {str(url)[:200]}")
            if within is not None and not within(url):
                raise FetchFailed(f"redirects to {str(url)[:200]}, which is another site")
            seen.add(str(url))

    def stop(self) -> None:
        """Abort the current request and fetch nothing more; may be called from another thread."""
        self._stopped.set()
        connection = self._open
        if connection is not None:
            connection.abort()

    def post(self, url: Url, body: bytes, headers: Mapping[str, str]) -> int:
        """The status of the answer to a POST request, which is not read; no redirect is followed. Raises FetchFailed,
        with the error of the connection as its cause."""
        from aidre.ingest.fetch.fetch_connection import FetchDeadline

        deadline = FetchDeadline(self.rules.timeout, self.rules.read_timeout)
        with self._send("POST", url, {**headers, "Connection": "close"}, deadline, body) as response:
            return response.status

    def _request(
        self, url: Url, into: Path, state: Mapping[str, str], deadline: FetchDeadline
    ) -> FetchResult | str | None:
        """Send one GET request; returns the result, or the Location of a redirect.

        A page that has not changed but asks not to be indexed now is requested whole.
        """
        own_state = state if state.get("url") == str(url) else {}
        with self._send("GET", url, self._headers(own_state), deadline) as response:
            if response.status in REDIRECTS:
                location = _header(response, b"Location")
                if not location:
                    raise FetchFailed(f"answered {_status(response)} without a Location", status=response.status)
                return location
            if response.status != HTTPStatus.NOT_MODIFIED or not own_state:
                return self._save(url, response, into)
            if read_robots(_headers(response, b"X-Robots-Tag"), datetime.now(UTC)).reason is None:
                return None
        return self._request(url, into, {}, deadline)

    def _save(self, url: Url, response: Response, into: Path) -> FetchResult:
        if response.status not in (200, 203):
            raise _failure(response)
        encoding = _header(response, b"Content-Encoding").lower()
        with into.open("wb") as file:
            for block in decompress(response.iter_stream(), encoding, self.rules.page_bytes):
                file.write(block)
            return _result(url, response, file.tell())

    @contextmanager
    def _send(
        self, method: str, url: Url, headers: Mapping[str, str], deadline: FetchDeadline, content: bytes | None = None
    ) -> Iterator[Response]:
        from aidre.ingest.fetch.fetch_connection import FetchConnection

        rules = self.rules

        def connect(host: str, port: int) -> socket.socket:
            return self._connect_checked(host, port, deadline)

        context = self._context if url.scheme == "https" else None
        connection = self._open = FetchConnection(connect, deadline, rules.page_bytes + HEADER_BYTES, context)
        try:
            if self._stopped.is_set():
                raise FetchFailed("not fetched: the run ends")
            with connection.send(method, url, headers, content) as response:
                yield response
        finally:
            self._open = None

    def _connect_checked(self, host: str, port: int, deadline: FetchDeadline) -> socket.socket:
        """Connect to the first address that answers, if all are allowed."""
        rules = self.rules
        seconds = min(rules.connect_timeout, deadline.left())
        private = rules.allow_private_addresses
        for address in checked_addresses(host, port, private=private, seconds=seconds, resolve=self._resolve):
            try:
                return self._connect(address, port, min(rules.connect_timeout, deadline.left()))
            except OSError as error:
                fault = error
        raise fault

    def _headers(self, state: Mapping[str, str]) -> dict[str, str]:
        headers = {
            "User-Agent": self.rules.user_agent,
            "Accept": _ACCEPT,
            "Accept-Encoding": "gzip, deflate",
            "Connection": "close",
        }
        conditions = {"If-None-Match": "etag", "If-Modified-Since": "last_modified"}
        return headers | {name: state[member] for name, member in conditions.items() if member in state}


def decompress(blocks: Iterable[bytes], encoding: str, max_bytes: int) -> Iterator[bytes]:
    """The body without its Content-Encoding, at most `max_bytes` in small blocks.

    Raises FetchFailed if it is larger, truncated or damaged.
    """
    if encoding in ("", "identity"):
        yield from _limit(blocks, max_bytes)
    elif encoding in _WBITS:
        yield from _limit(_inflate(blocks, _WBITS[encoding]), max_bytes)
    else:
        raise FetchFailed(f"is encoded as {escape_unprintable(encoding[:40])}, which was not requested")


def _inflate(blocks: Iterable[bytes], wbits: int) -> Iterator[bytes]:
    inflater, started = zlib.decompressobj(wbits), False
    try:
        for block in blocks:
            rest = block
            while rest:
                if inflater.eof:  # gzip may have several members, the last one padded with zeros
                    rest = rest.lstrip(b"\0") if wbits == 31 else b""
                    inflater = zlib.decompressobj(wbits) if rest else inflater
                    continue
                if not started and wbits == 15 and not _is_zlib(rest):
                    inflater = zlib.decompressobj(-15)  # raw deflate, which some servers send as deflate
                started = True
                yield inflater.decompress(rest, _BLOCK)
                rest = inflater.unconsumed_tail or inflater.unused_data
        while started and not inflater.eof and (block := inflater.decompress(b"", _BLOCK)):
            yield block
    except zlib.error:
        raise FetchFailed("its compressed bytes are damaged") from None
    if started and not inflater.eof:
        raise FetchFailed("its compressed bytes end early")


def _is_zlib(start: bytes) -> bool:
    return start[0] & 0x0F == 8 and (len(start) < 2 or (start[0] << 8 | start[1]) % 31 == 0)


def _limit(blocks: Iterable[bytes], max_bytes: int) -> Iterator[bytes]:
    remaining = max_bytes
    for block in blocks:
        remaining -= len(block)
        if remaining < 0:
            raise FetchFailed("is larger than [sources] page_bytes allows")
        yield block


def _result(url: Url, response: Response, count: int) -> FetchResult:
    content_type = _header(response, b"Content-Type")
    charset = _CHARSET.search(content_type)
    state = {}
    for name, header in (("etag", b"ETag"), ("last_modified", b"Last-Modified")):
        value = _header(response, header)
        if _VALIDATOR.fullmatch(value):
            state[name] = value
    if state:
        state["url"] = str(url)
    kind = content_type.partition(";")[0].strip().lower()
    robots = _headers(response, b"X-Robots-Tag")
    return FetchResult(url, kind, charset[1].lower() if charset else None, state, count, robots)


def _failure(response: Response) -> FetchFailed:
    status, answered = response.status, f"answered {_status(response)}"
    is_down = status >= 500 or status == 429
    seconds = retry_after(_header(response, b"Retry-After"), datetime.now(UTC)) if status in RETRY_STATUSES else None
    if seconds is None:
        return FetchFailed(answered, status=status, down=is_down)
    reason = f"{answered} with Retry-After {seconds:.0f} s"
    return FetchFailed(reason, status=status, down=is_down, retry_after=seconds)


def _status(response: Response) -> str:
    try:
        return f"{response.status} {HTTPStatus(response.status).phrase}"
    except ValueError:
        return str(response.status)


def _header(response: Response, name: bytes) -> str:
    """The first header of a name, or ""."""
    return next(iter(_headers(response, name)), "")


def _headers(response: Response, name: bytes) -> tuple[str, ...]:
    """The headers of a name. Most servers send UTF-8; other bytes are read as Latin-1."""
    return tuple(_decode(value) for field_name, value in response.headers if field_name.lower() == name.lower())


def _decode(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeError:
        return value.decode("latin-1")


_MAX_BYTES = 500 << 10
"""Bytes that are parsed, as RFC 9309 requires at least."""


class Robots:
    """The rules of each host, fetched once into `folder`."""

    def __init__(self, fetcher: Fetcher, folder: Path) -> None:
        self._fetcher, self._file = fetcher, folder / "robots.txt"
        self._rules: dict[str, RobotFileParser] = {}

    def allow(self, url: Url) -> bool:
        """Whether a page may be fetched; raises FetchFailed if robots.txt fails with anything but a 4xx status."""
        if not self._fetcher.rules.robots:
            return True
        site = f"{url.scheme}://{url.authority}"
        if site not in self._rules:
            self._rules[site] = self._fetch_rules(read_url(f"{site}/robots.txt"))
        return self._rules[site].can_fetch(self._fetcher.rules.user_agent, str(url))

    def _fetch_rules(self, url: Url) -> RobotFileParser:
        rules = RobotFileParser()
        lines: list[str] = []
        try:
            self._fetcher.get(url, self._file)
            with self._file.open("rb") as file:
                lines = file.read(_MAX_BYTES).decode("utf-8", "replace").removeprefix("\ufeff").splitlines()
        except FetchFailed as error:
            if error.details.get("status", 500) // 100 != 4:
                reason = f"robots.txt, which says what may be fetched: {error.message}"
                raise FetchFailed(reason, **error.details) from None
        rules.parse(lines)
        return rules
