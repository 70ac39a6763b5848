"""Requests for the load generator: prebuilt bytes for every protocol over one store.

Vectors are written with eight decimals, as clients print them. New texts end in random small words, which defeat
caches: random letters and digits would be searched for as a part number.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidre.api.protocols.intent.hmac_signing import SignatureFields, canonical_string, compute_signature, format_rfc3339
from benchmarks.harness.load import Request, request

TOP_K = 10
DOMAIN, KEY, SECRET = "bench.mark", "bench", "the secret of a benchmark"
CALLER = "the key of the caller of a benchmark"
BEARER = {"authorization": f"Bearer {CALLER}"}
CONFIGURATION = f"""
[server]
log = "requests"
[limits]
rate = "1000000/second"
[[keys]]
name = "bench"
sha256 = "{sha256(CALLER.encode()).hexdigest()}"
scopes = ["search", "vectors"]
rate = "1000000/second"
[intake]
bind_key = "{"ab" * 32}"
[[intakes]]
id = "bench"
query = "{{need}}"
top_k = {TOP_K}
[intent]
enabled = true
max_chunks = {TOP_K}
full_article = true
[intent.editorial_domains."{DOMAIN}"]
collection = "bench"
[intent.keys]
{KEY} = "{SECRET}"
"""
"""Server configuration for all of these requests, over a collection named "bench": keys, limits, metrics and access log
are on, answers are not signed."""

FILLERS = ("the", "of", "and", "to", "in", "is", "for", "on", "that", "with", "as", "by", "at", "from", "are", "was")
ADDED = 4
"""Small words at the end of a new text."""

INTAKE_SESSION = "7d444840-9dc0-41d1-b245-5ffdce74fad2"
AGENT = {"id": "bench", "platform": "bench", "consent_scope": ["intake", "offer"]}


def vectors(queries: NDArray[np.float32], space: str) -> list[Request]:
    """AIDRE searches by vector."""
    return [vector_search(vector, space) for vector in queries]


def vector_search(vector: NDArray[np.float32], space: str) -> bytes:
    return _post("/search", {"query_vector": _numbers(vector), "embedding_space": space, "top_k": TOP_K}, **BEARER)


def texts(texts: Sequence[str], mode: str | None = None) -> list[Request]:
    """AIDRE searches by text; repeated texts hit the embedding cache."""
    return [_post("/search", _search(text, mode), **BEARER) for text in texts]


def new_texts(texts: Sequence[str], mode: str | None = None) -> list[Request]:
    """AIDRE searches by texts that no cache holds."""
    return _new(texts, lambda text: _post("/search", _search(text, mode), **BEARER))


def chunks(ids: Sequence[str]) -> list[Request]:
    return [request("GET", f"/chunks/{id.replace('#', '%23')}", b"", **BEARER) for id in ids]


def asks(texts: Sequence[str]) -> list[Request]:
    """NLWeb questions."""
    return [_post("/ask", {"query": {"text": text, "limit": TOP_K}}) for text in texts]


def tools(texts: Sequence[str]) -> list[Request]:
    """NLWeb questions as MCP tool calls."""
    return [
        _post(
            "/mcp",
            {
                "jsonrpc": "2.0",
                "id": number,
                "method": "tools/call",
                "params": {"name": "ask", "arguments": {"query": {"text": text, "limit": TOP_K}}},
            },
            accept="application/json, text/event-stream",
            mcp_protocol_version="2025-06-18",
        )
        for number, text in enumerate(texts)
    ]


def retrieves(texts: Sequence[str]) -> list[Request]:
    """Agentic Intent retrieves, signed when they are sent, each in a new session."""
    return [partial(_retrieve, text) for text in texts]


def submissions(texts: Sequence[str]) -> list[Request]:
    """Agent Intake submissions."""
    common = {"aip_version": "0.1.0", "agent": AGENT, "session_id": INTAKE_SESSION}
    return [_post("/intakes/bench", {**common, "intake_data": {"need": text}}) for text in texts]


def signed_retrieve(text: str, domain: str, key: str, secret: str) -> tuple[bytes, dict[str, str]]:
    """The body of an Agentic Intent retrieve in a new session, and its signature header fields."""
    now, nonce = format_rfc3339(time.time()), secrets.token_urlsafe(16)
    asked = {
        "aip_version": "0.1",
        "request_id": secrets.token_hex(8),
        "timestamp": now,
        "platform": {"id": key},
        "intent": {"domain": domain},
        "context": {"language": "en-US"},
        "runtime": {"session_id": secrets.token_hex(8), "turn_index": 0, "query_text": text},
    }
    body = json.dumps(asked).encode()
    signed = SignatureFields(
        "0.1", key, now, nonce, compute_signature(secret, canonical_string("POST", "/aip/retrieve", body, now, nonce))
    )
    return body, signed.headers()


def _retrieve(text: str) -> bytes:
    body, fields = signed_retrieve(text, DOMAIN, KEY, SECRET)
    return request("POST", "/aip/retrieve", body, **fields)


def _new(texts: Sequence[str], make: Callable[[str], bytes]) -> list[Request]:
    def made(text: str) -> bytes:
        return make(" ".join([text, *(secrets.choice(FILLERS) for _ in range(ADDED))]))

    return [partial(made, text) for text in texts]


def _search(text: str, mode: str | None) -> Mapping[str, Any]:
    return {"query": text, "top_k": TOP_K, **({"mode": mode} if mode else {})}


def _post(path: str, body: Mapping[str, Any], **headers: str) -> bytes:
    return request("POST", path, json.dumps(body).encode(), **headers)


def _numbers(vector: NDArray[np.float32]) -> list[float]:
    return [round(number, 8) for number in vector.tolist()]
