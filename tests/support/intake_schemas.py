"""JSON Schemas of Agent Intake 0.1.0, written from the tables of its specification; an independent library checks
them. Nothing here comes from the server."""

from __future__ import annotations

from typing import Any

from jsonschema import Draft202012Validator

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
NAMED: Schema = {"type": "string", "minLength": 1}
URI: Schema = {"type": "string", "format": "uri", "pattern": "^https?://[^ ]+$"}
TIME: Schema = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$"}
VERSION: Schema = {"type": "string", "pattern": r"^\d+\.\d+\.\d+$"}
SESSION: Schema = {"type": "string", "pattern": "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"}
BOOLEAN: Schema = {"type": "boolean"}
AT_LEAST_ONE: Schema = {"type": "integer", "minimum": 1}


def closed(required: list[str], **properties: Schema) -> Schema:
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


INTAKE = closed(
    ["id", "name", "description", "endpoint", "method", "input_schema", "offer_type", "binding_available"],
    id={"type": "string", "pattern": "^[a-z0-9-]+$"},
    name=TEXT,
    description=TEXT,
    endpoint=URI,
    method={"enum": ["POST"]},
    category={"type": "string", "pattern": "^[a-z]+/[a-z_]+$"},
    input_schema={"type": "object"},
    offer_type=TEXT,
    binding_available=BOOLEAN,
    requires_auth=BOOLEAN,
    privacy=closed(
        [],
        data_retention={"enum": ["none", "session", "30_days", "1_year", "indefinite"]},
        pii_required=BOOLEAN,
        redacted_acceptable=BOOLEAN,
    ),
    rate_limit=closed([], requests_per_minute=AT_LEAST_ONE, requests_per_day=AT_LEAST_ONE),
)
MANIFEST = closed(
    ["aip_version", "provider", "intakes"],
    **{"aip_version": VERSION},
    provider=closed(["name", "url"], name=NAMED, url=URI, description=TEXT, logo=URI, contact_email={"type": "string"}),
    intakes={"type": "array", "minItems": 1, "items": INTAKE},
    certification=closed(
        [],
        registry=URI,
        certified=BOOLEAN,
        cert_id={"type": "string", "pattern": r"^aip-cert-\d{4}-\d{5}$"},
        expires={"type": "string", "format": "date"},
    ),
)
OFFER = closed(
    ["id", "summary"],
    id=NAMED,
    summary=TEXT,
    details={"type": "object"},
    expires=TIME,
    bind_endpoint=URI,
    bind_requires={"type": "array", "items": TEXT},
    terms_url=URI,
)
ANSWER = closed(
    ["aip_version", "session_id", "status"],
    **{"aip_version": VERSION},
    session_id=SESSION,
    status={"enum": ["offer", "declined", "error", "pending"]},
    offer=OFFER,
    decline_reason=TEXT,
    error=closed(["code", "message"], code={"type": "string", "pattern": "^[A-Z][A-Z_]+$"}, message=NAMED),
    metadata={"type": "object"},
)
# Stricter than the table: each of the three stands there exactly when the status says so.
ANSWER["allOf"] = [
    {
        "if": {"properties": {"status": {"const": status}}},
        "then": {"required": [member]},
        "else": {"properties": {member: False}},
    }
    for status, member in (("offer", "offer"), ("declined", "decline_reason"), ("error", "error"))
]
BOUND = closed(
    ["aip_version", "session_id", "status", "offer_id", "bound_at"],
    **{"aip_version": VERSION},
    session_id=SESSION,
    status={"const": "bound"},
    offer_id=NAMED,
    bound_at=TIME,
)


def check(schema: Schema, value: Any) -> None:
    """Raises jsonschema's ValidationError."""
    Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(value)
