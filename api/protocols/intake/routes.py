"""Agent Intake 0.1.0 over HTTP: the manifest, submissions and binds; served if the configuration has intakes."""

from __future__ import annotations

import uuid
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from aidre.api.access import Guard, caller_of
from aidre.api.config import BIND_REQUEST, INTAKE_REQUEST, schema_violation
from aidre.api.http import JSON, NotFound, Rejection, cacheable_answer, read_object, renders_errors_with
from aidre.api.protocols.intake import manifest
from aidre.api.protocols.intake.envelope import IntakeError, invalid, parse_uuid, refuse, respond, set_session
from aidre.api.protocols.intake.service import BindRequest, IntakeService
from aidre.engine.errors import AidreError

MIN_BODY_LIMIT_BYTES = 65_536
"""The protocol asks every provider to accept bodies of this size, even if `body_bytes` is less."""
COMPATIBLE_PREFIX = "0.1."
"""The prefix of compatible versions: before 1.0 a breaking change bumps the minor version."""


@renders_errors_with(refuse)
async def show_manifest(request: Request) -> Response:
    return cacheable_answer(request, orjson.dumps(manifest.build_manifest(_service(request).settings)), "max-age=300")


@renders_errors_with(refuse)
async def submit(request: Request) -> Response:
    service = _service(request)
    intake = service.intakes.get(request.path_params["id"])
    if intake is None:
        raise NotFound("there is no intake with this id")
    body = await _read_body(request)  # before any error, since an error has to echo the session as well
    caller, guard = caller_of(request), _guard(request)
    if intake.requires_auth and not caller.name:
        challenge = {"WWW-Authenticate": guard.challenge(request.scope["path"])}
        raise IntakeError("UNAUTHORIZED", "this intake needs Authorization: Bearer SECRET", challenge)
    account = guard.account(request.scope, caller)
    await service.count_submission(intake, account)
    _check_schema(INTAKE_REQUEST, body)
    version, session = body["aip_version"], body["session_id"]
    if not version.startswith(COMPATIBLE_PREFIX):
        raise invalid(f"aip_version must be compatible with 0.1.0, not {version[:32]}")
    if _uuid_version(session) != 4:
        raise invalid("session_id must be a UUID of version 4")
    if "intake" not in body["agent"]["consent_scope"]:
        raise invalid("agent.consent_scope must include intake")
    fault = schema_violation(intake.schema, body["intake_data"], "intake_data")
    if fault is not None:
        raise IntakeError("SCHEMA_MISMATCH", fault)
    return respond(session, **await service.submit(intake, body["intake_data"], session, account))


@renders_errors_with(refuse)
async def bind(request: Request) -> Response:
    body = await _read_body(request)
    _check_schema(BIND_REQUEST, body)
    if "bind" not in body["agent"]["consent_scope"]:
        raise invalid("agent.consent_scope must include bind: ask the user")
    metadata = body.get("metadata", {})
    bind_request = BindRequest(body["offer_id"], body["session_id"], body["bind_data"], body["agent"], metadata)
    return Response(await _service(request).bind(bind_request), 200, {"Cache-Control": "no-store"}, JSON)


def reject(error: AidreError) -> ASGIApp:
    """The answer to a request that the middleware rejected; it echoes the session_id of the body."""
    return Rejection(error, _read_body, refuse)


async def _read_body(request: Request) -> dict[str, Any]:
    """The JSON object of the body. Every later answer echoes its session_id, if valid."""
    limit = max(_service(request).settings.limits.body_bytes, MIN_BODY_LIMIT_BYTES)
    body = await read_object(request, frozenset({JSON}), limit)
    set_session(request, body.get("session_id"))
    try:
        orjson.dumps(body)
    except orjson.JSONEncodeError as error:  # orjson reads deeper nesting than it writes
        raise invalid("the body is nested too deep: send less than 250 levels") from error
    return body


def _check_schema(schema: dict[str, Any], body: dict[str, Any]) -> None:
    fault = schema_violation(schema, body, "")
    if fault is None and parse_uuid(body["session_id"]) is None:
        fault = "session_id does not fit its schema: format (uuid)"
    if fault is not None:
        raise invalid(fault)


def _uuid_version(text: str) -> int | None:
    parsed = parse_uuid(text)
    return None if parsed is None or parsed.variant != uuid.RFC_4122 else parsed.version


def _guard(request: Request) -> Guard:
    guard: Guard = request.app.state.guard
    return guard


def _service(request: Request) -> IntakeService:
    service: IntakeService = request.app.state.intake
    return service


WELL_KNOWN = "/.well-known/agent-intake.json"

routes = [
    Route(WELL_KNOWN, show_manifest, methods=["GET"]),
    Route("/intakes/bind", bind, methods=["POST"]),
    Route("/intakes/{id}", submit, methods=["POST"]),
]
