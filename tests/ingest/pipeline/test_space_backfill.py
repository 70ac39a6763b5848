"""A space that joins a collection: filled from the stored text while the others answer, live in one commit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from aidre.engine.collection import backfill
from aidre.engine.collection.store import Store
from aidre.engine.embedding.graph import HashingEmbedder
from aidre.engine.errors import InvalidVector, SpaceConflict, SpaceMissing
from aidre.engine.maintenance.verify import verify
from aidre.engine.model import EmbeddingSpace, Query
from aidre.engine.storage import format
from aidre.ingest.pipeline.run_events import Committed, Event, Notice, RunProgress
from aidre.ingest.pipeline.space_backfill import drop_space
from tests.support import backfills
from tests.support.backfills import MORE, Revised, both, check_complete, embed, everything, interrupt, state_of
from tests.support.ingests import WORDS, Bench, CountingEmbedder

bench = backfills.bench


# -- filling a space -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_new_space_is_filled_from_the_stored_text_and_answers_beside_the_old_one(bench: Bench) -> None:
    before = bench.store.open("c")
    segments = [entry.id for entry in before.manifest.segments]
    (bench.docs / "00.md").unlink()  # the sources are not read
    events: list[Event] = []
    summary = embed(bench, report=events.append)
    after = bench.store.open("c")
    assert [space.id for space in after.collection.spaces] == [WORDS.id, MORE.id]
    assert [entry.id for entry in after.manifest.segments] == segments  # no chunk was written anew
    check_complete(bench)
    assert (summary.chunks, summary.embedded) == (39, 39)
    assert events[-1] == summary
    assert [event for event in events if isinstance(event, Committed)][-1].generation == after.generation
    assert [event.chunks for event in events if isinstance(event, RunProgress)][-1] == 39
    assert after.collection.updated_at == before.collection.updated_at
    assert after.manifest.spaces[1].runtime == "hashing"
    assert not list((bench.store.path / "c" / format.BACKFILLS).iterdir())


def test_filling_again_changes_nothing_and_says_so(bench: Bench) -> None:
    embed(bench)
    generation = bench.store.current("c")
    events: list[Event] = []
    assert embed(bench, report=events.append).embedded == 0
    assert bench.store.current("c") == generation
    assert any(isinstance(event, Notice) and "complete already" in event.text for event in events)


def test_equal_strings_are_embedded_once_over_all_segments(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for run in range(3):
        bench.rows("rows.jsonl", *({"id": f"{run}-{n}", "text": f"text {n % 5}"} for n in range(20)))
        bench.run()
    assert len(bench.store.open("c").segments) > 1
    embedder = CountingEmbedder(MORE)
    assert embed(bench, embedder).embedded == 5
    assert sorted(embedder.texts) == [f"text {n}" for n in range(5)]


@pytest.mark.slow
def test_an_empty_collection_gets_the_space_at_once(bench: Bench) -> None:
    for path in bench.docs.iterdir():
        path.unlink()
    bench.write("none.txt", "")
    bench.run(mirror=True, force=True)
    assert bench.store.open("c").chunks == 0
    embed(bench)
    assert state_of(bench.store) == "live"
    bench.write("a.md", "# A\n\nBoats.")
    both(bench)
    check_complete(bench)


@pytest.mark.slow
def test_a_chunk_that_has_no_vector_is_named_and_the_space_stays_building(bench: Bench) -> None:
    class Zero(HashingEmbedder):
        def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
            return np.stack(
                [row * ("Word3 " not in text) for row, text in zip(super().embed_documents(texts), texts, strict=True)]
            )

    with pytest.raises(InvalidVector, match=r"chunk 'docs/03\.md#chunk_1'.*zero.*delete document 'docs/03\.md'"):
        embed(bench, Zero(MORE))
    assert state_of(bench.store) == "building"
    (bench.docs / "03.md").unlink()
    bench.run(mirror=True)
    embed(bench)
    check_complete(bench)


# -- while a space is building -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_readers_see_nothing_of_a_space_until_it_is_complete(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Store(bench.store.path)
    before = reader.open("c")
    wanted = everything(bench)
    seen = []

    def look(event: Event) -> None:
        nonlocal before
        now = reader.open("c", previous=before)
        state = next((state.state for state in now.manifest.spaces if state.space.id == MORE.id), None)
        if state == "building":
            assert [space.id for space in now.collection.spaces] == [WORDS.id]
            with pytest.raises(SpaceMissing):
                now.search(Query(np.ones(48, np.float32), MORE.id))
            assert everything(bench) == wanted
            if isinstance(event, Committed):  # nothing was opened again for files that nobody reads
                assert [part.segment for part in now.segments] == [part.segment for part in before.segments]
        seen.append(state)
        before = now

    monkeypatch.setattr(backfill, "BATCH_CHUNKS", 4)
    monkeypatch.setattr(backfill, "COMMIT_SECONDS", 0.0)
    embed(bench, report=look)
    assert seen.count("building") > 5
    assert seen[-1] == "live"
    # A reader that had the segments open sees the new column too.
    [query] = HashingEmbedder(MORE).embed_queries(["changed"])
    assert before.search(Query(query, MORE.id))[0].chunk.document_id == "docs/05.md"


@pytest.mark.slow
def test_ingest_and_merging_go_on_while_a_space_is_building(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    first = interrupt(bench, 30, monkeypatch)
    bench.write("99.md", "# Document 99\n\nNew.")
    both(bench)
    assert any("`aidre embed --space`" in notice and MORE.id in notice for notice in bench.notices)
    assert bench.problems == []
    with bench.store.writer("c", spaces=None) as writer:  # the files of the merged segments are lost
        writer.compact()
    assert state_of(bench.store) == "building"
    assert verify(bench.store)[0].problems == ()
    second = CountingEmbedder(MORE)
    embed(bench, second)
    assert not set(first.texts) & set(second.texts)  # their vectors are not
    assert "docs/99.md#chunk_1" in everything(bench)
    check_complete(bench)


@pytest.mark.slow
def test_a_run_whose_configuration_does_not_list_the_building_space_goes_on_too(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(bench, 10, monkeypatch)
    bench.write("99.md", "# Document 99\n\nNew.")
    assert bench.run().updated == 1
    embed(bench)
    check_complete(bench)


@pytest.mark.slow
def test_rows_may_bring_vectors_for_a_space_that_is_building(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt(bench, 10, monkeypatch)
    bench.rows("more.jsonl", {"id": "own", "text": "Brought along.", "vectors": {MORE.id: [1.0] * 48}})
    assert both(bench).failed == 0
    assert bench.text("own#chunk_1") == "Brought along."
    embed(bench)
    both(bench)
    chunk = bench.store.open("c").get("own#chunk_1")
    assert chunk is not None
    np.testing.assert_allclose(chunk.vectors()[MORE.id], np.ones(48, np.float32), atol=1e-2)


@pytest.mark.slow
def test_documents_deleted_since_the_interruption_are_left_out(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt(bench, 10, monkeypatch)
    with bench.store.writer("c", spaces=None) as writer:
        writer.delete([f"docs/{number:02}.md" for number in range(20, 40)])
        writer.commit()
    second = CountingEmbedder(MORE)
    embed(bench, second)
    assert not any("Word3" in text for text in second.texts)
    check_complete(bench)


@pytest.mark.slow
def test_after_it_is_live_ingest_embeds_into_both(bench: Bench) -> None:
    embed(bench)
    bench.write("99.md", "# Document 99\n\nNew.")
    summary = both(bench)
    assert summary.embedded == 2  # one text in each space; what is stored is not embedded again
    check_complete(bench)
    assert both(bench).updated == 0


# -- which spaces are refused --------------------------------------------------------------------------------------


def test_a_configured_space_that_was_never_filled_is_refused_with_the_cure(bench: Bench) -> None:
    with pytest.raises(SpaceConflict, match=r"'more:48' is configured but not stored.*aidre embed --space more:48"):
        both(bench)


def test_a_space_without_a_model_that_a_collection_lacks_cannot_be_filled(bench: Bench) -> None:
    with pytest.raises(SpaceConflict, match="no model, its vectors come with the rows"):
        bench.store.writer("c", spaces=[bench.embedder.space, EmbeddingSpace("own", 4, "dot")])


def test_a_stored_space_that_is_not_configured_is_refused_with_the_cure(bench: Bench) -> None:
    embed(bench)
    with pytest.raises(SpaceConflict, match="aidre embed --drop more:48"):
        bench.run()


# -- another revision ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_live_space_of_another_revision_is_embedded_anew(bench: Bench) -> None:
    embed(bench)
    assert embed(bench, Revised(MORE)).embedded == 39
    check_complete(bench, sign=-1)


# -- taking a space away -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_first_space_can_be_replaced_by_another(bench: Bench) -> None:
    embed(bench)
    drop_space(bench.store, "c", WORDS.id)
    assert [space.id for space in bench.store.open("c").collection.spaces] == [MORE.id]
    check_complete(bench)


# -- the command -------------------------------------------------------------------------------------------
