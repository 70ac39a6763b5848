"""The binding of Agent Intake 0.1.0. Names begin with the number of the check and end with what holds."""

from __future__ import annotations

import time
import uuid
from datetime import datetime
from typing import Any

import httpx
import pytest

from tests.support.clients import BASE, Client
from tests.support.clocks import Clock
from tests.support.intake_agent import Agent, Failed, Refused
from tests.support.intake_schemas import BOUND, check
from tests.support.intakes import (
    PERSON,
    SESSION,
    a_bind,
    an_agent,
    bind,
    declared,
    offered,
    refused,
)
from tests.support.rates import count_by


@pytest.mark.parametrize(
    ("data", "missing"),
    [
        ({}, "email, full_name"),
        ({"email": "a@example.com"}, "full_name"),
        ({**PERSON, "full_name": "  "}, "full_name"),
        ({**PERSON, "email": None}, "email"),
    ],
)
def test_19_a_bind_without_what_is_required_is_incomplete(client: Client, data: dict[str, Any], missing: str) -> None:
    offer = offered(client)
    message = refused(bind(client, a_bind(offer["id"], bind_data=data)), 400, "BIND_INCOMPLETE")
    assert message.endswith(f": {missing}")
    check(BOUND, bind(client, a_bind(offer["id"])).json())


def test_19_what_the_table_says_of_personal_data_holds_and_is_not_repeated(client: Client) -> None:
    offer = offered(client)
    message = refused(bind(client, a_bind(offer["id"], bind_data={**PERSON, "email": "CANARY"})), 400, "INVALID_INPUT")
    assert "bind_data.email" in message
    assert "CANARY" not in message
    refused(bind(client, a_bind(offer["id"], bind_data={**PERSON, "address": "CANARY"})), 400, "INVALID_INPUT")


def test_20_a_bind_needs_consent_to_bind(client: Client) -> None:
    offer = offered(client)
    body = a_bind(offer["id"], agent={"id": "agent-1", "consent_scope": ["intake", "offer"]})
    assert "bind" in refused(bind(client, body), 400, "INVALID_INPUT")


@pytest.mark.parametrize(
    "members",
    [
        {"aip_version": "0.1.0"},
        {"agent": {"id": "a", "consent_scope": ["bind"], "platform": "x"}},
        {"bind_data": []},
        {"offer_id": 5},
        {"offer_id": ""},
        {"metadata": {"user_confirmed_at": "now"}},
    ],
)
def test_20_a_bind_beside_its_table_is_invalid(client: Client, members: dict[str, Any]) -> None:
    refused(bind(client, a_bind("some-offer", **members)), 400, "INVALID_INPUT")


def test_21_an_offer_is_bound_in_its_own_session(client: Client) -> None:
    offer, other = offered(client), str(uuid.uuid4())
    wrong = bind(client, a_bind(offer["id"], session_id=other))
    unknown = bind(client, a_bind(str(uuid.uuid4()), session_id=other))
    assert refused(wrong, 404, "OFFER_NOT_FOUND", other) == refused(unknown, 404, "OFFER_NOT_FOUND", other)
    check(BOUND, bind(client, a_bind(offer["id"], session_id=SESSION.upper())).json())
    refused(bind(client, a_bind(offer["id"], session_id=other)), 404, "OFFER_NOT_FOUND", other)


def test_22_unknown_offers_are_404_and_expired_ones_410(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    refused(bind(client, a_bind("x" * 5_000)), 404, "OFFER_NOT_FOUND")
    offer = offered(client)
    moment = datetime.fromisoformat(offer["expires"]).timestamp()
    monkeypatch.setattr(time, "time", lambda: moment)
    refused(bind(client, a_bind(offer["id"])), 410, "OFFER_EXPIRED")
    monkeypatch.setattr(time, "time", lambda: moment - 1)
    check(BOUND, bind(client, a_bind(offer["id"])).json())


def test_23_the_same_bind_again_is_answered_byte_for_byte_also_after_expiry(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer = offered(client)
    first = bind(client, a_bind(offer["id"]))
    check(BOUND, first.json())
    assert (first.json()["offer_id"], first.json()["session_id"]) == (offer["id"], SESSION)
    late = datetime.fromisoformat(offer["expires"]).timestamp() + 1_000_000
    monkeypatch.setattr(time, "time", lambda: late)
    turned = dict(reversed(PERSON.items()))
    for body in (
        a_bind(offer["id"]),
        a_bind(offer["id"], bind_data=turned, metadata={"timestamp": "2027-01-01T00:00:00Z"}),
    ):
        again = bind(client, body)
        assert (again.status_code, again.content) == (200, first.content)
    for data in ({**PERSON, "phone": "1"}, {**PERSON, "email": "j@example.com"}, {}):
        refused(bind(client, a_bind(offer["id"], bind_data=data)), 409, "OFFER_ALREADY_BOUND")
    assert bind(client, a_bind(offer["id"])).content == first.content


def test_24_an_agent_binds_only_when_its_user_agrees(client: Client) -> None:
    agent = an_agent(client)
    answer = agent.submit(declared(client), {"need": "leaking pipe"})
    with pytest.raises(Refused, match="agreed"):
        agent.bind(answer, PERSON, user_agrees=False)
    with pytest.raises(Refused, match="full_name"):
        agent.bind(answer, {"email": "a@example.com"}, user_agrees=True)
    first = agent.bind(answer, PERSON, user_agrees=True)
    assert agent.bind_again(answer, PERSON).content == first.content
    with pytest.raises(Failed) as caught:
        agent.bind_again(answer, {**PERSON, "email": "other@example.com"})
    assert (caught.value.status, caught.value.code) == (409, "OFFER_ALREADY_BOUND")


def test_25_what_was_bound_is_in_no_log_line(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(0):
        offer = offered(client, data={"need": "CANARYNEED pipe"})
        named = {"email": "canary@example.com", "full_name": "CANARYNAME"}
        assert bind(client, a_bind(offer["id"], bind_data={**named, "email": "canary"})).status_code == 400
        assert bind(client, a_bind(offer["id"], bind_data=named)).status_code == 200
        assert bind(client, a_bind(offer["id"], bind_data={**named, "phone": "canary"})).status_code == 409
    assert "canary" not in caplog.text.lower()


def test_28_an_agent_comes_again_when_it_was_told_to(client: Client) -> None:
    clock = Clock(86_400.0 * 40_000)
    count_by(clock, client)
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        clock.now += seconds

    hasty, patient = an_agent(client), an_agent(client, retries=1, wait=wait)
    rare = declared(client, "rare")
    for _ in range(2):
        hasty.submit(rare, {"query": "pipe"})
    with pytest.raises(Failed) as caught:
        hasty.submit(rare, {"query": "pipe"})
    assert (caught.value.status, caught.value.code, caught.value.retry_after) == (429, "RATE_LIMITED", "30")
    assert patient.submit(rare, {"query": "pipe"})["status"] == "offer"
    assert waited == [30.0]


def test_23_an_agent_whose_answer_was_lost_asks_again_and_has_one_bind(client: Client) -> None:
    lost: list[str] = []

    def lossy(method: str, url: str, **options: Any) -> httpx.Response:
        response = client.request(method, url, **options)
        if url.endswith("/bind") and not lost:
            lost.append(response.text)
            raise httpx.ReadError("the connection broke")
        return response

    agent = Agent(lossy, BASE, retries=1, wait=lambda seconds: None)
    answer = agent.submit(declared(client), {"need": "leaking pipe"})
    assert agent.bind(answer, PERSON, user_agrees=True).text == lost[0]
