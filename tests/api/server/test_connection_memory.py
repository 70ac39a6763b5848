"""What connections keep for clients is bounded: unfinished bodies, requests sent ahead, answers that nobody reads."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from aidre.api.http import RequestTimeout, Unavailable
from aidre.api.server.connection import FULL_SECONDS, MAX_PIPELINED, PRESSED_SHARE, ServerConnection
from aidre.api.server.memory import ADDRESS_SHARE, QUEUED_BYTES, REQUEST_BYTES, SMALL_BYTES, ClientMemory
from tests.api.server.timed_server import GET, LARGE, TimedServer, get, timed
from tests.support.clients import AGENTS
from tests.support.clocks import until
from tests.support.servers import Served, until_closed

MOST = 1 << 20
"""Bytes of the budget."""
BODY = 100_000


@pytest.fixture
def server() -> Iterator[TimedServer]:
    with timed(ClientMemory(MOST)) as server:
        yield server


def head(length: int, path: bytes = b"/", kind: bytes = b"text/plain") -> bytes:
    line = b"POST %b HTTP/1.1\r\nHost: x\r\n" % path
    return line + b"Content-Type: %b\r\nContent-Length: %d\r\n\r\n" % (kind, length)


def hold(server: TimedServer, clients: ExitStack, sent: int, length: int = BODY) -> socket.socket:
    """A client whose body does not end."""
    client = clients.enter_context(closing(server.connect()))
    server.take(client, head(length) + b"x" * sent)
    return client


def test_a_body_is_refused_before_it_is_read_where_its_address_has_its_share(server: TimedServer) -> None:
    with ExitStack() as clients:
        for _ in range(2):
            hold(server, clients, BODY - 1)
        kept = server.memory.requests.used
        assert 2 * (BODY + REQUEST_BYTES) <= kept <= MOST // ADDRESS_SHARE
        refused = hold(server, clients, 1)
        until(lambda: server.memory.requests.used == kept)
        server.take(refused, b"x" * 90_000)
        assert server.memory.requests.used == kept
        assert isinstance(server.application.errors[-1], Unavailable)


def test_a_body_of_chunks_is_refused_where_it_outgrows_the_share(server: TimedServer) -> None:
    with ExitStack() as clients:
        hold(server, clients, BODY - 1)
        client = clients.enter_context(closing(server.connect()))
        client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(20):
            server.take(client, b"2710\r\n" + b"x" * 10_000 + b"\r\n")
            assert server.memory.requests.used <= MOST // ADDRESS_SHARE
        assert isinstance(server.application.errors[-1], Unavailable)


def test_what_is_kept_is_given_back(server: TimedServer) -> None:
    requests = server.memory.requests
    with ExitStack() as clients:
        client = hold(server, clients, BODY - 1)
        assert requests.used > BODY
        client.sendall(b"x")
        assert client.recv(65_536).endswith(b"%d" % BODY)
        assert requests.used == 0
        hold(server, clients, 10)
        assert requests.used > 0
    until(lambda: not server.open)
    assert requests.used == 0


def test_a_request_that_comes_whole_is_answered_while_the_budget_is_full(server: TimedServer) -> None:
    with ExitStack() as clients:
        while server.memory.requests.used + SMALL_BYTES < MOST:
            hold(server, clients, SMALL_BYTES - 2 * REQUEST_BYTES, SMALL_BYTES - REQUEST_BYTES)
            if len(server.server.server_state.connections) > 15:
                break
        client = clients.enter_context(closing(server.connect()))
        client.sendall(head(1_000) + b"x" * 1_000)
        assert client.recv(65_536).endswith(b"1000")


def test_a_header_that_does_not_end_counts(server: TimedServer) -> None:
    with closing(server.connect()) as client:
        server.take(client, GET[:-2] + b"X-More: " + b"y" * 50_000)
        assert server.memory.requests.used >= 50_000


def test_requests_sent_ahead_are_few(server: TimedServer) -> None:
    with closing(server.connect()) as client:
        client.sendall(get(b"/held") + GET * 3_000)
        connection = server.accepted(client)
        until(lambda: not connection.is_taking)
        assert len(connection.pipeline) == MAX_PIPELINED


def test_requests_sent_ahead_count(server: TimedServer) -> None:
    with closing(server.connect()) as client, closing(server.connect()) as other:
        server.take(client, get(b"/held") + GET * 100)
        assert server.memory.requests.used >= 100 * QUEUED_BYTES
        server.take(other, get(b"/held") + GET * 100)
        assert until_closed(other) == b""


def test_an_answer_that_nobody_reads_is_cut_off_where_memory_lacks(server: TimedServer) -> None:
    assert len(LARGE) > MOST
    with closing(server.connect()) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        server.accepted(client)
        client.sendall(get(b"/large"))
        until(lambda: not server.holds(client))
    assert server.memory.answers.used == 0


def test_an_answer_is_counted_until_it_is_read() -> None:
    with timed(ClientMemory(4 * len(LARGE))) as server, closing(server.connect()) as client:
        client.sendall(get(b"/large"))
        until(lambda: server.memory.answers.used > 100_000)
        size = 0
        while size < len(LARGE):
            size += len(client.recv(1 << 20))
        until(lambda: server.memory.answers.used == 0)


def test_nothing_is_begun_for_a_client_that_does_not_read() -> None:
    with timed(ClientMemory(4 * len(LARGE))) as server, closing(server.connect()) as client:
        connection = server.accepted(client)
        client.sendall(get(b"/large"))
        until(lambda: server.memory.answers.used > 100_000)
        server.take(client, get(b"/held"))
        server.turn()
        assert len(connection.pipeline) == 1
        assert server.application.holding == 0
        size = 0
        while size < len(LARGE):
            size += len(client.recv(1 << 20))
        until(lambda: server.application.holding == 1)
        server.release()
        assert client.recv(65_536).startswith(b"HTTP/1.1 200 ")


def test_who_makes_no_progress_is_given_up_sooner_under_pressure(server: TimedServer) -> None:
    with ExitStack() as clients:
        hold(server, clients, 10)
        server.memory.requests.add("elsewhere", MOST // 2)
        server.pass_time(ServerConnection.pace_seconds / PRESSED_SHARE - 0.5)
        assert not server.application.errors
        server.pass_time(1)
        assert isinstance(server.application.errors[-1], RequestTimeout)
        server.memory.requests.add("elsewhere", -MOST // 2)


ROOM = """
[limits]
body_bytes = 100000
write_bytes = 100000
unfinished_bytes = 400000
"""
ENVELOPES = {
    "/search": "error",
    "/ask": "_meta",
    "/mcp": "error",
    "/intakes/find": "error",
    "/aip/retrieve": "error",
    "/nowhere": "error",
}


@pytest.fixture(scope="module")
def full(store: Path) -> Iterator[Served]:
    """A server at which an address has its share."""
    one = Served(store, ROOM + AGENTS)
    with one.run(), closing(one.connect()) as client:
        client.sendall(head(100_000, b"/search", kind=b"application/json") + b" " * 99_999)
        until(lambda: one.running.count == 0 and one.asked == 1)
        yield one


@pytest.mark.parametrize("path", ENVELOPES)
def test_the_refusal_has_the_envelope_of_the_protocol_and_the_connection_goes_on(full: Served, path: str) -> None:
    with closing(full.connect()) as client:
        client.sendall(head(90_000, path.encode(), kind=b"application/json"))
        refused, _, body = client.recv(65_536).partition(b"\r\n\r\n")
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nretry-after: %d\r\n" % FULL_SECONDS in refused.lower() + b"\r\n"
        assert b"connection: close" not in refused.lower()
        assert ENVELOPES[path] in json.loads(body)
        client.sendall(b" " * 90_000 + get(b"/healthz"))
        assert client.recv(65_536).startswith(b"HTTP/1.1 200 ")


def test_a_search_whose_body_comes_apart_is_answered_where_its_address_has_its_share(full: Served) -> None:
    body = b'{"query":"alpha","collection":"docs"}'
    with closing(full.connect()) as client:
        client.sendall(head(len(body), b"/search", kind=b"application/json"))
        full.turn()
        client.sendall(body)
        assert client.recv(65_536).startswith(b"HTTP/1.1 200 ")
