"""Checks of the Agent Intake Protocol 0.1.0: manifest, intake, offer and bind."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from aidre_conformance import (
    JSON,
    Checks,
    Exchange,
    NotTestable,
    Target,
    expect,
    expect_shape,
    is_loopback,
    is_timestamp,
    require,
    shape_problem,
    shown,
)

CHECKS = Checks("intake", "Agent Intake 0.1.0")
WELL_KNOWN = "agent-intake.json"
STRING, OBJECT, BOOLEAN = {"type": "string", "minLength": 1}, {"type": "object"}, {"type": "boolean"}
URI = {"type": "string", "format": "uri"}
CODES = {
    "INVALID_INPUT": 400,
    "SCHEMA_MISMATCH": 400,
    "RATE_LIMITED": 429,
    "SERVICE_UNAVAILABLE": 503,
    "OFFER_EXPIRED": 410,
    "OFFER_NOT_FOUND": 404,
    "BIND_INCOMPLETE": 400,
    "INTERNAL_ERROR": 500,
}
MANIFEST = {
    "type": "object",
    "required": ["aip_version", "provider", "intakes"],
    "properties": {
        "aip_version": {"type": "string", "pattern": r"^\d+\.\d+\.\d+$"},
        "provider": {
            "type": "object",
            "required": ["name", "url"],
            "properties": {
                "name": STRING,
                "url": URI,
                "description": {"type": "string"},
                "logo": URI,
                "contact_email": {"type": "string", "format": "email"},
            },
        },
        "intakes": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": [
                    "id",
                    "name",
                    "description",
                    "endpoint",
                    "method",
                    "input_schema",
                    "offer_type",
                    "binding_available",
                ],
                "properties": {
                    "id": {"type": "string", "pattern": "^[a-z0-9-]+$"},
                    "name": {"type": "string"},
                    "description": {"type": "string"},
                    "endpoint": URI,
                    "method": {"const": "POST"},
                    "category": {"type": "string", "pattern": "^[a-z0-9]+/[a-z_-]+$"},
                    "input_schema": OBJECT,
                    "offer_type": {"type": "string"},
                    "binding_available": BOOLEAN,
                    "requires_auth": BOOLEAN,
                    "privacy": OBJECT,
                    "rate_limit": OBJECT,
                },
            },
        },
        "certification": OBJECT,
    },
}
RESPONSE = {
    "type": "object",
    "required": ["aip_version", "session_id", "status"],
    "properties": {
        "aip_version": {"type": "string"},
        "session_id": {"type": "string", "format": "uuid"},
        "status": {"enum": ["offer", "declined", "error", "pending"]},
        "offer": {
            "type": "object",
            "required": ["id", "summary"],
            "properties": {
                "id": STRING,
                "summary": STRING,
                "details": OBJECT,
                "expires": {"type": "string", "format": "date-time"},
                "bind_endpoint": URI,
                "bind_requires": {"type": "array", "items": {"type": "string"}},
                "terms_url": URI,
            },
        },
        "decline_reason": {"type": "string"},
        "error": {"type": "object", "required": ["code", "message"], "properties": {"code": STRING, "message": STRING}},
        "metadata": OBJECT,
    },
}
MAX_DEPTH = 8
"""Of schemas inside schemas, for which data are invented."""
BIND_DATA = {
    "email": "jane@example.com",
    "full_name": "Jane Doe",
    "phone": "+1 555 0100",
    "company": "Example Corp",
    "address": {"street": "1 Main St", "city": "Springfield", "state": "IL", "postal_code": "62701", "country": "US"},
}
"""Invented values for what a bind may require."""


# -- facts -----------------------------------------------------------------------------------------------------------


def manifest(target: Target) -> dict[str, Any]:
    """The manifest. NotTestable without one."""

    def read() -> dict[str, Any]:
        answer = target.well_known(WELL_KNOWN)
        require(answer.status == 200, f"{answer.name}: there is no manifest")
        return answer.object

    return target.once("manifest", read)


def intakes(target: Target) -> list[dict[str, Any]]:
    listed = manifest(target).get("intakes")
    require(isinstance(listed, list) and listed, "the manifest has no intakes")
    return [intake for intake in listed or () if isinstance(intake, dict) and isinstance(intake.get("endpoint"), str)]


def intake(target: Target, name: str | None = None) -> dict[str, Any]:
    """The intake with that id; by default that of the fixtures, else the first that needs no key."""
    wanted = name or target.fixtures.intake
    found = [
        intake for intake in intakes(target) if wanted in {None, intake.get("id")} and not intake.get("requires_auth")
    ]
    require(found, f"there is no intake {shown(wanted)} that needs no key")
    return found[0]


def data(target: Target, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Intake data that follow the schema: those of the fixtures where they do, else invented."""
    schema = chosen.get("input_schema", {})
    fixture = target.fixtures.intake_data
    if fixture is not None and shape_problem(fixture, schema) is None:
        return fixture
    made = _invented(schema)
    problem = shape_problem(made, schema)
    require(isinstance(made, dict) and problem is None, f"data for {chosen.get('id')} cannot be invented: {problem}")
    return dict(made)


