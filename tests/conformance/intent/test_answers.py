"""Agentic Intent 0.1: answers. Names begin with the check and end with what holds."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from jsonschema import ValidationError

from aidre.api.protocols.intent.event_ledger import EXPIRY_SECONDS, EventLedger
from aidre.engine.collection.store import Store
from aidre.engine.embedding import DEFAULT_SPACE
from aidre.engine.errors import StorageFailed
from aidre.engine.retrieve.evidence import CALIBRATED
from tests.support.clients import TEXT, Client
from tests.support.clocks import Clock
from tests.support.intent_platform import Platform
from tests.support.intent_schemas import RETRIEVE_RESPONSE, valid
from tests.support.publishers import (
    CONFIGURATION,
    an_article,
    chunk_ids,
    configured,
    failed,
    fill_chunks,
    log_of,
    platform_of,
    publishing,
)

RETRIEVE = "/aip/retrieve"


def test_33_the_request_id_comes_back_as_it_was(platform: Platform) -> None:
    for identifier in ("req_92fA1", "", " ", "ü😀\u0000\n", "x" * 1_024):
        answer = platform.retrieve(platform.request(id=identifier))
        assert answer["request_id"] == identifier
        assert answer["timestamp"].endswith("Z")


def test_33_both_versions_are_answered_in_kind(client: Client) -> None:
    for version in ("0.1", "1.0"):
        assert platform_of(client, version=version).retrieve()["aip_version"] == version


def test_34_an_ok_answer_has_content_and_nothing_else_beside(platform: Platform) -> None:
    answer = platform.retrieve()
    members = {"aip_version", "request_id", "timestamp", "status", "content", "citations", "limits_applied"}
    assert set(answer) == members
    assert answer["content"]["chunks"]


@pytest.mark.parametrize(
    "breach",
    [
        lambda answer: {**answer, "denial": {"reason": "out_of_scope"}},
        lambda answer: {name: value for name, value in answer.items() if name != "content"},
        lambda answer: {**answer, "content": {"chunks": []}},
        lambda answer: {**answer, "price": 1},
        lambda answer: {**answer, "status": "denied"},
    ],
)
def test_35_the_schema_would_find_a_mixed_answer(platform: Platform, breach: Any) -> None:
    answer = platform.retrieve()
    with pytest.raises(ValidationError):
        valid(RETRIEVE_RESPONSE, breach(answer))


def test_35_a_denial_and_an_error_stand_alone(platform: Platform) -> None:
    envelope = {"aip_version", "request_id", "timestamp", "status"}
    for asked, member in (
        (platform.request(domain="sports"), "denial"),
        ({**platform.request(), "runtime": 5}, "error"),
    ):
        _, answer = platform.verified(RETRIEVE, platform.post(RETRIEVE, asked))
        assert set(answer) == envelope | {member}


@pytest.mark.parametrize("most", [1, 2, 3, 10, 40])
def test_36_at_most_max_chunks(store: Path, most: int) -> None:
    with publishing(store, configured(f"max_chunks = {most}")) as (_, platform):
        answer = platform.retrieve()
        # Five articles of six chunks and one of four, half of each.
        assert len(chunk_ids(answer)) == min(most, 17)
        assert answer["limits_applied"] == {"max_chunks": most, "max_tokens": 4_000}


@pytest.mark.parametrize("most", [1, 2, 4, 5, 9, 10, 11, 30])
def test_36_at_most_max_tokens_and_what_does_not_fit_is_skipped(store: Path, most: int) -> None:
    with publishing(store, configured(f"max_tokens = {most}")) as (client, platform):
        answer = platform.retrieve(platform.request("stocks_0 word word word word word word"))
        if most == 1:
            assert answer["error"]["code"] == "no_results"
            return
        counts = [chunk["token_count"] for chunk in answer["content"]["chunks"]]
        assert 0 < sum(counts) <= most
        assert log_of(client)[-1]["access"]["token_count"] == sum(counts)


def counted_searches(client: Client) -> list[Any]:
    """Filled with the arguments of every search from now on."""
    searches: list[Any] = []
    search = client.app.state.retrieval.ask

    async def counted(*given: Any, **named: Any) -> Any:
        searches.append(given)
        return await search(*given, **named)

    client.app.state.retrieval.ask = counted
    return searches


def test_36_when_the_tokens_are_spent_nothing_more_is_looked_for(store: Path) -> None:
    with publishing(store, configured("max_tokens = 5", "max_chunks = 3")) as (client, platform):
        searches = counted_searches(client)
        assert platform.retrieve()["status"] == "ok"
        assert len(searches) == 1


def test_36_tokens_are_those_of_the_ingest_else_of_the_model(store: Path, tmp_path: Path) -> None:
    fill_chunks(tmp_path, "news", {"a": an_article("a", 4, "markets")}, token_count=123)
    with publishing(tmp_path) as (_, platform):
        assert {chunk["token_count"] for chunk in platform.retrieve()["content"]["chunks"]} == {123}
    with publishing(store) as (_, platform):
        chunks = [one for one in platform.retrieve()["content"]["chunks"] if one["text"].isascii()]
        assert [one["token_count"] for one in chunks] == [len(one["text"].split()) for one in chunks] != []


def test_36_what_does_not_fit_is_neither_returned_nor_charged(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model of the store is taken for the calibrated one."""
    monkeypatch.setitem(CALIBRATED, TEXT.model, CALIBRATED[DEFAULT_SPACE.model])
    with publishing(store) as (client, platform):
        assert platform.retrieve(platform.request("alpha stocks part word"))["status"] == "ok"
        events, searches = log_of(client), counted_searches(client)
        for foreign in ("capital Mongolia", "submarine reactor blueprint", "tennis racket strings tension"):
            answer = platform.retrieve(platform.request(foreign))
            assert answer["error"]["code"] == "no_results"
        assert log_of(client) == events, "no receipt, no access event"
        assert len(searches) == 3, "no page follows one without a fitting passage"


