"""Behind a proxy that strips a path prefix, with the well-known documents on another origin: a client that knows
nothing but that origin finds everything, and every signature holds for the addresses that it used."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from http_message_signatures import InvalidSignature

from aidre.api.protocols.provenance.keys import make_key
from aidre.engine.model import Visibility
from tests.integration.callers import SESSION
from tests.support.clients import AGENTS, AIDRE, TEXT, Client, a_document, fill, serving
from tests.support.intent_platform import Platform, Sent
from tests.support.issuer import AUDIENCE, EC, ISSUER, public, signed, without
from tests.support.signatures import Received, verified_answer, verified_chunk

ORIGIN, BASE = "https://www.example.com", "https://gate.example.com/ai/v1"
PREFIX = urlsplit(BASE).path
MCP_ASKED = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ask"}}
CONFIGURATION = f"""
[server]
base_url = "{BASE}/"
origin = "{ORIGIN}"
tls = "proxy"
trusted_proxies = ["127.0.0.1"]
[limits]
rate = "3/hour"
[collections.archive]
visibility = "private"
[[keys]]
name = "partner"
sha256 = "{hashlib.sha256(b"the secret of the partner").hexdigest()}"
collections = ["archive"]
rate = "none"
{AGENTS}"""


class Proxy:
    """Hands on what is asked of two hosts: of one all well-known paths, of the other what stands behind a prefix."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def send(self, method: str, url: str, address: str = "203.0.113.7", **options: Any) -> httpx.Response:
        parts = urlsplit(url)
        path = url.removeprefix(f"{parts.scheme}://{parts.netloc}")
        if f"{parts.scheme}://{parts.netloc}" == ORIGIN:
            assert path.startswith("/.well-known/"), f"{url} is the website's own"
        else:
            assert url.startswith(f"{BASE}/"), f"{url} leads elsewhere"
            path = path.removeprefix(PREFIX)
        headers = {**options.pop("headers", {}), "host": parts.netloc, "x-forwarded-for": address}
        return self._client.request(method, path, headers=headers, **options)


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    make_key(tmp_path / "keys.pem", time.time())
    (tmp_path / "jwks.json").write_bytes(public(EC))
    beside = f'''
[provenance]
key = "{tmp_path / "keys.pem"}"
[oauth]
issuer = "{ISSUER}"
audience = "{AUDIENCE}"
jwks = "{tmp_path / "jwks.json"}"
[oauth.grants.archive]
collections = ["archive"]
'''
    for name in ("docs", "archive"):
        visibility: Visibility = "private" if name == "archive" else "public"
        documents = [a_document(f"{name}/{n}", f"alpha {name} {n}", url=f"https://x.example/{n}") for n in range(2)]
        fill(tmp_path / "store", name, documents, (TEXT,), visibility=visibility)
    with serving(tmp_path / "store", CONFIGURATION + beside) as client:
        client._runner.run(client.app.state.guard.open())
        yield Proxy(client)


KEY = {"authorization": "Bearer the secret of the partner"}


def addresses(value: Any) -> list[str]:
    """Every address that a document publishes."""
    if isinstance(value, dict):
        return [found for one in value.values() for found in addresses(one)]
    if isinstance(value, list):
        return [found for one in value for found in addresses(one)]
    return [value] if isinstance(value, str) and value.startswith("https://") and "{" not in value else []


def test_every_address_that_is_published_leads_back_through_the_proxy(proxy: Proxy) -> None:
    discovery = proxy.send("GET", f"{ORIGIN}/.well-known/ai-discovery").json()
    assert discovery["endpoints"]["intent"] == f"{ORIGIN}/.well-known/aip.json"
    assert discovery["endpoints"]["intake"] == f"{ORIGIN}/.well-known/agent-intake.json"
    documents = [discovery]
    documents += [proxy.send("GET", discovery["endpoints"][name]).json() for name in ("intent", "intake")]
    documents += [
        proxy.send("GET", f"{BASE}/ask", headers=KEY).json(),
        proxy.send("GET", f"{BASE}/", headers=KEY).json(),
    ]
    found = {address for document in documents for address in addresses(document)}
    found -= {ORIGIN, *(address for address in found if "schema" in address)}
    assert len(found) >= 12
    for address in sorted(found):
        assert proxy.send("OPTIONS", address, headers=KEY).status_code in {204, 200}, address
    servers = proxy.send("GET", discovery["openapi"], headers=KEY).json()["servers"]
    assert [server["url"] for server in servers] == [BASE]


