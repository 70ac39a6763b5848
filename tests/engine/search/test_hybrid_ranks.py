"""Hybrid search by ranks: the sum of 1 / (60 + rank) over the lists of dense and of lexical search."""

from __future__ import annotations

import numpy as np
import pytest

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.index.fields.filters import Filter, parse_filter
from aidre.engine.model import FUSED_RANKS, Fusion, Query
from aidre.engine.native import native
from aidre.engine.search import bm25, search_lexical
from aidre.engine.search.bm25 import Statistics
from aidre.engine.search.dense import search_dense
from aidre.engine.search.hybrid import fused_by_rank
from aidre.engine.search.question_language import language_of
from tests.support.fused import Ranking, word
from tests.support.stores import NAME, normal, put, record, space_of

_SPACE = space_of("cosine", 16)
_COUNT = 240
_VECTORS = normal(_COUNT, 16, seed=3)
_RARE = word(99)
_THIRD = parse_filter({"third": 1})


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """Chunks with common and rare words in three segments, some deleted; each vector is that of four chunks."""
    random, folder = np.random.default_rng(5), tmp_path_factory.mktemp("ranks")
    records = []
    for number in range(_COUNT):
        chosen = [word(min(40, int(place))) for place in random.zipf(1.4, int(random.integers(1, 20)))]
        chosen += [_RARE] * (number == 236)
        records.append(record(f"d{number:03d}", [" ".join(chosen)], metadata={"third": number % 3}))
    with Store(folder).writer(NAME, spaces=[_SPACE]) as writer:
        for part in np.array_split(np.arange(_COUNT), 3):
            put(writer, [records[place] for place in part.tolist()], _VECTORS[part // 4])
            writer.commit()
        writer.delete([one.document.id for one in records[::7]])
        writer.commit()
    return Store(folder).open(NAME)


def _query(number: int, k: int, fusion: Fusion, filter: Filter | None = None, offset: int = 0) -> Query:
    return Query(_VECTORS[number], _SPACE.id, k, offset, filter, text=_text(number), mode="hybrid", fusion=fusion)


def _text(number: int) -> str:
    return f"{word(1)} {word(3 + number)} {word(9)}"


def _found(snapshot: Snapshot, query: Query) -> Ranking:
    return [(hit.chunk.id, hit.score) for hit in snapshot.search(query)]


def _by_hand(snapshot: Snapshot, query: Query) -> Ranking:
    count, a = max(FUSED_RANKS, query.offset + query.top_k), query.fusion.a
    sums: dict[str, float] = {}
    for mode, weight in (("dense", a), ("lexical", 1 - a)):
        asked = Query(query.vector, query.space, count, filter=query.filter, text=query.text, mode=mode)  # type: ignore[arg-type]
        for rank, hit in enumerate(snapshot.search(asked), 1):
            sums[hit.chunk.id] = sums.get(hit.chunk.id, 0.0) + weight * 61 / (60 + rank)
    ranked = sorted((round(-score, 12), chunk) for chunk, score in sums.items())
    return [(chunk, -score) for score, chunk in ranked][query.offset : query.offset + query.top_k]


@pytest.mark.parametrize("a", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("filter", [None, _THIRD])
def test_hits_have_the_sum_of_both_ranks_and_equal_ones_come_by_id(
    snapshot: Snapshot, a: float, filter: Filter | None
) -> None:
    for number in range(8):
        for k, offset in ((1, 0), (10, 0), (7, 5), (60, 0)):
            query = _query(number, k, Fusion(a, method="rrf"), filter, offset)
            found, expected = _found(snapshot, query), _by_hand(snapshot, query)
            assert [chunk for chunk, _ in found] == [chunk for chunk, _ in expected]
            assert [score for _, score in found] == pytest.approx([score for _, score in expected])


def test_as_many_hits_are_found_as_chunks_pass(snapshot: Snapshot) -> None:
    for filter, count in ((None, snapshot.chunks), (_THIRD, snapshot.count(_THIRD))):
        found = _found(snapshot, _query(2, 1_000, Fusion(method="rrf"), filter))
        assert len({chunk for chunk, _ in found}) == len(found) == count


def test_the_first_of_both_lists_has_the_score_1(snapshot: Snapshot) -> None:
    query = Query(_VECTORS[59], _SPACE.id, 2, text=_RARE, mode="hybrid", fusion=Fusion(0.3, method="rrf"))
    (first, score), (_, second) = _found(snapshot, query)
    assert first == "d236#chunk_1"
    assert score == pytest.approx(1.0)
    assert second == pytest.approx(0.3 * 61 / 62)


@pytest.mark.skipif(native is None, reason="the C kernel was not built here")
def test_numpy_joins_the_lists_as_the_kernel_does(snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    segments, by_kernel = snapshot.segments, Statistics(snapshot.segments)
    assert by_kernel.native is not None
    monkeypatch.setattr(bm25, "native", None)
    by_numpy = Statistics(segments)
    for number in range(6):
        near = search_dense(segments, _SPACE.id, _VECTORS[number : number + 1], k=FUSED_RANKS)
        for k in (1, 10, 50):
            found, plain = (
                fused_by_rank(segments, statistics, _text(number), near, a=0.5, weights={}, k=k, filter=None)
                for statistics in (by_kernel, by_numpy)
            )
            places = zip(found.segment_ords.tolist(), found.rows.tolist(), strict=True)
            assert [*places] == [*zip(plain.segment_ords.tolist(), plain.rows.tolist(), strict=True)]
            assert found.scores == pytest.approx(plain.scores)


def test_words_decide_in_a_language_that_the_model_does_not_know(snapshot: Snapshot) -> None:
    segments, statistics = snapshot.segments, Statistics(snapshot.segments)
    text = f"{word(1)} {word(4)}"
    near = search_dense(segments, _SPACE.id, _VECTORS[:1], k=FUSED_RANKS)
    words = search_lexical(segments, statistics, text, k=1)
    language = str(language_of(segments, statistics, text))
    found = fused_by_rank(segments, statistics, text, near, a=0.5, weights={language: 0.0}, k=1, filter=None)
    assert (found.segment_ords.tolist(), found.rows.tolist()) == (words.segment_ords.tolist(), words.rows.tolist())
    assert found.scores.tolist() == [1.0]