def test_37_never_a_whole_document_over_all_turns_of_a_session(platform: Platform) -> None:
    seen: Counter[str] = Counter()
    got: set[str] = set()
    for number in range(1, 9):
        answer = platform.retrieve(platform.request(f"part {number % 7} " + "word " * number, session="turns"))
        if answer["status"] == "error":
            assert answer["error"]["code"] == "no_results"
            break
        got |= set(chunk_ids(answer))
    seen.update(one.split("#")[0] for one in got)
    assert {f"stocks_{n}" for n in range(5)} <= set(seen)
    assert all(count <= (2 if name == "şifre" else 3) for name, count in seen.items())
    assert not any(one.startswith("brief") for one in got)


def test_37_what_a_session_has_had_it_may_have_again(platform: Platform) -> None:
    asked = platform.request(session="again", domain="archive")
    first = chunk_ids(platform.retrieve(asked))
    assert len(first) == 2
    assert set(chunk_ids(platform.retrieve({**asked, "request_id": "r2"}))) == set(first)


def received_in_six_sessions(platform: Platform, name: str = "session") -> set[str]:
    """The chunks that a platform gets of an article, when each session asks for another part of it."""
    received: set[str] = set()
    for number in range(6):
        words = f"part {2 * number + 1} " + "word " * (2 * number + 1)
        received |= set(chunk_ids(platform.retrieve(platform.request(words, session=f"{name} {number}"))))
    return received


@pytest.mark.slow
def test_37_six_sessions_get_six_of_twelve_chunks_also_on_another_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_chunks(tmp_path, "news", {"a": an_article("a", 12, "markets")})
    clock = Clock(time.time())
    received: set[str] = set()
    for days in (0, 1, 40):
        clock.now += days * 86_400
        with publishing(tmp_path) as (client, platform):
            monkeypatch.setattr(client.app.state.intent.receipts, "_clock", clock)
            for part in ("before", "after rows have expired"):
                received |= received_in_six_sessions(platform, f"{days} {part}")
                clock.now += EXPIRY_SECONDS + 1
        assert len(received) == 6


def test_37_keys_are_counted_apart(tmp_path: Path) -> None:
    fill_chunks(tmp_path, "news", {"a": an_article("a", 12, "markets")})
    with publishing(tmp_path) as (client, platform):
        other = platform_of(client, key_id="other", secret="another-secret-0123456789")
        received = [received_in_six_sessions(one) for one in (platform, other)]
        assert [len(chunks) for chunks in received] == [6, 6]
        first = chunk_ids(platform.retrieve(platform.request("part 12 " + "word " * 12)))
        assert set(first) <= received[0], "the other key's chunks are not this one's"


