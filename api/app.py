"""The application: joins the protocols (`Mounted`), the operators' endpoints, the middleware and the background tasks.

Layers of a request, from the outside: the frame (admission, signatures, metrics, access log), routing, endpoint.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, get_args

from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from aidre.api.access import ClientAddresses, Guard, OriginalTarget, WebOrigins
from aidre.api.config import IntentSettings, Protocol, Settings
from aidre.api.http import (
    STATUS,
    AccessLog,
    HttpError,
    MethodNotAllowed,
    Metrics,
    NotFound,
    ServerFault,
    make_private_folder,
    render_error,
)
from aidre.api.operations import Scrubber, catalogs, crawling, llms_text, monitoring, openapi
from aidre.api.operations.page import signpost
from aidre.api.protocols.aidre import mount as mount_aidre
from aidre.api.protocols.intake import mount as mount_intake
from aidre.api.protocols.intent import mount as mount_intent
from aidre.api.protocols.nlweb import mount as mount_nlweb
from aidre.api.protocols.provenance import mount as mount_provenance
from aidre.api.retrieval import Cursors, LiveSnapshots, QueryEmbedders, Retrieval, store_secret
from aidre.api.server import (
    ClientMemory,
    ErrorResponses,
    FastRoutes,
    FrameMiddleware,
    Mounted,
    RejectionCache,
    RequestFrame,
)
from aidre.engine.embedding import load_stored
from aidre.engine.errors import AidreError, ConfigurationError
from aidre.engine.ports import Source
from aidre.ingest.sandbox import check_walls, set_rules

STDOUT = 1
DEFAULT_BASE_URL = "http://127.0.0.1:8000"
"""Without `server.base_url`, for ASGI servers other than `aidre serve`, which sets its own address."""


def create_app(
    source: Source,
    settings: Settings,
    run: Path | None = None,
    *,
    state: Path | None = None,
    replica_age: Callable[[], float] | None = None,
) -> Starlette:
    """The application of one store, for any ASGI server.

    `run` is a folder in which the worker processes share counts; `state` is the one for logs, receipts and secrets, by
    default that of the configuration. `replica_age` says of a replica for how many seconds it was not pulled; what one
    host has to keep (Agentic Intent, Agent Intake, promises of NLWeb) is not served by a replica.
    """
    settings = _with_base_url(settings if replica_age is None else of_replica(settings))
    requires_walls = settings.sources.sandbox == "required"
    if requires_walls:
        check_walls()
    set_rules(requires_walls=requires_walls, seconds=settings.sources.parse_timeout)
    state = settings.state_folder(source.path) if state is None else state.absolute()
    with suppress(OSError):  # a store that cannot be written is served all the same
        make_private_folder(state)
    signatures = mount_provenance(settings)
    folders = [state, *([run] if run is not None else [])]
    guard = Guard(settings, folders)
    metrics = Metrics(get_args(Protocol))
    retrieval = _retrieval(source, state, settings, guard, metrics)
    retrieval.is_replica = replica_age is not None
    mounted = [
        mount_aidre(source.path, settings, state),
        mount_nlweb(retrieval, folders),
        _operations(),
        mount_intake(retrieval, state),
        mount_intent(retrieval, state),
        signatures,
    ]
    routes = [route for protocol in mounted for route in protocol.routes]
    metrics.declare([route.path for route in routes], _error_codes(mounted), run)
    log = AccessLog(STDOUT, metrics.add_dropped) if settings.server.log == "requests" else None
    scrubber = Scrubber(source, settings.server.scrub, state)

    memory = ClientMemory(settings.limits.client_memory, ClientAddresses(settings.server.trusted_proxies))
    shared = {"rejections": RejectionCache(guard.running, metrics, log), "memory": memory}
    lifespan = _lifespan(mounted, retrieval, scrubber, guard, metrics=metrics, log=log, state=shared)
    app = Starlette(routes=routes, lifespan=lifespan)
    app.router.redirect_slashes = False
    app.middleware_stack = _layers(app, routes, mounted, guard, settings, metrics=metrics, log=log)
    app.state.guard, app.state.retrieval, app.state.metrics = guard, retrieval, metrics
    app.state.scrubber, app.state.replica_age = scrubber, replica_age
    for protocol in mounted:
        for name, value in protocol.state.items():
            setattr(app.state, name, value)
    return app


def of_replica(settings: Settings) -> Settings:
    """The settings without the protocols that a replica does not serve. ConfigurationError."""
    if settings.server.writes:
        raise ConfigurationError("server.writes: a replica takes no writes; send them to the store that is published")
    return replace(settings, intent=IntentSettings(), intakes=())


def _with_base_url(settings: Settings) -> Settings:
    base_url = DEFAULT_BASE_URL if settings.server.base_url is None else str(settings.server.base_url)
    return replace(settings, server=replace(settings.server, base_url=base_url.rstrip("/")))


def _retrieval(source: Source, state: Path, settings: Settings, guard: Guard, metrics: Metrics) -> Retrieval:
    snapshots = LiveSnapshots(source)
    snapshots.refresh()
    # No request waits for a model to be fetched: `aidre serve` does that before it is ready.
    load = functools.partial(load_stored, runtime=settings.embedding.runtime, endpoints=settings.endpoints, fetch=False)
    embedders = QueryEmbedders(load, settings.limits.wait)
    cursors = Cursors(store_secret(state, settings.server.cursor_secret))
    return Retrieval(settings, snapshots, cursors, embedders, metrics, budget=guard.budget)


def _operations() -> Mounted:
    modules = (openapi, monitoring, signpost, llms_text, catalogs, crawling)
    routes = [route for module in modules for route in module.routes]
    return Mounted(
        routes=routes, error_renderers={catalogs.SERVER_CARD: render_error}
    )  # below /mcp, and no message of MCP


def _error_codes(mounted: Sequence[Mounted]) -> set[str]:
    """Every code of an error response, for the metrics."""

    def declared(kind: type[AidreError]) -> set[str]:
        return {kind.code}.union(*map(declared, kind.__subclasses__()))

    codes = declared(AidreError) | {code for _, code in STATUS.values()}
    return codes.union(*(protocol.error_codes for protocol in mounted))


def _lifespan(
    mounted: Sequence[Mounted],
    retrieval: Retrieval,
    scrubber: Scrubber,
    guard: Guard,
    *,
    metrics: Metrics,
    log: AccessLog | None,
    state: dict[str, Any],
) -> Callable[[Starlette], Any]:
    """`state` is what the connections read, see `ServerConnection`."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[dict[str, Any]]:
        following = asyncio.create_task(_follow(retrieval, scrubber, mounted))
        scrubber.open()
        await guard.open()
        for protocol in mounted:
            await protocol.open()
        yield state
        for protocol in reversed(mounted):
            await protocol.close()
        following.cancel()
        scrubber.close()
        with suppress(asyncio.CancelledError):
            await following
        retrieval.close()
        await guard.close()
        if log is not None:
            await log.close()
        metrics.close()

    return lifespan


