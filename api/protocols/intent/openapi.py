"""The OpenAPI description of Agentic Intent's routes. The protocol's specification remains normative."""

from __future__ import annotations

from typing import Any

from aidre.api.config import DOMAIN, HOSTNAME, PUBLISHER_ID, Limits
from aidre.api.http import JSON
from aidre.api.protocols.intent.discovery import CAPABILITIES, EVENTS, RETRIEVE, WELL_KNOWN
from aidre.api.protocols.intent.envelope import VERSIONS
from aidre.api.protocols.intent.messages import MAX_ID_CHARS, MAX_URL_CHARS
from aidre.api.protocols.intent.signing import (
    KEY_ID_FIELD,
    NONCE_FIELD,
    NONCE_PATTERN,
    SIGNATURE_FIELD,
    TIMESTAMP_FIELD,
    VERSION_FIELD,
)

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
ID: Schema = {"type": "string", "maxLength": MAX_ID_CHARS}
NONBLANK_ID: Schema = {**ID, "pattern": r"\S"}
URI: Schema = {"type": "string", "format": "uri"}
TIME: Schema = {"type": "string", "format": "date-time"}
BOOLEAN: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 0}
AT_LEAST_ONE: Schema = {"type": "integer", "minimum": 1}
PROTOCOL_VERSION: Schema = {"enum": list(VERSIONS)}
EDITORIAL_DOMAIN: Schema = {"type": "string", "pattern": f"^{DOMAIN.pattern}$"}
HOST: Schema = {"type": "string", "pattern": f"^{HOSTNAME.pattern.replace('(?=.{1,253}' + chr(92) + 'Z)', '')}$"}
"""Without the look-ahead for the length: the patterns of OpenAPI (ECMA 262) know no `\\Z`."""
REASONS = ["out_of_scope", "access_disabled", "policy_violation", "rate_limited", "unsupported"]


def _closed(required: list[str], /, **properties: Schema) -> Schema:
    """A schema of an object without further members, as all of this protocol are but `extensions`."""
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _list(items: Schema, min_items: int = 0) -> Schema:
    return {"type": "array", "items": items, "minItems": min_items}


EXTENSIONS: Schema = {"type": "object"}
SUPPORTS = _closed(["chunks", "citations", "full_article"], chunks=BOOLEAN, citations=BOOLEAN, full_article=BOOLEAN)
RETRIEVAL = _closed(["supports"], supports=SUPPORTS, max_chunks=AT_LEAST_ONE, max_tokens=AT_LEAST_ONE)
DECLARATION = _closed(
    ["aip_version", "publisher", "intent_access", "editorial_domains", "retrieval", "compliance"],
    **{"$schema": URI},
    **{"aip_version": {"enum": list(VERSIONS)}},
    publisher=_closed(
        ["id", "name", "domain"],
        id={"type": "string", "pattern": f"^{PUBLISHER_ID.pattern}$"},
        name={"type": "string", "minLength": 1, "maxLength": 128},
        domain=HOST,
    ),
    intent_access=_closed(
        ["enabled", "mode", "training_use", "storage_rights"],
        enabled=BOOLEAN,
        mode={"enum": ["live_only"]},
        training_use=BOOLEAN,
        storage_rights={"enum": ["none"]},
        state={"enum": ["active", "paused", "disabled"]},
        cache_policy={"enum": ["no_store"]},
    ),
    editorial_domains=_list(EDITORIAL_DOMAIN, 1),
    endpoints=_closed(
        ["capabilities", "retrieve", "event"],
        capabilities=_closed(["method", "url"], method={"enum": ["GET", "POST"]}, url=URI),
        retrieve=_closed(["method", "url"], method={"const": "POST"}, url=URI, capabilities_ref=STRING),
        event=_closed(["method", "url", "required"], method={"const": "POST"}, url=URI, required=BOOLEAN),
    ),
    retrieval=_ref("IntentRetrieval"),
    compliance=_closed(
        ["revocable", "notice_required", "last_updated"],
        revocable=BOOLEAN,
        notice_required=BOOLEAN,
        last_updated={"type": "string", "format": "date"},
        revocation_reason={"enum": ["legal", "policy", "technical"]},
        sunset={"type": ["string", "null"], "format": "date"},
    ),
    extensions=EXTENSIONS,
)
ENVELOPE: Schema = {"aip_version": PROTOCOL_VERSION, "request_id": STRING, "timestamp": TIME}


def _answer(status: str, *required: str, **properties: Schema) -> Schema:
    return _closed([*ENVELOPE, "status", *required], **ENVELOPE, status={"const": status}, **properties)


CONTENT = _closed(["chunks"], chunks=_list(_closed(["id", "text"], id=STRING, text=STRING, token_count=COUNT), 1))
CITATION = _closed(["source_url"], source_url=URI, title=STRING, publisher=STRING, chunk_ids=_list(STRING))


