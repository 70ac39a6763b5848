"""Agentic Intent 0.1: declaration and authentication. Names begin with the check and end with what holds."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from aidre.api.config.settings import parse_settings
from aidre.api.protocols.intent import hmac_signing
from aidre.engine.errors import ConfigurationError
from tests.support.clients import Client
from tests.support.intent_platform import FIELDS, Platform, Sent, signature_of, timestamp
from tests.support.intent_schemas import CAPABILITIES, DECLARATION, RETRIEVE_RESPONSE, valid
from tests.support.publishers import (
    CONFIGURATION,
    DOMAINS,
    OTHER_SECRET,
    configured,
    denied,
    failed,
    log_of,
    platform_of,
    publishing,
)
from tests.support.servers import served

WELL_KNOWN = "/.well-known/aip.json"
RETRIEVE = "/aip/retrieve"


def test_01_the_declaration_is_json_of_its_schema_without_credentials(client: Client) -> None:
    response = client.get(WELL_KNOWN)
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    valid(DECLARATION, response.json())
    again = client.get(WELL_KNOWN, {"if-none-match": response.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    head = client.request("HEAD", WELL_KNOWN)
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", response.headers["etag"])


def test_01_the_declaration_is_of_the_version_that_is_asked_for(client: Client) -> None:
    for path in (WELL_KNOWN, "/aip/capabilities"):
        plain = client.get(path)
        assert "X-AIP-Version" in plain.headers["vary"]
        for asked, told in (("1.0", "1.0"), ("0.1", "0.1"), ("7", "0.1")):
            found = client.get(path, {"x-aip-version": asked}).json()
            assert found["aip_version"] == told
            if path == WELL_KNOWN:
                valid(DECLARATION, found)
                assert found["$schema"] == f"https://schemas.agenticintentprotocol.com/aip/{told}/schema.json"
        assert client.get(path, {"if-none-match": plain.headers["etag"], "x-aip-version": "1.0"}).status_code == 200


def test_01_what_was_not_said_is_still_a_valid_declaration(store: Path) -> None:
    bare = '[intent]\nenabled = true\n[intent.editorial_domains.a]\ncollection = "news"'
    with publishing(store, bare) as (client, _):
        found = client.get(WELL_KNOWN).json()
        valid(DECLARATION, found)
        assert found["publisher"] == {"id": "127-0-0-1", "name": "127.0.0.1", "domain": "127.0.0.1"}


def test_02_the_domain_of_the_publisher_is_the_host_of_the_origin(store: Path) -> None:
    text = CONFIGURATION.replace(
        "[server]", '[server]\nbase_url = "https://ai.example.com/x"\norigin = "https://example.com"'
    )
    with publishing(store, text.replace(', domain = "127.0.0.1"', "")) as (client, _):
        assert client.get(WELL_KNOWN).json()["publisher"]["domain"] == "example.com"


def test_03_the_declared_addresses_answer(client: Client, platform: Platform) -> None:
    endpoints = platform.declaration()["endpoints"]
    base = "http://127.0.0.1:8000"
    assert endpoints["retrieve"]["url"] == base + RETRIEVE
    assert client.request("POST", endpoints["retrieve"]["url"].removeprefix(base)).status_code == 401
    assert client.request("POST", endpoints["event"]["url"].removeprefix(base)).status_code == 401
    assert client.get(endpoints["capabilities"]["url"].removeprefix(base)).status_code == 200


def test_04_capabilities_are_the_same_for_all_and_list_nothing(client: Client, platform: Platform) -> None:
    path = "/aip/capabilities"
    anonymous = client.get(path)
    signed = client.get(path, platform.headers("GET", path, b""))
    assert anonymous.content == signed.content
    valid(CAPABILITIES, anonymous.json())
    declared = platform.declaration()
    assert anonymous.json()["retrieval"] == declared[declared["endpoints"]["retrieve"]["capabilities_ref"]]
    assert all(word not in anonymous.text for word in ("news", "vault", "stocks"))


@pytest.mark.parametrize(
    ("lines", "state", "enabled"),
    [(['state = "paused"'], "paused", True), (['state = "disabled"'], "disabled", True), ([], "active", True)],
)
def test_05_the_declaration_shows_the_state(store: Path, lines: list[str], state: str, enabled: bool) -> None:
    with publishing(store, configured(*lines)) as (_, platform):
        access = platform.declaration()["intent_access"]
        assert (access["state"], access["enabled"]) == (state, enabled)


def test_05_what_is_switched_off_is_still_declared(store: Path) -> None:
    with publishing(store, CONFIGURATION.replace("enabled = true", "enabled = false")) as (_, platform):
        assert platform.declaration()["intent_access"]["enabled"] is False
        denied(platform.retrieve(), "access_disabled")


def test_05_without_a_table_there_is_nothing(store: Path) -> None:
    with publishing(store, "") as (client, _):
        for path in (WELL_KNOWN, "/aip/capabilities", RETRIEVE, "/aip/events"):
            response = client.get(path)
            assert (response.status_code, response.json()["error"]) == (404, "not_found")
        assert "intent" not in client.get("/.well-known/ai-discovery").json()["endpoints"]
        assert "/aip/retrieve" not in client.get("/openapi.json").json()["paths"]


@pytest.mark.parametrize(("sunset", "over"), [("2020-01-01", True), ("2999-01-01", False), ('"2020-01-01"', True)])
def test_06_after_the_sunset_everything_is_denied(store: Path, sunset: str, over: bool) -> None:
    text = CONFIGURATION.replace(DOMAINS, f"[intent.compliance]\nsunset = {sunset}\n{DOMAINS}")
    with publishing(store, text) as (_, platform):
        assert platform.declaration()["compliance"]["sunset"] == sunset.strip('"')
        answer = platform.retrieve()
        if over:
            denied(answer, "access_disabled")
        else:
            assert answer["status"] == "ok"


def unauthorized(
    client: Client, headers: dict[str, str], body: bytes, method: str = "POST", path: str = RETRIEVE
) -> Any:
    """The body of a refusal, which is the same whatever was wrong."""
    response = client.request(method, path, content=body, headers=headers)
    assert response.status_code == 401, response.text
    assert "x-aip-signature" not in response.headers
    assert response.headers["www-authenticate"]
    found = response.json()
    valid(RETRIEVE_RESPONSE, found)
    assert found["error"]["code"] == "auth_failed"
    return found


@pytest.fixture
def message(platform: Platform) -> tuple[dict[str, str], bytes]:
    """The headers and the body of a request that would be answered."""
    body = json.dumps(platform.request(id="req_1")).encode()
    return platform.headers("POST", RETRIEVE, body), body


@pytest.mark.parametrize("field", FIELDS)
def test_07_a_missing_field_is_refused(client: Client, message: tuple[dict[str, str], bytes], field: str) -> None:
    headers, body = message
    del headers[field]
    found = unauthorized(client, headers, body)
    assert set(found) == {"aip_version", "request_id", "timestamp", "status", "error"}


@pytest.mark.parametrize("field", FIELDS)
def test_07_a_field_that_stands_there_twice_is_refused(
    client: Client, message: tuple[dict[str, str], bytes], field: str
) -> None:
    headers, body = message
    response = client.request("POST", RETRIEVE, content=body, headers=[*headers.items(), (field, headers[field])])
    assert response.status_code == 401


def test_08_an_unknown_key_is_refused_like_a_wrong_signature(client: Client, message: Any) -> None:
    headers, body = message
    unknown = unauthorized(client, {**headers, "X-AIP-Key-Id": "nobody"}, body)
    wrong = unauthorized(client, {**headers, "X-AIP-Signature": "v1=" + "A" * 43 + "="}, body)
    for found in (unknown, wrong):
        del found["timestamp"]
    assert unknown == wrong


@pytest.mark.parametrize("change", ["body", "path", "method", "timestamp", "nonce", "key", "signature", "query"])
def test_09_whatever_is_changed_is_refused(client: Client, message: Any, change: str) -> None:
    headers, body = message
    method, path = "POST", RETRIEVE
    if change == "body":
        body = body.replace(b"alpha", b"alphb")
    elif change == "path":
        path = "/aip/events"
    elif change == "query":
        path += "?a=1"
    elif change == "method":
        own = Platform(lambda *_: (0, {}, b""))
        headers = own.headers("PUT", RETRIEVE, body)
    elif change == "timestamp":
        headers["X-AIP-Timestamp"] = timestamp(time.time() + 2)
    elif change == "nonce":
        headers["X-AIP-Nonce"] = headers["X-AIP-Nonce"][::-1] + "x"
    elif change == "key":
        headers["X-AIP-Key-Id"] = "other"
    else:
        middle = headers["X-AIP-Signature"]
        headers["X-AIP-Signature"] = middle[:20] + ("A" if middle[20] != "A" else "B") + middle[21:]
    unauthorized(client, headers, body, method, path)


@pytest.mark.parametrize("given", ["", "v1=", "v1", "v2=abc", "v1=é", "v1=" + "A" * 10_000, "\x7f"])
def test_09_a_signature_of_another_form_is_refused(client: Client, message: Any, given: str) -> None:
    headers, body = message
    raw = [(name.encode(), value.encode()) for name, value in headers.items() if name != "X-AIP-Signature"]
    response = client.request("POST", RETRIEVE, content=body, headers=[*raw, (b"X-AIP-Signature", given.encode())])
    assert response.status_code == 401


def test_10_signatures_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(left: bytes, right: bytes) -> bool:
        compared.append((left, right))
        return False

    monkeypatch.setattr("aidre.api.protocols.intent.hmac_signing.hmac.compare_digest", compare)
    assert not hmac_signing.verify_signature("secret", b"text", "v1=given")
    assert compared[0][1] == b"v1=given"


@pytest.mark.parametrize(
    ("seconds", "status"), [(-301, 401), (-300, 200), (-299, 200), (0, 200), (299, 200), (300, 200), (301, 401)]
)
def test_11_a_timestamp_is_good_for_300_seconds_either_way(
    client: Client, platform: Platform, monkeypatch: pytest.MonkeyPatch, seconds: int, status: int
) -> None:
    now = float(int(time.time()))
    monkeypatch.setattr(client.app.state.intent, "clock", lambda: now)
    assert platform.post(RETRIEVE, platform.request(), at=timestamp(now + seconds))[0] == status


@pytest.mark.parametrize(
    "at", ["", "now", "2026-04-01", "1790000000", "2026-04-01T10:00:00", "2026-13-01T10:00:00Z", "٢٠٢٦"]
)
def test_11_a_timestamp_that_is_none_is_refused(client: Client, platform: Platform, at: str) -> None:
    body = json.dumps(platform.request()).encode()
    headers = [
        (name.encode(), value.encode()) for name, value in platform.headers("POST", RETRIEVE, body, at=at).items()
    ]
    assert client.request("POST", RETRIEVE, content=body, headers=headers).status_code == 401


def test_12_a_nonce_is_good_once_for_a_key(client: Client, platform: Platform) -> None:
    body = platform.request()
    other = platform_of(client, key_id="other", secret=OTHER_SECRET)
    nonce = "n" * 22
    assert platform.post(RETRIEVE, body, nonce=nonce)[0] == 200
    failed(platform.post(RETRIEVE, body, nonce=nonce), 401, "auth_failed")
    failed(platform.post("/aip/events", body, nonce=nonce), 401, "auth_failed")
    assert other.post(RETRIEVE, body, nonce=nonce)[0] == 200


def test_12_a_nonce_that_was_not_signed_is_not_used_up(client: Client, platform: Platform) -> None:
    body, nonce = platform.request(), "attacked-nonce-0123456789"
    thief = platform_of(client, secret="guessed")
    assert thief.post(RETRIEVE, body, nonce=nonce)[0] == 401
    assert platform.post(RETRIEVE, body, nonce=nonce)[0] == 200


def test_12_of_replays_at_the_same_time_one_is_answered(store: Path) -> None:
    with publishing(store) as (client, platform):
        body = json.dumps(platform.request()).encode()
        headers, before = platform.headers("POST", RETRIEVE, body), len(log_of(client))

        async def replay() -> list[int]:
            calls = [client._http.request("POST", RETRIEVE, content=body, headers=headers) for _ in range(50)]
            return [response.status_code for response in await asyncio.gather(*calls)]

        statuses = client._runner.run(replay())
        assert sorted(statuses) == [200] + [401] * 49
        assert len(log_of(client)) == before + 1


def test_12_a_nonce_stays_used_after_a_restart_and_in_another_worker(store: Path) -> None:
    nonce = "restarted-nonce-0123456789"
    with publishing(store) as (_, platform):
        body = platform.request()
        assert platform.post(RETRIEVE, body, nonce=nonce)[0] == 200
        with publishing(store) as (_, beside):
            assert beside.post(RETRIEVE, body, nonce=nonce)[0] == 401
    with publishing(store) as (_, later):
        assert later.post(RETRIEVE, body, nonce=nonce)[0] == 401


@pytest.mark.parametrize("version", ["0.2", "2.0", "", "1", "0.1 ", "0.1,1.0"])
def test_13_an_unsupported_version_is_refused(client: Client, version: str) -> None:
    platform = platform_of(client, version=version)
    body = json.dumps(platform.request()).encode()
    found = unauthorized(client, platform.headers("POST", RETRIEVE, body), body)
    assert found["aip_version"] in {"0.1", "1.0"}


@pytest.mark.parametrize("nonce", ["b3f7c1e2a9", "x" * 21, "", "x" * 300, "with a space in the middle"])
def test_14_a_nonce_that_cannot_hold_16_bytes_is_refused(client: Client, platform: Platform, nonce: str) -> None:
    body = json.dumps(platform.request()).encode()
    unauthorized(client, platform.headers("POST", RETRIEVE, body, nonce=nonce), body)


def test_15_no_other_credentials_are_accepted(client: Client, platform: Platform) -> None:
    body = json.dumps(platform.request()).encode()
    for credentials in ({"authorization": "Bearer x"}, {"cookie": "session=1"}, {"authorization": "AIP-HMAC x"}):
        unauthorized(client, {"content-type": "application/json", **credentials}, body)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"request_id": 5}', b"\xff", b'{"request_id": "' + b"x" * 5_000 + b'"}']
)
def test_16_a_refusal_has_an_id_and_a_time_whatever_the_body(client: Client, body: bytes) -> None:
    found = unauthorized(client, {"content-type": "application/json"}, body)
    assert found["request_id"].startswith("req_")


def test_16_a_refusal_echoes_the_id_of_a_body_that_has_one(client: Client, message: Any) -> None:
    for headers in ({}, {"authorization": "Bearer not-known-here"}):  # the latter is turned away before it is routed
        assert unauthorized(client, headers, message[1])["request_id"] == "req_1"


def test_17_every_later_answer_is_signed(client: Client, platform: Platform) -> None:
    for asked in (
        platform.request(),
        platform.request(domain="sports"),
        {"aip_version": "0.1"},
        platform.request("zzz", domain="archive.none"),
    ):
        status, _ = platform.verified(RETRIEVE, platform.post(RETRIEVE, asked))
        assert status in {200, 422}
    first, second = (platform.post(RETRIEVE, platform.request())[1]["x-aip-nonce"] for _ in range(2))
    assert first != second


def test_17_the_test_vectors() -> None:
    secret, at, nonce = "test-secret-0123456789abcdef", "2025-11-14T18:22:00Z", "AAECAwQFBgcICQoLDA0ODw"
    body = b'{"aip_version":"0.1","request_id":"req_92fA1"}'
    asked = hmac_signing.canonical_string("POST", RETRIEVE, body, at, nonce)
    assert hmac_signing.compute_signature(secret, asked) == "v1=kP5HE6/phPrrBHVTc5jgrSH+3Md0DZ5bZhiLBe+dycE="
    answered = hmac_signing.canonical_string("200", RETRIEVE, b"{}", "2025-11-14T18:22:01Z", "EBESExQVFhcYGRobHB0eHw")
    assert hmac_signing.compute_signature(secret, answered) == "v1=teJI56LBe+RDfa86YQea2YbyE7vgdkow5075bdmQ8Aw="
    assert signature_of(secret, "POST", RETRIEVE, body, at, nonce) == hmac_signing.compute_signature(secret, asked)
    assert b"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" in hmac_signing.canonical_string(
        "GET", "/", b"", at, nonce
    )


def test_18_two_partners_with_one_secret_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"intent\.keys\.b has the secret of 'a': give every partner its own"):
        parse_settings('[intent.keys]\na = "the same secret"\nb = "the same secret"')


def test_19_the_query_string_is_signed_and_then_refused(client: Client, platform: Platform) -> None:
    path = RETRIEVE + "?a=%20b"
    sent = platform.post(path, platform.request())
    failed(sent, 400, "invalid_request")
    platform.verified(path, sent)


def test_19_an_empty_query_string_is_signed_as_it_was_sent(store: Path) -> None:
    with served(store, CONFIGURATION) as (_, caller):

        def send(method: str, path: str, body: bytes, headers: dict[str, str]) -> Sent:
            response = caller.request(method, path, content=body, headers=headers)
            return response.status_code, dict(response.headers), response.content

        platform = Platform(send)
        for path in (RETRIEVE + "?", RETRIEVE):
            assert platform.verified(path, platform.post(path, platform.request()))[0] == 200


def test_19_a_path_that_a_proxy_strips_is_signed(store: Path) -> None:
    text = CONFIGURATION.replace("[server]", '[server]\nbase_url = "http://127.0.0.1:8000/ai"')
    with publishing(store, text) as (client, platform):
        assert platform.declaration()["endpoints"]["retrieve"]["url"] == "http://127.0.0.1:8000/ai/aip/retrieve"
        assert platform.post(RETRIEVE, platform.request())[0] == 401
        assert platform_of(client, prefix="/ai").retrieve()["status"] == "ok"
