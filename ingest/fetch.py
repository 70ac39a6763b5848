"""One guarded GET: public addresses alone, few redirects, deadlines, and inflated bytes counted into a file.

Everything that goes wrong is a FetchFailed with one line of reason. Nothing here knows what a page says.
"""

from __future__ import annotations

import http.client
import re
import ssl
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO

from aidre.engine.errors import FetchFailed
from aidre.ingest.connection import (
    Connect,
    Deadline,
    Resolve,
    Stream,
    checked_addresses,
    dial,
    is_usual_port,
    look_up,
    open_stream,
)
from aidre.ingest.members import printable
from aidre.ingest.patience import ASKS_FOR_TIME, Patience, retry_after
from aidre.ingest.urls import Url

REDIRECTS = frozenset({301, 302, 303, 307, 308})
MOST_REDIRECTS = 5
HEADER_BYTES = 1 << 20
"""Beyond the body: headers, chunk sizes, what the encoding adds."""

_PIECE = 1 << 16
_ACCEPT = (
    "text/html, application/xhtml+xml, application/atom+xml, application/rss+xml, application/xml;q=0.9, "
    "text/xml;q=0.9, */*;q=0.5"
)
_WBITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_VALIDATOR = re.compile(r"[\x20-\x7e]{1,512}")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FetchRules:
    """What the operator allows. `page_bytes` bounds one body, `total_bytes` and `pages` one source; `timeout` is for
    one body with all its redirects, `delay` the pause between two requests."""

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
class Fetched:
    """What came: `url` after all redirects, `kind` the media type in lower case, `charset` where the header has it.

    `state` is what the next request is made conditional with: etag, last_modified, and the url they belong to.
    """

    url: Url
    kind: str
    charset: str | None
    state: Mapping[str, str] = field(default_factory=dict)
    bytes: int = 0


