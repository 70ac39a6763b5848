"""Agent Intake 0.1.0. Names begin with the number of the check and end with what holds."""

from __future__ import annotations

import asyncio
import time
import uuid
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from jsonschema import ValidationError

from aidre.api.protocols.intake import service
from aidre.engine.errors import ConfigurationError
from tests.support.clients import BASE, Client, serving
from tests.support.clocks import Clock
from tests.support.intake_agent import WELL_KNOWN, Refused
from tests.support.intake_schemas import ANSWER, MANIFEST, check
from tests.support.intakes import (
    CONFIGURATION,
    SECRET,
    SESSION,
    a_submission,
    an_agent,
    answered,
    bind,
    declared,
    offered,
    post,
    refused,
    submit,
)
from tests.support.rates import count_by

NOON = 86_400.0 * 30_000 + 43_200
DAILY = '[[intakes]]\nid = "daily"\ncollection = "trades"\nrate_limit = { requests_per_day = 1 }\n'


def test_1_the_manifest_stands_at_its_well_known_path_alone(client: Client) -> None:
    assert WELL_KNOWN == "/.well-known/agent-intake.json"
    assert client.get(WELL_KNOWN).status_code == 200
    for other in ("/agent-intake.json", "/.well-known/agent-intake", f"{WELL_KNOWN}/"):
        assert client.get(other).status_code == 404


def test_2_the_manifest_is_json_and_valid(client: Client) -> None:
    response = client.get(WELL_KNOWN, {"accept": "application/json"})
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    check(MANIFEST, response.json())
    assert response.json()["provider"] == {"name": "Example Trades", "url": BASE}
    assert client.get(WELL_KNOWN, {"if-none-match": response.headers["etag"]}).status_code == 304
    assert client.request("HEAD", WELL_KNOWN).content == b""


def test_2_without_intakes_nothing_of_this_exists(store: Path) -> None:
    with serving(store) as bare:
        for path in (WELL_KNOWN, "/intakes/bind", "/intakes/find-a-plumber"):
            response = bare.request("POST", path, json={})
            assert (response.status_code, response.json()["error"]) == (404, "not_found")
        assert not (store / ".log" / "intake.sqlite").exists()


@pytest.mark.parametrize("path", [WELL_KNOWN, "/intakes/find-a-plumber", "/intakes/bind"])
def test_3_any_origin_may_call_and_a_preflight_is_answered(client: Client, path: str) -> None:
    asked = {"origin": "https://agent.example", "access-control-request-method": "POST"}
    preflight = client.request("OPTIONS", path, headers={**asked, "access-control-request-headers": "content-type"})
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == "*"
    assert {"GET", "POST", "OPTIONS"} <= set(preflight.headers["access-control-allow-methods"].split(", "))
    assert preflight.headers["access-control-allow-headers"].lower() == "content-type"
    assert client.request("GET", path).headers["access-control-allow-origin"] == "*"
    assert client.request("OPTIONS", path).status_code == 204


def test_4_and_26_endpoints_are_https_in_production(store: Path) -> None:
    with_base = CONFIGURATION.replace("[server]", '[server]\nbase_url = "https://trades.example/base/"')
    with serving(store, with_base) as production:
        manifest = production.get(WELL_KNOWN).json()
        assert manifest["provider"]["url"] == "https://trades.example/base"
        assert len(manifest["intakes"]) == CONFIGURATION.count("[[intakes]]")
        for intake in manifest["intakes"]:
            assert intake["endpoint"] == f"https://trades.example/base/intakes/{intake['id']}"
        assert offered(production)["bind_endpoint"] == "https://trades.example/base/intakes/bind"
    with (
        pytest.raises(ConfigurationError, match=r"server\.base_url must begin with https"),
        serving(store, CONFIGURATION.replace("[server]", '[server]\nbase_url = "http://trades.example"')),
    ):
        pass


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({}, "intake_data.need"),
        ({"need": "ab"}, "intake_data.need"),
        ({"need": 5}, "intake_data.need"),
        ({"need": "leak", "urgency": "CANARY"}, "intake_data.urgency"),
        ({"need": "leak", "place": {"city": ["CANARY"]}}, "intake_data.place.city"),
        ({"need": "leak", "CANARY": 1}, "intake_data"),
    ],
)
def test_5_and_27_data_beside_their_schema_are_refused_by_field_and_not_repeated(
    client: Client, data: dict[str, Any], field: str
) -> None:
    message = refused(submit(client, a_submission(data)), 400, "SCHEMA_MISMATCH")
    assert field in message
    assert "CANARY" not in message


