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
from aidre.engine.search import hybrid
from aidre.engine.search.dense import search_dense
from aidre.engine.segment.view import TopK
from aidre.engine.types import Hit
from tests.support.fused import DEPTH, assert_same, found, fused, hybrid as hybrid_ranking, with_feedback, word, words
from tests.support.stores import NAME, Vectors, normal, put, record, space_of, structured

_SPACE = space_of("cosine", 16)


def _records(count: int) -> list[Record]:
    random = np.random.default_rng(5)
    return [
        record(
            f"d{number:04d}",
            [" ".join(word(min(40, int(place))) for place in random.zipf(1.5, int(random.integers(1, 30))))],
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


def _search(
    snapshot: Snapshot, vector: NDArray[np.float32], text: str, top_k: int = 10, **members: object
) -> list[Hit]:
    query = Query(vector, _SPACE.id, top_k=top_k, text=text, mode="hybrid", **members)  # type: ignore[arg-type]
    return snapshot.search(query)


def _ask(snapshot: Snapshot, vector: NDArray[np.float32], text: str, top_k: int = 10, **members: object) -> list[str]:
    return [hit.chunk.id for hit in _search(snapshot, vector, text, top_k, **members)]


@pytest.fixture(scope="module", params=[1, 7])
def three_hundred(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    path = tmp_path_factory.mktemp("three_hundred")
    return _store(path, _records(300), {_SPACE.id: normal(300, 16)}, [_SPACE], request.param)


@pytest.mark.parametrize("fusion", [Fusion(), Fusion(0.9, 2.0), Fusion(0.1, 30.0), Fusion(0.0, 5.0), Fusion(1.0, 5.0)])
def test_hits_are_those_of_brute_force(
    three_hundred: Snapshot, monkeypatch: pytest.MonkeyPatch, fusion: Fusion
) -> None:
    monkeypatch.setattr(hybrid, "MIN_NEIGHBOURS", 4)
    monkeypatch.setattr(hybrid, "_MAX_COMPARED", 10)
    snapshot = three_hundred
    for number, vector in enumerate(normal(8, 16, seed=9)):
        text = words(f"word{number} word{2 * number + 1} word40")
        expected = hybrid_ranking(snapshot, fusion, vector, text, _SPACE.id)
        for top_k in (1, 10, DEPTH, DEPTH + 1, 120):
            hits = _search(snapshot, vector, text, top_k, fusion=fusion)
            assert len(hits) == top_k
            assert_same(hits, expected)
        assert_same(_search(snapshot, vector, text, 10, fusion=fusion, offset=5), expected, 5)
        assert_same(_search(snapshot, vector, text, 10, fusion=fusion, offset=DEPTH - 5), expected, DEPTH - 5)


@pytest.mark.parametrize("seed", range(6))
def test_no_hit_is_lost_in_any_collection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    random = np.random.default_rng(seed)

    def drawn(*choices: int) -> int:
        return int(random.choice(choices))

    for name, value in (
        ("MIN_NEIGHBOURS", drawn(1, 4, 64)),
        ("_MAX_COMPARED", drawn(0, 10, 4_096)),
    ):
        monkeypatch.setattr(hybrid, name, value)
    count, alike = drawn(20, 150, 250), drawn(1, 5, 40)
    pairs = random.zipf(1.5, (alike * 3, 2)).clip(1, 20).tolist()
    texts = [words(f"word{first} word{second} word1") for first, second in pairs]
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
        text = " ".join(word(place) for place in random.integers(1, 22, drawn(1, 3, 6)).tolist())
        fusion = Fusion(float(random.choice([0.0, 0.2, 0.5, 0.8, 1.0])), float(drawn(2, 15)))
        for only in (None, parse_filter({"third": 1})):
            expected = hybrid_ranking(snapshot, fusion, vector, text, _SPACE.id, filter=only)
            for top_k in (1, 7, count):
                hits = _search(snapshot, vector, text, top_k, fusion=fusion, filter=only)
                assert len(hits) == min(top_k, len(expected))
                assert_same(hits, expected)


def test_many_words_and_few_comparisons_still_give_all_hits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hybrid, "MIN_NEIGHBOURS", 2)
    monkeypatch.setattr(hybrid, "_MAX_COMPARED", 1)
    snapshot = _store(tmp_path, _records(200), {_SPACE.id: normal(200, 16)}, [_SPACE], 3)
    text, fusion = words("word1 word2 word3"), Fusion(0.5, 2.0)
    for vector in normal(8, 16, seed=4):
        hits = _search(snapshot, vector, text, 5, fusion=fusion)
        assert_same(hits, hybrid_ranking(snapshot, fusion, vector, text, _SPACE.id))


def test_a_filter_holds_on_both_sides(tmp_path: Path) -> None:
    snapshot = _store(tmp_path, _records(200), {_SPACE.id: normal(200, 16)}, [_SPACE], 2)
    vector, only = normal(1, 16, seed=4)[0], parse_filter({"third": 1})
    text = words("word3 word1")
    expected = hybrid_ranking(snapshot, Fusion(), vector, text, _SPACE.id, filter=only)
    hits = _search(snapshot, vector, text, 200, filter=only)
    assert len(expected) == len(hits) == 67
    assert_same(hits, expected)


@pytest.mark.parametrize("third", [None, 1])
def test_words_alone_leave_chunks_without_any_in_the_order_of_ids(third: int | None, tmp_path: Path) -> None:
    records = _records(600)[::-1]  # the order of rows is not that of ids
    snapshot = _store(tmp_path, records, {_SPACE.id: normal(600, 16)}, [_SPACE], 3)
    vector, only = normal(1, 16, seed=4)[0], None if third is None else parse_filter({"third": third})
    for text in map(words, ("word30", "word7 word9", "unheard", "word1")):
        ranked = hybrid_ranking(snapshot, Fusion(0.0), vector, text, _SPACE.id, filter=only)
        expected = [chunk for chunk, _ in ranked]
        for wanted in (1, 10, 100, 600):
            assert _ask(snapshot, vector, text, wanted, fusion=Fusion(0.0), filter=only) == expected[:wanted]


def test_words_that_nobody_wrote_leave_the_vectors_alone(tmp_path: Path) -> None:
    snapshot = _store(tmp_path, _records(100), {_SPACE.id: normal(100, 16)}, [_SPACE], 2)
    vector = normal(1, 16, seed=4)[0]
    dense = [hit.chunk.id for hit in snapshot.search(Query(vector, _SPACE.id, 100))]
    fused = with_feedback(
        snapshot,
        Fusion(),
        [(id, 0.5 * score) for id, score in found(snapshot, "dense", vector=vector, space=_SPACE.id).items()],
        _SPACE.id,
    )
    for text in ("unheard", "the"):
        hits = _search(snapshot, vector, text, 100)
        assert_same(hits, fused)
        assert [hit.chunk.id for hit in hits[DEPTH:]] == dense[DEPTH:]


@pytest.mark.parametrize("text", ["word1", "word3 word9", "nobody"])
def test_equal_vectors_are_ordered_by_words_and_ids_without_looking_deeper(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = np.repeat(normal(3, 16), 200, axis=0)
    snapshot = _store(tmp_path, _records(600), {_SPACE.id: vectors}, [_SPACE], 2)
    asked = words(text)
    wanted = []

    def counted(*args: Any, **options: Any) -> TopK:
        wanted.append(options["k"])
        return search_dense(*args, **options)

    monkeypatch.setattr(hybrid, "search_dense", counted)
    hits = _search(snapshot, vectors[0], asked)
    assert len(wanted) == 1
    assert_same(hits, hybrid_ranking(snapshot, Fusion(), vectors[0], asked, _SPACE.id))


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
    text = words("word9 word21")
    expected = [chunk for chunk, _ in hybrid_ranking(snapshot, Fusion(), rows[17], text, space.id)[:10]]
    found = snapshot.search(Query(rows[17], space.id, text=text, mode="hybrid"))
    assert len({hit.chunk.id for hit in found} & set(expected)) >= 9


@pytest.mark.parametrize("distance", ["dot", "euclidean"])
def test_unit_vectors_of_any_distance_are_fused_by_their_cosine(tmp_path: Path, distance: str) -> None:
    space = space_of(distance, 16, normalized=True)  # type: ignore[arg-type]
    vectors = normal(120, 16)
    snapshot = _store(tmp_path / "a", _records(120), {space.id: vectors}, [space], 2)
    cosine = _store(tmp_path / "b", _records(120), {_SPACE.id: vectors}, [_SPACE], 2)
    vector = normal(1, 16, seed=4)[0]
    members = {"text": words("word2 word7"), "mode": "hybrid", "top_k": 20}
    found = snapshot.search(Query(vector, space.id, **members))  # type: ignore[arg-type]
    wanted = cosine.search(Query(vector, _SPACE.id, **members))  # type: ignore[arg-type]
    assert_same(found, [(hit.chunk.id, hit.score) for hit in wanted])


def test_vectors_of_any_length_cannot_be_fused(tmp_path: Path) -> None:
    space = space_of("dot", 16)
    snapshot = _store(tmp_path, _records(5), {space.id: normal(5, 16)}, [space], 1)
    with pytest.raises(InvalidInput, match="use mode dense or lexical"):
        snapshot.search(Query(normal(1, 16)[0], space.id, text=words("word1"), mode="hybrid"))


def test_a_second_space_orders_the_first_hits_anew(tmp_path: Path) -> None:
    other = EmbeddingSpace("other", 4, "cosine")
    vectors = {_SPACE.id: normal(200, 16), other.id: normal(200, 4, seed=8)}
    snapshot = _store(tmp_path, _records(200), vectors, [_SPACE, other], 3)
    vector, closer = normal(1, 16, seed=4)[0], normal(1, 4, seed=6)[0]
    text = words("word2 word7")
    first = fused(snapshot, Fusion(), vector, text, _SPACE.id)[:30]
    query = Query(vector, _SPACE.id, 30, text=text, mode="hybrid", rescore=Rescore(closer, other.id, 20))
    hits = snapshot.search(query)
    scores = dict(fused(snapshot, Fusion(), closer, text, other.id))
    rescored = sorted(((id, scores[id]) for id, _ in first[:20]), key=lambda pair: (-pair[1], pair[0]))
    assert_same(hits[:20], rescored)
    assert [hit.chunk.id for hit in hits[20:]] == [id for id, _ in first[20:]]
    values = [hit.score for hit in hits]
    assert values == sorted(values, reverse=True)
    assert len(set(values)) == 30
    page = snapshot.search(replace(query, top_k=5, offset=3))
    assert [hit.chunk.id for hit in page] == [hit.chunk.id for hit in hits[3:8]]


def test_a_second_space_finds_nothing_where_the_first_does_not(tmp_path: Path) -> None:
    other = EmbeddingSpace("other", 4, "cosine")
    snapshot = _store(tmp_path, _records(20), {_SPACE.id: normal(20, 16), other.id: normal(20, 4)}, [_SPACE, other], 1)
    rescore = Rescore(normal(1, 4)[0], other.id, 5)
    assert _ask(snapshot, normal(1, 16)[0], words("word2"), rescore=rescore, filter=parse_filter({"none": 1})) == []


def test_an_empty_generation_has_no_hits(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[_SPACE]) as writer:
        put(writer, ["a"], normal(1, 16))
        writer.commit()
        writer.delete(["a"])
        writer.commit()
    snapshot = Store(tmp_path).open(NAME)
    assert _ask(snapshot, normal(1, 16)[0], "text of a") == []


_NEAR = space_of("cosine", 16, model="multilingual")


def test_where_all_cosines_are_high_what_is_above_them_is_weighed(tmp_path: Path) -> None:
    """Vectors with a large common part, as those of E5: they order hits as the same vectors without it do."""
    own, texts = normal(40, 16), [words(f"word{row % 7} word{row % 5}") for row in range(40)]
    common = np.zeros(16, np.float32)
    common[0] = 1.0
    orders = []
    for folder, part in (("plain", 0.0), ("near", 0.75)):
        signal = own - np.outer(own[:, 0], common)
        signal /= np.linalg.norm(signal, axis=1, keepdims=True)
        vectors = np.sqrt(part) * common + np.sqrt(1 - part) * signal
        space = _NEAR if part else _SPACE
        with Store(tmp_path / folder).writer(NAME, spaces=[space]) as writer:
            put(writer, [record(f"d{row:02d}", [text]) for row, text in enumerate(texts)], vectors.astype(np.float32))
            writer.commit()
        query = Query(vectors[3].astype(np.float32), space.id, 10, text=words("word2 word4"), mode="hybrid")
        orders.append([hit.document_id for hit in Store(tmp_path / folder).open(NAME).search(query)])
    assert orders[0] == orders[1]