def _invented(schema: Any, depth: int = 0) -> Any:
    """A value for a JSON Schema, as an agent would fill in a form: only what is required."""
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return "an example"
    stated = [schema[name] for name in ("const", "default") if name in schema]
    stated += [schema[name][0] for name in ("enum", "examples") if schema.get(name)]
    if stated:
        return stated[0]
    for name in ("anyOf", "oneOf"):
        if schema.get(name):
            return _invented(schema[name][0], depth + 1)
    return _of_type(schema, depth)


def _of_type(schema: Mapping[str, Any], depth: int) -> Any:
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        members = schema.get("properties", {})
        return {name: _invented(members.get(name, {}), depth + 1) for name in schema.get("required", ())}
    if kind == "array":
        return [_invented(schema.get("items", {}), depth + 1) for _ in range(schema.get("minItems", 0))]
    if kind in {"integer", "number"}:
        return schema.get("minimum", schema.get("maximum", 1))
    return {"boolean": True, "null": None}.get(kind, _text(schema))


def _text(schema: Mapping[str, Any]) -> str:
    formats = {
        "email": "jane@example.com",
        "date": "2026-03-01",
        "uri": "https://example.com/",
        "uuid": str(uuid.UUID(int=4, version=4)),
        "date-time": "2026-03-01T00:00:00Z",
    }
    text = formats.get(str(schema.get("format")), "an example")
    return text.ljust(int(schema.get("minLength", 0)), ".")[: schema.get("maxLength")]


def request(intake_data: Any, **changes: Any) -> dict[str, Any]:
    return {
        "aip_version": "0.1.0",
        "agent": {"id": "conformance", "consent_scope": ["intake", "offer", "bind"]},
        "intake_data": intake_data,
        "session_id": str(uuid.uuid4()),
        **changes,
    }


def submit(target: Target, chosen: Mapping[str, Any], body: Any) -> Exchange:
    return target.send("POST", chosen["endpoint"], {"content-type": JSON, "accept": JSON}, orjson.dumps(body))


