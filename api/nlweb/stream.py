"""An answer as Server-Sent Events (6), each sent when it is there, in the frames that a client's dialect knows.

0.55 names its events: start, result, error, complete. A browser's EventSource hears only events without a name, so a
legacy stream says in each frame what it is (`message_type`), and 0.54 has frames of `_meta` and of `results`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TypeVar

import orjson
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from aidre.api.nlweb.answering import Findings
from aidre.api.nlweb.envelope import (
    Answered,
    Dialect,
    NlwebFailure,
    Outcome,
    all_items,
    body_of,
    meta_of,
    prose_of,
)
from aidre.engine.model import Json

EVENT_STREAM = "text/event-stream"
HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
GONE = "the client has gone"
PATIENCE = 0.05
"""Seconds after which it is worth looking whether the client is still there."""

T = TypeVar("T")


async def frames(
    first: Findings | Outcome, rest: Callable[[Findings], Awaitable[Outcome]], dialect: Dialect
) -> AsyncIterator[bytes]:
    """The events of a stream: `first` is what is known when it begins, `rest` what comes of findings."""
    yield _start(first, dialect)
    sent, last = 0, first
    if isinstance(last, Findings):
        for found in last.items:
            yield _result(sent, found.json, dialect)
            sent += 1
        last = await rest(last)
    if isinstance(last, Answered):
        for item in all_items(last, dialect)[sent:]:
            yield _result(sent, item, dialect, summary=last.summary if sent == len(last.items) else None)
            sent += 1
    elif isinstance(last, NlwebFailure):
        yield _frame("error", dialect, {"_meta": meta_of(last, dialect), **body_of(last)})
    yield _complete(first, last, dialect)


def failing(failure: NlwebFailure, dialect: Dialect) -> AsyncIterator[bytes]:
    """The events of a stream that never comes to an answer."""

    async def again(_: Findings) -> Outcome:
        return failure

    return frames(failure, again, dialect)


def _start(first: Findings | Outcome, dialect: Dialect) -> bytes:
    outcome = Answered(()) if isinstance(first, Findings) else first
    data: dict[str, Json] = {"_meta": meta_of(outcome, dialect, streaming=True)}
    return _frame("start", dialect, data | _asked(outcome))


def _complete(first: Findings | Outcome, last: Outcome, dialect: Dialect) -> bytes:
    """An answer that broke off after its results stays an answer: they stand."""
    data: dict[str, Json] = {
        "_meta": meta_of(Answered((), meta=last.meta) if isinstance(first, Findings) else last, dialect)
    }
    if isinstance(last, Answered) and last.content is not None:
        data["content"] = prose_of(last)
    return _frame("complete", dialect, data | _asked(last))


def _asked(outcome: Outcome) -> dict[str, Json]:
    """What an elicitation or a promise is about."""
    return {} if isinstance(outcome, Answered | NlwebFailure) else body_of(outcome)


def _result(index: int, item: bytes, dialect: Dialect, summary: str | None = None) -> bytes:
    if dialect == "0.55":
        return b'event: result\ndata: {"index":%d,"item":%b}\n\n' % (index, item)
    if dialect == "legacy" and summary is not None:
        return _frame("summary", dialect, {"message": summary})
    kind = b"" if dialect == "0.54" else b'"message_type":"result_batch",'
    return b'data: {%b"results":[%b]}\n\n' % (kind, item)


def _frame(event: str, dialect: Dialect, data: Mapping[str, Json]) -> bytes:
    if dialect == "0.55":
        return b"event: %b\ndata: %b\n\n" % (event.encode(), orjson.dumps(data, default=str))
    if dialect == "legacy":
        data = {"message_type": "ask_user" if "elicitation" in data and event == "start" else event, **data}
    return b"data: %b\n\n" % orjson.dumps(data, default=str)


class EventStream(Response):
    """Sends frames one by one; a client that goes away ends the work behind them."""

    media_type = EVENT_STREAM

    def __init__(self, content: AsyncIterator[bytes]) -> None:
        super().__init__(None, 200, HEADERS)
        del self.headers["content-length"]
        self._content = content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(self._send(send))
        leaving = asyncio.create_task(disconnected(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended = sending.done()
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
        if not ended:
            raise ClientDisconnect
        sending.result()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for frame in self._content:
            await send({"type": "http.response.body", "body": frame, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def while_there(receive: Receive, work: Awaitable[T]) -> T:
    """What the work comes to; it is cancelled when the client goes away."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    watching: list[asyncio.Task[None]] = []

    async def watch() -> None:
        await disconnected(receive)
        if task is not None:
            task.cancel(GONE)

    timer = loop.call_later(PATIENCE, lambda: watching.append(loop.create_task(watch())))
    try:
        return await work
    except asyncio.CancelledError as error:
        if task is None or error.args != (GONE,):
            raise
        task.uncancel()
        raise ClientDisconnect from None
    finally:
        timer.cancel()
        for one in watching:
            one.cancel()


async def disconnected(receive: Receive) -> None:
    """Returns when the client has gone."""
    message: Message = await receive()
    while message["type"] != "http.disconnect":
        message = await receive()
