"""A space that joins a collection: filled from the stored text while the others answer, live in one commit."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import orjson
import pytest
from numpy.typing import NDArray

from aidre.engine.collection import backfill
from aidre.engine.collection.store import Store
from aidre.engine.embedding.hashing import HashingEmbedder
from aidre.engine.errors import InvalidVector, SpaceConflict, SpaceMissing
from aidre.engine.maintenance.verify import verify
from aidre.engine.model import EmbeddingSpace, Query
from aidre.engine.storage import format
from aidre.ingest.pipeline.backfill import drop_space
from aidre.ingest.pipeline.progress import Committed, Event, Notice, Progress
from tests.support import backfills
from tests.support.backfills import MORE, Revised, both, check_complete, embed, everything, interrupt, state_of
from tests.support.ingests import WORDS, Bench, CountingEmbedder
from tests.support.shell import CONFIGURATION, Shell, one_line

bench = backfills.bench


# -- taking a space away --------------------------------------------------------------------------------------------


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
    assert [event.chunks for event in events if isinstance(event, Progress)][-1] == 39
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


# -- taking a space away --------------------------------------------------------------------------------------------


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


def test_a_run_whose_configuration_does_not_list_the_building_space_goes_on_too(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(bench, 10, monkeypatch)
    bench.write("99.md", "# Document 99\n\nNew.")
    assert bench.run().updated == 1
    embed(bench)
    check_complete(bench)


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


def test_documents_deleted_since_the_interruption_are_left_out(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt(bench, 10, monkeypatch)
    with bench.store.writer("c", spaces=None) as writer:
        writer.delete([f"docs/{number:02}.md" for number in range(20, 40)])
        writer.commit()
    second = CountingEmbedder(MORE)
    embed(bench, second)
    assert not any("Word3" in text for text in second.texts)
    check_complete(bench)


def test_after_it_is_live_ingest_embeds_into_both(bench: Bench) -> None:
    embed(bench)
    bench.write("99.md", "# Document 99\n\nNew.")
    summary = both(bench)
    assert summary.embedded == 2  # one text in each space; what is stored is not embedded again
    check_complete(bench)
    assert both(bench).updated == 0


# -- taking a space away --------------------------------------------------------------------------------------------


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


# -- taking a space away --------------------------------------------------------------------------------------------


def test_a_live_space_of_another_revision_is_embedded_anew(bench: Bench) -> None:
    embed(bench)
    assert embed(bench, Revised(MORE)).embedded == 39
    check_complete(bench, sign=-1)


# -- taking a space away --------------------------------------------------------------------------------------------


def test_the_first_space_can_be_replaced_by_another(bench: Bench) -> None:
    embed(bench)
    drop_space(bench.store, "c", WORDS.id)
    assert [space.id for space in bench.store.open("c").collection.spaces] == [MORE.id]
    check_complete(bench)


# -- the command -------------------------------------------------------------------------------------------

WIDE = """
[[spaces]]
id = "wide"
dimensions = 96
distance = "cosine"
provider = "aidre"
model = "hashing"
"""


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    """A store with one collection, and a configuration that lists another space for it since."""
    (tmp_path / "shell").mkdir()
    shell = Shell(tmp_path / "shell", capsys)
    assert shell.ingest()[0] == 0
    listed = CONFIGURATION.replace(
        'spaces = ["words"]\n[collections.more]', 'spaces = ["words", "wide"]\n[collections.more]'
    )
    shell.config.write_text(listed + WIDE, encoding="utf-8")
    return shell


def command(shell: Shell, *words: str) -> tuple[int, str, str]:
    return shell.run("embed", *words, "--store", shell.store, "--collection", "docs", "--config", shell.config)


def test_the_command_fills_what_ingest_asks_for_and_tells_how_it_goes(shell: Shell) -> None:
    status, _, err = shell.ingest()
    assert (status, one_line(err)) == (2, True)
    assert "aidre embed --space wide" in err
    status, out, err = command(shell, "--space", "wide", "--json")
    assert (status, err) == (0, "")
    events = [orjson.loads(line) for line in out.splitlines()]
    assert [event["event"] for event in events[-2:]] == ["commit", "done"]
    assert (events[-1]["space"], events[-1]["chunks"], events[-1]["embedded"]) == ("wide", 3, 3)
    assert events[-1]["generation"] == events[-2]["generation"] == Store(shell.store).current("docs")
    [about] = shell.json("status")
    assert [(space["id"], space["state"]) for space in about["spaces"]] == [("words", "live"), ("wide", "live")]
    status, events, err = shell.ingest()
    assert (status, events[-1]["embedded"]) == (0, 0)


def test_the_command_takes_a_space_away(shell: Shell) -> None:
    command(shell, "--space", "wide")
    status, out, _ = command(shell, "--drop", "words", "--json")
    assert status == 0
    assert orjson.loads(out) == {"dropped": "words", "generation": Store(shell.store).current("docs")}
    assert [hit["document_id"] for hit in shell.json("search", "sourdough bread", "-k", "1")] == ["texts/bread.md"]
    status, _, err = command(shell, "--drop", "wide")
    assert (status, one_line(err)) == (2, True)
    assert "only one" in err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "--space"),
        (["--space", "wide", "--drop", "words"], "name one"),
        (["--space", "wdie"], "no [[spaces]] declares 'wdie': "),
        (["--space", "given"], "no model, its vectors come with the rows"),
        (["--drop", "wide"], "no embedding space 'wide'"),
    ],
)
def test_a_wrong_call_of_the_command_is_one_line_and_changes_nothing(
    shell: Shell, words: list[str], reason: str
) -> None:
    generation = Store(shell.store).current("docs")
    status, out, err = command(shell, *words)
    assert (status, out, one_line(err)) == (2, "", True)
    assert reason in err
    assert Store(shell.store).current("docs") == generation


def test_a_space_that_the_collection_does_not_list_is_not_filled(shell: Shell) -> None:
    shell.config.write_text(CONFIGURATION + WIDE, encoding="utf-8")
    status, _, err = command(shell, "--space", "wide")
    assert (status, one_line(err)) == (2, True)
    assert "collections.docs.spaces does not name 'wide'" in err
    shell.config.write_text(CONFIGURATION.replace('spaces = ["words"]\n', "") + WIDE, encoding="utf-8")
    assert command(shell, "--space", "wide")[0] == 0  # one without a list takes any that is declared


def test_a_collection_or_store_that_is_not_there_is_named(shell: Shell) -> None:
    words = ("embed", "--space", "wide", "--config", shell.config)
    status, _, err = shell.run(*words, "--store", shell.store, "--collection", "dosc")
    assert (status, one_line(err)) == (2, True)
    assert "docs" in err
    status, _, err = shell.run(*words, "--store", shell.store.with_name("none"), "--collection", "docs")
    assert (status, one_line(err)) == (2, True)
    assert not shell.store.with_name("none").exists()


def test_a_writer_at_work_is_named(shell: Shell) -> None:
    with Store(shell.store).writer("docs", spaces=None):
        status, _, err = command(shell, "--space", "wide")
    assert (status, one_line(err)) == (2, True)
    assert str(os.getpid()) in err
