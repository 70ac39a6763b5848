"""Agentic Intent: a platform's signed requests for passages, the publisher's signed answers, and citation events.

Both sides sign by HMAC-SHA256 over method or status, path with query, hash of the body, time and nonce. Each attempt
has a nonce of its own: a publisher accepts one once.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias
from urllib.parse import urljoin, urlsplit

import msgspec

from aidre_client.errors import AccessDenied, InvalidInput, RequestFailed, Unsupported
from aidre_client.exchange import Request, Response, Steps, decode, invalid_answer, one_line, retry_after
from aidre_client.session import JSON, ClientSession, encode, is_field_value
from aidre_client.verification import failed

WELL_KNOWN = "/.well-known/aip.json"
Version: TypeAlias = Literal["0.1", "1.0"]
VERSION_FIELD, KEY_FIELD, TIME_FIELD, NONCE_FIELD, SIGNATURE_FIELD = FIELDS = (
    "x-aip-version",
    "x-aip-key-id",
    "x-aip-timestamp",
    "x-aip-nonce",
    "x-aip-signature",
)
WINDOW_SECONDS = 300
MIN_NONCE_CHARS = 22
"""Of 16 random bytes in base64."""


class Passage(msgspec.Struct, frozen=True):
    """A passage that a publisher returned."""

    id: str
    text: str
    token_count: int | None = None


class Citation(msgspec.Struct, frozen=True):
    """How passages are to be cited."""

    source_url: str
    title: str | None = None
    publisher: str | None = None
    chunk_ids: list[str] = []


class Content(msgspec.Struct, frozen=True):
    chunks: list[Passage] = []


class RetrieveAnswer(msgspec.Struct, frozen=True):
    """An answer of a publisher; `status` says which of its members count."""

    status: str
    request_id: str | None = None
    version: str | None = msgspec.field(default=None, name="aip_version")
    content: Content = Content()
    citations: list[Citation] = []
    limits_applied: dict[str, Any] = {}
    denial: dict[str, Any] = {}
    error: dict[str, Any] = {}


class EventAnswer(msgspec.Struct, frozen=True):
    """What is read of the answer to an event, all of which may be missing."""

    status: str | None = None
    error: dict[str, Any] = {}


class PublisherId(msgspec.Struct, frozen=True):
    id: str
    name: str
    domain: str


class IntentEndpoint(msgspec.Struct, frozen=True):
    url: str
    required: bool | None = None


class DeclaredEndpoints(msgspec.Struct, frozen=True):
    retrieve: IntentEndpoint | None = None
    event: IntentEndpoint | None = None


class Declaration(msgspec.Struct, frozen=True):
    """What a publisher declares (aip.json)."""

    version: str = msgspec.field(name="aip_version")
    publisher: PublisherId
    editorial_domains: list[str]
    intent_access: dict[str, Any]
    retrieval: dict[str, Any]
    compliance: dict[str, Any]
    endpoints: DeclaredEndpoints = DeclaredEndpoints()


@dataclass(frozen=True, slots=True)
class Retrieved:
    """What a publisher returned; without any passage it had none for this request."""

    request_id: str
    passages: list[Passage]
    citations: list[Citation]
    limits: Mapping[str, Any]


def canonical(subject: str, path: str, body: bytes, timestamp: str, nonce: str) -> bytes:
    """The string that is signed."""
    return "\n".join((subject, path, hashlib.sha256(body).hexdigest(), timestamp, nonce)).encode()


def signature_of(secret: str, text: bytes) -> str:
    return "v1=" + base64.b64encode(hmac.digest(secret.encode(), text, "sha256")).decode()


@dataclass(slots=True)
class Platform:
    """A platform with one key at one publisher."""

    session: ClientSession
    key_id: str
    secret: str = field(repr=False)
    platform_id: str | None = None
    version: Version = "0.1"
    _declaration: Declaration | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if not is_field_value(self.key_id) or not self.secret:
            raise InvalidInput("Agentic Intent needs the id of a key and its secret")
        if self.version not in {"0.1", "1.0"}:
            raise InvalidInput(f"version {self.version!r} of Agentic Intent is unknown: use 0.1 or 1.0")

    def declaration(self) -> Steps[Declaration]:
        """The publisher's declaration, read once."""
        if self._declaration is None:
            found = yield from self.session.discovery_or_none()
            named = None if found is None else found.endpoints.intent
            url = self.session.origin + WELL_KNOWN if named is None else self.session.allowed(named)
            self._declaration = yield from self.session.document(url, Declaration)
        return self._declaration

    def retrieve(
        self,
        text: str | None,
        domain: str,
        *,
        subdomain: str | None = None,
        language: str = "en-US",
        session_id: str | None = None,
        turn_index: int = 0,
        extensions: Mapping[str, Any] | None = None,
    ) -> Steps[Retrieved]:
        """Passages about a text within a domain. AccessDenied with the reason of a denial; RequestFailed;
        VerificationFailed."""
        request_id = "req_" + secrets.token_hex(12)
        runtime: dict[str, Any] = {"session_id": session_id or secrets.token_hex(12), "turn_index": turn_index}
        body = {
            "aip_version": self.version,
            "request_id": request_id,
            "timestamp": self._now(),
            "platform": {"id": self.platform_id or self.key_id},
            "intent": {"domain": domain} | ({} if subdomain is None else {"subdomain": subdomain}),
            "context": {"language": language},
            "runtime": runtime | ({} if text is None else {"query_text": text}),
            **({} if extensions is None else {"extensions": dict(extensions)}),
        }
        url = yield from self._url("retrieve")
        response = yield from self._post(url, encode(body))
        answer = decode(response, RetrieveAnswer)
        if answer.status == "ok" and response.status == 200:
            self._check_content(response, answer, request_id)
            return Retrieved(request_id, answer.content.chunks, answer.citations, answer.limits_applied)
        if answer.status == "error" and answer.error.get("code") == "no_results":
            return Retrieved(request_id, [], [], answer.limits_applied)
        raise self._refusal(response, answer)

    def cite(self, retrieved: Retrieved, citation: Citation, display_surface: str) -> Steps[str]:
        """Report that a citation was shown; returns the id of the event. Sending it twice counts once."""
        declaration = yield from self.declaration()
        event_id = "cite_" + secrets.token_hex(12)
        publisher = declaration.publisher
        body = {
            "aip_version": self.version,
            "event_id": event_id,
            "event_type": "citation",
            "timestamp": self._now(),
            "request_id": retrieved.request_id,
            "publisher": {"id": publisher.id, "domain": publisher.domain},
            "platform": {"id": self.platform_id or self.key_id},
            "citation": {
                "source_url": citation.source_url,
                "chunk_ids": citation.chunk_ids,
                "display_surface": display_surface,
            },
        }
        url = yield from self._url("event")
        response = yield from self._post(url, encode(body))
        if not 200 <= response.status < 300:
            answer = decode(response, EventAnswer)
            raise self._refusal(response, RetrieveAnswer(answer.status or "error", error=answer.error))
        return event_id

    # -- signatures --------------------------------------------------------------------------------------------------

    def _url(self, name: str) -> Steps[str]:
        declaration = yield from self.declaration()
        endpoint: IntentEndpoint | None = getattr(declaration.endpoints, name)
        if endpoint is None:
            raise Unsupported(f"{self.session.url} declares no endpoint {name} of Agentic Intent", capability=name)
        return self.session.allowed(urljoin(self.session.url, endpoint.url))

    def _post(self, url: str, body: bytes) -> Steps[Response]:
        response = yield from self.session.call(lambda: self._signed(url, body))
        self._verify(response, url)
        return response

    def _signed(self, url: str, body: bytes) -> Request:
        timestamp, nonce = self._now(), secrets.token_urlsafe(16)
        signature = signature_of(self.secret, canonical("POST", _path_of(url), body, timestamp, nonce))
        values = (self.version, self.key_id, timestamp, nonce, signature)
        return self.session.request(
            "POST", url, body, accept=JSON, media_type=JSON, more=tuple(zip(FIELDS, values, strict=True))
        )

    def _verify(self, response: Response, url: str) -> None:
        """VerificationFailed for a signature that does not hold, or is missing under the policy `required`."""
        policy = self.session.verifier.policy
        if policy == "off":
            return
        values = [response.header(name) for name in FIELDS]
        if not any(values[1:]):
            if policy == "required" and response.status < 400:
                raise failed(url, "the publisher's answer is not signed")
            return
        if None in values:
            raise failed(url, "the signature of the publisher's answer is incomplete")
        version, key_id, timestamp, nonce, signature = map(str, values)
        if (version, key_id) != (self.version, self.key_id):
            raise failed(url, "the publisher's answer is signed for somebody else")
        content = response.body if response.encoded is None else response.encoded
        expected = signature_of(self.secret, canonical(str(response.status), _path_of(url), content, timestamp, nonce))
        if not hmac.compare_digest(expected.encode(), signature.encode("utf-8", "surrogateescape")):
            raise failed(url, "the signature of the publisher's answer does not hold")
        try:
            moment = datetime.fromisoformat(timestamp).timestamp()
        except ValueError:
            moment = 0.0
        if abs(self.session.retry.clock() - moment) > WINDOW_SECONDS or len(nonce) < MIN_NONCE_CHARS:
            raise failed(url, "the signature of the publisher's answer is too old")

    def _check_content(self, response: Response, answer: RetrieveAnswer, request_id: str) -> None:
        if answer.request_id != request_id or answer.version != self.version:
            raise failed(response.request.url, "this is the answer to another request")
        returned = {passage.id for passage in answer.content.chunks}
        if not returned or answer.denial:
            raise invalid_answer(response, "an answer that is ok has passages, and no denial")
        if any(not set(citation.chunk_ids) <= returned for citation in answer.citations):
            raise invalid_answer(response, "a citation names a passage that was not returned")

    def _refusal(self, response: Response, answer: RetrieveAnswer) -> RequestFailed:
        url = response.request.url
        part = answer.denial if answer.status == "denied" else answer.error
        code = part.get("reason") if answer.status == "denied" else part.get("code")
        text = part.get("message")
        message = one_line(text) if isinstance(text, str) else f"HTTP status {response.status}"
        facts: dict[str, Any] = {"url": url, "status": response.status, "request_id": answer.request_id}
        waiting = retry_after(response, self.session.retry.clock())
        facts |= {} if waiting is None else {"retry_after": waiting}
        if answer.status == "denied" and code != "rate_limited":
            return AccessDenied(f"{url}: {message}", error="denied", reason=code, **facts)
        if response.status in {401, 403}:
            return AccessDenied(f"{url}: {message}", error=code, **facts)
        return RequestFailed(f"{url}: {message}", error=code or "invalid_answer", **facts)

    def _now(self) -> str:
        moment = datetime.fromtimestamp(self.session.retry.clock(), UTC)
        return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def _path_of(url: str) -> str:
    """The path and the query of a URL, as they are sent."""
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
