"""The vectors of a batch: brought by the row, reused from the store, or embedded once for each string."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.ingests import BROUGHT, SCALED, WORDS, Bench


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
