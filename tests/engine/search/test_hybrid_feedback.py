"""Soft feedback: the best hits of a hybrid search are ordered anew by what the first ones have in common."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.model import Fusion, Query
from aidre.engine.search import FEEDBACK_DEPTH
from tests.support.fused import assert_same, fused, hybrid, word, words
from tests.support.stores import NAME, Vectors, normal, put, record, space_of

_SPACE = space_of("cosine", 16)
_COUNT = 200
_TEXT = words("word2 word5")


def _store(path: Path, vectors: Vectors, commits: int = 1) -> Snapshot:
    records = [record(f"d{row:03d}", [f"{word(row % 7)} {word(row % 11)}"]) for row in range(len(vectors))]
    with Store(path).writer(NAME, spaces=[_SPACE]) as writer:
        for part in np.array_split(np.arange(len(records)), commits):
            put(writer, [records[row] for row in part.tolist()], vectors[part])
            writer.commit()
    return Store(path).open(NAME)


def _hits(snapshot: Snapshot, vector: Vectors, top_k: int, **members: object) -> list[tuple[str, float]]:
    query = Query(vector, _SPACE.id, top_k, text=_TEXT, mode="hybrid", **members)  # type: ignore[arg-type]
    return [(hit.chunk.id, hit.score) for hit in snapshot.search(query)]


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return _store(tmp_path_factory.mktemp("feedback"), normal(_COUNT, 16))


QUESTIONS = normal(5, 16, seed=9)


def test_a_hit_like_the_first_ones_overtakes_one_that_is_not(tmp_path: Path) -> None:
    """Both are as near to the question; one is on the side where the ten best hits are."""
    east, north, up = np.eye(16, dtype=np.float32)[:3]
    near = [east + 0.2 * north + 0.01 * step * up for step in range(10)]
    twins = [east - 0.35 * north, east + 0.35 * north]  # by their ids, the first one would come first
    snapshot = _store(tmp_path, np.array([*twins, *near, *normal(50, 16) * [0, 0, *[1] * 14]], np.float32))
    order = [id for id, _ in _ask_dense_words(snapshot, east)]
    assert order.index("d001#chunk_1") < order.index("d000#chunk_1")
    scores = dict(fused(snapshot, Fusion(), east, "unheard", _SPACE.id))
    assert scores["d001#chunk_1"] == pytest.approx(scores["d000#chunk_1"], abs=1e-3)


def _ask_dense_words(snapshot: Snapshot, vector: Vectors) -> list[tuple[str, float]]:
    query = Query(vector, _SPACE.id, 62, text="unheard", mode="hybrid")
    return [(hit.chunk.id, hit.score) for hit in snapshot.search(query)]


@pytest.mark.parametrize("vector", QUESTIONS)
def test_the_hits_after_those_that_are_ordered_anew_stay_there(snapshot: Snapshot, vector: Vectors) -> None:
    before = [id for id, _ in fused(snapshot, Fusion(), vector, _TEXT, _SPACE.id)]
    hits = _hits(snapshot, vector, _COUNT)
    after = [id for id, _ in hits]
    assert after != before
    assert set(after[:FEEDBACK_DEPTH]) == set(before[:FEEDBACK_DEPTH])
    assert after[FEEDBACK_DEPTH:] == before[FEEDBACK_DEPTH:]
    scores = [score for _, score in hits]
    assert scores == sorted(scores, reverse=True)
    assert scores[FEEDBACK_DEPTH - 1] > scores[FEEDBACK_DEPTH]


@pytest.mark.parametrize("size", [1, 7, 25, 60])
def test_pages_of_any_size_make_up_the_same_list(snapshot: Snapshot, size: int) -> None:
    for vector in QUESTIONS[:2]:
        pages = [hit for offset in range(0, _COUNT, size) for hit in _hits(snapshot, vector, size, offset=offset)]
        assert pages == _hits(snapshot, vector, _COUNT)


@pytest.mark.parametrize("commits", [2, 40])
def test_the_hits_do_not_depend_on_segments(snapshot: Snapshot, tmp_path: Path, commits: int) -> None:
    parted = _store(tmp_path, normal(_COUNT, 16), commits)
    assert len(parted.segments) > len(snapshot.segments)
    for vector in QUESTIONS:
        assert _hits(parted, vector, _COUNT) == _hits(snapshot, vector, _COUNT)


def test_what_was_deleted_gives_no_feedback(snapshot: Snapshot, tmp_path: Path) -> None:
    fewer = _store(tmp_path, normal(_COUNT, 16)[:150])
    _store(tmp_path / "all", normal(_COUNT, 16), 3)
    with Store(tmp_path / "all").writer(NAME, spaces=[_SPACE]) as writer:
        writer.delete([f"d{row:03d}" for row in range(150, _COUNT)])
        writer.commit()
    remaining = Store(tmp_path / "all").open(NAME)
    for vector in QUESTIONS:
        assert _hits(remaining, vector, _COUNT) == _hits(fewer, vector, _COUNT)


def test_its_weight_grows_with_that_of_the_vectors(snapshot: Snapshot) -> None:
    for fusion in (Fusion(0.0), Fusion(0.2), Fusion(1.0)):
        query = Query(QUESTIONS[0], _SPACE.id, _COUNT, text=_TEXT, mode="hybrid", fusion=fusion)
        expected = hybrid(snapshot, fusion, QUESTIONS[0], _TEXT, _SPACE.id)
        assert_same(snapshot.search(query), expected)
        plain = fused(snapshot, fusion, QUESTIONS[0], _TEXT, _SPACE.id)
        assert (expected == plain) is (fusion.a == 0)


@pytest.mark.parametrize("count", [1, 2, 3, 11])
def test_a_few_chunks_are_all_found(tmp_path: Path, count: int) -> None:
    snapshot = _store(tmp_path, normal(count, 16))
    hits = snapshot.search(Query(QUESTIONS[0], _SPACE.id, 100, text=_TEXT, mode="hybrid"))
    assert len(hits) == count
    assert_same(hits, hybrid(snapshot, Fusion(), QUESTIONS[0], _TEXT, _SPACE.id))


def test_first_hits_that_cancel_out_change_nothing(tmp_path: Path) -> None:
    """Their mean is a vector without a direction."""
    east, north = np.eye(16, dtype=np.float32)[:2]
    snapshot = _store(tmp_path, np.array([east, -east], np.float32))
    hits = snapshot.search(Query(north, _SPACE.id, text="unheard", mode="hybrid"))
    assert [(hit.chunk.id, hit.score) for hit in hits] == [("d000#chunk_1", 0.0), ("d001#chunk_1", 0.0)]
