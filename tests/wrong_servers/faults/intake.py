"""Faults of Agent Intake 0.1.0."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from functools import partial
from typing import Any

from tests.wrong_servers.faults.exchange import (
    Answer,
    App,
    Fault,
    Request,
    Transformation,
    on_answer,
    on_json,
    on_request_json,
)
from tests.wrong_servers.faults.fixtures import FIXTURES

MANIFEST, SUBMIT, BIND = "/.well-known/agent-intake.json", "/intakes/", "/intakes/bind"
CODES = "Error Codes"
_fault = partial(Fault, protocol="intake")


def _code(answer: Answer) -> str | None:
    error = answer.json.get("error") if isinstance(answer.json, dict) else None
    return error.get("code") if isinstance(error, dict) else None


def _drop_binding_available(manifest: Any) -> None:
    for intake in manifest["intakes"]:
        intake.pop("binding_available", None)


def _another_session(body: Any) -> None:
    if body["status"] in {"offer", "declined"}:
        body["session_id"] = str(uuid.uuid4())


async def _any_data(request: Request, app: App) -> Answer:
    answer = await app(request)
    if not request.is_for("POST", SUBMIT) or _code(answer) != "SCHEMA_MISMATCH":
        return answer
    return await app(request.with_json({**request.json, "intake_data": dict(FIXTURES.intake_data)}))


async def _any_value_of_an_enum(request: Request, app: App) -> Answer:
    answer = await app(request)
    if not request.is_for("POST", SUBMIT) or _code(answer) != "SCHEMA_MISMATCH":
        return answer
    data = request.json["intake_data"]
    data = {name: value for name, value in data.items() if name != "audience"} if isinstance(data, dict) else data
    return await app(request.with_json({**request.json, "intake_data": data}))


def _blame_input(body: Any) -> None:
    if body["error"].get("code") == "SCHEMA_MISMATCH":
        body["error"]["code"] = "INVALID_INPUT"


async def _complete_bind(request: Request, app: App) -> Answer:
    answer = await app(request)
    if not request.is_for("POST", BIND) or _code(answer) != "BIND_INCOMPLETE":
        return answer
    body = request.json
    return await app(request.with_json({**body, "bind_data": {**dict(FIXTURES.bind_data), **body["bind_data"]}}))


def _bind_expired(answer: Answer) -> Answer:
    asked = answer.request.json
    bound = {
        "aip_version": "0.1.0",
        "session_id": asked["session_id"],
        "status": "bound",
        "offer_id": asked["offer_id"],
        "bound_at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return answer.with_status(200).with_json(bound)


def _any_session() -> Transformation:
    """Binds an offer whatever the session; remembers the session of each offer to ask the application with it."""
    sessions: dict[str, str] = {}

    async def transform(request: Request, app: App) -> Answer:
        body = request.json
        offer = body.get("offer_id") if request.is_for("POST", BIND) and isinstance(body, dict) else None
        if isinstance(offer, str) and offer in sessions and isinstance(body.get("session_id"), str):
            answer = await app(request.with_json({**body, "session_id": sessions[offer]}))
            return answer.with_json({**answer.json, "session_id": body["session_id"]})
        answer = await app(request)
        if request.is_for("POST", SUBMIT) and answer.status == 200 and "offer" in answer.json:
            sessions[answer.json["offer"]["id"]] = answer.json["session_id"]
        return answer

    return transform


def _consent(body: Any) -> None:
    agent = body.get("agent")
    if (
        isinstance(agent, dict)
        and isinstance(agent.get("consent_scope"), list)
        and "bind" not in agent["consent_scope"]
    ):
        agent["consent_scope"] = [*agent["consent_scope"], "bind"]


def _drop_reason(body: Any) -> None:
    body.pop("decline_reason", None)


def _bare(body: Any) -> Any:
    return {"error": body["error"]}


INTAKE_FAULTS = (
    _fault(
        "intake_manifest_as_text",
        level="MUST",
        sentence="The provider MUST respond with a valid manifest (see Manifest Schema) and Content-Type: "
        "application/json.",
        section="Stage 1: Discover",
        transform=on_answer(
            "GET", MANIFEST, lambda answer: answer.with_header("content-type", "text/plain; charset=utf-8"), 200
        ),
    ),
    _fault(
        "intake_without_binding_available",
        level="MUST",
        sentence="binding_available (boolean, required): Whether binding is supported.",
        section="Manifest Schema, Intake object",
        transform=on_json("GET", MANIFEST, _drop_binding_available, 200),
    ),
    _fault(
        "intake_session_not_echoed",
        level="MUST",
        sentence="session_id (string (UUID), required): Echoed from the request.",
        section="Offer Response Schema",
        transform=on_json("POST", SUBMIT, _another_session, 200),
    ),
    _fault(
        "intake_data_not_validated",
        level="definition",
        sentence="intake_data (required): Data conforming to the intake's input_schema (SCHEMA_MISMATCH, 400).",
        section=f"Intake Request Schema, {CODES}",
        transform=_any_data,
    ),
    _fault(
        "intake_enum_not_validated",
        level="definition",
        sentence="SCHEMA_MISMATCH (400): intake_data does not conform to the declared input_schema.",
        section=CODES,
        transform=_any_value_of_an_enum,
    ),
    _fault(
        "intake_mismatch_is_invalid_input",
        level="definition",
        sentence="SCHEMA_MISMATCH: intake_data does not conform to the declared input_schema.",
        section=CODES,
        transform=on_json("POST", SUBMIT, _blame_input, 400),
    ),
    _fault(
        "intake_incomplete_bind",
        level="definition",
        sentence="BIND_INCOMPLETE (400): bind_data is missing required fields (bind_requires: Fields required for "
        "binding).",
        section=f"{CODES}, Offer object",
        transform=_complete_bind,
    ),
    _fault(
        "intake_expired_offer_bound",
        level="definition",
        sentence="OFFER_EXPIRED (410): The referenced offer has expired.",
        section=CODES,
        transform=on_answer("POST", BIND, _bind_expired, 410),
    ),
    _fault(
        "intake_bind_of_another_session",
        level="MUST",
        sentence="session_id (string (UUID), required): Session ID from the original intake.",
        section="Bind Request Schema",
        transform=_any_session(),
    ),
    _fault(
        "intake_bind_without_consent",
        level="MUST",
        sentence="agent (object, required): Agent info with bind consent.",
        section="Bind Request Schema",
        transform=on_request_json("POST", BIND, _consent),
    ),
    _fault(
        "intake_decline_without_reason",
        level="definition",
        sentence="declined: The provider cannot serve this intake. A decline_reason is provided.",
        section="Stage 3: Offer, Response statuses",
        transform=on_json("POST", SUBMIT, _drop_reason, 200),
    ),
    _fault(
        "intake_bare_error",
        level="MUST",
        sentence="aip_version, session_id and status are required in every response.",
        section="Offer Response Schema",
        transform=on_json("POST", SUBMIT, _bare, 400),
    ),
)