def test_5_a_pattern_that_explodes_elsewhere_takes_linear_time_here(client: Client) -> None:
    """With a matcher that backtracks this test would not end."""
    refused(submit(client, a_submission({"need": "leak", "code": "a" * 20_000 + "b"})), 400, "SCHEMA_MISMATCH")


@pytest.mark.parametrize(
    "session",
    [
        "6b88aa9a-e6ce-11f1-98e7-02fc00000001",
        str(uuid.uuid5(uuid.NAMESPACE_DNS, "x")),
        "0f8fad5b-d9cb-469f-0165-70867728950e",
    ],
)
def test_6_a_session_is_a_uuid_of_version_4(client: Client, session: str) -> None:
    message = refused(submit(client, a_submission(session_id=session)), 400, "INVALID_INPUT", session)
    assert "session_id" in message


@pytest.mark.parametrize("session", ["x", "", None, 5, SESSION[:-1], "{" + SESSION + "}", "urn:uuid:" + SESSION])
def test_6_what_is_no_uuid_is_answered_in_a_session_of_its_own(client: Client, session: Any) -> None:
    response = submit(client, a_submission(session_id=session))
    assert "session_id" in refused(response, 400, "INVALID_INPUT", None)
    assert uuid.UUID(response.json()["session_id"]).version == 4


def test_7_consent_must_include_the_intake(client: Client) -> None:
    for scope in (["offer"], ["bind"], ["offer", "bind", "payment"]):
        body = a_submission(agent={"id": "a", "consent_scope": scope})
        assert "consent_scope" in refused(submit(client, body), 400, "INVALID_INPUT")


def test_8_an_agent_keeps_personal_data_back_where_they_are_not_required(client: Client) -> None:
    with pytest.raises(Refused):
        an_agent(client).submit(declared(client), {"need": "leak", "email": "jane@example.com"})


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"text"',
        b"null",
        b"\xff\xfe",
        b'{"session_id": NaN}',
        b"[" * 3_000,
        b'{"intake_data":' + b'{"a":' * 400 + b"1" + b"}" * 401,
        b'{"session_id": "\\ud800"}',
    ],
)
def test_9_what_is_no_json_object_is_invalid(client: Client, body: bytes) -> None:
    refused(submit(client, body), 400, "INVALID_INPUT", None)
    refused(bind(client, body), 400, "INVALID_INPUT", None)


@pytest.mark.parametrize("member", ["aip_version", "agent", "intake_data", "session_id"])
def test_9_a_missing_member_is_named(client: Client, member: str) -> None:
    body = a_submission()
    del body[member]
    assert member in refused(submit(client, body), 400, "INVALID_INPUT", None)


@pytest.mark.parametrize(
    "members",
    [
        {"intake_data": []},
        {"agent": {"id": "", "consent_scope": ["intake"]}},
        {"agent": {"id": "a", "consent_scope": []}},
        {"agent": {"id": "a", "consent_scope": ["intake", "intake"]}},
        {"agent": {"id": "a", "consent_scope": ["intake", "everything"]}},
        {"agent": {"id": "a", "consent_scope": ["intake"], "more": 1}},
        {"metadata": {"locale": "english"}},
        {"metadata": {"timestamp": "yesterday"}},
        {"metadata": {"timestamp": "2026-11-22T06:00:00+0100"}},
        {"more": 1},
        {"aip_version": "0.1"},
        {"aip_version": 0.1},
    ],
)
def test_9_a_request_beside_its_table_is_invalid(client: Client, members: dict[str, Any]) -> None:
    refused(submit(client, a_submission(**members)), 400, "INVALID_INPUT")


