"""Refusals at the door, as each protocol says them, over a whole application."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from aidre.api.protocols.aidre import changes
from aidre.engine.model import EmbeddingSpace
from tests.integration.requests import ASKED, PROTOCOLS, SESSION, asked
from tests.support.clients import AIDRE, BASE, Client, a_document, delete, fill, serving

SPACE = EmbeddingSpace("test:plain:4:cosine:v1", 4, "cosine", True)
KEY = hashlib.sha256(b"secret").hexdigest()


SAID = {401: ("unauthorized", "UNAUTHORIZED", "auth_failed"), 429: ("rate_limited", "RATE_LIMITED", "rate_limited")}


def code_of(name: str, body: dict[str, Any]) -> str:
    """What the envelope of the protocol says was wrong."""
    if name == "mcp":
        assert (body["jsonrpc"], body["id"]) == ("2.0", None)
        return str(body["error"]["data"]["code"])
    if name in {"ask", "sites"}:
        assert body["_meta"]["response_type"] == "failure"
        return str(body["error"]["code"])
    if name == "intake":
        assert (body["status"], body["session_id"]) == ("error", SESSION)
        return str(body["error"]["code"])
    if name == "intent":
        assert body["aip_version"]
        return str(body["denial"]["reason"] if body["status"] == "denied" else body["error"]["code"])
    assert body["request_id"]
    return str(body["error"])


def serving_docs(store: Path, limits: str) -> Any:
    fill(store, "docs", [a_document(f"doc_{number}", f"alpha {number}") for number in range(30)], (SPACE,))
    keys = f'[[keys]]\nname = "k"\nsha256 = "{KEY}"\nrate = "none"\n'
    return serving(store, f"[limits]\n{limits}\n{keys}{PROTOCOLS}")


ALL_AT_ONCE: dict[str, tuple[str, Any]] = {
    "search": ("/search", {"query": "alpha", "top_k": 30}),
    "changes": ("/collections/docs/changes", None),
    "ask": ("/ask", {"query": {"text": "alpha", "num_results": 30}}),
}


@pytest.mark.parametrize("name", ALL_AT_ONCE)
def test_requests_at_the_same_time_are_not_given_more_than_one_after_the_other(name: str, tmp_path: Path) -> None:
    path, body = ALL_AT_ONCE[name]
    with serving_docs(tmp_path, "chunks_per_day = 20") as client:

        async def ask() -> list[int]:
            transport = httpx.ASGITransport(client.app)
            kind = {"content-type": AIDRE if path == "/search" else "application/json"}
            async with httpx.AsyncClient(transport=transport, base_url=BASE) as http:
                method = "GET" if body is None else "POST"
                calls = [http.request(method, path, json=body, headers=kind) for _ in range(8)]
                return [response.status_code for response in await asyncio.gather(*calls)]

        assert sorted(client._runner.run(ask())) == [200] + [429] * 7


@pytest.fixture
def spent(tmp_path: Path) -> Iterator[Client]:
    with serving_docs(tmp_path, 'rate = "1/hour"') as client:
        assert asked(client, "/collections").status_code == 200
        yield client


@pytest.mark.parametrize("name", ASKED)
def test_too_many_requests_are_429_in_every_envelope(name: str, spent: Client) -> None:
    path, body = ASKED[name]
    response = asked(spent, path, body)
    assert response.status_code == 429
    assert code_of(name, response.json()) in SAID[429]
    assert response.headers["retry-after"] == response.headers["ratelimit-reset"] == "3600"
    assert response.headers.get_list("ratelimit") == ['"default";r=0;t=3600']
    assert "RateLimit" in response.headers["access-control-expose-headers"]
    assert asked(spent, path, body, authorization="Bearer secret").status_code != 429


@pytest.mark.parametrize("name", ASKED)
def test_a_wrong_key_is_401_in_every_envelope(name: str, tmp_path: Path) -> None:
    path, body = ASKED[name]
    with serving_docs(tmp_path, 'rate = "none"') as client:
        response = asked(client, path, body, authorization="Bearer wrong")
        assert response.status_code == 401
        assert code_of(name, response.json()) in SAID[401]
        challenge = response.headers["www-authenticate"]
        assert challenge.startswith("Bearer ")
        metadata = challenge.partition('resource_metadata="http://127.0.0.1:8000')[2].partition('"')[0]
        described = client.get(metadata).json()
        assert described["resource"] == "http://127.0.0.1:8000" + ("/mcp" if name == "mcp" else "")


def test_a_browser_may_ask_before_it_has_a_key_and_however_often(spent: Client) -> None:
    asking = {"origin": "https://x.example", "access-control-request-method": "POST"}
    assert spent.request("OPTIONS", "/search", headers=asking).status_code == 204
    for path in ("/healthz", "/readyz", "/.well-known/ai-discovery", "/.well-known/aip.json"):
        assert spent.get(path).status_code == 200


def test_the_chunks_of_a_day_are_given_once_by_all_protocols_together(tmp_path: Path) -> None:
    with serving_docs(tmp_path, "chunks_per_day = 12") as client:
        ten = {"query": "alpha", "top_k": 10}
        for _ in range(5):
            assert asked(client, "/search", ten).status_code == 200
        found = asked(client, "/search", {"query": "alpha", "top_k": 30}).json()["results"]
        assert len(found) == 30  # the last answer is given whole
        for name, said in [("search", "rate_limited"), ("ask", "RATE_LIMITED")]:
            path, body = ASKED[name]
            response = asked(client, path, body)
            assert (response.status_code, code_of(name, response.json())) == (429, said)
            assert response.headers.get_list("ratelimit")[0].startswith('"chunks";r=0;t=')
            assert response.headers["retry-after"] == response.headers["ratelimit-reset"]
        assert client.get(f"/chunks/{found[0]['id'].replace('#', '%23')}").status_code == 429
        call = {"name": "fetch", "arguments": {"id": "docs:doc_1"}}
        response = asked(client, "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
        assert response.json()["result"]["structuredContent"]["error"]["code"] == "RATE_LIMITED"
        response = asked(client, "/collections/docs/changes")
        assert (response.status_code, code_of("changes", response.json())) == (429, "rate_limited")
        assert asked(client, "/search", ten, authorization="Bearer secret").status_code == 200
        assert asked(client, "/collections").status_code == 200


def test_chunks_that_the_change_feed_names_are_given(tmp_path: Path) -> None:
    with serving_docs(tmp_path, "chunks_per_day = 12") as client:
        first = asked(client, "/collections/docs/changes?limit=10").json()
        for _ in range(5):  # what was given before does not count again
            assert asked(client, "/collections/docs/changes?limit=10").status_code == 200
        last = asked(client, f"/collections/docs/changes?limit=10&since={first['next']}")
        assert len(last.json()["changes"]) == 10  # the last answer is given whole
        for path, body in (ASKED["changes"], ASKED["search"]):
            response = asked(client, path, body)
            assert response.status_code == 429
            assert response.headers.get_list("ratelimit")[0].startswith('"chunks";r=0;t=')


def test_chunks_that_the_change_feed_says_are_gone_are_not_given(tmp_path: Path) -> None:
    with serving_docs(tmp_path, "chunks_per_day = 40") as client:
        everything = asked(client, "/collections/docs/changes").json()["next"]
        delete(tmp_path, "docs", [f"doc_{number}" for number in range(30)], (SPACE,))
        client.refresh()
        since = f"/collections/docs/changes?since={everything}"
        listed = asked(client, since, authorization="Bearer secret").json()["changes"]
        assert [change["op"] for change in listed] == ["delete"] * 30
        assert client.app.state.guard.budget.count("key k") == 0


def test_where_chunks_are_counted_a_page_of_changes_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "CHANGES_DEFAULT", 7)
    with serving_docs(tmp_path, "chunks_per_day = 12") as client:
        assert len(asked(client, "/collections/docs/changes?limit=25").json()["changes"]) == 7
    with serving_docs(tmp_path / "other", "") as client:
        assert len(asked(client, "/collections/docs/changes?limit=25").json()["changes"]) == 25
