"""Agentic Intent in the application, where the configuration declares it."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from starlette.requests import Request
from starlette.types import ASGIApp

from aidre.api.http import RateLimited, Unauthorized
from aidre.api.protocols.intent.discovery import EVENTS, RETRIEVE, WELL_KNOWN
from aidre.api.protocols.intent.envelope import Reason, refuse
from aidre.api.protocols.intent.routes import reject, routes
from aidre.api.protocols.intent.service import Service
from aidre.api.retrieval import Retrieval
from aidre.api.server import Mounted
from aidre.engine.errors import AidreError

SIGNED_PATHS = frozenset({RETRIEVE, EVENTS})
"""Paths of signed requests, whose answers name the request, also when it is not admitted."""


def mount(retrieval: Retrieval, folder: Path) -> Mounted:
    """`folder` is for the ledger."""
    if not retrieval.settings.intent.declared:
        return Mounted(error_codes=get_args(Reason), state={"intent": None})
    service = Service(retrieval, folder)
    return Mounted(
        routes=routes,
        error_codes=get_args(Reason),
        error_renderers=dict.fromkeys(("aip", WELL_KNOWN), refuse),
        reject=_reject,
        state={"intent": service},
        open=service.open,
        close=service.close,
    )


def _reject(request: Request, error: AidreError) -> ASGIApp | None:
    is_signed = request.scope["path"] in SIGNED_PATHS
    return reject(error) if is_signed and isinstance(error, RateLimited | Unauthorized) else None
