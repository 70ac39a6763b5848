"""The process of a contender: its family, and batches beside single queries."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.peers import worker
from benchmarks.peers.engines.protocol import Vectors
from tests.support.clocks import until


def test_servers_of_a_contender_belong_to_its_family(tmp_path: Path) -> None:
    waits = [sys.executable, "-c", "input()", str(tmp_path)]
    with subprocess.Popen(waits, stdin=subprocess.PIPE, start_new_session=True) as server:
        until(lambda: server.pid in worker.family_of(str(tmp_path)))
        assert {os.getpid(), server.pid} <= worker.family_of(str(tmp_path))
        assert worker.processor_seconds(str(tmp_path)) > 0
        server.communicate(b"\n")


def test_batches_and_single_queries_take_turns_over_the_same_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def answer(query: Vectors) -> Vectors:
        asked.append(int(query[0]))
        return query

    def answer_all(queries: Vectors) -> Vectors:
        asked.append([int(one[0]) for one in queries])
        return queries

    contender = SimpleNamespace(
        answer=lambda setting, k, only: answer,
        answer_all=lambda setting, k: answer_all,
        rows_of=lambda query: [int(query[0])],
    )
    monkeypatch.setattr(worker, "entry", lambda name: SimpleNamespace(make=lambda: contender))
    monkeypatch.setattr(worker, "WARM_UP", 0)
    made = worker.Worker("any")
    made._queries = {"ood": np.arange(7, dtype=np.float32)[:, None]}
    found = made.batch(kind="ood", setting=0, k=1, size=3, seconds=0.0)
    assert found["rows"] == [[0], [1], [2], [3], [4], [5]]  # whole batches alone
    assert asked == [[0, 1, 2], [3, 4, 5], 0, 1, 2, [0, 1, 2]]
    assert len(found["single_us"]) == len(found["batched_us"]) == 1
