"""Agent Intake through the client: the whole flow, and what an agent must not do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import aidre_client
from tests.support.fault_proxy import (
    RESET_AFTER,
    RESET_BEFORE,
    Asked,
    Failing,
    Fault,
    FaultyServer,
    answering,
    faulty,
    foreign,
    refusal,
)
from tests.support.remote import INTAKES, connected


@pytest.fixture(scope="module")
def provider(store: Path) -> Iterator[FaultyServer]:
    with faulty(store, INTAKES) as (proxy, _):
        yield proxy


@pytest.fixture
def proxy(provider: FaultyServer) -> Iterator[FaultyServer]:
    provider.plan = lambda asked: None
    provider.asked.clear()
    yield provider
    provider.plan = lambda asked: None


def test_the_whole_flow_ends_in_a_bind(proxy: FaultyServer) -> None:
    with connected(proxy.url) as client:
        agent = client.intake("agent-1", platform="test")
        assert [one.id for one in agent.manifest.intakes] == ["find", "look", "strict"]
        answer = agent.submit("find", {"query": "alpha word 7"})
        assert answer.offer is not None
        assert answer.offer.details["items"][0]["id"] == "a b/7#chunk_1"
        with pytest.raises(aidre_client.InvalidInput, match="agreed"):
            agent.bind(answer, {"email": "a@b.example"}, user_agrees=False)
        with pytest.raises(aidre_client.InvalidInput) as caught:
            agent.bind(answer, {}, user_agrees=True)
        assert caught.value.details["missing"] == ["email"]
        bound = agent.bind(answer, {"email": "a@b.example"}, user_agrees=True)
        assert (bound.status, bound.offer_id) == ("bound", answer.offer.id)
        assert agent.bind(answer, {"email": "a@b.example"}, user_agrees=True) == bound
        with pytest.raises(aidre_client.Conflict) as conflict:
            agent.bind(answer, {"email": "c@d.example"}, user_agrees=True)
        assert conflict.value.details["error"] == "OFFER_ALREADY_BOUND"


def test_an_offer_without_a_bind_cannot_be_bound(proxy: FaultyServer) -> None:
    with connected(proxy.url) as client:
        agent = client.intake("agent-1")
        answer = agent.submit("look", {"query": "alpha word 7"})
        assert answer.offer is not None
        with pytest.raises(aidre_client.Unsupported):
            agent.bind(answer, {}, user_agrees=True)


def test_a_decline_has_its_reason(proxy: FaultyServer) -> None:
    with connected(proxy.url) as client:
        answer = client.intake("agent-1").submit("strict", {"query": "zzz qqq"})
        assert (answer.status, answer.offer) == ("declined", None)
        assert answer.decline_reason


@pytest.mark.parametrize(
    ("intake", "data", "kind", "code"),
    [
        ("none", {}, aidre_client.Missing, None),
        ("find", {"query": 7}, aidre_client.InvalidInput, "SCHEMA_MISMATCH"),
        ("find", {"query": "a", "email": "a@b.example"}, aidre_client.InvalidInput, None),
    ],
)
def test_a_misuse_is_one_exception(
    intake: str, data: dict[str, Any], kind: type[aidre_client.AidreError], code: str | None, proxy: FaultyServer
) -> None:
    with connected(proxy.url) as client, pytest.raises(kind) as caught:
        client.intake("agent-1").submit(intake, data)
    assert caught.value.details.get("error") == code
    assert not any(b"a@b.example" in asked.body for asked in proxy.asked), "personal data do not leave"


def test_a_submission_is_repeated_only_where_it_was_not_taken(proxy: FaultyServer) -> None:
    with connected(proxy.url) as client:
        agent = client.intake("agent-1")
        proxy.plan = Failing((refusal(429, Retry_After="1"), refusal(503, Retry_After="1")), "/intakes/")
        assert agent.submit("find", {"query": "alpha word 7"}).offer is not None
        proxy.plan = Failing((RESET_AFTER,), "/intakes/")
        with pytest.raises(aidre_client.RequestFailed) as caught:
            agent.submit("find", {"query": "alpha word 7"})
        assert caught.value.details["attempts"] == 1


def test_a_bind_whose_answer_was_lost_is_sent_again(proxy: FaultyServer) -> None:
    with connected(proxy.url) as client:
        agent = client.intake("agent-1")
        answer = agent.submit("find", {"query": "alpha word 7"})
        proxy.plan = Failing((RESET_AFTER, RESET_BEFORE, refusal(503, Retry_After="1")), "/intakes/bind")
        assert agent.bind(answer, {"email": "a@b.example"}, user_agrees=True).status == "bound"


def test_an_agent_has_an_id() -> None:
    with aidre_client.connect("http://127.0.0.1") as client, pytest.raises(aidre_client.InvalidInput):
        client.intake("")


def manifest(version: str) -> dict[str, Any]:
    intake = {
        "id": "i",
        "name": "I",
        "description": "D",
        "endpoint": "/submit",
        "method": "POST",
        "input_schema": {},
        "offer_type": "quote",
        "binding_available": True,
    }
    return {
        "aip_version": version,
        "provider": {"name": "P", "url": "https://p.example"},
        "intakes": [intake],
    }


def a_provider(said: dict[str, Any], version: str = "0.1.7") -> Any:
    def plan(asked: Asked) -> Fault:
        if asked.target.endswith("agent-intake.json"):
            return answering(200, json.dumps(manifest(version)).encode())
        if asked.target != "/submit":
            return answering(404, b"{}")
        session = json.loads(asked.body)["session_id"]
        return answering(200, json.dumps({"aip_version": "0.1.7", "session_id": session, **said}).encode())

    return plan


OFFER = {"id": "o", "summary": "s", "bind_endpoint": "/bind", "bind_requires": []}


@pytest.mark.parametrize(
    "said",
    [
        {"status": "offer"},
        {"status": "declined", "offer": OFFER},
        {"status": "offer", "offer": {"id": "o", "summary": "s"}},
        {"status": "offer", "offer": OFFER, "session_id": "another"},
        {"status": "offer", "offer": {"id": "o"}},
    ],
)
def test_an_answer_that_breaks_the_protocol_is_a_failed_request(said: dict[str, Any]) -> None:
    with foreign(a_provider(said)) as proxy, connected(proxy.url) as client:
        with pytest.raises(aidre_client.RequestFailed) as caught:
            client.intake("agent-1").submit("i", {})
        assert caught.value.details["error"] == "invalid_answer"


def test_an_offer_that_has_expired_is_not_bound() -> None:
    expired = {**OFFER, "expires": "2020-01-01T00:00:00Z"}
    with foreign(a_provider({"status": "offer", "offer": expired})) as proxy, connected(proxy.url) as client:
        agent = client.intake("agent-1")
        answer = agent.submit("i", {})
        with pytest.raises(aidre_client.Conflict) as caught:
            agent.bind(answer, {}, user_agrees=True)
        assert caught.value.details["error"] == "OFFER_EXPIRED"


def test_a_provider_of_another_version_is_unsupported() -> None:
    plan = a_provider({}, "0.2.0")
    with foreign(plan) as proxy, connected(proxy.url) as client, pytest.raises(aidre_client.Unsupported):
        client.intake("agent-1").submit("i", {})
