"""Fields of a request that the connection reads itself: Host, once and valid, and Expect."""

from __future__ import annotations

import pytest

from aidre.api.server.connection import BODY, HEADER, Connection


@pytest.fixture
def connection() -> Connection:
    """One that has no transport, at the beginning of a request."""
    connection = object.__new__(Connection)
    connection._state, connection._host_fields = HEADER, 0
    connection._host = connection._valid_host = b""
    connection.headers, connection.expect_100_continue = [], False
    return connection


def is_valid(connection: Connection, version: str, *hosts: bytes) -> bool:
    connection._host_fields = 0
    for host in hosts:
        connection.on_header(b"Host", host)
    return connection._is_host_valid(version)


@pytest.mark.parametrize("host", [b"a.example", b"a.example:80", b"[::1]:8000", b"", b"127.0.0.1", b"a%20b"])
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_one_valid_host_is_enough(connection: Connection, version: str, host: bytes) -> None:
    assert is_valid(connection, version, host)
    assert is_valid(connection, version, host), "again, on the same connection"


@pytest.mark.parametrize("host", [b"a b", b"a/b", b"user@a", b"a:b", b"[::1", b"a\\b"])
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_host_that_is_none_is_refused_also_after_a_valid_one(
    connection: Connection, version: str, host: bytes
) -> None:
    assert not is_valid(connection, version, host)
    assert is_valid(connection, version, b"a.example")
    assert not is_valid(connection, version, host)


def test_without_a_host_only_http_1_0_is_spoken(connection: Connection) -> None:
    assert is_valid(connection, "1.0")
    assert not is_valid(connection, "1.1")


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_two_hosts_are_refused_even_if_they_agree(connection: Connection, version: str) -> None:
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
def test_only_expect_asks_for_continue(connection: Connection, name: bytes, value: bytes, expects: bool) -> None:
    connection.on_header(name, value)
    assert connection.expect_100_continue is expects
    assert connection.headers == [(name.lower(), value)]


def test_a_trailer_is_no_field_of_the_header(connection: Connection) -> None:
    connection._state = BODY
    for name, value in ((b"Host", b"b.example"), (b"Expect", b"100-continue"), (b"X-Name", b"y")):
        connection.on_header(name, value)
    assert (connection.headers, connection._host_fields, connection.expect_100_continue) == ([], 0, False)
