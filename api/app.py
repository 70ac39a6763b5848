"""Puts the pieces together: the routes of all protocols, what stands around them, and what runs beside them."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from aidre.api import aidre, changes, exposition, health, openapi
from aidre.api.batching import TextQueries
from aidre.api.cursor import Cursors, store_secret
from aidre.api.database import make_private
from aidre.api.direct import Direct
from aidre.api.door import Door
from aidre.api.envelope import STATUS, refuse
from aidre.api.frame import Frame
from aidre.api.guard import metadata
from aidre.api.guard.guard import Guard
from aidre.api.guard.refusals import RateLimited, Unauthorized
from aidre.api.intake import envelope as intake_envelope
from aidre.api.intake import routes as intake
from aidre.api.intake.service import IntakeService
from aidre.api.intent import envelope as intent_envelope
from aidre.api.intent import routes as intent
from aidre.api.intent.discovery import EVENTS, RETRIEVE, WELL_KNOWN
from aidre.api.intent.service import Service as IntentService
from aidre.api.live import Live
from aidre.api.logs import RequestLog
from aidre.api.metrics import Metrics
from aidre.api.nlweb import envelope as nlweb_envelope
from aidre.api.nlweb import mcp
from aidre.api.nlweb import routes as nlweb
from aidre.api.nlweb.answering import Service
from aidre.api.nlweb.items import Items
from aidre.api.nlweb.language_model import ChatModel
from aidre.api.nlweb.promises import Promises
from aidre.api.page import routes as page
from aidre.api.provenance import routes as provenance_routes
from aidre.api.provenance.answers import SignedAnswers
from aidre.api.provenance.service import Provenance, provenance_for
from aidre.api.refusals import MethodNotAllowed, NotFound, Refusal, ServerFault
from aidre.api.retrieve import Retrieval
from aidre.api.scrubbing import Scrubber
from aidre.api.settings import Protocol, Settings
from aidre.api.watch import Watch
from aidre.api.wire import Refuse
from aidre.engine.embed import load_stored
from aidre.engine.errors import AidreError
from aidre.engine.store import Store

STDOUT = 1
DEFAULT_BASE_URL = "http://127.0.0.1:8000"
SPEAKERS: Mapping[str, Refuse] = dict.fromkeys(("ask", "await", "mcp", "sites"), nlweb_envelope.refuse)
"""Who refuses what the framework cannot route, by the path or its first part; AIDRE elsewhere."""
INTAKE_SPEAKERS: Mapping[str, Refuse] = dict.fromkeys(("intakes", intake.WELL_KNOWN), intake_envelope.refuse)

PARTNERS = frozenset({RETRIEVE, EVENTS})
"""Where an answer has to say to which request, even one that is not let in."""
INTENT_SPEAKERS: Mapping[str, Refuse] = dict.fromkeys(("aip", WELL_KNOWN), intent_envelope.refuse)


def _refuse(request: Request, error: AidreError) -> Response:
    path: str = request.scope["path"]
    speakers: Mapping[str, Refuse] = request.app.state.speakers
    speaker = speakers.get(path) or speakers.get(path.partition("/")[2].partition("/")[0], refuse)
    return speaker(request, error)


def _turn_away(request: Request, error: AidreError) -> ASGIApp:
    if request.app.state.intake is not None and request.scope["path"].startswith("/intakes/"):
        return intake.TurnedAway(error)
    partner = request.app.state.intent is not None and request.scope["path"] in PARTNERS
    if partner and isinstance(error, RateLimited | Unauthorized):
        return intent.TurnedAway(error)
    return _refuse(request, error)


async def _refuse_http(request: Request, error: Exception) -> Response:
    """What the framework refuses, in the envelope of the protocol."""
    if not isinstance(error, HTTPException):
        raise error
    allow = (error.headers or {}).get("Allow")
    if error.status_code == 405 and allow is not None:
        methods = ", ".join(sorted({*allow.split(", "), "OPTIONS"}))
        if request.method == "OPTIONS":
            return Response(status_code=204, headers={"Allow": methods})
        return _refuse(request, MethodNotAllowed(f"use {methods} here", {"Allow": methods}))
    if error.status_code == 404:
        return _refuse(request, NotFound("there is nothing at this address"))
    fault = ServerFault("the server failed") if error.status_code >= 500 else Refusal(error.detail)
    return _refuse(request, fault)


def create_app(store: Store, settings: Settings, run: Path | None = None) -> Starlette:
    """The whole server over one store, ready to be run by any ASGI server. `run` is a folder that its workers share."""
    if settings.server.base_url is None:
        settings = replace(settings, server=replace(settings.server, base_url=DEFAULT_BASE_URL))
    settings = replace(settings, server=replace(settings.server, base_url=str(settings.server.base_url).rstrip("/")))
    with suppress(OSError):  # a store that cannot be written is served all the same
        make_private(store.path / ".log")
    provenance = provenance_for(settings)
    routes = _routes(settings)
    metrics = Metrics([route.path for route in routes], get_args(Protocol), _codes(AidreError), run)
    log = RequestLog(STDOUT, metrics.dropped) if settings.server.log == "requests" else None
    live = Live(store)
    live.refresh()
    scrubber = Scrubber(store, settings.server.scrub)
    texts = TextQueries(functools.partial(load_stored, runtime=settings.embedding.runtime), settings.limits.wait)
    guard = Guard(settings, [store.path / ".log", *([run] if run is not None else [])])
    retrieval = Retrieval(settings, live, Cursors(store_secret(store.path)), texts, metrics, budget=guard.budget)
    promises = Promises(store.path / ".log", settings.nlweb.timeout)
    model = ChatModel(settings.nlweb.llm) if settings.nlweb.llm is not None else None
    service = Service(retrieval, promises, Items(settings.nlweb.actions), model)
    endpoint = mcp.McpEndpoint(service)
    intakes = IntakeService(retrieval, store.path) if settings.intakes else None
    intents = IntentService(retrieval, store.path / ".log") if settings.intent.declared else None

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[dict[str, Any]]:
        following = asyncio.create_task(_follow(retrieval, provenance, scrubber))
        scrubber.open()
        await guard.open()
        await promises.open()
        keepers = [one for one in (intakes, intents) if one is not None]
        for keeper in keepers:
            await keeper.open()
        yield {"door": Door(guard.running, metrics, log)}
        for keeper in keepers:
            await keeper.close()
        await endpoint.close()
        await promises.close()
        following.cancel()
        scrubber.close()
        with suppress(asyncio.CancelledError):
            await following
        retrieval.close()
        await guard.close()
        if log is not None:
            await log.close()
        metrics.close()

    app = Starlette(routes=routes, lifespan=lifespan)
    app.middleware_stack = Watch(_framed(app, routes, guard, settings, provenance), metrics, log, routes)
    app.router.redirect_slashes = False
    app.state.guard, app.state.retrieval, app.state.metrics = guard, retrieval, metrics
    app.state.provenance, app.state.nlweb, app.state.mcp = provenance, service, endpoint
    app.state.scrubber = scrubber
    app.state.intake, app.state.intent = intakes, intents
    app.state.speakers = {
        **SPEAKERS,
        **(INTAKE_SPEAKERS if intakes is not None else {}),
        **(INTENT_SPEAKERS if intents is not None else {}),
    }
    return app


def _framed(
    app: Starlette, routes: Sequence[Route], guard: Guard, settings: Settings, provenance: Provenance | None
) -> ASGIApp:
    """The router and what stands around it. The framework's own outermost layer is left out: it would answer what
    breaks a second time, and stands in the way of every message."""
    routed = Direct(ExceptionMiddleware(app.router, {HTTPException: _refuse_http}), routes)
    framed = Frame(routed, guard, _refuse, _turn_away, settings.server.cors_origins)
    return framed if provenance is None else SignedAnswers(framed, provenance.answers)


def _routes(settings: Settings) -> list[Route]:
    routes = [*aidre.routes, *changes.routes, *nlweb.routes, *mcp.routes, *openapi.routes, *health.routes]
    routes += [*exposition.routes, *metadata.routes, *page.routes]
    if settings.intakes:
        routes += intake.routes
    if settings.intent.declared:
        routes += intent.routes
    if settings.provenance.key is not None:
        routes += provenance_routes.routes
    return routes


def _codes(kind: type[AidreError]) -> set[str]:
    """Every reason of a refusal that any protocol gives."""
    declared = {*get_args(nlweb_envelope.Code), *get_args(intake_envelope.Code), *get_args(intent_envelope.Reason)}
    return declared.union({kind.code}, {code for _, code in STATUS.values()}, *map(_codes, kind.__subclasses__()))


async def _follow(retrieval: Retrieval, provenance: Provenance | None, scrubber: Scrubber) -> None:
    def refreshed() -> None:
        retrieval.live.distrust(scrubber.refresh())
        retrieval.warm()
        if provenance is not None:
            provenance.ring.refresh()

    retrieval.warm()
    await retrieval.live.follow(refreshed)
