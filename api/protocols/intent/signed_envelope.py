"""The answers of Agentic Intent: ok, denied or error, signed for every authenticated partner.

A denial is a decision of the publisher, an error a technical failure; neither carries content.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypedDict

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from aidre.api.http import JSON, ClosedMessage, HttpError, RateLimited, Unauthorized, note_error_code
from aidre.api.protocols.intent.hmac_signing import format_rfc3339, sign_response
from aidre.api.protocols.intent.intent_messages import IntentDenial, IntentFault, RetrieveAnswer, Version
from aidre.engine.errors import AidreError, StorageFailed

logger = logging.getLogger("aidre")

DEFAULT_VERSION: Version = "0.1"
CHALLENGE = 'AIP-HMAC-SHA256 realm="aip"'
UNAVAILABLE = (503, "service_unavailable")
NO_STORE = {"Cache-Control": "no-store"}

Reason: TypeAlias = Literal["out_of_scope", "access_disabled", "policy_violation", "rate_limited", "unsupported"]


@dataclass(slots=True)
class RequestContext:
    """The partner and the request, as far as they have been read. `secret` is empty until the signature is verified."""

    path: str = ""
    version: Version = DEFAULT_VERSION
    key_id: str = ""
    secret: str = field(default="", repr=False)
    request_id: str = field(default_factory=lambda: "req_" + secrets.token_urlsafe(12))


class Denied(HttpError):
    """The publisher does not consent to this access."""

    status = 200
    code = "denied"

    def __init__(self, reason: Reason, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message, headers)
        self.reason = reason


class AuthenticationFailed(HttpError):
    """Gives no reason: an unknown key must look like a wrong signature."""

    status = 401
    code = "auth_failed"

    def __init__(self) -> None:
        super().__init__("the request is not signed as this publisher demands", {"WWW-Authenticate": CHALLENGE})


class NoResults(HttpError):
    status = 200
    code = "no_results"


class LatencyBudgetExceeded(HttpError):
    status = 200
    code = "latency_budget_exceeded"


def context_of(request: Request) -> RequestContext:
    """The context of a request, created on first use."""
    state = request.scope["state"]
    context: RequestContext | None = state.get("intent")
    if context is None:
        context = state["intent"] = RequestContext()
    return context


def respond(
    request: Request, status: int, content: ClosedMessage, headers: Mapping[str, str] | None = None
) -> Response:
    """The answer to a request, signed if its partner is authenticated."""
    context, now = context_of(request), time.time()
    body = msgspec.json.encode(content)
    signed: Mapping[str, str] = {}
    if context.secret:
        signed = sign_response(
            context.secret, context.key_id, context.version, status=status, path=context.path, body=body, now=now
        )
    return Response(body, status, {**NO_STORE, **(headers or {}), **signed}, JSON)


class EnvelopeMembers(TypedDict):
    version: Version
    request_id: str
    timestamp: str


def envelope_members(request: Request, now: float) -> EnvelopeMembers:
    """The members of every answer."""
    context = context_of(request)
    return {"version": context.version, "request_id": context.request_id, "timestamp": format_rfc3339(now)}


def refuse(request: Request, error: AidreError) -> Response:
    """The denial or error for an exception."""
    members = envelope_members(request, time.time())
    if isinstance(error, AuthenticationFailed):
        context_of(request).secret = ""  # a replay has a valid signature; its answer must not be signed all the same
    if isinstance(error, Denied | RateLimited):
        reason: Reason = error.reason if isinstance(error, Denied) else "rate_limited"
        note_error_code(request, reason)
        denial = IntentDenial(reason=reason, message=error.message)
        denied = RetrieveAnswer(**members, status="denied", denial=denial)
        return respond(request, error.status, denied, error.headers)
    status, code, message, headers = _describe(error)
    note_error_code(request, code)
    failed = RetrieveAnswer(**members, status="error", error=IntentFault(code=code, message=message))
    return respond(request, status, failed, headers)


def _describe(error: AidreError) -> tuple[int, str, str, Mapping[str, str]]:
    if isinstance(error, Unauthorized):
        return error.status, AuthenticationFailed.code, error.message, error.headers
    if isinstance(error, HttpError):
        return error.status, error.code, error.message, error.headers
    # The request was validated before the engine saw it: any other error is the publisher's.
    logger.error("%s", error)
    fault = "receipts cannot be kept" if isinstance(error, StorageFailed) else "this cannot be served"
    return *UNAVAILABLE, f"{fault} at the moment: try again later", {"Retry-After": "5"}
