"""Agentic Intent 0.1: requests and consent. Names begin with the check and end with what holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import ValidationError

from tests.support.clients import Client
from tests.support.clocks import Clock
from tests.support.intent_platform import Platform
from tests.support.intent_schemas import RETRIEVE_REQUEST, RETRIEVE_RESPONSE, valid
from tests.support.publishers import (
    CONFIGURATION,
    chunk_ids,
    configured,
    denied,
    failed,
    log_of,
    publishing,
)
from tests.support.rates import count_by

RETRIEVE = "/aip/retrieve"


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'"x"', b"null", b"\xff", b"[" * 5_000, b'{"a":' * 3_000, b"\xef\xbb\xbf{}"]
)
def test_20_what_is_no_json_object_is_400(platform: Platform, body: bytes) -> None:
    failed(platform.post(RETRIEVE, body), 400, "invalid_request")


@pytest.mark.parametrize("kind", ["", "text/plain", "application/aidre+json", "application/json; charset=latin-1"])
def test_20_another_content_type_is_415(client: Client, platform: Platform, kind: str) -> None:
    body = json.dumps(platform.request()).encode()
    headers = {**platform.headers("POST", RETRIEVE, body), "content-type": kind}
    response = client.request("POST", RETRIEVE, content=body, headers=headers)
    assert (response.status_code, response.headers["accept"]) == (415, "application/json")
    assert response.json()["error"]["code"] == "unsupported_media_type"


def test_20_a_body_beyond_the_limit_is_413(platform: Platform) -> None:
    failed(platform.post(RETRIEVE, b" " * 1_048_577), 413, "payload_too_large")


BREACHES: list[tuple[str, Any]] = [
    ("aip_version", "1.0"),
    ("aip_version", None),
    ("request_id", 5),
    ("request_id", "x" * 1_025),
    ("timestamp", "yesterday"),
    ("timestamp", "2026-02-30T10:00:00Z"),
    ("platform", {}),
    ("platform", {"id": "a", "user": "b"}),
    ("platform", "a"),
    ("intent", {}),
    ("intent", {"domain": "Finance"}),
    ("intent", {"domain": "real-estate"}),
    ("intent", {"domain": "finance."}),
    ("intent", {"domain": "finance\n"}),
    ("intent", {"domain": "finance.markets", "subdomain": ""}),
    ("intent", {"domain": "finance.markets", "confidence": 1.1}),
    ("intent", {"domain": "finance.markets", "confidence": True}),
    ("intent", {"domain": "finance.markets", "bid": 2}),
    ("context", {}),
    ("context", {"language": "english!"}),
    ("context", {"language": ""}),
    ("context", {"language": "en-US", "geography": {"country": "us"}}),
    ("context", {"language": "en-US", "geography": {"city": "Ankara"}}),
    ("context", {"language": "en-US", "placement": 5}),
    ("runtime", {"session_id": "s"}),
    ("runtime", {"turn_index": 0}),
    ("runtime", {"session_id": "s", "turn_index": -1}),
    ("runtime", {"session_id": "s", "turn_index": 0.5}),
    ("runtime", {"session_id": "s", "turn_index": "0"}),
    ("runtime", {"session_id": "s", "turn_index": True}),
    ("runtime", {"session_id": "s", "turn_index": 0, "query_text": None}),
    ("runtime", {"session_id": "s", "turn_index": 0, "query_text": ["x"]}),
    ("runtime", {"session_id": "s", "turn_index": 0, "query_text": "x" * 8_193}),
    ("runtime", {"session_id": "s", "turn_index": 0, "latency_budget_ms": -5}),
    ("extensions", []),
]
BEYOND_THE_SCHEMA = [
    "1.0",
    "x" * 1_025,
    {"domain": "finance\n"},
    {"language": "english!"},
    {"language": ""},
    {"session_id": "s", "turn_index": 0, "query_text": "x" * 8_193},
]
"""A version unlike the header's, lengths, a line break that `$` of JSON Schema admits in Python, forms of BCP 47."""


@pytest.mark.parametrize(("member", "value"), BREACHES)
def test_20_a_breach_of_the_schema_is_422(platform: Platform, member: str, value: Any) -> None:
    asked = {**platform.request(id="req_breach"), member: value}
    body = failed(platform.post(RETRIEVE, asked), 422, "invalid_request")
    assert member in body["error"]["message"]
    assert body["request_id"] == "req_breach" or member == "request_id"


