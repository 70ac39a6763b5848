"""HTTP/1.1 connections: uvicorn's httptools protocol with time-outs, limits, and rejection under overload.

A connection is in one of four states (`_state`, entered at `_since`), changed by callbacks of the parser and the
response:

    state     until                 next      limits
    HEADER    on_headers_complete   BODY      `header_seconds`; `header_bytes` since its first byte
    BODY      on_message_complete   RESPONSE  `body_seconds`; `pace_bytes` within `pace_seconds`; `header_bytes` since
                                              the last piece of it
    RESPONSE  on_response_complete  IDLE      `half_closed_seconds` after the client shut down its side; the application
                                              has its own deadline
    IDLE      on_message_begin      HEADER    `idle_seconds`

In every state a peer that reads less than PROGRESS_BYTES of what was written within `writing_seconds` is disconnected.

What a connection keeps is limited by the budgets of the process (`memory.py`). They count a request that is unfinished
when a piece of it has been read, or queued behind another one: without room it is answered 503, in the envelope of its
protocol, before the rest is kept. A response of which more is left unread than there is room for is cut off, and
nothing is started for a peer that does not read.

A response that ends before its request does not change the state: it stays BODY until the rest of the body has come,
then becomes IDLE. All connections are checked together, every `check_seconds`, so that a request pays for its time-outs
with a few assignments.

uvicorn's class still provides on_url, the task of a request, flow control, pipelining, loss of the connection and
shutdown. `ResponseCycle` (`response_cycle.py`) is what the application sees of one request.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import resource
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote
from weakref import WeakSet

import orjson
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser, parse_url
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from aidre.api.http import AIDRE_JSON, CONNECTION_ERROR, TARGET, BadRequest, HttpError, RequestTimeout, Unavailable
from aidre.api.server.frame import BROWSER_FIELDS
from aidre.api.server.memory import QUEUED_BYTES, REQUEST_BYTES, Charge, ClientMemory, MemoryBudget
from aidre.api.server.overload import RejectionCache, kind_of
from aidre.api.server.response_cycle import ResponseCycle

logger = logging.getLogger("aidre")

HEADER, BODY, RESPONSE, IDLE = range(4)
"""States of a connection, see the table above."""

ASGI_VERSIONS = {"version": "3.0", "spec_version": "2.3"}

MAX_BUFFERED_BODY_BYTES = 65_536
"""Body bytes that the application has not taken, beyond which reading pauses."""
MEASURED_BYTES = 8_192
"""Received bytes of a request from which the header is measured exactly; a smaller one is within any limit."""
PROGRESS_BYTES = 16_384
"""Bytes that a reader must take in time, or half of the buffered bytes if that is less."""
MAX_PIPELINED = 512
"""Requests of a connection that wait for the one before them; the connection ends after their answers if more come."""
PRESSED_SHARE = 5
"""Under pressure of memory, who makes no progress is given up in a fifth of the time."""
MAX_REFUSED, REFUSING_SHARE = 20, 10
"""Requests that the application answers after one check of all connections, and how much sooner the next check is then:
those that are slow together must not hold up the others."""
FULL_SECONDS = 5
"""Retry-After where memory lacks: soon after those who make no progress are given up."""
FILES_RESERVED = 256
"""File descriptors for everything except connections."""
MAX_FILES = 65_536

HOST = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|(?:[0-9A-Za-z._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)(?::[0-9]*)?[ \t]*")
"""A valid Host field (RFC 9110, 7.2; RFC 3986, 3.2.2)."""
HOST_REQUIRED = "a request must say for which host it is: send one Host field, with a valid value"
MEMORY_FULL = "too many requests that have not come whole are kept: come back as Retry-After says"
BODY_TOO_SLOW = "the body comes too slowly: send the request again, all of it at once"
BODY_UNFRAMED = "nobody can say where the body of this request ends: send Content-Length, or chunks (RFC 9112, 7.1)"
ERRORS: Mapping[HTTPStatus, tuple[str, str]] = {
    HTTPStatus.BAD_REQUEST: (
        "invalid_request",
        "this cannot be read as a request (RFC 9112): percent-encode the target, leave its fragment out, use a known "
        "method, and say how long the body is",
    ),
    HTTPStatus.REQUEST_TIMEOUT: ("invalid_request", "the header did not come in time: send the request again"),
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: ("payload_too_large", "the header is too large: send less"),
    HTTPStatus.HTTP_VERSION_NOT_SUPPORTED: ("invalid_request", "this version is not spoken here: send HTTP/1.1"),
    HTTPStatus.SERVICE_UNAVAILABLE: ("service_unavailable", "too many are connected: come back as Retry-After says"),
}
"""Error code and message, in the envelope of AIDRE, of requests that no protocol has seen."""


class ServerConnection(HttpToolsProtocol):
    """One connection. All times are in seconds; those without a comment are explained by the state table."""

    header_seconds: ClassVar[float] = 9.0
    """For a whole header, from its first byte, or from the start of the connection."""
    body_seconds: ClassVar[float] = 29.0
    pace_seconds: ClassVar[float] = 10.0
    """Seconds in which `pace_bytes` of an unfinished body must come."""
    pace_bytes: ClassVar[int] = 10_240
    writing_seconds: ClassVar[float] = 30.0
    idle_seconds: ClassVar[float] = 75.0
    half_closed_seconds: ClassVar[float] = 10.0
    """After the peer's end of file, for the response to start, and as long again for it to end."""
    header_bytes: ClassVar[int] = 65_536
    max_connections: ClassVar[int] = 16_384
    """Connections of one worker; see `connection_capacity`."""
    memory: ClassVar[ClientMemory] = ClientMemory()
    """For applications that have none of their own in their state."""
    check_seconds: ClassVar[float] = 0.5
    """Interval between two checks of all time-outs."""
    _checked_servers: ClassVar[WeakSet[ServerState]] = WeakSet()
    cycle: ResponseCycle
    pipeline: deque[tuple[ResponseCycle, Any]]  # type: ignore[assignment]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._state = HEADER
        self._since = self.loop.time()
        self._received = 0
        """Bytes since the header began, or since the last piece of the body."""
        self._unread: tuple[float, int] | None = None
        """Last progress of the reader (time, bytes in the write buffer then); None if the buffer is empty."""
        self._half_closed_until: float | None = None
        self._is_reading = True
        self._host_fields = 0
        self._host = self._valid_host = b""
        self._rejections: RejectionCache | None = self.app_state.get("rejections")
        self._running = None if self._rejections is None else self._rejections.running
        self._memory: ClientMemory = self.app_state.get("memory") or self.memory
        self._held = Charge(self._memory.requests)
        self._unsent = Charge(self._memory.answers)
        self._is_next_due = False
        """Whether the next request waits only until the peer has read what was written."""
        self._pace = (0.0, 0.0, 0)
        """Of the body that came last: when it began, and the time of its last progress with its bytes then."""

    # -- the transport -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > self.max_connections:
            self._stop_reading(HTTPStatus.SERVICE_UNAVAILABLE, b"retry-after: 1\r\n")
        elif self.server_state not in self._checked_servers:
            self._checked_servers.add(self.server_state)
            self.loop.call_later(self.check_seconds, self._check_timeouts, self.loop, self.server_state)

    def data_received(self, data: bytes) -> None:
        if not self._is_reading or self.transport.is_closing():
            return
        self._received += len(data)
        before = self.cycle
        while data:
            try:
                self.parser.feed_data(data)
                break
            except HttpParserUpgrade as upgrade:
                data = self._without_upgrade() + data[upgrade.args[0] :]
            except HttpParserError:
                self._stop_reading(HTTPStatus.BAD_REQUEST, is_new=self.cycle is not before)
                return
        # Chunk headers and trailers are limited as a header is.
        if self._state <= BODY and self._received > self.header_bytes:
            self._stop_reading(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, is_new=self.cycle is not before)
            return
        if self._state <= BODY or self._held.size or self.pipeline:
            self._count_memory()

    def connection_lost(self, exc: Exception | None) -> None:
        self._held.release()
        self._unsent.release()
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keeps the connection open for the response to a whole request. A half-closed peer may have gone, which shows
        only when the response is written; hence `half_closed_seconds`."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete or cycle.more_body:
            return False
        cycle.keep_alive = False
        self._half_closed_until = self.loop.time() + self.half_closed_seconds
        return True

    # -- the request -------------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._host_fields = 0
        self._state = HEADER
        self._since = self.loop.time()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._state == HEADER:  # in BODY it is a trailer, which must not pass for a field that a proxy has checked
            name, value = name.lower(), value.rstrip(b" \t")  # RFC 9110, 5.5: blanks are not part of a value
            if name == b"host":
                self._host_fields += 1
                self._host = value
            elif name == b"expect" and value.lower() == b"100-continue":
                self.expect_100_continue = True
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """A ValueError stops the parser, and `data_received` answers 400 unless another error was written."""
        if self._received > MEASURED_BYTES:
            self._check_header_size()
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise ValueError("this server is not a proxy")
            return  # the header is parsed again, see `_without_upgrade`
        version = self.parser.get_http_version()
        if len(self.pipeline) >= MAX_PIPELINED:
            raise ValueError("too many requests are sent ahead")
        if version not in {"1.1", "1.0"}:
            self._stop_reading(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
            raise ValueError("unsupported version")
        if b"#" in self.url:
            raise ValueError("a target has no fragment (RFC 9112, 3.2)")
        scope = self._scope(version)
        self._received = 0
        self._state = BODY
        self._since = self.loop.time()
        rejection = None
        running = self._running
        if not self._is_host_valid(version):
            scope["state"][CONNECTION_ERROR] = BadRequest(HOST_REQUIRED, {"Connection": "close"})
        elif running is not None and running.count >= running.most:
            rejection = self._cached_rejection()
        self._start_cycle(scope, rejection, keep_alive=version != "1.0" and self.parser.should_keep_alive())

    def _start_cycle(self, scope: Scope, rejection: bytes | None, *, keep_alive: bool) -> None:
        """Starts the response, or queues the request behind the one that is being answered, or is not read."""
        previous = self.cycle
        self.cycle = ResponseCycle(self, scope, keep_alive=keep_alive)
        if (previous is None or previous.response_complete) and not self.flow.write_paused:
            if rejection is not None:
                self.cycle.write_whole(rejection)
            else:
                self._start_asgi_task(self.cycle, self.app)
        else:
            self._is_next_due = previous is None or previous.response_complete
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))

    def _start_next(self) -> None:
        """Starts the request that waits for the response that has ended, or for its reader."""
        self._is_next_due = bool(self.pipeline)
        if self.pipeline and not self.flow.write_paused:
            self._is_next_due = False
            self._start_asgi_task(*self.pipeline.pop())

    def on_body(self, body: bytes) -> None:
        self._received = 0
        cycle = self.cycle
        cycle.size += len(body)
        if not cycle.response_complete and not cycle.is_refused:
            cycle.parts.append(body)
            cycle.buffered += len(body)
            if cycle.buffered > MAX_BUFFERED_BODY_BYTES:
                self.flow.pause_reading()
            cycle.message_event.set()

    def on_message_complete(self) -> None:
        if self._state == HEADER:  # no request was started, as for an Upgrade that is refused
            return
        cycle = self.cycle
        if not cycle.response_complete:
            cycle.more_body = False
            cycle.scope["state"]["whole"] = True
            cycle.message_event.set()
        self._received = 0
        self._state = RESPONSE
        if cycle.response_complete:
            self._set_idle()

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if not self.transport.is_closing():
            self.flow.resume_reading()
            self._start_next()
            if self._held.size:
                self._held.shrink(self._kept())
        if self._state == RESPONSE and self.cycle.response_complete:
            self._set_idle()

    def _set_idle(self) -> None:
        self._state = IDLE
        self._since = self.loop.time()
        if self._held.size:
            self._held.release()

    def _check_header_size(self) -> None:
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > self.header_bytes:
            self._stop_reading(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            raise ValueError("the header is too large")

    def _is_host_valid(self, version: str) -> bool:
        """Whether there is exactly one valid Host field, or none in HTTP/1.0 (RFC 9112, 3.2)."""
        if self._host_fields != 1:
            return not self._host_fields and version == "1.0"
        if self._host != self._valid_host:
            if HOST.fullmatch(self._host) is None:
                return False
            self._valid_host = self._host
        return True

    def _without_upgrade(self) -> bytes:
        """The header of a request that offers another protocol, without its Upgrade fields. The parser would take the
        body for that protocol, and then for the next request."""
        version = self.parser.get_http_version().encode()
        line = b"%b %b HTTP/%b\r\n" % (self.parser.get_method(), self.url, version)
        self.parser = HttpRequestParser(self)
        fields = b"".join(b"%b: %b\r\n" % (name, value) for name, value in self.headers if name != b"upgrade")
        return line + fields + b"\r\n"

    def _scope(self, version: str) -> Scope:
        """The ASGI scope; `state["whole"]` is added when the whole body has been received."""
        target = self.url
        if target[:1] != b"/" and target != b"*":  # the absolute form, as for a proxy
            if parse_url(target).path is None:
                raise ValueError("an absolute target needs a path")
            target = b"/" + target.split(b"/", 3)[3]
        raw_path, _, query = target.partition(b"?")
        path = raw_path.decode("ascii")
        state = self.app_state.copy()
        state[TARGET] = target
        return {
            "type": "http",
            "asgi": ASGI_VERSIONS,
            "http_version": version,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "root_path": "",
            "method": self.parser.get_method().decode("ascii"),
            "path": unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": query,
            "headers": self.headers,
            "state": state,
        }

    # -- memory ------------------------------------------------------------------------------------------------------

    def _count_memory(self) -> None:
        """Counts what is kept of requests, and refuses the last one if there is no room for it."""
        cycle = self.cycle
        scope: Any = {"client": self.client, "headers": ()} if cycle is None else cycle.scope
        held_bytes, address = self._kept(), self._memory.address_of(scope)
        coming = cycle.declared - cycle.size if self._state == BODY else 0
        if self._memory.requests.has_room(self._held.size, held_bytes + coming, address) and self._held.resize(
            held_bytes, address
        ):
            return
        if self._state == BODY and not cycle.response_complete:
            self._refuse(Unavailable(MEMORY_FULL, retry=FULL_SECONDS))
        elif self.pipeline:
            self.transport.abort()
        else:
            self._stop_reading(HTTPStatus.SERVICE_UNAVAILABLE, b"retry-after: %d\r\n" % FULL_SECONDS)

    def _kept(self) -> int:
        """The bytes of an unfinished header or request, and of requests that wait for the one before them."""
        held_bytes = self._received if self._state == HEADER else 0
        held_bytes += sum(cycle.kept + QUEUED_BYTES for cycle, _ in self.pipeline)
        if self._state == BODY and not self.cycle.response_complete:
            held_bytes += REQUEST_BYTES + (0 if self.pipeline else self.cycle.kept)
        return held_bytes

    def _refuse(self, error: HttpError) -> None:
        """Answers the last request with an error, and keeps nothing more of its body. What still comes is read, so that
        the client reads the answer."""
        cycle = self.cycle
        cycle.refuse(error)
        self._held.shrink(self._kept())

    def pause_writing(self) -> None:
        """The peer does not read what was written."""
        super().pause_writing()
        cycle = self.cycle
        size = self.transport.get_write_buffer_size()
        if cycle is not None and not self._unsent.resize(size, self._memory.address_of(cycle.scope)):
            self.transport.abort()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unsent.release()
        if self._is_next_due:
            self._start_next()

    # -- rejections at the concurrency limit -------------------------------------------------------------------------

    def _cached_rejection(self) -> bytes | None:
        assert self._rejections is not None
        return self._rejections.rejection(kind_of(self.parser.get_method(), self.url, self.headers), self._since)

    def on_rejected(self, scope: Any, content: bytes) -> None:
        """The application has rejected a request for its concurrency limit with these bytes."""
        if self._rejections is not None:
            kind = kind_of(scope["method"].encode(), scope["raw_path"], scope["headers"])
            self._rejections.store(kind, content, scope, self.loop.time())

    # -- errors and time-outs ----------------------------------------------------------------------------------------

    def _stop_reading(self, status: HTTPStatus, fields: bytes = b"", *, is_new: bool = False) -> None:
        """Stop reading and close the connection. A complete request is answered first; an incomplete one gets `status`,
        unless its response has started, or 400 if the application has not seen it yet (`is_new`, or pipelined)."""
        if not self._is_reading or self.transport.is_closing():
            return
        self._is_reading = False
        cycle, is_partial = self.cycle, self._state == BODY
        is_busy = cycle is not None and not cycle.response_complete
        if is_busy and is_partial and (is_new or self.pipeline):
            cycle.scope["state"][CONNECTION_ERROR] = BadRequest(BODY_UNFRAMED, {"Connection": "close"})
            cycle.more_body = is_partial = False
            cycle.message_event.set()
        if is_busy and not is_partial:
            cycle.keep_alive = False
            self._state = RESPONSE
            return
        if not (cycle.response_started if is_busy else is_partial):
            self._write_error(status, fields)
        self.transport.close()

    def _write_error(self, status: HTTPStatus, more_fields: bytes) -> None:
        (code, message), identifier = ERRORS[status], f"req_{random.getrandbits(72):018x}"
        body = orjson.dumps({"error": code, "message": message, "details": {}, "request_id": identifier})
        line = b"HTTP/1.1 %d %b\r\n" % (status.value, status.phrase.encode())
        fields = b"".join([b"%b: %b\r\n" % field for field in (*self.server_state.default_headers, *BROWSER_FIELDS)])
        fields += b"x-request-id: %b\r\ncache-control: no-store\r\n" % identifier.encode()
        fields += b"content-type: %b\r\ncontent-length: %d\r\n" % (AIDRE_JSON.encode(), len(body))
        if self.parser.get_method() == b"HEAD":
            body = b""
        self.transport.write(line + fields + more_fields + b"connection: close\r\n\r\n" + body)

    @classmethod
    def _check_timeouts(cls, loop: asyncio.AbstractEventLoop, state: ServerState) -> None:
        """Checks all connections of a server, and again later while there are any."""
        now, refused, pause = loop.time(), 0, cls.check_seconds
        for connection in list(state.connections):
            if isinstance(connection, ServerConnection):
                refused += connection._check_timeout(now)
                if refused >= MAX_REFUSED:
                    pause /= REFUSING_SHARE
                    break
        if state.connections:
            loop.call_later(pause, cls._check_timeouts, loop, state)
        else:
            cls._checked_servers.discard(state)

    def _check_timeout(self, now: float) -> bool:
        """Ends what takes too long; whether the application has to answer it."""
        if self._is_reader_stalled(now):
            self.transport.abort()
        elif self.transport.is_closing():
            return False
        elif self._half_closed_until is not None and now > self._half_closed_until:
            if not self.cycle.response_started or now > self._half_closed_until + self.half_closed_seconds:
                self.transport.abort()
        elif self._state == HEADER and now - self._since > self.header_seconds:
            if self._received or self.cycle is not None:
                self._stop_reading(HTTPStatus.REQUEST_TIMEOUT)
            else:
                self.transport.close()
        elif self._state == BODY and not self.flow.read_paused:
            return self._check_body(now)
        elif self._state == IDLE and now - self._since > self.idle_seconds:
            self.transport.close()
        return False

    def _check_body(self, now: float) -> bool:
        """Ends a body that takes too long or comes too slowly; whether the application has to answer."""
        cycle = self.cycle
        began, since, size = self._pace if self._pace[0] == self._since else (self._since, self._since, 0)
        if cycle.size - size >= self.pace_bytes:
            since, size = now, cycle.size
        is_slow = now - since > self._patience(self.pace_seconds, self._memory.requests)
        self._pace = began, now if is_slow else since, size
        if now - began > self.body_seconds or (is_slow and (cycle.response_started or cycle.is_refused)):
            self.transport.abort()
        elif is_slow:
            cycle.keep_alive = False
            self._refuse(RequestTimeout(BODY_TOO_SLOW))
            return True
        return False

    def _patience(self, seconds: float, budget: MemoryBudget) -> float:
        return seconds / PRESSED_SHARE if budget.is_pressed else seconds

    def _is_reader_stalled(self, now: float) -> bool:
        """Whether the peer has read too little of the write buffer for `writing_seconds`."""
        buffered = self.transport.get_write_buffer_size()
        if not buffered:
            self._unread = None
        elif self._unread is None or buffered <= max(self._unread[1] - PROGRESS_BYTES, self._unread[1] // 2):
            self._unread = now, buffered
        else:
            self._unread = self._unread[0], max(buffered, self._unread[1])
        patience = self._patience(self.writing_seconds, self._memory.answers)
        return self._unread is not None and now - self._unread[0] > patience


def raise_file_limit() -> int:
    """How many files this process may have open, after its limit was raised as far as it may be. A server does so
    before it opens its collections: each segment is some ten files, and shells give a process 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = MAX_FILES if hard == resource.RLIM_INFINITY else min(MAX_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < target:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
            soft = target
        except (OSError, ValueError) as error:
            logger.warning("this process can open only %s files at once: %s", soft, error)
    return MAX_FILES if soft == resource.RLIM_INFINITY else soft


def connection_capacity() -> int:
    """How many connections this process can hold beside the files that it has open."""
    free = raise_file_limit() - count_open_files() - FILES_RESERVED
    return max(FILES_RESERVED // 4, min(ServerConnection.max_connections, free))


def count_open_files() -> int:
    """The files, connections and pipes that this process has open."""
    with suppress(OSError):
        return sum(1 for _ in Path("/dev/fd").iterdir())
    return 0
