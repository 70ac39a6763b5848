"""Change detection: what is written again, what is embedded again, and which dates stay."""

from __future__ import annotations

import pytest

from tests.support.ingests import Bench


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


def test_a_change_of_chunking_or_spaces_ingests_anew(bench: Bench) -> None:
    bench.write("a.md", "Apples. " * 200)
    first = bench.run()
    second = bench.run(chunk_tokens=50)
    assert second.updated == 1 and second.chunks > first.chunks