def test_37_39_an_answer_of_two_pages_counts_and_is_cited_as_a_whole(tmp_path: Path) -> None:
    """The first page has one chunk that may be served, among articles of a single chunk."""
    parts, members = an_article("a", 12, "markets")
    articles = {f"brief_{n}": (["zeta"], {**members, "url": f"https://example.com/{n}"}) for n in range(9)}
    fill_chunks(tmp_path, "news", {"a": (["zeta zeta alpha", *parts[1:]], members), **articles})
    with publishing(tmp_path, configured("max_chunks = 6")) as (client, platform):
        searches = counted_searches(client)
        answer = platform.retrieve(platform.request("zeta", session="pages"))
        assert len(searches) == 2
        first = chunk_ids(answer)
        assert (first[0], len(first)) == ("a#chunk_1", 6)
        again = platform.retrieve(platform.request("part 12 " + "word " * 12, session="pages"))
        assert set(chunk_ids(again)) <= set(first)
        for chunk_id in first:
            citation = platform.citation(answer)
            citation["citation"]["chunk_ids"] = [chunk_id]
            assert platform.report(citation)[0] == 202


def test_37_the_fraction_outlives_a_restart(store: Path) -> None:
    asked = {"session": "restart", "domain": "archive"}
    with publishing(store) as (_, platform):
        first = set(chunk_ids(platform.retrieve(platform.request("part 1", **asked))))
    with publishing(store) as (_, platform):
        for number in range(2, 6):
            first |= set(chunk_ids(platform.retrieve(platform.request(f"part {number}" + " word" * number, **asked))))
    assert len(first) == 2


@pytest.mark.parametrize(("fraction", "most"), [(0.1, 0), (0.2, 1), (0.5, 2), (0.6, 3), (0.99, 4), (1.0, 4)])
def test_37_the_fraction_is_a_share_and_never_all(store: Path, fraction: float, most: int) -> None:
    with publishing(store, configured(f"max_document_fraction = {fraction}")) as (_, platform):
        answer = platform.retrieve(platform.request(domain="archive"))
        assert len(answer.get("content", {}).get("chunks", [])) == most


def test_37_a_changed_document_is_new_to_a_key_but_not_to_a_session(tmp_path: Path) -> None:
    texts, members = an_article("a", 6, "markets")
    fill_chunks(tmp_path, "news", {"a": (texts, members)})
    with publishing(tmp_path) as (client, platform):
        first = chunk_ids(platform.retrieve(platform.request(session="s")))
        assert len(first) == 3
        fill_chunks(tmp_path, "news", {"a": ([f"rewritten {text}" for text in texts], members)})
        client.refresh()
        assert platform.retrieve(platform.request(session="s"))["error"]["code"] == "no_results"
        assert len(chunk_ids(platform.retrieve(platform.request(session="t")))) == 3
        fill_chunks(tmp_path, "news", {"a": (texts, {**members, "title": "The first content under another title"})})
        client.refresh()
        assert received_in_six_sessions(platform) == set(first)


def test_37_the_unchanged_chunks_of_a_changed_document_go_on_counting(tmp_path: Path) -> None:
    texts, members = an_article("a", 6, "markets")
    fill_chunks(tmp_path, "news", {"a": (texts, members)})
    with publishing(tmp_path) as (client, platform):
        first = chunk_ids(platform.retrieve(platform.request("part 1")))
        number = int(first[0].removeprefix("a#chunk_"))
        changed = [f"rewritten {text}" if text == texts[number - 1] else text for text in texts]
        fill_chunks(tmp_path, "news", {"a": (changed, members)})
        client.refresh()
        received = received_in_six_sessions(platform)
        assert set(first[1:]) <= received
        assert len(received) == 3


def test_37_where_articles_are_allowed_all_of_one_may_leave(store: Path) -> None:
    with publishing(store, configured("full_article = true")) as (_, platform):
        assert len(chunk_ids(platform.retrieve(platform.request(domain="archive")))) == 5
        assert chunk_ids(platform.retrieve(platform.request("brief all of it")))[0] == "brief#chunk_1"
        assert platform.declaration()["retrieval"]["supports"]["full_article"] is True


def test_38_40_an_answer_holds_no_price_and_the_limits_that_are_declared(platform: Platform) -> None:
    declared = platform.declaration()["retrieval"]
    answer = platform.retrieve()
    assert answer["limits_applied"] == {name: declared[name] for name in ("max_chunks", "max_tokens")}
    assert {name for chunk in answer["content"]["chunks"] for name in chunk} == {"id", "text", "token_count"}
    cited = {name for citation in answer["citations"] for name in citation}
    assert cited == {"source_url", "title", "publisher", "chunk_ids"}


def test_39_citations_cover_exactly_what_was_returned(client: Client, platform: Platform) -> None:
    answer = platform.retrieve()
    cited = [one for citation in answer["citations"] for one in citation["chunk_ids"]]
    assert Counter(cited) == Counter(chunk_ids(answer))
    snapshot = Store(client.store).open("news")
    for citation in answer["citations"]:
        chunks = [snapshot.get(one) for one in citation["chunk_ids"]]
        assert {chunk.url for chunk in chunks if chunk is not None} == {citation["source_url"]}
        assert citation["publisher"] == "The Example"
        assert citation["title"]