class Fetcher:
    """GETs under one set of rules, with a pause between them. What it does it with is the system's, except in tests."""

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
        self._open: Stream | None = None
        self._patience = Patience()

    @cached_property
    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        context.set_alpn_protocols(["http/1.1"])
        return context

    def get(
        self,
        url: Url,
        into: Path,
        *,
        state: Mapping[str, str] | None = None,
        within: Callable[[Url], bool] | None = None,
    ) -> Fetched | None:
        """The body of a URL, inflated, as a file; None where `state` still holds. Raises FetchFailed.

        `within` says which URLs a redirect may lead to. A server that asks for time is waited for (patience.py); the
        failure of one that asks for more has it as `details["retry_after"]`.
        """
        waits = 0
        while True:
            try:
                return self._got(url, into, state or {}, within)
            except FetchFailed as error:
                seconds = error.details.get("retry_after")
                if seconds is None or not self._patience.allows(seconds, waits):
                    raise
            waits += 1
            self._next = max(self._next, monotonic() + seconds)

    def _got(
        self, url: Url, into: Path, state: Mapping[str, str], within: Callable[[Url], bool] | None
    ) -> Fetched | None:
        rules = self.rules
        wait = self._next - monotonic()
        if wait > 0:
            self._pause(wait)
        if self._stopped.is_set():
            raise FetchFailed("not fetched: the run ends")
        self._next = monotonic() + rules.delay
        deadline = Deadline(rules.timeout, rules.read_timeout)
        seen = {str(url)}
        own_port = url.port
        while True:
            if not (is_usual_port(url.port) or url.port == own_port or rules.allow_private_addresses):
                raise FetchFailed(f"refused: it leads to port {url.port}, and only 80 and 443 may be led to")
            following = self._once(url, into, state, deadline)
            if not isinstance(following, str):
                return following
            url = url.join(following)
            if str(url) in seen:
                raise FetchFailed(f"its redirects go round in a circle, at {str(url)[:200]}")
            if len(seen) > MOST_REDIRECTS:
                raise FetchFailed(f"more than {MOST_REDIRECTS} redirects, the last one to {str(url)[:200]}")
            if within is not None and not within(url):
                raise FetchFailed(f"leads away to {str(url)[:200]}, which is another site")
            seen.add(str(url))

    def stop(self) -> None:
        """From another thread: break off what is under way, and fetch nothing more."""
        self._stopped.set()
        stream = self._open
        if stream is not None:
            stream.break_off()

    def _once(self, url: Url, into: Path, state: Mapping[str, str], deadline: Deadline) -> Fetched | str | None:
        """One request: what came, or where it is to be found."""
        try:
            stream = self._open = self._stream(url, deadline)
            try:
                if self._stopped.is_set():
                    raise FetchFailed("not fetched: the run ends")
                return self._exchange(url, stream, into, state)
            finally:
                self._open = None
                stream.end()
        except FetchFailed:
            raise
        except TimeoutError:
            raise FetchFailed("no answer in time", down=True) from None
        except ssl.SSLCertVerificationError as error:
            raise FetchFailed(f"its certificate is not accepted: {error.verify_message}") from None
        except ssl.SSLError as error:
            raise FetchFailed(f"TLS failed: {error.reason or 'the connection broke off'}", down=True) from None
        except http.client.IncompleteRead:
            raise FetchFailed("the answer breaks off before its end") from None
        except (http.client.HTTPException, ValueError) as error:
            raise FetchFailed(f"the answer is not HTTP: {_one_line(error)}") from None
        except OSError as error:
            raise FetchFailed(f"the connection failed: {error.strerror or _one_line(error)}", down=True) from None

    def _stream(self, url: Url, deadline: Deadline) -> Stream:
        rules = self.rules
        wait = min(rules.connect_timeout, deadline.left())
        addresses = checked_addresses(url, private=rules.allow_private_addresses, seconds=wait, resolve=self._resolve)
        return open_stream(
            url,
            addresses,
            deadline=deadline,
            most=rules.page_bytes + HEADER_BYTES,
            connect=lambda address, port, left: self._connect(address, port, min(left, rules.connect_timeout)),
            context=self._context,
        )

    def _exchange(self, url: Url, stream: Stream, into: Path, state: Mapping[str, str]) -> Fetched | str | None:
        connection = http.client.HTTPConnection(url.host, url.port)
        connection.sock = stream
        own_state = state if state.get("url") == str(url) else {}
        connection.putrequest("GET", url.target, skip_host=True, skip_accept_encoding=True)
        for name, value in self._headers(url, own_state):
            connection.putheader(name, value)
        connection.endheaders()
        with closing(connection.getresponse()) as response:
            if response.status in REDIRECTS:
                location = response.headers.get("Location")
                if not location:
                    raise FetchFailed(f"answered {_status(response)} without saying where to", status=response.status)
                return _utf8(location)
            if response.status == HTTPStatus.NOT_MODIFIED and own_state:
                return None
            if response.status not in (200, 203):
                raise _refused(response)
            with into.open("wb") as file:
                count = _save(response, file, self.rules.page_bytes)
            return _fetched(url, response, count)

    def _headers(self, url: Url, state: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        yield "Host", url.authority
        yield "User-Agent", self.rules.user_agent
        yield "Accept", _ACCEPT
        yield "Accept-Encoding", "gzip, deflate"
        yield "Connection", "close"
        if "etag" in state:
            yield "If-None-Match", state["etag"]
        if "last_modified" in state:
            yield "If-Modified-Since", state["last_modified"]


def inflated(pieces: Iterator[bytes], encoding: str, most: int) -> Iterator[bytes]:
    """The pieces of a body without its Content-Encoding, at most so many bytes in all and few of them at once.

    Raises FetchFailed for what is larger, broken off or damaged.
    """
    if encoding in ("", "identity"):
        yield from _counted(pieces, most)
    elif encoding in _WBITS:
        yield from _counted(_inflated(pieces, _WBITS[encoding]), most)
    else:
        raise FetchFailed(f"is encoded as {printable(encoding[:40])}, which was not asked for")


def _inflated(pieces: Iterator[bytes], wbits: int) -> Iterator[bytes]:
    inflater, started = zlib.decompressobj(wbits), False
    try:
        for piece in pieces:
            rest = piece
            while rest:
                if inflater.eof:  # gzip may have several members; zeros pad the last one
                    rest = rest.lstrip(b"\0") if wbits == 31 else b""
                    inflater = zlib.decompressobj(wbits) if rest else inflater
                    continue
                if not started and wbits == 15 and not _is_zlib(rest):
                    inflater = zlib.decompressobj(-15)  # what some servers call deflate
                started = True
                yield inflater.decompress(rest, _PIECE)
                rest = inflater.unconsumed_tail or inflater.unused_data
        while started and not inflater.eof and (piece := inflater.decompress(b"", _PIECE)):
            yield piece
    except zlib.error:
        raise FetchFailed("its compressed bytes are damaged") from None
    if started and not inflater.eof:
        raise FetchFailed("its compressed bytes break off before their end")


def _is_zlib(start: bytes) -> bool:
    return start[0] & 0x0F == 8 and (len(start) < 2 or (start[0] << 8 | start[1]) % 31 == 0)


def _counted(pieces: Iterator[bytes], most: int) -> Iterator[bytes]:
    for piece in pieces:
        most -= len(piece)
        if most < 0:
            raise FetchFailed("is larger than [sources] page_bytes allows")
        yield piece


def _save(response: http.client.HTTPResponse, file: BinaryIO, most: int) -> int:
    encoding = (response.headers.get("Content-Encoding") or "").strip().lower()
    for piece in inflated(_pieces(response), encoding, most):
        file.write(piece)
    return file.tell()


def _pieces(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """The body as it came. A length that was announced must be there."""
    buffer = bytearray(_PIECE)
    while count := response.readinto(buffer):
        yield bytes(memoryview(buffer)[:count])
    if response.length:
        raise FetchFailed("the answer breaks off before its end")


def _fetched(url: Url, response: http.client.HTTPResponse, count: int) -> Fetched:
    content_type = response.headers.get("Content-Type") or ""
    charset = _CHARSET.search(content_type)
    state = {}
    for name, header in (("etag", "ETag"), ("last_modified", "Last-Modified")):
        value = (response.headers.get(header) or "").strip()
        if _VALIDATOR.fullmatch(value):
            state[name] = value
    if state:
        state["url"] = str(url)
    kind = content_type.partition(";")[0].strip().lower()
    return Fetched(url, kind, charset[1].lower() if charset else None, state, count)


def _refused(response: http.client.HTTPResponse) -> FetchFailed:
    status, answered = response.status, f"answered {_status(response)}"
    is_down = status >= 500 or status == 429
    seconds = retry_after(response.headers.get("Retry-After"), datetime.now(UTC)) if status in ASKS_FOR_TIME else None
    if seconds is None:
        return FetchFailed(answered, status=status, down=is_down)
    reason = f"{answered} and asks to come back in {seconds:.0f} s"
    return FetchFailed(reason, status=status, down=is_down, retry_after=seconds)


def _status(response: http.client.HTTPResponse) -> str:
    try:
        return f"{response.status} {HTTPStatus(response.status).phrase}"
    except ValueError:
        return str(response.status)


def _utf8(header: str) -> str:
    """A header's value, which http.client reads as Latin-1, as the UTF-8 that servers write."""
    try:
        return header.encode("latin-1").decode()
    except UnicodeError:
        return header


def _one_line(error: Any) -> str:
    return printable((str(error) or type(error).__name__)[:200])
