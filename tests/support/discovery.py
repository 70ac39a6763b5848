"""What the conformance tests of AIDRE ask: a configuration, and documents with known words."""

from __future__ import annotations

from typing import Any

from aidre.engine.model import Document
from tests.support.clients import a_document

JSON = "application/json"
DISCOVERY = "/.well-known/ai-discovery"
ERROR_MEMBERS = {"error", "message", "details", "request_id"}

CONFIGURATION = """
[server]
organization = "Example"
default_collection = "docs"
[limits]
top_k_default = 7
top_k_max = 20
query_chars = 100
body_bytes = 20_000
[collections.textless]
return_text = false
return_vectors = true
vector_queries = "open"
[collections.shut]
visibility = "private"
[collections.elsewhere]
protocols = ["nlweb"]
"""

SPECIAL_IDS = [
    "a/b",
    "100%",
    "a b",
    "çığ/ü€",
    "emoji😀",
    "plus+plus",
    "q?x=1",
    "x#y",
    "a%2Fb",
    "..",
    "semi;colon,comma",
]


def refused(response: Any, status: int, code: str) -> dict[str, Any]:
    """The details of an error, after its envelope has been checked."""
    assert response.status_code == status, response.text
    body: dict[str, Any] = response.json()
    assert set(body) == ERROR_MEMBERS
    assert body["error"] == code
    assert body["message"]
    assert body["request_id"] == response.headers["x-request-id"]
    details: dict[str, Any] = body["details"]
    return details


def ids(response: Any) -> list[str]:
    assert response.status_code == 200, response.text
    return [result["id"] for result in response.json()["results"]]


def documents() -> list[Document]:
    """Forty documents that share words, one with everything, and one for every id that is hard to put into a path."""
    plain = [
        a_document(f"doc_{n}", f"alpha {'beta ' * (n % 7)}word{n}", metadata={"n": n, "even": n % 2 == 0})
        for n in range(40)
    ]
    rich = a_document(
        "rich",
        "Şifre değişimi: 単一サインオン 😀 sso setup",
        title="SSO Setup",
        url="https://example.com/docs/sso",
        section="Prerequisites",
        metadata={"topic": "sso"},
        semantic_payload={"type": "application/semantic+json", "claims": [{"subject": "SSO"}]},
    )
    return [*plain, rich, *(a_document(special, f"special {number}") for number, special in enumerate(SPECIAL_IDS))]
