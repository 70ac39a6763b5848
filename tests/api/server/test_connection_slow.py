"""Raw connections to a real server that do not come along: each ends in time, and disturbs nobody."""

from __future__ import annotations

import json
import resource
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from aidre.api.server.connection import Connection, connection_capacity
from tests.support.hasty_server import BROKEN, GET, LARGE, body_head, hasty
from tests.support.servers import WAIT_SECONDS, Server, until_closed


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with hasty() as server:
        yield server


def trickle(client: socket.socket, pieces: Iterator[bytes], pause: float = 0.05) -> tuple[bytes, float]:
    """Sends piece by piece until the server ends it: what it said, and how long it bore with it."""
    began = time.monotonic()
    client.settimeout(pause)
    for piece in pieces:
        try:
            client.sendall(piece)
            if not (said := client.recv(65_536)):
                return b"", time.monotonic() - began
            client.settimeout(WAIT_SECONDS)
            return said + until_closed(client), time.monotonic() - began
        except TimeoutError:
            if time.monotonic() - began > WAIT_SECONDS:
                raise AssertionError("the server bears with everything") from None
        except (ConnectionResetError, BrokenPipeError):
            return b"", time.monotonic() - began
    raise AssertionError("the server took it all")


def header_lines() -> Iterator[bytes]:
    yield b"GET / HTTP/1.1\r\nHost: x\r\n"
    while True:
        yield b"X-Slow: yes\r\n"


def body_bytes(path: bytes) -> Iterator[bytes]:
    yield body_head(path)
    while True:
        yield b"x"


def test_a_header_that_trickles_in_is_ended_and_told_so(server: Server) -> None:
    with closing(server.connect()) as client:
        said, seconds = trickle(client, header_lines())
        assert said.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert b"connection: close" in said
        assert json.loads(said.partition(b"\r\n\r\n")[2])["error"] == "invalid_request"
        assert 0.2 < seconds < 3


def test_a_connection_that_says_nothing_is_ended_without_a_word(server: Server) -> None:
    with closing(server.connect()) as client:
        assert until_closed(client) == b""


@pytest.mark.parametrize("first", [b"G", b"\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n", b"POST / HTTP/1.1\r\nContent-Len"])
def test_a_header_that_stops_half_way_is_ended(server: Server, first: bytes) -> None:
    with closing(server.connect()) as client:
        client.sendall(first)
        assert until_closed(client).partition(b"\r\n")[0] in {b"", b"HTTP/1.1 408 Request Timeout"}


def test_the_header_of_a_later_request_has_its_own_time(server: Server) -> None:
    with closing(server.connect()) as client:
        for _ in range(3):
            client.sendall(GET)
            assert client.recv(65_536).endswith(b"\r\n\r\n0")
            time.sleep(0.2)
        said, _ = trickle(client, header_lines())
        assert said.startswith(b"HTTP/1.1 408 ")


def test_a_body_that_trickles_in_is_ended(server: Server) -> None:
    with closing(server.connect()) as client:
        _, seconds = trickle(client, body_bytes(b"/"))
        assert 0.3 < seconds < 3


def test_a_body_of_chunks_that_trickles_in_is_ended(server: Server) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        while True:
            yield b"1\r\nx\r\n"

    with closing(server.connect()) as client:
        _, seconds = trickle(client, chunks())
        assert 0.3 < seconds < 3


def test_a_body_that_nobody_reads_any_more_is_not_borne_with_for_ever(server: Server) -> None:
    with closing(server.connect()) as client:
        pieces = body_bytes(b"/early")
        client.sendall(next(pieces))
        assert client.recv(65_536).endswith(b"\r\n\r\n0")
        said, seconds = trickle(client, pieces)
        assert said == b""
        assert 0.1 < seconds < 3


def test_a_connection_is_not_kept_open_by_blank_lines(server: Server) -> None:
    with closing(server.connect()) as client:
        client.sendall(GET)
        assert client.recv(65_536).endswith(b"0")
        said, seconds = trickle(client, iter(lambda: b"\r\n", None))
        assert said.partition(b"\r\n")[0] in {b"", b"HTTP/1.1 408 Request Timeout"}
        assert seconds < 3


def test_an_answer_that_nobody_reads_is_given_up(server: Server) -> None:
    with closing(server.connect()) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        deadline = time.monotonic() + WAIT_SECONDS
        while not server.open:
            assert time.monotonic() < deadline
        while server.open:
            assert time.monotonic() < deadline, "the answer still waits"
            time.sleep(0.02)


def test_an_answer_that_is_read_slowly_but_steadily_arrives(server: Server) -> None:
    with closing(server.connect()) as client:
        client.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        received = 0
        while part := client.recv(400_000):
            received += len(part)
            time.sleep(0.03)
        assert received > len(LARGE)


def test_an_answer_that_takes_long_to_make_is_waited_for(server: Server) -> None:
    with closing(server.connect()) as client:
        client.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.recv(65_536).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("late", [[b"G"], [b"", b"GET / HTTP/1.1\r\nHost: x\r\n"]])
