"""Requests that come while all places are taken, over real connections: told so at once, and each as if asked alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from aidre.api.protocols.provenance.keys import make_key
from aidre.api.server import overload
from tests.support.clients import AIDRE
from tests.support.servers import served

SEARCH = {"query": "alpha"}


@pytest.fixture(autouse=True)
def lasting(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was said is remembered for as long as a test takes."""
    monkeypatch.setattr(overload, "CACHE_SECONDS", 3600.0)


def test_only_the_first_of_a_kind_is_asked_of_the_application(store: Path) -> None:
    with served(store) as (one, client):
        with one.full():
            answers = [client.post("/search", json=SEARCH) for _ in range(5)]
        assert one.asked == 1
        assert client.post("/search", json=SEARCH).status_code == 200
        assert {answer.status_code for answer in answers} == {503}
        assert {answer.headers["retry-after"] for answer in answers} == {"1"}
        ids = {answer.json()["request_id"] for answer in answers}
        assert len(ids) == 5
        assert ids == {answer.headers["x-request-id"] for answer in answers}
        bodies = [{**answer.json(), "request_id": ""} for answer in answers]
        assert bodies == [bodies[0]] * 5
        found = client.get("/metrics").text
    [requests] = [one for one in text_string_to_metric_families(found) if one.name == "aidre_requests"]
    counted = {(one.labels["route"], one.labels["status"]): one.value for one in requests.samples}
    assert counted["/search", "503"] == 5


def test_the_log_says_how_many_were_turned_away(store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with served(store, '[server]\nlog = "requests"') as (one, client), one.full():
        for _ in range(5):
            assert client.post("/search", json=SEARCH).status_code == 503
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [line["status"] for line in lines if "status" in line] == [503]
    told = [line for line in lines if "turned_away" in line]
    assert sum(line["turned_away"] for line in told) == 4
    assert all(line["level"] == "warning" and line["time"].endswith("Z") for line in told)


def test_each_protocol_and_each_representation_has_its_own_words(store: Path) -> None:
    with served(store) as (one, client), one.full():
        for _ in range(2):
            plain = client.post("/search", json=SEARCH, headers={"accept": "application/json"})
            preferred = client.post("/search", json=SEARCH, headers={"accept": AIDRE})
            asked = client.post("/ask", json={"query": "alpha"})
            assert plain.headers["content-type"] == "application/json"
            assert preferred.headers["content-type"] == AIDRE
            assert asked.json()["_meta"]["response_type"] == "failure"
            assert client.head("/collections").content == b""
            assert client.get("/collections").json()["error"] == "service_unavailable"
        assert one.asked == 5


def test_what_must_answer_always_does(store: Path) -> None:
    with served(store) as (one, client), one.full():
        for path in ("/healthz", "/metrics", "/.well-known/ai-discovery", "/healthz"):
            assert client.get(path).status_code == 200


def test_what_is_refused_beside_what_must_answer_does_not_stand_in_its_way(store: Path) -> None:
    asks = {"origin": "https://example.com", "access-control-request-method": "POST"}
    with served(store) as (one, client), one.full():
        for path in ("/healthz", "/readyz", "/metrics"):
            assert client.get(f"{path}/x").status_code == 503
            assert client.get(path).status_code == 200
        assert client.get("/.well-known").status_code == 503
        assert client.get("/.well-known/ai-discovery").status_code == 200
        assert client.options("/search", headers={"origin": "https://example.com"}).status_code == 503
        assert client.options("/search", headers=asks).status_code == 204


def test_a_body_that_nobody_wanted_is_no_request(store: Path) -> None:
    with served(store) as (one, client):
        with one.full():
            for _ in range(3):
                large = client.post("/search", content=b"GET / HTTP/1.1\r\n\r\n" * 20_000)
                assert large.status_code == 503
        assert client.post("/search", json=SEARCH).status_code == 200
        assert one.asked == 2


def test_what_was_signed_is_said_once(store: Path, tmp_path: Path) -> None:
    make_key(tmp_path / "keys.pem", 0.0)
    with served(store, f'[provenance]\nkey = "{tmp_path}/keys.pem"') as (one, client), one.full():
        signatures = {client.post("/search", json=SEARCH).headers["signature"] for _ in range(3)}
        assert len(signatures) == one.asked == 3


def test_what_was_said_is_forgotten(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overload, "CACHE_SECONDS", 0.0)
    with served(store) as (one, client), one.full():
        for _ in range(3):
            assert client.post("/search", json=SEARCH).status_code == 503
        assert one.asked == 3


def test_a_refusal_for_another_reason_is_nobody_elses(store: Path) -> None:
    with served(store, "[collections.docs]\nvisibility = 'private'") as (one, client):
        for _ in range(3):
            assert client.post("/search", json={"query": "alpha", "collection": "docs"}).status_code == 404
        with one.full():
            assert client.post("/search", json=SEARCH).status_code == 503
        assert one.asked >= 1, "the 404 is not repeated"
