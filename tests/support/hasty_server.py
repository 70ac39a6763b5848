"""A small application behind real connections with time-outs that a test can wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aidre.api.server.connection import Connection
from tests.support.servers import Server, running

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE = b"x" * 8_000_000
BROKEN: list[RuntimeError] = []
"""What the application was told that it must not do."""


class Hasty(Connection):
    """The same with time-outs that a test can wait for."""

    header_seconds = 0.3
    body_seconds = 0.4
    writing_seconds = 0.3
    idle_seconds = 0.5
    half_closed_seconds = 1.2
    header_bytes = 20_000
    max_connections = 20
    check_seconds = 0.05


async def application(scope: Any, receive: Any, send: Any) -> None:
    """/early answers before the body is read, /large much, /slow late, /never when the caller has gone; the rest says
    how long the body was."""
    if scope["type"] != "http":
        return
    size = 0
    if scope["path"] != "/early":
        while True:
            message = await receive()
            size += len(message.get("body", b""))
            if message["type"] == "http.disconnect" or not message["more_body"]:
                break
    if scope["path"] == "/slow":
        await asyncio.sleep(0.8)
    if scope["path"] == "/never":
        while (await receive())["type"] != "http.disconnect":
            continue
    body = LARGE if scope["path"] == "/large" else b"%d" % size
    length = (b"content-length", b"%d" % len(body))
    try:
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        await send({"type": "http.response.body", "body": body})
    except RuntimeError as error:
        BROKEN.append(error)


def body_head(path: bytes) -> bytes:
    return b"POST " + path + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"


@contextmanager
def hasty() -> Iterator[Server]:
    with running(application, Hasty) as server:
        yield server
