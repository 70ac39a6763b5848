"""Scores as percentages, and the bound below which nothing relevant was found."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from aidre.api.protocols.nlweb.answer.relevance import MAX_BOOST, boost, matches_any_word, relevance_bound, to_percent
from aidre.engine.embedding.embedder import DEFAULT_SPACE
from aidre.engine.model import EmbeddingSpace, Mode
from tests.support.properties import REPEATABLE

DOT = EmbeddingSpace("test:plain:4:dot:v1", 4, "dot")
EUCLIDEAN = EmbeddingSpace("test:plain:4:euclidean:v1", 4, "euclidean")
HASHING = EmbeddingSpace("aidre:hashing:64:cosine:v1", 64, "cosine", True, "aidre", "hashing", "hashing;v1")
SCALES: list[tuple[Mode, EmbeddingSpace | None]] = [
    ("hybrid", DEFAULT_SPACE), ("dense", DEFAULT_SPACE), ("dense", DOT), ("dense", EUCLIDEAN), ("lexical", None),
]  # fmt: skip
LONG = "how long does a vegetarian tomato soup with fresh basil keep inside a cold cellar"
SCORE = st.floats(-1e6, 1e6)


@pytest.mark.parametrize(("mode", "space"), SCALES)
@settings(REPEATABLE, max_examples=50)
@given(SCORE, SCORE)
def test_a_percentage_rises_with_the_score(mode: Mode, space: EmbeddingSpace | None, one: float, other: float) -> None:
    low, high = sorted([one, other])
    assert 0 <= to_percent(low, mode, space) <= to_percent(high, mode, space) <= 100


@pytest.mark.parametrize(
    ("score", "mode", "space", "expected"),
    [
        (0.5, "hybrid", DEFAULT_SPACE, 50.0),
        (1.0, "dense", DEFAULT_SPACE, 100.0),
        (-0.2, "dense", DEFAULT_SPACE, 0.0),
        (15.0, "lexical", None, 50.0),
        (0.0, "lexical", None, 0.0),
        (0.0, "dense", EUCLIDEAN, 100.0),
        (-1.0, "dense", EUCLIDEAN, 50.0),
        (0.0, "dense", DOT, 50.0),
    ],
)
def test_the_scales_meet_their_landmarks(
    score: float, mode: Mode, space: EmbeddingSpace | None, expected: float
) -> None:
    assert to_percent(score, mode, space) == expected


def test_the_configuration_sets_the_bound_and_zero_cuts_nothing() -> None:
    assert relevance_bound(0.4, "hybrid", DEFAULT_SPACE, LONG, 100) == pytest.approx(40)
    assert relevance_bound(0.4, "lexical", None, "soup", 100) == pytest.approx(40)
    assert relevance_bound(0.0, "hybrid", DEFAULT_SPACE, LONG, 100) is None


def test_the_calibrated_bound_grows_with_the_collection_as_far_as_it_was_measured() -> None:
    bounds = [
        relevance_bound(None, "hybrid", DEFAULT_SPACE, LONG, chunks) or 0 for chunks in (0, 10, 100, 1_000, 10_000)
    ]
    assert bounds == sorted(set(bounds))
    assert 8 < bounds[0] < bounds[-1] < 35
    assert relevance_bound(None, "hybrid", DEFAULT_SPACE, LONG, 10**8) == bounds[-1]


def test_the_calibrated_bound_grows_with_the_words_of_the_query() -> None:
    queries = ["what is it?", "soup", "tomato soup", "tomato soup with basil", LONG]
    bounds = [relevance_bound(None, "hybrid", DEFAULT_SPACE, query, 1_000) or 0 for query in queries]
    assert bounds == sorted(set(bounds))
    assert bounds[0] > 5
    assert relevance_bound(None, "hybrid", DEFAULT_SPACE, LONG * 9, 1_000) == bounds[-1]


def test_the_bound_of_a_short_query_is_higher_where_no_word_of_it_was_found() -> None:
    short = [
        relevance_bound(None, "hybrid", DEFAULT_SPACE, "xyzzy", 1_000, word_matched=met) or 0 for met in (True, False)
    ]
    assert short[0] < short[1]
    long = [relevance_bound(None, "hybrid", DEFAULT_SPACE, LONG, 1_000, word_matched=met) for met in (True, False)]
    assert long[0] == long[1]


def test_a_word_is_met_in_any_of_its_forms() -> None:
    assert matches_any_word("baking muffins", ["Cold soup.", "A Muffin for two."])
    assert not matches_any_word("xyzzy", ["Cold soup.", "A Muffin for two."])
    assert not matches_any_word("the of", ["the of"])
    assert not matches_any_word("soup", [])


@pytest.mark.parametrize(("mode", "space"), [("lexical", None), ("dense", DOT), ("hybrid", HASHING), ("dense", None)])
def test_what_was_not_calibrated_has_no_bound(mode: Mode, space: EmbeddingSpace | None) -> None:
    assert relevance_bound(None, mode, space, LONG, 1_000) is None


def test_what_a_user_likes_lifts_a_little() -> None:
    assert boost(50, "A Vegetarian dish", ()) == 50
    assert boost(50, "A Vegetarian dish", ("vegetarian", "sweet")) == 50 + MAX_BOOST / 2
    assert boost(50, "Steak", ("vegetarian",)) == 50
