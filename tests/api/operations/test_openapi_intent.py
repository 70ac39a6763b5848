"""The OpenAPI document against live exchanges of Agentic Intent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from aidre.api.protocols.intent import intent_routes
from tests.support import publishers
from tests.support.clients import Client
from tests.support.intent_platform import Platform
from tests.support.publishers import publishing

store = publishers.store


@pytest.mark.slow
def test_the_description_covers_every_exchange(store: Path) -> None:
    with publishing(store) as (client, platform):
        described = client.get("/openapi.json").json()
        paths = {
            route.path: {method.lower() for method in route.methods or () if method != "HEAD"}
            for route in intent_routes.routes
        }
        assert {path: set(described["paths"][path]) for path in paths} == paths
        for schema in described["components"]["schemas"].values():
            Draft202012Validator.check_schema(schema)
        for sent, path in exchanges(client, platform):
            stated = described["paths"][path]["post" if path in POSTED else "get"]["responses"][str(sent[0])]
            schema = stated["content"]["application/json"]["schema"]
            Draft202012Validator({**schema, "components": described["components"]}).validate(json.loads(sent[2]))
        discovered = client.get("/.well-known/ai-discovery").json()
        assert discovered["endpoints"]["intent"] == "http://127.0.0.1:8000/.well-known/aip.json"


POSTED = {"/aip/retrieve", "/aip/events"}


def exchanges(client: Client, platform: Platform) -> list[tuple[Any, str]]:
    answer = platform.retrieve()
    event = platform.citation(answer)
    shown = [(client.get(path), path) for path in ("/.well-known/aip.json", "/aip/capabilities")]
    posted: list[tuple[str, Any]] = [
        ("/aip/retrieve", platform.request()),
        ("/aip/retrieve", platform.request(domain="sports")),
        ("/aip/retrieve", {}),
        ("/aip/retrieve", b"{"),
        ("/aip/events", event),
        ("/aip/events", event),
        ("/aip/events", {**event, "event_type": "access"}),
        ("/aip/events", {**event, "request_id": "none"}),
    ]
    unsigned = client.request("POST", "/aip/retrieve")
    return [
        *(((response.status_code, {}, response.content), path) for response, path in shown),
        *((platform.post(path, body), path) for path, body in posted),
        ((unsigned.status_code, {}, unsigned.content), "/aip/retrieve"),
    ]
