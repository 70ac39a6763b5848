"""Queries that a calibration asks beside the generated ones: texts of the stored documents, and of other subjects."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from aidre.engine.collection.indexing import AskedQueries, sample_texts
from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.embedding.self_test import probes
from aidre.engine.errors import ModelUnavailable
from tests.support.stores import NAME, Vectors, names, normal, put, record, space_of, structured

SPACE = space_of("cosine", 768)
SENTENCE = "The kettle of document {} whistles loudly. Short. Its neighbour number {} listens to it!"


class Model:
    """Embeds any text at random, a text that begins with "The" as nothing; keeps what it was asked."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self.asked: list[str] = []

    def __call__(self, texts: Sequence[str]) -> Vectors:
        self.asked += texts
        found = normal(len(texts), self.dimensions, len(self.asked))
        found[[text.startswith("The") for text in texts]] = 0
        return found


def snapshot_of(path: Path, titled: bool, count: int = 40) -> Snapshot:
    space = space_of("cosine", 4)
    with Store(path).writer(NAME, spaces=[space]) as writer:
        for part in (range(count // 2), range(count // 2, count)):
            records = [
                record(f"d{number}", [SENTENCE.format(number, number)], title=f"Title {number}" if titled else None)
                for number in part
            ]
            put(writer, records, normal(len(records), 4))
            writer.commit()
        writer.delete(["d0", f"d{count - 1}"])
        writer.commit()
    return Store(path).open(NAME)


def test_texts_are_sentences_of_usual_length_and_some_titles_of_live_documents(tmp_path: Path) -> None:
    snapshot = snapshot_of(tmp_path, titled=True)
    texts = sample_texts(snapshot.segments)
    assert len(texts) == 38
    titles = [text for text in texts if text.startswith("Title")]
    assert len(titles) == 10
    assert all(text.startswith(("The kettle", "Its neighbour", "Title")) for text in texts)
    assert not any(text.endswith((" 0", " 39", " 0 listens to it!")) for text in texts)
    assert texts == sample_texts(snapshot.segments)
    assert len(sample_texts(snapshot.segments, 7)) == 7


def test_a_document_without_title_or_sentence_gives_its_beginning(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[space_of("cosine", 4)]) as writer:
        put(writer, [record("short", ["tea"]), record("long", ["word " * 400])], normal(2, 4))
        writer.commit()
    texts = sample_texts(Store(tmp_path).open(NAME).segments)
    assert texts == ["tea", ("word " * 40)]


def test_samples_are_texts_and_others_of_the_model_and_given_queries(tmp_path: Path) -> None:
    space, model = space_of("cosine", 4), Model(4)
    segments = snapshot_of(tmp_path, titled=False).segments
    given = normal(3, 4)
    texts, others, users = AskedQueries({space.id: model}, {space.id: given}).samples(space, segments)
    assert [texts.kind, others.kind, users.kind] == ["texts", "others", "given"]
    kettles = sum(text.startswith("The kettle") for text in model.asked)
    assert 0 < len(texts.queries) == 38 - kettles  # those without a direction are left out
    assert len(others.queries) == 2 * len(probes()) - sum(
        text.startswith("The") for probe in probes() for text in probe
    )
    assert users.queries is given
    assert AskedQueries().samples(space, segments) == []


@pytest.mark.slow
@pytest.mark.usefixtures("quick_calibration")
def test_a_model_that_does_not_answer_leaves_the_given_queries(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(texts: Sequence[str]) -> Vectors:
        raise ModelUnavailable("the endpoint is down")

    space = space_of("cosine", 4)
    asked = AskedQueries({space.id: fail}, {space.id: normal(3, 4)})
    assert [sample.kind for sample in asked.samples(space, snapshot_of(tmp_path, titled=True).segments)] == ["given"]
    assert "calibrated without texts: the endpoint is down" in caplog.text


def test_a_model_is_asked_when_a_space_is_calibrated_that_is_large_enough(tmp_path: Path) -> None:
    model = Model(SPACE.dimensions)
    with Store(tmp_path).writer(NAME, spaces=[SPACE], models={SPACE.id: model}) as writer:
        put(writer, names(20), structured(20, SPACE.dimensions))
        writer.commit()
        writer.finish()
        assert model.asked == []
        put(writer, names(1_700, 20), structured(1_700, SPACE.dimensions))
        writer.commit()
        writer.finish()
    asked = len(model.asked)
    assert asked == 160 + 2 * len(probes())
    calibration = Store(tmp_path).open(NAME).space(SPACE.id).calibration
    assert calibration is not None
    assert calibration.queries > 200
    with Store(tmp_path).writer(NAME, spaces=[SPACE], models={SPACE.id: model}) as writer:
        put(writer, names(5, 5_000), structured(5, SPACE.dimensions))
        writer.commit()
    assert len(model.asked) == asked  # the space has not grown enough
