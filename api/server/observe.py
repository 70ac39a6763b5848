"""The outermost middleware: counts requests, measures them and writes the access log."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from time import perf_counter
from typing import Any

from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aidre.api.access import ANONYMOUS
from aidre.api.http import OTHER, AccessLog, Metrics
from aidre.api.server.begun import BEGUN, Begun


class ObserveMiddleware:
    """Reads the error code and the caller from `scope["state"]` ("code", "caller") after the response."""

    def __init__(
        self, app: ASGIApp, metrics: Metrics, log: AccessLog | None = None, routes: Sequence[Route] = ()
    ) -> None:
        self.app = app
        self._metrics = metrics
        self._log = log
        self._static_paths = {route.path for route in routes if not route.param_convertors}
        self._parametrized = [route for route in routes if route.param_convertors]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun: Begun | None = scope.get("state", {}).get(BEGUN)
        started = perf_counter() if begun is None else begun.started
        status = size = 0

        def observe(message: Message) -> Awaitable[None]:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                size += len(message.get("body", b""))
            return send(message)

        self.begin()
        try:
            await self.app(scope, receive, observe)
        finally:
            self.end(scope, status, size, perf_counter() - started)

    def begin(self) -> None:
        """Counts a request in progress."""
        self._metrics.request_started()

    def end(self, scope: Scope, status: int, size: int, seconds: float) -> None:
        """Counts and logs a request that has ended; `size` is that of the content in bytes."""
        route = scope.get("route")
        template = self._template(scope["path"]) if route is None else route.path
        state: dict[str, Any] = scope.get("state", {})
        code = state.get("code")
        self._metrics.request_ended(template, status, seconds, code)
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
        """The declared route of a path that was rejected before routing."""
        if path in self._static_paths:
            return path
        return next((route.path for route in self._parametrized if route.path_regex.match(path)), OTHER)
