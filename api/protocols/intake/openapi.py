"""The OpenAPI description of Agent Intake's routes. The protocol's specification remains normative."""

from __future__ import annotations

import re
from typing import Any

from aidre.api.config import BIND_REQUEST, INTAKE_REQUEST
from aidre.api.http import JSON
from aidre.api.protocols.intake.routes import COMPATIBLE_PREFIX, WELL_KNOWN

Schema = dict[str, Any]

_HEX = "[0-9a-fA-F]"
STRING: Schema = {"type": "string"}
URI: Schema = {"type": "string", "format": "uri"}
TIME: Schema = {"type": "string", "format": "date-time"}
SESSION: Schema = {"type": "string", "format": "uuid"}
COMPATIBLE_VERSION: Schema = {"type": "string", "pattern": f"^{re.escape(COMPATIBLE_PREFIX)}[0-9]+$"}
NEW_SESSION: Schema = {
    "type": "string",
    "pattern": f"^{_HEX}{{8}}-{_HEX}{{4}}-4{_HEX}{{3}}-[89abAB]{_HEX}{{3}}-{_HEX}{{12}}$",
}
"""A UUID of version 4; a bind repeats one that was accepted."""
OBJECT: Schema = {"type": "object"}
BOOLEAN: Schema = {"type": "boolean"}
AT_LEAST_ONE: Schema = {"type": "integer", "minimum": 1}


def _object(required: list[str], **properties: Schema) -> Schema:
    return {"type": "object", "required": required, "properties": properties}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _answer(status: str, **members: Schema) -> Schema:
    return _object(
        ["aip_version", "session_id", "status", *members],
        session_id=SESSION,
        status={"const": status},
        **{"aip_version": STRING, **members},
    )


DECLARED_INTAKE = _object(
    ["id", "name", "description", "endpoint", "method", "input_schema", "offer_type", "binding_available"],
    id=STRING,
    name=STRING,
    description=STRING,
    endpoint=URI,
    method={"const": "POST"},
    category=STRING,
    input_schema=OBJECT,
    offer_type=STRING,
    binding_available=BOOLEAN,
    requires_auth=BOOLEAN,
    privacy=_object(
        [],
        data_retention={"enum": ["none", "session", "30_days", "1_year", "indefinite"]},
        pii_required=BOOLEAN,
        redacted_acceptable=BOOLEAN,
    ),
    rate_limit=_object([], requests_per_minute=AT_LEAST_ONE, requests_per_day=AT_LEAST_ONE),
)
OFFER = _object(
    ["id", "summary", "details"],
    id=STRING,
    summary=STRING,
    details=_object(
        ["items"],
        items={
            "type": "array",
            "items": _object(
                ["id", "score"], id=STRING, title=STRING, url=STRING, text=STRING, score={"type": "number"}
            ),
        },
    ),
    expires=TIME,
    bind_endpoint=URI,
    bind_requires={"type": "array", "items": STRING},
    terms_url=URI,
)


def _with(schema: Schema, **properties: Schema) -> Schema:
    """The schema with some of its properties replaced."""
    return {**schema, "properties": {**schema["properties"], **properties}}


def _require_consent(scope: str, request: Schema) -> Schema:
    """The schema of a request, requiring `scope` in its consent_scope."""
    agent = request["properties"]["agent"]
    consent = {**agent["properties"]["consent_scope"], "contains": {"const": scope}}
    return _with(request, agent=_with(agent, consent_scope=consent))


def schemas() -> Schema:
    """The component schemas that the paths refer to."""
    return {
        "IntakeManifest": _object(
            ["aip_version", "provider", "intakes"],
            provider=_object(["name", "url"], name=STRING, url=URI),
            intakes={"type": "array", "minItems": 1, "items": DECLARED_INTAKE},
            **{"aip_version": STRING},
        ),
        "IntakeRequest": _require_consent(
            "intake", _with(INTAKE_REQUEST, session_id=NEW_SESSION, **{"aip_version": COMPATIBLE_VERSION})
        ),
        "IntakeOffer": _answer("offer", offer=OFFER),
        "IntakeDecline": _answer("declined", decline_reason=STRING),
        "IntakeAnswer": {"anyOf": [_ref("IntakeOffer"), _ref("IntakeDecline")]},
        "BindRequest": _require_consent("bind", BIND_REQUEST),
        "BindAnswer": _answer("bound", offer_id=STRING, bound_at=TIME),
        "IntakeError": _answer("error", error=_object(["code", "message"], code=STRING, message=STRING)),
    }


def paths() -> Schema:
    """The path items of the manifest, submissions and binds."""
    id = {"name": "id", "in": "path", "required": True, "schema": STRING}
    manifest = _operation("showIntakes", "The manifest of intakes (Agent Intake)", "IntakeManifest", (500,))
    manifest["responses"]["304"] = {"description": "The caller has it already"}
    submit = _operation(
        "submitIntake",
        "Submit data and get an offer (Agent Intake)",
        "IntakeAnswer",
        (400, 401, 404, 408, 413, 415, 429, 500, 503),
        "IntakeRequest",
    )
    bind = _operation(
        "bindOffer",
        "Accept an offer (Agent Intake)",
        "BindAnswer",
        (400, 404, 408, 409, 410, 413, 415, 500, 503),
        "BindRequest",
    )
    submit["responses"]["200"]["links"] = {
        "bind": {
            "operationId": "bindOffer",
            "description": "Accept the offer; agent and bind_data come from the user",
            "requestBody": {
                "offer_id": "$response.body#/offer/id",
                "session_id": "$response.body#/session_id",
                "agent": {"id": "$request.body#/agent/id", "consent_scope": ["bind"]},
                "bind_data": {},
            },
        }
    }
    return {
        WELL_KNOWN: {"get": manifest},
        "/intakes/bind": {"post": bind},
        "/intakes/{id}": {"post": {**submit, "parameters": [id]}},
    }


def _operation(name: str, summary: str, answer: str, errors: tuple[int, ...], body: str | None = None) -> Schema:
    responses: Schema = {"200": {"description": "The answer", "content": {JSON: {"schema": _ref(answer)}}}}
    for status in errors:
        responses[str(status)] = {"description": "An error", "content": {JSON: {"schema": _ref("IntakeError")}}}
    operation: Schema = {"operationId": name, "summary": summary, "responses": responses}
    if body is not None:
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": _ref(body)}}}
    return operation
