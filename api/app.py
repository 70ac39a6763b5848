"""Puts the pieces together: the routes of all protocols, what stands around them, and what runs beside them."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response

from aidre.api import aidre, changes, health, openapi
from aidre.api.batching import TextQueries
from aidre.api.cursor import Cursors, store_secret
from aidre.api.envelope import refuse
from aidre.api.frame import Frame
from aidre.api.live import Live
from aidre.api.refusals import MethodNotAllowed, NotFound, Refusal, ServerFault
from aidre.api.retrieve import Retrieval
from aidre.api.settings import Settings
from aidre.engine.embed import load_stored
from aidre.engine.store import Store

DEFAULT_BASE_URL = "http://127.0.0.1:8000"


async def _refuse_http(request: Request, error: Exception) -> Response:
    """What the framework refuses, in the envelope of AIDRE."""
    if not isinstance(error, HTTPException):
        raise error
    allow = (error.headers or {}).get("Allow")
    if error.status_code == 405 and allow is not None:
        methods = ", ".join(sorted({*allow.split(", "), "OPTIONS"}))
        if request.method == "OPTIONS":
            return Response(status_code=204, headers={"Allow": methods})
        return refuse(request, MethodNotAllowed(f"use {methods} here", {"Allow": methods}))
    if error.status_code == 404:
        return refuse(request, NotFound("there is nothing at this address"))
    fault = ServerFault("the server failed") if error.status_code >= 500 else Refusal(error.detail)
    return refuse(request, fault)


def create_app(store: Store, settings: Settings) -> Starlette:
    """The whole server over one store, ready to be run by any ASGI server."""
    if settings.server.base_url is None:
        settings = replace(settings, server=replace(settings.server, base_url=DEFAULT_BASE_URL))
    settings = replace(settings, server=replace(settings.server, base_url=str(settings.server.base_url).rstrip("/")))
    live = Live(store)
    live.refresh()
    texts = TextQueries(functools.partial(load_stored, runtime=settings.embedding.runtime))
    retrieval = Retrieval(settings, live, Cursors(store_secret(store.path)), texts)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        following = asyncio.create_task(_follow(retrieval))
        yield
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
        retrieval.close()

    app = Starlette(
        routes=[*aidre.routes, *changes.routes, *openapi.routes, *health.routes],
        middleware=[Middleware(Frame, refuse=refuse, origins=settings.server.cors_origins)],
        exception_handlers={HTTPException: _refuse_http},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.retrieval = retrieval
    return app


async def _follow(retrieval: Retrieval) -> None:
    retrieval.warm()
    await retrieval.live.follow(retrieval.warm)
