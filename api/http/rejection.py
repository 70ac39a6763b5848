"""The answer to a request that middleware rejected before routing, for protocols whose errors echo the request.

The middleware knows the error, but has not read the body: the answer reads it first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from aidre.api.http.endpoint import ErrorRenderer
from aidre.engine.errors import AidreError


class Rejection:
    """An ASGI application that answers a rejected request in the envelope of its protocol.

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
