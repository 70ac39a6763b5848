"""The footprint of a chunk: the bytes by kind of file add up to those of the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidre.engine.collection.store import Store
from aidre.engine.embedding.graph import HashingEmbedder
from benchmarks.text import bench_footprint
from benchmarks.text.bench_text import COLLECTION, material
from tests.support.clients import TEXT

WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]


@pytest.mark.process
@pytest.mark.slow
def test_every_byte_of_the_files_is_counted_in_one_kind(tmp_path: Path) -> None:
    embedder = HashingEmbedder(TEXT)
    passages = [" ".join(WORDS[number % 8 :] + WORDS) for number in range(20)]
    figures = bench_footprint.measure(
        tmp_path, embedder, material(passages, embedder.embed_documents(passages)), 200, 30
    )
    kinds = figures["bytes a chunk"]
    assert set(kinds) >= {"chunks", "documents", "ids", "lexicon", "vectors", "keys"}
    assert all(kind["on disk"] > 0 for kind in kinds.values())
    manifest = Store(tmp_path).open(COLLECTION).manifest
    first = sum(file.size for entry in manifest.segments if entry.chunks == 200 for file in entry.files.values())
    counted = 200 * sum(kind["on disk"] for name, kind in kinds.items() if name != "manifest")
    assert abs(counted - first) < 200 * 0.01 * len(kinds)
    assert 0 < figures["files_of_a_commit_of_50_documents"] <= 12


def test_the_kind_of_a_file_is_in_its_name() -> None:
    named = {"s/chunks.arrow": "chunks", "s/a.b.vectors.arrow": "vectors", "s/v.index.000042.arrow": "index"}
    assert {name: bench_footprint.kind_of(name) for name in [*named, "000001.json"]} == {
        **named,
        "000001.json": "manifest",
    }
