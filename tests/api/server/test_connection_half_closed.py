"""Clients that end their own side when they have said all: answered, and not waited for longer than that may take."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.support.hasty_server import BROKEN, GET, LARGE, body_head, hasty
from tests.support.servers import WAIT_SECONDS, Server, until_closed


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with hasty() as server:
        yield server


def left_open(server: Server, *parts: bytes) -> bytes:
    """All that comes for these bytes after the client has ended its own side."""
    with closing(server.connect()) as client:
        client.sendall(b"".join(parts))
        client.shutdown(socket.SHUT_WR)
        return until_closed(client)


@pytest.mark.parametrize("path", [b"/", b"/slow", b"/large"])
def test_who_has_said_all_is_still_answered(server: Server, path: bytes) -> None:
    said = left_open(server, b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 200 ")
    assert said.endswith(LARGE if path == b"/large" else b"\r\n\r\n0")


@pytest.mark.parametrize("size", [1, 70_000, 3_000_000])
def test_who_has_sent_a_whole_body_is_still_answered(server: Server, size: int) -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size
    assert left_open(server, head, b"x" * size).endswith(b"\r\n\r\n%d" % size)


def test_all_that_was_asked_at_once_is_still_answered_in_order(server: Server) -> None:
    posts = [b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % n + b"x" * n for n in range(20)]
    said = left_open(server, b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n", *posts)
    assert [part.partition(b"\r\n\r\n")[2] for part in said.split(b"HTTP/1.1 200 OK")[1:]] == [
        b"0",
        *(b"%d" % n for n in range(20)),
    ]


@pytest.mark.parametrize("end", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\n", GET[:-2], body_head(b"/") + b"x"])
def test_who_stops_half_way_is_not_waited_for(server: Server, end: bytes) -> None:
    assert left_open(server, end) == b""


def test_nobody_waits_long_for_who_may_have_gone() -> None:
    with hasty() as server:
        began = time.monotonic()
        assert left_open(server, b"GET /never HTTP/1.1\r\nHost: x\r\n\r\n") == b""
        assert 1 < time.monotonic() - began < 5
        for _ in range(5):
            client = server.connect()
            client.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n" * 2)
            client.close()
        client = server.connect()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        client.shutdown(socket.SHUT_WR)
        deadline = time.monotonic() + WAIT_SECONDS
        while server.open or server.server.server_state.tasks:
            assert time.monotonic() < deadline, (server.open, server.server.server_state.tasks)
            time.sleep(0.02)
        client.close()
    assert not BROKEN
