"""JSON Schemas (2020-12) of Agentic Intent's messages, written from its tables; the prose is in them as conditions."""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import Any
from urllib.parse import urlsplit

from jsonschema import Draft202012Validator, FormatChecker

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
ID: Schema = {"type": "string", "minLength": 1}
BOOLEAN: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 0}
LEAST_ONE: Schema = {"type": "integer", "minimum": 1}
TIME: Schema = {"type": "string", "format": "date-time"}
URI: Schema = {"type": "string", "format": "uri"}
VERSION: Schema = {"enum": ["0.1", "1.0"]}
HOSTNAME: Schema = {"type": "string", "format": "hostname"}
DOMAIN: Schema = {"type": "string", "pattern": r"^[a-z0-9]+(\.[a-z0-9-]+)*$"}


def closed(required: str, /, **properties: Schema) -> Schema:
    return {"type": "object", "required": required.split(), "properties": properties, "additionalProperties": False}


def array(items: Schema, least: int = 0) -> Schema:
    return {"type": "array", "items": items, "minItems": least}


EXTENSIONS: Schema = {"type": "object", "propertyNames": {"pattern": r"^[a-z0-9_-]+\.[A-Za-z0-9_.-]+$"}}
RETRIEVAL = closed(
    "supports",
    supports=closed("chunks citations full_article", chunks=BOOLEAN, citations=BOOLEAN, full_article=BOOLEAN),
    max_chunks=LEAST_ONE,
    max_tokens=LEAST_ONE,
)
DECLARATION = closed(
    "aip_version publisher intent_access editorial_domains retrieval compliance",
    **{"$schema": URI},
    **{"aip_version": VERSION},
    publisher=closed(
        "id name domain",
        id={"type": "string", "pattern": "^[a-z0-9_-]{2,64}$"},
        name={"type": "string", "minLength": 1, "maxLength": 128},
        domain=HOSTNAME,
    ),
    intent_access=closed(
        "enabled mode training_use storage_rights",
        enabled=BOOLEAN,
        mode={"enum": ["live_only"]},
        training_use=BOOLEAN,
        storage_rights={"enum": ["none"]},
        state={"enum": ["active", "paused", "disabled"]},
        cache_policy={"enum": ["no_store"]},
    ),
    editorial_domains=array(DOMAIN, 1),
    endpoints=closed(
        "capabilities retrieve event",
        capabilities=closed("method url", method={"enum": ["GET", "POST"]}, url=URI),
        retrieve=closed("method url", method={"enum": ["POST"]}, url=URI, capabilities_ref=STRING),
        event=closed("method url required", method={"enum": ["POST"]}, url=URI, required=BOOLEAN),
    ),
    retrieval=RETRIEVAL,
    compliance=closed(
        "revocable notice_required last_updated",
        revocable=BOOLEAN,
        notice_required=BOOLEAN,
        last_updated={"type": "string", "format": "date"},
        revocation_reason={"enum": ["legal", "policy", "technical"]},
        sunset={"type": ["string", "null"], "format": "date"},
    ),
    extensions=EXTENSIONS,
)
CAPABILITIES = closed("aip_version retrieval", **{"aip_version": VERSION}, retrieval=RETRIEVAL)
RETRIEVE_REQUEST = closed(
    "aip_version request_id timestamp platform intent context runtime",
    **{"aip_version": VERSION},
    request_id=STRING,
    timestamp=TIME,
    platform=closed("id", id=STRING, software=STRING, software_version=STRING),
    intent=closed("domain", domain=DOMAIN, subdomain=DOMAIN, confidence={"type": "number", "minimum": 0, "maximum": 1}),
    context=closed(
        "language",
        language=STRING,
        geography=closed("", country={"type": "string", "pattern": "^[A-Z]{2}$"}),
        placement=STRING,
    ),
    runtime=closed(
        "session_id turn_index", session_id=STRING, turn_index=COUNT, query_text=STRING, latency_budget_ms=COUNT
    ),
    extensions={"type": "object"},
)


def only_when(member: str, status: str) -> Schema:
    """The member is there exactly in answers of that status."""
    return {
        "if": {"properties": {"status": {"const": status}}},
        "then": {"required": [member]},
        "else": {"not": {"required": [member]}},
    }


RETRIEVE_RESPONSE: Schema = {
    **closed(
        "aip_version request_id timestamp status",
        **{"aip_version": VERSION},
        request_id=STRING,
        timestamp=TIME,
        status={"enum": ["ok", "denied", "error"]},
        content=closed("chunks", chunks=array(closed("id text token_count", id=ID, text=STRING, token_count=COUNT), 1)),
        citations=array(
            closed("source_url", source_url=URI, title=STRING, publisher=STRING, chunk_ids=array(STRING, 1))
        ),
        limits_applied=closed("", max_chunks=LEAST_ONE, max_tokens=LEAST_ONE),
        denial=closed(
            "reason",
            reason={"enum": ["out_of_scope", "access_disabled", "policy_violation", "rate_limited", "unsupported"]},
            message=STRING,
        ),
        error=closed("code", code=ID, message=STRING),
        extensions=EXTENSIONS,
    ),
    "allOf": [only_when("content", "ok"), only_when("denial", "denied"), only_when("error", "error")],
}
EVENT: Schema = {
    **closed(
        "aip_version event_id event_type timestamp request_id publisher platform",
        **{"aip_version": VERSION},
        event_id=STRING,
        event_type={"enum": ["access", "citation"]},
        timestamp=TIME,
        request_id=STRING,
        publisher=closed("id domain", id=STRING, domain=HOSTNAME),
        platform=closed("id", id=STRING),
        access=closed(
            "chunks_returned token_count retrieval_mode",
            chunks_returned=COUNT,
            token_count=COUNT,
            retrieval_mode={"enum": ["chunks"]},
        ),
        citation=closed(
            "source_url chunk_ids display_surface",
            source_url=URI,
            chunk_ids=array(STRING, 1),
            display_surface=STRING,
        ),
        extensions={"type": "object"},
    ),
    "if": {"properties": {"event_type": {"const": "access"}}},
    "then": {"required": ["access"], "not": {"required": ["citation"]}},
    "else": {"required": ["citation"], "not": {"required": ["access"]}},
}


def valid(schema: Schema, value: Any) -> None:
    """Raises jsonschema's ValidationError; formats are checked too."""
    Draft202012Validator(schema, format_checker=FORMATS).validate(value)


def _is_time(value: object) -> bool:
    text = str(value)
    datetime.fromisoformat(text)
    return bool(re.fullmatch(r"[0-9-]{10}[Tt][0-9:]{8}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})", text))


def _is_date(value: object) -> bool:
    return value is None or str(date.fromisoformat(str(value))) == value


def _is_uri(value: object) -> bool:
    parts = urlsplit(str(value))
    return bool(parts.scheme) and bool(parts.netloc or parts.path) and str(value).isascii() and " " not in str(value)


def _is_hostname(value: object) -> bool:
    return all(re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?", label) for label in str(value).split("."))


FORMATS = FormatChecker(())
for _name, _check in (("date-time", _is_time), ("date", _is_date), ("uri", _is_uri), ("hostname", _is_hostname)):
    FORMATS.checks(_name, ValueError)(_check)
