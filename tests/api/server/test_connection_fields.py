"""Fields of a request that the connection reads itself: Host, once and valid, and Expect."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from aidre.api.server.connection import BODY, HEADER, ServerConnection
from tests.support.servers import CountingConnection, running


@pytest.fixture
def connection() -> ServerConnection:
    """One that has no transport, at the beginning of a request."""
    connection = object.__new__(ServerConnection)
    connection._state, connection._host_fields = HEADER, 0
    connection._host = connection._valid_host = b""
    connection.headers, connection.expect_100_continue = [], False
    return connection


def is_valid(connection: ServerConnection, version: str, *hosts: bytes) -> bool:
    connection._host_fields = 0
    for host in hosts:
        connection.on_header(b"Host", host)
    return connection._is_host_valid(version)


@pytest.mark.parametrize("host", [b"a.example", b"a.example:80", b"[::1]:8000", b"", b"127.0.0.1", b"a%20b"])
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_one_valid_host_is_enough(connection: ServerConnection, version: str, host: bytes) -> None:
    assert is_valid(connection, version, host)
    assert is_valid(connection, version, host), "again, on the same connection"


@pytest.mark.parametrize("host", [b"a b", b"a/b", b"user@a", b"a:b", b"[::1", b"a\\b"])
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_host_that_is_none_is_refused_also_after_a_valid_one(
    connection: ServerConnection, version: str, host: bytes
) -> None:
    assert not is_valid(connection, version, host)
    assert is_valid(connection, version, b"a.example")
    assert not is_valid(connection, version, host)


def test_without_a_host_only_http_1_0_is_spoken(connection: ServerConnection) -> None:
    assert is_valid(connection, "1.0")
    assert not is_valid(connection, "1.1")


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_two_hosts_are_refused_even_if_they_agree(connection: ServerConnection, version: str) -> None:
    assert not is_valid(connection, version, b"a.example", b"a.example")
    assert not is_valid(connection, version, b"a.example", b"b.example", b"a.example")


@pytest.mark.parametrize(
    ("name", "value", "expects"),
    [
        (b"Expect", b"100-Continue", True),
        (b"expect", b"100-continue", True),
        (b"Expect", b"200-ok", False),
        (b"X-Expect", b"100-continue", False),
    ],
)
def test_only_expect_asks_for_continue(connection: ServerConnection, name: bytes, value: bytes, expects: bool) -> None:
    connection.on_header(name, value)
    assert connection.expect_100_continue is expects
    assert connection.headers == [(name.lower(), value)]


def test_a_trailer_is_no_field_of_the_header(connection: ServerConnection) -> None:
    connection._state = BODY
    for name, value in ((b"Host", b"b.example"), (b"Expect", b"100-continue"), (b"X-Name", b"y")):
        connection.on_header(name, value)
    assert (connection.headers, connection._host_fields, connection.expect_100_continue) == ([], 0, False)


@pytest.mark.parametrize("value", [b"ask", b"ask ", b"ask\t", b" \t ask \t "])
def test_blanks_around_a_value_are_no_part_of_it(value: bytes) -> None:
    """RFC 9110, 5.5, however the bytes arrive: the parser leaves those behind a value."""
    seen: list[bytes] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        seen.extend(value for name, value in scope["headers"] if name in {b"mcp-name", b"host"})
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    request = b"GET / HTTP/1.1\r\nHost: x \r\nMcp-Name:" + value + b"\r\nConnection: close\r\n\r\n"
    with running(application, CountingConnection) as server:
        for cut in (len(request) - 24, len(request)):
            with closing(server.connect()) as client:
                server.take(client, request[:cut])
                client.sendall(request[cut:])
                assert client.makefile("rb").readline() == b"HTTP/1.1 204 No Content\r\n"
    assert seen == [b"x", b"ask"] * 2
