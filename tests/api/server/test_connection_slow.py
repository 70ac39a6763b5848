"""Slow clients over real connections: each time-out closes the connection when it is over, and not earlier."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from contextlib import closing
from itertools import chain, repeat

import pytest

from aidre.api.server.connection import PROGRESS_BYTES, ServerConnection
from tests.api.server.timed_server import GET, LARGE, TimedServer, body_head, get, timed
from tests.support.clocks import until
from tests.support.servers import until_closed

STEP = 4.0
"""Seconds between two pieces of a trickle, fewer than half of any time-out."""
TIMED_OUT = b"HTTP/1.1 408 Request Timeout"


def trickle(server: TimedServer, client: socket.socket, pieces: Iterator[bytes], step: float = STEP) -> float:
    """Sends piece by piece until the server ends the connection: how many seconds it bore with it."""
    began = server.clock.now
    for piece in pieces:
        server.take(client, piece)
        server.pass_time(step)
        if not server.holds(client):
            return server.clock.now - began
        assert server.clock.now - began < 1_000, "the server bears with everything"
    raise AssertionError("the server took it all")


def is_about(seconds: float, promised: float) -> bool:
    """Whether a trickle was borne with until the time-out, and no longer than the last piece took."""
    return promised < seconds <= promised + STEP


def ends_after(server: TimedServer, client: socket.socket, seconds: float) -> None:
    """Asserts that the server ends a connection then, and not a second earlier."""
    server.accepted(client)
    server.pass_time(seconds - 1)
    assert server.holds(client)
    server.pass_time(2)
    assert not server.holds(client)


def header_lines() -> Iterator[bytes]:
    return chain([b"GET / HTTP/1.1\r\nHost: x\r\n"], repeat(b"X-Slow: yes\r\n"))


def body_bytes(path: bytes) -> Iterator[bytes]:
    return chain([body_head(path)], repeat(b"x"))


def test_a_header_that_trickles_in_is_ended_and_told_so(server: TimedServer) -> None:
    with closing(server.connect()) as client:
        assert is_about(trickle(server, client, header_lines()), ServerConnection.header_seconds)
        head, _, body = until_closed(client).partition(b"\r\n\r\n")
        assert head.startswith(TIMED_OUT)
        assert b"connection: close" in head
        assert json.loads(body)["error"] == "invalid_request"


def test_a_connection_that_says_nothing_is_ended_without_a_word(server: TimedServer) -> None:
    with closing(server.connect()) as client:
        ends_after(server, client, ServerConnection.header_seconds)
        assert until_closed(client) == b""


@pytest.mark.parametrize("first", [b"G", b"\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n", b"POST / HTTP/1.1\r\nContent-Len"])
def test_a_header_that_stops_half_way_is_ended(server: TimedServer, first: bytes) -> None:
    with closing(server.connect()) as client:
        server.take(client, first)
        ends_after(server, client, ServerConnection.header_seconds)
        assert until_closed(client).startswith(TIMED_OUT)


def test_the_header_of_a_later_request_has_its_own_time(server: TimedServer) -> None:
    with closing(server.connect()) as client:
        for _ in range(3):
            client.sendall(GET)
            assert client.recv(65_536).endswith(b"\r\n\r\n0")
            server.pass_time(ServerConnection.header_seconds - 1)
        assert is_about(trickle(server, client, header_lines()), ServerConnection.header_seconds)
        assert until_closed(client).startswith(TIMED_OUT)


def test_a_connection_on_which_nothing_more_is_asked_is_ended(server: TimedServer) -> None:
    with closing(server.connect()) as client:
        client.sendall(GET)
        assert client.recv(65_536).endswith(b"\r\n\r\n0")
        ends_after(server, client, ServerConnection.idle_seconds)
        assert until_closed(client) == b""


def test_a_body_that_trickles_in_is_ended(server: TimedServer) -> None:
    with closing(server.connect()) as client:
        assert is_about(trickle(server, client, body_bytes(b"/")), ServerConnection.pace_seconds)
        head = until_closed(client).partition(b"\r\n\r\n")[0]
        assert b"connection: close" in head


def test_a_body_that_comes_steadily_is_ended_when_it_takes_too_long(server: TimedServer) -> None:
    piece = b"x" * (ServerConnection.pace_bytes // 2)
    with closing(server.connect()) as client:
        pieces = chain([body_head(b"/").replace(b"100000", b"10000000")], repeat(piece))
        assert is_about(trickle(server, client, pieces), ServerConnection.body_seconds)


def test_a_body_of_chunks_that_trickles_in_is_ended(server: TimedServer) -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    with closing(server.connect()) as client:
        seconds = trickle(server, client, chain([head], repeat(b"1\r\nx\r\n")))
        assert is_about(seconds, ServerConnection.pace_seconds)


def test_a_body_that_nobody_reads_any_more_is_not_borne_with_for_ever(server: TimedServer) -> None:
    with closing(server.connect()) as client:
        pieces = body_bytes(b"/early")
        client.sendall(next(pieces))
        assert client.recv(65_536).endswith(b"\r\n\r\n0")
        assert is_about(trickle(server, client, pieces), ServerConnection.pace_seconds)
        assert until_closed(client) == b""


def test_a_connection_is_not_kept_open_by_blank_lines(server: TimedServer) -> None:
    with closing(server.connect()) as client:
        client.sendall(GET)
        assert client.recv(65_536).endswith(b"0")
        assert trickle(server, client, repeat(b"\r\n"), 8.0) <= ServerConnection.idle_seconds + 8
        assert until_closed(client).partition(b"\r\n")[0] in {b"", TIMED_OUT}


def test_an_answer_that_nobody_reads_is_given_up(server: TimedServer) -> None:
    with closing(server.connect()) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection = server.accepted(client)
        client.sendall(get(b"/large"))
        until(lambda: connection.transport.get_write_buffer_size() > PROGRESS_BYTES)
        server.pass_time(0)
        ends_after(server, client, ServerConnection.writing_seconds)


PIECES, PIECE_BYTES = 6, 1_000_000
"""Read one by one they leave more of LARGE than the buffers of the system hold: the server has to wait each time."""


def take(client: socket.socket, size: int) -> None:
    while size > 0:
        part = client.recv(size)
        assert part, "the server gave up"
        size -= len(part)


def test_an_answer_that_is_read_slowly_but_steadily_arrives(server: TimedServer) -> None:
    with closing(server.connect()) as client:
        connection, began = server.accepted(client), server.clock.now
        other_end = connection.transport.get_extra_info("socket")
        for end, option in ((client, socket.SO_RCVBUF), (other_end, socket.SO_SNDBUF)):
            end.setsockopt(socket.SOL_SOCKET, option, 100_000)  # what these hold was not read
        client.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        waiting = connection.transport.get_write_buffer_size
        until(lambda: waiting() > len(LARGE) // 2)
        for _ in range(PIECES):
            take(client, PIECE_BYTES)
            assert waiting() > PROGRESS_BYTES
            server.pass_time(ServerConnection.writing_seconds - 1)
        assert server.clock.now - began > 4 * ServerConnection.writing_seconds
        assert PIECES * PIECE_BYTES + len(until_closed(client)) > len(LARGE)


def test_an_answer_that_takes_long_to_make_is_waited_for() -> None:
    with timed() as server, closing(server.connect()) as client:
        server.take(client, get(b"/held"))
        server.pass_time(10 * ServerConnection.idle_seconds)
        assert server.holds(client)
        server.release()
        assert client.recv(65_536).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("late", [[b"G"], [b"", b"GET / HTTP/1.1\r\nHost: x\r\n"]])
def test_a_header_that_stops_half_way_takes_no_answer_from_those_before_it(late: list[bytes]) -> None:
    with timed() as server, closing(server.connect()) as client:
        server.take(client, get(b"/held") + late[0])
        for piece in late[1:]:
            server.take(client, piece)
        server.pass_time(ServerConnection.header_seconds + 1)
        assert server.holds(client)
        server.release()
        said = until_closed(client)
        assert said.startswith(b"HTTP/1.1 200 ")
        assert said.count(b"HTTP/1.1 ") == 1


def test_a_header_behind_a_request_is_ended_and_told_so(server: TimedServer) -> None:
    with closing(server.connect()) as client:
        server.take(client, GET + b"G")
        assert client.recv(65_536).endswith(b"\r\n\r\n0")
        ends_after(server, client, ServerConnection.header_seconds)
        assert until_closed(client).startswith(TIMED_OUT)


def test_requests_sent_one_behind_the_other_are_all_answered() -> None:
    with timed() as server, closing(server.connect()) as client:
        server.take(client, get(b"/held") + GET + GET)
        server.pass_time(10 * ServerConnection.idle_seconds)
        server.release()
        received = b""
        while received.count(b"HTTP/1.1 200 OK") < 3:
            part = client.recv(65_536)
            assert part, received
            received += part


def test_a_caller_who_goes_before_several_answers_came_is_no_error() -> None:
    with timed() as server:
        for number in range(3):
            with closing(server.connect()) as client:
                server.take(client, get(b"/held") * 3)
                until(lambda number=number: server.application.holding == number + 1)  # type: ignore[misc]
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # ends with a reset
        until(lambda: not server.open)
        server.release()
        server.rest()
        assert not server.application.errors


def test_slow_connections_leave_nothing_behind(server: TimedServer) -> None:
    server.rest()
    clients = [server.connect() for _ in range(15)]
    for number, client in enumerate(clients):
        server.take(client, [b"G", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nx", GET][number % 3])
    assert server.open == 15
    server.pass_time(ServerConnection.idle_seconds + 1)
    server.rest()
    for client in clients:
        client.close()


def test_the_time_outs_of_the_house_are_those_that_are_promised() -> None:
    assert ServerConnection.header_seconds <= 10
    assert ServerConnection.body_seconds <= 30
