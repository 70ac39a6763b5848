"""Connections that send too much, or what is not a request, and more connections than there is room for."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from aidre.api.server import connection
from aidre.api.server.connection import ServerConnection, connection_capacity
from tests.api.server.timed_server import GET, TimedConnection, TimedServer
from tests.support.clocks import until
from tests.support.servers import until_closed

TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large"


@pytest.mark.parametrize("size", [70_000, 100_000, 1_000_000])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_header_that_is_too_large_is_refused(server: TimedServer, size: int, at_once: bool) -> None:
    head = b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"y" * 90) for n in range(size // 100))
    assert len(head) > ServerConnection.header_bytes
    with closing(server.connect()) as client:
        try:
            for start in range(0, len(head), len(head) if at_once else 1_000):
                client.sendall(head[start : start + (len(head) if at_once else 1_000)])
            client.sendall(b"\r\n")
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert until_closed(client).partition(b"\r\n")[0] in {b"", TOO_LARGE}
        with closing(server.connect()) as other:
            other.sendall(GET)
            assert other.recv(65_536).startswith(b"HTTP/1.1 200 ")


def test_a_header_that_does_not_end_is_refused_at_its_limit(server: TimedServer) -> None:
    lines = b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X-More: and more\r\n" * (ServerConnection.header_bytes // 18)
    with closing(server.connect()) as client:
        server.take(client, lines)
        server.turn()
        client.sendall(b"X-More: and more\r\n")
        assert until_closed(client).startswith(TOO_LARGE)


def test_an_address_that_is_too_long_is_refused_and_one_below_the_limit_is_not(server: TimedServer) -> None:
    for length, status in [
        (ServerConnection.header_bytes - 1_000, b"200"),
        (ServerConnection.header_bytes + 1_000, b"431"),
    ]:
        with closing(server.connect()) as client:
            client.sendall(b"GET /" + b"a" * length + b" HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(65_536).split(b" ")[1] == status


def test_a_large_body_is_no_large_header(server: TimedServer) -> None:
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
def test_what_is_no_request_ends_its_connection_and_no_other(server: TimedServer, garbage: bytes) -> None:
    with closing(server.connect()) as client, closing(server.connect()) as other:
        client.sendall(garbage)
        assert until_closed(client).split(b"\r\n")[0] in {b"", b"HTTP/1.1 400 Bad Request"}
        other.sendall(GET)
        assert other.recv(65_536).startswith(b"HTTP/1.1 200 ")


def test_a_server_that_is_full_says_so_and_has_room_again(server: TimedServer) -> None:
    server.rest()
    held = [server.connect() for _ in range(TimedConnection.max_connections)]
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
    until(lambda: not server.open)
    with closing(server.connect()) as again:
        again.sendall(GET)
        assert again.recv(65_536).startswith(b"HTTP/1.1 200 ")


@pytest.fixture
def file_limit() -> Iterator[tuple[int, int]]:
    """The soft and the hard limit of open files, which a test may change."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield soft, hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_room_is_made_for_connections_but_never_more_than_the_system_gives(file_limit: tuple[int, int]) -> None:
    most = connection_capacity()
    now = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert now >= file_limit[0]
    assert 0 < most < now


def test_the_files_of_collections_are_not_given_to_connections(
    file_limit: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = len(list(Path("/dev/fd").iterdir())) + connection.FILES_RESERVED + 600
    monkeypatch.setattr(connection, "MAX_FILES", most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, file_limit[1]))
    before = connection_capacity()
    (tmp_path / "file").touch()
    with ExitStack() as stack:
        for _ in range(300):
            stack.enter_context((tmp_path / "file").open())
        assert before - connection_capacity() == pytest.approx(300, abs=50)  # others of this process come and go
