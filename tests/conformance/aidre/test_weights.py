"""The extension `weights` of AIDRE's searches: what vectors and words count in a hybrid search."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.clients import Client
from tests.support.discovery import DISCOVERY, refused

pytestmark = pytest.mark.needs("hybrid")


def test_discovery_advertises_it(client: Client) -> None:
    found = client.get(DISCOVERY).json()
    assert found["extensions"]["weights"] == {"members": ["dense", "lexical"], "modes": ["hybrid"]}
    assert "hybrid" in found["behaviour"]["weights"]


def found_by(client: Client, weights: Any, **more: Any) -> list[tuple[str, float]]:
    response = client.search({"query": "alpha text", "top_k": 5, "weights": weights, **more})
    assert response.status_code == 200, response.text
    return [(one["id"], one["score"]) for one in response.json()["results"]]


def test_the_ratio_orders_the_results(client: Client) -> None:
    by_vectors, by_words = found_by(client, {"dense": 1, "lexical": 0}), found_by(client, {"dense": 0, "lexical": 1})
    assert [id for id, _ in by_vectors] != [id for id, _ in by_words] or by_vectors != by_words
    assert found_by(client, {"dense": 2, "lexical": 2}) == found_by(client, {"dense": 0.5, "lexical": 0.5})
    assert found_by(client, None) == found_by(client, None, mode="hybrid")


@pytest.mark.parametrize(
    "weights", [{"dense": 0, "lexical": 0}, {"dense": -1, "lexical": 1}, {"dense": 1}, [1, 2], "0.5", {"dense": True}]
)
def test_others_are_refused(client: Client, weights: Any) -> None:
    answer = refused(client.search({"query": "alpha", "weights": weights}), 400, "invalid_request")
    assert "weights" in str(answer)


@pytest.mark.parametrize("mode", ["dense", "lexical"])
def test_other_modes_refuse_them(client: Client, mode: str) -> None:
    asked = {"query": "alpha", "mode": mode, "weights": {"dense": 1, "lexical": 1}}
    refused(client.search(asked), 400, "invalid_request")


def test_a_cursor_belongs_to_them(client: Client) -> None:
    body = {"query": "alpha", "top_k": 2, "weights": {"dense": 1, "lexical": 3}}
    again = {**body, "cursor": client.search(body).json()["meta"]["next_cursor"]}
    assert client.search(again).status_code == 200
    refused(client.search({**again, "weights": {"dense": 3, "lexical": 1}}), 400, "invalid_request")
    refused(client.search({**again, "weights": None}), 400, "invalid_request")
