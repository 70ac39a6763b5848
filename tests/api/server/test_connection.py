"""One request and its answer on a real connection: what is written, when, and what is never written."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.support.clocks import WAIT_SECONDS
from tests.support.servers import running, until_closed

Answer = tuple[int, dict[bytes, bytes], bytes]


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Does what its path says."""
    parts, told = [], {"more_body": scope["path"] != "/unread"}
    while told.get("more_body"):
        told = await receive()
        parts.append(told.get("body", b""))
    body = b"".join(parts)
    fields = {
        "/short": [(b"content-length", b"9")],
        "/long": [(b"content-length", b"2")],
        "/split": [(b"x-split", b"a\r\nx-injected: b")],
        "/close": [(b"content-length", b"0"), (b"connection", b"close")],
        "/stream": [],
        "/none": [],
        "/whole": [(b"content-length", b"4")],
    }.get(scope["path"], [(b"content-length", str(len(body)).encode())])
    status = 204 if scope["path"] == "/none" else 200
    await send({"type": "http.response.start", "status": status, "headers": fields})
    if scope["path"] == "/stream":
        for number in range(3):
            await send({"type": "http.response.body", "body": b"part%d" % number, "more_body": True})
        body = b""
    elif scope["path"] in {"/none", "/close"}:
        body = b""
    elif scope["path"] in {"/short", "/long"}:
        body = b"five!"
    elif scope["path"] == "/whole":
        body = b"yes!" if scope["state"].get("whole") else b"part"
    await send({"type": "http.response.body", "body": body})


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with running(application) as server:
        yield server.port


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=WAIT_SECONDS)


def asked(path: str, body: bytes = b"", method: str = "POST", more: str = "", version: str = "1.1") -> bytes:
    return f"{method} {path} HTTP/{version}\r\nHost: x\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode() + body


def read(client: socket.socket, head_only: bool = False) -> Answer:
    """The next answer on a connection."""
    received = b""
    while b"\r\n\r\n" not in received:
        part = client.recv(65_536)
        assert part, received
        received += part
    head, _, body = received.partition(b"\r\n\r\n")
    line, *lines = head.split(b"\r\n")
    fields = {name.lower(): value.strip() for name, _, value in (one.partition(b":") for one in lines)}
    while not head_only and len(body) < int(fields.get(b"content-length", b"0")):
        body += client.recv(65_536)
    while fields.get(b"transfer-encoding") == b"chunked" and not body.endswith(b"0\r\n\r\n"):
        body += client.recv(65_536)
    return int(line.split(b" ")[1]), fields, body


@pytest.mark.parametrize("size", [0, 1, 5_000, 70_000, 3_000_000])
def test_a_body_of_any_size_is_given_to_the_application_and_its_answer_back(port: int, size: int) -> None:
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    with closing(connected(port)) as client:
        for _ in range(3):
            client.sendall(asked("/", body))
            status, _, content = read(client)
            assert (status, content) == (200, body)


def test_a_body_in_chunks_is_given_to_the_application(port: int) -> None:
    with closing(connected(port)) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(500):
            client.sendall(b"3\r\nabc\r\n")
        client.sendall(b"0\r\n\r\n")
        assert read(client)[2] == b"abc" * 500


def test_the_application_is_told_whether_the_body_came_whole(port: int) -> None:
    with closing(connected(port)) as client:
        client.sendall(asked("/whole", b"body"))
        assert read(client)[2] == b"yes!"


def test_an_answer_without_a_length_comes_in_chunks(port: int) -> None:
    with closing(connected(port)) as client:
        client.sendall(asked("/stream"))
        _, fields, body = read(client)
        assert fields[b"transfer-encoding"] == b"chunked"
        assert body == b"5\r\npart0\r\n5\r\npart1\r\n5\r\npart2\r\n0\r\n\r\n"
        client.sendall(asked("/", b"again"))
        assert read(client)[2] == b"again"


def test_head_is_answered_with_the_length_alone(port: int) -> None:
    with closing(connected(port)) as client:
        client.sendall(asked("/", b"12345", "HEAD"))
        status, fields, body = read(client, head_only=True)
        assert (status, fields[b"content-length"], body) == (200, b"5", b"")
        client.sendall(asked("/", b"next"))
        assert read(client)[2] == b"next"


def test_an_answer_without_content_has_no_body_and_no_chunks(port: int) -> None:
    with closing(connected(port)) as client:
        client.sendall(asked("/none"))
        status, fields, body = read(client)
        assert (status, body) == (204, b"")
        assert b"transfer-encoding" not in fields
        client.sendall(asked("/", b"next"))
        assert read(client)[2] == b"next"


@pytest.mark.parametrize(
    ("path", "more", "version"), [("/close", "", "1.1"), ("/", "Connection: close\r\n", "1.1"), ("/", "", "1.0")]
)
def test_a_connection_ends_after_the_answer_where_one_side_wants_it(
    port: int, path: str, more: str, version: str
) -> None:
    with closing(connected(port)) as client:
        client.sendall(asked(path, b"", more=more, version=version))
        said = until_closed(client)
        assert said.startswith(b"HTTP/1.1 200 OK\r\n")
        assert said.count(b"connection: close") == 1


def test_a_line_break_in_a_field_is_never_written(port: int) -> None:
    with closing(connected(port)) as client:
        client.sendall(asked("/split"))
        status, fields, _ = read(client)
        assert status == 500
        assert b"x-injected" not in fields


@pytest.mark.parametrize("path", ["/short", "/long"])
def test_an_answer_that_is_not_as_long_as_it_says_ends_the_connection(port: int, path: str) -> None:
    with closing(connected(port)) as client:
        client.sendall(asked(path))
        assert b"five!" not in until_closed(client)


def test_a_client_that_waits_for_it_is_told_to_go_on(port: int) -> None:
    with closing(connected(port)) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
        assert client.recv(65_536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"body")
        assert read(client)[2] == b"body"


def test_a_client_that_waits_for_nothing_is_not_told_to_go_on(port: int) -> None:
    with closing(connected(port)) as client:
        client.sendall(asked("/unread", more="Expect: 100-continue\r\nConnection: close\r\n"))
        assert until_closed(client).startswith(b"HTTP/1.1 200 OK\r\n")


def test_requests_behind_each_other_are_answered_in_their_order(port: int) -> None:
    with closing(connected(port)) as client:
        client.sendall(b"".join(asked("/", b"%04d" % number) for number in range(200)))
        received = b""
        while received.count(b"HTTP/1.1 200 OK") < 200 or not received.endswith(b"0199"):
            part = client.recv(65_536)
            assert part, received
            received += part
        bodies = [part.partition(b"\r\n\r\n")[2] for part in received.split(b"HTTP/1.1 200 OK")[1:]]
        assert bodies == [b"%04d" % number for number in range(200)]
