"""Agent Intake 0.1.0 over HTTP: the manifest, submissions and binds; served where the configuration has intakes."""

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from aidre.api.access import caller_of
from aidre.api.guard.guard import Guard
from aidre.api.intake import manifest
from aidre.api.intake.envelope import IntakeRefusal, as_uuid, invalid, refuse, remember_session, respond
from aidre.api.intake.schemas import BIND_REQUEST, INTAKE_REQUEST, complaint
from aidre.api.intake.service import BindWish, IntakeService
from aidre.api.refusals import NotFound
from aidre.api.wire import JSON, digest, not_modified, read_object, speaks
from aidre.engine.errors import AidreError

SMALLEST_LIMIT = 65_536
"""Bytes of a body that every provider should take."""
COMPATIBLE = "0.1."
"""What a version begins with that is spoken here: before 1.0 a breaking change bumps the minor version."""


@speaks(refuse)
async def show_manifest(request: Request) -> Response:
    body = orjson.dumps(manifest.document(_service(request).settings))
    etag = f'"{digest(body)}"'
    headers = {"ETag": etag, "Cache-Control": "max-age=300"}
    if not_modified(request, etag, None):
        return Response(status_code=304, headers=headers)
    return Response(body, 200, headers, JSON)


@speaks(refuse)
async def submit(request: Request) -> Response:
    service = _service(request)
    intake = service.intakes.get(request.path_params["id"])
    if intake is None:
        raise NotFound("there is no intake with this id")
    body = await _body(request)  # before anything is refused: also a refusal echoes the session
    caller, guard = caller_of(request), _guard(request)
    if intake.requires_auth and not caller.name:
        challenge = {"WWW-Authenticate": guard.challenge(request.scope["path"])}
        raise IntakeRefusal("UNAUTHORIZED", "this intake needs Authorization: Bearer SECRET", challenge)
    account = guard.account(request.scope, caller)
    await service.take(intake, account)
    _check(INTAKE_REQUEST, body)
    version, session = body["aip_version"], body["session_id"]
    if not version.startswith(COMPATIBLE):
        raise invalid(f"aip_version must be compatible with 0.1.0, not {version[:32]}")
    if _version_of(session) != 4:
        raise invalid("session_id must be a UUID of version 4")
    if "intake" not in body["agent"]["consent_scope"]:
        raise invalid("agent.consent_scope must include intake")
    wrong = complaint(intake.schema, body["intake_data"], "intake_data")
    if wrong is not None:
        raise IntakeRefusal("SCHEMA_MISMATCH", wrong)
    return respond(session, **await service.submit(intake, body["intake_data"], session, account))


@speaks(refuse)
async def bind(request: Request) -> Response:
    body = await _body(request)
    _check(BIND_REQUEST, body)
    if "bind" not in body["agent"]["consent_scope"]:
        raise invalid("agent.consent_scope must include bind: ask the user")
    wish = BindWish(body["offer_id"], body["session_id"], body["bind_data"], body["agent"], body.get("metadata", {}))
    return Response(await _service(request).bind(wish), 200, {"Cache-Control": "no-store"}, JSON)


class TurnedAway:
    """Answers a request that was not let in: its body is read for the session that the answer has to echo."""

    def __init__(self, error: AidreError) -> None:
        self._error = error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        with suppress(AidreError):
            await _body(request)
        await refuse(request, self._error)(scope, receive, send)


async def _body(request: Request) -> dict[str, Any]:
    limit = max(_service(request).settings.limits.body_bytes, SMALLEST_LIMIT)
    body = await read_object(request, frozenset({JSON}), limit)
    remember_session(request, body.get("session_id"))
    try:
        orjson.dumps(body)
    except orjson.JSONEncodeError as error:  # it reads what is nested deeper than it writes
        raise invalid("the body is nested too deep: send less than 250 levels") from error
    return body


def _check(schema: dict[str, Any], body: dict[str, Any]) -> None:
    wrong = complaint(schema, body, "")
    if wrong is None and as_uuid(body["session_id"]) is None:
        wrong = "session_id does not fit its schema: format (uuid)"
    if wrong is not None:
        raise invalid(wrong)


def _version_of(session: str) -> int | None:
    found = as_uuid(session)
    return None if found is None or found.variant != uuid.RFC_4122 else found.version


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
