"""A rare code in a query leads to the chunks that contain it: how rare, and which chunks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.index.fields import parse_filter
from aidre.engine.model import Fusion, Mode, Query
from aidre.engine.search import bm25
from aidre.engine.search.codes import CODE_WEIGHT, LEAST_ORDERED, code_chunks
from tests.support.fused import bm25_plus, found
from tests.support.stores import NAME, normal, put, record, space_of

_SPACE = space_of("cosine", 16)
_CODE = "AB-4711"


def _store(path: Path, texts: Sequence[str], commits: int = 1) -> Snapshot:
    vectors = normal(len(texts), 16)
    with Store(path).writer(NAME, spaces=[_SPACE]) as writer:
        for part in np.array_split(np.arange(len(texts)), commits):
            chosen = [record(f"d{row:03d}", [texts[row]], metadata={"odd": row % 2}) for row in part.tolist()]
            put(writer, chosen, vectors[part])
            writer.commit()
    return Store(path).open(NAME)


def _texts(holding: int, count: int = 200) -> list[str]:
    """The code stands in the chunks before the last one, counted from there."""
    return [f"cold soup {_CODE}" if count - holding <= row + 1 < count else "cold soup AB 17" for row in range(count)]


def _bonuses(snapshot: Snapshot, text: str, only: object = None) -> dict[str, float]:
    filter = None if only is None else parse_filter(only)
    segments = snapshot.segments
    ords, rows, bonuses = code_chunks(segments, bm25.Statistics(segments), text, filter=filter)
    places = zip(ords.tolist(), rows.tolist(), bonuses.tolist(), strict=True)
    return {segments[place].segment.chunks.value("id", row): bonus for place, row, bonus in places}


@pytest.mark.parametrize("commits", [1, 7])
def test_the_bonus_falls_with_the_chunks_that_hold_the_whole_code(tmp_path: Path, commits: int) -> None:
    for holding in (1, 5, 14, 15, 100):
        snapshot = _store(tmp_path / str(holding), _texts(holding), commits)
        share = max(1 - 2 * math.log(holding) / math.log(200), LEAST_ORDERED)
        ids = {f"d{row:03d}#chunk_1": pytest.approx(CODE_WEIGHT * share) for row in range(199 - holding, 199)}
        assert _bonuses(snapshot, f"is {_CODE} cold?") == ids


@pytest.mark.parametrize("commits", [1, 7])
def test_a_code_of_one_part_in_many_chunks_has_none(tmp_path: Path, commits: int) -> None:
    for holding in (14, 15):
        texts = [one.replace(_CODE, "TR4410") for one in _texts(holding)]
        snapshot = _store(tmp_path / str(holding), texts, commits)
        assert bool(_bonuses(snapshot, "is TR4410 cold?")) == (holding < math.sqrt(200))


def test_chunks_that_hold_a_part_of_the_code_get_none(tmp_path: Path) -> None:
    texts = ["AB 12", "4711", "AB-4711", "AB and then 4711", "4711-AB", "ab 4711", *["soup"] * 100]
    assert set(_bonuses(_store(tmp_path, texts), _CODE)) == {"d002#chunk_1", "d005#chunk_1"}
    assert _bonuses(_store(tmp_path / "other", texts), "AB-9999") == {}


@pytest.mark.parametrize("mode", ["lexical", "hybrid"])
@pytest.mark.parametrize(
    ("written", "other"),
    [
        ("2024-03-05", "2024-05-03"),
        ("05.03.2024", "03.05.2024"),
        ("1.0.0.10", "10.0.0.1"),
        ("AB-34-12", "AB-12-34"),
        ("8.4", "4.8"),
        ("10:30", "30:10"),
        ("usr/local/bin", "bin/local/usr"),
        ("v2.13.0", "v13.2.0"),
        ("2024/03", "03/2024"),
        ("192.168.1.10/24", "192.168.10.1/24"),
        ("std::vector", "vector::std"),
    ],
)
def test_what_is_written_as_asked_comes_before_its_parts_in_another_order(
    tmp_path: Path, written: str, other: str, mode: Mode
) -> None:
    # The other one is the shorter text, and the nearer one by its vector.
    texts = [f"We met {written} at the old mill beside the river.", f"We met {other}.", *["soup of the day"] * 40]
    vectors = np.eye(16, dtype=np.float32)[[1, 0, *[2] * 40]]
    with Store(tmp_path).writer(NAME, spaces=[_SPACE]) as writer:
        put(writer, [record(f"d{row}", [text]) for row, text in enumerate(texts)], vectors)
        writer.commit()
    vector = 0.6 * vectors[1] + 0.55 * vectors[0]
    query = Query(vector, _SPACE.id, 2, text=f"did we meet {written}", mode=mode)
    assert [hit.document_id for hit in Store(tmp_path).open(NAME).search(query)] == ["d0", "d1"]


def test_two_codes_of_a_chunk_add_up(tmp_path: Path) -> None:
    snapshot = _store(tmp_path, ["AB-4711 with CD-8888", "CD-9999", *["soup"] * 100])
    single = _bonuses(snapshot, "AB-4711")["d000#chunk_1"]
    assert _bonuses(snapshot, "AB-4711 and CD-8888 and CD-9999") == {
        "d000#chunk_1": pytest.approx(2 * single), "d001#chunk_1": pytest.approx(single),
    }  # fmt: skip


def test_a_filter_narrows_the_chunks_and_leaves_their_bonus(tmp_path: Path) -> None:
    snapshot = _store(tmp_path, _texts(5), 3)
    everywhere = _bonuses(snapshot, _CODE)
    assert _bonuses(snapshot, _CODE, {"odd": 1}) == {id: everywhere[id] for id in ("d195#chunk_1", "d197#chunk_1")}
    assert _bonuses(snapshot, _CODE, {"odd": 2}) == {}


def test_deleted_chunks_neither_get_a_bonus_nor_make_a_code_less_rare(tmp_path: Path) -> None:
    _store(tmp_path, _texts(20), 3)
    with Store(tmp_path).writer(NAME, spaces=[_SPACE]) as writer:
        writer.delete([f"d{row:03d}" for row in range(180, 199)])
        writer.commit()
    assert _bonuses(Store(tmp_path).open(NAME), _CODE) == {"d179#chunk_1": pytest.approx(CODE_WEIGHT)}


@pytest.mark.parametrize("a", [0.0, 0.3, 0.5])
def test_a_code_in_a_long_question_comes_first(tmp_path: Path, a: float) -> None:
    filler = "the question is long and about cold soup of many kinds as cooks like soup best"
    snapshot = _store(
        tmp_path, [f"{filler} {row % 10}" for row in range(200)] + [f"spare lid {_CODE}"] + ["lid"] * 9, 4
    )
    text = f"{filler} do you have {_CODE}"
    vector = normal(1, 16, seed=3)[0]
    hits = snapshot.search(Query(vector, _SPACE.id, 210, text=text, mode="hybrid", fusion=Fusion(a)))
    cosine = found(snapshot, "dense", vector=vector, space=_SPACE.id)["d200#chunk_1"]
    words = bm25_plus(snapshot, text)["d200#chunk_1"]
    plain = a * cosine + (1 - a) * words / (words + Fusion().c)
    if a == 0:  # without feedback, the score is that of the formula
        assert hits[0].score == pytest.approx(plain + 2 * CODE_WEIGHT)
    assert hits[0].chunk.id == "d200#chunk_1"


def test_with_vectors_alone_a_code_counts_nothing(tmp_path: Path) -> None:
    snapshot = _store(tmp_path, _texts(3))
    vector = normal(1, 16, seed=3)[0]
    asked = [
        [
            hit.score
            for hit in snapshot.search(Query(vector, _SPACE.id, 99, text=text, mode="hybrid", fusion=Fusion(1.0)))
        ]
        for text in (_CODE, "soup")
    ]
    assert asked[0] == asked[1]
