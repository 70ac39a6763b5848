"""The connections of the server: what uvicorn does, with an end to headers, bodies and readers that do not come along.

One look at all connections, twice a second, finds the slow ones: a request pays for it with a few marks.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from http import HTTPStatus
from typing import Any, ClassVar
from weakref import WeakSet

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

logger = logging.getLogger("aidre")

LARGE_READ = 8_192
"""Received bytes of one request from which its header is measured."""
PROGRESS_BYTES = 16_384
FILES_KEPT = 256
"""File descriptors for all that is no connection."""
FILES_WANTED = 65_536

HEADER, BODY, ANSWER, IDLE = range(4)
"""What a connection waits for: a whole header, a whole body, the answer, the next request."""


class Connection(HttpToolsProtocol):
    """One connection. `header_seconds` is for the whole header, from the connection's begin or the header's first byte;
    `body_seconds` for the whole body after it; `writing_seconds` for the reader to take another part of the answer.
    """

    header_seconds: ClassVar[float] = 10.0
    body_seconds: ClassVar[float] = 30.0
    writing_seconds: ClassVar[float] = 30.0
    idle_seconds: ClassVar[float] = 80.0  # uvicorn's own time-out is shorter, but any byte turns it off
    header_bytes: ClassVar[int] = 65_536
    most: ClassVar[int] = 16_384
    """Connections of one worker; `room_for_connections` says how many files it may open."""
    sweep_seconds: ClassVar[float] = 0.5
    _swept: ClassVar[WeakSet[ServerState]] = WeakSet()

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._waits_for = HEADER
        self._since = self.loop.time()
        self._received = 0
        self._unread: tuple[float, int] | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > self.most:
            self._end(HTTPStatus.SERVICE_UNAVAILABLE, b"retry-after: 1\r\n")
        elif self.server_state not in self._swept:
            self._swept.add(self.server_state)
            self.loop.call_later(self.sweep_seconds, self._sweep, self.loop, self.server_state)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._received += len(data)
        super().data_received(data)
        if self._waits_for == HEADER and self._received > self.header_bytes and not self.transport.is_closing():
            self._end(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._waits_for = HEADER
        self._since = self.loop.time()

    def on_headers_complete(self) -> None:
        if self._received > LARGE_READ:
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > self.header_bytes:
                self._end(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
                raise ValueError("the header is too large")  # the parser stops here
        self._received = 0
        self._waits_for = BODY
        self._since = self.loop.time()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._received = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._received = 0
        self._waits_for = ANSWER
        if self.cycle.response_complete:
            self._rest()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._waits_for == ANSWER and self.cycle.response_complete:
            self._rest()

    def _rest(self) -> None:
        self._waits_for = IDLE
        self._since = self.loop.time()

    def send_400_response(self, msg: str) -> None:
        if not self.transport.is_closing():
            self._end(HTTPStatus.BAD_REQUEST)

    def _end(self, status: HTTPStatus, more: bytes = b"") -> None:
        """A last word, if no answer has begun, and the end."""
        if self.cycle is None or self.cycle.response_complete:
            line = f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode()
            self.transport.write(line + more + b"content-length: 0\r\nconnection: close\r\n\r\n")
        self.transport.close()

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
        elif self._waits_for == HEADER and now - self._since > self.header_seconds:
            if self._received:
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
