"""What a protocol contributes to the application, as data, and the error responses chosen by path.

A protocol builds its `Mounted` in its own room; `api/app.py` joins them and names no protocol's paths.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Scope

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
        self._renderers = {path: render for one in mounted for path, render in one.error_renderers.items()}
        self._rejecters = [one.reject for one in mounted if one.reject is not None]

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
