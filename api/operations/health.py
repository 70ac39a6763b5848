"""GET /healthz (the process is alive) and GET /readyz (the store can be served)."""

from __future__ import annotations

from collections.abc import Collection

import msgspec
from msgspec import UNSET
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aidre.api.http import JSON
from aidre.api.operations.messages import Liveness, Readiness
from aidre.api.retrieval import Retrieval
from aidre.engine.ports import Unpulled

NO_STORE = {"Cache-Control": "no-store"}


async def alive(request: Request) -> Response:
    return Response(msgspec.json.encode(Liveness(status="ok")), 200, NO_STORE, JSON)


async def ready(request: Request) -> Response:
    """Ready while any collection can be served: a damaged one must not take the others offline."""
    status, body = readiness(request.app.state.retrieval, request.app.state.scrubber.damaged)
    age = request.app.state.replica_age
    if age is not None:
        snapshots = request.app.state.retrieval.snapshots
        opened = (one for name, one in snapshots.collections.items() if name not in snapshots.aliases)
        unpulled = sum(isinstance(one.snapshot, Unpulled) for one in opened)
        body = replace(body, replica_age=round(age(), 1), protocols=["aidre", "nlweb"], unpulled=unpulled or UNSET)
    return Response(msgspec.json.encode(body), status, NO_STORE, JSON)


def readiness(retrieval: Retrieval, damaged_since: Collection[str] = ()) -> tuple[int, Readiness]:
    """Status and body of /readyz. It names no collection, because the visibility of a damaged one cannot be read.

    `damaged_since` are the collections that opened, and in which the scrub found a damaged file later.
    """
    opened = retrieval.snapshots.collections
    damaged = sum(collection.problem is not None or name in damaged_since for name, collection in opened.items())
    serves = not opened or any(collection.snapshot is not None for collection in opened.values())
    if retrieval.snapshots.problem is not None or not serves:
        return 503, Readiness(status="unavailable", damaged=damaged)
    return 200, Readiness(status="degraded" if damaged else "ready", damaged=damaged)


routes = [
    Route("/healthz", alive, methods=["GET"]),
    Route("/readyz", ready, methods=["GET"]),
]
