"""Agent Intake in the application, where the configuration has intakes."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from starlette.requests import Request
from starlette.types import ASGIApp

from aidre.api.protocols.intake.envelope import Code, refuse
from aidre.api.protocols.intake.routes import WELL_KNOWN, reject, routes
from aidre.api.protocols.intake.service import IntakeService
from aidre.api.retrieval import Retrieval
from aidre.api.server import Mounted
from aidre.engine.errors import AidreError


def mount(retrieval: Retrieval, folder: Path) -> Mounted:
    """`folder` is for the ledger of offers and binds."""
    if not retrieval.settings.intakes:
        return Mounted(error_codes=get_args(Code), state={"intake": None})
    service = IntakeService(retrieval, folder)
    return Mounted(
        routes=routes,
        error_codes=get_args(Code),
        error_renderers=dict.fromkeys(("intakes", WELL_KNOWN), refuse),
        reject=_reject,
        state={"intake": service},
        open=service.open,
        close=service.close,
    )


def _reject(request: Request, error: AidreError) -> ASGIApp | None:
    """Every answer of an intake echoes the session in the body."""
    return reject(error) if request.scope["path"].startswith("/intakes/") else None
