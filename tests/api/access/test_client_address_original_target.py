"""Which target is signed behind a proxy that rewrites it: only a trusted proxy names another spelling of the same."""

from __future__ import annotations

import pytest

from aidre.api.access import OriginalTarget
from aidre.api.config import ServerSettings
from aidre.api.http import request_target

BASE = "https://www.example.com/ai"
RECEIVED = "/chunks/notes/a%23chunk_1?collection=notes"
SENT = "/ai/chunks/notes%2Fa%23chunk_1?collection=notes"


def signed_target(
    *original: str,
    received: str = RECEIVED,
    host: str | None = "10.0.0.1",
    header: str = "X-Original-URI",
    server: ServerSettings | None = None,
) -> str:
    """The target that the application sees when a request comes from `host` with these header values."""
    path, _, query = received.partition("?")
    scope = {
        "type": "http",
        "client": None if host is None else (host, 4_711),
        "path": "/decoded",
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(b"host", b"x"), *((header.lower().encode(), one.encode("latin-1")) for one in original)],
    }
    server = server or ServerSettings(base_url=BASE, trusted_proxies=("10.0.0.0/8",))
    OriginalTarget(server).note(scope)
    return request_target(scope).decode()


def test_the_target_that_the_client_sent_is_taken_from_a_trusted_proxy() -> None:
    assert signed_target(SENT) == SENT.removeprefix("/ai")


@pytest.mark.parametrize(
    ("original", "received"),
    [
        ("/ai/chunks/a%2fb", "/chunks/a/b"),
        ("/ai/chunks/http:%2F%2Fx.example%2Fa", "/chunks/http:/x.example/a"),
        ("/ai/chunks/%61", "/chunks/a"),
        ("/ai/chunks/a%2520b", "/chunks/a%2520b"),
        ("/ai//chunks/./x/../a", "/chunks/a"),
        ("/ai/chunks/%C3%A4", "/chunks/%c3%a4"),
        ("/ai/", "/"),
        ("/ai/?", "/"),
    ],
)
def test_every_spelling_of_the_received_resource_is_taken(original: str, received: str) -> None:
    assert signed_target(original, received=received) == original.removeprefix("/ai")


@pytest.mark.parametrize("host", ["203.0.113.7", "9.255.255.255", None])
def test_the_header_of_anybody_else_is_ignored(host: str | None) -> None:
    assert signed_target(SENT, host=host) == RECEIVED


@pytest.mark.parametrize(
    "original",
    [
        "/ai/chunks/notes%2Fb%23chunk_1?collection=notes",
        "/ai/chunks/notes%252Fa%23chunk_1?collection=notes",
        "/ai/chunks/notes%2Fa%23chunk_1?collection=other",
        "/ai/chunks/notes%2Fa%23chunk_1",
        "/ai/chunks/notes%2Fa%23chunk_1/?collection=notes",
        "/chunks/notes%2Fa%23chunk_1?collection=notes",
        "/aichunks/notes%2Fa%23chunk_1?collection=notes",
        "https://www.example.com" + SENT,
        SENT + " HTTP/1.1",
        SENT.replace("notes%2F", "n\u00f6tes%2F"),
        SENT.replace("%2F", "\t"),
        SENT + '\n"@status": 200',
        "",
        "*",
    ],
)
def test_a_value_that_does_not_name_the_received_resource_is_ignored(original: str) -> None:
    assert signed_target(original) == RECEIVED


def test_a_repeated_header_is_ignored() -> None:
    assert signed_target(SENT, SENT) == RECEIVED


def test_the_name_of_the_header_is_that_of_the_configuration() -> None:
    server = ServerSettings(base_url=BASE, trusted_proxies=("10.0.0.1",), original_uri_header="X-Sent-Target")
    assert signed_target(SENT, server=server) == RECEIVED
    assert signed_target(SENT, server=server, header="x-sent-target") == SENT.removeprefix("/ai")


def test_a_base_url_without_a_path_has_no_prefix() -> None:
    server = ServerSettings(base_url="https://ai.example.com", trusted_proxies=("10.0.0.1",))
    assert signed_target("/chunks/a%2Fb", received="/chunks/a/b", server=server) == "/chunks/a%2Fb"
