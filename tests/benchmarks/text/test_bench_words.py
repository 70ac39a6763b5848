"""The benchmark of words beside other engines: one contest of aidre with itself, and the figures of its samples."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from benchmarks.text import bench_words
from tests.support.ingests import WORDS


class ByLength:
    """A vector for each length of a text."""

    space = WORDS

    def embed_documents(self, texts: Sequence[str]) -> Any:
        rows = [np.random.default_rng(len(text)).standard_normal(WORDS.dimensions) for text in texts]
        return np.array([row / np.linalg.norm(row) for row in rows], np.float32)

    embed_queries = embed_documents


@pytest.mark.process
def test_an_engine_that_is_missing_leaves_the_times_of_aidre(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(1)
    passages = [" ".join(f"word{place}" for place in random.zipf(1.3, 30).clip(1, 500)) for _ in range(400)]
    monkeypatch.setattr(bench_words, "texts", lambda _: iter(passages))
    monkeypatch.setattr(bench_words, "PASSAGES", 200)
    monkeypatch.setattr("benchmarks.peers.environments.folder", lambda environment: results / environment)
    files = bench_words.prepared(tmp_path, cast(Any, ByLength()), 300, 60)
    options = Namespace(turns=2, queries=3, peers=["tantivy"], previous=None, folder=tmp_path)
    found, raw = bench_words.contest(files, options)
    assert found["aidre"].keys() >= {"words", "vectors", "hybrid"} and found["times_of_aidre"] == {}
    turns = raw["samples"]["aidre words"]["words"]
    assert [turn["rows"] for turn in turns] == [turn["anchor"]["rows"] for turn in turns]
    assert all(len(turn["microseconds"]) == 3 and any(turn["rows"]) for turn in turns)


class Asked:
    def __init__(self, name: str, log: list[tuple[str, int]]) -> None:
        self.facts = {"modes": ["words"]}
        self._name, self._log = name, log

    def ask(self, seconds: float, *, first: int, **command: Any) -> dict[str, Any]:
        self._log.append((self._name, first))
        return {"name": self._name}


def test_no_engine_answers_what_aidre_has_answered_before_and_each_is_first_in_turns() -> None:
    log: list[tuple[str, int]] = []
    anchor, peer = cast(Any, Asked("aidre", log)), cast(Any, Asked("peer", log))
    options = Namespace(turns=2, queries=3)
    bench_words.measured(anchor, anchor, options, 0)
    [even, odd] = bench_words.measured(anchor, peer, options, 1)["words"]
    assert log == [("aidre", 0), ("aidre", 3), ("aidre", 6), ("peer", 6), ("peer", 9), ("aidre", 9)]
    assert even == odd == {"name": "peer", "anchor": {"name": "aidre"}}


def test_another_engine_is_told_as_a_multiple_of_the_batch_beside_it() -> None:
    def turn(times: list[float], rows: list[list[int]]) -> dict[str, object]:
        return {"microseconds": times, "processor_us": [2 * time for time in times], "rows": rows}

    ours, theirs = turn([10.0, 20.0], [[1, 2], [3]]), turn([30.0, 50.0], [[1, 9], [3]])
    samples = {
        "aidre words": {mode: [{**ours, "anchor": ours}] for mode in ("words", "vectors", "hybrid")},
        "tantivy": {"words": [{**theirs, "anchor": ours}]},
    }
    found = bench_words.figures(samples, {"tantivy": "1.0"}, np.array([True, False]))
    assert found["hybrid_over_words_and_vectors"] == 0.5
    assert found["aidre"]["words"]["p50 us"] == 30.0 and found["aidre"]["words, no codes"]["p99 us"] == 20.0
    row = found["times_of_aidre"]["tantivy 1.0, words"]
    assert row["time"].startswith("2.67 ") and row["shared"] == "0.750" and row["p50 us"] == 80.0