def test_a_header_that_stops_half_way_takes_no_answer_from_those_before_it(server: Server, late: list[bytes]) -> None:
    with closing(server.connect()) as client:
        client.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n" + late[0])
        for piece in late[1:]:
            time.sleep(0.1)
            client.sendall(piece)
        said = until_closed(client)
        assert said.startswith(b"HTTP/1.1 200 ")
        assert said.count(b"HTTP/1.1 ") == 1


def test_a_header_behind_a_request_is_ended_and_told_so(server: Server) -> None:
    with closing(server.connect()) as client:
        client.sendall(GET + b"G")
        said = until_closed(client)
        assert said.partition(b"\r\n")[0] == b"HTTP/1.1 200 OK"
        assert b"\r\n\r\n0HTTP/1.1 408 Request Timeout\r\n" in said


def test_requests_sent_one_behind_the_other_are_all_answered(server: Server) -> None:
    with closing(server.connect()) as client:
        client.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n" + GET + GET)
        received = b""
        while received.count(b"HTTP/1.1 200 OK") < 3:
            received += client.recv(65_536)


def test_a_caller_who_goes_before_several_answers_came_is_no_error() -> None:
    with hasty() as server:
        for _ in range(3):
            with closing(server.connect()) as client:
                client.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n" * 3)
                time.sleep(0.1)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # ends with a reset
        deadline = time.monotonic() + WAIT_SECONDS
        while server.open or server.server.server_state.tasks:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    assert not BROKEN


@pytest.mark.parametrize("size", [30_000, 100_000, 1_000_000])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_header_that_is_too_large_is_refused(server: Server, size: int, at_once: bool) -> None:
    head = b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"y" * 90) for n in range(size // 100))
    with closing(server.connect()) as client:
        try:
            for start in range(0, len(head), len(head) if at_once else 1_000):
                client.sendall(head[start : start + (len(head) if at_once else 1_000)])
            client.sendall(b"\r\n")
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert until_closed(client).partition(b"\r\n")[0] in {
            b"",
            b"HTTP/1.1 431 Request Header Fields Too Large",
        }
        with closing(server.connect()) as other:
            other.sendall(GET)
            assert other.recv(65_536).startswith(b"HTTP/1.1 200 ")


def test_an_address_that_is_too_long_is_refused_and_one_below_the_limit_is_not(server: Server) -> None:
    for length, status in [(19_000, b"200"), (25_000, b"431")]:
        with closing(server.connect()) as client:
            client.sendall(b"GET /" + b"a" * length + b" HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(65_536).split(b" ")[1] == status


def test_a_large_body_is_no_large_header(server: Server) -> None:
    with closing(server.connect()) as client:
        for _ in range(2):
            client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 1_000_000)
            received = client.recv(65_536)
            assert received.startswith(b"HTTP/1.1 200 ")
            assert received.endswith(b"1000000")


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
        b"CONNECT x:443 HTTP/1.1\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: a\r\n b\r\nHost : x\r\n\r\n",
        b"\x00" * 1_000,
    ],
)
def test_what_is_no_request_ends_its_connection_and_no_other(server: Server, garbage: bytes) -> None:
    with closing(server.connect()) as client, closing(server.connect()) as other:
        client.sendall(garbage)
        assert until_closed(client).split(b"\r\n")[0] in {b"", b"HTTP/1.1 400 Bad Request"}
        other.sendall(GET)
        assert other.recv(65_536).startswith(b"HTTP/1.1 200 ")


def test_a_server_that_is_full_says_so_and_has_room_again() -> None:
    with hasty() as server:
        held = [server.connect() for _ in range(20)]
        for client in held:
            client.sendall(GET)
            assert client.recv(65_536).startswith(b"HTTP/1.1 200 ")
        with closing(server.connect()) as late:
            said = until_closed(late)
            assert said.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
            assert b"\r\nretry-after: 1\r\n" in said
            assert b"\r\nx-request-id: req_" in said
            assert json.loads(said.partition(b"\r\n\r\n")[2])["error"] == "service_unavailable"
        for client in held:
            client.close()
        deadline = time.monotonic() + WAIT_SECONDS
        while server.open:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with closing(server.connect()) as again:
            again.sendall(GET)
            assert again.recv(65_536).startswith(b"HTTP/1.1 200 ")


def test_slow_connections_leave_nothing_behind() -> None:
    with hasty() as server:
        clients = [server.connect() for _ in range(15)]
        for number, client in enumerate(clients):
            client.sendall([b"G", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nx", GET][number % 3])
        deadline = time.monotonic() + WAIT_SECONDS
        while not server.open:
            assert time.monotonic() < deadline
        while server.open or server.server.server_state.tasks:
            assert time.monotonic() < deadline, (server.open, server.server.server_state.tasks)
            time.sleep(0.02)
        for client in clients:
            client.close()


def test_the_time_outs_of_the_house_are_those_that_are_promised() -> None:
    assert Connection.header_seconds <= 10
    assert Connection.body_seconds <= 30


def test_room_is_made_for_connections_but_never_more_than_the_system_gives() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        most = connection_capacity()
        now = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        assert now >= soft
        assert 0 < most < now
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
