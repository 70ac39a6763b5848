"""One request and its answer: what uvicorn does, with header and body of an answer going out together.

What an answer's header may hold is checked as a whole, and a body that came with its header costs no waiting.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from starlette.types import Message, Scope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from aidre.api.door import TURNED_AWAY

if TYPE_CHECKING:
    from aidre.api.connection import Connection

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
DISCONNECT: Message = {"type": "http.disconnect"}
WITHOUT_CONTENT = frozenset({204, 304})


class Exchange(RequestResponseCycle):
    """What the protocol of a connection gives the application for one request.

    An answer whose length is known is held back until its content is there; any other begins at once.
    """

    def __init__(self, connection: Connection, scope: Scope, *, keep_alive: bool) -> None:
        self.scope = scope  # type: ignore[assignment]
        self.transport = connection.transport
        self.flow = connection.flow
        self.logger = connection.logger
        self.message_event = asyncio.Event()
        self.on_response = connection.on_response_complete
        self.disconnected = False
        self.keep_alive = keep_alive
        self.waiting_for_100_continue = connection.expect_100_continue
        self.parts: list[bytes] = []
        self.waiting = 0
        """Bytes of the body that were received and not taken."""
        self.more_body = True
        self.response_started = False
        self.response_complete = False
        self.chunked_encoding = self._until_closed = False
        self.expected_content_length = 0
        self._default_headers = connection.server_state.default_headers
        self._turned_away = connection.on_turned_away
        self._held = b""

    def say(self, content: bytes) -> None:
        """The whole of an answer that is known already, header and all."""
        self.response_started = self.response_complete = True
        self.transport.write(content)
        if not self.keep_alive or self.waiting_for_100_continue:
            self.transport.close()
        self.on_response()

    async def receive(self) -> Message:  # type: ignore[override]
        if self.waiting_for_100_continue and not self.transport.is_closing():
            self.transport.write(CONTINUE)
            self.waiting_for_100_continue = False
        if not (self.disconnected or self.response_complete):
            self.flow.resume_reading()
            if not self.message_event.is_set():
                await self.message_event.wait()
            self.message_event.clear()
        if self.disconnected or self.response_complete:
            return DISCONNECT
        body = b"".join(self.parts)
        self.parts, self.waiting = [], 0
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    async def send(self, message: Any) -> None:
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.transport.is_closing():  # of several requests at once only the last is told that the caller has gone
            self.disconnected = True
        if self.disconnected:
            return
        kind = message["type"]
        if not self.response_started:
            if kind != "http.response.start":
                raise RuntimeError(f"an answer begins with its header, not with {kind}")
            self._begin(message["status"], message.get("headers", ()))
        elif kind != "http.response.body" or self.response_complete:
            raise RuntimeError(f"{kind} after the header or the end of an answer")
        else:
            self._go_on(message.get("body", b""), message.get("more_body", False))

    def _begin(self, status: int, fields: Any) -> None:
        parts = [STATUS_LINE[status]]
        lines, length, stays = 2, None, True
        for name, value in (*self._default_headers, *fields):
            parts += (name, b": ", value, b"\r\n")
            lines += 1
            if name == b"content-length":
                length = int(value)
            elif name == b"connection":
                stays = b"close" not in value.lower()
        # A client that waits to be told may leave its body out: then nobody knows what comes next.
        self.keep_alive &= not self.waiting_for_100_continue
        if not (self.keep_alive and stays):
            if stays:
                parts.append(b"connection: close\r\n")
                lines += 1
            self.keep_alive = False
        without = self.scope["method"] == "HEAD" or status in WITHOUT_CONTENT
        if length is None and not without:
            if self.scope["http_version"] == "1.0":
                self._until_closed = True  # parts are not known there (RFC 9112, 6.1)
            else:
                self.chunked_encoding = True
                parts.append(b"transfer-encoding: chunked\r\n")
                lines += 1
        parts.append(b"\r\n")
        head = b"".join(parts)
        if head.count(b"\n") != lines or head.count(b"\r") != lines or b"\0" in head:
            raise RuntimeError("a field of the header has a line break in it")
        self.response_started = True
        self.waiting_for_100_continue = False
        self.expected_content_length = length or 0
        if without:
            self.expected_content_length = 0
        if self.chunked_encoding or self._until_closed:
            self.transport.write(head)
        else:
            self._held = head

    def _go_on(self, body: bytes, more: bool) -> None:
        if self.scope["method"] == "HEAD":
            body = b""
        if self.chunked_encoding:
            content = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            if not more:
                content += b"0\r\n\r\n"
        elif self._until_closed:
            content = body
        else:
            self.expected_content_length -= len(body)
            if self.expected_content_length < 0 or (self.expected_content_length and not more):
                raise RuntimeError("the content of an answer is not as long as its header says")
            content, self._held = self._held + body, b""
        if content:
            self.transport.write(content)
        if not more:
            if TURNED_AWAY in self.scope["state"]:
                self._turned_away(self.scope, content)
            self.response_complete = True
            self.message_event.set()
            if not self.keep_alive:
                self.transport.close()
            self.on_response()
