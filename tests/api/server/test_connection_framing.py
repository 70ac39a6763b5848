"""Where one request ends and the next begins, and what belongs to its header: nothing that a proxy sees otherwise."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.clocks import until
from tests.support.servers import CountingConnection, Served, Server, running, served, until_closed

POST = b"POST /first HTTP/1.1\r\nHost: x\r\n"
NEXT = b"GET /next HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


class Narrow(CountingConnection):
    header_bytes = 20_000


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Says what it was asked: method, path, the names of the header fields, the body."""
    body, more = b"", scope["path"] != "/early"
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body, more = body + message["body"], message["more_body"]
    if scope["path"] == "/stream":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for part in (b"one ", b"two", b""):
            await send({"type": "http.response.body", "body": part, "more_body": part != b""})
        return
    names = [name.decode() for name, _ in scope["headers"]]
    said = json.dumps([scope["method"], scope["path"], names, body.decode()]).encode() + b"\n"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(said))]})
    await send({"type": "http.response.body", "body": said})


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Of the small application."""
    with running(application, Narrow) as server:
        yield server


def told(server: Server, *pieces: bytes) -> tuple[bytes, list[Any]]:
    """Sends the pieces, each after what the server makes of the one before it; the first line that came, and what the
    application said to each request."""
    received = b""
    with closing(server.connect()) as client, suppress(ConnectionResetError, BrokenPipeError):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces[:-1]:
            server.take(client, piece)
            server.turn()
        client.sendall(pieces[-1])
        while part := client.recv(65_536):
            received += part
    return received.partition(b"\r\n")[0], [json.loads(line) for line in received.splitlines() if line[:1] == b"["]


def split(content: bytes, at: Sequence[int]) -> list[bytes]:
    """Cut at these places."""
    return [content[begin:end] for begin, end in zip((0, *at), (*at, len(content)), strict=True)]


def test_a_trailer_is_no_header_field(server: Server) -> None:
    trailer = b"X-Forwarded-For: 203.0.113.9\r\nAuthorization: Bearer stolen\r\n"
    request = CHUNKED + b"3\r\nabc\r\n0\r\n" + trailer + b"\r\n" + NEXT
    for pieces in ([request], split(request, [len(CHUNKED), len(CHUNKED) + 8, len(CHUNKED) + 20])):
        _, said = told(server, *pieces)
        assert said == [
            ["POST", "/first", ["host", "transfer-encoding"], "abc"],
            ["GET", "/next", ["host", "connection"], ""],
        ]


@pytest.mark.parametrize("what", ["trailer", "extension"])
def test_what_surrounds_the_parts_of_a_body_is_limited(server: Server, what: str) -> None:
    endless = b"0\r\n" + b"X-Filler: y\r\n" * 200_000 if what == "trailer" else b"3;" + b"y" * 2_000_000
    _, said = told(server, CHUNKED, endless, b"\r\n\r\n" + NEXT)
    assert said == []


OFFER = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
UPGRADE = POST + OFFER + b"Content-Length: 31\r\n\r\n"
INSIDE = b"GET /smuggled HTTP/1.1\r\nHost:\r\n\r\n"[:31]


@pytest.mark.parametrize("at", [[], [len(UPGRADE)], [30, len(UPGRADE), len(UPGRADE) + 7], [len(UPGRADE) - 1]])
def test_the_body_of_a_request_that_offers_another_protocol_is_its_body(server: Server, at: list[int]) -> None:
    _, said = told(server, *split(UPGRADE + INSIDE + NEXT, at))
    names = ["host", "connection", "http2-settings", "content-length"]
    assert said == [["POST", "/first", names, INSIDE.decode()], ["GET", "/next", ["host", "connection"], ""]]


def test_many_offers_of_another_protocol_are_as_many_requests(server: Server) -> None:
    offer = b"GET /offer HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    _, said = told(server, offer * 300 + NEXT)
    assert [path for _, path, _, _ in said] == ["/offer"] * 300 + ["/next"]


@pytest.mark.parametrize(
    "fields",
    [
        b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: 3\r\nContent-Length: 3\r\n",
        b"Content-Length: 3, 3\r\n",
        b"Content-Length: +3\r\n",
        b"Content-Length: 99999999999999999999\r\n",
        b"Transfer-Encoding: xchunked\r\nContent-Length: 3\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        b"Transfer-Encoding : chunked\r\nContent-Length: 3\r\n",
        b"X: a\r\n Content-Length: 3\r\n",
        b"X: a\rContent-Length: 3\r\n",
        b"X: a\nContent-Length: 3\r\n",
    ],
)
def test_a_body_whose_length_is_in_doubt_is_refused(server: Server, fields: bytes) -> None:
    first, said = told(server, POST + fields + b"\r\n0\r\n\r\n" + NEXT)
    assert (first, said) == (b"HTTP/1.1 400 Bad Request", [])


@pytest.mark.parametrize("size", [b"0x3", b"3 ", b"-3", b"FFFFFFFFFFFFFFFF3", b"3\n"])
def test_a_part_whose_size_is_in_doubt_is_refused(server: Server, size: bytes) -> None:
    rest = size + b"\r\nabc\r\n0\r\n\r\n" + NEXT
    assert told(server, CHUNKED, rest) == (b"HTTP/1.1 400 Bad Request", [])


def test_a_body_that_was_not_read_is_not_the_next_request(server: Server) -> None:
    early = b"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(INSIDE)
    for pieces in ([early + INSIDE + NEXT], [early, INSIDE, NEXT]):
        assert [path for _, path, _, _ in told(server, *pieces)[1]] == ["/early", "/next"]


def test_an_answer_of_unknown_length_comes_in_parts_or_until_the_end_of_the_connection(
    server: Server,
) -> None:
    parts = server.say(b"GET /stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert b"transfer-encoding: chunked" in parts
    assert parts.endswith(b"4\r\none \r\n3\r\ntwo\r\n0\r\n\r\n")
    whole = server.say(b"GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    assert b"transfer-encoding" not in whole
    assert b"connection: close\r\n" in whole
    assert whole.endswith(b"\r\n\r\none two")


def test_after_an_answer_that_did_not_wait_for_the_body_nothing_is_read_any_more(server: Server) -> None:
    expecting = b" HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 200\r\n\r\n"
    refused = server.say(b"POST /early" + expecting)
    assert refused.startswith(b"HTTP/1.1 200 ")
    assert b"connection: close\r\n" in refused
    invited, said = told(server, b"POST /first" + expecting, b"x" * 200 + NEXT)
    assert invited == b"HTTP/1.1 100 Continue"
    assert [path for _, path, _, _ in said] == ["/first", "/next"]


def test_an_answer_that_did_not_wait_for_a_faulty_body_is_the_only_one(server: Server) -> None:
    early = b"POST /early HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert server.say(early + b"3\r\nabcX").count(b"HTTP/1.1 ") == 1
    line, said = told(server, early, b"3\r\nabcX" + NEXT)
    assert (line, [path for _, path, _, _ in said]) == (b"HTTP/1.1 200 OK", ["/early"])


@pytest.fixture(scope="module")
def aidre(store: Path) -> Iterator[Served]:
    """Of the whole of aidre."""
    with served(store) as (one, _):
        yield one


ALIVE = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
SEARCH = b"POST /search HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
OPEN = SEARCH + b"Transfer-Encoding: chunked\r\n\r\n11\r\n" + b'{"query":"alpha"}'
FAULTY = [SEARCH + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", OPEN + b"XX0\r\n\r\n", OPEN + b"\r\nFAULT\r\n"]


def statuses(said: bytes) -> list[bytes]:
    return [part[:3] for part in said.split(b"HTTP/1.1 ")[1:]]


@pytest.mark.parametrize("faulty", FAULTY)
@pytest.mark.parametrize("before", [0, 1, 5])
def test_a_body_that_ends_nowhere_is_refused_behind_the_answers_to_what_came_before(
    aidre: Served, faulty: bytes, before: int
) -> None:
    said = aidre.say(ALIVE * before + faulty + ALIVE)
    assert statuses(said) == [b"200"] * before + [b"400"]
    head, _, body = said.rpartition(b"HTTP/1.1 400 ")[2].partition(b"\r\n\r\n")
    assert head.lower().count(b"\r\nconnection: close") == 1
    assert json.loads(body)["error"] == "invalid_request"
    assert json.loads(body)["request_id"].encode() in head


def test_a_body_that_goes_wrong_under_way_is_refused(aidre: Served) -> None:
    asked = aidre.asked
    with closing(aidre.connect()) as client:
        client.sendall(OPEN)
        until(lambda: aidre.asked > asked)
        client.sendall(b"XX0\r\n\r\n" + ALIVE)
        said = until_closed(client)
    assert statuses(said) == [b"400"]
    assert b"\r\nx-request-id: req_" in said
    assert b"\r\nx-content-type-options: nosniff\r\n" in said


@pytest.mark.parametrize("stray", [b"\0", b"\0" * 100_000, b"XXX\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"])
@pytest.mark.parametrize("before", [1, 5])
def test_what_is_no_request_takes_no_answer_from_those_before_it(aidre: Served, stray: bytes, before: int) -> None:
    said = aidre.say(ALIVE * before + stray)
    assert statuses(said) == [b"200"] * before
    assert said.count(b"connection: close") == 1


@pytest.mark.parametrize("version", [b"2.0", b"0.9"])
def test_another_version_is_not_spoken(aidre: Served, version: bytes) -> None:
    asked = b"GET /healthz HTTP/" + version + b"\r\nHost: x\r\n\r\n"
    assert aidre.say(asked + ALIVE).startswith(b"HTTP/1.1 505 HTTP Version Not Supported\r\n")
    assert statuses(aidre.say(ALIVE + asked + ALIVE)) == [b"200"]


@pytest.mark.parametrize("target", [b"/healthz#", b"/healthz#x", b"/healthz?a#b", b"http://x/healthz#x", b"#"])
def test_a_target_has_no_fragment(aidre: Served, target: bytes) -> None:
    asked = b"GET " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n"
    assert statuses(aidre.say(asked + ALIVE)) == [b"400"]
    assert statuses(aidre.say(ALIVE + asked + ALIVE)) == [b"200"]


def test_what_the_connection_itself_answers_has_an_id_and_a_date(aidre: Served) -> None:
    said = [aidre.say(b"\0"), aidre.say(b"\0"), aidre.say(b"GET /healthz HTTP/2.0\r\nHost: x\r\n\r\n")]
    ids = {part for one in said for part in one.split(b"\r\n") if part.startswith(b"x-request-id: req_")}
    assert len(ids) == 3
    assert all(b"\r\ndate: " in one for one in said)


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (b"GET /chunks/a#chunk_1 HTTP/1.1\r\nHost: x\r\n\r\n", b"400"),
        ("GET /chunks/ü HTTP/1.1\r\nHost: x\r\n\r\n".encode(), b"400"),
        (b"ASK /search HTTP/1.1\r\nHost: x\r\n\r\n", b"400"),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", b"431"),
        (b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", b"505"),
    ],
)
def test_what_no_protocol_has_seen_is_refused_by_a_json_object(aidre: Served, asked: bytes, status: bytes) -> None:
    said = aidre.say(asked)
    head, _, body = said.partition(b"\r\n\r\n")
    assert statuses(said) == [status]
    assert b"\r\ncontent-type: application/aidre+json\r\n" in head
    error = json.loads(body)
    assert set(error) == {"error", "message", "details", "request_id"}
    assert b"\r\nx-request-id: " + error["request_id"].encode() in head
    assert b"\r\ncontent-length: %d\r\n" % len(body) in head


def test_a_head_request_that_no_protocol_has_seen_gets_no_body(aidre: Served) -> None:
    said = aidre.say(b"HEAD /chunks/a#chunk_1 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert statuses(said) == [b"400"]
    assert said.endswith(b"\r\n\r\n")