def offered(target: Target, name: str | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """A new request and its response with an offer. NotTestable where none is made."""
    chosen = intake(target, name)
    sent = request(data(target, chosen))
    answer = submit(target, chosen, sent)
    require(answer.status == 200 and answer.object.get("status") == "offer", f"{answer.name}: {shown(answer.object)}")
    return sent, answer.object


def bindable(target: Target, name: str | None = None) -> tuple[str, dict[str, Any]]:
    """The address and the body of a bind of a new offer."""
    sent, body = offered(target, name)
    offer = body["offer"]
    require(isinstance(offer.get("bind_endpoint"), str), "the offer cannot be bound")
    fixture = target.fixtures.bind_data or {}
    required = offer.get("bind_requires", [])
    bind_data = {name: fixture.get(name, BIND_DATA.get(name, "an example")) for name in required}
    agent = {"id": "conformance", "consent_scope": ["intake", "offer", "bind"]}
    bind = {"offer_id": offer["id"], "session_id": sent["session_id"], "bind_data": bind_data, "agent": agent}
    return offer["bind_endpoint"], bind


def expect_error(answer: Exchange, code: str | None = None, *others: str) -> None:
    """An error with its status and the envelope; of one of these codes where some are named."""
    expect(400 <= answer.status < 500, f"{answer.name}, expected a refusal")
    body = answer.object
    error = body.get("error")
    expect(body.get("status") == "error" and isinstance(error, dict), f"{answer.name}: {shown(body)} is not an error")
    found = error.get("code") if isinstance(error, dict) else None
    expect(code is None or found in {code, *others}, f"{answer.name}: code is {shown(found)}, expected {code}")
    if found in CODES:
        expect(answer.status == CODES[found], f"{answer.name} with {found}, expected {CODES[found]}")


# -- discover --------------------------------------------------------------------------------------------------------


@CHECKS.add("Stage 1", "MUST", "The provider MUST respond with a valid manifest and Content-Type: application/json.")
def _manifest(target: Target) -> None:
    document = manifest(target)
    answer = target.well_known(WELL_KNOWN)
    expect(answer.media_type == JSON, f"{answer.name} as {answer.media_type}")
    expect_shape(document, MANIFEST, "manifest")


@CHECKS.add("Intake object", "MUST", "id: Unique ID.")
def _unique_ids(target: Target) -> None:
    ids = [declared.get("id") for declared in intakes(target)]
    expect(len(set(ids)) == len(ids), f"the ids are {shown(ids)}")


@CHECKS.add("Intake object", "MUST", "input_schema: JSON Schema for the intake_data payload.")
def _schemas(target: Target) -> None:
    for declared in intakes(target):
        schema = declared.get("input_schema")
        expect(isinstance(schema, dict) and schema, f"{declared.get('id')}: input_schema is {shown(schema)}")
        shape_problem({}, schema or {})


@CHECKS.add("Transport", "MUST", "HTTPS is required in production.")
def _https(target: Target) -> None:
    for declared in intakes(target):
        url = declared["endpoint"]
        expect(url.startswith("https://") or is_loopback(url), f"the endpoint of {declared.get('id')} is {shown(url)}")


@CHECKS.add("Transport", "SHOULD", "CORS: browser-based agents can read the manifest.")
def _cors(target: Target) -> None:
    manifest(target)
    url = f"{target.origin}/.well-known/{WELL_KNOWN}"
    origin = "https://agent.example" if not target.is_loopback else f"{target.origin}"
    answer = target.get(url, origin=origin)
    allowed = answer.header("access-control-allow-origin")
    expect(allowed in {"*", origin}, f"Access-Control-Allow-Origin is {shown(allowed)} for {origin}")


# -- submit and offer ------------------------------------------------------------------------------------------------


@CHECKS.add(
    "Stage 3",
    "MUST",
    "The provider processes the intake and returns a soft-contract offer.",
    reading="each intake answers data that follow its schema, with one of the four statuses",
)
def _submit(target: Target) -> None:
    tested = False
    for declared in intakes(target):
        if declared.get("requires_auth"):
            continue
        answer = submit(target, declared, request(data(target, declared)))
        tested = True
        expect(answer.status == 200, f"{answer.name}, expected 200: {shown(answer.object)}")
        expect_shape(answer.object, RESPONSE, answer.name)
        expect(answer.media_type == JSON, f"{answer.name} as {answer.media_type}")
        is_given = target.fixtures.intake_data is not None and declared.get("id") == target.fixtures.intake
        status = answer.object.get("status")
        expect(not is_given or status == "offer", f"{answer.name}: {status} for the fixtures that make an offer")
    require(tested, "each intake needs a key")


@CHECKS.add("Offer Response Schema", "MUST", "session_id: Echoed from the request.")
def _session_id(target: Target) -> None:
    chosen = intake(target)
    for sent in (request(data(target, chosen)), request({"5b1f": None})):
        body = submit(target, chosen, sent).object
        expect(body.get("session_id") == sent["session_id"], f"session_id is {shown(body.get('session_id'))}")


@CHECKS.add(
    "Offer Response Schema",
    "MUST",
    "offer: Required when status is offer. decline_reason: Present when status "
    "is declined. error: Present when status is error.",
)
def _members_by_status(target: Target) -> None:
    chosen = intake(target)
    bodies = [submit(target, chosen, request(data(target, chosen))).object]
    bodies.append(submit(target, chosen, request({"5b1f": None})).object)
    if target.fixtures.declined_intake:
        other = intake(target, target.fixtures.declined_intake)
        bodies.append(submit(target, other, request(data(target, other))).object)
    members = {"offer": "offer", "declined": "decline_reason", "error": "error"}
    for body in bodies:
        own = members.get(str(body.get("status")))
        for member in members.values():
            if member == own:
                expect(member in body, f"status is {body['status']} and there is no {member}")
            else:
                expect(member not in body, f"status is {shown(body.get('status'))} and there is {member}")


@CHECKS.add("Stage 3", "MUST", "declined: The provider cannot serve this intake. A decline_reason is provided.")
def _declined(target: Target) -> None:
    chosen = intake(target, target.fixture("declined_intake"))
    answer = submit(target, chosen, request(data(target, chosen)))
    expect(answer.status == 200, f"{answer.name}, expected 200")
    expect(answer.object.get("status") == "declined", f"status is {shown(answer.object.get('status'))}")
    expect(isinstance(answer.object.get("decline_reason"), str), "there is no decline_reason")


@CHECKS.add(
    "Offer object",
    "MUST",
    "id, summary (required); expires (date-time); bind_endpoint (URI)",
    reading="an intake with binding names bind_endpoint, bind_requires and expires, and one without names none",
)
def _offer(target: Target) -> None:
    chosen = intake(target)
    offer = offered(target)[1]["offer"]
    names = ("bind_endpoint", "bind_requires", "expires")
    if chosen.get("binding_available"):
        for name in names[:2]:
            expect(name in offer, f"binding is available and the offer has no {name}")
        if "expires" in offer:
            expect(is_timestamp(offer["expires"]), f"expires is {shown(offer['expires'])}")
            ends = datetime.fromisoformat(offer["expires"].upper())
            expect(ends > datetime.now(UTC), f"the offer expired before it was made: {offer['expires']}")
    else:
        for name in names[:2]:
            expect(name not in offer, f"binding is not available and the offer has {name}")


@CHECKS.add("Offer object", "MUST", "id: Unique offer identifier.")
def _unique_offers(target: Target) -> None:
    ids = [offered(target)[1]["offer"]["id"] for _ in range(3)]
    expect(len(set(ids)) == len(ids), f"two offers have the id {shown(ids[0])}")


@CHECKS.add("Error Codes", "MUST", "SCHEMA_MISMATCH 400: intake_data does not conform to the declared input_schema.")
def _schema_mismatch(target: Target) -> None:
    chosen = intake(target)
    schema, plain = chosen["input_schema"], data(target, chosen)
    tested = False
    for wrong in _mismatches(schema, plain):
        if shape_problem(wrong, schema) is None:
            continue
        tested = True
        expect_error(submit(target, chosen, request(wrong)), "SCHEMA_MISMATCH")
    require(tested, "the schema admits everything")


def _mismatches(schema: Mapping[str, Any], plain: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Data that break one rule of the schema each."""
    wrong: list[dict[str, Any]] = [{}]
    for name, rule in schema.get("properties", {}).items():
        wrong += [{**plain, name: [{"5b1f": 1}]}, {**plain, name: "no-such-value-5b1f"}, {**plain, name: None}]
        if name in plain and name in schema.get("required", ()):
            wrong.append({key: value for key, value in plain.items() if key != name})
        if isinstance(rule, dict) and rule.get("enum"):
            wrong.append({**plain, name: f"{rule['enum'][0]}x"})
    return wrong


@CHECKS.add("Error Codes", "MUST", "INVALID_INPUT 400: Request body is malformed or missing required fields.")
def _invalid_input(target: Target) -> None:
    chosen = intake(target)
    for raw in (b"{", b"[]", b'"x"', b"\xff"):
        answer = target.send("POST", chosen["endpoint"], {"content-type": JSON}, raw)
        expect_error(answer, "INVALID_INPUT")
    plain = request(data(target, chosen))
    for name in ("agent", "intake_data", "session_id"):
        body = {key: value for key, value in plain.items() if key != name}
        expect_error(submit(target, chosen, body), "INVALID_INPUT", "SCHEMA_MISMATCH")


@CHECKS.add(
    "Intake Request Schema", "MUST", "session_id: string (UUID), required.", reading="of version 4, as stage 2 shows"
)
def _session_is_a_uuid(target: Target) -> None:
    chosen = intake(target)
    for session in ("x", "", 7, "not-a-uuid-5b1f"):
        expect_error(submit(target, chosen, request(data(target, chosen), session_id=session)))


@CHECKS.add(
    "Agent object",
    "MUST",
    "consent_scope: Authorized scopes: intake, offer, bind, account_creation, payment.",
    reading="an agent without the consent to intake is refused",
)
def _consent(target: Target) -> None:
    chosen = intake(target)
    for scope in ([], ["everything"], ["offer"], None):
        agent = {"id": "conformance"} | ({} if scope is None else {"consent_scope": scope})
        expect_error(submit(target, chosen, request(data(target, chosen), agent=agent)))


@CHECKS.add("Transport", "SHOULD", "Providers accept bodies of 64 KB.")
def _large_body(target: Target) -> None:
    chosen = intake(target)
    sent = request(data(target, chosen), metadata={"x-padding": ""})
    sent["metadata"]["x-padding"] = "x" * (65_536 - len(orjson.dumps(sent)))
    answer = submit(target, chosen, sent)
    expect(answer.status == 200, f"{answer.name} for 65,536 bytes")


# -- bind ------------------------------------------------------------------------------------------------------------


@CHECKS.add("Stage 5", "MUST", "If the user accepts an offer, the agent sends a bind request.")
def _bind(target: Target) -> None:
    url, bind = bindable(target)
    answer = target.post(url, bind)
    expect(200 <= answer.status < 300, f"{answer.name}: {shown(answer.object)}")
    body = answer.object
    expect(body.get("status") not in {"error", "declined"}, f"status is {shown(body.get('status'))}")


@CHECKS.add("Error Codes", "MUST", "BIND_INCOMPLETE 400: bind_data is missing required fields.")
def _bind_incomplete(target: Target) -> None:
    url, bind = bindable(target)
    require(bind["bind_data"], "the offer requires nothing")
    for name in bind["bind_data"]:
        partial = {key: value for key, value in bind["bind_data"].items() if key != name}
        expect_error(target.post(url, {**bind, "bind_data": partial}), "BIND_INCOMPLETE")
    expect_error(target.post(url, {**bind, "bind_data": {}}), "BIND_INCOMPLETE")


@CHECKS.add("Error Codes", "MUST", "OFFER_NOT_FOUND 404: The referenced offer does not exist.")
def _unknown_offer(target: Target) -> None:
    url, bind = bindable(target)
    expect_error(target.post(url, {**bind, "offer_id": str(uuid.uuid4())}), "OFFER_NOT_FOUND")


@CHECKS.add("Bind Request Schema", "MUST", "session_id: Session ID from the original intake.")
def _session_of_the_intake(target: Target) -> None:
    url, bind = bindable(target)
    expect_error(target.post(url, {**bind, "session_id": str(uuid.uuid4())}))


@CHECKS.add("Bind Request Schema", "MUST", "agent: Agent info with bind consent.")
def _bind_consent(target: Target) -> None:
    url, bind = bindable(target)
    for scope in (["intake", "offer"], []):
        expect_error(target.post(url, {**bind, "agent": {"id": "conformance", "consent_scope": scope}}))
    answer = target.post(url, bind)
    expect(200 <= answer.status < 300, f"{answer.name} after refusals: {shown(answer.object)}")


@CHECKS.add("Bind Request Schema", "MUST", "offer_id, session_id, bind_data, agent (required)")
def _malformed_bind(target: Target) -> None:
    url, bind = bindable(target)
    for name in bind:
        expect_error(target.post(url, {key: value for key, value in bind.items() if key != name}))
    expect_error(target.send("POST", url, {"content-type": JSON}, b"{"))


@CHECKS.add(
    "Stage 5",
    "SHOULD",
    "A bind that is sent again does not bind twice.",
    reading="the same bind gets the same answer, and other data are refused",
)
def _bind_twice(target: Target) -> None:
    url, bind = bindable(target)
    first = target.post(url, bind)
    require(200 <= first.status < 300, first.name)
    again = target.post(url, bind)
    expect(again.status < 500, f"{again.name} for the same bind")
    if 200 <= again.status < 300:
        expect(again.object.get("status") == first.object.get("status"), "the same bind gets another status")


@CHECKS.add("Error Codes", "MUST", "OFFER_EXPIRED 410: The referenced offer has expired.")
def _expired(target: Target) -> None:
    url, bind = bindable(target, target.fixture("brief_intake"))
    time.sleep(target.fixtures.brief_seconds + 0.5)
    expect_error(target.post(url, bind), "OFFER_EXPIRED")


@CHECKS.add(
    "Privacy",
    "MUST",
    "PII is handled lawfully.",
    reading="what was bound does not come back in an error, nor to who names the offer",
)
def _no_echo(target: Target) -> None:
    url, bind = bindable(target)
    first = target.post(url, bind)
    require(200 <= first.status < 300, first.name)
    other = target.post(url, {**bind, "session_id": str(uuid.uuid4())})
    values = [value for value in bind["bind_data"].values() if isinstance(value, str) and re.search(r"\W", value)]
    for value in values:
        expect(value.encode() not in other.body, f"{other.name}: it shows what somebody else bound")


@CHECKS.add(
    "Response status codes",
    "SHOULD",
    "429 RATE_LIMITED: Retry after the specified period.",
    reading="a limit is declared with whole numbers",
)
def _rate_limit(target: Target) -> None:
    limits = [declared["rate_limit"] for declared in intakes(target) if isinstance(declared.get("rate_limit"), dict)]
    if not limits:
        raise NotTestable("no intake declares a rate limit")
    for limit in limits:
        for name in ("requests_per_minute", "requests_per_day"):
            value = limit.get(name, 1)
            expect(isinstance(value, int) and value >= 1, f"{name} is {shown(value)}")
