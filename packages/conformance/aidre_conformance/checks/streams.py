"""Checks of NLWeb 0.55: answers as a stream of events (section 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from aidre_conformance import SSE, Checks, Exchange, Failed, Target, expect, expect_shape, require, shortened, shown
from aidre_conformance.checks.nlweb import (
    META,
    answered,
    ask,
    ask_url,
    asked,
    code_of,
    expect_envelope,
    identities,
    items_of,
    no_results,
    question,
    refused,
)

CHECKS = Checks("nlweb", "NLWeb 0.55")
STREAMING = {"streaming": True}


@dataclass(frozen=True, slots=True)
class Event:
    """One event; `name` is `message` where the server gives none, `data` whatever JSON it brings."""

    name: str
    data: Any


def events_of(answer: Exchange) -> list[Event]:
    """The events of a stream (HTML standard, 9.2). Failed where data are not JSON."""
    text = answer.content.decode("utf-8", errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    events = []
    for block in text.split("\n\n"):
        name, lines = "message", []
        for line in block.split("\n"):
            key, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if key == "event":
                name = value
            elif key == "data":
                lines.append(value)
        if lines:
            events.append(Event(name, _data("\n".join(lines))))
    return events


def _data(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Failed(f"the data of an event are not JSON: {error}: {shortened(text)}") from None


def streamed(target: Target, **members: Any) -> tuple[Exchange, list[Event]]:
    """Asks for a stream. NotTestable where the server sends none."""
    prefer = {**STREAMING, **members.pop("prefer", {})}
    answer = ask(target, {"query": {"text": question(target), **members.pop("query", {})}, "prefer": prefer, **members})
    require(answer.media_type == SSE, f"{answer.name} as {answer.media_type}: there is no stream")
    return answer, events_of(answer)


@CHECKS.add("6", "MUST", "Streaming is requested by setting prefer.streaming to true.")
def _stream(target: Target) -> None:
    answer = ask(target, {"query": {"text": question(target)}, "prefer": STREAMING})
    expect(answer.status == 200, f"{answer.name}, expected 200")
    expect(answer.media_type == SSE, f"{answer.name} as {answer.media_type}, expected {SSE}")


@CHECKS.add(
    "7.2",
    "MUST",
    "The prefer argument to ask is used to specify preferences for streaming (as opposed to HTTP headers).",
)
def _prefer_decides(target: Target) -> None:
    body = {"query": {"text": question(target)}, "prefer": {"streaming": False}}
    answer = ask(target, body, accept="application/json, text/event-stream")
    expect(answer.media_type != SSE, "prefer.streaming is false and the answer is a stream")


@CHECKS.add(
    "6.1", "MUST", 'start: Sent once at the beginning of the stream. Contains the _meta block with "streaming": true.'
)
def _start(target: Target) -> None:
    _, events = streamed(target)
    expect(events and events[0].name == "start", f"the first event is {events[0].name if events else 'none'}")
    expect(sum(event.name == "start" for event in events) == 1, "there are two start events")
    data = events[0].data
    expect(isinstance(data, dict) and isinstance(data.get("_meta"), dict), f"start has no _meta: {shown(data)}")
    expect_shape(data["_meta"], META, "_meta of start")
    expect(data["_meta"].get("streaming") is True, f"streaming is {shown(data['_meta'].get('streaming'))}")


@CHECKS.add("6.1", "MUST", "complete: Sent once to signal the end of the stream. Contains the final _meta block.")
def _complete(target: Target) -> None:
    for members in ({}, {"prefer": {"mode": "list, summarize"}}):
        _, events = streamed(target, **members)
        names = [event.name for event in events]
        expect(names.count("complete") == 1 and names[-1] == "complete", f"the events are {shown(names)}")
        data = events[-1].data
        expect(isinstance(data, dict) and isinstance(data.get("_meta"), dict), f"complete has no _meta: {shown(data)}")
        expect_shape(data["_meta"], META, "_meta of complete")


@CHECKS.add("6.1", "MUST", "index (integer): The position of this item in the final results array.")
def _index(target: Target) -> None:
    _, events = streamed(target)
    results = [event.data for event in events if event.name == "result"]
    expect(results, "there is no result event")
    for data in results:
        expect(isinstance(data, dict) and type(data.get("index")) is int, f"index of {shown(data)}")
        expect(isinstance(data.get("item"), dict), f"item of {shown(data)}")
    positions = sorted(data["index"] for data in results)
    expect(positions == list(range(len(results))), f"the positions are {shown(positions)}")


@CHECKS.add("6.1", "MUST", "item (object): The result object (same schema as items in the results array).")
def _same_items(target: Target) -> None:
    _, events = streamed(target)
    results = [event.data for event in events if event.name == "result"]
    require(results and all(isinstance(data, dict) and "index" in data for data in results), "events have no index")
    ordered = [data.get("item", {}) for data in sorted(results, key=lambda data: data["index"])]
    whole = items_of(asked(target))
    expect(identities(ordered) == identities(whole), "the stream has other items than the whole answer")


@CHECKS.add("4.1.1", "MUST", "In streaming responses, the summary may appear at any position in the stream.")
def _summary_in_the_stream(target: Target) -> None:
    whole = asked(target, prefer={"mode": "list, summarize"})
    require(code_of(whole) is None, "the server does not summarize")
    summaries = [item for item in answered(whole)["results"] if "summary" in str(item.get("@type", "")).lower()]
    require(summaries, "the whole answer has no SearchSummary")
    _, events = streamed(target, prefer={"mode": "list, summarize"})
    items = [event.data.get("item", {}) for event in events if event.name == "result"]
    found = [item for item in items if "summary" in str(item.get("@type", "")).lower()]
    expect(len(found) == 1 and isinstance(found[0].get("text"), str), f"{len(found)} summaries are in the stream")


@CHECKS.add("6.1", "MUST", "error: The data payload follows the failure response structure (see 4.1.4).")
def _stream_error(target: Target) -> None:
    refusing = orjson.loads(no_results(target).request_body)
    answer = ask(target, {**refusing, "prefer": STREAMING})
    require(answer.media_type == SSE, "a failure comes whole")
    errors = [event for event in events_of(answer) if event.name == "error"]
    expect(errors, "NO_RESULTS comes without an error event")
    for event in errors:
        kind = expect_envelope(event.data, "error event")
        expect(kind == "failure", f"response_type of an error event is {kind}")


@CHECKS.add(
    "7.4", "SHOULD", "400 Bad Request: Malformed request structure.", reading="also where a stream was asked for"
)
def _malformed_stream(target: Target) -> None:
    ask_url(target)
    answer = ask(target, {"query": {}, "prefer": STREAMING})
    require(answer.media_type != SSE, "the failure is an event")
    expect(answer.status == 400, f"{answer.name}, expected 400")
    refused(answer)
