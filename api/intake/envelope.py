"""The envelope of Agent Intake: what a submission or a bind comes to, and every refusal, as the protocol says them."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import orjson
from starlette.requests import Request
from starlette.responses import Response

from aidre.api.refusals import Overdue, Overloaded, Refusal
from aidre.api.wire import JSON, note_refusal
from aidre.engine.errors import AidreError

logger = logging.getLogger("aidre")

VERSION: Final = "0.1.0"
Code: TypeAlias = Literal[
    "INVALID_INPUT",
    "SCHEMA_MISMATCH",
    "BIND_INCOMPLETE",
    "UNAUTHORIZED",
    "OFFER_NOT_FOUND",
    "OFFER_ALREADY_BOUND",
    "OFFER_EXPIRED",
    "RATE_LIMITED",
    "INTERNAL_ERROR",
    "SERVICE_UNAVAILABLE",
]
STATUS: Mapping[Code, int] = {
    "INVALID_INPUT": 400,
    "SCHEMA_MISMATCH": 400,
    "BIND_INCOMPLETE": 400,
    "UNAUTHORIZED": 401,
    "OFFER_NOT_FOUND": 404,
    "OFFER_ALREADY_BOUND": 409,
    "OFFER_EXPIRED": 410,
    "RATE_LIMITED": 429,
    "INTERNAL_ERROR": 500,
    "SERVICE_UNAVAILABLE": 503,
}
CODES: Mapping[int, Code] = {
    401: "UNAUTHORIZED",
    429: "RATE_LIMITED",
    500: "INTERNAL_ERROR",
    503: "SERVICE_UNAVAILABLE",
}
"""Of what is refused outside the protocol's own rules; every other status is INVALID_INPUT."""
RETRY_SECONDS = "5"


class IntakeRefusal(AidreError):
    """An error response. `headers` go out with it."""

    def __init__(self, refused: Code, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.refused: Code = refused
        self.headers = dict(headers or {})


def invalid(message: str) -> IntakeRefusal:
    return IntakeRefusal("INVALID_INPUT", message)


def unavailable(message: str) -> IntakeRefusal:
    return IntakeRefusal("SERVICE_UNAVAILABLE", message, {"Retry-After": RETRY_SECONDS})


def remember_session(request: Request, value: Any) -> None:
    """Has every answer to this request echo the session, if it is one."""
    if isinstance(value, str) and as_uuid(value) is not None:
        request.scope["state"]["session_id"] = value


def as_uuid(text: str) -> uuid.UUID | None:
    """The UUID in its usual spelling, in letters of any case."""
    try:
        found = uuid.UUID(text)
    except ValueError:
        return None
    return found if str(found) == text.lower() else None


def respond(session: str, status: str, **members: Any) -> Response:
    """An answer of 200."""
    body = orjson.dumps({"aip_version": VERSION, "session_id": session, "status": status, **members})
    return Response(body, 200, {"Cache-Control": "no-store"}, JSON)


def refuse(request: Request, error: AidreError) -> Response:
    """The error envelope; where no session could be read, it gets one of its own."""
    status, code, message, headers = _said(error)
    note_refusal(request, code)
    session = request.scope["state"].get("session_id") or str(uuid.uuid4())
    said = {"code": code, "message": message}
    body = orjson.dumps({"aip_version": VERSION, "session_id": session, "status": "error", "error": said})
    return Response(body, status, {"Cache-Control": "no-store", **headers}, JSON)


def _said(error: AidreError) -> tuple[int, Code, str, dict[str, str]]:
    if isinstance(error, IntakeRefusal):
        return STATUS[error.refused], error.refused, error.message, error.headers
    if isinstance(error, Overloaded | Overdue) or (isinstance(error, Refusal) and error.status != 503):
        return error.status, CODES.get(error.status, "INVALID_INPUT"), error.message, error.headers
    # Whatever the engine or the disk refuses is the operator's business: an agent asked by the rules until here.
    logger.error("an intake is unavailable: %s", error)
    gone = unavailable("this service is unavailable at the moment: try again later")
    return 503, gone.refused, gone.message, gone.headers
