"""NLWeb through the client: three dialects that read alike, streams without gaps, promises."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import aidre_client
from aidre_client.nlweb import AskEvent, AskInput, Dialect, EventReader, Promise
from tests.support.fault_proxy import (
    RESET_BEFORE,
    Failing,
    Fault,
    FaultyServer,
    Plan,
    answering,
    foreign,
    refusal,
)
from tests.support.remote import connected

DIALECTS: tuple[Dialect, ...] = ("0.55", "0.54", "legacy")
NOT_FOUND = answering(404, b"{}")


def names(items: list[Any]) -> list[str]:
    return [item["name"] for item in items]


def test_the_three_dialects_read_alike(proxy: FaultyServer) -> None:
    with connected(proxy.url) as client:
        answers = [
            client.nlweb.ask("alpha word 7", dialect=dialect, k=4, mode="list, summarize", prev=["alpha"], site="docs")
            for dialect in DIALECTS
        ]
        assert names(answers[0].items)[0] == "T7"
        assert len(answers[0].items) == 4
        for answer in answers[1:]:
            assert names(answer.items) == names(answers[0].items)
            assert answer.summary == answers[0].summary
            assert answer.summary
        for dialect, answer in zip(DIALECTS, answers, strict=True):
            events = list(
                client.nlweb.stream(
                    "alpha word 7", dialect=dialect, k=4, mode="list, summarize", prev=["alpha"], site="docs"
                )
            )
            assert [event.kind for event in events] == ["start", *["item"] * 4, "summary", "complete"]
            items = [event for event in events if event.kind == "item"]
            assert [event.index for event in items] == [0, 1, 2, 3]
            assert names([event.item for event in items]) == names(answer.items)
            [summary] = [event.item for event in events if event.kind == "summary"]
            assert summary is not None
            assert summary["text"] == answer.summary


def test_the_format_of_apps_has_prose(proxy: FaultyServer) -> None:
    with connected(proxy.url) as client:
        answer = client.nlweb.ask("alpha word 7", k=2, response_format="chatgpt_app")
        assert len(answer.items) == 2
        assert answer.content
        events = list(client.nlweb.stream("alpha word 7", k=2, response_format="chatgpt_app"))
        assert [event.kind for event in events] == ["start", "item", "item", "content", "complete"]


def test_nothing_found_is_an_answer_without_items(proxy: FaultyServer) -> None:
    with connected(proxy.url) as client:
        for dialect in DIALECTS:
            assert client.nlweb.ask("alpha", dialect=dialect, site="nowhere").items == []
            events = list(client.nlweb.stream("alpha", dialect=dialect, site="nowhere"))
            assert [event.kind for event in events if event.kind == "item"] == []


@pytest.mark.parametrize(
    ("misuse", "kind"),
    [
        ({"text": " "}, aidre_client.InvalidInput),
        ({"text": "a", "dialect": "1.0"}, aidre_client.InvalidInput),
        ({"text": "a", "prev": "b"}, aidre_client.InvalidInput),
        ({"text": "a", "dialect": "legacy", "mode": "poem"}, aidre_client.InvalidInput),
        ({"text": "a", "mode": "poem"}, aidre_client.InvalidInput),
        ({"text": "a", "response_format": "xml"}, aidre_client.InvalidInput),
        ({"text": "a", "limit": 3}, aidre_client.InvalidInput),
    ],
)
def test_a_misuse_is_one_exception(
    misuse: dict[str, Any], kind: type[aidre_client.AidreError], proxy: FaultyServer
) -> None:
    with connected(proxy.url) as client:
        with pytest.raises(kind):
            client.nlweb.ask(**misuse)
        with pytest.raises(kind):
            list(client.nlweb.stream(**misuse))


def test_a_promise_is_waited_for_and_cancelled(proxy: FaultyServer) -> None:
    with connected(proxy.url) as client:
        promised = client.nlweb.ask("alpha word 7", k=3, respond_async=True).promise
        assert promised is not None
        assert names(client.nlweb.wait(promised).items)[0] == "T7"
        assert client.nlweb.look(promised).items
        client.nlweb.cancel(promised)
        with pytest.raises(aidre_client.RequestFailed) as caught:
            client.nlweb.wait(promised)
        assert caught.value.details["error"] == "CANCELLED"
        with pytest.raises(aidre_client.RequestFailed) as caught:
            client.nlweb.look(Promise("nobody was promised this"))
        assert caught.value.details["error"] == "UNKNOWN_PROMISE"
        with pytest.raises(aidre_client.InvalidInput):
            client.nlweb.look(Promise(""))


def test_a_promise_that_is_not_kept_in_time_is_a_timeout() -> None:
    promise = {"_meta": {"response_type": "promise"}, "promise": {"token": "t", "progress": 0.5}}
    waits: list[float] = []
    plan = speaking(answering(202, json.dumps(promise).encode()))
    with (
        foreign(plan) as proxy,
        connected(proxy.url, waits) as client,
        pytest.raises(aidre_client.RequestFailed) as caught,
    ):
        client.nlweb.wait(Promise("t"), timeout=3.0)
    assert caught.value.details["error"] == "TIMEOUT"
    assert sum(waits) == pytest.approx(3.0)


def test_questions_are_asked_again_where_the_server_says_so(proxy: FaultyServer) -> None:
    waits: list[float] = []
    with connected(proxy.url, waits) as client:
        expected = client.nlweb.ask("alpha word 7", k=3).items
        proxy.plan = Failing((refusal(429, Retry_After="7"), RESET_BEFORE), "/ask")
        assert client.nlweb.ask("alpha word 7", k=3).items == expected
        proxy.plan = Failing((refusal(503, Retry_After="9"), RESET_BEFORE), "/ask")
        events = list(client.nlweb.stream("alpha word 7", k=3))
        assert [event.item for event in events if event.kind == "item"] == expected
        assert [wait for wait in waits if wait > 5] == [7.0, 9.0]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_stream_that_breaks_says_so_and_gives_nothing_twice(dialect: Dialect, proxy: FaultyServer) -> None:
    with connected(proxy.url) as client:
        whole = list(client.nlweb.stream("alpha word 7", k=5, dialect=dialect))
        for cut in (400, 900, 1_500):
            proxy.plan = lambda asked, cut=cut: Fault(cut=cut) if asked.target == "/ask" else None  # type: ignore[misc]
            came: list[AskEvent] = []
            with pytest.raises(aidre_client.RequestFailed) as caught:
                came.extend(client.nlweb.stream("alpha word 7", k=5, dialect=dialect))
            assert caught.value.details["error"] in {"interrupted", "no_answer"}
            assert [event.item for event in came] == [event.item for event in whole][: len(came)]


def speaking(answer: Fault, discovery: Fault = NOT_FOUND) -> Plan:
    """A server of NLWeb that does not speak AIDRE."""
    return lambda asked: discovery if asked.target.startswith("/.well-known/") else answer


# -- frames ------------------------------------------------------------------------------------------------------------

START = b'event: start\ndata: {"_meta":{"response_type":"answer"}}\n\n'
ONE = b'event: result\ndata: {"index":0,"item":{"n":0}}\n\n'
TWO = b'event: result\ndata: {"index":1,\ndata: "item":{"n":1}}\n\n'
END = b'event: complete\ndata: {"_meta":{"response_type":"answer"}}\n\n'


def read(content: bytes, dialect: Dialect = "0.55", step: int | None = None) -> list[AskEvent]:
    reader = EventReader("u", dialect)
    step = step or len(content) or 1
    events = [event for at in range(0, len(content), step) for event in reader.feed(content[at : at + step])]
    reader.end()
    return events


@pytest.mark.parametrize("step", [1, 2, 7, None])
@pytest.mark.parametrize("change", [lambda text: text, lambda text: text.replace(b"\n", b"\r\n")])
def test_frames_are_read_wherever_the_stream_is_cut(step: int | None, change: Callable[[bytes], bytes]) -> None:
    content = change(b": comment\n\nretry: 1\n\n" + START + TWO + ONE + END)
    events = read(content, step=step)
    assert [event.kind for event in events] == ["start", "item", "item", "complete"]
    assert {event.index: event.item for event in events if event.item} == {0: {"n": 0}, 1: {"n": 1}}


def test_an_item_that_comes_twice_is_given_once() -> None:
    assert [event.kind for event in read(START + ONE + ONE + END)] == ["start", "item", "complete"]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (START + TWO + END, "interrupted"),
        (START + ONE, "interrupted"),
        (b"", "interrupted"),
        (START + ONE + END[:-1], "interrupted"),
        (START + b"event: result\ndata: {\n\n", "invalid_answer"),
        (START + b'event: result\ndata: {"index":0,"item":7}\n\n', "invalid_answer"),
        (START + b'event: result\ndata: {"index":-1,"item":{}}\n\n', "invalid_answer"),
        (START + b'event: error\ndata: {"error":{"code":"TOKEN_LIMIT"}}\n\n', "TOKEN_LIMIT"),
    ],
)
def test_a_stream_that_is_not_whole_is_an_error(content: bytes, error: str) -> None:
    with pytest.raises(aidre_client.RequestFailed) as caught:
        read(content)
    assert caught.value.details["error"] == error


def test_frames_of_older_servers_are_read() -> None:
    older = (
        b'data: {"_meta":{"response_type":"Answer","version":"0.54"}}\n\n'
        b'data: {"results":[{"name":"a"},{"name":"b"}]}\n\n'
        b'data: {"results":[{"@type":"Summary","text":"s"}]}\n\n'
    )
    assert [event.kind for event in read(older, "0.54")] == ["start", "item", "item", "summary"]
    assert read(older, "0.55") == read(older, "0.54")
    legacy = (
        b'data: {"message_type":"query_analysis"}\n\n'
        b'data: {"message_type":"result_batch","results":[{"name":"a"}]}\n\n'
        b'data: {"message_type":"summary","message":"s"}\n\n'
        b'data: {"message_type":"complete"}\n\n'
    )
    assert [event.kind for event in read(legacy, "legacy")] == ["item", "summary", "complete"]


def test_a_server_that_speaks_0_54_is_told_apart_from_one_whose_stream_breaks() -> None:
    frames = b'data: {"_meta":{"response_type":"Failure","version":"0.54"}}\n\n'
    frames += b'data: {"error":{"code":"INVALID_REQUEST","message":"limit is unknown"}}\n\n'
    with pytest.raises(aidre_client.RequestFailed, match=r"limit is unknown; the server speaks NLWeb 0\.54: ask"):
        read(frames)
    with pytest.raises(aidre_client.RequestFailed, match=r"limit is unknown$"):
        read(frames, "0.54")
    refusal = {"_meta": {"response_type": "Failure", "version": "0.54"}, "error": {"code": "INVALID_REQUEST"}}
    plan = speaking(answering(400, json.dumps(refusal).encode()))
    with foreign(plan) as proxy, connected(proxy.url) as client:
        with pytest.raises(aidre_client.RequestFailed, match=r"speaks NLWeb 0\.54: ask with"):
            client.nlweb.ask("alpha", k=3)
        with pytest.raises(aidre_client.RequestFailed, match=r"INVALID_REQUEST$"):
            client.nlweb.ask("alpha", dialect="0.54")


@pytest.mark.parametrize("discovery", [answering(404, b"{}"), answering(200, b"<html>", "text/html")])
def test_a_server_without_aidre_is_asked_at_its_own_address(discovery: Fault) -> None:
    failure = {"_meta": {"response_type": "Failure"}, "error": {"code": "RATE_LIMITED", "message": "no"}}
    plan = speaking(answering(200, json.dumps(failure).encode()), discovery)
    with foreign(plan) as proxy, connected(proxy.url) as client, pytest.raises(aidre_client.RequestFailed) as caught:
        client.nlweb.ask("alpha")
    assert caught.value.details["error"] == "RATE_LIMITED"
    assert [asked.target for asked in proxy.asked if not asked.target.startswith("/.well-known")] == ["/ask"]


def test_a_server_that_does_not_stream_answers_in_one_piece() -> None:
    document = {"_meta": {"response_type": "elicitation"}, "elicitation": {"text": "which?"}, "results": []}
    plan = speaking(answering(200, json.dumps(document).encode()))
    with foreign(plan) as proxy, connected(proxy.url) as client:
        events = list(client.nlweb.stream("alpha"))
    assert [event.kind for event in events] == ["start", "elicitation", "complete"]


def test_the_bodies_of_the_dialects_are_those_of_their_texts() -> None:
    question = {"text": "x", "k": 3, "prev": ("y",), "filters": {"itemType": "Recipe"}}
    bodies = {
        dialect: json.loads(AskInput(**question, dialect=dialect).body(streaming=True))  # type: ignore[arg-type]
        for dialect in DIALECTS
    }
    assert bodies["0.55"]["query"] == {"itemType": "Recipe", "text": "x", "limit": 3}
    assert bodies["0.54"]["meta"] == {"api_version": "0.54"}
    assert bodies["0.54"]["prefer"]["response_format"] == "conv_search"
    assert bodies["legacy"]["query"] == "x"
    assert bodies["legacy"]["streaming"] is True
