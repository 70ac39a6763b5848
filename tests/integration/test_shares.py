"""What callers fill has a share for each of them: nobody locks the others out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from aidre.api.protocols.nlweb import promise_table
from tests.support.clients import Client, a_document, fill, serving
from tests.support.intakes import a_submission

CONFIGURATION = f"""
[server]
trusted_proxies = ["127.0.0.1"]
[[keys]]
name = "partner"
sha256 = "{hashlib.sha256(b"partner").hexdigest()}"
[[intakes]]
id = "find"
name = "Find"
description = "Finds"
category = "service/matching"
offer_type = "matches"
collection = "docs"
query = "{{need}}"
bind_requires = ["email"]
[intake]
bind_key = "a bind key that the tests know"
max_offers = 8
"""
SESSION = "0b9f2c0e-4a3c-4d3e-9f57-1f6f0c2b7a11"
ANYBODY = {"x-forwarded-for": "192.0.2.1"}
SOMEBODY_ELSE = {"x-forwarded-for": "192.0.2.2"}
PARTNER = {"authorization": "Bearer partner"}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    fill(tmp_path, "docs", [a_document(f"doc_{number}", f"alpha {number}") for number in range(3)])
    with serving(tmp_path, CONFIGURATION) as client:
        yield client


def submit(client: Client, headers: dict[str, str]) -> httpx.Response:
    body = a_submission({"need": "alpha"}, session_id=SESSION)
    return client.request("POST", "/intakes/find", json=body, headers={"content-type": "application/json", **headers})


def promise(client: Client, headers: dict[str, str]) -> str:
    """The kind of the answer to a question whose answer is wanted later."""
    body: Any = {"query": {"text": "alpha"}, "prefer": {"respond-async": True}}
    response = client.request("POST", "/ask", json=body, headers={"content-type": "application/json", **headers})
    return str(response.json()["_meta"]["response_type"])


def test_one_caller_holds_a_quarter_of_the_offers(client: Client) -> None:
    for headers in (ANYBODY, SOMEBODY_ELSE, PARTNER):
        answers = [submit(client, headers) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 429, 429], answers[0].text
        error = answers[2].json()
        assert (error["status"], error["error"]["code"], error["session_id"]) == ("error", "RATE_LIMITED", SESSION)
        assert answers[2].headers["retry-after"] == "60"


def test_one_caller_holds_a_quarter_of_the_promises(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client.app.state.nlweb.promises, "_max_promises", 8)
    assert promise_table.ACCOUNT_SHARE == 4
    for headers in (ANYBODY, SOMEBODY_ELSE, PARTNER):
        kinds = [promise(client, headers) for _ in range(4)]
        assert kinds == ["promise", "promise", "answer", "answer"]


def test_the_share_comes_back_when_offers_expire(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [submit(client, ANYBODY).status_code for _ in range(3)] == [200, 200, 429]
    ledger = client.app.state.intake._ledger
    ledger._connection.execute("UPDATE offerers SET expires = 1")
    assert submit(client, ANYBODY).status_code == 200


def test_no_address_is_written(client: Client) -> None:
    submit(client, ANYBODY)
    promise(client, ANYBODY)
    files = [path for path in (client.store / ".log").rglob("*") if path.is_file()]
    assert files
    assert not any(b"192.0.2.1" in path.read_bytes() for path in files)
