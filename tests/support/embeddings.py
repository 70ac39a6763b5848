"""An endpoint on loopback that speaks OpenAI's embeddings API; its vectors compare words."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from aidre.engine.embedding.graph import HashingEmbedder
from aidre.engine.model import EmbeddingSpace
from tests.support.websites import CERTIFICATE, send

KEY = "sk-of-the-test-0123456789"


@dataclass
class Canned:
    """An answer to one request, instead of vectors; None for `body`: the connection ends without an answer."""

    body: bytes | None = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class EmbeddingsApi:
    """`canned` answers come first, each once; `always` comes every time. `asked` are the requests in their order.

    Texts of more than `longest` characters are refused with status 400. Vectors are returned last one first.
    """

    port: int = 0
    dimensions: int = 64
    key: str | None = None
    scheme: str = "http"
    longest: int = 1_000_000
    canned: list[Canned] = field(default_factory=list)
    always: Canned | None = None
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/v1"

    @property
    def texts(self) -> list[str]:
        return [text for asked in self.asked for text in asked["input"]]

    def vectors(self, texts: Sequence[str]) -> list[list[float]]:
        """What the endpoint answers; none has length 1."""
        space = EmbeddingSpace("", self.dimensions, "cosine", model="hashing")
        rows: list[list[float]] = (3 * HashingEmbedder(space).embed_documents(texts)).tolist()
        return rows

    def answer(self, path: str, key: str | None, asked: dict[str, Any]) -> Canned:
        self.asked.append(asked)
        self.keys.append(key)
        if self.canned or self.always is not None:
            return self.canned.pop(0) if self.canned else self.always or Canned()
        if path != "/v1/embeddings":
            return Canned(status=404)
        if self.key is not None and key != f"Bearer {self.key}":
            return Canned(f"wrong key {key}".encode(), 401)
        if max(map(len, asked["input"])) > self.longest:
            return Canned(status=400)
        items = [{"index": number, "embedding": row} for number, row in enumerate(self.vectors(asked["input"]))]
        return Canned(json.dumps({"object": "list", "data": items[::-1], "model": asked["model"]}).encode())


@contextmanager
def embedding(certified_in: Path | None = None) -> Iterator[EmbeddingsApi]:
    """With a folder it speaks TLS, with a certificate that nobody trusts."""
    api = EmbeddingsApi(scheme="http" if certified_in is None else "https")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle(self) -> None:
            with suppress(OSError):  # the client has had enough
                super().handle()

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            canned = api.answer(self.path, self.headers.get("Authorization"), asked)
            if canned.body is None:
                self.close_connection = True
            else:
                send(self, canned.status, canned.body, canned.headers)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if certified_in is not None:
        pem = certified_in / "tea.pem"
        pem.write_text(CERTIFICATE, encoding="ascii")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    api.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def api() -> Iterator[EmbeddingsApi]:
    with embedding() as api:
        yield api
