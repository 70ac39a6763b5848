"""NLWeb 0.55: promises and POST /await. Names begin with the check and end with what holds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from aidre.api.access.caller import Caller
from aidre.api.config.settings import parse_settings
from aidre.api.config.toml import Duration
from aidre.api.protocols.nlweb.answer import answering
from aidre.api.protocols.nlweb.answer.document_search import AskPage, find_documents
from tests.support.clients import Client, serving
from tests.support.clocks import until
from tests.support.recipes import CONFIGURATION, JSON, as_caller, ask, events, failed, query, told, without_time

LATER = {"prefer": {"respond-async": True}}


@dataclass
class Hold:
    """Stands before every search while it is closed, and counts those that were ended there."""

    closed: bool = True
    cancelled: int = 0

    async def wait(self) -> None:
        try:
            while self.closed:
                await asyncio.sleep(0.002)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


@pytest.fixture
def client(filled: Path) -> Iterator[Client]:
    """A server for one test: work that a test holds up ends with it."""
    with serving(filled, CONFIGURATION) as one:
        yield one


@pytest.fixture
def hold(monkeypatch: pytest.MonkeyPatch) -> Hold:
    held = Hold()

    async def find_later(*arguments: Any) -> AskPage:
        await held.wait()
        return await find_documents(*arguments)

    monkeypatch.setattr(answering, "find_documents", find_later)
    return held


@contextmanager
def impatient(store: Path, budget: float, timeout: float = 60.0) -> Iterator[Client]:
    """A server with less patience than a configuration can ask for."""
    settings = parse_settings(CONFIGURATION)
    nlweb = replace(settings.nlweb, budget=Duration(budget), timeout=Duration(timeout))
    client = Client(store, replace(settings, nlweb=nlweb))
    try:
        yield client
    finally:
        client.close()


def post_await(client: Client, body: Any) -> httpx.Response:
    return client.request("POST", "/await", json=body, headers={"content-type": JSON})


def checkin(client: Client, token: Any, action: Any = "checkin") -> httpx.Response:
    return post_await(client, {"promise_token": token, "action": action})


def promise_of(response: httpx.Response) -> dict[str, Any]:
    promise: dict[str, Any] = told(response, "promise", 202)["promise"]
    return promise


def promised(client: Client, **members: Any) -> str:
    token: str = promise_of(ask(client, {**query(), **LATER, **members}))["token"]
    return token


def settled(client: Client, token: str) -> httpx.Response:
    """The answer of /await when it is not a promise any more."""
    answers: list[httpx.Response] = []

    def answered() -> bool:
        pause(client)
        answers.append(checkin(client, token))
        return answers[-1].status_code != 202

    until(answered)
    return answers[-1]


def pause(client: Client, seconds: float = 0.005) -> None:
    """Lets the server of a client work on."""
    client.request("GET", "/healthz")
    client._runner.run(asyncio.sleep(seconds))


def test_h1_await_is_asked_by_post_alone(client: Client) -> None:
    for method in ("GET", "PUT", "DELETE", "PATCH"):
        response = client.request(method, "/await")
        failed(response, "METHOD_NOT_ALLOWED", 405)
        assert "POST" in response.headers["allow"]


def test_p1_a_promise_is_202_with_a_token_nobody_can_guess(client: Client) -> None:
    tokens = {promised(client) for _ in range(5)}
    assert len(tokens) == 5
    assert all(type(token) is str and len(token) >= 40 for token in tokens)


def test_p2_a_promise_tells_how_far_it_is(client: Client, hold: Hold) -> None:
    promise = promise_of(ask(client, {**query(), **LATER}))
    assert set(promise) == {"token", "estimated_time", "message", "progress"}
    assert type(promise["estimated_time"]) is int and promise["estimated_time"] >= 1
    assert 0 <= promise["progress"] <= 1
    assert promise["message"]


def test_p1_work_beyond_its_budget_becomes_a_promise(filled: Path, hold: Hold) -> None:
    with impatient(filled, budget=0.01) as client:
        token = promise_of(ask(client, query()))["token"]
        hold.closed = False
        told(settled(client, token), "answer")


def test_p1_work_within_its_budget_does_not(client: Client) -> None:
    told(ask(client, query()), "answer")
    told(ask(client, {**query(), "prefer": {"respond-async": False}}), "answer")


def test_p1_the_session_comes_with_the_promise(client: Client, hold: Hold) -> None:
    session = {"conversation_id": "conv_meal_plan_789"}
    body = told(
        ask(client, {**query(), **LATER, "meta": {"version": "0.55", "session_context": session}}), "promise", 202
    )
    assert body["_meta"] == {"response_type": "promise", "version": "0.55", "session_context": session}


def test_p1_a_stream_that_is_promised_says_so_in_its_events(client: Client, hold: Hold) -> None:
    response = ask(client, {**query(), "prefer": {"respond-async": True, "streaming": True}})
    told_by = {event.name: event.data for event in events(response)}
    assert set(told_by) == {"start", "complete"}
    hold.closed = False
    told(settled(client, told_by["complete"]["promise"]["token"]), "answer")


def test_w1_while_the_work_goes_on_the_promise_comes_again(client: Client, hold: Hold) -> None:
    token = promised(client)
    reached = []
    for _ in range(5):
        promise = promise_of(checkin(client, token))
        assert promise["token"] == token
        reached.append(promise["progress"])
        pause(client)
    assert reached == sorted(reached)
    hold.closed = False
    told(settled(client, token), "answer")


@pytest.mark.parametrize(
    "prefer",
    [{}, {"mode": "list, summarize"}, {"response_format": "chatgpt_app"}, {"response_format": "conv_search"}],
)
def test_w2_a_kept_promise_is_the_answer_that_was_asked_for(client: Client, prefer: dict[str, Any]) -> None:
    body = {**query(limit=3), "meta": {"session_context": {"a": 1}}}
    direct = ask(client, {**body, "prefer": prefer})
    token = ask(client, {**body, "prefer": {**prefer, "respond-async": True}}).json()["promise"]["token"]
    for _ in range(2):
        later = settled(client, token)
        assert later.status_code == direct.status_code == 200
        assert later.headers["content-type"] == JSON
        assert without_time(later.json()) == without_time(direct.json())


def test_w2_a_failure_is_what_the_promise_comes_to(client: Client) -> None:
    failed(settled(client, promised(client, **query(site="nowhere.example"))), "NO_RESULTS")


@pytest.mark.slow
def test_w2_work_that_takes_too_long_is_a_timeout(filled: Path, hold: Hold) -> None:
    with impatient(filled, budget=0.01, timeout=0.3) as client:
        failed(settled(client, promise_of(ask(client, query()))["token"]), "TIMEOUT")
        assert hold.cancelled == 1


def test_w3_what_runs_is_cancelled_for_good(client: Client, hold: Hold) -> None:
    token = promised(client)
    promise_of(checkin(client, token))
    for action in ("cancel", "cancel", "checkin", "cancel", "checkin"):
        failed(checkin(client, token, action), "CANCELLED")
    pause(client)
    assert hold.cancelled == 1


def test_w3_what_is_finished_is_cancelled_too(client: Client) -> None:
    token = promised(client)
    told(settled(client, token), "answer")
    for action in ("cancel", "checkin", "cancel"):
        failed(checkin(client, token, action), "CANCELLED")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"promise_token": "t"},
        {"promise_token": "t", "action": "wait"},
        {"promise_token": "t", "action": ["checkin"]},
        {"action": "checkin"},
        {"promise_token": "", "action": "checkin"},
        {"promise_token": 5, "action": "cancel"},
        {"promise_token": "t", "action": "checkin", "meta": 5},
        [],
        "t",
        None,
    ],
)
def test_w4_a_malformed_await_is_an_invalid_query(client: Client, body: Any) -> None:
    failed(post_await(client, body), "INVALID_QUERY", 400)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b'{"promise_token":"\\ud800","action":"checkin"}'])
def test_w4_what_is_no_json_is_an_invalid_query(client: Client, content: bytes) -> None:
    response = client.request("POST", "/await", content=content, headers={"content-type": JSON})
    failed(response, "INVALID_QUERY", 400)


@pytest.mark.parametrize("action", ["checkin", "cancel"])
def test_w5_an_unknown_token_is_an_unknown_promise(client: Client, action: str) -> None:
    for token in ("promise_xyz789", "'; --", "\u0000", "t" * 5_000):
        failed(checkin(client, token, action), "UNKNOWN_PROMISE")


def test_w5_a_promise_is_unknown_to_all_but_its_caller(client: Client, hold: Hold) -> None:
    alice, bob = Caller("alice"), Caller("bob")
    token = promise_of(as_caller(client, alice, "/ask", {**query(), **LATER}))["token"]
    for action in ("cancel", "checkin"):
        failed(as_caller(client, bob, "/await", {"promise_token": token, "action": action}), "UNKNOWN_PROMISE")
        failed(checkin(client, token, action), "UNKNOWN_PROMISE")
    promise_of(as_caller(client, alice, "/await", {"promise_token": token, "action": "checkin"}))


def test_w5_a_caller_gets_of_its_promise_what_it_may_see(client: Client) -> None:
    alice = Caller("alice", frozenset({"shut"}))
    token = promise_of(as_caller(client, alice, "/ask", {**query(site="shut"), **LATER}))["token"]
    checking = {"promise_token": token, "action": "checkin"}
    until(lambda: as_caller(client, alice, "/await", checking).status_code == 200)
    kept = told(as_caller(client, alice, "/await", checking), "answer")
    assert [item["url"] for item in kept["results"]] == ["https://shut.example/x"]
    failed(checkin(client, token), "UNKNOWN_PROMISE")


def test_w6_meta_is_open(client: Client, hold: Hold) -> None:
    token = promised(client)
    meta = {"version": "0.55", "request_id": "req_def456", "session_context": {"a": 1}, "more": [1, {}]}
    mores: list[dict[str, Any]] = [{}, {"meta": None}, {"meta": {}}, {"meta": meta}, {"@context": "x", "more": 1}]
    for more in mores:
        promise_of(post_await(client, {"promise_token": token, "action": "checkin", **more}))


def test_w1_w2_w3_any_worker_answers(filled: Path, hold: Hold, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aidre.api.protocols.nlweb.promises.HEARTBEAT_SECONDS", 0.01)
    with serving(filled, CONFIGURATION) as first, serving(filled, CONFIGURATION) as second:
        kept, dropped = promised(first), promised(first)
        assert promise_of(checkin(second, kept))["token"] == kept
        failed(checkin(second, dropped, "cancel"), "CANCELLED")

        def dropped_by_its_worker() -> bool:
            pause(first)
            return hold.cancelled > 0

        until(dropped_by_its_worker)
        assert hold.cancelled == 1
        hold.closed = False
        answered = settled(first, kept)
        assert json.loads(checkin(second, kept).content) == answered.json()
        for one in (first, second):
            failed(checkin(one, dropped), "CANCELLED")


def test_w2_promises_are_no_collection(client: Client, filled: Path) -> None:
    promised(client)
    assert (filled / ".log").is_dir()
    listed = client.get("/collections").json()["collections"]
    assert {one["name"] for one in listed} >= {"docs"}
    assert not any(one["name"].startswith(".") for one in listed)
