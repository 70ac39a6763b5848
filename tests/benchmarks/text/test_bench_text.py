"""The benchmark of text queries: the parts that it measures, and the queries that it asks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from aidre.engine.embedding.graph import HashingEmbedder
from benchmarks.text import bench_text
from tests.support.ingests import WORDS


def test_a_text_query_is_asked_and_rendered_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(1)
    passages = [" ".join(f"word{place}" for place in random.zipf(1.3, 30).clip(1, 500)) for _ in range(400)]
    monkeypatch.setattr(bench_text, "texts", lambda _: iter(passages))
    monkeypatch.setattr(bench_text, "PASSAGES", 200)
    monkeypatch.setattr(bench_text, "WARM_UP", 5)
    originals = [getattr(owner, function) for _, owner, function in bench_text.PARTS]
    figures, raw = bench_text.measure(tmp_path, HashingEmbedder(WORDS), rows=300, count=20)
    assert [getattr(owner, function) for _, owner, function in bench_text.PARTS] == originals
    assert figures["chunks"] == 300
    assert 0 < figures["chunks_with_a_word_of_the_query_median"] <= 300
    assert 0 < figures["embedding_p50_ms"] < figures["p50_ms"] <= figures["p99_ms"]
    parts = zip(*(raw[name] for name in {name for name, *_ in bench_text.PARTS}), strict=True)
    assert all(sum(seconds) <= search for seconds, search in zip(parts, raw["search"], strict=True))
    assert len(raw["total"]) == 20


def test_queries_of_the_text_benchmark_are_distinct_and_held_out() -> None:
    passages = [f"alpha{number} beta{number} gamma delta epsilon zeta eta theta iota kappa" for number in range(40)]
    asked = bench_text.questions(passages, 100)
    assert len(set(asked)) == len(asked) == 100
    assert all(any(text in passage for passage in passages) for text in asked)
    with pytest.raises(SystemExit, match="ask for fewer"):
        bench_text.questions(passages[:1], 1000)
