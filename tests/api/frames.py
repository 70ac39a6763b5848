"""A frame with few places, and the requests that are under way in it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aidre.api.access.guard import Guard
from aidre.api.access.web_origins import WebOrigins
from aidre.api.config.settings import parse_settings
from aidre.api.http.metrics import Metrics
from aidre.api.server.frame import FrameMiddleware, RequestFrame
from aidre.api.server.mounted import ErrorResponses
from aidre.engine.errors import AidreError

PLACES = 2


class Door:
    """An application behind its frame, and requests that are under way in it."""

    def __init__(self, app: ASGIApp, deadline: float = 30.0) -> None:
        base = '[server]\nbase_url = "http://127.0.0.1:8000"\n'
        self.guard = Guard(parse_settings(f"{base}[limits]\nconcurrency = {PLACES}\n"))
        self.guard.running.seconds = deadline
        self._frame = framed(app, self.guard)

    @property
    def taken(self) -> int:
        return self.guard.running.count

    async def ask(
        self, path: str = "/search", receive: Receive | None = None, send: Send | None = None, method: str = "POST"
    ) -> int:
        """The status of the answer; 0 where none came."""
        status = 0

        async def told(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            if send is not None:
                await send(message)

        scope: Scope = {"type": "http", "method": method, "path": path, "headers": [], "client": ("192.0.2.1", 1)}
        await self._frame(scope, receive or whole, told)
        return status


def framed(app: ASGIApp, guard: Guard, metrics: Metrics | None = None, **options: Any) -> FrameMiddleware:
    """An application in its frame; `options` are those of `RequestFrame`."""
    origins = WebOrigins(guard._settings)
    return FrameMiddleware(
        app, RequestFrame(guard, origins, ErrorResponses([], refused), metrics or Metrics(()), **options)
    )


def refused(request: Request, error: AidreError) -> Response:
    status = getattr(error, "status", 500)
    return Response(str(error), status, getattr(error, "headers", {}))


async def whole() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def hear_all(receive: Receive) -> None:
    while (await receive()).get("more_body", False):
        pass


Work = Callable[[Scope, Receive], Awaitable[None]]


def working(work: Work) -> ASGIApp:
    """Answers 200 when its work is done."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await work(scope, receive)
        await Response("done")(scope, receive, send)

    return app
