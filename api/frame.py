"""What stands around every request: its id, CORS without credentials, HEAD without a body, an answer if all breaks."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aidre.api.access import caller_in
from aidre.api.door import TURNED_AWAY
from aidre.api.guard.guard import Guard, private
from aidre.api.guard.running import Place
from aidre.api.refusals import REFUSED, Overloaded, Refusal, ServerFault
from aidre.api.wire import Refuse
from aidre.engine.errors import AidreError

logger = logging.getLogger("aidre")

METHODS = "GET, HEAD, POST, OPTIONS"
EXPOSED = (
    b"Content-Digest, ETag, Last-Modified, RateLimit, RateLimit-Limit, RateLimit-Policy, RateLimit-Remaining, "
    b"RateLimit-Reset, Retry-After, Signature, Signature-Input, WWW-Authenticate, X-Request-Id"
)
PREFLIGHT_SECONDS = "600"
BROKEN = "the server failed: try again, or tell the operator the request_id"

RawHeaders = list[tuple[bytes, bytes]]
TurnAway = Callable[[Request, AidreError], ASGIApp]
"""What answers a request that was not let in."""


class Frame:
    """The outermost layer that may answer: `guard` lets in, or else `turn_away` answers, and `refuse` says what broke.

    `origins` may contain "*" and may be empty.
    """

    def __init__(self, app: ASGIApp, guard: Guard, refuse: Refuse, turn_away: TurnAway, origins: Sequence[str]) -> None:
        self.app = app
        self._guard = guard
        self._turn_away = turn_away
        self._refuse = refuse
        self._origins = frozenset(origins)
        self._open: RawHeaders = [(b"access-control-allow-origin", b"*"), (b"access-control-expose-headers", EXPOSED)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        identifier = f"req_{random.getrandbits(72):018x}"
        scope.setdefault("state", {})["request_id"] = identifier
        added = [(b"x-request-id", identifier.encode()), *self._shared(scope)]
        head = scope["method"] == "HEAD"
        admitted: RawHeaders = []
        started = False
        place: Place | None = None

        def framed(message: Message) -> Awaitable[None]:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                if place is not None:
                    place.begun = True
                # Who is refused with 429 is told of the limit that was met, which need not be that of the guard.
                headers = [*message["headers"], *added, *(admitted if message["status"] != 429 else ())]
                message["headers"] = private(headers) if caller_in(scope).name else headers
            else:
                if head:
                    message = {**message, "body": b""}
                if place is not None and message.get("more_body", False):
                    return place.tell(send, message)
            return send(message)

        try:
            answering: ASGIApp = self.app
            if self._asks_before(scope):
                answering = _preflight(scope)
            else:
                try:
                    place = self._enter(scope, receive)
                    admitted = await self._guard.admit(scope)
                except Refusal as refusal:
                    answering = self._turn_away(Request(scope), refusal)
                    if isinstance(refusal, Overloaded) and isinstance(answering, Response):
                        scope["state"][TURNED_AWAY] = True
            await answering(scope, place or receive, framed)
        except ClientDisconnect:
            return
        except asyncio.CancelledError:
            if place is None or started or not place.is_over():
                raise
            await self._refuse(Request(scope), self._guard.running.overdue())(scope, receive, framed)
        except Exception:  # the outermost handler of all
            logger.exception("request %s failed", identifier)
            if not started:
                await self._refuse(Request(scope), ServerFault(BROKEN))(scope, receive, framed)
        finally:
            if place is not None:
                self._guard.running.leave(place)

    def _enter(self, scope: Scope, receive: Receive) -> Place | None:
        """Its place, see Guard; raises Overloaded, or what its connection has found wrong with the request."""
        if REFUSED in scope["state"]:
            raise scope["state"][REFUSED]
        return self._guard.enter(scope["path"], scope["method"], receive)

    def _shared(self, scope: Scope) -> RawHeaders:
        """The CORS fields of an answer."""
        if "*" in self._origins:
            return self._open
        if not self._origins:
            return []
        origin = Headers(scope=scope).get("origin")
        if origin not in self._origins:
            return [(b"vary", b"Origin")]
        allowed = (b"access-control-allow-origin", str(origin).encode("latin-1"))
        return [(b"vary", b"Origin"), allowed, (b"access-control-expose-headers", EXPOSED)]

    def _asks_before(self, scope: Scope) -> bool:
        """Whether this is a browser's preflight."""
        if scope["method"] != "OPTIONS" or not self._origins or REFUSED in scope["state"]:
            return False
        headers = Headers(scope=scope)
        return "origin" in headers and "access-control-request-method" in headers


def _preflight(scope: Scope) -> Response:
    wanted = Headers(scope=scope).get("access-control-request-headers", "")
    headers = {"Access-Control-Allow-Methods": METHODS, "Access-Control-Max-Age": PREFLIGHT_SECONDS}
    if wanted:
        headers |= {"Access-Control-Allow-Headers": wanted, "Vary": "Access-Control-Request-Headers"}
    return Response(status_code=204, headers=headers)
