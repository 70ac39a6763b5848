"""A platform that speaks Agentic Intent, written from the texts alone: it signs, verifies, retries and refuses.

Nothing of aidre is imported here: what both sides get wrong in the same way would not be found.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias

from tests.support.intent_schemas import DECLARATION, EVENT, RETRIEVE_REQUEST, RETRIEVE_RESPONSE, valid

Sent: TypeAlias = tuple[int, Mapping[str, str], bytes]
Send: TypeAlias = Callable[[str, str, bytes, dict[str, str]], Sent]

FIELDS = ("X-AIP-Version", "X-AIP-Key-Id", "X-AIP-Timestamp", "X-AIP-Nonce", "X-AIP-Signature")
ATTEMPTS = 3


class Refused(Exception):
    """What this platform does not accept, or must not ask."""


def timestamp(moment: float | None = None) -> str:
    return datetime.fromtimestamp(time.time() if moment is None else moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def signature_of(secret: str, subject: str, path: str, body: bytes, at: str, nonce: str) -> str:
    text = f"{subject}\n{path}\n{hashlib.sha256(body).hexdigest()}\n{at}\n{nonce}"
    return "v1=" + base64.b64encode(hmac.new(secret.encode(), text.encode(), hashlib.sha256).digest()).decode()


@dataclass
class Platform:
    """One party with one key, and one publisher that it asks."""

    send: Send
    key_id: str = "platform"
    secret: str = "test-secret-0123456789abcdef"
    version: str = "0.1"
    prefix: str = ""
    sleep: Callable[[float], None] = time.sleep
    seen: set[str] = field(default_factory=set)

    def declaration(self) -> dict[str, Any]:
        status, _, body = self.send("GET", "/.well-known/aip.json", b"", {})
        if status != 200:
            raise Refused(f"no declaration: {status}")
        found: dict[str, Any] = json.loads(body)
        valid(DECLARATION, found)
        return found

    def request(self, text: str | None = "alpha", **members: Any) -> dict[str, Any]:
        """A RetrieveRequest; `domain`, `session`, `id` and so on are its parts."""
        intent = {"domain": members.pop("domain", "finance.markets")}
        if "subdomain" in members:
            intent["subdomain"] = members.pop("subdomain")
        runtime: dict[str, Any] = {"session_id": members.pop("session", secrets.token_hex(8)), "turn_index": 0}
        if text is not None:
            runtime["query_text"] = text
        return {
            "aip_version": self.version,
            "request_id": members.pop("id", "req_" + secrets.token_hex(8)),
            "timestamp": timestamp(),
            "platform": {"id": self.key_id},
            "intent": intent,
            "context": {"language": "en-US"},
            "runtime": runtime,
            **members,
        }

    def headers(self, method: str, path: str, body: bytes, **given: str) -> dict[str, str]:
        """The signed fields; `at` and `nonce` may be given."""
        at, nonce = given.get("at", timestamp()), given.get("nonce", secrets.token_urlsafe(16))
        signed = signature_of(self.secret, method, self.prefix + path, body, at, nonce)
        values = (self.version, self.key_id, at, nonce, signed)
        return {"content-type": "application/json", **dict(zip(FIELDS, values, strict=True))}

    def post(self, path: str, body: Any, **given: str) -> Sent:
        """Signed once and sent once."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.send("POST", path, content, self.headers("POST", path, content, **given))

    def verified(self, path: str, answer: Sent) -> tuple[int, dict[str, Any]]:
        """The body, after its signature was checked wherever there must be one."""
        status, headers, body = answer
        lower = {name.lower(): value for name, value in headers.items()}
        found = json.loads(body)
        if status in {401, 429, 413, 408} and "x-aip-signature" not in lower:
            return status, found
        try:
            version, key_id, at, nonce, signed = (lower[name.lower()] for name in FIELDS)
        except KeyError as error:
            raise Refused(f"the answer is not signed: {error}") from error
        if (version, key_id) != (self.version, self.key_id):
            raise Refused("the answer is signed for somebody else")
        moment = datetime.fromisoformat(at).timestamp()
        if abs(time.time() - moment) > 300 or len(nonce) < 22 or nonce in self.seen:
            raise Refused("the answer is old, or was seen before")
        expected = signature_of(self.secret, str(status), self.prefix + path, body, at, nonce)
        if not hmac.compare_digest(expected, signed):
            raise Refused("the signature of the answer is wrong")
        self.seen.add(nonce)
        return status, found

    def retrieve(self, request: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The answer to a request: asked again, under a nonce of its own, where the publisher says to wait."""
        asked = dict(request or self.request())
        valid(RETRIEVE_REQUEST, asked)
        for attempt in range(ATTEMPTS):
            sent = self.post("/aip/retrieve", asked)
            status, answer = self.verified("/aip/retrieve", sent)
            valid(RETRIEVE_RESPONSE, answer)
            if status not in {429, 503} or attempt == ATTEMPTS - 1:
                break
            self.sleep(float({name.lower(): value for name, value in sent[1].items()}["retry-after"]))
        if status not in {401, 429} and answer["request_id"] != asked["request_id"]:
            raise Refused("the answer is to another request")
        if answer["aip_version"] != self.version:
            raise Refused("the answer speaks another version")
        self._check_content(answer)
        return answer

    def _check_content(self, answer: Mapping[str, Any]) -> None:
        if answer["status"] != "ok":
            return
        returned = [chunk["id"] for chunk in answer["content"]["chunks"]]
        for citation in answer.get("citations", []):
            if not set(citation["chunk_ids"]) <= set(returned):
                raise Refused("a citation names what was not returned")

    def citation(self, answer: Mapping[str, Any], **members: Any) -> dict[str, Any]:
        """The event that the first citation of an answer was shown."""
        cited = answer["citations"][0]
        publisher = self.declaration()["publisher"]
        event = {
            "aip_version": self.version,
            "event_id": "cite_" + secrets.token_hex(8),
            "event_type": "citation",
            "timestamp": timestamp(),
            "request_id": answer["request_id"],
            "publisher": {"id": publisher["id"], "domain": publisher["domain"]},
            "platform": {"id": self.key_id},
            "citation": {
                "source_url": cited["source_url"],
                "chunk_ids": cited["chunk_ids"],
                "display_surface": "answer",
            },
        }
        event |= members
        return event

    def report(self, event: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        valid(EVENT, event)
        return self.verified("/aip/events", self.post("/aip/events", event))