async def _follow(retrieval: Retrieval, scrubber: Scrubber, mounted: Sequence[Mounted]) -> None:
    """Keeps the snapshots, the models and what the protocols derive from files up to date."""
    refreshers = [protocol.refresh for protocol in mounted if protocol.refresh is not None]

    def refresh() -> None:
        retrieval.snapshots.mark_damaged(scrubber.refresh())
        retrieval.warm()
        for refresh_one in refreshers:
            refresh_one()

    retrieval.warm()
    await retrieval.snapshots.follow(refresh)


def _layers(
    app: Starlette,
    routes: Sequence[Route],
    mounted: Sequence[Mounted],
    guard: Guard,
    settings: Settings,
    *,
    metrics: Metrics,
    log: AccessLog | None,
) -> ASGIApp:
    """The router in its frame.

    Starlette's outermost middleware is left out: it would answer an unexpected error a second time, and it costs time
    for every message.
    """
    errors = ErrorResponses(mounted, render_error)
    routed = FastRoutes(ExceptionMiddleware(app.router, {HTTPException: _renderer_of_http(errors)}), routes)
    frame = RequestFrame(
        guard,
        WebOrigins(settings),
        errors,
        metrics,
        log=log,
        routes=routes,
        sign=next((protocol.sign for protocol in mounted if protocol.sign is not None), None),
        note_target=OriginalTarget(settings.server).note if settings.server.trusted_proxies else None,
    )
    return FrameMiddleware(routed, frame)


def _renderer_of_http(errors: ErrorResponses) -> Callable[[Request, Exception], Awaitable[Response]]:
    """A handler that renders Starlette's own errors (404, 405) in the envelope of the protocol."""

    async def render(request: Request, error: Exception) -> Response:
        if not isinstance(error, HTTPException):
            raise error
        allow = (error.headers or {}).get("Allow")
        if error.status_code == 405 and allow is not None:
            methods = ", ".join(sorted({*allow.split(", "), "OPTIONS"}))
            if request.method == "OPTIONS":
                return Response(status_code=204, headers={"Allow": methods})
            return errors.render(request, MethodNotAllowed(f"use {methods} here", {"Allow": methods}))
        if error.status_code == 404:
            return errors.render(request, NotFound("there is nothing at this address"))
        fault = ServerFault("the server failed") if error.status_code >= 500 else HttpError(error.detail)
        return errors.render(request, fault)

    return render
