"""Routing by a dictionary: of paths without parameters, and of the only route below a first segment.

Starlette's router tries the routes one by one and wraps each response in its error handling: a fifth of all work of a
short search. Other paths with parameters, 404 and 405 go to that router.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send


class FastRoutes:
    """ASGI application in front of the router `app`. Its endpoints render their own errors (`renders_errors_with`)."""

    def __init__(self, app: ASGIApp, routes: Sequence[Route]) -> None:
        self.app = app
        static = [route for route in routes if not route.param_convertors]
        self._static = {(method, route.path): route for route in static for method in route.methods or ()}
        counts = Counter(_first_segment(route.path) for route in routes)
        alone = [route for route in routes if route.param_convertors and counts[_first_segment(route.path)] == 1]
        self._alone = {(method, _first_segment(route.path)): route for route in alone for method in route.methods or ()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self.find(scope) if scope["type"] == "http" else None
        if route is None:
            await self.app(scope, receive, send)
            return
        response = await route.endpoint(Request(scope, receive, send))
        await response(scope, receive, send)

    def find(self, scope: Scope) -> Route | None:
        """The route of a request, which is entered in its scope; None if the router has to look."""
        method, path = scope["method"], scope["path"]
        route, parameters = self._static.get((method, path)), {}
        if route is None:
            route = self._alone.get((method, _first_segment(path)))
            match = None if route is None else route.path_regex.match(path)
            if route is None or match is None:
                return None
            parameters = {name: route.param_convertors[name].convert(text) for name, text in match.groupdict().items()}
        scope["route"], scope["path_params"] = route, parameters
        return route


def _first_segment(path: str) -> str:
    """The path up to its second slash: "/chunks/" of "/chunks/{id}"."""
    return path[: path.find("/", 1) + 1] or path
