"""What the tests of the HTTP side share: small real stores, and a client that calls an application in this process."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray
from prometheus_client.parser import text_string_to_metric_families

from aidre.api.app import create_app
from aidre.api.config.settings import Settings, parse_settings
from aidre.engine.embedding.embedder import embedding_keys, load_embedder
from aidre.engine.model import Chunk, Document, EmbeddingSpace, Record, Visibility
from aidre.engine.ports import Source
from tests.support.described import check_described
from tests.support.engines import chosen_source

AIDRE = "application/aidre+json"
BASE = "http://127.0.0.1:8000"
TEXT = EmbeddingSpace("aidre:hashing:64:cosine:v1", 64, "cosine", True, "aidre", "hashing", "hashing;v1")
COSINE = EmbeddingSpace("test:plain:4:cosine:v1", 4, "cosine", True)
DOT = EmbeddingSpace("test:plain:4:dot:v1", 4, "dot")
EUCLIDEAN = EmbeddingSpace("test:plain:4:euclidean:v1", 4, "euclidean")
PLAIN = (COSINE, DOT, EUCLIDEAN)
AGENTS = """
[intent]
enabled = true
full_article = true
[intent.editorial_domains."of.docs"]
collection = "docs"
[intent.keys]
platform = "test-secret-0123456789abcdef"
[[intakes]]
id = "find"
collection = "docs"
bind_requires = ["email"]
[intake]
bind_key = "a bind key that the tests know"
"""
"""Of a configuration: what opens the collection docs to Agentic Intent and to Agent Intake."""


def vector_of(document_id: str) -> NDArray[np.float32]:
    """A vector that depends on nothing but the id."""
    seed = int.from_bytes(hashlib.blake2b(document_id.encode(), digest_size=4).digest(), "big")
    return np.random.default_rng(seed).normal(size=4).astype(np.float32)


def a_document(document_id: str, text: str, **members: Any) -> Document:
    known: dict[str, Any] = {"updated_at": "2026-04-01T10:00:00Z", **members}
    return Document(document_id, text, **known)


def _fingerprint(document: Document) -> bytes:
    return hashlib.blake2b(repr(document).encode(), digest_size=16).digest()


def fill(
    store: Path,
    name: str,
    documents: Sequence[Document],
    spaces: Sequence[EmbeddingSpace] = (TEXT,),
    visibility: Visibility = "public",
) -> None:
    """Writes one chunk a document into the store of a folder, with vectors in every space, and commits."""
    fill_source(chosen_source(store), name, documents, spaces, visibility)


def fill_source(
    source: Source,
    name: str,
    documents: Sequence[Document],
    spaces: Sequence[EmbeddingSpace] = (TEXT,),
    visibility: Visibility = "public",
) -> None:
    """Writes one chunk a document, with vectors in every space, and commits."""
    records = [
        Record(one, (Chunk(f"{one.id}#chunk_1", 1, one.text, 0, len(one.text), one.section),), _fingerprint(one))
        for one in documents
    ]
    texts = [one.text for one in documents]
    with source.writer(name, spaces=spaces, description=f"About {name}", visibility=visibility) as writer:
        encoded, keys = {}, {}
        for space in spaces:
            if space.model is None:
                vectors = np.stack([vector_of(one.id) for one in documents])
            else:
                vectors = load_embedder(space).embed_documents(texts)
                keys[space.id] = embedding_keys(space, texts)
            encoded[space.id] = writer.encode(space.id, vectors)
        writer.upsert(records, encoded, keys)
        writer.commit()


def delete(store: Path, name: str, document_ids: Sequence[str], spaces: Sequence[EmbeddingSpace] = (TEXT,)) -> None:
    with chosen_source(store).writer(name, spaces=spaces) as writer:
        writer.delete(document_ids)
        writer.commit()


class Client:
    """Calls an application in one event loop. It sends no header that a test does not name, and follows nothing."""

    def __init__(self, store: Path, settings: Settings, source: Source | None = None) -> None:
        self.store = store
        self.app = create_app(chosen_source(store) if source is None else source, settings)
        self._runner = asyncio.Runner()
        self._http = httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url=BASE)
        self._http.headers.clear()

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        response = self._runner.run(self._http.request(method, path, **options))
        check_described(response)
        return response

    def get(self, path: str, headers: dict[str, str] | None = None) -> httpx.Response:
        return self.request("GET", path, headers=headers)

    def search(self, body: Any, **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.request("POST", "/search", json=body, headers={"content-type": AIDRE, **named})

    def post(self, content: bytes | AsyncIterator[bytes], **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.request("POST", "/search", content=content, headers={"content-type": AIDRE, **named})

    def refresh(self) -> None:
        """What the server does by itself a few times a second."""
        self.app.state.retrieval.snapshots.refresh()

    def close(self) -> None:
        self._runner.run(self._http.aclose())
        if self.app.state.intake is not None:
            self._runner.run(self.app.state.intake.close())
        self._runner.run(self.app.state.nlweb.promises.close())
        if hasattr(self.app.state, "document_writes"):
            self._runner.run(self.app.state.document_writes.close())
            self.app.state.idempotency_keys.close()
        self.app.state.retrieval.close()
        self._runner.close()


@contextmanager
def serving(
    store: Path, configuration: str | Settings = "", *, is_local: bool = False, source: Source | None = None
) -> Iterator[Client]:
    """A client of an application over a store, or over another `source` in that folder.

    Unless the configuration says otherwise, pages of every origin may ask, as they may of a server with a public
    `base_url`; with `is_local` those of loopback alone, as of a server without one.
    """
    settings = parse_settings(configuration) if isinstance(configuration, str) else configuration
    if settings.server.cors_origins is None and not is_local:
        settings = replace(settings, server=replace(settings.server, cors_origins=("*",)))
    if settings.server.base_url is None:
        settings = replace(settings, server=replace(settings.server, base_url=BASE))
    client = Client(store, settings, source)
    try:
        yield client
    finally:
        client.close()


def metrics_of(client: Client | httpx.Client) -> dict[str, float]:
    response = client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert response.headers["cache-control"] in {"no-store", "no-store, no-transform"}, "the latter if it is signed"
    return samples(response.text)


def samples(text: str) -> dict[str, float]:
    """Every sample by its name and labels, as the parser of Prometheus' own client reads them."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            key = f"{sample.name}{{{labels}}}" if labels else sample.name
            assert key not in found
            found[key] = sample.value
    return found
