"""What the tests of Agent Intake share: a store, intakes over it, and requests whose form is right."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from aidre.api.protocols.intake.bind_key import BindKey
from aidre.api.protocols.intake.offer_ledger import StoredBind
from tests.support.clients import BASE, Client, a_document, fill, serving
from tests.support.intake_agent import JSON, WELL_KNOWN, Agent
from tests.support.intake_schemas import ANSWER, check

SECRET = "the secret of a key"
SESSION = "0f8fad5b-d9cb-469f-a165-70867728950e"
PERSON = {"email": "jane@example.com", "full_name": "Jane Doe"}

CONFIGURATION = f"""
[server]
organization = "Example Trades"
[limits]
body_bytes = 20_000
[[keys]]
name = "partner"
sha256 = "{hashlib.sha256(SECRET.encode()).hexdigest()}"
[collections.textless]
return_text = false
[collections.closed]
protocols = ["intake"]
visibility = "private"
[intake]
bind_key = "a bind key that the tests know"

[[intakes]]
id = "find-a-plumber"
name = "Find a plumber"
description = "Say what is broken and where."
category = "service/matching"
offer_type = "matched_providers"
collection = "trades"
filter = {{ trade = "plumber" }}
query = "{{need}} {{place.city}}"
top_k = 3
summary = "{{hits.count}} for {{need}} in {{place.city}}: {{hits.titles}}"
details = {{ best = "{{hits.first.title}}", contact = {{ url = "{{hits.first.url}}" }} }}
decline_reason = "No plumber fits."
bind_requires = ["email", "full_name"]
terms_url = "https://example.com/terms"
expires_in = "1h"
privacy = {{ data_retention = "none" }}
[intakes.input_schema]
type = "object"
required = ["need"]
additionalProperties = false
[intakes.input_schema.properties.need]
type = "string"
minLength = 3
[intakes.input_schema.properties.urgency]
enum = ["today", "this_week"]
[intakes.input_schema.properties.code]
type = "string"
pattern = "^(a+)+$"
[intakes.input_schema.properties.place]
type = "object"
properties = {{ city = {{ type = "string" }} }}

[[intakes]]
id = "search"
collection = "textless"

[[intakes]]
id = "inside"
collection = "closed"
filter = {{ open = true }}

[[intakes]]
id = "members"
collection = "trades"
requires_auth = true

[[intakes]]
id = "rare"
collection = "trades"
rate_limit = {{ requests_per_minute = 2, requests_per_day = 100 }}

[[intakes]]
id = "counted"
collection = "trades"
requires_auth = true
rate_limit = {{ requests_per_day = 2 }}

[[intakes]]
id = "choosy"
collection = "trades"
min_score = 1.0

[[intakes]]
id = "nowhere"
collection = "absent"
"""


def fill_all(store: Path) -> None:
    plumbers = [
        a_document(
            f"p{n}",
            f"repairs a leaking pipe, plumber number {n} in Berlin",
            title=f"Plumber {n}",
            url=f"https://example.com/p{n}",
            metadata={"trade": "plumber"},
        )
        for n in range(5)
    ]
    painter = a_document("q", "paints a leaking pipe", title="Painter", metadata={"trade": "painter"})
    fill(store, "trades", [*plumbers, painter])
    fill(store, "textless", [a_document("t", "a quiet text", title="Quiet")])
    hidden = [a_document(f"h{n}", "a hidden text", metadata={"open": n == 0}) for n in range(2)]
    fill(store, "closed", hidden, visibility="private")


def an_agent(client: Client, **members: Any) -> Agent:
    return Agent(client.request, BASE, **members)


def a_submission(data: Any = None, **members: Any) -> dict[str, Any]:
    return {
        "aip_version": "0.1.0",
        "agent": {"id": "agent-1", "consent_scope": ["intake", "offer"]},
        "intake_data": {"need": "leaking pipe"} if data is None else data,
        "session_id": SESSION,
        **members,
    }


def a_bind(offer: str, **members: Any) -> dict[str, Any]:
    return {
        "offer_id": offer,
        "session_id": SESSION,
        "bind_data": PERSON,
        "agent": {"id": "agent-1", "consent_scope": ["bind"]},
        **members,
    }


def a_stored_bind(offer: str = "offer", forget: float = 1e12) -> StoredBind:
    """A bind as it lies in the ledger, sealed with the key of the configuration."""
    key = BindKey("a bind key that the tests know")
    sealed = key.seal(b'{"bind_data":{},"agent":{},"metadata":{}}', offer)
    return StoredBind(offer, SESSION, "i", 1.0, b"{}", key.id, b"digest", sealed, forget)


def declared(client: Client, id: str = "find-a-plumber") -> dict[str, Any]:
    [found] = [intake for intake in client.get(WELL_KNOWN).json()["intakes"] if intake["id"] == id]
    return dict(found)


def post(client: Client, path: str, body: Any, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    options = {"content": body} if isinstance(body, bytes) else {"json": body}
    return client.request("POST", path, headers={"content-type": JSON, **named}, **options)


def submit(client: Client, body: Any, id: str = "find-a-plumber", **headers: str) -> httpx.Response:
    return post(client, f"/intakes/{id}", body, **headers)


def bind(client: Client, body: Any, **headers: str) -> httpx.Response:
    return post(client, "/intakes/bind", body, **headers)


def answered(response: httpx.Response) -> dict[str, Any]:
    """The answer to a submission, after its form has been checked."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == JSON
    assert response.headers["cache-control"] == "no-store"
    body: dict[str, Any] = response.json()
    check(ANSWER, body)
    return body


def offered(client: Client, **members: Any) -> dict[str, Any]:
    """An offer that can be bound, of a session that is SESSION unless told."""
    offer: dict[str, Any] = answered(submit(client, a_submission(**members)))["offer"]
    return offer


def refused(response: httpx.Response, status: int, code: str, session: str | None = SESSION) -> str:
    """The message of an error, after its envelope has been checked."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == JSON
    body = response.json()
    check(ANSWER, body)
    assert (body["status"], body["error"]["code"]) == ("error", code)
    if session is not None:
        assert body["session_id"] == session
    message: str = body["error"]["message"]
    return message


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A server of intakes over collections that no test changes."""
    folder = tmp_path_factory.mktemp("store")
    fill_all(folder)
    with serving(folder, CONFIGURATION) as shared:
        yield shared


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store for one test."""
    fill_all(tmp_path / "store")
    return tmp_path / "store"
