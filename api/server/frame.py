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
from aidre.api.access.limits import Slot
from aidre.api.http import CONNECTION_ERROR, ErrorRenderer, HttpError, MethodNotAllowed, Overloaded, ServerFault
from aidre.api.server.overload import REJECTED
from aidre.engine.errors import AidreError

logger = logging.getLogger("aidre")

METHODS = "GET, HEAD, POST, OPTIONS"
PREFLIGHT_SECONDS = "600"
SERVER_FAULT = "the server failed: try again, or tell the operator the request_id"

RawHeaders = list[tuple[bytes, bytes]]
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
        identifier = f"req_{random.getrandbits(72):018x}"
        scope.setdefault("state", {})["request_id"] = identifier
        framed = _FramedSend(scope, send, [(b"x-request-id", identifier.encode()), *self._origins.cors_fields(scope)])
        try:
            app: ASGIApp = self.app
            try:
                self._check(scope)
                unmetered = _unmetered(scope)
                if unmetered is not None:
                    app = unmetered
                else:
                    framed.slot = self._guard.enter(scope["path"], scope["method"], receive)
                    framed.admitted = await self._guard.admit(scope)
            except HttpError as error:
                app = self._reject(Request(scope), error)
                if isinstance(error, Overloaded) and isinstance(app, Response):
                    scope["state"][REJECTED] = True
            await app(scope, framed.slot or receive, framed.send)
        except ClientDisconnect:
            return
        except asyncio.CancelledError:
            if framed.slot is None or framed.started or not framed.slot.is_over():
                raise
            await self._render_error(Request(scope), self._guard.running.overdue())(scope, receive, framed.send)
        except Exception:  # the outermost handler of all
            logger.exception("request %s failed", identifier)
            if not framed.started:
                await self._render_error(Request(scope), ServerFault(SERVER_FAULT))(scope, receive, framed.send)
        finally:
            if framed.slot is not None:
                self._guard.running.leave(framed.slot)

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
            # A 429 describes the limit that was exceeded, which need not be the guard's.
            admitted = self.admitted if message["status"] != 429 else ()
            headers = [*message["headers"], *self._fields, *admitted]
            message["headers"] = mark_private(headers) if caller_in(self._scope).name else headers
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
