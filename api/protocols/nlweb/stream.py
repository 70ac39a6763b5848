"""Streams an answer as Server-Sent Events (6), each item as soon as it is ready, in the frames of the client's dialect.

0.55 names its events: start, result, error, complete. A browser's EventSource receives only unnamed events in its
`message` handler, so a legacy stream names each frame in a member (`message_type`); 0.54 has frames of `_meta` and of
`results`. Frames of results of a legacy stream have the item twice: older clients read `results`, the chat page of
NLWeb_Core reads `content` as MCP has it, parts of the type `resource`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TypeVar

import orjson
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from aidre.api.protocols.nlweb.answer.answering import PartialAnswer
from aidre.api.protocols.nlweb.nlweb_envelope import (
    AnswerResponse,
    Dialect,
    NlwebFailure,
    Outcome,
    build_body,
    build_content,
    build_meta,
    render_items,
)
from aidre.engine.model import Json

EVENT_STREAM = "text/event-stream"
HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
DISCONNECTED = "the client has disconnected"
"""Message of a cancellation, to tell it from others."""
DISCONNECT_CHECK_SECONDS = 0.05
"""Shorter work is not watched for a disconnect: to start a task for it costs more than it saves."""

T = TypeVar("T")


async def render_events(
    first: PartialAnswer | Outcome, complete: Callable[[PartialAnswer], Awaitable[Outcome]], dialect: Dialect
) -> AsyncIterator[bytes]:
    """The frames of a stream. `first` is the state when it begins; `complete` makes the outcome of a partial answer."""
    yield _start_event(first, dialect)
    sent, outcome = 0, first
    if isinstance(outcome, PartialAnswer):
        for item in outcome.items:
            yield _result_event(sent, item.json, dialect)
            sent += 1
        outcome = await complete(outcome)
    if isinstance(outcome, AnswerResponse):
        for rendered in render_items(outcome, dialect)[sent:]:
            is_summary = sent == len(outcome.items)
            yield _result_event(sent, rendered, dialect, summary=outcome.summary if is_summary else None)
            sent += 1
    elif isinstance(outcome, NlwebFailure):
        yield _frame("error", dialect, {"_meta": build_meta(outcome, dialect), **build_body(outcome)})
    yield _complete_event(first, outcome, dialect)


def render_failure(failure: NlwebFailure, dialect: Dialect) -> AsyncIterator[bytes]:
    """The frames of a stream that has a failure only."""

    async def complete(_: PartialAnswer) -> Outcome:
        return failure

    return render_events(failure, complete, dialect)


def _start_event(first: PartialAnswer | Outcome, dialect: Dialect) -> bytes:
    outcome = AnswerResponse(()) if isinstance(first, PartialAnswer) else first
    data: dict[str, Json] = {"_meta": build_meta(outcome, dialect, streaming=True)}
    return _frame("start", dialect, data | _response_member(outcome))


def _complete_event(first: PartialAnswer | Outcome, outcome: Outcome, dialect: Dialect) -> bytes:
    """A failure after the results does not change the response type: the stream stays an answer."""
    typed = AnswerResponse((), meta=outcome.meta) if isinstance(first, PartialAnswer) else outcome
    data: dict[str, Json] = {"_meta": build_meta(typed, dialect)}
    if isinstance(outcome, AnswerResponse) and outcome.content is not None:
        data["content"] = build_content(outcome)
    return _frame("complete", dialect, data | _response_member(outcome))


def _response_member(outcome: Outcome) -> dict[str, Json]:
    """The member `elicitation` or `promise`; empty for other responses."""
    return {} if isinstance(outcome, AnswerResponse | NlwebFailure) else build_body(outcome)


def _result_event(index: int, item: bytes, dialect: Dialect, summary: str | None = None) -> bytes:
    """The frame of one element of `results`; `summary` is its text if it is the summary."""
    if dialect == "0.55":
        return b'event: result\ndata: {"index":%d,"item":%b}\n\n' % (index, item)
    if dialect == "legacy" and summary is not None:
        return _frame("summary", dialect, {"message": summary})
    if dialect == "0.54":
        return b'data: {"results":[%b]}\n\n' % item
    content = b'[{"type":"resource","resource":{"data":%b}}]' % item
    return b'data: {"message_type":"result_batch","results":[%b],"content":%b}\n\n' % (item, content)


def _frame(event: str, dialect: Dialect, data: Mapping[str, Json]) -> bytes:
    if dialect == "0.55":
        return b"event: %b\ndata: %b\n\n" % (event.encode(), orjson.dumps(data, default=str))
    if dialect == "legacy":
        data = {"message_type": "ask_user" if "elicitation" in data and event == "start" else event, **data}
    return b"data: %b\n\n" % orjson.dumps(data, default=str)


class EventStream(Response):
    """Sends frames one by one; a client that disconnects cancels the work that produces them."""

    media_type = EVENT_STREAM

    def __init__(self, frames: AsyncIterator[bytes]) -> None:
        super().__init__(None, 200, HEADERS)
        del self.headers["content-length"]
        self._frames = frames

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(self._send(send))
        disconnect = asyncio.create_task(wait_for_disconnect(receive))
        try:
            await asyncio.wait({sending, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            is_complete = sending.done()
            for task in (sending, disconnect):
                task.cancel()
            await asyncio.gather(sending, disconnect, return_exceptions=True)
        if not is_complete:
            raise ClientDisconnect
        sending.result()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for frame in self._frames:
            await send({"type": "http.response.body", "body": frame, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def cancel_on_disconnect(receive: Receive, work: Awaitable[T]) -> T:
    """The result of the work; raises ClientDisconnect and cancels the work if the client disconnects."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    watchers: list[asyncio.Task[None]] = []

    async def watch() -> None:
        await wait_for_disconnect(receive)
        if task is not None:
            task.cancel(DISCONNECTED)

    timer = loop.call_later(DISCONNECT_CHECK_SECONDS, lambda: watchers.append(loop.create_task(watch())))
    try:
        return await work
    except asyncio.CancelledError as error:
        if task is None or error.args != (DISCONNECTED,):
            raise
        task.uncancel()
        raise ClientDisconnect from None
    finally:
        timer.cancel()
        for watcher in watchers:
            watcher.cancel()


async def wait_for_disconnect(receive: Receive) -> None:
    message: Message = await receive()
    while message["type"] != "http.disconnect":
        message = await receive()
