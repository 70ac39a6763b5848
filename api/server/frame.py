"""What is done with every request before its endpoint and after it: request id, Host and Origin, CORS without
credentials, admission, signature, metrics and access log, and the last error handler.

`RequestFrame` is that work as plain functions, which `FrameMiddleware` calls around an ASGI application.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aidre.api.access import ANONYMOUS, Guard, WebOrigins, caller_in, mark_private
from aidre.api.access.limits import RawHeaders, Slot
from aidre.api.http import (
    CONNECTION_ERROR,
    OTHER,
    AccessLog,
    HttpError,
    MethodNotAllowed,
    Metrics,
    Overloaded,
    ServerFault,
)
from aidre.api.server.mounted import ErrorResponses, Sign
from aidre.api.server.overload import REJECTED

logger = logging.getLogger("aidre")

METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
PREFLIGHT_SECONDS = "600"
SERVER_FAULT = "the server failed: try again, or tell the operator the request_id"


@dataclass(slots=True)
class Begun:
    """A request that is counted and has an id.

    `fields` are header fields of every answer to it, `admitted` those that the guard adds; None before it has admitted
    the request. `started` is by `perf_counter`.
    """

    fields: RawHeaders
    started: float
    admitted: RawHeaders | None = None


BROWSER_FIELDS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
"""Fields of every response: a browser takes it for what it says it is, tells no other site where a reader came from,
and lets no page of another origin embed it. What CORS allows is allowed still."""


class RequestFrame:
    """One per process. `guard` admits requests, and `errors` answers the others, overdue ones and faults.

    `origins` says which hosts and web origins are answered; the others get 421 and 403. `note_target` is
    `OriginalTarget.note`; `routes` give the templates under which requests are counted.
    """

    def __init__(
        self,
        guard: Guard,
        origins: WebOrigins,
        errors: ErrorResponses,
        metrics: Metrics,
        *,
        log: AccessLog | None = None,
        routes: Sequence[Route] = (),
        sign: Sign | None = None,
        note_target: Callable[[Scope], None] | None = None,
    ) -> None:
        self.guard = guard
        self.errors = errors
        self.sign = sign
        self.log = log
        self._origins = origins
        self._metrics = metrics
        self._static_paths = {route.path for route in routes if not route.param_convertors}
        self._parametrized = [route for route in routes if route.param_convertors]
        self._note_target = note_target

    def begin(self, scope: Scope) -> Begun:
        """Gives a request its id and counts it; `end` has to follow."""
        started = perf_counter()
        if self._note_target is not None:
            self._note_target(scope)
        identifier = f"req_{random.getrandbits(72):018x}"
        scope.setdefault("state", {})["request_id"] = identifier
        self._metrics.request_started()
        fields = [(b"x-request-id", identifier.encode()), *BROWSER_FIELDS, *self._origins.cors_fields(scope)]
        return Begun(fields, started)

    def check(self, scope: Scope) -> None:
        """Raises the error that the connection found, or that of a wrong Host or Origin."""
        if CONNECTION_ERROR in scope["state"]:
            raise scope["state"][CONNECTION_ERROR]
        self._origins.check(scope)

    def rejection(self, scope: Scope, error: HttpError) -> ASGIApp:
        """The response to a request that was not admitted; a Response, but on paths whose protocol reads the body
        first."""
        app = self.errors.reject(Request(scope), error)
        if isinstance(error, Overloaded) and isinstance(app, Response):
            scope["state"][REJECTED] = True
        return app

    def fault(self, scope: Scope) -> Response:
        """Logs the exception that is being handled; returns the response to it."""
        logger.exception("request %s failed", scope["state"]["request_id"])
        return self.errors.render(Request(scope), ServerFault(SERVER_FAULT))

    def headers(self, scope: Scope, status: int, headers: RawHeaders, begun: Begun) -> RawHeaders:
        """The header fields of a response with those of the frame, before its signature."""
        # A 429 describes the limit that was exceeded, which need not be the guard's.
        admitted = begun.admitted if begun.admitted is not None and status != 429 else ()
        framed = [*headers, *begun.fields, *admitted]
        return mark_private(framed) if caller_in(scope).name else framed

    def end(self, scope: Scope, status: int, size: int, started: float) -> None:
        """Counts and logs a request that has ended, by its error code and its caller in `scope["state"]`; `size` is
        that of the content in bytes."""
        seconds = perf_counter() - started
        route = scope.get("route")
        template = self._template(scope["path"]) if route is None else route.path
        state: dict[str, Any] = scope["state"]
        code = state.get("code")
        self._metrics.request_ended(template, status, seconds, code)
        if self.log is not None:
            self.log.write(
                identifier=state["request_id"],
                method=scope["method"],
                route=template,
                status=status,
                code=code,
                seconds=seconds,
                size=size,
                caller=state.get("caller", ANONYMOUS).logged,
            )

    def _template(self, path: str) -> str:
        """The declared route of a path that was rejected before routing."""
        if path in self._static_paths:
            return path
        return next((route.path for route in self._parametrized if route.path_regex.match(path)), OTHER)


class FrameMiddleware:
    """The outermost ASGI middleware: `frame` around the application."""

    def __init__(self, app: ASGIApp, frame: RequestFrame) -> None:
        self.app = app
        self.frame = frame

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        frame = self.frame
        begun = frame.begin(scope)
        framed = _FramedSend(frame, scope, begun, send)
        try:
            app = await self._admitted(scope, framed, receive)
            await app(scope, framed.slot or receive, framed.send)
        except ClientDisconnect:
            return
        except asyncio.CancelledError:
            if framed.slot is None or framed.started or not framed.slot.is_over():
                raise
            overdue = frame.errors.render(Request(scope), frame.guard.running.overdue())
            await overdue(scope, receive, framed.send)
        except Exception:  # the outermost handler of all
            response = frame.fault(scope)
            if not framed.started:
                await response(scope, receive, framed.send)
        finally:
            if framed.slot is not None:
                frame.guard.running.leave(framed.slot)
            frame.end(scope, framed.status, framed.size, begun.started)

    async def _admitted(self, scope: Scope, framed: _FramedSend, receive: Receive) -> ASGIApp:
        """The application that answers: the inner one for an admitted request."""
        frame, guard, begun = self.frame, self.frame.guard, framed.begun
        try:
            frame.check(scope)
            unmetered = _unmetered(scope)
            if unmetered is not None:
                return unmetered
            framed.slot = guard.enter(scope["path"], scope["method"], receive)
            admitted = guard.admit(scope)
            begun.admitted = admitted if isinstance(admitted, list) else await admitted
        except HttpError as error:
            return frame.rejection(scope, error)
        return self.app


class _FramedSend:
    """Sends a response with the header fields of the frame and its signature, without a body if the request is HEAD.

    The head of an answer of known length is held back until its body comes, which its signature covers.
    """

    __slots__ = ("_frame", "_held", "_is_head", "_scope", "_send", "begun", "size", "slot", "started", "status")

    def __init__(self, frame: RequestFrame, scope: Scope, begun: Begun, send: Send) -> None:
        self._frame = frame
        self._scope = scope
        self._send = send
        self._is_head = scope["method"] == "HEAD"
        self._held: Message | None = None
        self.begun = begun
        self.slot: Slot | None = None
        self.started = False
        self.status = self.size = 0

    def send(self, message: Message) -> Awaitable[None]:
        if message["type"] == "http.response.start":
            return self._send_head(message)
        body = b"" if self._is_head else message.get("body", b"")
        self.size += len(body)
        if self._is_head:
            message = {**message, "body": b""}
        if self._held is not None:
            return self._send_held(body, message)
        if self.slot is not None and message.get("more_body", False):
            return self.slot.tell(self._send, message)
        return self._send(message)

    def _send_head(self, message: Message) -> Awaitable[None]:
        frame, self.started, self.status = self._frame, True, message["status"]
        if self.slot is not None:
            self.slot.begun = True
        message["headers"] = frame.headers(self._scope, self.status, message["headers"], self.begun)
        if frame.sign is not None and not self._is_head:
            if any(name == b"content-length" for name, _ in message["headers"]):
                self._held = message
                return _nothing()
            self._sign(message, b"")
        return self._send(message)

    async def _send_held(self, body: bytes, message: Message) -> None:
        head, self._held = self._held, None
        assert head is not None
        if not message.get("more_body", False):
            self._sign(head, body)
        await self._send(head)
        await self._send(message)

    def _sign(self, head: Message, body: bytes) -> None:
        assert self._frame.sign is not None
        head["headers"] = self._frame.sign(self._scope, self.status, head["headers"], body)


async def _nothing() -> None: ...


def _unmetered(scope: Scope) -> Response | None:
    """The answer to a request that nobody has to be admitted for. Raises MethodNotAllowed."""
    if _is_preflight(scope):
        return _preflight(scope)
    return _server_options(scope) if scope["path"] == "*" else None


def _is_preflight(scope: Scope) -> bool:
    if scope["method"] != "OPTIONS":
        return False
    headers = Headers(scope=scope)
    return "origin" in headers and "access-control-request-method" in headers


def _server_options(scope: Scope) -> Response:
    """The answer to `OPTIONS *`, which asks about the server as a whole (RFC 9110, 9.3.7). Raises MethodNotAllowed."""
    if scope["method"] != "OPTIONS":
        raise MethodNotAllowed("* is an address for OPTIONS alone", {"Allow": "OPTIONS"})
    return Response(status_code=204, headers={"Allow": METHODS})


def _preflight(scope: Scope) -> Response:
    requested = Headers(scope=scope).get("access-control-request-headers", "")
    headers = {"Access-Control-Allow-Methods": METHODS, "Access-Control-Max-Age": PREFLIGHT_SECONDS}
    if requested:
        headers |= {"Access-Control-Allow-Headers": requested, "Vary": "Access-Control-Request-Headers"}
    return Response(status_code=204, headers=headers)
