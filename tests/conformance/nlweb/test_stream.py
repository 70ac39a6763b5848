"""NLWeb 0.55: streams, in the frames of each dialect. Names begin with the check."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from starlette.requests import ClientDisconnect

from aidre.api.access.caller import ANONYMOUS
from aidre.api.config.toml import Duration
from aidre.api.protocols.nlweb.answer import answering
from aidre.api.protocols.nlweb.answer.answering import AskService, PartialAnswer, find_items
from aidre.api.protocols.nlweb.nlweb_envelope import NlwebFailure, Outcome
from aidre.api.protocols.nlweb.query.ask import Ask
from aidre.api.protocols.nlweb.stream import EventStream, render_events
from tests.support.clients import Client, serving
from tests.support.recipes import (
    CONFIGURATION,
    STREAM,
    Event,
    ask,
    events,
    failed,
    parsed,
    query,
    results,
    told,
)

ELICITING = """
[nlweb.elicitation."breakfast.example"]
required = ["diet"]
questions = [{ id = "diet", text = "Any diet?" }]
"""


@pytest.fixture(scope="module")
def eliciting(filled: Path) -> Iterator[Client]:
    """A server that asks back before it searches one of the sites."""
    with serving(filled, CONFIGURATION + ELICITING) as shared:
        yield shared


def streaming(text: str = "cinnamon", prefer: Any = None, **members: Any) -> dict[str, Any]:
    return {**query(text, **members), "prefer": {"streaming": True, **(prefer or {})}}


def named(found: list[Event], name: str) -> list[Any]:
    return [event.data for event in found if event.name == name]


def test_s1_a_stream_is_not_cached_and_not_buffered(client: Client) -> None:
    response = ask(client, streaming())
    assert response.headers["content-type"].startswith(STREAM)
    assert (response.headers["cache-control"], response.headers["x-accel-buffering"]) == ("no-cache", "no")
    assert "content-length" not in response.headers


def test_s2_it_begins_with_start(client: Client) -> None:
    found = events(ask(client, streaming()))
    assert found[0].name == "start"
    assert found[0].data["_meta"] == {"response_type": "answer", "version": "0.55", "streaming": True}
    assert len(named(found, "start")) == 1


@pytest.mark.parametrize("mode", ["list", "list, summarize"])
def test_s3_s7_the_results_by_index_are_those_of_one_answer(client: Client, mode: str) -> None:
    items = named(events(ask(client, streaming(prefer={"mode": mode}))), "result")
    assert [item["index"] for item in items] == list(range(len(items)))
    assert all(set(item) == {"index", "item"} for item in items)
    whole = results(ask(client, {**query(), "prefer": {"mode": mode}}))
    assert [item["item"] for item in items] == whole


def test_s4_it_ends_with_complete_and_its_session(client: Client) -> None:
    session = {"conversation_id": "conv_1"}
    found = events(ask(client, {**streaming(), "meta": {"session_context": session}}))
    assert found[-1].name == "complete"
    meta = found[-1].data["_meta"]
    assert (meta["response_type"], meta["version"], meta["session_context"]) == ("answer", "0.55", session)
    assert len(named(found, "complete")) == 1
    assert {event.name for event in found} == {"start", "result", "complete"}


def test_s5_s9_nothing_found_is_an_error_event_between_start_and_complete(client: Client) -> None:
    found = events(ask(client, streaming(site="absent.example")))
    assert [event.name for event in found] == ["start", "error", "complete"]
    assert found[1].data["error"]["code"] == "NO_RESULTS"
    assert all(event.data["_meta"]["response_type"] == "failure" for event in found)


@pytest.mark.parametrize(
    ("prefer", "code"), [({"mode": "poem"}, "UNSUPPORTED_MODE"), ({"response_format": "xml"}, "UNSUPPORTED_FORMAT")]
)
def test_s5_s9_what_is_not_supported_is_an_error_event_too(client: Client, prefer: dict[str, str], code: str) -> None:
    found = events(ask(client, streaming(prefer=prefer)))
    assert [event.name for event in found] == ["start", "error", "complete"]
    assert found[1].data["error"]["code"] == code
    assert all(event.data["_meta"]["response_type"] == "failure" for event in found)
    assert events(ask(client, {**query(), "prefer": prefer}, accept=STREAM)) == found
    failed(ask(client, {**query(), "prefer": {**prefer, "streaming": False}}, accept=STREAM), code)


def test_s5_a_summary_that_fails_leaves_no_gap(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: Any) -> None:
        raise RuntimeError("a secret of the server")

    monkeypatch.setattr(answering, "summarize", broken)
    response = ask(client, streaming(prefer={"mode": "list, summarize"}))
    found = events(response)
    assert [event.data["index"] for event in found if event.name == "result"] == list(range(7))
    [error] = named(found, "error")
    assert (error["_meta"]["response_type"], error["error"]["code"]) == ("failure", "INTERNAL_ERROR")
    assert "secret" not in response.text
    assert found[-1].name == "complete"
    assert found[-1].data["_meta"]["response_type"] == "answer"
    failed(ask(client, {**query(), "prefer": {"mode": "summarize"}}), "INTERNAL_ERROR", 500)


def test_s5_a_summary_beyond_all_time_is_a_timeout(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async def endless(*_: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(answering, "summarize", endless)
    service: AskService = client.app.state.nlweb
    hasty = replace(service.retrieval.settings, nlweb=replace(service.retrieval.settings.nlweb, timeout=Duration(0.05)))
    monkeypatch.setattr(service.retrieval, "settings", hasty)
    [error] = named(events(ask(client, streaming(prefer={"mode": "summarize"}))), "error")
    assert error["error"]["code"] == "TIMEOUT"
    failed(ask(client, {**query(), "prefer": {"mode": "summarize"}}), "TIMEOUT")


def test_s6_text_of_any_script_stays_in_its_line(client: Client) -> None:
    items = named(events(ask(client, streaming("homemade pasta dough egg flour", limit=3))), "result")
    assert any("Ça 😀 <salt> & pepper" in item["item"].get("recipeIngredient", []) for item in items)


def test_s8_a_summary_arrives_as_a_result(client: Client) -> None:
    items = named(events(ask(client, streaming(prefer={"mode": "summarize"}))), "result")
    assert [item["item"]["@type"] for item in items].count("SearchSummary") == 1


def test_s9_an_elicitation_stands_in_start_and_complete(eliciting: Client) -> None:
    found = events(ask(eliciting, streaming("eggs", site="breakfast.example")))
    assert [event.name for event in found] == ["start", "complete"]
    assert found[0].data["elicitation"] == found[1].data["elicitation"]
    assert found[1].data["_meta"]["response_type"] == "elicitation"


def test_s9_a_promise_stands_in_start_and_complete(client: Client) -> None:
    found = events(ask(client, streaming(prefer={"respond-async": True})))
    assert [event.name for event in found] == ["start", "complete"]
    assert found[0].data["promise"]["token"] == found[1].data["promise"]["token"]


def test_s9_a_chatgpt_app_gets_its_prose_with_complete(client: Client) -> None:
    prefer = {"response_format": "chatgpt_app", "mode": "list, summarize"}
    found = events(ask(client, streaming(prefer=prefer)))
    whole = told(ask(client, {**query(), "prefer": prefer}), "answer")
    assert [item["item"] for item in named(found, "result")] == whole["structuredData"]
    assert found[-1].data["content"] == whole["content"]


def test_s11_what_never_became_a_stream_is_refused_as_json(client: Client) -> None:
    failed(ask(client, {"prefer": {"streaming": True}}), "INVALID_QUERY", 400)
    failed(ask(client, {**streaming(), "context": 5}), "INVALID_QUERY", 400)


def test_s1_a_client_that_takes_only_streams_gets_one_unless_it_says_otherwise(client: Client) -> None:
    assert events(ask(client, query(), accept=STREAM))
    assert results(ask(client, {**query(), "prefer": {"streaming": False}}, accept=STREAM))
    assert results(ask(client, query(), accept="*/*"))
    assert results(ask(client, query(), accept=f"application/json, {STREAM}"))


def test_legacy_an_event_source_hears_unnamed_frames_and_an_end(client: Client) -> None:
    response = client.get("/ask?query=cinnamon&mode=list,summarize&num_results=2&query_id=7", {"accept": STREAM})
    found = events(response)
    assert {event.name for event in found} == {""}
    assert [event.data["message_type"] for event in found] == [
        "start",
        "result_batch",
        "result_batch",
        "summary",
        "complete",
    ]
    assert all(
        isinstance(event.data["results"], list) for event in found if event.data["message_type"] == "result_batch"
    )
    assert found[3].data["message"]
    item = found[1].data["results"][0]
    assert {"name", "score", "site", "@type"} <= set(item)


def test_legacy_an_event_source_is_told_of_failures_and_questions(client: Client, eliciting: Client) -> None:
    found = events(client.get("/ask?query=x&site=absent.example", {"accept": STREAM}))
    assert [event.data["message_type"] for event in found] == ["start", "error", "complete"]
    found = events(eliciting.get("/ask?query=eggs&site=breakfast.example", {"accept": STREAM}))
    assert [event.data["message_type"] for event in found] == ["ask_user", "complete"]


def test_v0_54_gets_frames_with_results(client: Client) -> None:
    body = {
        "query": {"text": "cinnamon", "site": "all", "max_results": 2, "num_results": 50},
        "prefer": {"streaming": True, "response_format": "conv_search", "mode": "list, summarize"},
        "meta": {"api_version": "0.54", "start_num": 0},
        "context": {"@type": "ConversationalContext", "prev": []},
    }
    found = events(ask(client, body, accept=STREAM))
    assert {event.name for event in found} == {""}
    assert found[0].data["_meta"]["response_type"] == "Answer"
    assert found[0].data["_meta"]["version"] == "0.54"
    items = [item for event in found for item in event.data.get("results", [])]
    assert [item["@type"] for item in items][2:] == ["Summary"]
    assert all("@id" in item and "score" in item for item in items[:2])
    [failure] = [
        event.data
        for event in events(ask(client, {**body, "query": {"text": "x", "site": "no.example"}}))
        if "error" in event.data
    ]
    assert failure["_meta"]["response_type"] == "Failure"


def test_v0_54_without_a_stream_is_answered_in_its_envelope(client: Client) -> None:
    body = {**query(), "prefer": {"response_format": "conv_search", "mode": "summarize"}}
    answer = ask(client, body).json()
    assert (answer["_meta"]["response_type"], answer["_meta"]["version"]) == ("Answer", "0.54")
    assert answer["results"][-1]["@type"] == "Summary"
    refused = ask(client, {"query": {"text": ""}, "meta": {"api_version": "0.54"}})
    assert (refused.status_code, refused.json()["_meta"]["response_type"]) == (400, "Failure")


def test_s10_each_event_is_sent_before_the_next_is_known(client: Client) -> None:
    """The results are with the client while the summary is still being made."""
    service: AskService = client.app.state.nlweb
    question = Ask("cinnamon", 3, modes=frozenset({"list", "summarize"}))
    summarized = asyncio.Event()

    async def waiting(found: PartialAnswer) -> Outcome:
        await summarized.wait()
        return NlwebFailure("CANCELLED", "enough")

    async def story() -> None:
        first = await find_items(question, ANONYMOUS, service)
        assert isinstance(first, PartialAnswer)
        stream = render_events(first, waiting, "0.55")
        early = [parsed((await anext(stream)).decode().removesuffix("\n\n")).name for _ in range(4)]
        assert early == ["start", "result", "result", "result"]
        summarized.set()
        assert [parsed(frame.decode().removesuffix("\n\n")).name async for frame in stream] == ["error", "complete"]

    asyncio.run(story())


def test_s10_a_client_that_leaves_ends_the_work() -> None:
    ended = asyncio.Event()

    async def content() -> AsyncIterator[bytes]:
        try:
            yield b"data: {}\n\n"
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def story() -> None:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            while len(sent) < 2:
                await asyncio.sleep(0)
            return {"type": "http.disconnect"}

        with pytest.raises(ClientDisconnect):
            await EventStream(content())({"type": "http"}, receive, send)
        assert ended.is_set()
        assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]

    asyncio.run(story())


def test_s10_a_client_that_leaves_before_the_answer_ends_the_work(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[bool] = []

    async def endless(*_: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    monkeypatch.setattr(answering, "summarize", endless)
    body = b'{"query":{"text":"cinnamon"},"prefer":{"mode":"summarize"}}'
    messages = [{"type": "http.request", "body": body, "more_body": False}, {"type": "http.disconnect"}]
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/ask", "query_string": b"", "headers": headers}
    asyncio.run(client.app(scope, receive, send))
    assert ended == [True]
    assert sent == []
