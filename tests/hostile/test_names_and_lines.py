"""No name leads out of the store, and nothing that a caller sends becomes a line of a header or of a log."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from urllib.parse import quote, urlsplit

import h11
import pytest

from aidre.engine.collection.store import Store
from aidre.engine.errors import CollectionMissing, InvalidInput
from tests.support.clients import TEXT, a_document, fill, serving
from tests.support.clocks import WAIT_SECONDS
from tests.support.processes import running

DOTS = (
    "..",
    ".",
    "%2e%2e",
    "%252e%252e",
    ".%2e",
    "\u2025",
    "\uff0e\uff0e",
    "\u2024\u2024",
    "..\x00",
    "..;",
    "\xc0\xae\xc0\xae",
    "...",
)
SLASHES = ("/", "\\", "%2f", "%5c", "%252f", "\u2215", "\uff0f", "//", "/./", "\x00/")
TARGETS = ("beside", "etc/passwd", "docs")
OTHERS = (
    "", " ", ".", "..", "~", "~root", ".log", ".hidden", "/", "/etc", "//etc", "-rf", "a b", "A", "\u00e9", "docs/",
    "docs/.",
    "docs\x00", "docs\n", "docs\r\nx: y", "\u202edocs", "do\u200bcs", "docs\ufeff", "\ud7ff", "con:", "C:\\docs",
    "a" * 65,
    "a" * 5_000, "docs\u0300", "\uff44\uff4f\uff43\uff53", "%64ocs", "${HOME}", "$(id)", "`id`", "docs;id", "docs|id",
    "*", "d?cs",
)  # fmt: skip
NAMES = [*dict.fromkeys([*OTHERS, *("".join(parts) for parts in product(DOTS, SLASHES, TARGETS))])]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Beside it lies another store, which no name may reach."""
    fill(tmp_path / "store", "docs", [a_document("d", "alpha")], (TEXT,))
    fill(tmp_path, "beside", [a_document("d", "SECRET")], (TEXT,))
    return tmp_path / "store"


def test_there_are_two_hundred_hostile_names() -> None:
    assert len(NAMES) >= 200


def test_no_name_of_a_collection_leads_out_of_the_store(store: Path) -> None:
    before = sorted(store.parent.rglob("*"))
    for name in NAMES:
        with pytest.raises(InvalidInput):
            Store(store).writer(name, spaces=[TEXT])
        with pytest.raises(CollectionMissing):
            Store(store).open(name)
    assert sorted(store.parent.rglob("*")) == before


def test_no_name_in_a_request_leads_out_of_the_store(store: Path) -> None:
    with serving(store) as client:
        for name in NAMES:
            encoded = quote(name, safe="")
            asked = client.search({"query": "SECRET", "collection": name})
            assert asked.status_code in (400, 404), (name, asked.text)
            for path in (
                "/collections/{}",
                "/collections/{}/changes",
                "/chunks/{}?collection={}",
                "/chunks/d?collection={}",
            ):
                answer = client.get(path.replace("{}", encoded))
                assert answer.status_code < 500, (name, answer.text)
                assert "SECRET" not in answer.text, name


# -- what stands in lines ------------------------------------------------------------------------------------------

BREAKS = (
    "\r\nx-injected: 1",
    "\nx-injected: 1",
    "\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    "\rx-injected: 1",
    "\x00x",
    "\x0b\x0cx",
    "\u2028x",
    "\x1b[31m",
)
PATHS = (
    "/chunks/{}",
    "/collections/{}",
    "/collections/{}/changes?since={}",
    "/ask?query={}&site={}",
    "/search?{}",
    "/{}",
    "/sites?q={}",
)
FIELDS = (
    "accept", "authorization", "origin", "if-none-match", "x-request-id", "access-control-request-headers", "host",
    "x-aip-key-id", "content-type", "x-forwarded-for", "forwarded", "user-agent", "mcp-session-id", "prefer", "cookie",
)  # fmt: skip


def _requests() -> Iterator[bytes]:
    for broken in BREAKS:
        raw = broken.encode()
        for path in PATHS:
            yield f"GET {path.replace('{}', quote(broken, safe=''))} HTTP/1.1\r\nhost: a\r\n\r\n".encode()
        for field in FIELDS:
            method = b"OPTIONS" if field.startswith("access") else b"GET"
            yield method + b" /collections HTTP/1.1\r\nhost: a\r\norigin: https://a\r\n%b: x%b\r\n\r\n" % (
                field.encode(),
                raw,
            )
        body = json.dumps({"query": broken, "collection": broken, "cursor": broken, "mode": broken}).encode()
        for path in ("/search", "/ask", "/await", "/mcp", "/aip/retrieve"):
            head = f"POST {path} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
            yield f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


def _answer(address: tuple[str, int], request: bytes) -> list[tuple[bytes, bytes]]:
    """The header fields of the first answer, read strictly; none where the connection was closed without one."""
    parser = h11.Connection(h11.CLIENT)
    parser.send(h11.Request(method="GET", target="/", headers=[("host", "a")]))
    parser.send(h11.EndOfMessage())
    with socket.create_connection(address, timeout=WAIT_SECONDS) as connection:
        connection.sendall(request)
        while True:
            piece = connection.recv(65_536)
            if not piece:
                return []
            parser.receive_data(piece)
            event = parser.next_event()
            if isinstance(event, h11.Response):
                return list(event.headers)


@pytest.mark.process
def test_nothing_that_is_sent_becomes_a_line_of_a_header_or_of_a_log(store: Path, tmp_path: Path) -> None:
    settings = tmp_path / "aidre.toml"
    settings.write_text('[server]\nlog = "requests"\ncors_origins = ["https://a"]\n')
    answered = 0
    with running(store, settings=settings) as server:
        parts = urlsplit(server.url)
        for request in _requests():
            headers = _answer((str(parts.hostname), int(parts.port or 0)), request)
            answered += bool(headers)
            for name, value in headers:
                assert b"injected" not in name.lower(), request
                assert re.fullmatch(rb"[\x20-\x7e]*", value), (request, name, value)
        assert server.stop() == 0
        assert server.process.stdout is not None
        assert server.process.stderr is not None
        lines = [*server.process.stdout.read().splitlines(), *server.process.stderr.read().splitlines()]
    assert answered > 100
    assert len(lines) > 100
    for line in lines:
        assert isinstance(json.loads(line), dict), line
