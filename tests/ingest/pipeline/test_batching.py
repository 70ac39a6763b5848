"""Sizes of batches and commits: by documents, bytes and time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest

from aidre.engine.collection.writer import Writer
from aidre.engine.model import Document
from aidre.ingest.pipeline import batching
from aidre.ingest.pipeline.batching import BatchPolicy, CommitPolicy
from tests.support.clocks import Clock
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


# -- the policies alone --------------------------------------------------------------------------------------------


@dataclass
class FakeWriter:
    """What a commit policy looks at."""

    pending_bytes: int = 0
    is_full: bool = False


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock(0.0)
    monkeypatch.setattr(batching, "monotonic", clock)
    return clock


def is_due(policy: CommitPolicy, **state: Any) -> bool:
    return policy.is_due(cast(Writer, FakeWriter(**state)))


def test_a_commit_is_due_by_documents_the_first_one_early(clock: Clock) -> None:
    policy = CommitPolicy(None)
    assert not is_due(policy)
    policy.add(batching.FIRST_COMMIT_DOCUMENTS - 1)
    assert not is_due(policy)
    policy.add(1)
    assert is_due(policy)
    policy.committed()
    policy.add(batching.COMMIT_DOCUMENTS - 1)
    assert not is_due(policy)
    policy.add(1)
    assert is_due(policy)


def test_a_commit_is_due_by_bytes_or_by_time_where_there_is_anything_to_commit(clock: Clock) -> None:
    policy = CommitPolicy(None)
    clock.now = batching.COMMIT_SECONDS
    assert not is_due(policy, pending_bytes=batching.COMMIT_BYTES)
    policy.add(1)
    assert is_due(policy)
    policy.committed()
    policy.add(1)
    assert not is_due(policy, pending_bytes=batching.COMMIT_BYTES - 1)
    assert is_due(policy, pending_bytes=batching.COMMIT_BYTES)


def test_a_fixed_number_of_documents_decides_alone_unless_the_writer_is_full(clock: Clock) -> None:
    policy = CommitPolicy(10)
    policy.add(9)
    clock.now = 10 * batching.COMMIT_SECONDS
    assert policy.remaining == 1
    assert not is_due(policy, pending_bytes=2 * batching.COMMIT_BYTES)
    assert is_due(policy, is_full=True)
    policy.add(1)
    assert is_due(policy)


def batch_size(policy: BatchPolicy, document: Document) -> int:
    """How many such documents the next batch has."""
    size = 1
    while not policy.is_full_with(document):
        size += 1
    policy.next_batch()
    return size


def test_batches_to_embed_begin_small_and_double(clock: Clock) -> None:
    policy = BatchPolicy(CommitPolicy(None), ["words"], 0)
    sizes = [batch_size(policy, Document("a", "short")) for _ in range(6)]
    assert sizes == [32, 64, 128, 256, 256, 256]


def test_documents_with_all_vectors_fill_a_batch_by_number_or_bytes(clock: Clock) -> None:
    vectors = {"words": np.ones(3, np.float32)}
    policy = BatchPolicy(CommitPolicy(None), ["words"], 12)
    assert batch_size(policy, Document("a", "short", vectors=vectors)) == batching.BATCH_DOCUMENTS
    half = batching.BATCH_BYTES // 2
    assert batch_size(policy, Document("a", "x" * half, vectors=vectors)) == 2


def test_a_batch_ends_with_the_next_document_after_its_time(clock: Clock) -> None:
    policy = BatchPolicy(CommitPolicy(None), [], 0)
    assert not policy.is_full_with(Document("a", "short"))
    clock.now = batching.BATCH_SECONDS
    assert policy.is_full_with(Document("b", "short"))


def test_a_batch_has_no_more_room_than_the_commit(clock: Clock) -> None:
    commits = CommitPolicy(10)
    policy = BatchPolicy(commits, [], 0)
    assert batch_size(policy, Document("a", "short")) == 10
    commits.add(7)
    policy.next_batch()
    assert batch_size(policy, Document("a", "short")) == 3
