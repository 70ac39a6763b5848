"""Another revision of a model: what is stored is embedded anew, in one generation, before anything else is taken in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from aidre.engine.embedding.embedder import embedding_keys
from aidre.engine.errors import ModelUnavailable, SpaceConflict
from aidre.engine.model import EncodedVectors
from aidre.engine.segment.stored_chunk import StoredChunk
from aidre.ingest.chunking import Chunker
from aidre.ingest.pipeline.embedding import StoredChunkEncoder
from aidre.ingest.pipeline.run_events import Notice
from tests.support.backfills import Revised
from tests.support.ingests import WORDS, Bench
from tests.support.stores import record


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = Bench(tmp_path)
    bench.write("a.md", "# Harbour\n\nBoats and ropes.")
    bench.write("b.md", "# Kitchen\n\nBuns and plums.")
    bench.run()
    return bench


def vector_of(bench: Bench, chunk_id: str) -> NDArray[np.float32]:
    chunk = bench.store.open("c").get(chunk_id)
    assert chunk is not None
    return chunk.vectors()[WORDS.id]


def test_every_stored_chunk_is_embedded_anew_also_of_documents_that_the_run_does_not_read(bench: Bench) -> None:
    before = {name: vector_of(bench, f"docs/{name}.md#chunk_1") for name in "ab"}
    (bench.docs / "b.md").unlink()
    bench.embedder = Revised(WORDS)
    bench.run()
    for name, vector in before.items():
        np.testing.assert_allclose(vector_of(bench, f"docs/{name}.md#chunk_1"), -vector, atol=1e-6)
    snapshot = bench.store.open("c")
    assert (snapshot.documents, snapshot.collection.spaces[0].revision) == (2, "next")
    assert any(isinstance(event, Notice) and "embedded again" in event.text for event in bench.events)


def test_strings_are_embedded_once_for_the_revision_and_known_afterwards(bench: Bench) -> None:
    bench.embedder = Revised(WORDS)
    summary = bench.run()
    assert len(bench.embedder.texts) == 2
    assert summary.embedded == 2
    again = bench.run()
    assert (bench.embedder.texts, again.updated, again.unchanged) == ([], 0, 2)


def test_what_fails_while_it_is_embedded_anew_leaves_the_old_revision(bench: Bench) -> None:
    def refuse(chunks: Sequence[StoredChunk]) -> tuple[EncodedVectors, Sequence[bytes]]:
        raise ModelUnavailable("the model is gone")

    before = vector_of(bench, "docs/a.md#chunk_1")
    revised = Revised(WORDS).space
    with bench.store.writer("c", spaces=[revised]) as writer:
        with pytest.raises(ModelUnavailable):
            writer.reembed({WORDS.id: refuse})
        assert writer.stale_spaces == (WORDS.id,)
        writer.delete(["docs/b.md"])
        writer.commit()
    assert bench.store.open("c").collection.spaces[0].revision != "next"
    np.testing.assert_array_equal(vector_of(bench, "docs/a.md#chunk_1"), before)


def test_nothing_is_put_beside_vectors_of_another_revision(bench: Bench) -> None:
    with bench.store.writer("c", spaces=[Revised(WORDS).space]) as writer:
        new = record("docs/new.md")
        with pytest.raises(SpaceConflict, match="'words' holds vectors of another revision"):
            writer.upsert([new], {WORDS.id: writer.encode(WORDS.id, np.ones((1, 32), np.float32))}, {})
        assert writer.commit() is None


def test_what_is_deleted_before_stays_deleted(bench: Bench) -> None:
    revised = Revised(WORDS)
    with bench.store.writer("c", spaces=[revised.space]) as writer:
        writer.delete(["docs/a.md"])
        writer.reembed({WORDS.id: StoredChunkEncoder(writer, revised.space, revised, Chunker())})
    snapshot = bench.store.open("c")
    assert (snapshot.documents, snapshot.get("docs/a.md#chunk_1")) == (1, None)
    assert vector_of(bench, "docs/b.md#chunk_1").shape == (32,)


def test_a_dry_run_embeds_and_changes_nothing(bench: Bench) -> None:
    generation = bench.store.current("c")
    bench.embedder = Revised(WORDS)
    bench.run(dry_run=True)
    assert bench.embedder.texts == []
    assert bench.store.current("c") == generation


def test_a_space_of_other_dimensions_is_refused_by_name(bench: Bench) -> None:
    with pytest.raises(SpaceConflict, match="dimensions 32") as caught:
        bench.store.writer("c", spaces=[replace(WORDS, dimensions=16)])
    assert caught.value.details["member"] == "dimensions"


def test_keys_of_two_revisions_differ() -> None:
    assert embedding_keys(WORDS, ["text"]) != embedding_keys(replace(WORDS, revision="next"), ["text"])
