"""Endpoints: a decorator that renders their errors, and responses whose header fields are made once.

It knows no protocol: each passes its own renderer.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from aidre.api.http.errors import ServerFault
from aidre.engine.errors import AidreError

logger = logging.getLogger("aidre")

T = TypeVar("T")
Endpoint = Callable[[Request], Awaitable[Response]]
ErrorRenderer = Callable[[Request, AidreError], Response]
"""Renders an error in the envelope of one protocol."""


def renders_errors_with(render: ErrorRenderer) -> Callable[[Endpoint], Endpoint]:
    """Decorates an endpoint: what it raises becomes a response of its protocol, an unexpected error a logged 500."""

    def decorate(endpoint: Endpoint) -> Endpoint:
        @functools.wraps(endpoint)
        async def rendering(request: Request) -> Response:
            try:
                return await endpoint(request)
            except AidreError as error:
                return render(request, error)
            except ClientDisconnect:
                raise
            except Exception:  # the outermost handler of an endpoint
                logger.exception("%s %s failed", request.method, request.scope["route"].path)
                return render(request, ServerFault("the server failed: try again, or tell the operator the request_id"))

        return rendering

    return decorate


class PreparedResponse(Response):
    """A 200 whose header fields, except Content-Length, come from `prepare_headers`."""

    def __init__(self, body: bytes, fields: Sequence[tuple[bytes, bytes]]) -> None:
        self.status_code = 200
        self.background = None
        self.body = body
        self.raw_headers = [*fields, (b"content-length", b"%d" % len(body))]


def prepare_headers(**fields: str) -> tuple[tuple[bytes, bytes], ...]:
    """Raw header fields; an underscore in a name becomes a hyphen."""
    return tuple((name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in fields.items())


class Rejection:
    """The answer, as an ASGI application, to a request that was rejected before routing, where errors echo its body.

    `read` reads the body and enters the members to echo in the state of the request; its errors are ignored.
    """

    def __init__(self, error: AidreError, read: Callable[[Request], Awaitable[object]], refuse: ErrorRenderer) -> None:
        self._error = error
        self._read = read
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        with suppress(AidreError):
            await self._read(request)
        await self._refuse(request, self._error)(scope, receive, send)
