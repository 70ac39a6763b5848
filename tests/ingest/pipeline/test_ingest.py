"""Ingest from files to a real store, with the hashing embedder: what is written, skipped, counted."""

from __future__ import annotations

import os
import threading
from dataclasses import replace

import pytest

from aidre.engine.errors import StoreLocked
from aidre.engine.model import Query
from aidre.ingest.pipeline.ingest import ingest
from aidre.ingest.pipeline.run import IngestOptions
from aidre.ingest.pipeline.run_events import Committed, Event
from tests.support.ingests import WORDS, Bench, CountingEmbedder


def test_a_folder_becomes_chunks_that_a_query_finds(bench: Bench) -> None:
    bench.write("a.md", "# Apples\n\nApples are red.\n")
    bench.write("deep/b.txt", "Bananas are yellow.")
    summary = bench.run()
    assert (summary.documents, summary.updated, summary.new, summary.chunks, summary.embedded) == (2, 2, 2, 2, 2)
    assert bench.ids() == ["docs/a.md", "docs/deep/b.txt"]
    query = bench.embedder.embed_queries(["yellow bananas"])[0]
    hits = bench.store.open("c").search(Query(query, "words", top_k=1))
    assert [hit.chunk.document_id for hit in hits] == ["docs/deep/b.txt"]


def test_a_changed_document_replaces_all_its_chunks(bench: Bench) -> None:
    bench.write("a.md", "# One\n\nfirst\n\n# Two\n\nsecond\n")
    bench.run()
    bench.write("a.md", "# One\n\nfirst\n")
    assert bench.run().chunks == 1
    snapshot = bench.store.open("c")
    assert (snapshot.chunks, snapshot.get("docs/a.md#chunk_2")) == (1, None)


def test_an_interrupted_run_resumes_after_its_last_commit(bench: Bench) -> None:
    bench.rows("r.jsonl", *({"id": str(n), "text": f"text {n}"} for n in range(6)))

    def stop(event: Event) -> None:
        if isinstance(event, Committed) and event.documents == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingest(
            bench.store,
            "c",
            [bench.docs],
            spaces=bench.spaces,
            embedders={WORDS.id: bench.embedder},
            options=IngestOptions(commit_every=2),
            report=stop,
        )
    summary = bench.run(commit_every=2)
    assert (summary.unchanged, summary.updated, summary.embedded) == (4, 2, 2)


def test_a_dry_run_reports_and_writes_nothing(bench: Bench) -> None:
    bench.write("a.md", "a")
    bench.write("b.md", "b")
    summary = bench.run(dry_run=True)
    assert (summary.documents, summary.new, summary.chunks, summary.embedded) == (2, 2, 2, 0)
    assert not bench.store.path.exists()
    bench.run()
    generation = bench.store.current("c")
    bench.write("a.md", "changed")
    (bench.docs / "b.md").unlink()
    bench.write("c.md", "c")
    summary = bench.run(dry_run=True, mirror=True)
    assert (summary.updated, summary.new, summary.unchanged, summary.deleted) == (2, 1, 0, 1)
    assert bench.store.current("c") == generation
    assert bench.embedder.texts == []
    assert (summary.as_json()["dry_run"], summary.as_json()["new"]) == (True, 1)


def test_half_a_surrogate_in_the_front_matter_fails_by_name(bench: Bench) -> None:
    bench.write("a.md", '---\ntitle: "\\ud800"\n---\nApples.')
    bench.run()
    assert len(bench.problems) == 1 and bench.problems[0].startswith("a.md: ")


def test_a_row_that_cannot_be_written_back_as_json_fails_by_name(bench: Bench) -> None:
    bench.write("r.jsonl", '{"id":"a","text":"x","metadata":{"d":' + "[" * 400 + "]" * 400 + "}}\n")
    assert bench.run().failed == 1
    assert "r.jsonl:1: cannot be written as JSON" in bench.problems[0]


def test_an_ingest_waits_for_another_writer_and_says_so(bench: Bench) -> None:
    bench.write("a.md", "first")
    bench.run()
    bench.write("b.md", "second")
    held = bench.store.writer("c", spaces=None)
    released = threading.Timer(0.3, held.__exit__, (None, None, None))
    released.start()
    assert bench.run(wait=60).updated == 1
    released.join()
    (notice,) = bench.notices
    assert f"by process {os.getpid()}" in notice
    assert "waiting for up to 60 seconds" in notice


def test_an_ingest_that_waits_long_enough_is_refused(bench: Bench) -> None:
    bench.write("a.md", "first")
    bench.run()
    with bench.store.writer("c", spaces=None):
        for wait in (0, 0.1):
            with pytest.raises(StoreLocked, match=f"process {os.getpid()}"):
                bench.run(wait=wait)


GERMAN = (
    "Der Reifen ist platt, und das Loch wird mit einem Flicken geschlossen. Die Luft ist dann wieder in dem Reifen."
)


def test_a_collection_that_its_model_does_not_read_is_told_with_the_cure(bench: Bench) -> None:
    bench.spaces = (replace(WORDS, languages=("en",)),)
    bench.embedder = CountingEmbedder(bench.spaces[0])
    for number in range(3):
        bench.write(f"{number}.txt", f"{GERMAN} {number}")
    bench.run()
    assert bench.notices == [
        "3 of 3 chunks are in languages that the model does not know (de): they are found by words, hardly by meaning; "
        "`aidre model add multilingual` adds a model that knows them"
    ]
    bench.events.clear()
    bench.run()
    assert bench.notices == []
    for number in range(3):
        bench.write(f"e{number}.txt", f"The tyre is flat, and this is how it is mended, by hand. {number}")
    bench.run()
    assert bench.notices == []


def test_languages_that_a_model_is_declared_to_know_are_stored_anew_without_embedding(bench: Bench) -> None:
    bench.write("a.txt", GERMAN)
    bench.run()
    bench.spaces = (replace(WORDS, languages=("de",)),)
    bench.embedder = CountingEmbedder(bench.spaces[0])
    bench.write("b.txt", f"{GERMAN} {GERMAN}")
    bench.run()
    assert bench.store.open("c").collection.spaces[0].languages == ("de",)
    assert len(bench.embedder.texts) == 1


def test_a_source_that_an_earlier_release_read_is_said_to_be_read_anew_once(bench: Bench) -> None:
    bench.write("a.md", "Apples.")
    bench.run()
    assert not any("earlier release" in notice for notice in bench.notices)
    (bench.store.path / ".checks.json").unlink()  # earlier releases did not note their readers
    bench.events.clear()
    assert bench.run().embedded == 0
    assert sum("read by an earlier release of aidre" in notice for notice in bench.notices) == 1
    bench.events.clear()
    bench.run()
    assert not any("earlier release" in notice for notice in bench.notices)
