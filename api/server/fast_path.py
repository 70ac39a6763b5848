"""Answers to short requests, given where their last byte arrives: without a task and without ASGI messages.

The endpoint's coroutine is run at once, up to its first wait. Most searches end there, and the answer is written. One
that waits for other searches of the same turn goes on when these are done (`Soon`). One that waits for anything else is
continued by a task (`Begun`), and a request that cannot be admitted without waiting goes the general way from its
start. The functions of the middleware do the same work on both ways, so the answers are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from time import perf_counter
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope

from aidre.api.access.limits import RawHeaders
from aidre.api.http import HttpError, Soon
from aidre.api.server.begun import BEGUN, Begun
from aidre.api.server.fast_routes import FastRoutes
from aidre.api.server.frame import FrameMiddleware
from aidre.api.server.mounted import Sign
from aidre.api.server.observe import ObserveMiddleware


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
    its body. `note_target` is that of `OriginalTargetMiddleware`.
    """

    def __init__(
        self,
        app: ASGIApp,
        routes: FastRoutes,
        paths: Collection[str],
        *,
        observe: ObserveMiddleware,
        frame: FrameMiddleware,
        sign: Sign | None = None,
        note_target: Callable[[Scope], None] | None = None,
    ) -> None:
        self._app = app
        self._routes = routes
        self._paths = frozenset(paths)
        self._observe = observe
        self.frame = frame
        self._sign = sign
        self._note_target = note_target

    def takes(self, scope: Scope) -> bool:
        """Whether the request is for one of the routes, which is entered in its scope. An answer to HEAD is not worth
        the hurry."""
        route: Route | None = self._routes.find(scope)
        return route is not None and route.path in self._paths and scope["method"] != "HEAD"

    def answer(self, scope: Scope, receive: Receive, reply: Reply) -> None:
        """Answers a request whose whole body has come, or leaves it to the application. Calls `reply` once, now or in a
        few turns of the event loop."""
        started = perf_counter()
        if self._note_target is not None:
            self._note_target(scope)
        scope["app"] = self._app
        fields = self.frame.begin(scope)
        admitted: RawHeaders | None = []
        try:
            admitted = self.frame.admit_at_once(scope)
        except HttpError as error:
            reply(self.finish(scope, self.frame.rejection(scope, error), Begun(fields, [], started)))
            return
        if admitted is None:
            reply(None)
            return
        endpoint = scope["route"].endpoint(Request(scope, receive))
        _Run(self, scope, reply, Begun(fields, admitted, started, endpoint)).step()

    def finish(self, scope: Scope, response: Response, begun: Begun) -> Answer:
        """The answer with all of its header fields, counted and logged."""
        status, body = response.status_code, bytes(response.body)
        headers = self.frame.headers(scope, status, response.raw_headers, begun.fields, begun.admitted)
        if self._sign is not None:
            headers = self._sign(scope, status, headers, body)
        self._observe.begin()
        self._observe.end(scope, status, len(body), perf_counter() - begun.started)
        return Answer(status, headers, body)


class _Run:
    """A request on the fast path. It holds a slot of the concurrency limit while it waits."""

    __slots__ = ("_begun", "_is_held", "_path", "_reply", "_scope")

    def __init__(self, path: FastPath, scope: Scope, reply: Reply, begun: Begun) -> None:
        self._path = path
        self._scope = scope
        self._reply = reply
        self._begun = begun
        self._is_held = False

    def step(self, _: object = None) -> None:
        """Runs the endpoint up to its next wait."""
        path, scope, begun = self._path, self._scope, self._begun
        try:
            waited_for = begun.endpoint.send(None)
        except StopIteration as end:
            response: Response = end.value
        except Exception:  # the outermost handler of this path
            response = path.frame.fault(scope)
        else:
            self._wait(waited_for)
            return
        if self._is_held:
            path.frame.release()
        self._reply(path.finish(scope, response, begun))

    def _wait(self, waited_for: Any) -> None:
        if not self._is_held:
            self._is_held = True
            self._path.frame.hold()
        if isinstance(waited_for, Soon):
            waited_for.add_done_callback(self.step)
        else:
            self._begun.waited_for = waited_for
            self._scope["state"][BEGUN] = self._begun
            self._reply(None)
