"""For which host a request is: said once and well, or the request is refused in the words of its protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.support.servers import Served, served

INTENT = """
[intent]
publisher = {id = "pub", name = "Publisher", domain = "example.com"}
keys = {agent = "secret-secret-secret-secret-secret"}
[intent.editorial_domains."tea"]
collection = "docs"
[[intakes]]
id = "find"
name = "Find"
description = "Finds"
category = "data/retrieval"
collection = "docs"
query = "{need}"
input_schema = {type = "object", properties = {need = {type = "string"}}, required = ["need"]}
"""
ONE, GOOD = b"Host: x\r\n", b"HTTP/1.1 200 OK\r\n"


@pytest.fixture(scope="module")
def server(store: Path) -> Iterator[Served]:
    with served(store, INTENT) as (one, _):
        yield one


def asked(hosts: bytes, path: bytes = b"/healthz", version: bytes = b"1.1", method: bytes = b"GET") -> bytes:
    """A request after which the server would not end the connection by itself, and one after which it does."""
    first = method + b" " + path + b" HTTP/" + version + b"\r\n" + hosts + b"\r\n"
    return first + b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    "hosts",
    [
        b"",
        b"X-Host: x\r\n",
        b"Host: x\r\nHost: x\r\n",
        b"Host: x\r\nhOST: y\r\n",
        b"Host: x y\r\n",
        b"Host: x/y\r\n",
        b"Host: user@x\r\n",
        b"Host: x:80:80\r\n",
        b"Host: x:http\r\n",
        b"Host: http://x\r\n",
        b"Host: [::1\r\n",
        b"Host: [zz]\r\n",
        b"Host: ::1\r\n",
        b"Host: x%2\r\n",
        b"Host: x\xc3\xa9\r\n",
        b"Host: <x>\r\n",
        b"Host: x#y?z\r\n",
    ],
)
def test_a_request_that_leaves_its_host_in_doubt_is_refused_and_ends_its_connection(
    server: Served, hosts: bytes
) -> None:
    head, _, body = server.say(asked(hosts)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert head.lower().count(b"connection: close") == 1
    said: dict[str, Any] = orjson.loads(body)  # and nothing else: what follows is not looked at
    assert said["error"] == "invalid_request"
    assert "Host" in said["message"]


@pytest.mark.parametrize(
    "value",
    [
        b"x", b"ai.example.com", b"AI.Example.com:8443", b"127.0.0.1:80", b"[::1]", b"[2001:db8::7]:443", b"x:", b"",
        b"my_host", b"xn--caf-dma.example", b"a%20b", b"x \t",
    ],
)  # fmt: skip
def test_every_valid_host_is_served(server: Served, value: bytes) -> None:
    assert server.say(asked(b"Host: " + value + b"\r\n")).count(GOOD) == 2


def test_a_client_of_the_former_version_need_not_name_its_host(server: Served) -> None:
    assert server.say(asked(b"", version=b"1.0")).startswith(GOOD)
    assert server.say(asked(ONE, version=b"1.0")).startswith(GOOD)
    for hosts in (ONE + ONE, b"Host: x y\r\n"):
        assert server.say(asked(hosts, version=b"1.0")).startswith(b"HTTP/1.1 400 ")


def test_each_request_of_a_connection_is_looked_at(server: Served) -> None:
    good = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    said = server.say(good + good + b"GET /healthz HTTP/1.1\r\n\r\n" + good)
    assert (said.count(GOOD), said.count(b"HTTP/1.1 400 ")) == (2, 1)


def test_a_name_in_the_address_takes_the_place_of_none(server: Served) -> None:
    assert server.say(asked(b"", b"http://127.0.0.1/healthz")).startswith(b"HTTP/1.1 400 ")
    assert server.say(asked(ONE, b"http://127.0.0.1/healthz")).startswith(GOOD)


@pytest.mark.parametrize("path", [b"/search", b"/ask", b"/mcp", b"/aip/retrieve", b"/intakes/find", b"/nothing"])
def test_each_protocol_refuses_in_its_own_words(server: Served, path: bytes) -> None:
    head, _, body = server.say(asked(b"", path, method=b"POST")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert "Host" in orjson.dumps(orjson.loads(body)).decode()


def test_a_preflight_is_no_exception(server: Served) -> None:
    asks = b"Origin: https://example.com\r\nAccess-Control-Request-Method: POST\r\n"
    assert server.say(asked(ONE + asks, method=b"OPTIONS")).startswith(b"HTTP/1.1 204 ")
    assert server.say(asked(asks, method=b"OPTIONS")).startswith(b"HTTP/1.1 400 ")


def test_a_full_server_says_it_too(server: Served) -> None:
    with server.full():
        assert server.say(asked(b"", b"/search")).startswith(b"HTTP/1.1 400 ")
        assert server.say(asked(ONE, b"/search")).startswith(b"HTTP/1.1 503 ")
        assert server.say(asked(ONE, b"/search")).startswith(b"HTTP/1.1 503 ")
        assert server.say(asked(b"", b"/search")).startswith(b"HTTP/1.1 400 ")
