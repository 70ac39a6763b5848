"""Faults of Agentic Intent 0.1. Answers that are changed are signed anew: only the named fault is wrong with them."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from tests.support.intent_platform import FIELDS, timestamp
from tests.wrong_servers.faults.exchange import (
    Answer,
    App,
    Fault,
    Request,
    in_turn,
    on_answer,
    on_json,
    on_request,
)

DECLARATION, CAPABILITIES = "/.well-known/aip.json", "/aip/capabilities"
RETRIEVE, EVENTS = "/aip/retrieve", "/aip/events"
RESPONSE, EVENT, SIGNING = "RetrieveResponse", "Access and Citation Events", "Message signing"
_fault = partial(Fault, protocol="intent")


def _another_request_id(body: Any) -> None:
    body["request_id"] = "req_" + hashlib.sha256(body["request_id"].encode()).hexdigest()[:16]


def _add_denial(body: Any) -> None:
    if body["status"] == "ok":
        body["denial"] = {"reason": "rate_limited", "message": "This was the last answer for now."}


def _lower_limit(body: Any) -> None:
    """One less than the server keeps to, in the declaration and in the limits that it says it applied."""
    for limits in (body.get("retrieval"), body.get("limits_applied")):
        if limits is not None:
            limits["max_chunks"] -= 1


def _cite_another(body: Any) -> None:
    if body.get("citations"):
        body["citations"][0]["chunk_ids"].append("never-returned#chunk_1")


def _cite_paths(body: Any) -> None:
    for citation in body.get("citations", ()):
        citation["source_url"] = urlsplit(citation["source_url"]).path


def _hyphenate(body: Any) -> None:
    if "denial" in body:
        body["denial"]["reason"] = body["denial"]["reason"].replace("_", "-")


async def _any_domain(request: Request, app: App) -> Answer:
    body = request.json
    intent = body.get("intent") if request.is_for("POST", RETRIEVE) and isinstance(body, dict) else None
    if not isinstance(intent, dict):
        return await app(request)
    asked = replace(request, method="GET", target=DECLARATION.encode(), body=b"")
    declared = (await app(asked)).json["editorial_domains"]
    if any(f"{intent.get('domain')}.".startswith(f"{domain}.") for domain in declared):
        return await app(request)
    return await app(request.with_json({**body, "intent": {**intent, "domain": declared[0]}}))


def _priced(body: Any) -> None:
    if body["status"] == "ok":
        body["extensions"] = {"example.pricing": {"cpm": 12.5, "currency": "USD"}}


def _accepted(answer: Answer) -> Answer:
    event = answer.request.json
    kept = {
        "aip_version": event["aip_version"],
        "request_id": event["request_id"],
        "timestamp": timestamp(),
        "status": "ok",
        "event_id": event["event_id"],
    }
    return answer.with_status(202).with_json(kept)


def _accept_empty_citation(answer: Answer) -> Answer:
    event = answer.request.json
    is_known = isinstance(event, dict) and {"aip_version", "request_id", "event_id", "event_type"} <= set(event)
    is_empty = is_known and event["event_type"] == "citation" and "citation" not in event
    return _accepted(answer) if is_empty else answer


def _sign_request_body(answer: Answer) -> Answer:
    return answer.signed_over(answer.request.body)


def _trust(request: Request) -> Request:
    """A signature has to be there, and is not looked at."""
    return request.resigned() if all(request.header(name) for name in FIELDS) else request


INTENT_FAULTS = (
    _fault(
        "intent_request_id_not_echoed",
        level="definition",
        sentence="request_id: Echoes the request_id from the corresponding RetrieveRequest.",
        section=f"{RESPONSE}, Schema summary",
        transform=on_json("POST", RETRIEVE, _another_request_id, 200),
    ),
    _fault(
        "intent_content_beside_denial",
        level="MUST",
        sentence="A response MUST NOT include both content and denial.",
        section=f"{RESPONSE}, Status handling",
        transform=on_json("POST", RETRIEVE, _add_denial, 200),
    ),
    _fault(
        "intent_more_chunks_than_declared",
        level="MUST",
        sentence="Returned chunks MUST respect max_chunks and max_tokens from publisher policy.",
        section=f"{RESPONSE}, Content rules",
        transform=in_turn(
            on_json("POST", RETRIEVE, _lower_limit, 200),
            in_turn(
                on_json("GET", DECLARATION, _lower_limit, 200),
                on_json("GET", CAPABILITIES, _lower_limit, 200),
            ),
        ),
    ),
    _fault(
        "intent_citation_of_another_chunk",
        level="MUST",
        sentence="Citations MUST reference returned chunks.",
        section=f"{RESPONSE}, Citation rules",
        transform=on_json("POST", RETRIEVE, _cite_another, 200),
    ),
    _fault(
        "intent_citation_of_a_path",
        level="MUST",
        sentence="Citations MUST be truthful and canonical (source_url: Canonical URL of the cited source. Required).",
        section=f"{RESPONSE}, Citation rules",
        transform=on_json("POST", RETRIEVE, _cite_paths, 200),
    ),
    _fault(
        "intent_denial_reason_of_its_own",
        level="definition",
        sentence="Denial reasons (canonical): out_of_scope, access_disabled, policy_violation, rate_limited, "
        "unsupported.",
        section=f"{RESPONSE}, Denial reasons",
        transform=on_json("POST", RETRIEVE, _hyphenate, 200),
    ),
    _fault(
        "intent_any_domain_served",
        level="definition",
        sentence="out_of_scope: Intent not in editorial_domains.",
        section=f"{RESPONSE}, Denial reasons",
        transform=_any_domain,
    ),
    _fault(
        "intent_pricing_in_extensions",
        level="MUST",
        sentence="It MUST NOT return: any advertising or pricing metadata.",
        section=f"{RESPONSE}, Purpose",
        transform=on_json("POST", RETRIEVE, _priced, 200),
    ),
    _fault(
        "intent_event_about_nothing",
        level="MUST",
        sentence="request_id (required): request_id from the associated RetrieveRequest.",
        section=f"{EVENT}, Schema summary",
        transform=on_answer("POST", EVENTS, _accepted, 404),
    ),
    _fault(
        "intent_citation_event_without_citation",
        level="MUST",
        sentence="citation (required when event_type is citation): source_url, chunk_ids, display_surface.",
        section=f"{EVENT}, Schema summary",
        transform=on_answer("POST", EVENTS, _accept_empty_citation, 422),
    ),
    _fault(
        "intent_signature_over_the_request",
        level="MUST",
        sentence="A response is signed as a request is, with the status code in place of the method and over the "
        "hash of the response's body.",
        section=SIGNING,
        transform=on_answer("POST", RETRIEVE, _sign_request_body, 200),
    ),
    _fault(
        "intent_signature_not_checked",
        level="MUST",
        sentence="A publisher verifies the signature over method, path, body hash, timestamp and nonce, and refuses "
        "a request whose signature does not hold.",
        section=SIGNING,
        transform=on_request("POST", RETRIEVE, _trust),
    ),
)
