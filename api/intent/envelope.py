"""What an answer looks like: ok, denied or error, signed as soon as it is known with whom one speaks.

A denial is a decision of the publisher and an error a technical failure; neither ever carries content.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import orjson
from starlette.requests import Request
from starlette.responses import Response

from aidre.api.guard.refusals import RateLimited, Unauthorized
from aidre.api.intent.signing import rfc3339, sign
from aidre.api.refusals import Refusal
from aidre.api.wire import JSON, note_refusal
from aidre.engine.errors import AidreError, StorageFailed

logger = logging.getLogger("aidre")

VERSIONS = ("0.1", "1.0")
DEFAULT_VERSION = VERSIONS[0]
CHALLENGE = 'AIP-HMAC-SHA256 realm="aip"'
UNAVAILABLE = (503, "service_unavailable")
CACHE = {"Cache-Control": "no-store"}

Reason: TypeAlias = Literal["out_of_scope", "access_disabled", "policy_violation", "rate_limited", "unsupported"]


@dataclass(slots=True)
class Conversation:
    """What is known so far of whom one answers and what. `secret` is empty until the signature was verified."""

    path: str = ""
    version: str = DEFAULT_VERSION
    key_id: str = ""
    secret: str = field(default="", repr=False)
    request_id: str = field(default_factory=lambda: "req_" + secrets.token_urlsafe(12))


class Denied(Refusal):
    """A consent decision."""

    status = 200
    code = "denied"

    def __init__(self, reason: Reason, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message, headers)
        self.reason = reason


class AuthenticationFailed(Refusal):
    """It never says why: an unknown key looks like a wrong signature."""

    status = 401
    code = "auth_failed"

    def __init__(self) -> None:
        super().__init__("the request is not signed as this publisher demands", {"WWW-Authenticate": CHALLENGE})


class NoResults(Refusal):
    status = 200
    code = "no_results"


class TooLate(Refusal):
    status = 200
    code = "latency_budget_exceeded"


def conversation_of(request: Request) -> Conversation:
    state = request.scope["state"]
    found: Conversation | None = state.get("intent")
    if found is None:
        found = state["intent"] = Conversation()
    return found


def respond(
    request: Request, status: int, content: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> Response:
    """An answer of this conversation, signed where its partner is known."""
    known, now = conversation_of(request), time.time()
    body = orjson.dumps(content)
    signed: Mapping[str, str] = {}
    if known.secret:
        signed = sign(known.secret, known.key_id, known.version, status=status, path=known.path, body=body, now=now)
    return Response(body, status, {**CACHE, **(headers or {}), **signed}, JSON)


def head_of(request: Request, status: str, now: str) -> dict[str, Any]:
    """The members that every answer has."""
    known = conversation_of(request)
    return {"aip_version": known.version, "request_id": known.request_id, "timestamp": now, "status": status}


def refuse(request: Request, error: AidreError) -> Response:
    """A denial or an error."""
    now = rfc3339(time.time())
    if isinstance(error, AuthenticationFailed):
        conversation_of(request).secret = ""  # a replay had the right signature, but nothing is signed for it
    if isinstance(error, Denied | RateLimited):
        reason: Reason = error.reason if isinstance(error, Denied) else "rate_limited"
        note_refusal(request, reason)
        denial = {"reason": reason, "message": error.message}
        return respond(request, error.status, {**head_of(request, "denied", now), "denial": denial}, error.headers)
    status, code, message, headers = _said(error)
    note_refusal(request, code)
    failed = {"code": code, "message": message}
    return respond(request, status, {**head_of(request, "error", now), "error": failed}, headers)


def _said(error: AidreError) -> tuple[int, str, str, Mapping[str, str]]:
    if isinstance(error, Unauthorized):
        return error.status, AuthenticationFailed.code, error.message, error.headers
    if isinstance(error, Refusal):
        return error.status, error.code, error.message, error.headers
    # Whatever the engine refuses is not the partner's doing: what was asked is checked before.
    logger.error("%s", error)
    what = "receipts cannot be kept" if isinstance(error, StorageFailed) else "this cannot be served"
    return *UNAVAILABLE, f"{what} at the moment: try again later", {"Retry-After": "5"}
