"""Agentic Intent 0.1: access and citation events. Names begin with the check and end with what holds."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from aidre.api.http.sqlite import connect_read_only
from aidre.api.protocols.intent import signed_envelope
from aidre.api.protocols.intent.event_ledger import LEDGER_FILE, EventLedger
from aidre.engine.errors import StorageFailed
from tests.support.clients import Client
from tests.support.intent_platform import Platform
from tests.support.publishers import (
    OTHER_SECRET,
    chunk_ids,
    configured,
    failed,
    log_of,
    platform_of,
    publishing,
)

EVENTS = "/aip/events"


@pytest.fixture
def answer(platform: Platform) -> dict[str, Any]:
    return platform.retrieve()


def about(client: Client, answer: dict[str, Any]) -> list[dict[str, Any]]:
    return [event for event in log_of(client) if event["request_id"] == answer["request_id"]]


def test_47_an_ok_answer_has_one_access_event(client: Client, platform: Platform, answer: dict[str, Any]) -> None:
    [event] = about(client, answer)
    assert event["event_type"] == "access"
    assert event["access"] == {
        "chunks_returned": len(answer["content"]["chunks"]),
        "token_count": sum(chunk["token_count"] for chunk in answer["content"]["chunks"]),
        "retrieval_mode": "chunks",
    }
    assert event["publisher"] == {"id": "example", "domain": "127.0.0.1"}
    assert event["platform"] == {"id": platform.key_id}
    assert "citation" not in event
    assert "extensions" not in event


def test_47_what_was_not_ok_has_none(client: Client, platform: Platform) -> None:
    before = len(log_of(client))
    for asked in (platform.request(domain="sports"), {}, b"", platform.request(timestamp="x")):
        assert platform.post("/aip/retrieve", asked)[0] < 500
    assert len(log_of(client)) == before


def test_47_every_event_has_an_id_of_its_own(client: Client, platform: Platform) -> None:
    for _ in range(5):
        platform.retrieve(platform.request(id="the same"))
    events = log_of(client)
    assert len({event["event_id"] for event in events}) == len(events)
    assert sum(event["request_id"] == "the same" for event in events) == 5


def test_47_the_event_is_on_disk_before_the_answer_leaves(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    answered, synced = signed_envelope.respond, os.fdatasync

    def fdatasync(descriptor: int) -> None:
        order.extend(event["request_id"] for event in log_of(client) if event["request_id"] == "asked")
        synced(descriptor)
        order.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)

    def respond(*given: Any) -> Any:
        order.append("answer")
        return answered(*given)

    with publishing(store) as (client, platform):
        platform.retrieve()
        monkeypatch.setattr(os, "fdatasync", fdatasync)
        monkeypatch.setattr("aidre.api.protocols.intent.intent_routes.respond", respond)
        assert platform.retrieve(platform.request(id="asked"))["status"] == "ok"
    begun = order.index("asked")  # what followed the exchange before may still be synced
    assert order[begun : begun + 3] == ["asked", "intent.sqlite-wal", "answer"]


def test_48_a_citation_is_kept_once(client: Client, platform: Platform, answer: dict[str, Any]) -> None:
    event = platform.citation(answer)
    status, body = platform.report(event)
    assert (status, body["status"], body["event_id"]) == (202, "ok", event["event_id"])
    assert body["request_id"] == answer["request_id"]
    assert platform.report(event)[0] == 200
    assert about(client, answer)[1:] == [event]


def test_48_of_the_same_event_at_the_same_time_one_is_kept(
    client: Client, platform: Platform, answer: dict[str, Any]
) -> None:
    content = json.dumps(platform.citation(answer)).encode()

    async def report() -> list[int]:
        calls = [
            client._http.request("POST", EVENTS, content=content, headers=platform.headers("POST", EVENTS, content))
            for _ in range(40)
        ]
        return [response.status_code for response in await asyncio.gather(*calls)]

    assert sorted(client._runner.run(report())) == [200] * 39 + [202]
    assert len(about(client, answer)) == 2


def test_48_another_event_under_the_same_id_conflicts(
    client: Client, platform: Platform, answer: dict[str, Any]
) -> None:
    event = platform.citation(answer)
    assert platform.report(event)[0] == 202
    event["citation"] = {**event["citation"], "display_surface": "footnote"}
    failed(platform.post(EVENTS, event), 409, "conflict")
    assert len(about(client, answer)) == 2


def test_48_unsigned_events_are_refused(client: Client, platform: Platform, answer: dict[str, Any]) -> None:
    assert client.request("POST", EVENTS, json=platform.citation(answer)).status_code == 401


def test_48_an_access_event_is_the_publishers(platform: Platform, answer: dict[str, Any]) -> None:
    event = platform.citation(answer, event_type="access")
    failed(platform.post(EVENTS, event), 422, "invalid_request")
    event["access"] = {"chunks_returned": 1, "token_count": 1, "retrieval_mode": "chunks"}
    del event["citation"]
    failed(platform.post(EVENTS, event), 422, "invalid_request")


def test_48_an_unknown_request_is_404(client: Client, platform: Platform, answer: dict[str, Any]) -> None:
    failed(platform.post(EVENTS, platform.citation(answer, request_id="req_unknown")), 404, "unknown_request")
    other = platform_of(client, key_id="other", secret=OTHER_SECRET)
    body = failed(other.post(EVENTS, platform.citation(answer)), 404, "unknown_request")
    assert body["request_id"] == answer["request_id"]
    denied = platform.retrieve(platform.request(domain="sports"))
    event = platform.citation(answer, request_id=denied["request_id"])
    failed(platform.post(EVENTS, event), 404, "unknown_request")


def test_48_only_what_was_returned_can_be_cited(client: Client, platform: Platform, answer: dict[str, Any]) -> None:
    event = platform.citation(answer)
    chunks = event["citation"]["chunk_ids"]
    for wrong in (["stocks_0#chunk_99"], [*chunks, "secret#chunk_1"], [chunks[0].upper() + "x"]):
        event["citation"] = {**event["citation"], "chunk_ids": wrong}
        failed(platform.post(EVENTS, event), 422, "invalid_request")
    elsewhere = platform.citation(answer)
    elsewhere["citation"]["source_url"] = answer["citations"][1]["source_url"]
    failed(platform.post(EVENTS, elsewhere), 422, "invalid_request")
    both = platform.citation(answer)
    both["citation"]["chunk_ids"] = chunk_ids(answer)  # of several documents, under the address of one
    failed(platform.post(EVENTS, both), 422, "invalid_request")
    assert len(about(client, answer)) == 1


BREACHES: list[tuple[str, Any]] = [
    ("aip_version", "1.0"),
    ("event_id", 5),
    ("event_type", "click"),
    ("timestamp", "soon"),
    ("request_id", None),
    ("publisher", {"id": "example"}),
    ("publisher", {"id": "example", "domain": "elsewhere.example"}),
    ("publisher", {"id": "other", "domain": "127.0.0.1"}),
    ("platform", {}),
    ("platform", {"id": "platform", "user": "u"}),
    ("citation", {}),
    ("citation", None),
    ("citation", {"source_url": "no uri", "chunk_ids": ["a"], "display_surface": "answer"}),
    ("citation", {"source_url": "https://example.com/", "chunk_ids": [], "display_surface": "answer"}),
    ("citation", {"source_url": "https://example.com/", "chunk_ids": "a", "display_surface": "answer"}),
    ("citation", {"source_url": "https://example.com/", "chunk_ids": [5], "display_surface": "answer"}),
    ("citation", {"source_url": "https://example.com/", "chunk_ids": ["a"], "display_surface": 1}),
    ("access", {"chunks_returned": 1, "token_count": 1, "retrieval_mode": "chunks"}),
    ("access", {"chunks_returned": -1}),
    ("extensions", 5),
]


@pytest.mark.parametrize(("member", "value"), BREACHES)
def test_49_a_breach_of_the_schema_is_422(platform: Platform, answer: dict[str, Any], member: str, value: Any) -> None:
    body = failed(platform.post(EVENTS, platform.citation(answer, **{member: value})), 422, "invalid_request")
    assert member in body["error"]["message"]


@pytest.mark.parametrize("missing", ["source_url", "chunk_ids", "display_surface"])
def test_49_a_citation_says_what_was_cited_and_where(platform: Platform, answer: dict[str, Any], missing: str) -> None:
    event = platform.citation(answer)
    del event["citation"][missing]
    assert missing in failed(platform.post(EVENTS, event), 422, "invalid_request")["error"]["message"]
    del event["citation"]
    assert "citation" in failed(platform.post(EVENTS, event), 422, "invalid_request")["error"]["message"]


def test_50_no_route_changes_or_removes_an_event(client: Client) -> None:
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        response = client.request(method, EVENTS)
        assert (response.status_code, response.headers["allow"]) == (405, "OPTIONS, POST")


def test_50_later_events_leave_earlier_rows_alone(client: Client, platform: Platform, answer: dict[str, Any]) -> None:
    def rows() -> list[tuple[int, str]]:
        with closing(connect_read_only(client.store / ".log" / LEDGER_FILE)) as connection:
            return connection.execute("SELECT id, event FROM events").fetchall()

    before = rows()
    platform.report(platform.citation(answer))
    after = rows()
    assert after[:-1] == before


@pytest.mark.parametrize("member", ["user", "clicks", "impressions", "price", "dwell_time", "advertiser"])
def test_51_users_clicks_and_prices_are_not_taken(platform: Platform, answer: dict[str, Any], member: str) -> None:
    failed(platform.post(EVENTS, platform.citation(answer, **{member: 1})), 422, "invalid_request")
    event = platform.citation(answer)
    event["citation"][member] = 1
    failed(platform.post(EVENTS, event), 422, "invalid_request")


def test_51_extensions_queries_and_sessions_are_not_kept(client: Client, platform: Platform) -> None:
    canaries = {"session": "canary-session", "extensions": {"vendor.user": "canary-extension"}}
    answer = platform.retrieve(platform.request("alpha canary-query", **canaries))
    assert platform.report(platform.citation(answer, extensions={"vendor.user": "canary-extension"}))[0] == 202
    files = [path for path in (client.store / ".log").rglob("*") if path.is_file()]
    assert {"intent.sqlite", "intent.sqlite-wal"} <= {path.name for path in files}
    assert [path for path in files if b"canary" in path.read_bytes()] == []


def test_51_the_platform_that_is_kept_is_the_one_that_signed(
    client: Client, platform: Platform, answer: dict[str, Any]
) -> None:
    assert platform.report(platform.citation(answer, platform={"id": "somebody else"}))[0] == 202
    assert about(client, answer)[1]["platform"] == {"id": platform.key_id}


@pytest.mark.parametrize(
    "place", ["event_id", "request_id", "platform.id", "publisher.id", "citation.display_surface", "citation.chunk_ids"]
)
@pytest.mark.parametrize("text", ["", " \t", "x" * 8_193])
def test_48_free_words_of_an_event_are_neither_blank_nor_endless(
    client: Client, platform: Platform, answer: dict[str, Any], place: str, text: str
) -> None:
    event = platform.citation(answer)
    holder, _, name = place.rpartition(".")
    (event[holder] if holder else event)[name] = [text] if name == "chunk_ids" else text
    body = failed(platform.post(EVENTS, event), 422, "invalid_request")
    assert place.split(".", maxsplit=1)[0] in body["error"]["message"]
    assert len(about(client, answer)) == 1


def test_52_the_declaration_says_whether_citations_must_be_reported(store: Path) -> None:
    for required in (True, False):
        with publishing(store, configured(f"event_required = {str(required).lower()}")) as (_, platform):
            assert platform.declaration()["endpoints"]["event"]["required"] is required


def test_52_events_are_taken_while_access_is_paused(store: Path) -> None:
    with publishing(store) as (_, platform):
        answer = platform.retrieve()
        event = platform.citation(answer)
    with publishing(store, configured('state = "paused"')) as (_, platform):
        assert platform.report(event)[0] == 202


def test_48_an_event_that_could_not_be_kept_can_be_sent_again(
    client: Client, platform: Platform, answer: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise StorageFailed("cannot use intent.sqlite: database or disk is full")

    event = platform.citation(answer)
    monkeypatch.setattr(EventLedger, "add_event", full)
    failed(platform.post(EVENTS, event), 503, "service_unavailable")
    monkeypatch.undo()
    assert platform.report(event)[0] == 202
    assert len(about(client, answer)) == 2


def test_48_an_event_whose_answer_was_lost_is_not_kept_twice(
    client: Client, platform: Platform, answer: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was in the ledger when the disk failed: nobody knows what a power cut would leave of it."""

    def broken(*_: Any) -> None:
        raise StorageFailed("cannot use intent.sqlite: Input/output error")

    event = platform.citation(answer)
    monkeypatch.setattr(EventLedger, "sync", broken)
    failed(platform.post(EVENTS, event), 503, "service_unavailable")
    monkeypatch.undo()
    assert platform.report(event)[0] == 200
    assert len(about(client, answer)) == 2
