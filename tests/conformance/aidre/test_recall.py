"""The extension `recall` of AIDRE's searches: a share of the nearest vectors that is enough, and what it costs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.clients import COSINE, Client
from tests.support.discovery import DISCOVERY, ids, refused

pytestmark = pytest.mark.needs("recall")

BODIES: list[dict[str, Any]] = [
    {"query": "alpha beta"},
    {"query": "alpha beta", "group": "document", "facets": ["even"]},
    {"query_vector": [1, 2, -1, 0.5], "embedding_space": COSINE.id, "filter": {"n": {"lt": 21}}},
]


def test_discovery_advertises_what_may_be_asked_for_and_what_it_costs(client: Client) -> None:
    extension = client.get(DISCOVERY).json()["extensions"]["recall"]
    assert extension["values"] == [0.9, 0.95, 0.99, 0.995, 1.0]
    [costs, *_] = extension["collections"].values()
    assert costs["default"] == 0.99
    assert all(space["1"] > 0 for space in costs["milliseconds"].values())


@pytest.mark.parametrize("recall", [0.9, 0.97, 1, 1e-9, None])
@pytest.mark.parametrize("body", BODIES)
def test_a_small_collection_is_answered_alike_at_every_recall(
    client: Client, body: dict[str, Any], recall: float | None
) -> None:
    plain, asked = client.search(body), client.search({**body, "recall": recall})
    assert asked.status_code == 200, asked.text
    assert ids(asked) == ids(plain)


@pytest.mark.parametrize("recall", [0, -0.5, 1.01, True, "0.9", [0.9], {}])
def test_another_recall_is_refused_by_name(client: Client, recall: Any) -> None:
    response = client.search({"query": "alpha", "recall": recall})
    refused(response, 400, "invalid_request")
    assert response.json()["message"] == "recall must be a number above 0 and of at most 1"


def test_a_cursor_belongs_to_its_recall(client: Client) -> None:
    first = client.search({"query": "alpha", "top_k": 2, "recall": 0.95}).json()
    again = {"query": "alpha", "top_k": 2, "cursor": first["meta"]["next_cursor"]}
    refused(client.search({**again, "recall": 0.9}), 400, "invalid_request")
    refused(client.search(again), 400, "invalid_request")
    assert client.search({**again, "recall": 0.95}).status_code == 200


def test_the_profile_says_what_each_recall_costs(client: Client) -> None:
    name = client.get("/collections").json()["collections"][0]["name"]
    spaces = client.get(f"/collections/{name}/profile").json()["spaces"]
    assert all(one["milliseconds"]["1"] > 0 for one in spaces)
