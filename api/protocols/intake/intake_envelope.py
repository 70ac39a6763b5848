"""The envelope of Agent Intake: answers to submissions and binds, and errors."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from aidre.api.http import JSON, DeadlineExceeded, HttpError, Overloaded, note_error_code
from aidre.api.protocols.intake.intake_messages import IntakeAnswer, IntakeFailure, IntakeFault, parse_uuid
from aidre.engine.errors import AidreError

logger = logging.getLogger("aidre")

PROTOCOL_VERSION: Final = "0.1.0"
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
CODE_BY_STATUS: Mapping[int, Code] = {
    401: "UNAUTHORIZED",
    429: "RATE_LIMITED",
    500: "INTERNAL_ERROR",
    503: "SERVICE_UNAVAILABLE",
}
"""Codes for errors outside the protocol's own rules; every other status becomes INVALID_INPUT."""
RETRY_SECONDS = "5"


class IntakeError(AidreError):
    """An error with a code of the protocol. `headers` are sent with it."""

    def __init__(self, error_code: Code, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.error_code: Code = error_code
        self.headers = dict(headers or {})


def invalid(message: str) -> IntakeError:
    return IntakeError("INVALID_INPUT", message)


def unavailable(message: str) -> IntakeError:
    return IntakeError("SERVICE_UNAVAILABLE", message, {"Retry-After": RETRY_SECONDS})


def set_session(request: Request, value: Any) -> None:
    """Make every answer to this request echo the session id, if `value` is a UUID."""
    if isinstance(value, str) and parse_uuid(value) is not None:
        request.scope["state"]["session_id"] = value


def respond(answer: IntakeAnswer) -> Response:
    """A successful answer (200)."""
    return Response(msgspec.json.encode(answer), 200, {"Cache-Control": "no-store"}, JSON)


def refuse(request: Request, error: AidreError) -> Response:
    """The error envelope; a request without a valid session id is answered with a new one."""
    status, code, message, headers = _describe(error)
    note_error_code(request, code)
    session = request.scope["state"].get("session_id") or str(uuid.uuid4())
    fault = IntakeFault(code=code, message=message)
    content = IntakeFailure(version=PROTOCOL_VERSION, session_id=session, status="error", error=fault)
    return Response(msgspec.json.encode(content), status, {"Cache-Control": "no-store", **headers}, JSON)


def _describe(error: AidreError) -> tuple[int, Code, str, dict[str, str]]:
    if isinstance(error, IntakeError):
        return STATUS[error.error_code], error.error_code, error.message, error.headers
    if isinstance(error, Overloaded | DeadlineExceeded) or (isinstance(error, HttpError) and error.status != 503):
        return error.status, CODE_BY_STATUS.get(error.status, "INVALID_INPUT"), error.message, error.headers
    # The request was valid: an error of the engine or the disk concerns the operator.
    logger.error("an intake is unavailable: %s", error)
    fault = unavailable("this service is unavailable at the moment: try again later")
    return 503, fault.error_code, fault.message, fault.headers
