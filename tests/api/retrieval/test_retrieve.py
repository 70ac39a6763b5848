"""What runs in the event loop, and what must not; and what is answered when more comes than can be searched."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from aidre.api.retrieval import drive, retrieve, scheduler
from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.retrieve import paging
from tests.support.clients import BASE, Client, a_document, fill, serving
from tests.support.clocks import WAIT_SECONDS
from tests.support.intent_platform import Platform

SHORT = {"n": {"in": [0, 1]}}
LONG = {"n": {"in": list(range(2_000))}}
IMPATIENT = """
[server]
organization = "The Example"
[limits]
wait = "0s"
deadline = "1h"
[[intakes]]
id = "all"
query = "{need}"
[intent]
enabled = true
publisher = { id = "example", name = "The Example", domain = "127.0.0.1" }
[intent.editorial_domains."finance.markets"]
collection = "docs"
[intent.keys]
platform = "test-secret-0123456789abcdef"
"""
"""Nobody may wait for a thread, and no answer is given up while a search is held."""

SUBMITTED = {
    "aip_version": "0.1.0",
    "agent": {"id": "agent-1", "platform": "test", "consent_scope": ["intake", "offer"]},
    "intake_data": {"need": "alpha"},
    "session_id": "7d444840-9dc0-41d1-b245-5ffdce74fad2",
}
ASKED: dict[str, tuple[str, Any, str]] = {
    "aidre": ("/search", {"query": "alpha", "mode": "lexical"}, "details"),
    "nlweb": ("/ask", {"query": {"text": "alpha"}}, "_meta"),
    "intake": ("/intakes/all", SUBMITTED, "aip_version"),
    "intent": ("/aip/retrieve", Platform(lambda *_: (0, {}, b"")).request(), "aip_version"),
}
"""By protocol: where, what, and a member by which its errors are known."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store")
    fill(path, "docs", [a_document(f"d{n}", "alpha", metadata={"n": n}) for n in range(5)])
    return path


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[bool]]:
    """Whether each call was in the event loop, by what was called."""
    noted: dict[str, list[bool]] = {}
    here = threading.get_ident()
    for module, name in ((retrieve, "parse_filter"), (drive, "first_page")):
        original = getattr(module, name)

        def note(*arguments: Any, original: Any = original, name: str = name) -> Any:
            noted.setdefault(name, []).append(threading.get_ident() == here)
            return original(*arguments)

        monkeypatch.setattr(module, name, note)
    return noted


@pytest.mark.parametrize(("filter", "in_the_loop", "found"), [(SHORT, True, 2), (LONG, False, 5)])
def test_a_long_filter_is_read_off_the_event_loop(
    store: Path, threads: dict[str, list[bool]], filter: dict[str, Any], in_the_loop: bool, found: int
) -> None:
    with serving(store) as client:
        response = client.search({"query": "alpha", "filter": filter})
    assert len(response.json()["results"]) == found
    assert threads["parse_filter"] == [in_the_loop]


