"""Sizes of batches and commits: by documents, bytes and time."""

from __future__ import annotations

import pytest

from tests.support.ingests import Bench


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
