"""The extension `fusion` of AIDRE's searches: words and vectors joined by scores, or by their ranks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.clients import COSINE, Client
from tests.support.discovery import DISCOVERY, ids, refused

pytestmark = pytest.mark.needs("hybrid")

ASKED: dict[str, Any] = {"query": "alpha beta", "mode": "hybrid"}


def test_discovery_advertises_both_ways_and_the_length_of_the_lists(client: Client) -> None:
    found = client.get(DISCOVERY).json()
    assert found["extensions"]["fusion"] == {"values": ["score", "rrf"], "ranks": 30, "modes": ["hybrid"]}
    assert "rrf" in found["behaviour"]["fusion"]


def test_an_answer_by_rank_says_so_and_has_scores_up_to_1(client: Client) -> None:
    answer = client.search({**ASKED, "fusion": "rrf", "top_k": 20}).json()
    assert answer["meta"]["fusion"] == {"method": "rrf", "ranks": 30}
    assert "reranked" not in answer["meta"]
    scores = [one["score"] for one in answer["results"]]
    assert scores == sorted(scores, reverse=True)
    assert 0 < scores[-1] <= scores[0] <= 1


def test_without_it_and_by_score_an_answer_is_the_same_and_says_nothing(client: Client) -> None:
    plain, asked = client.search(ASKED).json(), client.search({**ASKED, "fusion": "score"}).json()
    assert plain["results"] == asked["results"]
    assert "fusion" not in plain["meta"]
    assert "fusion" not in asked["meta"]


def test_weights_count_in_ranks_too(client: Client) -> None:
    def first(dense: float) -> list[str]:
        return ids(client.search({**ASKED, "fusion": "rrf", "weights": {"dense": dense, "lexical": 1 - dense}}))[:3]

    assert first(1) == ids(client.search({**ASKED, "mode": "dense"}))[:3]
    assert first(0) == ids(client.search({**ASKED, "mode": "lexical"}))[:3]


def test_pages_by_rank_repeat_nothing_and_belong_to_their_fusion(client: Client) -> None:
    asked = {**ASKED, "fusion": "rrf", "top_k": 4}
    first = client.search(asked)
    again = {**asked, "cursor": first.json()["meta"]["next_cursor"]}
    assert not set(ids(first)) & set(ids(client.search(again)))
    refused(client.search({**again, "fusion": "score"}), 400, "invalid_request")
    refused(client.search({**again, "fusion": None}), 400, "invalid_request")


@pytest.mark.parametrize("fusion", ["ranks", "RRF", "", 1, True, ["rrf"], {}])
def test_another_fusion_is_refused_by_name(client: Client, fusion: Any) -> None:
    response = client.search({**ASKED, "fusion": fusion})
    refused(response, 400, "invalid_request")
    assert response.json()["message"].startswith("fusion must be ")


@pytest.mark.parametrize(
    "body",
    [
        {"query": "alpha", "mode": "dense"},
        {"query": "alpha", "mode": "lexical"},
        {"query_vector": [1, 2, -1, 0.5], "embedding_space": COSINE.id},
    ],
)
def test_only_hybrid_searches_have_a_fusion(client: Client, body: dict[str, Any]) -> None:
    response = client.search({**body, "fusion": "rrf"})
    refused(response, 400, "invalid_request")
    assert "fusion= is for hybrid search" in response.json()["message"]
