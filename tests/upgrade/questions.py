"""What is asked of the server of an older release, whose answers are kept, and of this one, to be compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.support.clients import AIDRE
from tests.support.intent_platform import Platform, Sent
from tests.upgrade.corpus import COSINE, DOT, KEY_ID, PARTNER_SECRET, SECRET, queries

BEARER = {"authorization": f"Bearer {SECRET}"}
TEXTS = ("a lamp on the coast", "repair a flat tyre", "herring and salt", "museum opening hours", "Loch im Rad flicken")
WORDS = ("keeper lamp fog", "herring", "museum closes Mondays", "glue patch rubber", "extra note")
FILTERS: tuple[dict[str, Any] | None, ...] = (None, {"group": "b"}, {"day": {"gte": "2026-01-20"}})

RERANKED = "hybrid"
"""The one kind of search whose scores and order are others by decision: BM25+ and feedback (see CHANGELOG.md)."""
NEAR = 1e-5
"""Scores are sums of float32 in another order."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A search and its results: the id and the score of each."""

    name: str
    body: dict[str, Any]
    headers: dict[str, str]


def searches() -> list[Asked]:
    found = [
        Asked(f"dense {text}", {"query": text, "mode": "dense", "collection": "docs", "top_k": 10}, {})
        for text in TEXTS
    ]
    found += [
        Asked(f"lexical {text}", {"query": text, "mode": "lexical", "collection": "docs", "top_k": 10}, {})
        for text in WORDS
    ]
    found += [Asked(f"hybrid {text}", {"query": text, "collection": "docs", "top_k": 10}, {}) for text in TEXTS]
    for space in (COSINE, DOT):
        for row, vector in enumerate(queries(space).tolist()):
            for number, only in enumerate(FILTERS):
                body = {"query_vector": vector, "embedding_space": space, "collection": "rows", "top_k": 10}
                found.append(Asked(f"{space} {row}.{number}", body | ({"filter": only} if only else {}), {}))
    found.append(Asked("private", {"query": "ferry", "mode": "lexical", "collection": "minutes"}, BEARER))
    return found


def results(client: httpx.Client, asked: Asked) -> list[list[Any]]:
    response = client.post("/search", json=asked.body, headers={"content-type": AIDRE, **asked.headers})
    assert response.status_code == 200, f"{asked.name}: {response.text}"
    return [[hit["id"], hit["score"]] for hit in response.json()["results"]]


def check(found: list[list[Any]], wanted: list[list[Any]], name: str) -> None:
    """The same ids in the same order with the same scores; of hybrid searches the same first hit."""
    if name.startswith(RERANKED):
        assert found[0][0] == wanted[0][0], name
        return
    assert [one for one, _ in found] == [one for one, _ in wanted], name
    assert [score for _, score in found] == pytest.approx([score for _, score in wanted], rel=NEAR, abs=NEAR), name


def pages(client: httpx.Client) -> dict[str, Any]:
    """What stays the same word for word: chunks, the change feed, the public keys."""
    paths = (
        "/chunks/notes%2Fextra-1%23chunk_1",
        "/chunks/https:%2F%2Fexample.com%2Frecipes%2F1%23chunk_1",
        "/collections/rows/changes?limit=20",
        "/.well-known/aidre-keys.json",
    )
    return {path: got(client, path) for path in paths}


def got(client: httpx.Client, path: str) -> Any:
    response = client.get(path)
    assert response.status_code == 200, f"{path}: {response.text}"
    return response.json()


def platform(client: httpx.Client) -> Platform:
    def send(method: str, path: str, body: bytes, headers: dict[str, str]) -> Sent:
        response = client.request(method, path, content=body, headers=headers)
        return response.status_code, dict(response.headers), response.content

    return Platform(send, key_id=KEY_ID, secret=PARTNER_SECRET)
