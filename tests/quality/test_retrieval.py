"""Retrieval quality: a floor under what search finds in a judged set that is made of this Python."""

from __future__ import annotations

import pytest

from aidre.engine.embedding.embedder import DEFAULT_SPACE, load_embedder
from aidre.engine.model import Fusion, Mode
from benchmarks.bench_quality import measure
from benchmarks.quality import JudgedSet, read_set
from benchmarks.rankings import MODES, Result
from benchmarks.stdlib_corpus import write_set

FLOORS = {"lexical": 0.54, "dense": 0.65, "hybrid": 0.67}
"""Of nDCG@10. The worst of six random halves of one library reaches 0.57, 0.68, 0.70; each Python has another one."""

TOLERANCE = 0.005


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> JudgedSet:
    folder = tmp_path_factory.mktemp("sets") / "stdlib"
    write_set(folder)
    return read_set(folder)


@pytest.fixture(scope="module")
def measured(library: JudgedSet, tmp_path_factory: pytest.TempPathFactory) -> Result:
    return measure(library, load_embedder(DEFAULT_SPACE), Fusion(), tmp_path_factory.mktemp("kept"))


@pytest.mark.parametrize("mode", MODES)
def test_the_standard_library_is_found_by_its_documentation(measured: Result, mode: Mode) -> None:
    assert measured.outcomes[mode].ndcg >= FLOORS[mode]


def test_hybrid_is_as_good_as_the_better_of_both_sides(measured: Result) -> None:
    found = measured.outcomes
    assert found["hybrid"].ndcg >= max(found["lexical"].ndcg, found["dense"].ndcg) - TOLERANCE
    assert found["hybrid"].recall >= max(found["lexical"].recall, found["dense"].recall) - TOLERANCE
