"""Agent Intake 0.1.0 over HTTP: the manifest, submissions and binds; served if the configuration has intakes.

The operations of Agent Intake for the OpenAPI document.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args

import msgspec
import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from aidre.api.access import Guard, caller_of
from aidre.api.config import RATE_PERIODS, OfferedIntake, Rate, schema_violation
from aidre.api.http import (
    JSON,
    BodyContent,
    NotFound,
    Operation,
    Parameter,
    Rejection,
    cacheable_response,
    link,
    read_message,
    read_object,
    renders_errors_with,
)
from aidre.api.protocols.intake import offers
from aidre.api.protocols.intake.intake_envelope import Code, IntakeError, invalid, refuse, respond, set_session
from aidre.api.protocols.intake.intake_messages import (
    BindAnswer,
    BindRequest,
    IntakeAnswer,
    IntakeFailure,
    IntakeManifest,
    IntakeRequest,
    Scope,
)
from aidre.api.protocols.intake.service import Acceptance, IntakeService
from aidre.api.retrieval import Retrieval
from aidre.api.server import Mounted
from aidre.engine.errors import AidreError

MIN_BODY_LIMIT_BYTES = 65_536
"""The protocol asks every provider to accept bodies of this size, even if `body_bytes` is less."""


@renders_errors_with(refuse)
async def show_manifest(request: Request) -> Response:
    content = offers.build_manifest(_service(request).settings)
    return cacheable_response(request, msgspec.json.encode(content), "max-age=300")


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
    await _charge(guard, intake, account)
    submission = read_message(body, IntakeRequest, refuse_member)
    check_consent(submission.agent.consent_scope, "intake")
    fault = schema_violation(intake.schema, submission.intake_data, "intake_data")
    if fault is not None:
        raise IntakeError("SCHEMA_MISMATCH", fault)
    session = str(submission.session_id)
    return respond(await service.submit(intake, submission.intake_data, session, account))


@renders_errors_with(refuse)
async def bind(request: Request) -> Response:
    body = await _read_body(request)
    check_consent(read_message(body, BindRequest, refuse_member).agent.consent_scope, "bind")
    metadata = body.get("metadata", {})
    acceptance = Acceptance(body["offer_id"], body["session_id"], body["bind_data"], body["agent"], metadata)
    return Response(await _service(request).bind(acceptance), 200, {"Cache-Control": "no-store"}, JSON)


def refuse_member(message: str, missing: Sequence[str] = (), member: str = "", **details: object) -> IntakeError:
    return invalid(f"missing required field: {missing[0]}" if missing else message)


def check_consent(scope: Sequence[Scope], needed: Scope) -> None:
    """Raises IntakeError."""
    if len(set(scope)) < len(scope):
        raise invalid("agent.consent_scope must name each scope once")
    if needed not in scope:
        raise invalid(f"agent.consent_scope must include {needed}: ask the user")


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


async def _charge(guard: Guard, intake: OfferedIntake, account: str) -> None:
    """Charge a submission to each limit of the intake. Raises IntakeError."""
    charges = [
        (f"intake {intake.id} {member} {account}", Rate(count, RATE_PERIODS[member]))
        for member, count in intake.rate_limit.items()
    ]
    wait = await guard.spend(charges)
    if wait:
        raise IntakeError(
            "RATE_LIMITED", f"too many requests: come again in {wait} seconds", {"Retry-After": str(wait)}
        )


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


# -- in the application ----------------------------------------------------------------------------------------


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
    """The answer to a request that the middleware rejected: it echoes the session_id of the body, as every other."""
    return Rejection(error, _read_body, refuse) if request.scope["path"].startswith("/intakes/") else None


_operation = partial(Operation, tag="Agent Intake", error=BodyContent(IntakeFailure, description="An error"))

OPERATIONS: tuple[Operation, ...] = (
    _operation(
        method="get",
        path=WELL_KNOWN,
        name="showIntakes",
        summary="The manifest of intakes",
        description="The provider and its intakes: what each takes, and what comes of it.",
        answers={200: BodyContent(IntakeManifest)},
        errors=(500,),
        conditional=True,
    ),
    _operation(
        method="post",
        path="/intakes/bind",
        name="bindOffer",
        summary="Accept an offer",
        description="The same data get the same answer again, also after the offer has expired.",
        request=BodyContent(BindRequest),
        answers={200: BodyContent(BindAnswer)},
        errors=(400, 404, 408, 409, 410, 413, 415, 500),
    ),
    _operation(
        method="post",
        path="/intakes/{id}",
        name="submitIntake",
        summary="Submit data and get an offer",
        description="The data fit the input_schema of the intake. Where nothing relevant is found, it is declined.",
        request=BodyContent(IntakeRequest),
        answers={200: BodyContent(IntakeAnswer)},
        errors=(400, 404, 408, 413, 415, 500),
        parameters=(Parameter("id", "path", "The id of an intake", "find-a-plumber"),),
        links={
            "bind": link(
                "bindOffer",
                "Accept the offer: `offer_id` is `offer.id` of this answer, `session_id` is its own; agent and "
                "bind_data come from the user, whose consent has the scope bind",
            )
        },
    ),
)
