"""What a protocol contributes to the application, as data, and the error responses chosen by path.

A protocol builds its `Mounted` in its own room; `api/app.py` joins them and names no protocol's paths.

Routing by a dictionary: of paths without parameters, and of the only route below a first segment.

Starlette's router tries the routes one by one and wraps each response in its error handling: a fifth of all work of a
short search. Other paths with parameters, 404 and 405 go to that router.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from aidre.api.access.limits import RawHeaders
from aidre.api.http import ErrorRenderer
from aidre.engine.errors import AidreError

Sign = Callable[[Scope, int, RawHeaders, bytes], RawHeaders]
"""The header fields of an answer with those of its signature: from the scope, the status, the fields and the body, b""
where a stream begins."""
Reject = Callable[[Request, AidreError], ASGIApp | None]
"""The application that answers a request which was not admitted; None for the usual error response."""


async def _do_nothing() -> None: ...


@dataclass(frozen=True)
class Mounted:
    """One protocol, or another group of routes, in the application. Without a configuration for it there are no routes
    and no renderers."""

    routes: Sequence[Route] = ()
    error_codes: Collection[str] = ()
    """All codes of the protocol, declared to the metrics even when it is not configured."""
    error_renderers: Mapping[str, ErrorRenderer] = field(default_factory=dict)
    """Renderers of errors outside of the endpoints, by whole path ("/.well-known/x.json") or first segment ("ask")."""
    reject: Reject | None = None
    state: Mapping[str, Any] = field(default_factory=dict)
    """Attributes of `app.state` that the endpoints read."""
    sign: Sign | None = None
    """Signs every whole answer."""
    refresh: Callable[[], None] | None = None
    """Called in the event loop after each look at the store."""
    open: Callable[[], Awaitable[None]] = _do_nothing
    close: Callable[[], Awaitable[None]] = _do_nothing


class ErrorResponses:
    """Error responses for requests that reach no endpoint, in the envelope of the protocol that owns the path."""

    def __init__(self, mounted: Sequence[Mounted], default: ErrorRenderer) -> None:
        self._default = default
        self._renderers = {path: render for protocol in mounted for path, render in protocol.error_renderers.items()}
        self._rejecters = [protocol.reject for protocol in mounted if protocol.reject is not None]

    def render(self, request: Request, error: AidreError) -> Response:
        path: str = request.scope["path"]
        segment = path.partition("/")[2].partition("/")[0]
        return (self._renderers.get(path) or self._renderers.get(segment, self._default))(request, error)

    def reject(self, request: Request, error: AidreError) -> ASGIApp:
        """The response to a request that was not admitted."""
        for reject in self._rejecters:
            app = reject(request, error)
            if app is not None:
                return app
        return self.render(request, error)


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