def test_9_metadata_is_open(client: Client) -> None:
    metadata = {"timestamp": "2026-11-22T06:00:00Z", "locale": "de-DE", "timezone": "Europe/Berlin", "more": [1]}
    answered(submit(client, a_submission(metadata=metadata)))


def test_10_json_goes_both_ways(client: Client) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1"):
        refused(submit(client, a_submission(), content_type=kind), 415, "INVALID_INPUT", None)
    refused(submit(client, a_submission(), content_encoding="gzip"), 415, "INVALID_INPUT", None)
    answered(submit(client, a_submission(), content_type="application/json; charset=utf-8"))


def test_11_bodies_of_64_kilobytes_are_taken_and_larger_ones_refused(client: Client) -> None:
    """Although `body_bytes` of this server is less."""
    body = b'{"aip_version":"0.1.0","agent":{"id":"a","consent_scope":["intake"]},"intake_data":{"need":"leak"},'
    body += b'"session_id":"' + SESSION.encode() + b'"'
    exact = body + b" " * (65_536 - len(body) - 1) + b"}"
    assert len(exact) == 65_536
    answered(submit(client, exact))
    refused(submit(client, exact + b" "), 413, "INVALID_INPUT", None)
    refused(bind(client, b" " * 65_537), 413, "INVALID_INPUT", None)


