"""For tests of ingest: a collection that is ingested again and again, and rows read from both formats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from numpy.typing import NDArray

from aidre.engine.collection.store import Store
from aidre.engine.embedding.embedder import Embedder
from aidre.engine.embedding.graph import HashingEmbedder
from aidre.engine.model import EmbeddingSpace
from aidre.ingest.pipeline.ingest import ingest
from aidre.ingest.pipeline.run import IngestOptions
from aidre.ingest.pipeline.run_events import Committed, DocumentProblem, Event, Notice, Summary

WORDS = EmbeddingSpace("words", 32, "cosine", normalized=True, provider="aidre", model="hashing")
BROUGHT = EmbeddingSpace("brought", 4, "cosine")
SCALED = EmbeddingSpace("scaled", 4, "dot", normalized=True)


class CountingEmbedder(HashingEmbedder):
    """Remembers what it was asked to embed."""

    def __init__(self, space: EmbeddingSpace) -> None:
        super().__init__(space)
        self.texts: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.texts += texts
        return super().embed_documents(texts)


@dataclass
class Bench:
    """A store, a folder of sources, and one collection that is ingested again and again."""

    root: Path
    spaces: tuple[EmbeddingSpace, ...] = (WORDS,)
    events: list[Event] = field(default_factory=list)
    embedder: CountingEmbedder = field(default_factory=lambda: CountingEmbedder(WORDS))
    now: datetime = datetime(2026, 6, 1, tzinfo=UTC)
    """For dates of publication."""

    @property
    def store(self) -> Store:
        return Store(self.root / "store")

    @property
    def docs(self) -> Path:
        return self.root / "docs"

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.docs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def rows(self, name: str, *rows: Any) -> Path:
        return self.write(name, b"".join(orjson.dumps(row) + b"\n" for row in rows))

    def run(self, *sources: str | Path, **options: Any) -> Summary:
        self.events, self.embedder.texts = [], []
        embedders: dict[str, Embedder] = {
            space.id: self.embedder for space in self.spaces if space.id == self.embedder.space.id
        }
        return ingest(
            self.store,
            "c",
            sources or [self.docs],
            spaces=self.spaces,
            embedders=embedders,
            options=IngestOptions(**options),
            report=self.events.append,
            clock=lambda: self.now,
        )

    @property
    def problems(self) -> list[str]:
        return [f"{event.where}: {event.reason}" for event in self.events if isinstance(event, DocumentProblem)]

    @property
    def notices(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Notice)]

    @property
    def commits(self) -> list[Committed]:
        return [event for event in self.events if isinstance(event, Committed)]

    def ids(self) -> list[str]:
        with self.store.writer("c", spaces=[self.embedder.space if s is WORDS else s for s in self.spaces]) as writer:
            return sorted(id for name in writer.source_roots() for id, _ in writer.documents_of(name))

    def text(self, chunk_id: str) -> str:
        chunk = self.store.open("c").get(chunk_id)
        assert chunk is not None
        return chunk.text

    def metadata(self, chunk_id: str) -> dict[str, Any]:
        chunk = self.store.open("c").get(chunk_id)
        assert chunk is not None
        read: dict[str, Any] = orjson.loads(b"{" + chunk.fragments[2] + b"}")
        return read


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)
