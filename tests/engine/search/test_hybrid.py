"""Hybrid search: exact against brute force, whatever the segments; the second space; what cannot be fused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.errors import InvalidInput
from aidre.engine.index.fields.filters import parse_filter
from aidre.engine.model import EmbeddingSpace, Fusion, Query, Record, Rescore
from aidre.engine.search import bm25 as lexical, hybrid
from aidre.engine.search.dense import search_dense
from aidre.engine.segment.top_k import TopK
from tests.support.stores import NAME, Vectors, normal, put, record, space_of, structured

_SPACE = space_of("cosine", 16)


def _records(count: int) -> list[Record]:
    random = np.random.default_rng(5)
    return [
        record(
            f"d{number:04d}",
            [" ".join(f"word{min(40, int(place))}" for place in random.zipf(1.5, int(random.integers(1, 30))))],
            metadata={"third": number % 3},
        )
        for number in range(count)
    ]


def _store(
    path: Path,
    records: Sequence[Record],
    vectors: Mapping[str, Vectors],
    spaces: Sequence[EmbeddingSpace],
    commits: int,
) -> Snapshot:
    with Store(path).writer(NAME, spaces=spaces) as writer:
        for part in np.array_split(np.arange(len(records)), commits):
            chosen = {name: rows[part] for name, rows in vectors.items()}
            put(writer, [records[place] for place in part.tolist()], chosen)
            writer.commit()
    return Store(path).open(NAME)


def _all(snapshot: Snapshot, mode: str, **members: object) -> dict[str, float]:
    query = Query(mode=mode, top_k=snapshot.chunks, **{"vector": None, "space": None, **members})  # type: ignore[arg-type]
    return {hit.chunk.id: hit.score for hit in snapshot.search(query)}


def _expected(
    snapshot: Snapshot, fusion: Fusion, vector: NDArray[np.float32], text: str, **members: object
) -> list[str]:
    """All chunks by the formula, from the two searches on their own."""
    cosines = _all(snapshot, "dense", vector=vector, space=_SPACE.id, **members)
    bm25 = _all(snapshot, "lexical", text=text, **members)
    scores = {
        chunk: fusion.a * cosine + (1 - fusion.a) * (bm25.get(chunk, 0.0) / (bm25.get(chunk, 0.0) + fusion.c))
        for chunk, cosine in cosines.items()
    }
    return sorted(scores, key=lambda chunk: (-scores[chunk], chunk))


def _ask(snapshot: Snapshot, vector: NDArray[np.float32], text: str, top_k: int = 10, **members: object) -> list[str]:
    query = Query(vector, _SPACE.id, top_k=top_k, text=text, mode="hybrid", **members)  # type: ignore[arg-type]
    return [hit.chunk.id for hit in snapshot.search(query)]


@pytest.fixture(scope="module", params=[1, 7])
def three_hundred(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    path = tmp_path_factory.mktemp("three_hundred")
    return _store(path, _records(300), {_SPACE.id: normal(300, 16)}, [_SPACE], request.param)


@pytest.mark.parametrize("fusion", [Fusion(), Fusion(0.9, 2.0), Fusion(0.1, 30.0), Fusion(0.0, 5.0), Fusion(1.0, 5.0)])
def test_hits_are_those_of_brute_force(
    three_hundred: Snapshot, monkeypatch: pytest.MonkeyPatch, fusion: Fusion
) -> None:
    monkeypatch.setattr(hybrid, "MIN_NEIGHBOURS", 4)
    monkeypatch.setattr(hybrid, "_MAX_LEXICAL", 10)
    monkeypatch.setattr(hybrid, "_FIRST_LEXICAL", 5)
    snapshot = three_hundred
    for number, vector in enumerate(normal(8, 16, seed=9)):
        text = f"word{number} word{2 * number + 1} word40"
        expected = _expected(snapshot, fusion, vector, text)
        for top_k in (1, 10, 120):
            assert _ask(snapshot, vector, text, top_k, fusion=fusion) == expected[:top_k]
        assert _ask(snapshot, vector, text, 10, fusion=fusion, offset=5) == expected[5:15]


@pytest.mark.parametrize("seed", range(6))
def test_no_hit_is_lost_in_any_collection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    random = np.random.default_rng(seed)

    def drawn(*choices: int) -> int:
        return int(random.choice(choices))

    for module, name, value in (
        (hybrid, "MIN_NEIGHBOURS", drawn(1, 4, 64)),
        (hybrid, "_MAX_LEXICAL", drawn(1, 10, 4_096)),
        (hybrid, "_FIRST_LEXICAL", drawn(1, 5, 256)),
        (lexical, "_SMALL_SEGMENT_ROWS", drawn(0, 30, 1 << 16)),
        (lexical, "_SMALL_BLOCK_ROWS", drawn(16, 1 << 15)),
        (lexical, "_BLOCK_ROWS", drawn(16, 1 << 17)),
        (lexical, "_LOOKUP_COST", drawn(0, 6, 1 << 30)),
    ):
        monkeypatch.setattr(module, name, value)
    count, alike = drawn(20, 150, 250), drawn(1, 5, 40)
    pairs = random.zipf(1.5, (alike * 3, 2)).clip(1, 20).tolist()
    texts = [f"word{first} word{second} word1" for first, second in pairs]
    # Ids in no order, and many chunks that tie in their words, in their vectors or in both.
    records = [
        record(f"d{number:03d}", [texts[int(random.integers(len(texts)))]], metadata={"third": number % 3})
        for number in random.permutation(count).tolist()
    ]
    vectors = normal(alike, 16, seed=seed)[random.integers(0, alike, count)]
    _store(tmp_path, records, {_SPACE.id: vectors}, [_SPACE], drawn(1, 3, 8))
    if seed % 3:
        with Store(tmp_path).writer(NAME, spaces=[_SPACE]) as writer:
            writer.delete([one.document.id for one in records[:: drawn(2, 5)]])
            writer.commit()
    snapshot = Store(tmp_path).open(NAME)
    for vector in normal(3, 16, seed=seed + 1):
        text = " ".join(f"word{place}" for place in random.integers(1, 22, drawn(1, 3, 6)).tolist())
        fusion = Fusion(float(random.choice([0.0, 0.2, 0.5, 0.8, 1.0])), float(drawn(2, 15)))
        for only in (None, parse_filter({"third": 1})):
            expected = _expected(snapshot, fusion, vector, text, filter=only)
            for top_k in (1, 7, count):
                assert _ask(snapshot, vector, text, top_k, fusion=fusion, filter=only) == expected[:top_k]


def test_many_words_and_few_comparisons_still_give_all_hits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hybrid, "MIN_NEIGHBOURS", 2)
    monkeypatch.setattr(hybrid, "_MAX_LEXICAL", 1)
    monkeypatch.setattr(hybrid, "_FIRST_LEXICAL", 1)
    snapshot = _store(tmp_path, _records(200), {_SPACE.id: normal(200, 16)}, [_SPACE], 3)
    text, fusion = "word1 word2 word3", Fusion(0.5, 2.0)
    for vector in normal(8, 16, seed=4):
        assert _ask(snapshot, vector, text, 5, fusion=fusion) == _expected(snapshot, fusion, vector, text)[:5]


def test_a_filter_holds_on_both_sides(tmp_path: Path) -> None:
    snapshot = _store(tmp_path, _records(200), {_SPACE.id: normal(200, 16)}, [_SPACE], 2)
    vector, only = normal(1, 16, seed=4)[0], parse_filter({"third": 1})
    expected = _expected(snapshot, Fusion(), vector, "word3 word1", filter=only)
    assert len(expected) == 67
    assert _ask(snapshot, vector, "word3 word1", 200, filter=only) == expected


@pytest.mark.parametrize("third", [None, 1])
def test_words_alone_leave_chunks_without_any_in_the_order_of_ids(third: int | None, tmp_path: Path) -> None:
    records = _records(600)[::-1]  # the order of rows is not that of ids
    snapshot = _store(tmp_path, records, {_SPACE.id: normal(600, 16)}, [_SPACE], 3)
    vector, only = normal(1, 16, seed=4)[0], None if third is None else parse_filter({"third": third})
    for text in ("word30", "word7 word9", "unheard", "word1"):
        expected = _expected(snapshot, Fusion(0.0), vector, text, filter=only)
        for wanted in (1, 10, 100, 600):
            assert _ask(snapshot, vector, text, wanted, fusion=Fusion(0.0), filter=only) == expected[:wanted]


def test_words_that_nobody_wrote_leave_the_order_of_the_vectors(tmp_path: Path) -> None:
    snapshot = _store(tmp_path, _records(100), {_SPACE.id: normal(100, 16)}, [_SPACE], 2)
    vector = normal(1, 16, seed=4)[0]
    dense = [hit.chunk.id for hit in snapshot.search(Query(vector, _SPACE.id))]
    assert _ask(snapshot, vector, "unheard") == dense == _ask(snapshot, vector, "the")


@pytest.mark.parametrize("text", ["word1", "word3 word9", "nobody"])
def test_equal_vectors_are_ordered_by_words_and_ids_without_looking_deeper(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = np.repeat(normal(3, 16), 200, axis=0)
    snapshot = _store(tmp_path, _records(600), {_SPACE.id: vectors}, [_SPACE], 2)
    wanted = []

    def counted(*args: Any, **options: Any) -> TopK:
        wanted.append(options["k"])
        return search_dense(*args, **options)

    monkeypatch.setattr(hybrid, "search_dense", counted)
    found = _ask(snapshot, vectors[0], text)
    assert found == _expected(snapshot, Fusion(), vectors[0], text)[:10]
    assert wanted == [hybrid.MIN_NEIGHBOURS]


@pytest.mark.slow
@pytest.mark.usefixtures("quick_calibration")
def test_scanned_candidates_are_fused_too(tmp_path: Path) -> None:
    space = space_of("cosine", 768)
    rows = structured(1_700, 768)
    with Store(tmp_path).writer(NAME, spaces=[space]) as writer:
        put(writer, _records(1_700), rows)
        writer.finish()
    snapshot = Store(tmp_path).open(NAME)
    assert snapshot.segments[0].segment.scans
    cosines = rows @ rows[17] / np.linalg.norm(rows, axis=1) / np.linalg.norm(rows[17])
    query = Query(rows[17], space.id, text="word9 word21", mode="hybrid")
    bm25 = _all(snapshot, "lexical", text="word9 word21")
    scores = {f"d{row:04d}#chunk_1": 0.5 * float(cosine) for row, cosine in enumerate(cosines)}
    for chunk, value in bm25.items():
        scores[chunk] += 0.5 * value / (value + Fusion().c)
    expected = sorted(scores, key=lambda chunk: (-scores[chunk], chunk))[:10]
    assert len({hit.chunk.id for hit in snapshot.search(query)} & set(expected)) >= 9


@pytest.mark.parametrize("distance", ["dot", "euclidean"])
def test_unit_vectors_of_any_distance_are_fused_by_their_cosine(tmp_path: Path, distance: str) -> None:
    space = space_of(distance, 16, normalized=True)  # type: ignore[arg-type]
    vectors = normal(120, 16)
    snapshot = _store(tmp_path / "a", _records(120), {space.id: vectors}, [space], 2)
    cosine = _store(tmp_path / "b", _records(120), {_SPACE.id: vectors}, [_SPACE], 2)
    vector = normal(1, 16, seed=4)[0]
    members = {"text": "word2 word7", "mode": "hybrid", "top_k": 20}
    found = snapshot.search(Query(vector, space.id, **members))  # type: ignore[arg-type]
    wanted = cosine.search(Query(vector, _SPACE.id, **members))  # type: ignore[arg-type]
    assert [hit.chunk.id for hit in found] == [hit.chunk.id for hit in wanted]
    assert [hit.score for hit in found] == pytest.approx([hit.score for hit in wanted], abs=1e-5)


def test_vectors_of_any_length_cannot_be_fused(tmp_path: Path) -> None:
    space = space_of("dot", 16)
    snapshot = _store(tmp_path, _records(5), {space.id: normal(5, 16)}, [space], 1)
    with pytest.raises(InvalidInput, match="use mode dense or lexical"):
        snapshot.search(Query(normal(1, 16)[0], space.id, text="word1", mode="hybrid"))


def test_a_second_space_orders_the_first_hits_anew(tmp_path: Path) -> None:
    other = EmbeddingSpace("other", 4, "cosine")
    vectors = {_SPACE.id: normal(200, 16), other.id: normal(200, 4, seed=8)}
    snapshot = _store(tmp_path, _records(200), vectors, [_SPACE, other], 3)
    vector, closer = normal(1, 16, seed=4)[0], normal(1, 4, seed=6)[0]
    text = "word2 word7"
    first = _ask(snapshot, vector, text, 30)
    query = Query(vector, _SPACE.id, 30, text=text, mode="hybrid", rescore=Rescore(closer, other.id, 20))
    hits = snapshot.search(query)
    cosines = _all(snapshot, "dense", vector=closer, space=other.id)
    bm25 = _all(snapshot, "lexical", text=text)
    scores = {c: 0.5 * cosines[c] + 0.5 * (bm25.get(c, 0.0) / (bm25.get(c, 0.0) + Fusion().c)) for c in first[:20]}
    assert [hit.chunk.id for hit in hits[:20]] == sorted(scores, key=lambda chunk: (-scores[chunk], chunk))
    assert [hit.chunk.id for hit in hits[20:]] == first[20:]
    values = [hit.score for hit in hits]
    assert values == sorted(values, reverse=True)
    assert len(set(values)) == 30
    page = snapshot.search(replace(query, top_k=5, offset=3))
    assert [hit.chunk.id for hit in page] == [hit.chunk.id for hit in hits[3:8]]


def test_a_second_space_finds_nothing_where_the_first_does_not(tmp_path: Path) -> None:
    other = EmbeddingSpace("other", 4, "cosine")
    snapshot = _store(tmp_path, _records(20), {_SPACE.id: normal(20, 16), other.id: normal(20, 4)}, [_SPACE, other], 1)
    rescore = Rescore(normal(1, 4)[0], other.id, 5)
    assert _ask(snapshot, normal(1, 16)[0], "word2", rescore=rescore, filter=parse_filter({"none": 1})) == []


def test_an_empty_generation_has_no_hits(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[_SPACE]) as writer:
        put(writer, ["a"], normal(1, 16))
        writer.commit()
        writer.delete(["a"])
        writer.commit()
    snapshot = Store(tmp_path).open(NAME)
    assert _ask(snapshot, normal(1, 16)[0], "text of a") == []
