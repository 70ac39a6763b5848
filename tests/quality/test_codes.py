"""A code that one passage of many contains is found, bare and in a sentence; passages are those of the samples."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.embedding.embedder import DEFAULT_SPACE, Embedder
from benchmarks.quality.bench_codes import ASKED, FORMATS, codes, first, store

pytestmark = pytest.mark.slow

COUNT, SEED = 50, 8


@pytest.fixture(scope="module")
def with_codes(
    embedder: Embedder, samples: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Snapshot, Mapping[str, str]]:
    chunks = list(Store(samples).open("samples").scan())
    texts = {f"{place:04d}": chunk.text for place, chunk in enumerate(chunks)}
    vectors = {f"{place:04d}": chunk.vectors()[DEFAULT_SPACE.id] for place, chunk in enumerate(chunks)}
    return store(tmp_path_factory.mktemp("codes"), embedder, texts, vectors, count=COUNT, seed=SEED)


def test_hybrid_search_finds_the_passage_of_a_code(
    with_codes: tuple[Snapshot, Mapping[str, str]], embedder: Embedder
) -> None:
    snapshot, where = with_codes
    right = first(snapshot, embedder, where, "hybrid", SEED)
    assert right["bare"] >= 0.98 * COUNT, right
    assert min(right[kind] for kind in ASKED) >= 0.93 * COUNT, right


def test_vectors_alone_do_not(with_codes: tuple[Snapshot, Mapping[str, str]], embedder: Embedder) -> None:
    """Else this would be no test of the bonus."""
    snapshot, where = with_codes
    assert first(snapshot, embedder, where, "dense", SEED)["long sentence"] < 0.5 * COUNT


def test_codes_are_of_every_format() -> None:
    assert len(set(codes(COUNT, random.Random(SEED)))) == COUNT >= 5 * len(FORMATS)
