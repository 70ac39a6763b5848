"""Ingest from files to a real store, with the hashing embedder: what is written, skipped, counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aidre.engine.model import Query
from aidre.ingest import chunking as chunk
from aidre.ingest.pipeline import record_builder
from aidre.ingest.pipeline.ingest import ingest
from aidre.ingest.pipeline.progress import Committed, Event, Summary
from aidre.ingest.pipeline.run import IngestOptions
from tests.support.ingests import BROUGHT, SCALED, WORDS, Bench


def test_a_folder_becomes_chunks_that_a_query_finds(bench: Bench) -> None:
    bench.write("a.md", "# Apples\n\nApples are red.\n")
    bench.write("deep/b.txt", "Bananas are yellow.")
    summary = bench.run()
    assert (summary.documents, summary.updated, summary.new, summary.chunks, summary.embedded) == (2, 2, 2, 2, 2)
    assert bench.ids() == ["docs/a.md", "docs/deep/b.txt"]
    query = bench.embedder.embed_queries(["yellow bananas"])[0]
    hits = bench.store.open("c").search(Query(query, "words", top_k=1))
    assert [hit.chunk.document_id for hit in hits] == ["docs/deep/b.txt"]


def test_a_second_run_over_the_same_files_writes_and_embeds_nothing(bench: Bench) -> None:
    bench.write("a.md", "Apples.")
    bench.run()
    generation = bench.store.current("c")
    summary = bench.run()
    assert (summary.unchanged, summary.updated, summary.embedded, summary.documents) == (1, 0, 0, 1)
    assert bench.store.current("c") == generation
    assert bench.commits == [] and bench.embedder.texts == []


def test_changed_metadata_are_written_but_not_embedded(bench: Bench) -> None:
    bench.rows("r.jsonl", {"id": "a", "text": "Apples.", "metadata": {"n": 1}})
    bench.run()
    bench.rows("r.jsonl", {"id": "a", "text": "Apples.", "metadata": {"n": 2}})
    summary = bench.run()
    assert (summary.updated, summary.new, summary.embedded) == (1, 0, 0)
    assert bench.metadata("a#chunk_1")["n"] == 2


def test_an_invented_date_stays_while_the_text_does(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def at(moment: str) -> None:
        monkeypatch.setattr("aidre.engine.collection.writer.now", lambda: moment)

    at("2026-01-01T00:00:00Z")
    bench.rows("r.jsonl", {"id": "a", "text": "Apples."})
    bench.run()
    at("2026-02-02T00:00:00Z")
    bench.rows("r.jsonl", {"id": "a", "text": "Apples.", "metadata": {"n": 1}})
    bench.run()
    assert bench.metadata("a#chunk_1")["updated_at"] == "2026-01-01T00:00:00Z"
    bench.rows("r.jsonl", {"id": "a", "text": "Pears.", "metadata": {"n": 1}})
    bench.run()
    assert bench.metadata("a#chunk_1")["updated_at"] == "2026-02-02T00:00:00Z"


def test_a_changed_document_replaces_all_its_chunks(bench: Bench) -> None:
    bench.write("a.md", "# One\n\nfirst\n\n# Two\n\nsecond\n")
    bench.run()
    bench.write("a.md", "# One\n\nfirst\n")
    assert bench.run().chunks == 1
    snapshot = bench.store.open("c")
    assert (snapshot.chunks, snapshot.get("docs/a.md#chunk_2")) == (1, None)


def test_equal_strings_are_embedded_once_and_known_ones_not_again(bench: Bench) -> None:
    bench.rows("r.jsonl", *({"id": str(n), "title": "t", "text": "the same words"} for n in range(5)))
    assert bench.run().embedded == 1
    bench.rows("s.jsonl", {"id": "new", "title": "t", "text": "the same words"})
    summary = bench.run()
    assert (summary.new, summary.embedded) == (1, 0)


def test_rows_bring_vectors_and_are_one_chunk_each(bench: Bench) -> None:
    bench.spaces = (BROUGHT, SCALED)
    long = "# A\n\n" + "many words " * 900 + "\n\n# B\n"
    vectors = {"brought": [0, 3, 0, 4], "scaled": [0, 0, 0, 2]}
    bench.rows("r.jsonl", {"id": "a", "text": long, "vectors": vectors}, {"id": "b", "vectors": vectors})
    summary = bench.run()
    assert (summary.documents, summary.chunks, summary.embedded, summary.failed) == (2, 2, 0, 0)
    chunk = bench.store.open("c").get("a#chunk_1")
    assert chunk is not None and chunk.text == long
    stored = chunk.vectors()
    assert stored["brought"] == pytest.approx([0, 3, 0, 4])
    assert stored["scaled"] == pytest.approx([0, 0, 0, 1])


def test_a_row_with_vectors_is_still_embedded_for_a_space_with_a_model(bench: Bench) -> None:
    bench.spaces = (WORDS, BROUGHT)
    bench.rows("r.jsonl", {"id": "a", "title": "T", "text": "Apples.", "vectors": {"brought": [1, 0, 0, 0]}})
    assert bench.run().embedded == 1
    assert bench.embedder.texts == ["T\nApples."]


def test_a_vector_that_a_row_brings_wins_over_the_model(bench: Bench) -> None:
    own = np.eye(1, 32, 7, dtype=np.float32)[0]
    bench.rows(
        "r.jsonl",
        {"id": "a", "text": "Apples.", "vectors": {"words": own.tolist()}},
        {"id": "b", "text": "Pears."},
    )
    summary = bench.run()
    assert (summary.embedded, bench.embedder.texts) == (1, ["Pears."])
    chunk = bench.store.open("c").get("a#chunk_1")
    assert chunk is not None and chunk.vectors()["words"] == pytest.approx(own)


def test_a_document_without_a_vector_that_nobody_can_make_fails_by_name(bench: Bench) -> None:
    bench.spaces = (WORDS, BROUGHT)
    bench.write("a.md", "Apples.")
    bench.rows("r.jsonl", {"id": "a", "text": "Apples."}, {"id": "b"})
    summary = bench.run()
    assert (summary.failed, summary.documents, summary.skipped) == (3, 0, 0)
    assert [problem.split(": ")[0] for problem in bench.problems] == ["a.md", "r.jsonl:1", "r.jsonl:2"]
    assert "no vector for embedding space 'brought'" in bench.problems[0]


def test_a_vector_that_only_the_engine_refuses_fails_alone(bench: Bench) -> None:
    bench.spaces = (replace(BROUGHT, distance="dot", precision="float16"),)
    rows = [{"id": str(n), "vectors": {"brought": [1e5 if n == 1 else 1, 0, 0, 0]}} for n in range(3)]
    bench.rows("r.jsonl", *rows)
    summary = bench.run()
    assert (summary.failed, summary.updated) == (1, 2)
    assert bench.problems[0].startswith("r.jsonl:2: ") and "float16" in bench.problems[0]
    assert bench.ids() == ["0", "2"]


def test_a_document_without_text_is_skipped_and_no_failure(bench: Bench) -> None:
    bench.write("a.md", " \n\n")
    bench.rows("r.jsonl", {"id": "a", "title": "only a title"})
    summary = bench.run()
    assert (summary.skipped, summary.failed, summary.documents, summary.exit_status) == (2, 0, 0, 0)
    assert bench.notices == ["a.md: no text, skipped", "r.jsonl:1: no text, skipped"]


def test_a_document_whose_chunks_would_repeat_too_much_fails_by_name(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk, "MAX_REPEATED_BYTES", 4_000)
    long = {"metadata": {"raw": "x" * 3_000}}
    bench.rows("r.jsonl", {"id": "a", "text": "word. " * 500, **long}, {"id": "b", "text": "word.", **long})
    summary = bench.run()
    assert (summary.failed, summary.updated, summary.exit_status) == (1, 1, 1)
    assert bench.problems[0].startswith("r.jsonl:1: ") and "metadata" in bench.problems[0]
    assert bench.ids() == ["b"]
    assert bench.run(dry_run=True).failed == 1


@pytest.mark.parametrize("written", ["jsonl", "parquet", "parquet with nested fields"])
def test_a_document_with_a_field_beyond_the_bound_fails_by_name_and_the_rest_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    monkeypatch.setattr(record_builder, "MAX_FIELDS", 3)
    bench = Bench(tmp_path, (BROUGHT,))
    members: list[dict[str, Any]] = [{"a": 1}, {"b": 1, "c": 2}, {"c": 1, "d": "x"}, {"a": 2, "b": 2}]
    if "nested" in written:
        members = [{"x": each} for each in ({"a": 1}, {"b": 1}, {"d": 1}, {"a": 2, "b": 2})]

    def put(first: int) -> Summary:
        rows = [
            {"id": f"{at}", "text": "words", "metadata": each, "vectors": {"brought": [1.0, 2.0, 3.0, 4.0]}}
            for at, each in enumerate(members, first)
        ]
        if written == "jsonl":
            bench.rows("r.jsonl", *rows)
        else:
            bench.docs.mkdir(exist_ok=True)
            pq.write_table(pa.Table.from_pylist(rows), bench.docs / "r.parquet")
        return bench.run()

    summary = put(0)
    assert (summary.failed, summary.updated, summary.exit_status) == (1, 3, 1)
    (problem,) = bench.problems
    assert "2: field" in problem or ":3: field" in problem
    assert "d is one more than the 3 different fields" in problem and "semantic_payload" in problem
    assert bench.ids() == ["0", "1", "3"]
    assert bench.store.open("c").fields() == ({"x", "x.a", "x.b"} if "nested" in written else {"a", "b", "c"})
    members = [{"d": 1}, *members[:1]]
    assert (put(4).failed, bench.ids()) == (1, ["0", "1", "3", "5"])  # what is stored counts too


def test_failures_are_named_counted_and_do_not_stop_the_rest(bench: Bench) -> None:
    bench.write("r.jsonl", '{"id": "a", "text": "x"}\n{oops\n\n[1]\n{"id": "b", "text": "y"}\n')
    bench.write("bad.md", b"caf\xe9")
    summary = bench.run()
    assert (summary.documents, summary.failed, summary.exit_status) == (2, 3, 1)
    assert [problem.split(": ")[0] for problem in bench.problems] == ["bad.md", "r.jsonl:2", "r.jsonl:4"]


def test_the_last_of_equal_ids_wins_whether_or_not_a_commit_lies_between(bench: Bench) -> None:
    rows = [{"id": "a", "text": "one"}, {"id": "b", "text": "b"}, {"id": "a", "text": "two"}]
    bench.rows("r.jsonl", *rows)
    assert bench.run().documents == 3
    assert bench.text("a#chunk_1") == "two"
    assert any("repeat the id" in notice for notice in bench.notices)
    bench.rows("r.jsonl", *rows[:2], {"id": "a", "text": "three"})
    bench.run(commit_every=1)
    assert (bench.text("a#chunk_1"), bench.ids()) == ("three", ["a", "b"])


def test_commit_every_commits_after_exactly_so_many_documents(bench: Bench) -> None:
    bench.rows("r.jsonl", *({"id": str(n), "text": f"text {n}"} for n in range(7)))
    bench.run(commit_every=3)
    assert [commit.documents for commit in bench.commits] == [3, 6, 7]
    assert [commit.chunks for commit in bench.commits] == [3, 6, 7]
    generations = [commit.generation for commit in bench.commits]
    assert generations == sorted(set(generations))


@pytest.mark.parametrize("bound", ["COMMIT_DOCUMENTS", "COMMIT_BYTES", "COMMIT_SECONDS"])
def test_commits_come_by_documents_bytes_or_time(bench: Bench, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr("aidre.ingest.pipeline.batching.BATCH_DOCUMENTS", 2)
    rows = [{"id": str(n), "text": f"text {n}"} for n in range(5)]
    bench.rows("r.jsonl", *rows)
    bench.run()
    assert [commit.documents for commit in bench.commits] == [5]
    bench.rows("r.jsonl", *(row | {"text": "other"} for row in rows))
    monkeypatch.setattr(f"aidre.ingest.pipeline.batching.{bound}", 0)
    bench.run()
    assert [commit.documents for commit in bench.commits] == [2, 4, 5]


def test_documents_that_come_slowly_do_not_wait_for_others(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aidre.ingest.pipeline.batching.COMMIT_SECONDS", 0)
    monkeypatch.setattr("aidre.ingest.pipeline.batching.BATCH_SECONDS", 0)
    bench.rows("r.jsonl", *({"id": str(n), "text": f"text {n}"} for n in range(3)))
    bench.run()
    assert [commit.documents for commit in bench.commits] == [1, 2, 3]


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


def test_the_done_event_has_the_promised_members(bench: Bench) -> None:
    bench.write("a.md", "Apples.")
    summary = bench.run()
    assert bench.events[-1] is summary
    members = "event documents chunks embedded updated unchanged deleted failed skipped seconds"
    assert list(summary.as_json()) == members.split()
    assert bench.commits[0].as_json() == {"event": "commit", "generation": 1, "documents": 1, "chunks": 1}


def test_a_change_of_chunking_or_spaces_ingests_anew(bench: Bench) -> None:
    bench.write("a.md", "Apples. " * 200)
    first = bench.run()
    second = bench.run(chunk_tokens=50)
    assert second.updated == 1 and second.chunks > first.chunks


def test_a_reason_is_one_printable_line_whatever_a_row_says(bench: Bench) -> None:
    bench.rows("r.jsonl", {"id": "a", "vectors": {"\x1b[31m\n" + "x" * 9999: [1]}})
    bench.run()
    (problem,) = bench.problems
    assert problem.isprintable() and len(problem) < 600


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
