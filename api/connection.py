"""The connections of the server: what uvicorn does, with an end to headers, bodies and readers that do not come along.

One look at all connections, twice a second, finds the slow ones: a request pays for it with a few marks. What a
connection waits for (`_waits_for`), and since when (`_since`), is moved on by the parser's callbacks:

    HEADER  -> on_headers_complete -> BODY                `header_seconds`; `header_bytes` since the request began
    BODY    -> on_message_complete -> ANSWER              `body_seconds`; `header_bytes` since the last piece of it
    ANSWER  -> on_response_complete -> IDLE               `writing_seconds` for a reader that takes nothing (`_unread`)
    IDLE    -> on_message_begin -> HEADER                 `idle_seconds`

An answer that ends before its request does leaves BODY as it is; IDLE follows when the rest is here. Of uvicorn's
protocol there remain: on_url, how a request becomes a task, flow control, pipelining, losing a connection and shutdown.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import resource
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, ClassVar
from urllib.parse import unquote
from weakref import WeakSet

import orjson
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser, parse_url
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from aidre.api.door import Door, kind_of
from aidre.api.exchange import Exchange
from aidre.api.refusals import REFUSED, BadRequest
from aidre.api.wire import AIDRE_JSON, TARGET

logger = logging.getLogger("aidre")

SPEAKS = {"version": "3.0", "spec_version": "2.3"}
LARGE_BODY = 65_536
"""Bytes of a body that wait to be taken, beyond which no more are read."""
LARGE_READ = 8_192
"""Received bytes of one request from which its header is measured."""
PROGRESS_BYTES = 16_384
HOST = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|(?:[0-9A-Za-z._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)(?::[0-9]*)?[ \t]*")
"""What a Host field may say (RFC 9110, 7.2; RFC 3986, 3.2.2)."""
NAME_HOST = "a request must say for which host it is: send one Host field, with a valid value"
FRAME_BODY = "nobody can say where the body of this request ends: send Content-Length, or chunks (RFC 9112, 7.1)"
UNREAD: Mapping[HTTPStatus, tuple[str, str]] = {
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
"""What is said of requests that no protocol has seen: code and message, in the envelope of AIDRE."""
FILES_KEPT = 256
"""File descriptors for all that is no connection."""
FILES_WANTED = 65_536

HEADER, BODY, ANSWER, IDLE = range(4)
"""What a connection waits for: a whole header, a whole body, the answer, the next request."""


class Connection(HttpToolsProtocol):
    """One connection. `header_seconds` is for the whole header, from the connection's begin or the header's first byte;
    `body_seconds` for the whole body after it; `writing_seconds` for the reader to take another part of the answer;
    `leaving_seconds` for the answer to begin, and as long again for the next, once the other side has ended its own.
    """

    header_seconds: ClassVar[float] = 9.0
    body_seconds: ClassVar[float] = 29.0
    writing_seconds: ClassVar[float] = 30.0
    idle_seconds: ClassVar[float] = 75.0
    leaving_seconds: ClassVar[float] = 10.0
    header_bytes: ClassVar[int] = 65_536
    most: ClassVar[int] = 16_384
    """Connections of one worker; `room_for_connections` says how many files it may open."""
    sweep_seconds: ClassVar[float] = 0.5
    _swept: ClassVar[WeakSet[ServerState]] = WeakSet()
    cycle: Exchange

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._waits_for = HEADER
        self._since = self.loop.time()
        self._received = 0
        self._unread: tuple[float, int] | None = None
        self._leaves_at: float | None = None
        self._reads = True
        self._hosts = 0
        self._host = self._known_host = b""
        self._door: Door | None = self.app_state.get("door")
        self._running = None if self._door is None else self._door.running

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > self.most:
            self._end(HTTPStatus.SERVICE_UNAVAILABLE, b"retry-after: 1\r\n")
        elif self.server_state not in self._swept:
            self._swept.add(self.server_state)
            self.loop.call_later(self.sweep_seconds, self._sweep, self.loop, self.server_state)

    def data_received(self, data: bytes) -> None:
        if not self._reads or self.transport.is_closing():
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
                self._end(HTTPStatus.BAD_REQUEST, is_new=self.cycle is not before)
                return
        # What follows a body, or stands between its parts, is limited as a header is.
        if self._waits_for <= BODY and self._received > self.header_bytes:
            self._end(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, is_new=self.cycle is not before)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Whether to stay. Who has said all they had to say may wait for the answer, or have gone: that shows when it
        is written, so nobody is waited for longer than it may take."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete or cycle.more_body:
            return False
        cycle.keep_alive = False
        self._leaves_at = self.loop.time() + self.leaving_seconds
        return True

    def _without_upgrade(self) -> bytes:
        """The header of a request that offers another protocol, without the offer. The parser would take a body that
        follows it for that protocol, and then for the next request."""
        version = self.parser.get_http_version().encode()
        line = b"%b %b HTTP/%b\r\n" % (self.parser.get_method(), self.url, version)
        self.parser = HttpRequestParser(self)
        fields = b"".join(b"%b: %b\r\n" % (name, value) for name, value in self.headers if name != b"upgrade")
        return line + fields + b"\r\n"

    def on_message_begin(self) -> None:
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._hosts = 0
        self._waits_for = HEADER
        self._since = self.loop.time()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._waits_for == HEADER:  # else it is a trailer, which must not pass for what a proxy has looked at
            name = name.lower()
            if name == b"host":
                self._hosts += 1
                self._host = value
            elif name == b"expect" and value.lower() == b"100-continue":
                self.expect_100_continue = True
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._received > LARGE_READ:
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > self.header_bytes:
                self._end(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
                raise ValueError("the header is too large")  # the parser stops here
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise ValueError("this is no proxy")
            return  # it comes again, see _without_upgrade
        version = self.parser.get_http_version()
        if version not in {"1.1", "1.0"}:
            self._end(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
            raise ValueError("this version is not spoken here")
        if b"#" in self.url:
            raise ValueError("a fragment is no part of a target (RFC 9112, 3.2)")
        scope = self._scope(version)
        self._received = 0
        self._waits_for = BODY
        self._since = self.loop.time()
        before = self.cycle
        running = self._running
        said = None
        if not self._names_host(version):
            scope["state"][REFUSED] = BadRequest(NAME_HOST, {"Connection": "close"})
        elif running is not None and running.count >= running.most:
            said = self._refusal()
        self.cycle = Exchange(self, scope, keep_alive=version != "1.0" and self.parser.should_keep_alive())
        if before is None or before.response_complete:
            if said is None:
                self._start_asgi_task(self.cycle, self.app)
            else:
                self.cycle.say(said)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))

    def _names_host(self, version: str) -> bool:
        """Whether a request says to which host it goes, as it must (RFC 9112, 3.2)."""
        if self._hosts != 1:
            return not self._hosts and version == "1.0"
        if self._host != self._known_host:
            if HOST.fullmatch(self._host) is None:
                return False
            self._known_host = self._host
        return True

    def _refusal(self) -> bytes | None:
        """What was said lately to a request like this, when there was no place either."""
        assert self._door is not None
        return self._door.answer(kind_of(self.parser.get_method(), self.url, self.headers), self._since)

    def on_turned_away(self, scope: Any, content: bytes) -> None:
        if self._door is not None:
            kind = kind_of(scope["method"].encode(), scope["raw_path"], scope["headers"])
            self._door.remember(kind, content, scope, self.loop.time())

    def _scope(self, version: str) -> Scope:
        """What the application is told of a request; `state["whole"]` follows when all of its body is here."""
        target = self.url
        if target[:1] != b"/" and target != b"*":  # an address, as for a proxy
            if parse_url(target).path is None:
                raise ValueError("an address without a path is no target here")
            target = b"/" + target.split(b"/", 3)[3]
        raw_path, _, query = target.partition(b"?")
        path = raw_path.decode("ascii")
        state = self.app_state.copy()
        state[TARGET] = target
        return {
            "type": "http",
            "asgi": SPEAKS,
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

    def on_body(self, body: bytes) -> None:
        self._received = 0
        cycle = self.cycle
        if not cycle.response_complete:
            cycle.parts.append(body)
            cycle.waiting += len(body)
            if cycle.waiting > LARGE_BODY:
                self.flow.pause_reading()
            cycle.message_event.set()

    def on_message_complete(self) -> None:
        if self._waits_for == HEADER:
            return
        cycle = self.cycle
        if not cycle.response_complete:
            cycle.more_body = False
            cycle.scope["state"]["whole"] = True
            cycle.message_event.set()
        self._received = 0
        self._waits_for = ANSWER
        if cycle.response_complete:
            self._rest()

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if not self.transport.is_closing():
            self.flow.resume_reading()
            if self.pipeline:
                self._start_asgi_task(*self.pipeline.pop())
        if self._waits_for == ANSWER and self.cycle.response_complete:
            self._rest()

    def _rest(self) -> None:
        self._waits_for = IDLE
        self._since = self.loop.time()

    def _end(self, status: HTTPStatus, more: bytes = b"", *, is_new: bool = False) -> None:
        """No more is read. What was asked as a whole is answered first; any other request is told this instead of an
        answer, if none has begun. `is_new` is one that the application cannot have seen yet.
        """
        if not self._reads or self.transport.is_closing():
            return
        self._reads = False
        cycle, is_part = self.cycle, self._waits_for == BODY
        is_busy = cycle is not None and not cycle.response_complete
        if is_busy and is_part and (is_new or self.pipeline):
            cycle.scope["state"][REFUSED] = BadRequest(FRAME_BODY, {"Connection": "close"})
            cycle.more_body = is_part = False
            cycle.message_event.set()
        if is_busy and not is_part:
            cycle.keep_alive = False
            self._waits_for = ANSWER
            return
        if not (cycle.response_started if is_busy else is_part):
            self._say(status, more)
        self.transport.close()

    def _say(self, status: HTTPStatus, more: bytes) -> None:
        (code, message), identifier = UNREAD[status], f"req_{random.getrandbits(72):018x}"
        body = orjson.dumps({"error": code, "message": message, "details": {}, "request_id": identifier})
        line = b"HTTP/1.1 %d %b\r\n" % (status.value, status.phrase.encode())
        fields = b"".join([b"%b: %b\r\n" % field for field in self.server_state.default_headers])
        fields += b"x-request-id: %b\r\ncache-control: no-store\r\n" % identifier.encode()
        fields += b"content-type: %b\r\ncontent-length: %d\r\n" % (AIDRE_JSON.encode(), len(body))
        if self.parser.get_method() == b"HEAD":
            body = b""
        self.transport.write(line + fields + more + b"connection: close\r\n\r\n" + body)

    @classmethod
    def _sweep(cls, loop: asyncio.AbstractEventLoop, state: ServerState) -> None:
        """Looks at all connections of a server, until there is none."""
        now = loop.time()
        for connection in list(state.connections):
            if isinstance(connection, Connection):
                connection._check(now)
        if state.connections:
            loop.call_later(cls.sweep_seconds, cls._sweep, loop, state)
        else:
            cls._swept.discard(state)

    def _check(self, now: float) -> None:
        """Ends what has waited too long."""
        if self._stalls(now):
            self.transport.abort()
        elif self.transport.is_closing():
            return
        elif self._leaves_at is not None and now > self._leaves_at:
            if not self.cycle.response_started or now > self._leaves_at + self.leaving_seconds:
                self.transport.abort()
        elif self._waits_for == HEADER and now - self._since > self.header_seconds:
            if self._received or self.cycle is not None:
                self._end(HTTPStatus.REQUEST_TIMEOUT)
            else:
                self.transport.close()
        elif self._waits_for == BODY and now - self._since > self.body_seconds and not self.flow.read_paused:
            self.transport.abort()
        elif self._waits_for == IDLE and now - self._since > self.idle_seconds:
            self.transport.close()

    def _stalls(self, now: float) -> bool:
        """Whether the other side has stopped to take what was written for it."""
        left = self.transport.get_write_buffer_size()
        if not left:
            self._unread = None
        elif self._unread is None or left <= max(self._unread[1] - PROGRESS_BYTES, self._unread[1] // 2):
            self._unread = now, left
        else:
            self._unread = self._unread[0], max(left, self._unread[1])
        return self._unread is not None and now - self._unread[0] > self.writing_seconds


def room_for_connections() -> int:
    """How many connections this process can hold, once it has asked for as many files as it may open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(FILES_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        except (OSError, ValueError) as error:
            logger.warning("no more than %s files can be open at once: %s", soft, error)
    most = FILES_WANTED if soft == resource.RLIM_INFINITY else soft
    return max(FILES_KEPT // 4, min(Connection.most, most - FILES_KEPT))
