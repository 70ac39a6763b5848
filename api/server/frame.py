"""The middleware around every request: request id, Host and Origin, CORS without credentials, admission, and the last
error handler."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aidre.api.access import Guard, WebOrigins, caller_in, mark_private
from aidre.api.access.limits import RawHeaders, Slot
from aidre.api.http import CONNECTION_ERROR, ErrorRenderer, HttpError, MethodNotAllowed, Overloaded, ServerFault
from aidre.api.server.begun import BEGUN, Begun
from aidre.api.server.overload import REJECTED
from aidre.engine.errors import AidreError

logger = logging.getLogger("aidre")

METHODS = "GET, HEAD, POST, PUT, DELETE, OPTIONS"
PREFLIGHT_SECONDS = "600"
SERVER_FAULT = "the server failed: try again, or tell the operator the request_id"

Rejecter = Callable[[Request, AidreError], ASGIApp]
"""Gives the response to a request that was not admitted."""


class FrameMiddleware:
    """Admits requests with `guard` and answers the others with `reject`; `render_error` is for overdue requests and
    unexpected errors.

    `origins` says which hosts and web origins are answered; the others get 421 and 403.
    """

    def __init__(
        self, app: ASGIApp, guard: Guard, render_error: ErrorRenderer, reject: Rejecter, origins: WebOrigins
    ) -> None:
        self.app = app
        self._guard = guard
        self._reject = reject
        self._render_error = render_error
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun: Begun | None = scope.setdefault("state", {}).get(BEGUN)
        framed = _FramedSend(scope, send, self.begin(scope) if begun is None else begun.fields)
        try:
            app = self._resumed(begun, framed, receive) if begun else await self._admitted(scope, framed, receive)
            await app(scope, framed.slot or receive, framed.send)
        except ClientDisconnect:
            return
        except asyncio.CancelledError:
            if framed.slot is None or framed.started or not framed.slot.is_over():
                raise
            await self._render_error(Request(scope), self._guard.running.overdue())(scope, receive, framed.send)
        except Exception:  # the outermost handler of all
            response = self.fault(scope)
            if not framed.started:
                await response(scope, receive, framed.send)
        finally:
            if framed.slot is not None:
                self._guard.running.leave(framed.slot)

    async def _admitted(self, scope: Scope, framed: _FramedSend, receive: Receive) -> ASGIApp:
        """The application that answers: the inner one for an admitted request."""
        try:
            self._check(scope)
            unmetered = _unmetered(scope)
            if unmetered is not None:
                return unmetered
            framed.slot = self._guard.enter(scope["path"], scope["method"], receive)
            framed.admitted = await self._guard.admit(scope)
        except HttpError as error:
            return self._rejection(scope, error)
        return self.app

    def _resumed(self, begun: Begun, framed: _FramedSend, receive: Receive) -> ASGIApp:
        """The rest of a request that the fast path has admitted and started."""
        framed.slot, framed.admitted = self._guard.running.enter_held(receive), begun.admitted
        return begun

    # -- the same work for the fast path -----------------------------------------------------------------------------

    def begin(self, scope: Scope) -> RawHeaders:
        """Gives the request an id; returns the header fields of every answer to it."""
        identifier = f"req_{random.getrandbits(72):018x}"
        scope["state"]["request_id"] = identifier
        return [(b"x-request-id", identifier.encode()), *self._origins.cors_fields(scope)]

    def admit_at_once(self, scope: Scope) -> RawHeaders | None:
        """The header fields from the guard; None, with nothing done, if the request has to wait or to be rejected at
        the concurrency limit. Raises the HttpErrors of a request that is not admitted."""
        self._check(scope)
        running = self._guard.running
        return None if running.count >= running.most else self._guard.admit_at_once(scope)

    def hold(self) -> None:
        """Occupies a slot for a request that waits."""
        self._guard.running.hold()

    def release(self) -> None:
        """Ends `hold` for a request that is answered without a task."""
        self._guard.running.release()

    def rejection(self, scope: Scope, error: HttpError) -> Response:
        """The response to a request that was not admitted, on a path whose protocol does not read the body first."""
        app = self._rejection(scope, error)
        assert isinstance(app, Response)
        return app

    def fault(self, scope: Scope) -> Response:
        """Logs the exception that is being handled; returns the response to it."""
        logger.exception("request %s failed", scope["state"]["request_id"])
        return self._render_error(Request(scope), ServerFault(SERVER_FAULT))

    @staticmethod
    def headers(scope: Scope, status: int, headers: RawHeaders, fields: RawHeaders, admitted: RawHeaders) -> RawHeaders:
        """The header fields of a response with those of `begin` and of the guard."""
        # A 429 describes the limit that was exceeded, which need not be the guard's.
        framed = [*headers, *fields, *(admitted if status != 429 else ())]
        return mark_private(framed) if caller_in(scope).name else framed

    # -- inside ------------------------------------------------------------------------------------------------------

    def _rejection(self, scope: Scope, error: HttpError) -> ASGIApp:
        app = self._reject(Request(scope), error)
        if isinstance(error, Overloaded) and isinstance(app, Response):
            scope["state"][REJECTED] = True
        return app

    def _check(self, scope: Scope) -> None:
        """Raises the error that the connection found, or that of a wrong Host or Origin."""
        if CONNECTION_ERROR in scope["state"]:
            raise scope["state"][CONNECTION_ERROR]
        self._origins.check(scope)


class _FramedSend:
    """Sends a response with the shared header fields, without a body if the request is HEAD."""

    __slots__ = ("_fields", "_is_head", "_scope", "_send", "admitted", "slot", "started")

    def __init__(self, scope: Scope, send: Send, fields: RawHeaders) -> None:
        self._scope = scope
        self._send = send
        self._fields = fields
        self._is_head = scope["method"] == "HEAD"
        self.admitted: RawHeaders = []
        """Header fields from `Guard.admit`."""
        self.slot: Slot | None = None
        self.started = False

    def send(self, message: Message) -> Awaitable[None]:
        if message["type"] == "http.response.start":
            self.started = True
            if self.slot is not None:
                self.slot.begun = True
            message["headers"] = FrameMiddleware.headers(
                self._scope, message["status"], message["headers"], self._fields, self.admitted
            )
        else:
            if self._is_head:
                message = {**message, "body": b""}
            if self.slot is not None and message.get("more_body", False):
                return self.slot.tell(self._send, message)
        return self._send(message)


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
