"""AIDRE, draft-batum-aidre-00: callers, what they see, and how often they may ask. Names begin with the section."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import http_sf
import pytest

from tests.support.clients import AIDRE, Client, serving
from tests.support.clocks import Clock
from tests.support.discovery import CONFIGURATION, DISCOVERY, ids, refused
from tests.support.rates import count_by

FIELDS = {"ratelimit", "ratelimit-policy", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"}


def a_key(name: str, collections: str, scopes: str = '["search"]') -> str:
    digest = hashlib.sha256(secret_of(name).encode()).hexdigest()
    return f'[[keys]]\nname = "{name}"\nsha256 = "{digest}"\ncollections = {collections}\nscopes = {scopes}\n'


def secret_of(name: str) -> str:
    return f"the secret of {name}"


def by(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret_of(name)}"}


@pytest.fixture(scope="module")
def guarded(shared_store: Path) -> Iterator[Client]:
    """A server with two private collections, each for a caller of its own."""
    keys = a_key("alice", '["hidden"]') + a_key("bob", '["shut"]') + a_key("carol", '["hidden"]', "[]")
    with serving(shared_store, CONFIGURATION + keys) as client:
        yield client


OWN = [("alice", "hidden", "secret"), ("bob", "shut", "shut")]
FOREIGN = [("alice", "shut", "shut"), ("bob", "hidden", "secret")]


@pytest.mark.needs("changes")
@pytest.mark.parametrize(("caller", "name", "document"), OWN)
def test_11_6_a_caller_sees_the_collections_of_its_key(guarded: Client, caller: str, name: str, document: str) -> None:
    listed = [one["name"] for one in guarded.get("/collections", by(caller)).json()["collections"]]
    assert listed == sorted(["docs", "textless", "vectors", name])
    assert guarded.get(f"/collections/{name}", by(caller)).json()["visibility"] == "private"
    assert ids(guarded.search({"query": "alpha", "collection": name}, **by(caller))) == [f"{document}#chunk_1"]
    chunk = guarded.get(f"/chunks/{document}%23chunk_1", by(caller))
    assert (chunk.status_code, chunk.json()["collection"]) == (200, name)
    assert guarded.get(f"/collections/{name}/changes", by(caller)).json()["changes"]


@pytest.mark.parametrize(("caller", "name", "document"), FOREIGN)
def test_11_6_what_is_for_another_caller_is_unknown(guarded: Client, caller: str, name: str, document: str) -> None:
    assert name not in guarded.get("/collections", by(caller)).text
    for path in (f"/collections/{name}", f"/collections/{name}/changes"):
        assert refused(guarded.get(path, by(caller)), 404, "not_found") == {"collection": name}
    found = guarded.search({"query": "alpha", "collection": name}, **by(caller))
    assert refused(found, 404, "not_found")["collection"] == name
    unknown = refused(guarded.get("/chunks/nothing%23chunk_1", by(caller)), 404, "not_found")
    assert refused(guarded.get(f"/chunks/{document}%23chunk_1", by(caller)), 404, "not_found") == unknown


def test_11_6_discovery_is_the_same_for_every_caller(guarded: Client) -> None:
    anonymous = guarded.get(DISCOVERY)
    assert anonymous.json()["auth"] == {"type": "bearer", "required": False}
    for caller, name, _ in OWN:
        assert guarded.get(DISCOVERY, by(caller)).content == anonymous.content
        assert name not in anonymous.text


@pytest.mark.parametrize("authorization", ["Bearer unknown", "Bearer", "Basic YTpi"])
def test_15_4_what_is_no_known_key_is_401_and_says_which_scheme(guarded: Client, authorization: str) -> None:
    for response in (
        guarded.search({"query": "alpha"}, authorization=authorization),
        guarded.get("/collections", {"authorization": authorization}),
        guarded.get("/chunks/doc_1%23chunk_1", {"authorization": authorization}),
    ):
        refused(response, 401, "unauthorized")
        assert response.headers["www-authenticate"].startswith("Bearer ")


def test_15_4_a_key_that_may_not_search_is_403(guarded: Client) -> None:
    refused(guarded.search({"query": "alpha"}, **by("carol")), 403, "forbidden")
    refused(guarded.get("/collections/hidden", by("carol")), 403, "forbidden")


def test_11_1_without_a_configured_rate_the_loopback_is_not_limited(client: Client) -> None:
    assert not FIELDS & client.search({"query": "alpha"}).headers.keys()


def test_21_1_and_21_2_answers_and_refusals_tell_the_limit(shared_store: Path) -> None:
    clock = Clock()
    with serving(shared_store, CONFIGURATION.replace("[limits]", '[limits]\nrate = "3/minute"')) as client:
        count_by(clock, client)
        told = []
        for status in (200, 200, 200, 429, 429):
            response = client.search({"query": "alpha"})
            assert response.status_code == status
            told.append(limits_of(response.headers))
        assert [(remaining, seconds) for remaining, seconds in told] == [(2, 20), (1, 40), (0, 60), (0, 20), (0, 20)]
        assert refused(response, 429, "rate_limited") == {}
        assert int(response.headers["retry-after"]) >= told[-1][1]
        clock.now += 20
        assert client.search({"query": "alpha"}).status_code == 200
        assert client.get(DISCOVERY).status_code == 200, "discovery is not counted"


def item(field: str) -> tuple[str, dict[str, int]]:
    """The only item of a list of RFC 9651 and its parameters, by a parser that is not ours."""
    parsed: Any = http_sf.parse(field.encode(), tltype="list")
    [(name, parameters)] = parsed
    return name, parameters


def limits_of(headers: Any) -> tuple[int, int]:
    """What remains and until when, after all five fields were parsed and held against each other."""
    name, quota = item(headers["ratelimit-policy"])
    same, left = item(headers["ratelimit"])
    assert (name, quota) == (same, {"q": 3, "w": 60})
    bare = {field: int(headers[f"ratelimit-{field}"]) for field in ("limit", "remaining", "reset")}
    assert bare == {"limit": quota["q"], "remaining": left["r"], "reset": left["t"]}
    return left["r"], left["t"]


def test_22_3_the_openapi_document_is_of_the_version_in_discovery(client: Client) -> None:
    described = client.get("/openapi.json").json()
    assert described["info"]["version"] == client.get(DISCOVERY).json()["version"]
    assert {"/search", "/collections", "/chunks/{id}", DISCOVERY} <= described["paths"].keys()
    answered = described["paths"]["/search"]["post"]["responses"]["200"]["content"]
    assert AIDRE in answered