@pytest.mark.parametrize(
    "member", ["aip_version", "request_id", "timestamp", "platform", "intent", "context", "runtime"]
)
def test_20_a_missing_member_is_422(platform: Platform, member: str) -> None:
    asked = platform.request()
    del asked[member]
    assert member in failed(platform.post(RETRIEVE, asked), 422, "invalid_request")["error"]["message"]


@pytest.mark.parametrize("member", ["auction", "price", "brand", "embedding", "user", "bid_floor", "impressions"])
def test_21_prices_brands_vectors_and_users_are_refused(platform: Platform, member: str) -> None:
    failed(platform.post(RETRIEVE, {**platform.request(), member: {"id": 1}}), 422, "invalid_request")


@pytest.mark.parametrize(
    "language", ["en", "en-US", "zh-Hant-TW", "es-419", "de-CH-1996", "x-own", "i-klingon", "tr-u-co-phonebk"]
)
def test_20_any_language_tag_is_taken(platform: Platform, language: str) -> None:
    assert platform.retrieve(platform.request(context={"language": language}))["status"] == "ok"


def test_22_extensions_are_tolerated(platform: Platform) -> None:
    asked = platform.request(extensions={"vendor.x": {"deep": [1, {"y": None}]}})
    assert platform.retrieve(asked)["status"] == "ok"


def test_23_only_the_time_of_the_signature_counts(platform: Platform) -> None:
    for moment in ("2001-01-01T00:00:00Z", "2099-12-31T23:59:59.123456+14:00"):
        assert platform.retrieve(platform.request(timestamp=moment))["status"] == "ok"


def test_24_a_publisher_that_is_switched_off_denies(store: Path) -> None:
    with publishing(store, CONFIGURATION.replace("enabled = true", "enabled = false")) as (client, platform):
        before = len(log_of(client))
        denied(platform.retrieve(), "access_disabled")
        denied(platform.retrieve(platform.request(domain="sports")), "access_disabled")
        assert len(log_of(client)) == before


@pytest.mark.parametrize("line", ['state = "paused"', 'state = "disabled"'])
def test_25_a_paused_publisher_denies(store: Path, line: str) -> None:
    with publishing(store, configured(line)) as (client, platform):
        before = len(log_of(client))
        denied(platform.retrieve(), "access_disabled")
        assert len(log_of(client)) == before


@pytest.mark.parametrize(
    ("domain", "subdomain", "inside"),
    [
        ("finance.markets", None, True),
        ("finance.markets.fx", None, True),
        ("finance.markets", "fx.spot", True),
        ("finance", "markets", True),
        ("finance", "markets.fx", True),
        ("archive", "x", True),
        ("finance", None, False),
        ("finance", "crypto", False),
        ("finance.marketsx", None, False),
        ("finance.market", None, False),
        ("archive2", None, False),
        ("sports", "finance.markets", True),
        ("sports", "finance.markets.fx", True),
        ("sports", "finance.marketsx", False),
        ("sports", "finance", False),
    ],
)
def test_26_a_domain_admits_itself_and_what_is_below(
    platform: Platform, domain: str, subdomain: str | None, inside: bool
) -> None:
    more = {} if subdomain is None else {"subdomain": subdomain}
    answer = platform.retrieve(platform.request(domain=domain, **more))
    if inside:
        assert answer["status"] == "ok"
    else:
        denied(answer, "out_of_scope")


def test_27_only_what_the_matched_domain_covers_is_returned(platform: Platform) -> None:
    markets = chunk_ids(platform.retrieve(platform.request()))
    metals = chunk_ids(platform.retrieve(platform.request(subdomain="metals")))
    assert {one[:4] for one in markets} <= {"stoc", "şifr"}
    assert {one[:4] for one in metals} == {"gold"}


def test_26_a_subdomain_may_be_a_whole_path(platform: Platform) -> None:
    """As in the draft's own example, {"domain": "business", "subdomain": "finance.markets"}."""
    metals = platform.request(domain="business", subdomain="finance.markets.metals")
    assert {one[:4] for one in chunk_ids(platform.retrieve(metals))} == {"gold"}


def test_26_the_narrowest_domain_that_the_intent_may_mean_is_searched(platform: Platform) -> None:
    both = platform.request(domain="finance.markets.metals", subdomain="archive")
    assert {one[:4] for one in chunk_ids(platform.retrieve(both))} == {"gold"}


