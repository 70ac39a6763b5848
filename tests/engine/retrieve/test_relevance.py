"""Relevance on one scale, and the bound below which nothing relevant was found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from aidre.engine.embedding.embedder import DEFAULT_SPACE
from aidre.engine.model import EmbeddingSpace, Mode
from aidre.engine.retrieve.relevance import (
    RELEVANT,
    RelevanceScale,
    bound_at,
    demanded_cosine,
    demanded_evidence,
    evidence,
    likeness_of,
    to_share,
    word_factor,
)
from tests.support.clients import Client, a_document, fill, serving
from tests.support.intakes import a_submission, answered, submit
from tests.support.properties import REPEATABLE
from tests.support.recipes import ask

DOT = EmbeddingSpace("test:plain:4:dot:v1", 4, "dot")
EUCLIDEAN = EmbeddingSpace("test:plain:4:euclidean:v1", 4, "euclidean")
SCALES: list[tuple[Mode, EmbeddingSpace | None]] = [
    ("hybrid", DEFAULT_SPACE), ("dense", DEFAULT_SPACE), ("dense", DOT), ("dense", EUCLIDEAN), ("lexical", None),
]  # fmt: skip
LONG = "how long does a vegetarian tomato soup with fresh basil keep inside a cold cellar"
SCORE = st.floats(-1e6, 1e6)


@pytest.mark.parametrize(("mode", "space"), SCALES)
@settings(REPEATABLE, max_examples=50)
@given(SCORE, SCORE, st.floats(0, 0.45))
def test_relevance_rises_with_the_score(
    mode: Mode, space: EmbeddingSpace | None, one: float, other: float, bound: float
) -> None:
    low, high = RelevanceScale(mode, space, bound).relevances(sorted([one, other]))
    assert 0 <= low <= high <= 1


@pytest.mark.parametrize(
    ("score", "mode", "space", "expected"),
    [
        (0.6, "hybrid", DEFAULT_SPACE, 0.5),
        (1.3, "hybrid", DEFAULT_SPACE, 1.0),
        (1.0, "dense", DEFAULT_SPACE, 1.0),
        (1.1, "dense", DEFAULT_SPACE, 1.0),
        (-0.2, "dense", DEFAULT_SPACE, 0.0),
        (15.0, "lexical", None, 0.5),
        (0.0, "lexical", None, 0.0),
        (0.0, "dense", EUCLIDEAN, 1.0),
        (-1.0, "dense", EUCLIDEAN, 0.5),
        (0.0, "dense", DOT, 0.5),
    ],
)
def test_shares_meet_their_landmarks(score: float, mode: Mode, space: EmbeddingSpace | None, expected: float) -> None:
    assert to_share(score, mode, space) == expected


def test_the_bound_has_the_same_relevance_on_every_scale() -> None:
    for bound in (0.05, 0.17, 0.45):
        at, below, best, none = RelevanceScale("dense", DEFAULT_SPACE, bound).relevances([bound, bound / 2, 1.0, 0.0])
        assert (at, best, none) == (RELEVANT, 1.0, 0.0)
        assert below == pytest.approx(RELEVANT / 2, abs=1e-4)


def test_a_good_question_and_a_title_are_told_from_the_bound() -> None:
    good, title = RelevanceScale("dense", DEFAULT_SPACE, 0.17).relevances([0.21, 0.497])
    assert 0.55 < good < 0.7 < 0.85 < title


def test_without_a_bound_every_hit_is_relevant() -> None:
    assert min(RelevanceScale("dense", DOT, 0.0).relevances([-1e9, 0.0, 1e9])) >= RELEVANT


DEMANDED: list[Callable[[int, float], float]] = [
    lambda chunks, likeness: demanded_evidence(chunks, 1.0, likeness),
    lambda chunks, likeness: demanded_cosine(chunks, LONG, likeness),
]


@pytest.mark.parametrize("demanded", DEMANDED)
def test_more_is_demanded_in_a_larger_collection_as_far_as_it_was_measured(
    demanded: Callable[[int, float], float],
) -> None:
    bounds = [demanded(chunks, 0.0) for chunks in (0, 10, 100, 1_000, 10_000)]
    assert bounds == sorted(set(bounds))
    assert 0.05 < bounds[0] < bounds[-1] < 0.6
    assert demanded(10**8, 0.0) == bounds[-1]


@settings(REPEATABLE, max_examples=200)
@given(st.floats(0.01, 1), st.floats(-1, 1), st.floats(0.01, 0.5))
def test_the_best_hit_is_relevant_where_it_has_the_evidence_that_is_demanded(
    share: float, found: float, demanded: float
) -> None:
    bound = bound_at(share, found, demanded)
    (relevance,) = RelevanceScale("dense", DEFAULT_SPACE, bound).relevances([share])
    if abs(found - demanded) > 1e-3:
        assert (relevance >= RELEVANT) is (found > demanded or share > 0.95)


def test_the_bound_grows_with_the_words_of_the_query() -> None:
    queries = ["what is it?", "soup", "tomato soup", "tomato soup with basil", LONG]
    factors = [word_factor(query) for query in queries]
    assert factors == sorted(set(factors))
    assert factors[0] >= 0.2
    assert word_factor(LONG * 9) == factors[-1] == 1


def test_evidence_grows_with_the_share_of_the_words_that_a_hit_contains() -> None:
    text = "Cold soup. A Muffin for two."
    found = [evidence(question, 0.4, text) for question in ("xyzzy", "baking muffins", "muffins", "Muffin soups")]
    assert found == pytest.approx([0.4 / 3, 0.8 / 3, 0.4, 0.4])
    assert evidence("xyzzy of", 0.4, "the of") == pytest.approx(0.4 / 3)
    assert evidence("the of", 0.4, "the of") == pytest.approx(0.4)
    assert evidence("the of", 0.4, "of") == pytest.approx(0.8 / 3)
    assert evidence("die Suppen", 0.4, "Kalte Suppen") == pytest.approx(0.8 / 3)


def test_words_are_compared_whole() -> None:
    assert evidence("art", 0.4, "A fresh start") == pytest.approx(0.4 / 3)


@pytest.mark.parametrize("demanded", DEMANDED)
def test_a_question_like_the_whole_collection_needs_less_evidence(demanded: Callable[[int, float], float]) -> None:
    bounds = [demanded(500, likeness) for likeness in (-0.05, 0.0, 0.02, 0.05, 0.3, 0.9)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[0] == bounds[1]
    assert 0 < bounds[-1] == bounds[-2] < bounds[1] / 2


def test_likeness_is_the_mean_cosine() -> None:
    stored = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], np.float32)
    asked = np.array([3.0, 4.0], np.float32)
    assert likeness_of(stored.mean(axis=0), asked) == pytest.approx(float(np.mean(stored @ asked / 5)))
    assert likeness_of(None, asked) is None
    assert likeness_of(stored[0], np.zeros(2, np.float32)) is None


def test_a_hit_with_a_code_of_the_question_is_near_whatever_the_model_sees() -> None:
    question = "do you have KX-2290 in stock?"
    assert evidence(question, 0.05, "Lid KX-2290, steel") > evidence(question, 0.3, "Lid KX-2291, steel")
    assert evidence("KX-2290", 0.05, "Lid KX-2290, steel") > demanded_evidence(10**6, word_factor("KX-2290"), 0.0)
    assert evidence(question, 0.7, "Lid KX-2290, steel") > evidence(question, 0.6, "Lid KX-2290, steel")


def test_a_long_hit_and_a_long_question_are_read_in_bounded_time() -> None:
    assert 0 < evidence("word " * 400, 0.4, "a lid " * 1_000_000) <= 0.4


# -- the same scale in every protocol ----------------------------------------------------------------------------------

CONFIGURATION = """
[[intakes]]
id = "find"
collection = "soups"
top_k = 50
[[intakes]]
id = "find-all"
collection = "soups"
top_k = 50
min_score = 0
"""
FOREIGN = "chanterelles from Zanzibar, served lukewarm to astronauts"
WORDS = EmbeddingSpace("aidre:hashing:512:cosine:v1", 512, "cosine", True, "aidre", "hashing", "hashing;v1")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A collection of a model that is taken for the calibrated one."""
    store = tmp_path_factory.mktemp("relevance")
    texts = [f"soup number {n} with tomatoes" for n in range(30)]
    fill(store, "soups", [a_document(f"d{n:02}", text) for n, text in enumerate(texts)], spaces=(WORDS,))
    with pytest.MonkeyPatch.context() as patch, serving(store, CONFIGURATION) as client:
        patch.setattr("aidre.engine.retrieve.relevance.DEFAULT_SPACE", WORDS)
        yield client


