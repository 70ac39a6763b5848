"""A small application behind real connections, whose time-outs pass when a test moves their clock.

The loop is that of production; only the time that it tells is the test's. The connections are checked all the time.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import uvloop

from aidre.api.http import HttpError
from aidre.api.server.memory import ClientMemory
from tests.support.clocks import Clock, until
from tests.support.servers import CountingConnection, Server

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE = b"x" * 8_000_000
"""More than the buffers of both ends hold."""


def get(path: bytes) -> bytes:
    return b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n"


def body_head(path: bytes) -> bytes:
    return b"POST " + path + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"


class Application:
    """/early answers before the body is read, /large much, /held when it is released, /begun begins then and ends when
    it is released, /never answers when the caller has gone; the rest says how long the body was."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.holding = 0
        """How many requests wait for the gate."""
        self.errors: list[Exception] = []
        """What it was told that it must not do."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        size = 0
        while scope["path"] != "/early":
            try:
                message = await receive()
            except HttpError as error:
                self.errors.append(error)
                break
            size += len(message.get("body", b""))
            if message["type"] == "http.disconnect" or not message["more_body"]:
                break
        if scope["path"] == "/held":
            self.holding += 1
            await self.gate.wait()
            self.holding -= 1
        if scope["path"] == "/never":
            while (await receive())["type"] != "http.disconnect":
                continue
        if scope["path"] == "/begun":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"begun", "more_body": True})
            await self.gate.wait()
            await send({"type": "http.response.body", "body": b""})
            return
        body = LARGE if scope["path"] == "/large" else b"%d" % size
        length = (b"content-length", b"%d" % len(body))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": [length]})
            await send({"type": "http.response.body", "body": body})
        except RuntimeError as error:
            self.errors.append(error)


class TimedConnection(CountingConnection):
    """One connection; each server has a subclass of its own."""

    max_connections = 20
    check_seconds = 0.005
    checks: ClassVar[int] = 0
    """How often all connections of the server were checked."""

    @property
    def has_ended_its_side(self) -> bool:
        """Whether the client's end of file has come."""
        return self._half_closed_until is not None

    @classmethod
    def _check_timeouts(cls, loop: Any, state: Any) -> None:
        super()._check_timeouts(loop, state)
        cls.checks += 1


class TimedServer(Server):
    """The application in a time that only tests move."""

    def __init__(self, memory: ClientMemory) -> None:
        self.memory = memory
        clock = self.clock = Clock()

        class Loop(uvloop.Loop):
            def time(self) -> float:
                return clock()

        self.application = Application()
        self._protocol: type[TimedConnection] = type("OwnConnection", (TimedConnection,), {"memory": memory})
        super().__init__(self.application, self._protocol, Loop, lifespan="off")

    def end_side(self, client: socket.socket) -> None:
        """Ends the client's side of a connection on which an answer is under way, and waits until the server knows."""
        connection = self.accepted(client)
        assert isinstance(connection, TimedConnection)
        client.shutdown(socket.SHUT_WR)
        until(lambda: connection.has_ended_its_side, "the server did not see the end")

    def pass_time(self, seconds: float) -> None:
        """Moves the clock, and waits until the connections have been checked and what that ended is gone."""
        self.clock.now += seconds
        enough = self._protocol.checks + 3
        until(lambda: self._protocol.checks >= enough or not self.open, "the connections are not checked")

    def release(self) -> None:
        """Lets all requests to /held go on, also later ones."""
        self.loop.call_soon_threadsafe(self.application.gate.set)


@contextmanager
def timed(memory: ClientMemory | None = None) -> Iterator[TimedServer]:
    """`memory` has the budgets of its connections; by default larger ones than tests fill."""
    server = TimedServer(memory or ClientMemory())
    with server.run():
        try:
            yield server
        finally:
            server.release()
