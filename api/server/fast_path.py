"""Answers to short requests, given where their last byte arrives: without a task and without ASGI messages.

The endpoint's coroutine is run at once, up to its first wait. Most searches end there, and the answer is written. An
endpoint that waits is continued by a task (`Begun`), and a request that cannot be admitted without waiting goes the
general way from its start. The functions of the middleware do the same work on both ways, so the answers are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from time import perf_counter
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope

from aidre.api.access.limits import RawHeaders
from aidre.api.http import HttpError
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
        self._frame = frame
        self._sign = sign
        self._note_target = note_target

    def takes(self, scope: Scope) -> bool:
        """Whether the request is for one of the routes, which is entered in its scope. An answer to HEAD is not worth
        the hurry."""
        route: Route | None = self._routes.find(scope)
        return route is not None and route.path in self._paths and scope["method"] != "HEAD"

    def answer(self, scope: Scope, receive: Receive) -> Answer | None:
        """The answer to a request whose whole body has come; None if the application has to go on with it."""
        started = perf_counter()
        if self._note_target is not None:
            self._note_target(scope)
        scope["app"] = self._app
        frame, admitted = self._frame, list[tuple[bytes, bytes]]()
        fields = frame.begin(scope)
        try:
            fields_of_guard = frame.admit_at_once(scope)
            if fields_of_guard is None:
                return None
            admitted = fields_of_guard
            endpoint = scope["route"].endpoint(Request(scope, receive))
            try:
                waited_for = endpoint.send(None)
            except StopIteration as end:
                response: Response = end.value
            else:
                frame.hold()
                scope["state"][BEGUN] = Begun(endpoint, waited_for, started, fields, admitted)
                return None
        except HttpError as error:
            response = frame.rejection(scope, error)
        except Exception:  # the outermost handler of this path
            response = frame.fault(scope)
        return self._finish(scope, response, fields, admitted, started)

    def _finish(
        self, scope: Scope, response: Response, fields: RawHeaders, admitted: RawHeaders, started: float
    ) -> Answer:
        """The answer with all of its header fields, counted and logged."""
        status, body = response.status_code, bytes(response.body)
        headers = self._frame.headers(scope, status, response.raw_headers, fields, admitted)
        if self._sign is not None:
            headers = self._sign(scope, status, headers, body)
        self._observe.begin()
        self._observe.end(scope, status, len(body), perf_counter() - started)
        return Answer(status, headers, body)
