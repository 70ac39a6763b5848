"""One request of each protocol, and the configuration that answers them all."""

from __future__ import annotations

from typing import Any

import httpx

from tests.support.clients import AIDRE, Client

PROTOCOLS = """
[intent]
enabled = true
publisher = { id = "example", name = "The Example", domain = "127.0.0.1" }
[intent.editorial_domains.news]
collection = "docs"
[intent.keys]
platform = "test-secret-0123456789abcdef"
[[intakes]]
id = "find"
name = "Find"
description = "Finds"
category = "service/matching"
offer_type = "matches"
collection = "docs"
query = "{need}"
"""


SESSION = "0b9f2c0e-4a3c-4d3e-9f57-1f6f0c2b7a11"


def asked(client: Client, path: str, body: Any = None, **headers: str) -> httpx.Response:
    kind = {"content-type": AIDRE if path == "/search" else "application/json"}
    return client.request("GET" if body is None else "POST", path, json=body, headers={**kind, **headers})


ASKED: dict[str, tuple[str, Any]] = {
    "search": ("/search", {"query": "alpha"}),
    "changes": ("/collections/docs/changes", None),
    "nowhere": ("/nowhere", None),
    "ask": ("/ask", {"query": {"text": "alpha"}}),
    "sites": ("/sites", None),
    "mcp": ("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"}),
    "intent": ("/aip/retrieve", {"request_id": "r"}),
    "intake": ("/intakes/find", {"session_id": SESSION, "aip_version": "0.1.0"}),
    "openapi": ("/openapi.json", None),
}
