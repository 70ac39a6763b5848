"""Checks of the Agentic Intent Protocol 0.1: citation events that a platform sends to a publisher."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import orjson

from aidre_conformance import JSON, Checks, Exchange, Target, expect, shown
from aidre_conformance.checks.intent import address, declaration, granted, send_signed, signer

CHECKS = Checks("intent", "Agentic Intent 0.1")


def event(target: Target, **changes: Any) -> dict[str, Any]:
    """A citation of what was granted, with other members."""
    sent, answer = granted(target)
    publisher = declaration(target)["publisher"]
    citation: dict[str, Any] = next(iter(answer.object.get("citations", ())), {})
    ids = citation.get("chunk_ids") or [answer.object["content"]["chunks"][0]["id"]]
    return {
        "aip_version": "0.1",
        "event_id": f"evt_{uuid.uuid4().hex}",
        "event_type": "citation",
        "timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "request_id": sent["request_id"],
        "publisher": {"id": publisher["id"], "domain": publisher["domain"]},
        "platform": sent["platform"],
        "citation": {
            "source_url": citation.get("source_url", "https://example.com/"),
            "chunk_ids": ids[:1],
            "display_surface": "answer",
        },
        **changes,
    }


def post_event(target: Target, body: Any, *, signed: bool = True) -> Exchange:
    url, content = address(target, "event"), orjson.dumps(body)
    fields = signer(target).fields("POST", url, content) if signed else {"content-type": JSON}
    return send_signed(target, url, content, fields)


@CHECKS.add(
    "Required emission rules",
    "SHOULD",
    "Platforms SHOULD emit citation events when citations are shown.",
    reading="so the publisher takes one",
)
def _event(target: Target) -> None:
    answer = post_event(target, event(target))
    expect(200 <= answer.status < 300, f"{answer.name} for a citation event: {shown(answer.object)}")


@CHECKS.add("Event, Schema summary", "MUST", "request_id (required): request_id from the associated RetrieveRequest.")
def _event_about_nothing(target: Target) -> None:
    answer = post_event(target, event(target, request_id="req_no_such_request"))
    expect(400 <= answer.status < 500, f"{answer.name} for an unknown request_id, expected a refusal")


@CHECKS.add(
    "Event, Schema summary",
    "MUST",
    "citation (required when event_type is citation): source_url, chunk_ids, display_surface.",
)
def _event_without_citation(target: Target) -> None:
    plain = event(target)
    for body in (
        {name: plain[name] for name in plain if name != "citation"},
        {**plain, "citation": {}},
        {name: plain[name] for name in plain if name != "event_id"},
        {**plain, "event_type": "click"},
    ):
        answer = post_event(target, body)
        expect(400 <= answer.status < 500, f"{answer.name} for {shown(body)}, expected a refusal")


@CHECKS.add(
    "Event, What this schema intentionally avoids",
    "MUST",
    "impressions, clicks, dwell time, CPM / CPX, advertiser data, user identifiers, engagement scoring",
)
def _event_of_a_user(target: Target) -> None:
    answer = post_event(target, event(target, user={"id": "u1"}, clicks=3))
    expect(400 <= answer.status < 500, f"{answer.name} for an event with clicks and a user, expected a refusal")


@CHECKS.add("Signing", "MUST", "Events are signed as requests are.")
def _unsigned_event(target: Target) -> None:
    answer = post_event(target, event(target), signed=False)
    expect(answer.status in {401, 403}, f"{answer.name} for an event without a signature, expected 401 or 403")