def schemas(limits: Limits) -> Schema:
    """The component schemas that the paths refer to."""
    text = {"type": "string", "maxLength": limits.query_chars}
    request = _closed(
        ["aip_version", "request_id", "timestamp", "platform", "intent", "context", "runtime"],
        **{"aip_version": PROTOCOL_VERSION},
        request_id=ID,
        timestamp=TIME,
        platform=_closed(["id"], id=ID, software=ID, software_version=ID),
        intent=_closed(
            ["domain"],
            domain=EDITORIAL_DOMAIN,
            subdomain=EDITORIAL_DOMAIN,
            confidence={"type": "number", "minimum": 0, "maximum": 1},
        ),
        context=_closed(
            ["language"],
            language={"type": "string", "description": "a language tag of BCP 47"},
            geography=_closed([], country={"type": "string", "pattern": "^[A-Z]{2}$"}),
            placement=ID,
        ),
        runtime=_closed(
            ["session_id", "turn_index"], session_id=ID, turn_index=COUNT, query_text=text, latency_budget_ms=COUNT
        ),
        extensions=EXTENSIONS,
    )
    event = _closed(
        ["aip_version", "event_id", "event_type", "timestamp", "request_id", "publisher", "platform", "citation"],
        **{"aip_version": PROTOCOL_VERSION},
        event_id=NONBLANK_ID,
        event_type={"const": "citation"},
        timestamp=TIME,
        request_id=NONBLANK_ID,
        publisher=_closed(["id", "domain"], id=ID, domain=HOST),
        platform=_closed(["id"], id=NONBLANK_ID),
        citation=_closed(
            ["source_url", "chunk_ids", "display_surface"],
            source_url={**URI, "maxLength": MAX_URL_CHARS},
            chunk_ids=_list({**NONBLANK_ID, "maxLength": MAX_URL_CHARS}, 1),
            display_surface=NONBLANK_ID,
        ),
        extensions=EXTENSIONS,
    )
    return {
        "IntentDeclaration": DECLARATION,
        "IntentRetrieval": RETRIEVAL,
        "IntentCapabilities": _closed(
            ["aip_version", "retrieval"], **{"aip_version": PROTOCOL_VERSION}, retrieval=_ref("IntentRetrieval")
        ),
        "RetrieveRequest": request,
        "RetrieveOk": _answer(
            "ok",
            "content",
            content=CONTENT,
            citations=_list(CITATION),
            limits_applied=_closed([], max_chunks=AT_LEAST_ONE, max_tokens=AT_LEAST_ONE),
        ),
        "RetrieveDenied": _answer(
            "denied", "denial", denial=_closed(["reason"], reason={"enum": REASONS}, message=STRING)
        ),
        "IntentError": _answer("error", "error", error=_closed(["code"], code=STRING, message=STRING)),
        "CitationEvent": event,
        "EventKept": _answer("ok", "event_id", event_id=STRING),
    }


def paths() -> Schema:
    """The path items of the four routes."""
    errors = (400, 401, 408, 413, 415, 422, 500, 503)
    answers = {"anyOf": [_ref(name) for name in ("RetrieveOk", "RetrieveDenied", "IntentError")]}
    return {
        WELL_KNOWN: {
            "get": _discovery_operation(
                "declareIntent", "The publisher's declaration (Agentic Intent)", "IntentDeclaration"
            )
        },
        CAPABILITIES: {
            "get": _discovery_operation("showCapabilities", "The capabilities of retrieval", "IntentCapabilities")
        },
        RETRIEVE: {
            "post": _signed_operation(
                "retrieve",
                "Passages within a declared domain",
                "RetrieveRequest",
                {"200": _response("The answer", answers)},
                errors,
            )
        },
        EVENTS: {
            "post": _signed_operation(
                "reportCitation",
                "Report a citation of returned passages",
                "CitationEvent",
                {
                    "202": _response("Recorded", _ref("EventKept")),
                    "200": _response("Recorded before", _ref("EventKept")),
                },
                (*errors, 404, 409),
            )
        },
    }


def _response(description: str, schema: Schema) -> Schema:
    return {"description": description, "content": {JSON: {"schema": schema}}}


def _discovery_operation(name: str, summary: str, schema: str) -> Schema:
    responses = {
        "200": _response("The answer", _ref(schema)),
        "304": {"description": "The caller has it already"},
        "500": _response("An error", _ref("IntentError")),
    }
    return {"operationId": name, "summary": summary, "responses": responses}


def _signed_operation(name: str, summary: str, body: str, answers: Schema, errors: tuple[int, ...]) -> Schema:
    parameters = [
        {"name": field, "in": "header", "required": True, "schema": schema}
        for field, schema in (
            (VERSION_FIELD, PROTOCOL_VERSION),
            (KEY_ID_FIELD, STRING),
            (TIMESTAMP_FIELD, TIME),
            (NONCE_FIELD, {"type": "string", "pattern": f"^{NONCE_PATTERN.pattern}$"}),
            (SIGNATURE_FIELD, {"type": "string", "pattern": "^v1=[A-Za-z0-9+/]{43}=$"}),
        )
    ]
    responses = answers | {str(status): _response("An error", _ref("IntentError")) for status in errors}
    responses["429"] = _response("Too many requests", _ref("RetrieveDenied"))
    return {
        "operationId": name,
        "summary": summary,
        "parameters": parameters,
        "requestBody": {"required": True, "content": {JSON: {"schema": _ref(body)}}},
        "responses": responses,
    }