def test_signatures_hold_for_the_addresses_that_callers_use(proxy: Proxy) -> None:
    discovery = proxy.send("GET", f"{ORIGIN}/.well-known/ai-discovery").json()
    keys = proxy.send("GET", discovery["provenance"]["jwks_uri"]).content
    for address in (f"{ORIGIN}/.well-known/ai-discovery", f"{BASE}/.well-known/ai-discovery"):
        verified_answer(Received.of(proxy.send("GET", address), address), keys)
    url = discovery["endpoints"]["search"]
    body = {"query": "alpha", "collection": "docs"}
    response = proxy.send("POST", url, json=body, headers={"content-type": AIDRE, **KEY})
    verified_answer(Received.of(response, url), keys)
    with pytest.raises(InvalidSignature):
        verified_answer(Received.of(response, "https://gate.example.com/search"), keys)
    chunk = f"{BASE}/chunks/docs%2F1%23chunk_1?collection=docs"
    response = proxy.send("GET", chunk, headers=KEY)
    verified_answer(Received.of(response, chunk), keys)
    _, claims = verified_chunk(response.json()["metadata"]["provenance"], keys)
    assert claims["iss"] == ORIGIN
    refused = proxy.send("GET", f"{BASE}/chunks/none", headers=KEY)
    verified_answer(Received.of(refused, f"{BASE}/chunks/none"), keys)


def test_a_partner_of_agentic_intent_signs_the_path_that_it_sends(proxy: Proxy) -> None:
    def send(method: str, path: str, content: bytes, headers: dict[str, str]) -> Sent:
        well_known = path.startswith("/.well-known/")
        url = f"{ORIGIN}{path}" if well_known else f"{BASE}{path}"
        response = proxy.send(method, url, content=content, headers=headers, address="203.0.113.8")
        return response.status_code, response.headers, response.content

    platform = Platform(send, prefix=PREFIX)
    answer = platform.retrieve(platform.request("alpha", domain="of.docs"))
    assert answer["status"] == "ok"
    assert platform.report(platform.citation(answer))[0] == 202


def test_an_agent_of_intake_binds_where_its_offer_says(proxy: Proxy) -> None:
    [intake] = proxy.send("GET", f"{ORIGIN}/.well-known/agent-intake.json").json()["intakes"]
    body = {
        "aip_version": "0.1.0",
        "agent": {"id": "agent-1", "platform": "test", "consent_scope": ["intake", "offer"]},
        "intake_data": {"query": "alpha"},
        "session_id": SESSION,
    }
    offer = proxy.send("POST", intake["endpoint"], json=body, headers=KEY).json()["offer"]
    bound = {"offer_id": offer["id"], "session_id": SESSION, "bind_data": {"email": "a@example.com"}}
    agent = {"agent": {"id": "agent-1", "consent_scope": ["bind"]}}
    assert proxy.send("POST", offer["bind_endpoint"], json={**bound, **agent}, headers=KEY).status_code == 200


def test_callers_behind_the_proxy_have_a_bucket_each(proxy: Proxy) -> None:
    for _ in range(3):
        assert proxy.send("GET", f"{BASE}/collections", address="203.0.113.9").status_code == 200
    assert proxy.send("GET", f"{BASE}/collections", address="203.0.113.9").status_code == 429
    assert proxy.send("GET", f"{BASE}/collections", address="203.0.113.10").status_code == 200


@pytest.mark.parametrize("path", ["/search", "/mcp"])
def test_a_client_without_a_token_is_led_to_where_it_gets_one(path: str, proxy: Proxy) -> None:
    response = proxy.send("POST", f"{BASE}{path}", json=MCP_ASKED, headers={"authorization": "Bearer none"})
    assert response.status_code == 401
    where = response.headers["www-authenticate"].partition('resource_metadata="')[2].partition('"')[0]
    metadata = proxy.send("GET", where).json()
    assert metadata["resource"] == BASE + ("/mcp" if path == "/mcp" else "")
    assert metadata["authorization_servers"] == [ISSUER]
    token = signed(without("iat", "nbf", exp=int(time.time()) + 600, scope="search archive")).decode()
    body: dict[str, Any] = {"query": "alpha", "collection": "archive"}
    if path == "/mcp":
        arguments = {"query": {"text": "alpha", "site": "archive"}}
        body = {**MCP_ASKED, "params": {"name": "ask", "arguments": arguments}}
    answer = proxy.send("POST", f"{BASE}{path}", json=body, headers={"authorization": f"Bearer {token}"})
    assert answer.status_code == 200
    assert "archive/1" in json.dumps(answer.json())


def test_an_mcp_client_is_asked_for_a_token_where_there_is_nothing_without(tmp_path: Path) -> None:
    (tmp_path / "jwks.json").write_bytes(public(EC))
    fill(tmp_path / "store", "archive", [a_document("a", "alpha")], (TEXT,), visibility="private")
    oauth = f'[oauth]\nissuer = "{ISSUER}"\naudience = "{AUDIENCE}"\njwks = "{tmp_path / "jwks.json"}"\n'
    with serving(tmp_path / "store", f'[server]\nbase_url = "{BASE}"\ntls = "proxy"\n{oauth}') as client:
        listed = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        response = client.request("POST", "/mcp", json=listed, headers={"content-type": "application/json"})
        assert response.status_code == 401
        where = "https://gate.example.com/.well-known/oauth-protected-resource/ai/v1/mcp"
        assert response.headers["www-authenticate"] == f'Bearer realm="aidre", resource_metadata="{where}"'