def test_39_without_citations_documents_need_no_address(store: Path) -> None:
    with publishing(store, configured("citations = false")) as (_, platform):
        answer = platform.retrieve(platform.request("nowhere part"))
        assert "citations" not in answer
        assert any(one.startswith("nowhere") for one in chunk_ids(answer))


def test_41_the_text_is_the_indexed_one(client: Client, platform: Platform) -> None:
    snapshot = Store(client.store).open("news")
    for words in ("alpha", "çığ 単一サインオン"):
        for chunk in platform.retrieve(platform.request(words))["content"]["chunks"]:
            stored = snapshot.get(chunk["id"])
            assert stored is not None
            assert chunk["text"] == stored.text


def test_42_nothing_may_store_an_answer(platform: Platform) -> None:
    for asked in (platform.request(), platform.request(domain="sports"), {}):
        assert platform.post(RETRIEVE, asked)[1]["cache-control"] == "no-store"


def test_43_nothing_found_is_an_error_of_200(tmp_path: Path) -> None:
    fill_chunks(tmp_path, "news", {"a": an_article("a", 4, "sports")})
    with publishing(tmp_path) as (client, platform):
        sent = platform.post(RETRIEVE, platform.request())
        failed(sent, 200, "no_results")
        assert "retry-after" not in sent[1]
        assert log_of(client) == []


def test_44_a_failure_inside_is_500_and_says_nothing_of_itself(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with publishing(store) as (client, platform):
        before = len(log_of(client))
        monkeypatch.setattr(client.app.state.retrieval, "ask", None)
        sent = platform.post(RETRIEVE, platform.request())
        body = failed(sent, 500, "internal_error")
        platform.verified(RETRIEVE, sent)
        assert "NoneType" not in json.dumps(body)
        assert len(log_of(client)) == before


def test_44_without_a_receipt_there_is_no_answer(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with publishing(store) as (client, platform):
        before = len(log_of(client))

        def full(*_: Any) -> None:
            raise StorageFailed("cannot use intent.sqlite: database or disk is full")

        monkeypatch.setattr(EventLedger, "add_event", full)
        asked = platform.request(session="full", domain="archive")
        sent = platform.post(RETRIEVE, asked)
        failed(sent, 503, "service_unavailable")
        assert int(sent[1]["retry-after"]) > 0
        monkeypatch.undo()
        assert len(log_of(client)) == before
        # What did not leave is not counted either.
        assert len(chunk_ids(platform.retrieve({**asked, "request_id": "later"}))) == 2


def test_44_a_collection_that_is_gone_is_unavailable(store: Path) -> None:
    with publishing(store, CONFIGURATION.replace('collection = "vault"', 'collection = "absent"')) as (_, platform):
        failed(platform.post(RETRIEVE, platform.request(domain="archive")), 503, "service_unavailable")
        assert platform.retrieve()["status"] == "ok"


def test_45_answers_and_denials_are_200(platform: Platform) -> None:
    for domain, expected in (("finance.markets", "ok"), ("sports", "denied")):
        status, answer = platform.verified(RETRIEVE, platform.post(RETRIEVE, platform.request(domain=domain)))
        assert (status, answer["status"]) == (200, expected)


def test_45_wrong_methods_and_addresses_speak_the_envelope(client: Client) -> None:
    for method, path, status in (
        ("GET", RETRIEVE, 405),
        ("POST", "/.well-known/aip.json", 405),
        ("GET", "/aip/none", 404),
    ):
        response = client.request(method, path)
        assert response.status_code == status
        valid(RETRIEVE_RESPONSE, response.json())
        assert response.json()["status"] == "error"
        assert ("allow" in response.headers) == (status == 405)


def test_46_a_latency_budget_binds_only_where_it_is_configured(store: Path, client: Client, platform: Platform) -> None:
    asked = platform.request()
    asked["runtime"]["latency_budget_ms"] = 0
    assert platform.retrieve(asked)["status"] == "ok"
    with publishing(store, configured("enforce_latency_budget = true")) as (strict, other):
        before = len(log_of(strict))
        assert other.retrieve(asked)["error"]["code"] == "latency_budget_exceeded"
        asked["runtime"]["latency_budget_ms"] = 10**15
        assert other.retrieve({**asked, "request_id": "second"})["status"] == "ok"
        assert len(log_of(strict)) == before + 1
