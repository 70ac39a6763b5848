"""Whether the process lives, and whether the store can be served."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aidre.api.retrieve import Retrieval
from aidre.api.wire import JSON

NO_STORE = {"Cache-Control": "no-store"}


async def alive(request: Request) -> Response:
    return Response(orjson.dumps({"status": "ok"}), 200, NO_STORE, JSON)


async def ready(request: Request) -> Response:
    """Ready while anything can be served: one damaged collection must not take the others off the net."""
    status, body = readiness(request.app.state.retrieval, request.app.state.scrubber.damaged)
    return Response(orjson.dumps(body), status, NO_STORE, JSON)


def readiness(retrieval: Retrieval, damaged_since: Collection[str] = ()) -> tuple[int, dict[str, Any]]:
    """The status and the body of /readyz. It names no collection: who may see a damaged one cannot be read any more.

    `damaged_since` are those that opened well, of which a file was found damaged later.
    """
    opened = retrieval.live.collections
    damaged = sum(one.problem is not None or name in damaged_since for name, one in opened.items())
    serves = not opened or any(collection.snapshot is not None for collection in opened.values())
    if retrieval.live.problem is not None or not serves:
        return 503, {"status": "unavailable", "damaged": damaged}
    return 200, {"status": "degraded" if damaged else "ready", "damaged": damaged}


routes = [
    Route("/healthz", alive, methods=["GET"]),
    Route("/readyz", ready, methods=["GET"]),
]
