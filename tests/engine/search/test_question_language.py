"""The language of a question, and how much vectors count beside words in one that the model does not know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.errors import ModelUnavailable
from aidre.engine.model import Fusion, Query, Rescore
from aidre.engine.search import bm25, hybrid
from aidre.engine.search.question_language import UNMEASURED_WEIGHT, language_of, measured_weight
from aidre.engine.storage.manifest import LanguageWeight, SpaceState
from tests.support.stores import NAME, normal, put, record, space_of

_SPACE = space_of("cosine", 16, model="hashing", languages=("en",))
_COUNT = 40
_FUSION = Fusion()
_RANDOM = np.random.default_rng(11)
_WORDS = ["".join(_RANDOM.choice(list("abdefgiklmnorstu"), 7)) for _ in range(300)]
_TEXTS = [" ".join(_RANDOM.choice(_WORDS, 30)) for _ in range(_COUNT)]


def _understood(texts: Sequence[str]) -> NDArray[np.float32]:
    """Vectors by which a piece of a text is near to it: sums of the vectors of the words."""
    of_word = dict(zip(_WORDS, normal(len(_WORDS), _SPACE.dimensions), strict=True))
    return np.array([sum(of_word.get(word, np.zeros(16)) for word in text.split()) for text in texts], np.float32)


def _not_understood(texts: Sequence[str]) -> NDArray[np.float32]:
    """Vectors that are close together, wherever their texts are."""
    return np.asarray(1 + normal(len(texts), 16, seed=len(texts)) / 4, np.float32)


def _stored(
    path: Path,
    languages: Sequence[str],
    vectors: NDArray[np.float32],
    *,
    texts: Sequence[str] = _TEXTS,
    **members: object,
) -> Snapshot:
    with Store(path).writer(NAME, spaces=[_SPACE], **members) as writer:  # type: ignore[arg-type]
        records = [
            record(f"d{number:02d}", [text], metadata={"language": language})
            for number, (text, language) in enumerate(zip(texts, languages, strict=True))
        ]
        put(writer, records, vectors)
        writer.commit()
    return Store(path).open(NAME)


def _weights(snapshot: Snapshot) -> dict[str, float]:
    return {weight.language: weight.a for weight in snapshot.space(_SPACE.id).weights}


@pytest.mark.slow
def test_vectors_weigh_most_where_pieces_of_a_text_are_near_it_and_least_where_all_texts_are_near(
    tmp_path: Path,
) -> None:
    good = _stored(tmp_path / "good", ["de"] * _COUNT, _understood(_TEXTS), models={_SPACE.id: _understood})
    bad = _stored(tmp_path / "bad", ["de"] * _COUNT, _not_understood(_TEXTS), models={_SPACE.id: _not_understood})
    assert _weights(bad) == {"de": 0.05}
    assert 0.1 < _weights(good)["de"] <= 0.25


@pytest.mark.slow
def test_a_language_is_measured_among_its_own_chunks(tmp_path: Path) -> None:
    vectors = np.concatenate([_understood(_TEXTS), _not_understood(_TEXTS)])
    languages = ["de"] * _COUNT + ["fr"] * _COUNT
    texts = [*_TEXTS, *(text.upper() for text in _TEXTS)]

    def embed(pieces: Sequence[str]) -> NDArray[np.float32]:
        return _not_understood(pieces) if pieces[0].isupper() else _understood(pieces)

    snapshot = _stored(tmp_path, languages, vectors, texts=texts, models={_SPACE.id: embed})
    weights = _weights(snapshot)
    assert weights["fr"] == 0.05 < weights["de"]
    again = measured_weight(_SPACE, snapshot.segments, bm25.Statistics(snapshot.segments), "de", embed)
    assert again == weights["de"]


@pytest.mark.parametrize("languages", [["en"] * _COUNT, ["de"] * 9 + ["en"] * (_COUNT - 9)], ids=["known", "few"])
def test_a_known_language_and_one_of_few_chunks_are_not_measured(tmp_path: Path, languages: list[str]) -> None:
    def unasked(texts: Sequence[str]) -> NDArray[np.float32]:
        raise AssertionError(texts)

    assert _weights(_stored(tmp_path, languages, _understood(_TEXTS), models={_SPACE.id: unasked})) == {}


@pytest.mark.slow
def test_a_weight_stays_until_the_chunks_of_its_language_doubled(tmp_path: Path) -> None:
    asked = []

    def embed(texts: Sequence[str]) -> NDArray[np.float32]:
        asked.append(len(texts))
        return _understood(texts)

    _stored(tmp_path, ["de"] * _COUNT, _understood(_TEXTS), models={_SPACE.id: embed})
    for count, measured in ((5, 1), (_COUNT, 2)):
        with Store(tmp_path).writer(NAME, spaces=[_SPACE], models={_SPACE.id: embed}) as writer:
            added = [
                record(f"{count}.{number}", [text], metadata={"language": "de"}) for number, text in enumerate(_TEXTS)
            ]
            put(writer, added[:count], _understood(_TEXTS)[:count])
            writer.commit()
        assert len(asked) == measured


def test_a_model_that_cannot_be_asked_leaves_the_weight_as_it_was(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def away(texts: Sequence[str]) -> NDArray[np.float32]:
        raise ModelUnavailable("the endpoint does not answer")

    assert _weights(_stored(tmp_path, ["de"] * _COUNT, _understood(_TEXTS), models={_SPACE.id: away})) == {}
    assert "the endpoint does not answer" in caplog.text


def _with_state(path: Path, snapshot: Snapshot, state: SpaceState) -> Snapshot:
    return Snapshot(path / NAME, snapshot.manifest.with_space(state), snapshot)


def _hybrid(
    snapshot: Snapshot, text: str, fusion: Fusion = _FUSION, *, is_rescored: bool = False
) -> list[tuple[str, float]]:
    vector = _understood([_TEXTS[3]])[0]
    rescore = Rescore(vector, _SPACE.id, 25) if is_rescored else None
    query = Query(vector, _SPACE.id, text=text, mode="hybrid", fusion=fusion, rescore=rescore)
    return [(hit.chunk.id, hit.score) for hit in snapshot.search(query)]


def test_a_question_in_an_unknown_language_has_the_weight_that_was_measured_or_the_least(tmp_path: Path) -> None:
    snapshot = _stored(tmp_path, ["de"] * _COUNT, _understood(_TEXTS))
    text = f"wie ist der {_TEXTS[8][:24]}"
    state = snapshot.manifest.spaces[0]
    known = _with_state(tmp_path, snapshot, replace(state, space=replace(_SPACE, languages=None)))
    second = _with_state(tmp_path, snapshot, replace(state, weights=(LanguageWeight("de", _COUNT, 0.2),)))
    assert _hybrid(snapshot, text) == _hybrid(known, text, Fusion(UNMEASURED_WEIGHT))
    assert _hybrid(second, text) == _hybrid(known, text, Fusion(0.2))
    assert _hybrid(second, text, Fusion(0.1)) == _hybrid(known, text, Fusion(0.1))
    assert second.status()["spaces"][0]["weights"] == [{"language": "de", "a": 0.2, "chunks": _COUNT}]
    assert snapshot.status()["spaces"][0]["weights"] == [{"language": "de", "a": UNMEASURED_WEIGHT, "chunks": None}]


def test_hits_in_an_unknown_language_lose_the_same_in_a_mixed_collection_and_keep_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hybrid, "_FEEDBACK_WEIGHT", 0.0)  # the mean of the best hits would be another one
    mixed = _stored(tmp_path, ["de", "en"] * (_COUNT // 2), _understood(_TEXTS))
    state = replace(mixed.manifest.spaces[0], space=replace(_SPACE, languages=None))
    all_known = _with_state(tmp_path, mixed, state)
    english, german = f"what is the {_TEXTS[8][:24]}", f"was ist der {_TEXTS[8][:24]}"
    found, before = dict(_hybrid(mixed, english)), dict(_hybrid(all_known, english))
    lost: dict[bool, list[float]] = {False: [], True: []}
    for id in before.keys() & found.keys():
        lost[int(id[1:3]) % 2 == 0].append(before[id] - found[id])
    assert set(lost[False]) == {0.0}
    assert lost[True] == pytest.approx([lost[True][0]] * len(lost[True])) and lost[True][0] > 0.01
    assert _hybrid(mixed, german) != _hybrid(all_known, german)


@pytest.mark.parametrize("is_rescored", [False, True])
@pytest.mark.parametrize("languages", [["de", "en"], ["en", "de"]])
def test_of_a_text_and_its_translation_that_in_the_language_of_the_question_comes_first(
    tmp_path: Path, languages: list[str], is_rescored: bool
) -> None:
    texts = [text for text in _TEXTS[: _COUNT // 2] for _ in languages]
    snapshot = _stored(tmp_path, languages * (_COUNT // 2), _understood(texts), texts=texts)
    hits = _hybrid(snapshot, f"what is the {_TEXTS[3][:24]}", is_rescored=is_rescored)
    first, second = (id for id, _ in hits[:2])
    assert {first[:3], second[:3]} == {"d06", "d07"}
    assert int(first[1:3]) % 2 == languages.index("en")


def test_hits_in_one_language_that_the_model_does_not_know_stay_as_they_are(tmp_path: Path) -> None:
    snapshot = _stored(tmp_path, ["de"] * _COUNT, _understood(_TEXTS))
    state = replace(snapshot.manifest.spaces[0], space=replace(_SPACE, languages=None))
    english = f"what is the {_TEXTS[8][:24]}"
    assert _hybrid(snapshot, english) == _hybrid(_with_state(tmp_path, snapshot, state), english)


def test_the_best_chunks_by_words_tell_the_language_of_a_question_that_shows_none(tmp_path: Path) -> None:
    texts = [*_TEXTS[:-2], "zugspitze", "auvergne"]
    snapshot = _stored(tmp_path, ["de", "fr"] * (_COUNT // 2), _understood(_TEXTS), texts=texts)
    statistics = bm25.Statistics(snapshot.segments)
    found = [language_of(snapshot.segments, statistics, text) for text in ("Zugspitze", "Auvergne", "xyzzy")]
    assert found == ["de", "fr", None]
    assert snapshot.question_language("Auvergne") == "fr"
