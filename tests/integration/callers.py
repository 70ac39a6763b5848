"""What the tests of access share: collections, callers, routes, and the table of who may see what.

The table is computed here from DESIGN's sentences alone; it knows nothing of the code. All names of collections are of
one length, so that answers about what is hidden and about what never was can be compared to the byte.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import httpx

from aidre.engine.model import EmbeddingSpace
from tests.support.clients import AIDRE, Client, a_document, fill, serving
from tests.support.intent_platform import Platform, Sent

ABSENT = "absent"
JSON = "application/json"
SESSION = "0b9f2c0e-4a3c-4d3e-9f57-1f6f0c2b7a11"
SECRETS = {"platform": "test-secret-0123456789abcdef", "rival": "another-secret-0123456789"}
Call: TypeAlias = Callable[[Client, str, dict[str, str]], httpx.Response]


@dataclass(frozen=True)
class Shelf:
    """A collection: who sees it without a key, by which protocols, and whether vectors leave it."""

    public: bool
    protocols: tuple[str, ...] = ("aidre", "nlweb")
    vectors: bool = False
    by_manifest: bool = False


SHELVES = {
    "zircon": Shelf(True),
    "garnet": Shelf(True, vectors=True),
    "spinel": Shelf(False),
    "jasper": Shelf(False, vectors=True, by_manifest=True),
    "quartz": Shelf(True, ("nlweb",)),
    "pyrite": Shelf(False, ("aidre",), vectors=True, by_manifest=True),
    "galena": Shelf(False, ("intent",)),
    "barite": Shelf(False, ("intake",), by_manifest=True),
    "gypsum": Shelf(True, ("aidre", "intent", "intake")),
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
    "reader": Bearer("Bearer reader-secret", ("spinel", "galena")),
    "miner": Bearer("bearer miner-secret", ("jasper", "pyrite"), ("search", "vectors")),
    "owner": Bearer(
        "Bearer owner-secret", ("spinel", "jasper", "pyrite", "quartz", "galena", "barite"), ("vectors", "search")
    ),
    "dumb": Bearer("Bearer dumb-secret", ("spinel",), ("vectors",)),
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
    # That a collection is not for Agentic Intent is said of it whether or not it is there.
    lines.append(f'[collections.{ABSENT}]\nprotocols = ["aidre", "nlweb", "intake"]')
    for name, bearer in BEARERS.items():
        if bearer.sends is not None and bearer.known:
            digest = hashlib.sha256(bearer.sends.split()[1].encode()).hexdigest()
            lines.append(f'[[keys]]\nname = "{name}"\nsha256 = "{digest}"')
            lines.append(f"collections = {json.dumps(bearer.opens)}\nscopes = {json.dumps(bearer.scopes)}")
    for number, name in enumerate((*SHELVES, ABSENT)):
        lines.append(f'[[intakes]]\nid = "find-{number}"\ncollection = "{name}"\nbind_requires = ["email"]')
    lines.append('[intake]\nbind_key = "a bind key that the tests know"')
    lines.append('[intent]\nenabled = true\nfull_article = true\npublisher = { id = "example", name = "The Example" }')
    for number, name in enumerate((*SHELVES, ABSENT)):
        lines.append(f'[intent.editorial_domains."of.n{number}"]\ncollection = "{name}"')
    lines.append("[intent.keys]")
    lines += [f'{name} = "{secret}"' for name, secret in SECRETS.items()]
    return "\n".join(lines)


def number_of(name: str) -> int:
    """By which an intake or an editorial domain is known in public; it says nothing of the collection."""
    return [*SHELVES, ABSENT].index(name)


def space(name: str) -> EmbeddingSpace:
    return EmbeddingSpace(f"space of {name}", 4, "cosine", True)


@contextmanager
def shelves(store: Path) -> Iterator[Client]:
    """A server over all of them, two documents in each."""
    for name, shelf in SHELVES.items():
        host = f"https://{name}.example"
        documents = [a_document(f"{name}_{number}", f"alpha {name}", url=f"{host}/{number}") for number in range(2)]
        hidden = shelf.by_manifest and not shelf.public
        fill(store, name, documents, (space(name),), visibility="private" if hidden else "public")
    with serving(store, configuration()) as client:
        yield client


def headers_of(bearer: Bearer) -> dict[str, str]:
    return {} if bearer.sends is None else {"authorization": bearer.sends}


# The table: what each rule says, from DESIGN's sentences alone.


def sees(bearer: Bearer, name: str, protocol: str) -> bool:
    """A key sees all public collections and those that it lists; a collection answers only its own protocols.

    An intake and an editorial domain are grants to their collection, whoever asks. The metrics tell of what the caller
    sees by any protocol; what is published for all names none of them.
    """
    shelf = SHELVES[name]
    if protocol == "published":
        return False
    if protocol == "metrics":
        return any(sees(bearer, name, one) for one in ("aidre", "nlweb")) or (
            bool({"intent", "intake"} & set(shelf.protocols)) and (shelf.public or name in bearer.opens)
        )
    if protocol in {"intent", "intake"}:
        return protocol in shelf.protocols
    return protocol in shelf.protocols and (shelf.public or name in bearer.opens)


def turned_away(bearer: Bearer, route: Route | None = None) -> int | None:
    """A wrong key or scheme is 401; a key without the scope search may not read, but find what is to be found."""
    if not bearer.known:
        return 401
    return None if "search" in bearer.scopes or (route is not None and route.found) else 403


def gets_vectors(bearer: Bearer, name: str) -> bool:
    """The scope lets vectors out where the collection does; whoever has no key has no scope either."""
    return SHELVES[name].vectors and bearer.sends is not None and "vectors" in bearer.scopes


# The routes: how each is called, and which words in its answer mean that the collection is there.


@dataclass(frozen=True)
class Route:
    protocol: str
    call: Call
    shows: Callable[[httpx.Response, str], bool]
    names: bool = True
    """Whether the request names the collection: then what is hidden is compared with what is not there."""
    found: bool = False
    """Whether it stands under /.well-known/."""


def search(body: dict[str, Any]) -> Call:
    return _posted("/search", body, AIDRE)


def ask(path: str, body: dict[str, Any]) -> Call:
    return _posted(path, body, JSON)


def _posted(path: str, body: dict[str, Any], kind: str) -> Call:
    def call(client: Client, name: str, headers: dict[str, str]) -> httpx.Response:
        filled = json.loads(json.dumps(body).replace("NAME", name))
        return client.request(
            "POST", path.replace("NAME", name), json=filled, headers={"content-type": kind, **headers}
        )

    return call


def get(path: str) -> Call:
    return lambda client, name, headers: client.request("GET", path.replace("NAME", name), headers=headers)


def tool(name: str, arguments: dict[str, Any]) -> Call:
    params = {"name": name, "arguments": arguments}
    return ask("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})


def submitted(client: Client, name: str, headers: dict[str, str]) -> httpx.Response:
    body = {
        "aip_version": "0.1.0",
        "agent": {"id": "agent-1", "platform": "test", "consent_scope": ["intake", "offer"]},
        "intake_data": {"query": "alpha"},
        "session_id": SESSION,
    }
    return client.request(
        "POST", f"/intakes/find-{number_of(name)}", json=body, headers={"content-type": JSON, **headers}
    )


def platform(client: Client, headers: dict[str, str], key: str = "platform") -> Platform:
    """A partner of Agentic Intent that also sends these fields."""

    def send(method: str, path: str, body: bytes, own: dict[str, str]) -> Sent:
        response = client.request(method, path, content=body, headers={**own, **headers})
        return response.status_code, response.headers, response.content

    return Platform(send, key_id=key, secret=SECRETS[key])


def retrieved(client: Client, name: str, headers: dict[str, str]) -> httpx.Response:
    partner = platform(client, headers)
    request = partner.request("alpha", domain=f"of.n{number_of(name)}")
    status, fields, content = partner.post("/aip/retrieve", request)
    return httpx.Response(status, headers=dict(fields), content=content)


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
    "changes in pages": Route("aidre", get("/collections/NAME/changes?limit=2"), has_hits),
    "query": Route("aidre", ask("/collections/NAME/query", {}), has_hits),
    "query by id": Route("aidre", ask("/collections/NAME/query", {"ids": ["NAME_0"]}), has_hits),
    "count": Route("aidre", ask("/collections/NAME/count", {"filter": {"document_id": "NAME_0"}}), says),
    "count values": Route("aidre", ask("/collections/NAME/count", {"facets": ["url"]}), says),
    "discovery": Route("aidre", get("/.well-known/ai-discovery"), has_space, names=False, found=True),
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
    "metrics": Route("metrics", get("/metrics"), says, names=False),
    "openapi": Route("published", get("/openapi.json"), says, names=False),
    "protected resource": Route(
        "published", get("/.well-known/oauth-protected-resource"), says, names=False, found=True
    ),
    "intake manifest": Route("published", get("/.well-known/agent-intake.json"), says, names=False, found=True),
    "intent declaration": Route("published", get("/.well-known/aip.json"), says, names=False, found=True),
    "intent capabilities": Route("published", get("/aip/capabilities"), says, names=False),
    "intake": Route("intake", submitted, says),
    "intent": Route("intent", retrieved, says),
}

ITS_OWN = re.compile(
    r"req_[0-9a-f]+|[0-9]+\.[0-9]{2,}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z|find-[0-9]+|of\.n[0-9]+"
    r"|[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"
)
"""What every request has of its own: ids, times, scores."""
VARYING = {"x-request-id", "date", "x-aip-timestamp", "x-aip-nonce", "x-aip-signature"}


def like_nothing(response: httpx.Response, name: str) -> tuple[int, str, list[tuple[str, str]]]:
    """An answer without what every request has of its own, and without the name that was asked for."""
    text = ITS_OWN.sub("", response.text.replace(name, "NAME"))
    varying = VARYING | ({"content-length"} if "x-aip-nonce" in response.headers else set())
    fields = [(key, "" if key in varying else value.replace(name, "NAME")) for key, value in response.headers.items()]
    return response.status_code, text, sorted(fields)
