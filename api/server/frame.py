"""The middleware around every request: request id, CORS without credentials, admission, and the last error handler."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aidre.api.access import Guard, caller_in, mark_private
from aidre.api.access.limits import Slot
from aidre.api.http import CONNECTION_ERROR, ErrorRenderer, HttpError, Overloaded, ServerFault
from aidre.api.server.overload import REJECTED
from aidre.engine.errors import AidreError

logger = logging.getLogger("aidre")

METHODS = "GET, HEAD, POST, OPTIONS"
EXPOSED = (
    b"Content-Digest, ETag, Last-Modified, RateLimit, RateLimit-Limit, RateLimit-Policy, RateLimit-Remaining, "
    b"RateLimit-Reset, Retry-After, Signature, Signature-Input, WWW-Authenticate, X-Request-Id"
)
"""Header fields that a script of another origin may read."""
PREFLIGHT_SECONDS = "600"
SERVER_FAULT = "the server failed: try again, or tell the operator the request_id"

RawHeaders = list[tuple[bytes, bytes]]
Rejecter = Callable[[Request, AidreError], ASGIApp]
"""Gives the response to a request that was not admitted."""


class FrameMiddleware:
    """Admits requests with `guard` and answers the others with `reject`; `render_error` is for overdue requests and
    unexpected errors.

    `origins` are those of CORS, possibly "*"; without any, no CORS field is sent.
    """

    def __init__(
        self, app: ASGIApp, guard: Guard, render_error: ErrorRenderer, reject: Rejecter, origins: Sequence[str]
    ) -> None:
        self.app = app
        self._guard = guard
        self._reject = reject
        self._render_error = render_error
        self._origins = frozenset(origins)
        self._any_origin: RawHeaders = [
            (b"access-control-allow-origin", b"*"),
            (b"access-control-expose-headers", EXPOSED),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        identifier = f"req_{random.getrandbits(72):018x}"
        scope.setdefault("state", {})["request_id"] = identifier
        framed = _FramedSend(scope, send, [(b"x-request-id", identifier.encode()), *self._cors_fields(scope)])
        try:
            app: ASGIApp = self.app
            if self._is_preflight(scope):
                app = _preflight(scope)
            else:
                try:
                    framed.slot = self._enter(scope, receive)
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

    def _enter(self, scope: Scope, receive: Receive) -> Slot | None:
        """Takes a slot, see `Guard.enter`. Raises Overloaded, or the error that the connection found."""
        if CONNECTION_ERROR in scope["state"]:
            raise scope["state"][CONNECTION_ERROR]
        return self._guard.enter(scope["path"], scope["method"], receive)

    def _cors_fields(self, scope: Scope) -> RawHeaders:
        if "*" in self._origins:
            return self._any_origin
        if not self._origins:
            return []
        origin = Headers(scope=scope).get("origin")
        if origin not in self._origins:
            return [(b"vary", b"Origin")]
        allowed = (b"access-control-allow-origin", str(origin).encode("latin-1"))
        return [(b"vary", b"Origin"), allowed, (b"access-control-expose-headers", EXPOSED)]

    def _is_preflight(self, scope: Scope) -> bool:
        if scope["method"] != "OPTIONS" or not self._origins or CONNECTION_ERROR in scope["state"]:
            return False
        headers = Headers(scope=scope)
        return "origin" in headers and "access-control-request-method" in headers


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


def _preflight(scope: Scope) -> Response:
    requested = Headers(scope=scope).get("access-control-request-headers", "")
    headers = {"Access-Control-Allow-Methods": METHODS, "Access-Control-Max-Age": PREFLIGHT_SECONDS}
    if requested:
        headers |= {"Access-Control-Allow-Headers": requested, "Vary": "Access-Control-Request-Headers"}
    return Response(status_code=204, headers=headers)
