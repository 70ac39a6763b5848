"""A request whose endpoint ran up to its first wait outside of a task, and what a task continues.

A task is created for a coroutine that has not started. `_resume` is one: it hands the wait of the started endpoint on
to its task, and then every later wait.
"""

from __future__ import annotations

import types
from collections.abc import Coroutine, Generator
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from aidre.api.access.limits import RawHeaders

BEGUN = "begun"
"""Key in `scope["state"]`: the `Begun` of a request that was admitted and started before its task."""


@dataclass(slots=True)
class Begun:
    """An admitted request, as an ASGI application that continues its endpoint and sends the response.

    `fields` and `admitted` are the header fields that the frame adds, `started` is by `perf_counter`.
    """

    fields: RawHeaders
    admitted: RawHeaders
    started: float
    endpoint: Any = None
    """The coroutine of the endpoint, which gives a Response."""
    waited_for: Any = None
    """What it yielded: the future that it waits for."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await _resume(self.endpoint, self.waited_for)
        await response(scope, receive, send)


@types.coroutine
def _resume(endpoint: Coroutine[Any, Any, Response], waited_for: Any) -> Generator[Any, Any, Response]:
    try:
        while True:
            try:
                sent = yield waited_for
            except BaseException as error:  # a cancellation is the endpoint's
                waited_for = endpoint.throw(error)
            else:
                waited_for = endpoint.send(sent)
    except StopIteration as end:
        response: Response = end.value
        return response
