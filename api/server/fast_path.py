"""Answers to short requests, given where their last byte arrives: without a task and without ASGI messages.

The endpoint's coroutine is run at once, up to its first wait. Most searches end there, and the answer is written. One
that waits for other searches of the same turn goes on when these are done (`Soon`). One that waits for anything else is
continued by a task, and a request that cannot be admitted without waiting goes the general way. `Frame` does the same
work on both ways, so the answers are equal.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Coroutine, Generator
from functools import partial
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from aidre.api.access.limits import RawHeaders
from aidre.api.http import HttpError, Soon
from aidre.api.server.fast_routes import FastRoutes
from aidre.api.server.frame import BEGUN, Begun, Frame


class Answer(NamedTuple):
    """An answer as it is written to the connection."""

    status: int
    headers: RawHeaders
    body: bytes


Reply = Callable[[Answer | None], None]
"""Takes an answer to write; None if the application has to go on with the request."""


class FastPath:
    """One per process, for the routes with the paths `paths` of `app`.

    Their endpoints need no task before their first wait (`asyncio.timeout` would), and return a Response with all of
    its body.
    """

    def __init__(self, app: ASGIApp, routes: FastRoutes, paths: Collection[str], frame: Frame) -> None:
        self._app = app
        self._routes = routes
        self._paths = frozenset(paths)
        self._frame = frame

    def takes(self, scope: Scope) -> bool:
        """Whether the request is for one of the routes, which is entered in its scope. An answer to HEAD is not worth
        the hurry."""
        route: Route | None = self._routes.find(scope)
        return route is not None and route.path in self._paths and scope["method"] != "HEAD"

    def answer(self, scope: Scope, receive: Receive, reply: Reply) -> None:
        """Answers a request whose whole body has come, or leaves it to the application. Calls `reply` once, now or in a
        few turns of the event loop."""
        frame = self._frame
        scope["app"] = self._app
        run = _Run(frame, scope, reply, frame.begin(scope))
        try:
            frame.check(scope)
            running = frame.guard.running
            admitted = None if running.count >= running.most else frame.guard.admit(scope)
        except HttpError as error:
            response = frame.rejection(scope, error)
            assert isinstance(response, Response)
            run.finish(response)
            return
        if isinstance(admitted, list):
            run.begun.admitted = admitted
            run.start(scope["route"].endpoint(Request(scope, receive)))
            return
        if admitted is not None:
            admitted.close()  # the application asks again
        run.leave()


class _Run:
    """A request on the fast path. It holds a slot of the concurrency limit while it waits."""

    __slots__ = ("_endpoint", "_frame", "_is_held", "_reply", "_scope", "begun")

    def __init__(self, frame: Frame, scope: Scope, reply: Reply, begun: Begun) -> None:
        self._frame = frame
        self._scope = scope
        self._reply = reply
        self._is_held = False
        self.begun = begun

    def start(self, endpoint: Coroutine[Any, Any, Response]) -> None:
        self._endpoint = endpoint
        self._step()

    def _step(self, _: object = None) -> None:
        """Runs the endpoint up to its next wait."""
        try:
            waited_for = self._endpoint.send(None)
        except StopIteration as end:
            response: Response = end.value
        except Exception:  # the outermost handler of this path
            response = self._frame.fault(self._scope)
        else:
            self._wait(waited_for)
            return
        if self._is_held:
            self._frame.guard.running.release()
        self.finish(response)

    def _wait(self, waited_for: Any) -> None:
        if not self._is_held:
            self._is_held = True
            self._frame.guard.running.hold()
        if isinstance(waited_for, Soon):
            waited_for.add_done_callback(self._step)
        else:
            self.begun.rest = partial(_answer_resumed, self._endpoint, waited_for)
            self.leave()

    def leave(self) -> None:
        """Leaves the request to the application."""
        self._scope["state"][BEGUN] = self.begun
        self._reply(None)

    def finish(self, response: Response) -> None:
        """Replies with all header fields; counts and logs the request."""
        frame, scope = self._frame, self._scope
        status, body = response.status_code, bytes(response.body)
        headers = frame.headers(scope, status, response.raw_headers, self.begun)
        if frame.sign is not None:
            headers = frame.sign(scope, status, headers, body)
        frame.end(scope, status, len(body), self.begun.started)
        self._reply(Answer(status, headers, body))


async def _answer_resumed(
    endpoint: Coroutine[Any, Any, Response], waited_for: Any, scope: Scope, receive: Receive, send: Send
) -> None:
    response = await _resume(endpoint, waited_for)
    await response(scope, receive, send)


@types.coroutine
def _resume(endpoint: Coroutine[Any, Any, Response], waited_for: Any) -> Generator[Any, Any, Response]:
    """Hands the wait of a started endpoint, and then every later one, on to the task that awaits this.

    A task can be created only for a coroutine that has not started.
    """
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
