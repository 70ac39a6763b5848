"""Who may see what: a thousand random (caller, collection, route) triples against a table that is computed here.

The table knows the rules and nothing of the code. What a caller may not see must look, to the byte, like what is not
there: the answer about a hidden collection is compared with the answer about one that never was.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from serving import AIDRE, Client, a_document, fill, serving

from aidre.engine.model import EmbeddingSpace

TRIPLES = 1_000
SEED = 20_261_122
ABSENT = "absent"


@dataclass(frozen=True)
class Shelf:
    """A collection: who sees it without a key, by which protocols, and whether vectors leave it."""

    public: bool
    protocols: tuple[str, ...] = ("aidre", "nlweb")
    vectors: bool = False
    by_manifest: bool = False


SHELVES = {
    "open": Shelf(True),
    "given": Shelf(True, vectors=True),
    "vault": Shelf(False),
    "cellar": Shelf(False, vectors=True, by_manifest=True),
    "talk": Shelf(True, ("nlweb",)),
    "trade": Shelf(False, ("aidre",), vectors=True, by_manifest=True),
    "sold": Shelf(False, ("intent",)),
}


@dataclass(frozen=True)
class Bearer:
    """A caller: the Authorization that it sends, and what its key would be worth."""

    sends: str | None
    opens: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ("search",)
    known: bool = True


BEARERS = {
    "nobody": Bearer(None, scopes=("search",)),
    "guest": Bearer("Bearer guest-secret"),
    "reader": Bearer("Bearer reader-secret", ("vault", "sold")),
    "miner": Bearer("bearer miner-secret", ("cellar", "trade"), ("search", "vectors")),
    "owner": Bearer("Bearer owner-secret", ("vault", "cellar", "trade", "talk", "sold"), ("vectors", "search")),
    "dumb": Bearer("Bearer dumb-secret", ("vault",), ("vectors",)),
    "thief": Bearer("Bearer reader-secreT", known=False),
    "basic": Bearer("Basic cmVhZGVyOnNlY3JldA==", known=False),
    "digest": Bearer(f"Bearer {hashlib.sha256(b'owner-secret').hexdigest()}", known=False),
}


def configuration() -> str:
    lines = ['[server]\nbase_url = "https://ai.example.com"\ntls = "proxy"\n[limits]\nrate = "none"\n']
    for name, shelf in SHELVES.items():
        visibility = "public" if shelf.public or shelf.by_manifest else "private"
        lines.append(f'[collections.{name}]\nvisibility = "{visibility}"\nprotocols = {json.dumps(shelf.protocols)}')
        lines.append(f"return_vectors = {str(shelf.vectors).lower()}")
    for name, bearer in BEARERS.items():
        if bearer.sends is not None and bearer.known:
            digest = hashlib.sha256(bearer.sends.split()[1].encode()).hexdigest()
            lines.append(f'[[keys]]\nname = "{name}"\nsha256 = "{digest}"')
            lines.append(f"collections = {json.dumps(bearer.opens)}\nscopes = {json.dumps(bearer.scopes)}")
    return "\n".join(lines)


def space(name: str) -> EmbeddingSpace:
    return EmbeddingSpace(f"space of {name}", 4, "cosine", True)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    store = tmp_path_factory.mktemp("store")
    for name, shelf in SHELVES.items():
        host = f"https://{name}.example"
        documents = [a_document(f"{name}_{number}", f"alpha {name}", url=f"{host}/{number}") for number in range(2)]
        hidden = shelf.by_manifest and not shelf.public
        fill(store, name, documents, (space(name),), visibility="private" if hidden else "public")
    with serving(store, configuration()) as shared:
        yield shared


# The table: what each rule says, from DESIGN's sentences alone.


def sees(bearer: Bearer, name: str, protocol: str) -> bool:
    """A key sees all public collections and those that it lists; a collection answers only its own protocols."""
    shelf = SHELVES[name]
    return protocol in shelf.protocols and (shelf.public or name in bearer.opens)


def turned_away(bearer: Bearer) -> int | None:
    """A wrong key or scheme is 401; a key without the scope search may not read."""
    if not bearer.known:
        return 401
    return None if "search" in bearer.scopes else 403


def gets_vectors(bearer: Bearer, name: str) -> bool:
    """The scope lets vectors out where the collection does; whoever has no key has no scope either."""
    return SHELVES[name].vectors and bearer.sends is not None and "vectors" in bearer.scopes


# The routes: how each is called, and which words in its answer mean that the collection is there.


@dataclass(frozen=True)
class Route:
    protocol: str
    call: Callable[[Client, str, dict[str, str]], httpx.Response]
    shows: Callable[[httpx.Response, str], bool]
    names: bool = True
    """Whether the request names the collection: then what is hidden is compared with what is not there."""


def search(body: dict[str, Any]) -> Callable[[Client, str, dict[str, str]], httpx.Response]:
    def call(client: Client, name: str, headers: dict[str, str]) -> httpx.Response:
        filled = json.loads(json.dumps(body).replace("NAME", name))
        return client.request("POST", "/search", json=filled, headers={"content-type": AIDRE, **headers})

    return call


def get(path: str) -> Callable[[Client, str, dict[str, str]], httpx.Response]:
    return lambda client, name, headers: client.request("GET", path.replace("NAME", name), headers=headers)


def ask(path: str, body: dict[str, Any]) -> Callable[[Client, str, dict[str, str]], httpx.Response]:
    def call(client: Client, name: str, headers: dict[str, str]) -> httpx.Response:
        filled = json.loads(json.dumps(body).replace("NAME", name))
        return client.request("POST", path, json=filled, headers={"content-type": "application/json", **headers})

    return call


def tool(name: str, arguments: dict[str, Any]) -> Callable[[Client, str, dict[str, str]], httpx.Response]:
    params = {"name": name, "arguments": arguments}
    return ask("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})


def says(response: httpx.Response, name: str) -> bool:
    return response.status_code == 200 and re.search(rf"\b{name}(_|\b)", response.text) is not None


def has_hits(response: httpx.Response, name: str) -> bool:
    return response.status_code == 200 and f"{name}_0" in response.text


def has_space(response: httpx.Response, name: str) -> bool:
    return response.status_code == 200 and f"space of {name}" in response.text


NLWEB = {"query": {"text": "alpha", "site": "NAME"}}
ROUTES = {
    "search": Route("aidre", search({"query": "alpha", "collection": "NAME"}), has_hits),
    "search by vector": Route(
        "aidre",
        search({"query_vector": [1, 0, 0, 1], "embedding_space": "space of NAME", "collection": "NAME"}),
        has_hits,
    ),
    "collection": Route("aidre", get("/collections/NAME"), says),
    "collections": Route("aidre", get("/collections"), says, names=False),
    "chunk": Route("aidre", get("/chunks/NAME_0%23chunk_1"), has_hits),
    "chunk in": Route("aidre", get("/chunks/NAME_0%23chunk_1?collection=NAME"), has_hits),
    "changes": Route("aidre", get("/collections/NAME/changes"), has_hits),
    "discovery": Route("aidre", get("/.well-known/ai-discovery"), has_space, names=False),
    "ask": Route("nlweb", ask("/ask", NLWEB), has_hits),
    "ask by host": Route("nlweb", ask("/ask", {"query": {"text": "alpha", "site": "NAME.example"}}), has_hits),
    "ask all": Route("nlweb", ask("/ask", {"query": {"text": "alpha", "max_results": 50}}), has_hits, names=False),
    "ask by address": Route("nlweb", get("/ask?query=alpha&site=NAME"), has_hits),
    "stream": Route("nlweb", ask("/ask", {**NLWEB, "prefer": {"streaming": True}}), has_hits),
    "sites": Route("nlweb", get("/sites"), says, names=False),
    "mcp ask": Route("nlweb", tool("ask", NLWEB), has_hits),
    "mcp fetch": Route("nlweb", tool("fetch", {"id": "NAME:NAME_0"}), has_hits),
    "mcp search": Route("nlweb", tool("search", {"query": "alpha NAME"}), has_hits, names=False),
    "mcp tools": Route("nlweb", ask("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}), says, names=False),
}


def like_nothing(response: httpx.Response, name: str) -> tuple[int, str, list[str]]:
    """An answer without what every request has of its own, and without the name that was asked for."""
    text = re.sub(r"req_[0-9a-f]+|[0-9]+\.[0-9]{2,}", "", response.text.replace(name, "NAME"))
    varying = {"x-request-id", "content-length", "date"}
    return response.status_code, text, sorted(key for key in response.headers if key not in varying)


def headers_of(bearer: Bearer) -> dict[str, str]:
    return {} if bearer.sends is None else {"authorization": bearer.sends}


def test_a_thousand_triples_come_out_as_the_table_says(client: Client) -> None:
    chosen = random.Random(SEED)
    seen: Counter[str] = Counter()
    wrong = []
    for _ in range(TRIPLES):
        who, name, route_name = (chosen.choice(sorted(table)) for table in (BEARERS, SHELVES, ROUTES))
        bearer, route = BEARERS[who], ROUTES[route_name]
        response = route.call(client, name, headers_of(bearer))
        away = turned_away(bearer)
        if route_name == "discovery" and away == 403:
            away = None  # what is under /.well-known/ is not read, but found
        if away is not None:
            right = response.status_code == away and "www-authenticate" in response.headers
            right = right and name not in response.text
        elif sees(bearer, name, route.protocol):
            right = route.shows(response, name)
        elif route.names:
            absent = route.call(client, ABSENT, headers_of(bearer))
            right = like_nothing(response, name) == like_nothing(absent, ABSENT)
        else:
            right = not route.shows(response, name)
        seen[f"{away or sees(bearer, name, route.protocol)}"] += 1
        if not right:
            wrong.append((who, name, route_name, response.status_code, response.text[:200]))
    assert not wrong, "\n".join(map(str, wrong[:10]))
    assert min(seen[kind] for kind in ("401", "403", "True", "False")) >= 50, seen


@pytest.mark.parametrize("name", SHELVES)
@pytest.mark.parametrize("who", BEARERS)
def test_vectors_leave_where_key_and_collection_both_let_them(who: str, name: str, client: Client) -> None:
    bearer = BEARERS[who]
    body = {"query": "alpha", "collection": "NAME", "return": {"vectors": True}}
    response = search(body)(client, name, headers_of(bearer))
    if turned_away(bearer) is not None:
        assert response.status_code == turned_away(bearer)
    elif not sees(bearer, name, "aidre"):
        absent = search(body)(client, ABSENT, headers_of(bearer))
        assert like_nothing(response, name) == like_nothing(absent, ABSENT)
    elif gets_vectors(bearer, name):
        assert all(f"space of {name}" in result["vectors"] for result in response.json()["results"])
    else:
        assert (response.status_code, response.json()["error"]) == (422, "unsupported_return_field")


@pytest.mark.parametrize("who", [name for name, bearer in BEARERS.items() if turned_away(bearer) is None])
def test_discovery_tells_a_caller_what_that_caller_may_do(who: str, client: Client) -> None:
    bearer = BEARERS[who]
    response = client.request("GET", "/.well-known/ai-discovery", headers=headers_of(bearer))
    body = response.json()
    assert body["auth"] == {"type": "bearer", "required": False}
    vectors = any(gets_vectors(bearer, name) and sees(bearer, name, "aidre") for name in SHELVES)
    assert body["capabilities"]["return_vectors"] is vectors
    assert "Authorization" in ", ".join(response.headers.get_list("vary"))
    assert response.headers["cache-control"].startswith("private") is (bearer.sends is not None)


def test_what_belongs_to_one_caller_is_nothing_to_another(client: Client) -> None:
    owner, reader = headers_of(BEARERS["owner"]), headers_of(BEARERS["reader"])
    one = {"query": "alpha", "collection": "vault", "top_k": 1}
    first = search(one)(client, "vault", owner).json()
    cursor = {**one, "cursor": first["meta"]["next_cursor"]}
    assert search(cursor)(client, "vault", owner).status_code == 200
    assert search(cursor)(client, "vault", reader).status_code == 400
    assert search(cursor)(client, "vault", {}).status_code == 404
    promised = ask("/ask", {"query": {"text": "alpha"}, "prefer": {"respond-async": True}})(client, "", owner)
    token = promised.json()["promise"]["token"]
    for headers, known in [(reader, False), ({}, False), (owner, True)]:
        response = ask("/await", {"promise_token": token, "action": "checkin"})(client, "", headers)
        assert ("UNKNOWN_PROMISE" not in response.text) is known, response.text
    since = get("/collections/vault/changes")(client, "vault", owner).json()["next"]
    assert get(f"/collections/vault/changes?since={since}")(client, "vault", {}).status_code == 404


def test_health_knows_no_callers(client: Client) -> None:
    for path in ("/healthz", "/readyz"):
        for bearer in BEARERS.values():
            response = client.request("GET", path, headers=headers_of(bearer))
            assert response.status_code == 200
            assert not any(name in response.text for name in SHELVES)
