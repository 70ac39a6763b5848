"""For tests of a space that joins a collection: a stored collection, runs that fill the space, and what to check."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from aidre.engine.collection import backfill
from aidre.engine.collection.store import Store
from aidre.engine.embedding.graph import HashingEmbedder
from aidre.engine.maintenance.verify import verify
from aidre.engine.model import EmbeddingSpace, Query
from aidre.engine.segment.stored_chunk import StoredChunk
from aidre.engine.storage.manifest import read_manifest
from aidre.ingest.pipeline.ingest import ingest
from aidre.ingest.pipeline.run import IngestOptions
from aidre.ingest.pipeline.run_events import EmbedSummary, Event, Summary
from aidre.ingest.pipeline.space_backfill import embed_space
from tests.support.ingests import WORDS, Bench, CountingEmbedder

MORE = EmbeddingSpace("more:48", 48, "cosine", provider="aidre", model="hashing")


class Stopped(Exception):
    """What interrupts a run in these tests."""


class Stopping(CountingEmbedder):
    """Fails after so many texts."""

    def __init__(self, space: EmbeddingSpace, after: int) -> None:
        super().__init__(space)
        self.after = after

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if len(self.texts) + len(texts) > self.after:
            raise Stopped
        return super().embed_documents(texts)


class Revised(CountingEmbedder):
    """The next revision of the model, whose vectors point the other way."""

    def __init__(self, space: EmbeddingSpace) -> None:
        super().__init__(space)
        self.space = replace(self.space, revision="next")

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return -super().embed_documents(texts)


def stored(tmp_path: Path) -> Bench:
    """Forty documents in several segments, one of them deleted and one changed."""
    bench = Bench(tmp_path)
    for start in (0, 20):
        for number in range(start, start + 20):
            bench.write(f"{number:02}.md", f"# Document {number}\n\nWord{number} and a boat.")
        bench.run()
    bench.write("05.md", "# Document 5\n\nChanged.")
    (bench.docs / "07.md").unlink()
    bench.run(mirror=True)
    return bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return stored(tmp_path)


def embed(
    bench: Bench, embedder: HashingEmbedder | None = None, report: Callable[[Event], None] = lambda event: None
) -> EmbedSummary:
    embedder = embedder or CountingEmbedder(MORE)
    stored = bench.store.open("c").collection.spaces
    embedders = {WORDS.id: bench.embedder, embedder.space.id: embedder}
    return embed_space(bench.store, "c", embedder.space, stored=stored, embedders=embedders, report=report)


def state_of(store: Store, space_id: str = MORE.id) -> str | None:
    states = {state.space.id: state.state for state in store.open("c").manifest.spaces}
    return states.get(space_id)


def check_complete(bench: Bench, space: EmbeddingSpace = MORE, sign: int = 1) -> None:
    """Every live chunk has the vector of its text, every search finds the chunk itself, no file is damaged."""
    snapshot = bench.store.open("c")
    (report,) = verify(bench.store)
    assert report.problems == ()
    assert snapshot.warnings == ()
    embedder = HashingEmbedder(space)
    checked = 0
    for part in snapshot.segments:
        for row in np.flatnonzero(np.ones(part.segment.entry.chunks) if part.live.mask is None else part.live.mask):
            chunk = StoredChunk(part.segment, int(row))
            section = f"{chunk.title} > {chunk.section}" if chunk.section not in (None, chunk.title) else chunk.title
            [wanted] = sign * embedder.embed_documents([f"{section}\n{chunk.text}"])
            np.testing.assert_allclose(chunk.vectors()[space.id], wanted, atol=1e-3)
            hits = snapshot.search(Query(wanted, space.id, snapshot.chunks))
            assert hits[0].chunk.id == chunk.id
            assert len(hits) == snapshot.chunks
            checked += 1
    assert checked == snapshot.chunks > 0


def everything(bench: Bench) -> dict[str, str]:
    snapshot = bench.store.open("c")
    [query] = HashingEmbedder(WORDS).embed_queries(["boat"])
    return {hit.chunk.id: hit.chunk.text for hit in snapshot.search(Query(query, WORDS.id, 1000))}


def both(bench: Bench, **options: object) -> Summary:
    """An ingest whose configuration lists both spaces."""
    bench.events, bench.embedder.texts = [], []
    return ingest(
        bench.store,
        "c",
        [bench.docs],
        spaces=[WORDS, MORE],
        embedders={WORDS.id: bench.embedder, MORE.id: HashingEmbedder(MORE)},
        options=IngestOptions(**options),  # type: ignore[arg-type]
        report=bench.events.append,
    )


def interrupt(bench: Bench, after: int, monkeypatch: pytest.MonkeyPatch) -> Stopping:
    """A run that ends after so many texts, in batches of four, each segment committed."""
    monkeypatch.setattr(backfill, "BATCH_CHUNKS", 4)
    monkeypatch.setattr(backfill, "COMMIT_SECONDS", 0.0)
    stopping = Stopping(MORE, after)
    with pytest.raises(Stopped):
        embed(bench, stopping)
    return stopping


def contents(bench: Bench, generation: int) -> dict[Path, bytes]:
    """The files of a generation."""
    folder = bench.store.path / "c"
    manifest = read_manifest(folder / "manifests", generation, "c")
    paths = [folder / "segments" / entry.id / name for entry in manifest.segments for name in entry.files]
    return {path: path.read_bytes() for path in paths}