def test_12_a_search_that_hangs_is_given_up(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(*arguments: Any, **named: Any) -> None:
        await asyncio.Event().wait()

    assert service.SEARCH_TIMEOUT_SECONDS == 10
    monkeypatch.setattr(service, "SEARCH_TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr(client.app.state.retrieval, "ask", hang)
    response = submit(client, a_submission())
    refused(response, 503, "SERVICE_UNAVAILABLE")
    assert int(response.headers["retry-after"]) >= 1


def test_13_offers_and_declines_are_200(client: Client) -> None:
    assert answered(submit(client, a_submission()))["status"] == "offer"
    declined = answered(submit(client, a_submission({"query": "pipe"}), "choosy"))
    assert (declined["status"], declined["decline_reason"]) == ("declined", "Nothing here fits what was asked for.")


def test_13_what_is_not_there_and_what_is_not_allowed_are_said_in_the_envelope(client: Client) -> None:
    refused(submit(client, a_submission(), "absent"), 404, "INVALID_INPUT", None)
    refused(post(client, "/intakes/a/b", {}), 404, "INVALID_INPUT", None)
    for path, allowed in (("/intakes/search", "POST"), ("/intakes/bind", "POST"), (WELL_KNOWN, "GET")):
        wrong = client.request("DELETE", path)
        refused(wrong, 405, "INVALID_INPUT", None)
        assert allowed in wrong.headers["allow"]


def test_13_a_collection_that_is_gone_is_the_operators_business(client: Client) -> None:
    response = submit(client, a_submission({"query": "pipe"}), "nowhere")
    assert "absent" not in refused(response, 503, "SERVICE_UNAVAILABLE")
    assert "retry-after" in response.headers


def test_13_a_collection_that_lists_other_protocols_is_not_offered_from(store: Path) -> None:
    listed = CONFIGURATION.replace("return_text = false", 'protocols = ["aidre", "nlweb", "intent"]')
    with serving(store, listed) as other:
        refused(submit(other, a_submission({"query": "quiet"}), "search"), 503, "SERVICE_UNAVAILABLE")
        assert other.search({"query": "quiet", "collection": "textless"}).status_code == 200


def test_13_a_defect_is_an_internal_error(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client.app.state.retrieval, "ask", None)
    refused(submit(client, a_submission()), 500, "INTERNAL_ERROR")


def test_14_and_15_the_session_is_echoed_and_the_version_said(client: Client) -> None:
    for session in (str(uuid.uuid4()), str(uuid.uuid4()).upper()):
        answer = answered(submit(client, a_submission(session_id=session)))
        assert (answer["session_id"], answer["aip_version"]) == (session, "0.1.0")


def test_16_the_form_that_every_answer_is_checked_for_can_fail() -> None:
    good = {"aip_version": "0.1.0", "session_id": SESSION, "status": "declined", "decline_reason": "no"}
    check(ANSWER, good)
    for wrong in ({"offer": {"id": "x", "summary": "y"}}, {"status": "offer"}, {"status": "error"}, {"more": 1}):
        with pytest.raises(ValidationError):
            check(ANSWER, {**good, **wrong})


def test_17_what_can_be_bound_says_how_and_until_when(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", Clock(NOON))
    assert declared(client)["binding_available"] is True
    offer = offered(client)
    assert offer["bind_endpoint"] == f"{BASE}/intakes/bind"
    assert offer["bind_requires"] == ["email", "full_name"]
    assert datetime.fromisoformat(offer["expires"]).timestamp() == NOON + 3_600


def test_17_what_cannot_be_bound_says_nothing_of_it(client: Client) -> None:
    assert declared(client, "search")["binding_available"] is False
    offer = answered(submit(client, a_submission({"query": "quiet"}), "search"))["offer"]
    assert set(offer) == {"id", "summary", "details"}


def test_17_an_offer_is_made_of_the_hits_and_of_the_templates(client: Client) -> None:
    offer = offered(client, data={"need": "leaking pipe", "place": {"city": "Berlin"}})
    items = offer["details"]["items"]
    assert len(items) == 3
    assert all(set(item) == {"id", "title", "url", "text", "score"} for item in items)
    assert items == sorted(items, key=lambda item: -item["score"])
    assert all(item["title"].startswith("Plumber") for item in items)
    titles = "; ".join(item["title"] for item in items)
    assert offer["summary"] == f"3 for leaking pipe in Berlin: {titles}"
    assert offer["details"]["best"] == items[0]["title"]
    assert offer["details"]["contact"] == {"url": items[0]["url"]}
    assert offer["terms_url"] == "https://example.com/terms"


def test_17_text_leaves_only_where_the_collection_returns_it(client: Client) -> None:
    [item] = answered(submit(client, a_submission({"query": "quiet"}), "search"))["offer"]["details"]["items"]
    assert set(item) == {"id", "title", "score"}


def test_17_an_intake_works_over_a_private_collection_for_its_filter_alone(client: Client) -> None:
    answer = answered(submit(client, a_submission({"query": "hidden text"}), "inside"))
    assert [item["id"] for item in answer["offer"]["details"]["items"]] == ["h0#chunk_1"]
    assert "closed" not in client.get("/collections").text
    assert client.search({"query": "hidden", "collection": "closed"}).status_code == 404
    assert client.get("/chunks/h0%23chunk_1").status_code == 404
    assert client.get("/collections/closed/changes").status_code == 404
    assert "closed" not in client.get("/sites").text
    asked = client.request("POST", "/ask", json={"query": {"text": "hidden text", "site": "closed"}})
    assert "h0" not in asked.text
    assert "a hidden text" not in asked.text


def test_17_data_that_say_nothing_are_declined(client: Client) -> None:
    declined = answered(submit(client, a_submission({"query": "  "}), "search"))
    assert declined["status"] == "declined"


def test_18_texts_are_utf_8(client: Client) -> None:
    answer = answered(submit(client, a_submission({"need": "Rohr 単一 😀 leaking"})))
    assert "Rohr 単一 😀 leaking" in answer["offer"]["summary"]


def test_28_a_limit_is_declared_and_kept(client: Client) -> None:
    assert declared(client, "rare")["rate_limit"] == {"requests_per_minute": 2, "requests_per_day": 100}
    clock = Clock(NOON + 5.5)
    count_by(clock, client)
    for _ in range(2):
        answered(submit(client, a_submission({"query": "pipe"}), "rare"))
    for _ in range(3):
        response = submit(client, a_submission({"query": "pipe"}), "rare")
        refused(response, 429, "RATE_LIMITED")
        assert response.headers["retry-after"] == "30"
    answered(submit(client, a_submission({"query": "pipe"}), "choosy"))
    clock.now += 29.5
    assert submit(client, a_submission({"query": "pipe"}), "rare").headers["retry-after"] == "1"
    clock.now += 0.6
    answered(submit(client, a_submission({"query": "pipe"}), "rare"))


def test_28_a_limit_outlives_the_server(store: Path) -> None:
    statuses = []
    for _ in range(2):
        with serving(store, DAILY) as client:
            statuses.append(submit(client, a_submission({"query": "pipe"}), "daily").status_code)
    assert statuses == [200, 429]


def test_28_counts_of_an_earlier_release_are_removed(store: Path) -> None:
    (store / ".log").mkdir(exist_ok=True)
    former = [store / ".log" / f"intake-rates.sqlite{suffix}" for suffix in ("", "-wal", "-shm")]
    for file in former:
        file.touch()
    with serving(store, DAILY) as client:
        client._runner.run(client.app.state.intake.open())
        assert not any(file.exists() for file in former)


def test_28_a_key_is_counted_once_however_it_is_spelled(client: Client) -> None:
    count_by(Clock(NOON), client)
    for spelled in (f"Bearer {SECRET}", f"bearer   {SECRET}"):
        answered(submit(client, a_submission({"query": "pipe"}), "counted", authorization=spelled))
    for spelled in (f"BEARER {SECRET}", f"Bearer    {SECRET} "):
        response = submit(client, a_submission({"query": "pipe"}), "counted", authorization=spelled)
        refused(response, 429, "RATE_LIMITED")


def test_28_agents_behind_a_trusted_proxy_are_counted_apart(store: Path) -> None:
    trusting = CONFIGURATION.replace("[server]", '[server]\ntrusted_proxies = ["127.0.0.0/8"]')
    with serving(store, trusting) as client:
        count_by(Clock(NOON), client)
        for agent in ("198.51.100.1", "198.51.100.1", "198.51.100.2"):
            answered(submit(client, a_submission({"query": "pipe"}), "rare", x_forwarded_for=agent))
        response = submit(client, a_submission({"query": "pipe"}), "rare", x_forwarded_for="198.51.100.1")
        refused(response, 429, "RATE_LIMITED")


def test_29_an_intake_that_requires_it_takes_a_bearer_key(client: Client) -> None:
    assert declared(client, "members")["requires_auth"] is True
    body = a_submission({"query": "pipe"})
    for authorization in ("", "Bearer", "Bearer wrong", f"Basic {SECRET}", f"Bearer {SECRET}x"):
        response = submit(client, body, "members", authorization=authorization)
        refused(response, 401, "UNAUTHORIZED")
        assert response.headers["www-authenticate"].startswith("Bearer ")
    answered(submit(client, body, "members", authorization=f"Bearer {SECRET}"))
    assert declared(client)["requires_auth"] is False


def test_30_categories_are_a_domain_and_a_type(client: Client) -> None:
    assert declared(client)["category"] == "service/matching"
    assert "category" not in declared(client, "search")


@pytest.mark.parametrize("version", ["0.2.0", "1.0.0", "0.10.0", "00.1.0"])
def test_31_another_minor_version_is_not_compatible(client: Client, version: str) -> None:
    assert "aip_version" in refused(submit(client, a_submission(**{"aip_version": version})), 400, "INVALID_INPUT")


def test_31_another_patch_is_compatible(client: Client) -> None:
    assert answered(submit(client, a_submission(**{"aip_version": "0.1.7"})))["aip_version"] == "0.1.0"
