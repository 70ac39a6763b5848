"""How the layers of a server stand around each other: whoever is turned away gets a signed answer, and is counted and
logged like anybody else."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from aidre.api import app
from aidre.api.protocols.provenance.keys import make_key
from tests.support.clients import AIDRE, BASE, Client, a_document, fill, metrics_of, serving
from tests.support.issuer import AUDIENCE, EC, ISSUER, public, signed, without
from tests.support.signatures import Received, verified_answer

KEYS = "/.well-known/aidre-keys.json"
SUBJECT = "alice@example.com"


@pytest.fixture
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file that the access log is written to instead of descriptor 1.

    Descriptor 1 belongs to pytest, which replaces it between a fixture and its test; capfd loses what a thread writes
    between its read and its truncation.
    """
    path = tmp_path / "log"
    with path.open("wb") as file:
        monkeypatch.setattr(app, "STDOUT", file.fileno())
        yield path


@pytest.fixture
def client(tmp_path: Path, output: Path) -> Iterator[Client]:
    make_key(tmp_path / "keys.pem", time.time())
    (tmp_path / "issuer.json").write_bytes(public(EC))
    fill(tmp_path / "store", "docs", [a_document(f"doc_{n}", f"alpha word{n}") for n in range(3)])
    digest = hashlib.sha256(b"reader-secret").hexdigest()
    text = f"""
[server]
log = "requests"
[limits]
rate = "2/hour"
[provenance]
key = "{tmp_path / "keys.pem"}"
[[keys]]
name = "reader"
sha256 = "{digest}"
rate = "none"
[oauth]
issuer = "{ISSUER}"
audience = "{AUDIENCE}"
jwks = "{tmp_path / "issuer.json"}"
"""
    with serving(tmp_path / "store", text) as client:
        yield client


def search(client: Client, authorization: str | None = None) -> httpx.Response:
    headers = {"content-type": AIDRE, **({"authorization": authorization} if authorization is not None else {})}
    return client.request("POST", "/search", json={"query": "alpha"}, headers=headers)


def write_pending_lines(client: Client) -> None:
    log = client.app.middleware_stack.frame.log  # type: ignore[union-attr]
    assert log is not None
    client._runner.run(log.close())


def test_whoever_is_turned_away_gets_a_signed_answer_and_is_counted_and_logged(client: Client, output: Path) -> None:
    jwks = client.get(KEYS).content
    token = signed(without("iat", "nbf", sub=SUBJECT, exp=int(time.time()) + 600)).decode()
    asked = [None, "Bearer wrong", None, "Bearer reader-secret", f"Bearer {token}"]
    answers = [search(client, authorization) for authorization in asked]
    assert [answer.status_code for answer in answers] == [200, 401, 429, 200, 200]
    for answer in answers:
        assert verified_answer(Received.of(answer, f"{BASE}/search"), jwks)
    assert "retry-after" in answers[2].headers
    assert "www-authenticate" in answers[1].headers
    assert answers[3].headers["cache-control"].startswith(("private", "no-store"))
    found = metrics_of(client)
    assert found["aidre_requests_total{route=/search,status=200}"] == 3
    assert found["aidre_requests_total{route=/search,status=401}"] == 1
    assert found["aidre_requests_total{route=/search,status=429}"] == 1
    assert found["aidre_refusals_total{code=unauthorized}"] == 1
    assert found["aidre_refusals_total{code=rate_limited}"] == 1
    write_pending_lines(client)
    written = output.read_text()
    lines = [json.loads(line) for line in written.splitlines()]
    told = [(line["status"], line["code"], line["caller"]) for line in lines if line["method"] == "POST"]
    assert told == [
        (200, None, None),
        (401, "unauthorized", None),
        (429, "rate_limited", None),
        (200, None, "key reader"),
        (200, None, "oauth"),
    ]
    assert [answer.headers["x-request-id"] for answer in answers] == [
        line["request_id"] for line in lines if line["method"] == "POST"
    ]
    for secret in ("alice", "reader-secret", "wrong", token, "alpha"):
        assert secret not in written