def test_27_a_private_collection_is_open_for_its_domain_alone(client: Client, platform: Platform) -> None:
    assert {one.split("#")[0] for one in chunk_ids(platform.retrieve(platform.request(domain="archive")))} == {"secret"}
    for words in ("secret", "alpha secret part"):
        assert not [one for one in chunk_ids(platform.retrieve(platform.request(words))) if one.startswith("secret")]
    assert client.get("/collections/vault").status_code == 404
    assert client.get("/chunks/secret%23chunk_1").status_code == 404


def test_27_a_collection_for_this_protocol_alone_shows_nothing_by_the_others(client: Client) -> None:
    assert [one["name"] for one in client.get("/collections").json()["collections"]] == ["open"]
    for path in ("/collections/news", "/collections/news/changes", "/chunks/gold_0%23chunk_1"):
        assert client.get(path).status_code == 404
    assert client.search({"query": "alpha", "collection": "news"}).status_code == 404
    asked = client.request("POST", "/ask", json={"query": {"text": "alpha gold"}}).json()
    assert [item["name"] for item in asked["results"]] == ["Free"]
    assert "gold" not in json.dumps(asked["results"]) and "stocks" not in json.dumps(asked["results"])


def test_28_without_chunks_the_request_is_unsupported(store: Path) -> None:
    with publishing(store, configured("chunks = false")) as (_, platform):
        assert platform.declaration()["retrieval"]["supports"]["chunks"] is False
        denied(platform.retrieve(), "unsupported")
    with publishing(store, CONFIGURATION.replace("[collections.news]", "[collections.news]\nreturn_text = false")) as (
        _,
        platform,
    ):
        denied(platform.retrieve(), "unsupported")


@pytest.mark.parametrize("text", [None, "", " \t\n"])
def test_29_without_a_query_the_words_of_the_domain_are_asked(platform: Platform, text: str | None) -> None:
    answer = platform.retrieve(platform.request(text, domain="finance.markets", subdomain="stocks.part-5"))
    assert set(chunk_ids(answer)) >= {"stocks_0#chunk_5", "stocks_1#chunk_5"}


def test_30_a_throttled_call_waits_and_is_answered(store: Path) -> None:
    clock = Clock()
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        clock.now += seconds

    with publishing(store, '[limits]\nrate = "2/second"\n' + CONFIGURATION) as (client, platform):
        count_by(clock, client)
        platform.sleep = wait
        asked = platform.request()
        sent = [platform.post(RETRIEVE, asked) for _ in range(8)]
        throttled = [one for one in sent if one[0] == 429]
        assert len(throttled) == 6
        _, headers, content = throttled[0]
        body = json.loads(content)
        valid(RETRIEVE_RESPONSE, body)
        denied(body, "rate_limited")
        assert {json.loads(one[2])["request_id"] for one in throttled} == {asked["request_id"]}
        assert int(headers["retry-after"]) >= 1
        assert headers["ratelimit"] == f'"default";r=0;t={headers["retry-after"]}'
        assert (headers["ratelimit-policy"], headers["ratelimit-remaining"]) == ('"default";q=2;w=1', "0")
        assert platform.retrieve()["status"] == "ok"
        assert waited == [float(headers["retry-after"])]
        # Before authentication: a stranger is told the same.
        strangers = [client.request("POST", RETRIEVE).status_code for _ in range(4)]
        assert strangers == [401, 429, 429, 429]


def test_31_a_denial_has_a_reason_and_no_content(platform: Platform) -> None:
    status, answer = platform.verified(RETRIEVE, platform.post(RETRIEVE, platform.request(domain="sports")))
    assert status == 200
    assert set(answer) == {"aip_version", "request_id", "timestamp", "status", "denial"}
    assert set(answer["denial"]) == {"reason", "message"}


def test_32_authentication_comes_before_state_and_state_before_domain(store: Path) -> None:
    with publishing(store, configured('state = "paused"', "chunks = false")) as (client, platform):
        asked = platform.request(domain="sports")
        assert client.request("POST", RETRIEVE, json=asked).status_code == 401
        denied(platform.retrieve(asked), "access_disabled")
    with publishing(store, configured("chunks = false")) as (_, platform):
        denied(platform.retrieve(asked), "out_of_scope")


def test_20_what_the_schema_lets_pass_is_refused_only_for_a_bound_or_a_form(platform: Platform) -> None:
    passed = []
    for member, value in BREACHES:
        try:
            valid(RETRIEVE_REQUEST, {**platform.request(), member: value})
        except ValidationError:
            continue
        passed.append(value)
    assert passed == BEYOND_THE_SCHEMA
