"""Routing of paths without parameters by a dictionary.

Starlette's router tries the routes one by one and wraps each response in its error handling: a fifth of all work of a
short search. Paths with parameters, 404 and 405 go to that router.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send


class FastRoutes:
    """ASGI application in front of the router `app`. Its endpoints render their own errors (`renders_errors_with`)."""

    def __init__(self, app: ASGIApp, routes: Sequence[Route]) -> None:
        self.app = app
        static = [route for route in routes if not route.param_convertors]
        self._routes = {(method, route.path): route for route in static for method in route.methods or ()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self._routes.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        if route is None:
            await self.app(scope, receive, send)
            return
        scope["route"] = route
        scope["path_params"] = {}
        response = await route.endpoint(Request(scope, receive, send))
        await response(scope, receive, send)
