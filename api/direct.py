"""Finds the endpoint of a path that stands for itself by one look into a dictionary, instead of through the router.

The router asks route by route, and wraps an answer in what catches its errors: for a short search that is a fifth of
all work. Paths with parameters, and all that is refused (404, 405), stay the router's.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send


class Direct:
    """Stands before the router. Its endpoints refuse what is wrong by themselves (see `wire.speaks`)."""

    def __init__(self, app: ASGIApp, routes: Sequence[Route]) -> None:
        self.app = app
        plain = [route for route in routes if not route.param_convertors]
        self._routes = {(method, route.path): route for route in plain for method in route.methods or ()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self._routes.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        if route is None:
            await self.app(scope, receive, send)
            return
        scope["route"] = route
        scope["path_params"] = {}
        response = await route.endpoint(Request(scope, receive, send))
        await response(scope, receive, send)