def _relevances(client: Client, query: str) -> dict[str, float]:
    body = client.search({"query": query, "top_k": 50}).json()
    assert body["meta"]["relevance_bound"] == RELEVANT
    return {result["id"]: result["relevance"] for result in body["results"]}


def _submit(client: Client, intake: str, query: str) -> dict[str, Any]:
    return answered(submit(client, a_submission({"query": query}), intake))


@pytest.mark.parametrize("query", ["soup number 7 with tomatoes", "12", FOREIGN])
def test_nlweb_and_an_intake_show_the_relevance_that_aidre_shows(client: Client, query: str) -> None:
    relevances = _relevances(client, query)
    relevant = {id: relevance for id, relevance in relevances.items() if relevance >= RELEVANT}
    assert bool(relevant) is (query != FOREIGN)
    asked = ask(client, {"query": {"text": query, "limit": 50}}).json()
    scores = {item["grounding"]["chunk_ids"][0]: item["score"] for item in asked.get("results", [])}
    assert scores == pytest.approx({id: 100 * relevance for id, relevance in relevant.items()}, abs=0.006)
    offer = _submit(client, "find", query).get("offer", {"details": {"items": []}})
    assert {item["id"]: item["score"] for item in offer["details"]["items"]} == relevant


def test_data_that_match_nothing_are_declined_unless_the_intake_asks_for_everything(client: Client) -> None:
    assert _relevances(client, FOREIGN), "hits come all the same where the caller cuts"
    assert _submit(client, "find", FOREIGN)["status"] == "declined"
    assert len(_submit(client, "find-all", FOREIGN)["offer"]["details"]["items"]) == 30
    assert ask(client, {"query": {"text": FOREIGN}}).json()["error"]["code"] == "NO_RESULTS"


def test_words_alone_and_other_models_have_no_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aidre.engine.retrieve.relevance.DEFAULT_SPACE", DEFAULT_SPACE)
    fill(tmp_path, "soups", [a_document(f"d{n}", "soup with tomatoes") for n in range(3)], spaces=(WORDS,))
    with serving(tmp_path) as client:
        for mode, query in (("lexical", "soup of chanterelles"), ("dense", FOREIGN), ("hybrid", FOREIGN)):
            results = client.search({"query": query, "mode": mode}).json()["results"]
            assert len(results) == 3 and all(result["relevance"] >= RELEVANT for result in results)


def test_a_vector_query_has_no_relevance(tmp_path: Path) -> None:
    fill(tmp_path, "docs", [a_document("a", "soup")], spaces=(DOT,))
    with serving(tmp_path) as client:
        body = client.search({"query_vector": [1, 0, 0, 0], "embedding_space": DOT.id}).json()
    assert "relevance" not in body["results"][0] and "relevance_bound" not in body["meta"]
