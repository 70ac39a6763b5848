"""Clients that end their own side when they have said all: answered, and not waited for longer than that may take."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from aidre.api.server.connection import ServerConnection
from tests.api.server.timed_server import GET, LARGE, TimedServer, body_head, get, timed
from tests.support.clocks import until
from tests.support.servers import Server, until_closed


def left_open(server: Server, *parts: bytes) -> bytes:
    """All that comes for these bytes after the client has ended its own side."""
    with closing(server.connect()) as client:
        client.sendall(b"".join(parts))
        client.shutdown(socket.SHUT_WR)
        return until_closed(client)


@pytest.mark.parametrize("path", [b"/", b"/large"])
def test_who_has_said_all_is_still_answered(server: TimedServer, path: bytes) -> None:
    said = left_open(server, get(path))
    assert said.startswith(b"HTTP/1.1 200 ")
    assert said.endswith(LARGE if path == b"/large" else b"\r\n\r\n0")


def test_who_has_said_all_is_answered_later_too() -> None:
    with timed() as server, closing(server.connect()) as client:
        server.take(client, get(b"/held"))
        server.end_side(client)
        server.pass_time(ServerConnection.half_closed_seconds - 1)
        assert server.holds(client)
        server.release()
        said = until_closed(client)
    assert said.startswith(b"HTTP/1.1 200 ")
    assert said.endswith(b"\r\n\r\n0")


@pytest.mark.parametrize("size", [1, 70_000, 3_000_000])
def test_who_has_sent_a_whole_body_is_still_answered(server: TimedServer, size: int) -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size
    assert left_open(server, head, b"x" * size).endswith(b"\r\n\r\n%d" % size)


def test_all_that_was_asked_at_once_is_still_answered_in_order() -> None:
    posts = [b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % n + b"x" * n for n in range(20)]
    with timed() as server, closing(server.connect()) as client:
        client.sendall(b"".join([get(b"/held"), *posts]))
        until(lambda: server.application.holding == 1)
        client.shutdown(socket.SHUT_WR)
        server.release()
        said = until_closed(client)
    assert [part.partition(b"\r\n\r\n")[2] for part in said.split(b"HTTP/1.1 200 OK")[1:]] == [
        b"0",
        *(b"%d" % n for n in range(20)),
    ]


@pytest.mark.parametrize("end", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\n", GET[:-2], body_head(b"/") + b"x"])
def test_who_stops_half_way_is_not_waited_for(server: TimedServer, end: bytes) -> None:
    assert left_open(server, end) == b""


def test_nobody_waits_long_for_who_may_have_gone(server: TimedServer) -> None:
    with closing(server.connect()) as client:
        server.take(client, get(b"/never"))
        server.end_side(client)
        server.pass_time(ServerConnection.half_closed_seconds - 1)
        assert server.holds(client)
        server.pass_time(2)
        assert not server.holds(client)
        assert until_closed(client) == b""


def test_an_answer_that_has_begun_has_as_long_again_to_end() -> None:
    with timed() as server, closing(server.connect()) as client:
        server.take(client, get(b"/begun"))
        assert client.recv(65_536).startswith(b"HTTP/1.1 200 ")
        server.end_side(client)
        server.pass_time(2 * ServerConnection.half_closed_seconds - 1)
        assert server.holds(client)
        server.pass_time(2)
        assert not server.holds(client)


def test_an_answer_that_nobody_reads_is_given_up(server: TimedServer) -> None:
    with closing(server.connect()) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection = server.accepted(client)
        client.sendall(get(b"/large"))
        until(lambda: connection.transport.get_write_buffer_size() > 0)
        client.shutdown(socket.SHUT_WR)
        server.pass_time(0)
        server.pass_time(ServerConnection.writing_seconds + 1)
        assert not server.holds(client)


@pytest.mark.slow
def test_who_goes_after_asking_leaves_nothing_behind() -> None:
    with timed() as server:
        for _ in range(5):
            with closing(server.connect()) as client:
                server.take(client, get(b"/held") * 2)
        server.release()
        server.pass_time(2 * ServerConnection.half_closed_seconds + 1)
        server.rest()
        assert not server.application.errors
