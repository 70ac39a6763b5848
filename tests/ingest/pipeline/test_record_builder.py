"""The limits of a record: different fields of a collection, and bytes that chunks repeat."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aidre.ingest import chunking as chunk
from aidre.ingest.pipeline import record_builder
from aidre.ingest.pipeline.run_events import Summary
from tests.support.ingests import BROUGHT, Bench


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
