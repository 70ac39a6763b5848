"""One request and its response on a connection (`connection.py`), as the application receives and sends them."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.types import Message, Scope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from aidre.api.http import CONNECTION_ERROR, HttpError
from aidre.api.server.memory import PIECE_BYTES
from aidre.api.server.overload import REJECTED

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
DISCONNECT: Message = {"type": "http.disconnect"}
STATUSES_WITHOUT_CONTENT = frozenset({204, 304})
MAX_DECLARED = 16 << 20
"""Bytes of a declared length that must find room; longer bodies are an error of the application's."""


class ResponseCycle(RequestResponseCycle):
    """One request and its response, as the application receives and sends them.

    `connection` is the `ServerConnection` that it is on. The header is held back and written together with the first
    content, except before chunked or unbounded content.
    """

    def __init__(self, connection: Any, scope: Scope, *, keep_alive: bool) -> None:
        self.scope: Scope = scope  # type: ignore[assignment]
        self.transport = connection.transport
        self.flow = connection.flow
        self.logger = connection.logger
        self.message_event = asyncio.Event()
        self.on_response = connection.on_response_complete
        self.disconnected = False
        self.keep_alive = keep_alive
        self.waiting_for_100_continue = connection.expect_100_continue
        self.parts: list[bytes] = []
        self.buffered = 0
        """Bytes in `parts`: received, and not taken by the application."""
        self.size = 0
        """Bytes of the body that have come."""
        self.is_refused = False
        """Whether the connection answers it with an error, and keeps nothing more of its body."""
        self._refusal: HttpError | None = None
        self.more_body = True
        self.response_started = False
        self.response_complete = False
        self.chunked_encoding = self._until_close = False
        self.expected_content_length = 0
        self._default_headers = connection.server_state.default_headers
        self._on_rejected = connection.on_rejected
        self._held_header = b""

    @property
    def kept(self) -> int:
        """Bytes of the body that are kept, here or by the application."""
        return 0 if self.is_refused else self.size + PIECE_BYTES * len(self.parts)

    @property
    def declared(self) -> int:
        """The length of the body that the client has declared, or MAX_DECLARED if that is less."""
        length = next((value for name, value in self.scope["headers"] if name == b"content-length"), b"0")
        return min(int(length[:20]), MAX_DECLARED)

    def refuse(self, error: HttpError) -> None:
        """Has the application answer with an error: before it begins, or where it waits for the body."""
        self.parts, self.buffered, self.is_refused = [], 0, True
        self.scope["state"][CONNECTION_ERROR] = self._refusal = error
        self.message_event.set()

    def write_whole(self, response: bytes) -> None:
        """Writes a response, header and content, without asking the application."""
        self.response_started = self.response_complete = True
        self.transport.write(response)
        if not self.keep_alive or self.waiting_for_100_continue:
            self.transport.close()
        self.on_response()

    async def receive(self) -> Message:  # type: ignore[override]
        if self.waiting_for_100_continue and not self.is_refused and not self.transport.is_closing():
            self.transport.write(CONTINUE)
            self.waiting_for_100_continue = False
        if not (self.disconnected or self.response_complete):
            self.flow.resume_reading()
            if not self.message_event.is_set():
                await self.message_event.wait()
            self.message_event.clear()
        if self.disconnected or self.response_complete:
            return DISCONNECT
        if self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            raise refusal
        body = b"".join(self.parts)
        self.parts, self.buffered = [], 0
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    async def send(self, message: Any) -> None:
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        # uvicorn reports a lost connection only to the last of several pipelined requests.
        if self.transport.is_closing():
            self.disconnected = True
        if self.disconnected:
            return
        kind = message["type"]
        if not self.response_started:
            if kind != "http.response.start":
                raise RuntimeError(f"a response must start with its header, not with {kind}")
            self._start(message["status"], message.get("headers", ()))
        elif kind != "http.response.body" or self.response_complete:
            raise RuntimeError(f"{kind} after the header or the end of a response")
        else:
            self._write_body(message.get("body", b""), message.get("more_body", False))

    def _start(self, status: int, fields: Any) -> None:
        fields = (*self._default_headers, *fields)
        lines = [b"%b: %b\r\n" % field for field in fields]
        length, stays_open = None, True
        for name, value in fields:
            if name == b"content-length":
                length = int(value)
            elif name == b"connection":
                stays_open = b"close" not in value.lower()
        # A client still waiting for 100 Continue may or may not send its body: the next bytes would be ambiguous.
        self.keep_alive &= not self.waiting_for_100_continue
        if not (self.keep_alive and stays_open):
            if stays_open:
                lines.append(b"connection: close\r\n")
            self.keep_alive = False
        has_content = self.scope["method"] != "HEAD" and status not in STATUSES_WITHOUT_CONTENT
        if length is None and has_content:
            if self.scope["http_version"] == "1.0":
                self._until_close = True  # HTTP/1.0 has no chunks (RFC 9112, 6.1)
            else:
                self.chunked_encoding = True
                lines.append(b"transfer-encoding: chunked\r\n")
        header = b"%b%b\r\n" % (STATUS_LINE[status], b"".join(lines))
        breaks = len(lines) + 2
        if header.count(b"\n") != breaks or header.count(b"\r") != breaks or b"\0" in header:
            raise RuntimeError("a header field contains a line break")
        self.response_started = True
        self.waiting_for_100_continue = False
        self.expected_content_length = (length or 0) if has_content else 0
        if self.chunked_encoding or self._until_close:
            self.transport.write(header)
        else:
            self._held_header = header

    def _write_body(self, body: bytes, more: bool) -> None:
        if self.scope["method"] == "HEAD":
            body = b""
        if self.chunked_encoding:
            content = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            if not more:
                content += b"0\r\n\r\n"
        elif self._until_close:
            content = body
        else:
            self.expected_content_length -= len(body)
            if self.expected_content_length < 0 or (self.expected_content_length and not more):
                raise RuntimeError("the content of a response is not as long as its Content-Length")
            content, self._held_header = self._held_header + body, b""
        if content:
            self.transport.write(content)
        if not more:
            if REJECTED in self.scope["state"]:
                self._on_rejected(self.scope, content)
            self.response_complete = True
            self.message_event.set()
            if not self.keep_alive:
                self.transport.close()
            self.on_response()
