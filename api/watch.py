"""The layer that sees every request begin and end: it counts them, times them and writes them down."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from time import perf_counter
from typing import Any

from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aidre.api.access import ANONYMOUS
from aidre.api.logs import RequestLog
from aidre.api.metrics import OTHER, Metrics


class Watch:
    """The outermost layer. What was refused says so in `scope["state"]["code"]`, who asked in ["caller"]."""

    def __init__(
        self, app: ASGIApp, metrics: Metrics, log: RequestLog | None = None, routes: Sequence[Route] = ()
    ) -> None:
        self.app = app
        self._metrics = metrics
        self._log = log
        self._plain = {route.path for route in routes if not route.param_convertors}
        self._patterns = [route for route in routes if route.param_convertors]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = perf_counter()
        status = size = 0

        def watched(message: Message) -> Awaitable[None]:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                size += len(message.get("body", b""))
            return send(message)

        self._metrics.began()
        try:
            await self.app(scope, receive, watched)
        finally:
            seconds = perf_counter() - began
            route = scope.get("route")
            template = self._template(scope["path"]) if route is None else route.path
            state: dict[str, Any] = scope.get("state", {})
            code = state.get("code")
            self._metrics.ended(template, status, seconds, code)
            if self._log is not None:
                self._log.write(
                    identifier=state.get("request_id", ""),
                    method=scope["method"],
                    route=template,
                    status=status,
                    code=code,
                    seconds=seconds,
                    size=size,
                    caller=state.get("caller", ANONYMOUS).logged,
                )

    def _template(self, path: str) -> str:
        """The route of a path that was refused before it was looked for, as the route was declared."""
        if path in self._plain:
            return path
        return next((route.path for route in self._patterns if route.path_regex.match(path)), OTHER)
