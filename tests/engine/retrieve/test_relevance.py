"""Relevance on one scale, the evidence for a hit, and the bound below which nothing relevant was found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from aidre.engine.embedding.embedder import DEFAULT_SPACE
from aidre.engine.model import EmbeddingSpace, Mode, Query
from aidre.engine.ports import Capabilities, Reader
from aidre.engine.retrieve import evidence
from aidre.engine.retrieve.evidence import CALIBRATED, WORDS, Coefficients, Evidence, evidence_for, likeness_of
from aidre.engine.retrieve.relevance import (
    FIRST_HITS,
    RELEVANT,
    RelevanceScale,
    bound_at,
    finding,
    scale_for,
    strength,
    to_share,
)
from aidre.engine.types import Hit
from tests.support.clients import Client, a_document, fill, serving
from tests.support.intakes import a_submission, answered, submit
from tests.support.properties import REPEATABLE
from tests.support.recipes import ask

DOT = EmbeddingSpace("test:plain:4:dot:v1", 4, "dot")
EUCLIDEAN = EmbeddingSpace("test:plain:4:euclidean:v1", 4, "euclidean")
SCALES: list[tuple[Mode, EmbeddingSpace | None]] = [
    ("hybrid", DEFAULT_SPACE), ("dense", DEFAULT_SPACE), ("dense", DOT), ("dense", EUCLIDEAN), ("lexical", None),
]  # fmt: skip
SCORE = st.floats(-1e6, 1e6)
ODDS = st.floats(-50, 50)


def hits(*scores: float) -> list[Hit]:
    return [Hit(cast(Any, SimpleNamespace(id=str(number))), score) for number, score in enumerate(scores)]


# -- the scale ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "space"), SCALES)
@settings(REPEATABLE, max_examples=50)
@given(SCORE, SCORE, st.floats(0, 0.45))
def test_relevance_rises_with_the_score(
    mode: Mode, space: EmbeddingSpace | None, one: float, other: float, bound: float
) -> None:
    low, high = RelevanceScale(mode, space, bound).relevances(hits(*sorted([one, other])))
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
        scale = RelevanceScale("dense", DEFAULT_SPACE, bound)
        at, below, best, none = scale.relevances(hits(bound, bound / 2, 1.0, 0.0))
        assert (at, best, none) == (RELEVANT, 1.0, 0.0)
        assert below == pytest.approx(RELEVANT / 2, abs=1e-4)


def test_a_good_question_and_a_title_are_told_from_the_bound() -> None:
    good, title = RelevanceScale("dense", DEFAULT_SPACE, 0.17).relevances(hits(0.21, 0.497))
    assert 0.55 < good < 0.7 < 0.85 < title


def test_without_a_bound_every_hit_is_relevant() -> None:
    assert min(RelevanceScale("dense", DOT, 0.0).relevances(hits(-1e9, 0.0, 1e9))) >= RELEVANT
    assert min(scale_for(hits(0.4, 0.1), "dense", DOT, None).relevances(hits(0.4, 0.1))) >= RELEVANT


@settings(REPEATABLE, max_examples=200)
@given(st.lists(st.tuples(st.floats(0.01, 0.9), ODDS), min_size=1, max_size=6))
def test_a_hit_without_evidence_is_below_the_bound_and_no_hit_above_what_its_score_tells(
    found: list[tuple[float, float]],
) -> None:
    found = sorted(found, reverse=True)
    page, odds = hits(*(score for score, _ in found)), {str(number): one for number, (_, one) in enumerate(found)}

    def told(asked: Sequence[Hit]) -> list[float]:
        return [odds[hit.chunk.id] for hit in asked]

    scale = scale_for(page, "dense", DEFAULT_SPACE, told)
    relevances = scale.relevances(page)
    assert relevances == scale.relevances([*page]), "told once for the page, or again for any hits"
    for hit, relevance, most in zip(page, relevances, scale.by_score(page), strict=True):
        assert relevance <= most
        assert odds[hit.chunk.id] >= 0 or relevance < RELEVANT
    leading = max(told(page[:FIRST_HITS]))
    if abs(leading) > 1e-3:
        assert finding(page, scale).is_relevant is (leading > 0)


def test_a_later_page_is_on_the_scale_of_the_first_hits() -> None:
    first, later = hits(0.8, 0.7, 0.6), hits(0.4, 0.3)
    on_first = scale_for(first, "dense", DEFAULT_SPACE, lambda asked: [2.0] * len(asked))
    on_later = scale_for(later, "dense", DEFAULT_SPACE, lambda asked: [2.0] * len(asked), first=first)
    assert on_later.bound == on_first.bound
    assert on_later.relevances(later) == on_first.relevances(later)


def test_ranks_tell_nothing_of_relevance() -> None:
    """A hit is as relevant first in both lists as at the end of one, about as much as where scores are fused."""
    scored = scale_for(hits(0.3), "hybrid", DEFAULT_SPACE, lambda _: [2.5]).relevances(hits(0.3))[0]
    for ranks in ((0.99, 0.98), (0.5, 0.3)):
        first, second = scale_for(hits(*ranks), "hybrid", DEFAULT_SPACE, lambda _: [2.5, 2.5], by_rank=True).relevances(
            hits(*ranks)
        )
        assert first == second == pytest.approx(scored, abs=0.1)


@settings(REPEATABLE, max_examples=200)
@given(st.floats(0.01, 0.9), ODDS, ODDS)
def test_more_evidence_makes_a_lower_bound(share: float, one: float, other: float) -> None:
    low, high = sorted([one, other])
    assert 0 < strength(low) <= strength(high)
    assert bound_at(share, high) <= bound_at(share, low) <= 0.95
    assert bound_at(share, 0.0) == share


# -- the evidence ------------------------------------------------------------------------------------------------

ALL = [WORDS, *(one for model in CALIBRATED.values() for one in (model.both, model.vectors))]


def odds_of(
    coefficients: Coefficients, cosine: float, share: float, *, likeness: float = 0.0, chunks: int = 100, count: int = 3
) -> float:
    found = coefficients.odds(np.array([cosine]), np.array([share]), likeness=likeness, chunks=chunks, count=count)
    return float(found[0])


@pytest.mark.parametrize("coefficients", ALL)
def test_a_nearer_hit_with_more_of_the_words_has_more_evidence(coefficients: Coefficients) -> None:
    least, nearer, fuller = (odds_of(coefficients, *pair) for pair in ((0.2, 0.2), (0.4, 0.2), (0.2, 0.6)))
    assert (nearer > least) is (coefficients.cosine > 0)
    assert (fuller > least) is (coefficients.words > 0)


@pytest.mark.parametrize("coefficients", ALL)
def test_more_is_demanded_in_a_larger_collection_as_far_as_it_was_measured(coefficients: Coefficients) -> None:
    found = [odds_of(coefficients, 0.4, 0.4, chunks=chunks) for chunks in (0, 10, 100, 1_000, 10_000, 10**8)]
    assert found[:-1] == sorted(set(found[:-1]), reverse=True)
    assert found[-1] == found[-2]


def test_a_question_like_the_whole_collection_needs_less() -> None:
    both = CALIBRATED[DEFAULT_SPACE.model].both
    found = [odds_of(both, 0.3, 0.3, likeness=likeness) for likeness in (-0.5, 0.0, 0.02, 0.1)]
    assert found == sorted(found)
    assert found[0] == found[1]


def test_likeness_is_the_mean_cosine() -> None:
    stored = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], np.float32)
    asked = np.array([3.0, 4.0], np.float32)
    assert likeness_of(stored.mean(axis=0), asked) == pytest.approx(float(np.mean(stored @ asked / 5)))
    assert likeness_of(None, asked) is None
    assert likeness_of(stored[0], np.zeros(2, np.float32)) is None


class Texts:
    """A reader of chunks with texts and vectors that leaves words and cosines to its caller."""

    can = Capabilities()
    chunks = 60

    def __init__(self, knows: bool = True) -> None:
        self.knows = knows

    def knows_question(self, space_id: str, text: str) -> bool:
        return self.knows

    def cosines(self, *_: object) -> None:
        return None

    def centroid(self, space_id: str) -> None:
        return None


def hit(text: str, vector: Sequence[float] = (1.0, 0.0)) -> Hit:
    stored = {DEFAULT_SPACE.id: np.array(vector, np.float32)}
    return Hit(cast(Any, SimpleNamespace(id="a", title=None, text=text, vectors=lambda: stored)), 0.4)


def found_for(
    text: str,
    space: EmbeddingSpace | None = DEFAULT_SPACE,
    *,
    knows: bool = True,
    by_words: bool = True,
    mode: Mode = "hybrid",
) -> Any:
    query = Query(np.array([0.6, 0.8], np.float32), DEFAULT_SPACE.id, text=text, mode=mode)
    return evidence_for(query, space, cast(Reader, Texts(knows)), by_words=by_words)


def test_evidence_is_by_words_where_the_model_does_not_know_the_language() -> None:
    near, far = hit("soup", (0.6, 0.8)), hit("soup", (0.0, 0.1))
    known, unknown, lexical = found_for("soup"), found_for("soup", knows=False), found_for("soup", None)
    assert known.odds([near])[0] > known.odds([far])[0]
    assert unknown.odds([near]) == unknown.odds([far]) == lexical.odds([far])


def test_what_vectors_of_an_unknown_language_find_is_not_judged() -> None:
    assert found_for("soup", knows=False, mode="dense") is None
    assert found_for("soup", mode="dense") is not None


def test_without_words_cosines_alone_tell() -> None:
    found: Evidence = found_for("soup", by_words=False)
    assert found.odds([hit("soup")]) == found.odds([hit("stone")])
    assert found.odds([hit("soup", (0.6, 0.8))])[0] > found.odds([hit("soup")])[0]
    assert found.odds([]) == []


def test_other_models_have_no_evidence() -> None:
    assert found_for("soup", DOT) is None
    assert found_for("soup", None, by_words=False) is None


def test_words_are_looked_for_in_title_and_text_where_the_engine_does_not_know_them() -> None:
    with_word, without = hit("Cold soups"), hit("A stone")
    found = found_for("soup")
    assert found.odds([with_word])[0] - found.odds([without])[0] == pytest.approx(found.coefficients.words)
    titled = Hit(cast(Any, SimpleNamespace(**{**vars(without.chunk), "title": "Soup"})), 0.4)
    assert found.odds([titled]) == found.odds([with_word])


def test_a_hit_with_a_code_of_the_question_is_near_whatever_the_model_sees() -> None:
    found, far = found_for("do you have KX-2290 in stock?"), (0.8, -0.6)
    with_code, without = found.odds([hit("Lid KX-2290, steel", far), hit("Lid KX-2291, steel", far)])
    assert with_code - without >= found.coefficients.cosine * 0.4
    nearer = found.odds([hit("Lid KX-2290, steel", (0.6, 0.8))])[0]
    assert nearer > with_code


def test_a_long_hit_and_a_long_question_are_read_in_bounded_time() -> None:
    assert found_for("word " * 400).odds([hit("a lid " * 1_000_000)])[0] < 50


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
HASHED = EmbeddingSpace("aidre:hashing:512:cosine:v1", 512, "cosine", True, "aidre", "hashing", "hashing;v1")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A collection of a model that is taken for the calibrated one."""
    store = tmp_path_factory.mktemp("relevance")
    texts = [f"soup number {n} with tomatoes" for n in range(30)]
    fill(store, "soups", [a_document(f"d{n:02}", text) for n, text in enumerate(texts)], spaces=(HASHED,))
    with pytest.MonkeyPatch.context() as patch, serving(store, CONFIGURATION) as client:
        patch.setitem(evidence.CALIBRATED, HASHED.model, CALIBRATED[DEFAULT_SPACE.model])
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


def test_another_model_has_no_bound_and_words_alone_have_one(tmp_path: Path) -> None:
    fill(tmp_path, "soups", [a_document(f"d{n}", "soup with tomatoes") for n in range(3)], spaces=(DOT,))
    with serving(tmp_path) as client:
        by_vector = client.search({"query_vector": [1, 0, 0, 0], "embedding_space": DOT.id}).json()
        assert "relevance" not in by_vector["results"][0]
        fitting = client.search({"query": "soup of tomatoes", "mode": "lexical"}).json()["results"]
        assert len(fitting) == 3 and all(result["relevance"] >= RELEVANT for result in fitting)
        found = client.search({"query": f"soup {FOREIGN}", "mode": "lexical"}).json()["results"]
        assert len(found) == 3 and all(result["relevance"] < RELEVANT for result in found)


def test_a_vector_query_has_no_relevance(tmp_path: Path) -> None:
    fill(tmp_path, "docs", [a_document("a", "soup")], spaces=(DOT,))
    with serving(tmp_path) as client:
        body = client.search({"query_vector": [1, 0, 0, 0], "embedding_space": DOT.id}).json()
    assert "relevance" not in body["results"][0] and "relevance_bound" not in body["meta"]
