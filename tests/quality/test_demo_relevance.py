"""The demo's collections: questions on other subjects are told apart, those about their documents are answered."""

from __future__ import annotations

import pytest

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.embedding.embedder import Embedder
from benchmarks.quality.bench_relevance import Vectors, demo_questions, demo_snapshot, is_answered

pytestmark = pytest.mark.slow

ASKED = demo_questions()
MAX_FOREIGN_ANSWERED = 2
"""Of twenty."""
MAX_LOST = 1
"""Of forty."""


@pytest.fixture(scope="module")
def vectors(embedder: Embedder) -> Vectors:
    return Vectors(embedder)


@pytest.fixture(scope="module", params=list(ASKED.own))
def collection(
    request: pytest.FixtureRequest, embedder: Embedder, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Snapshot]:
    name = str(request.param)
    return name, demo_snapshot(tmp_path_factory.mktemp("store"), name, embedder)


def test_questions_on_other_subjects_have_no_relevant_hit(collection: tuple[str, Snapshot], vectors: Vectors) -> None:
    _, snapshot = collection
    answered = [text for text in ASKED.foreign if is_answered(snapshot, text, vectors)]
    assert len(answered) <= MAX_FOREIGN_ANSWERED, answered


def test_questions_about_the_documents_have_a_relevant_hit(collection: tuple[str, Snapshot], vectors: Vectors) -> None:
    name, snapshot = collection
    lost = [text for text in ASKED.own[name] if not is_answered(snapshot, text, vectors)]
    assert len(lost) <= MAX_LOST, lost
