"""An endpoint that began outside of a task and goes on in one: its waits, its answer, its cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from starlette.responses import Response
from starlette.types import Message

from aidre.api.server.begun import Begun

Story = Callable[["asyncio.Future[str]"], Coroutine[Any, Any, Response]]


def resumed(endpoint: Story, then: Callable[[asyncio.Future[str], asyncio.Task[None]], object]) -> bytes:
    """The body that is sent by a task that takes over at the first wait; `then` is called while it waits."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def story() -> None:
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        started = endpoint(future)
        begun = Begun([], [], 0.0, started, started.send(None))
        task = asyncio.create_task(begun({"type": "http"}, None, send))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        then(future, task)
        await task

    asyncio.run(story())
    return b"".join(message.get("body", b"") for message in sent)


async def waiting(future: asyncio.Future[str]) -> Response:
    found = await future
    await asyncio.sleep(0)
    return Response(found + await asyncio.to_thread(str.upper, found))


def test_it_goes_on_with_what_it_waited_for() -> None:
    assert resumed(waiting, lambda future, task: future.set_result("found")) == b"foundFOUND"


def test_what_fails_fails_where_it_is_awaited() -> None:
    async def endpoint(future: asyncio.Future[str]) -> Response:
        try:
            return await waiting(future)
        except ValueError as error:
            return Response(f"refused: {error}")

    assert resumed(endpoint, lambda future, task: future.set_exception(ValueError("why"))) == b"refused: why"


def test_a_cancellation_reaches_the_endpoint() -> None:
    ended = []

    async def endpoint(future: asyncio.Future[str]) -> Response:
        try:
            return await waiting(future)
        finally:
            ended.append(future.cancelled())

    with pytest.raises(asyncio.CancelledError):
        resumed(endpoint, lambda future, task: task.cancel())
    assert ended == [True]
