"""Calls over POST /mcp, as JSON-RPC messages, and what must hold of every answer."""

from __future__ import annotations

import json
from typing import Any

import httpx

from tests.support.clients import Client
from tests.support.recipes import JSON

MODERN = "2026-07-28"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}
"""What a client of that version sends with every request, in place of a handshake."""


def message(method: str, params: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, **({} if params is None else {"params": params})}


def post(client: Client, body: Any, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return client.request("POST", "/mcp", content=content, headers={"content-type": JSON, **named})


def result(response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 200, response.text
    body = response.json()
    assert set(body) == {"jsonrpc", "id", "result"}, response.text
    found: dict[str, Any] = body["result"]
    return found


def refused(response: httpx.Response, code: int, status: int = 200) -> str:
    """The message of a JSON-RPC error."""
    assert (response.status_code, response.headers["content-type"]) == (status, JSON), response.text
    assert response.json()["error"]["code"] == code
    said: str = response.json()["error"]["message"]
    assert said and "Traceback" not in said
    return said


def call(client: Client, name: str, arguments: Any, **headers: str) -> dict[str, Any]:
    return result(post(client, message("tools/call", {"name": name, "arguments": arguments}), **headers))