def test_a_search_runs_in_the_event_loop_where_its_estimate_is_short(
    store: Path, threads: dict[str, list[bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"query": "alpha", "mode": "lexical"}
    with serving(store) as client:
        for seconds in (0.000_1, 0.1):
            monkeypatch.setattr(Snapshot, "estimated_seconds", lambda *_, seconds=seconds: seconds)
            assert client.search(body).status_code == 200
    assert threads["first_page"] == [True, False]


def test_a_filter_counts_as_long_until_its_mask_is_there(store: Path, threads: dict[str, list[bool]]) -> None:
    body = {"query": "alpha", "mode": "lexical", "filter": SHORT}
    with serving(store) as client:
        for _ in range(2):
            assert client.search(body).status_code == 200
    assert threads["first_page"] == [False, True]


def test_a_filter_that_is_nested_too_deep_is_refused(store: Path) -> None:
    nested: Any = SHORT
    for _ in range(500):
        nested = {"not": nested}
    with serving(store) as client:
        assert client.search({"query": "alpha", "filter": nested}).status_code == 400


class Gate:
    """Holds every search until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = threading.Event()
        self.held = threading.Semaphore(0)
        original = paging.first_page

        def held(*arguments: Any) -> Any:
            self.held.release()
            assert self.open.wait(WAIT_SECONDS)
            return original(*arguments)

        monkeypatch.setattr(drive, "first_page", held)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    monkeypatch.setattr(scheduler, "available_cores", lambda: 1)
    monkeypatch.setattr(Snapshot, "estimated_seconds", lambda *_: 0.01)
    gate = Gate(monkeypatch)
    yield gate
    gate.open.set()


def meanwhile(
    client: Client, gate: Gate, searches: int, then: Callable[[httpx.AsyncClient], Any]
) -> tuple[list[httpx.Response], Any]:
    """What searches answered that were held, and what `then` gave while they were."""

    async def story() -> tuple[list[httpx.Response], Any]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(client.app), base_url=BASE) as http:
            body = {"query": "alpha", "mode": "lexical"}
            waiting = [asyncio.create_task(http.post("/search", json=body)) for _ in range(searches)]
            assert await asyncio.to_thread(gate.held.acquire, timeout=WAIT_SECONDS)
            for _ in range(50):  # turns of the loop, in which the other searches come to wait or are refused
                await asyncio.sleep(0)
            found = await then(http)
            gate.open.set()
            return list(await asyncio.gather(*waiting)), found

    return client._runner.run(story())


@pytest.mark.slow
def test_a_tool_that_would_have_to_wait_too_long_fails(store: Path, gate: Gate) -> None:
    called = {"name": "ask", "arguments": {"query": {"text": "alpha"}}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": called}
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"mcp-protocol-version": "2025-06-18"}
    with serving(store, IMPATIENT) as client:
        # The first request imports the SDK of MCP, before any search is held.
        assert client.request("POST", "/mcp", json=listing, headers=headers).status_code == 200
        _, answer = meanwhile(client, gate, 1, lambda http: http.post("/mcp", json=body, headers=headers))
    result = answer.json()["result"]
    assert result["isError"]
    assert result["structuredContent"]["error"]["code"] == "INTERNAL_ERROR"
    assert "come back" in result["structuredContent"]["error"]["message"]


def test_other_requests_are_answered_while_a_search_runs(store: Path, gate: Gate) -> None:
    with serving(store) as client:
        answers, health = meanwhile(client, gate, 1, lambda http: http.get("/healthz"))
    assert health.status_code == 200
    assert [answer.status_code for answer in answers] == [200]


@pytest.mark.parametrize("protocol", ASKED)
def test_who_would_have_to_wait_too_long_is_told_to_come_back(store: Path, gate: Gate, protocol: str) -> None:
    path, body, member = ASKED[protocol]
    content = json.dumps(body).encode()
    headers = Platform(lambda *_: (0, {}, b"")).headers("POST", path, content)
    with serving(store, IMPATIENT) as client:
        answers, refused = meanwhile(client, gate, 2, lambda http: http.post(path, content=content, headers=headers))
        assert refused.status_code == 503, refused.text
        assert int(refused.headers["retry-after"]) >= 1
        assert member in refused.json()
        statuses = [answer.status_code for answer in answers]
        assert statuses == [200, 503], "one runs, and what waits is more than may"
        assert client.search({"query": "alpha", "mode": "lexical"}).status_code == 200, "and all is well again"


def test_a_budget_that_was_spent_while_a_search_ran_is_spent_for_its_answer(store: Path, gate: Gate) -> None:
    with serving(store, "[limits]\nchunks_per_day = 1\n") as client:
        answers, other = meanwhile(client, gate, 1, lambda http: http.get("/chunks/d0%23chunk_1"))
        assert other.status_code == 200, "the budget is spent by another request"
        assert [answer.status_code for answer in answers] == [429]
