"""Checks of the Agentic Intent Protocol 0.1: declaration, signed retrieval and events of a publisher."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

import orjson

from aidre_conformance import (
    JSON,
    Checks,
    Exchange,
    Target,
    expect,
    expect_shape,
    is_loopback,
    is_timestamp,
    require,
    shown,
)

CHECKS = Checks("intent", "Agentic Intent 0.1")
WELL_KNOWN = "aip.json"
DENIALS = ["out_of_scope", "access_disabled", "policy_violation", "rate_limited", "unsupported"]
STRING, OBJECT, COUNT = {"type": "string"}, {"type": "object"}, {"type": "integer", "minimum": 0}
DOMAIN = r"^[a-z0-9]+(\.[a-z0-9-]+)*$"
FORBIDDEN = {"price", "pricing", "bid", "cpm", "cpx", "cpc", "advertiser", "ad", "ads", "sponsored", "auction", "offer"}
"""Names of members with advertising or pricing metadata."""


def _closed(required: tuple[str, ...], /, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": properties, "additionalProperties": False}


DECLARATION = _closed(
    ("aip_version", "publisher", "intent_access", "editorial_domains", "retrieval", "compliance"),
    **{"$schema": STRING, "aip_version": {"enum": ["0.1", "1.0"]}},
    publisher=_closed(
        ("id", "name", "domain"),
        id={"type": "string", "pattern": "^[a-z0-9_-]{2,64}$"},
        name={"type": "string", "minLength": 1, "maxLength": 128},
        domain=STRING,
    ),
    intent_access=_closed(
        ("enabled", "mode", "training_use", "storage_rights"),
        enabled={"type": "boolean"},
        mode={"const": "live_only"},
        training_use={"type": "boolean"},
        storage_rights={"const": "none"},
        state={"enum": ["active", "paused", "disabled"]},
        cache_policy={"const": "no_store"},
    ),
    editorial_domains={"type": "array", "minItems": 1, "items": {"type": "string", "pattern": DOMAIN}},
    endpoints=_closed(
        (),
        capabilities=_closed(("method", "url"), method={"enum": ["GET", "POST"]}, url=STRING),
        retrieve=_closed(("method", "url"), method={"const": "POST"}, url=STRING, capabilities_ref=STRING),
        event=_closed(
            ("method", "url", "required"), method={"const": "POST"}, url=STRING, required={"type": "boolean"}
        ),
    ),
    retrieval=_closed(
        ("supports",),
        supports=_closed(
            ("chunks", "citations", "full_article"),
            chunks={"type": "boolean"},
            citations={"type": "boolean"},
            full_article={"type": "boolean"},
        ),
        max_chunks={"type": "integer", "minimum": 1},
        max_tokens={"type": "integer", "minimum": 1},
    ),
    compliance=_closed(
        ("revocable", "notice_required", "last_updated"),
        revocable={"type": "boolean"},
        notice_required={"type": "boolean"},
        last_updated={"type": "string", "format": "date"},
        revocation_reason={"enum": ["legal", "policy", "technical"]},
        sunset={"type": ["string", "null"]},
    ),
    extensions=OBJECT,
)
RESPONSE = _closed(
    ("aip_version", "request_id", "timestamp", "status"),
    **{"aip_version": {"enum": ["0.1", "1.0"]}},
    request_id=STRING,
    timestamp={"type": "string", "format": "date-time"},
    status={"enum": ["ok", "denied", "error"]},
    content=_closed(
        ("chunks",),
        chunks={
            "type": "array",
            "minItems": 1,
            "items": _closed(("id", "text"), id=STRING, text=STRING, token_count=COUNT),
        },
    ),
    citations={
        "type": "array",
        "items": _closed(
            ("source_url",),
            source_url={"type": "string", "format": "uri"},
            title=STRING,
            publisher=STRING,
            chunk_ids={"type": "array", "items": STRING},
        ),
    },
    limits_applied=_closed(
        (), max_chunks={"type": "integer", "minimum": 1}, max_tokens={"type": "integer", "minimum": 1}
    ),
    denial=_closed(("reason",), reason=STRING, message=STRING),
    error=_closed(("code",), code=STRING, message=STRING),
    extensions=OBJECT,
)


# -- signing ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlatformSigner:
    """Signs as a platform: HMAC-SHA256 over method, path, hash of the body, timestamp and nonce."""

    key_id: str
    secret: str

    def fields(
        self, method: str, url: str, body: bytes, *, at: datetime | None = None, nonce: str | None = None
    ) -> dict[str, str]:
        instant = (at or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")
        unique = nonce or secrets.token_urlsafe(24)
        return {
            "content-type": JSON,
            "x-aip-version": "0.1",
            "x-aip-key-id": self.key_id,
            "x-aip-timestamp": instant,
            "x-aip-nonce": unique,
            "x-aip-signature": self.signature(method, url, body, instant, unique),
        }

    def signature(self, method: str, url: str, body: bytes, instant: str, nonce: str) -> str:
        """`method` is the status code where a response is signed."""
        parts = urlsplit(url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        text = "\n".join((method, path, hashlib.sha256(body).hexdigest(), instant, nonce))
        return "v1=" + base64.b64encode(hmac.digest(self.secret.encode(), text.encode(), "sha256")).decode()


def signer(target: Target) -> PlatformSigner:
    return PlatformSigner(target.fixture("intent_key_id"), target.fixture("intent_secret"))


# -- facts -----------------------------------------------------------------------------------------------------------


def declaration(target: Target) -> dict[str, Any]:
    """The declaration of a publisher. NotTestable without one, or where the file is another project's."""

    def read() -> dict[str, Any]:
        answer = target.well_known(WELL_KNOWN)
        require(answer.status == 200, f"{answer.name}: there is no declaration")
        document = answer.object
        require("aip_version" in document or "editorial_domains" in document, "the file is another protocol's")
        return document

    return target.once("declaration", read)


def address(target: Target, name: str) -> str:
    """The URL of an endpoint. NotTestable where the declaration has none."""
    endpoint = declaration(target).get("endpoints", {}).get(name, {})
    url = endpoint.get("url") if isinstance(endpoint, dict) else None
    require(isinstance(url, str), f"the declaration has no endpoints.{name}.url")
    return str(url)


def request(target: Target, **changes: Any) -> dict[str, Any]:
    """A request that has hits, with other members: `domain`, `query_text`, or members of the request itself."""
    runtime = {"session_id": f"ses_{uuid.uuid4()}", "turn_index": 0}
    query = changes.pop("query_text", target.fixtures.intent_query or target.fixtures.query or "the")
    domains = declaration(target).get("editorial_domains") or ["business"]
    domain = changes.pop("domain", target.fixtures.intent_domain or domains[0])
    return {
        "aip_version": "0.1",
        "request_id": f"req_{uuid.uuid4().hex}",
        "timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "platform": {"id": target.fixtures.intent_key_id or "conformance"},
        "intent": {"domain": domain},
        "context": {"language": "en-US"},
        "runtime": {**runtime, **({} if query is None else {"query_text": query})},
        **changes,
    }


def retrieve(target: Target, body: Any, headers: Mapping[str, str] = MappingProxyType({})) -> Exchange:
    """Sends a signed request; `headers` win over those of the signature, an empty one leaves its field out."""
    url, content = address(target, "retrieve"), orjson.dumps(body)
    return send_signed(target, url, content, {**signer(target).fields("POST", url, content), **headers})


def send_signed(target: Target, url: str, content: bytes, fields: Mapping[str, str]) -> Exchange:
    return target.send("POST", url, {name: value for name, value in fields.items() if value}, content)


def granted(target: Target) -> tuple[dict[str, Any], Exchange]:
    """A request and the answer that grants it. NotTestable where nothing is granted."""

    def find() -> tuple[dict[str, Any], Exchange]:
        body = request(target)
        answer = retrieve(target, body)
        require(answer.status == 200 and answer.object.get("status") == "ok", f"{answer.name}: {shown(answer.object)}")
        return body, answer

    return target.once("granted", find)


def expect_unauthenticated(answer: Exchange) -> None:
    expect(answer.status in {401, 403}, f"{answer.name}, expected 401 or 403")
    body = answer.object
    expect("content" not in body and "citations" not in body, f"{answer.name}: it has content")


# -- the declaration -------------------------------------------------------------------------------------------------


@CHECKS.add("aip.json", "MUST", "The declaration is served at /.well-known/aip.json and follows its schema.")
def _declaration(target: Target) -> None:
    document = declaration(target)
    expect_shape(document, DECLARATION, "aip.json")
    answer = target.well_known(WELL_KNOWN)
    expect(answer.media_type == JSON, f"{answer.name} as {answer.media_type}")


@CHECKS.add(
    "aip.json",
    "MUST",
    "publisher.domain is the host name of the publisher.",
    reading="that of the address under test, or one above it",
)
def _domain(target: Target) -> None:
    domain = str(declaration(target).get("publisher", {}).get("domain"))
    host = urlsplit(target.url).hostname or ""
    require(not is_loopback(target.url) or domain == host, "the server is on loopback")
    expect(host == domain or host.endswith(f".{domain}"), f"publisher.domain is {shown(domain)} on {host}")


@CHECKS.add("aip.json", "MUST", "Endpoints are https URLs.")
def _https(target: Target) -> None:
    for name, endpoint in declaration(target).get("endpoints", {}).items():
        url = str(endpoint.get("url"))
        expect(url.startswith("https://") or is_loopback(url), f"endpoints.{name}.url is {shown(url)}")


@CHECKS.add("Capabilities", "MUST", "Capabilities are the same for every caller and hold no inventory of content.")
def _capabilities(target: Target) -> None:
    url = address(target, "capabilities")
    method = declaration(target)["endpoints"]["capabilities"].get("method", "GET")
    plain = target.send(method, url, {"accept": JSON})
    expect(plain.status == 200 and isinstance(plain.object, dict), f"{plain.name}, expected 200")
    other = target.send(method, url, {"accept": JSON, "user-agent": "another", "x-aip-key-id": "somebody"})
    expect(plain.body == other.body, "the answer depends on the caller")


# -- authentication --------------------------------------------------------------------------------------------------


@CHECKS.add("Signing", "MUST", "A request without each of the five headers is refused with 401 or 403.")
def _unsigned(target: Target) -> None:
    url, content = address(target, "retrieve"), orjson.dumps(request(target))
    expect_unauthenticated(target.send("POST", url, {"content-type": JSON}, content))
    expect_unauthenticated(target.send("POST", url, {"content-type": JSON, "authorization": "Bearer x"}, content))


@CHECKS.add(
    "Signing",
    "MUST",
    "A request without each of the five headers is refused with 401 or 403.",
    reading="each header alone is left out",
)
def _missing_header(target: Target) -> None:
    for name in ("version", "key-id", "timestamp", "nonce", "signature"):
        expect_unauthenticated(retrieve(target, request(target), {f"x-aip-{name}": ""}))


@CHECKS.add("Signing", "MUST", "The body of a refusal is minimal: status error, and a code.")
def _refusal_body(target: Target) -> None:
    url, content = address(target, "retrieve"), orjson.dumps(request(target))
    body = target.send("POST", url, {"content-type": JSON}, content).object
    expect(body.get("status") == "error", f"status is {shown(body.get('status'))}")
    expect(isinstance(body.get("error"), dict) and isinstance(body["error"].get("code"), str), "there is no error.code")


@CHECKS.add(
    "Signing", "MUST", "A publisher verifies the signature, and refuses a request whose signature does not hold."
)
def _wrong_signature(target: Target) -> None:
    url, content = address(target, "retrieve"), orjson.dumps(request(target))
    known = signer(target)
    granted(target)
    wrong = PlatformSigner(known.key_id, known.secret + "x").fields("POST", url, content)
    expect_unauthenticated(send_signed(target, url, content, wrong))
    expect_unauthenticated(send_signed(target, url, content + b" ", known.fields("POST", url, content)))
    expect_unauthenticated(send_signed(target, url, content, known.fields("PUT", url, content)))
    expect_unauthenticated(send_signed(target, url, content, known.fields("POST", f"{url}x", content)))
    fields = known.fields("POST", url, content)
    expect_unauthenticated(send_signed(target, url, content, {**fields, "x-aip-nonce": secrets.token_urlsafe(24)}))


@CHECKS.add(
    "Signing",
    "SHOULD",
    "An unknown key is refused as a wrong signature is.",
    reading="so that nobody can find out which keys exist",
)
def _unknown_key(target: Target) -> None:
    url, content = address(target, "retrieve"), orjson.dumps(request(target))
    known = signer(target)
    wrong = send_signed(target, url, content, PlatformSigner(known.key_id, "wrong" * 8).fields("POST", url, content))
    unknown = send_signed(
        target, url, content, PlatformSigner("no-such-key", known.secret).fields("POST", url, content)
    )
    expect_unauthenticated(unknown)
    expect(wrong.status == unknown.status, f"{unknown.status} for an unknown key, {wrong.status} for a wrong signature")
    codes = [answer.object.get("error", {}).get("code") for answer in (wrong, unknown)]
    expect(codes[0] == codes[1], f"the codes are {shown(codes)}")


@CHECKS.add("Signing", "MUST", "A timestamp more than 300 seconds away is refused.")
def _stale(target: Target) -> None:
    url, content = address(target, "retrieve"), orjson.dumps(request(target))
    granted(target)
    for minutes in (-10, 10):
        at = datetime.now(UTC) + timedelta(minutes=minutes)
        expect_unauthenticated(send_signed(target, url, content, signer(target).fields("POST", url, content, at=at)))


@CHECKS.add("Signing", "MUST", "A nonce is used once.")
def _replay(target: Target) -> None:
    url, content = address(target, "retrieve"), orjson.dumps(request(target))
    fields = signer(target).fields("POST", url, content)
    first = send_signed(target, url, content, fields)
    require(first.status == 200, first.name)
    expect_unauthenticated(send_signed(target, url, content, fields))


@CHECKS.add("Signing", "MUST", "X-AIP-Version names a version that the publisher supports.")
def _version_header(target: Target) -> None:
    granted(target)
    expect_unauthenticated(retrieve(target, request(target), {"x-aip-version": "99.9"}))


@CHECKS.add(
    "Signing",
    "MUST",
    "A response is signed as a request is, with the status code in place of the method and "
    "over the hash of the response's body.",
)
def _response_signature(target: Target) -> None:
    _, answer = granted(target)
    found = {name: answer.header(f"x-aip-{name}") or "" for name in ("key-id", "timestamp", "nonce", "signature")}
    require(found["signature"], "the response is not signed")
    url = address(target, "retrieve")
    known = signer(target)
    stated = known.signature(str(answer.status), url, answer.body, found["timestamp"], found["nonce"])
    expect(hmac.compare_digest(stated, found["signature"]), "the signature of the response does not hold")
    expect(found["key-id"] == known.key_id, f"it is signed with the key {shown(found['key-id'])}")
    expect(found["nonce"] != dict(answer.request_fields).get("x-aip-nonce"), "the nonce is that of the request")


# -- consent ---------------------------------------------------------------------------------------------------------


@CHECKS.add("Denial reasons", "MUST", "out_of_scope: Intent not in editorial_domains.")
def _out_of_scope(target: Target) -> None:
    granted(target)
    declared = [str(domain) for domain in declaration(target)["editorial_domains"]]
    known = target.fixtures.intent_domain or declared[0]
    above = [known.rpartition(".")[0]] if "." in known and known.rpartition(".")[0] not in declared else []
    for domain in ("nosuchdomain.x5b1f", f"{known}x", *above):
        answer = retrieve(target, request(target, domain=domain))
        body = answer.object
        expect(body.get("status") == "denied", f"{answer.name}: status is {shown(body.get('status'))} for {domain}")
        expect(body["denial"].get("reason") == "out_of_scope", f"reason is {shown(body['denial'].get('reason'))}")


@CHECKS.add(
    "Denial reasons",
    "MUST",
    "Denial reasons (canonical): out_of_scope, access_disabled, policy_violation, rate_limited, unsupported.",
)
def _denial_reason(target: Target) -> None:
    granted(target)
    body = retrieve(target, request(target, domain="nosuchdomain.x5b1f")).object
    require(body.get("status") == "denied", "nothing is denied")
    expect(body.get("denial", {}).get("reason") in DENIALS, f"reason is {shown(body.get('denial'))}")


@CHECKS.add("Status handling", "MUST", "denied: No content returned; denial.reason provided.")
def _denied(target: Target) -> None:
    granted(target)
    sent = request(target, domain="nosuchdomain.x5b1f")
    answer = retrieve(target, sent)
    require(answer.object.get("status") == "denied", "nothing is denied")
    _expect_response(answer, sent)


@CHECKS.add(
    "RetrieveRequest",
    "MUST",
    "A request that violates the schema is refused.",
    reading="it has no status ok; auction, pricing and user identity are not members",
)
def _malformed(target: Target) -> None:
    granted(target)
    plain = request(target)
    bad: list[dict[str, Any]] = [
        {name: value for name, value in plain.items() if name != "intent"},
        {**plain, "intent": {"domain": "No Domain!"}},
        {**plain, "user": {"email": "jane@example.com"}},
        {**plain, "pricing": {"bid": 1}},
        {**plain, "runtime": {**plain["runtime"], "turn_index": -1}},
        {**plain, "context": {"language": 7}},
    ]
    for body in bad:
        answer = retrieve(target, body)
        expect(400 <= answer.status < 500, f"{answer.name} for {shown(body)}, expected a refusal")
        expect(answer.object.get("status") != "ok", f"{answer.name}: status is ok")


@CHECKS.add(
    "RetrieveRequest", "MUST", "A request that violates the schema is refused.", reading="a body that is not JSON"
)
def _no_json(target: Target) -> None:
    url = address(target, "retrieve")
    for content in (b"{", b"[]", b"\xff", b""):
        answer = send_signed(target, url, content, signer(target).fields("POST", url, content))
        expect(400 <= answer.status < 500, f"{answer.name} for {shown(content.decode(errors='replace'))}")
        expect(isinstance(answer.object, dict), answer.name)


@CHECKS.add("RetrieveRequest", "SHOULD", "extensions: namespaced members that a publisher may ignore.")
def _extensions(target: Target) -> None:
    granted(target)
    answer = retrieve(target, request(target, extensions={"vendor.trace": {"a": 1}}))
    expect(answer.object.get("status") == "ok", f"{answer.name}: {shown(answer.object)}")


@CHECKS.add(
    "Status handling",
    "MUST",
    "ok: Content returned in content.chunks.",
    reading="for a signed request within the editorial domains, where the fixtures say for which",
)
def _granted(target: Target) -> None:
    require(target.fixtures.intent_domain, "no fixture `intent_domain`")
    answer = retrieve(target, request(target))
    expect(answer.status == 200, f"{answer.name}, expected 200: {shown(answer.object)}")
    expect(answer.object.get("status") == "ok", f"status is {shown(answer.object.get('status'))}")


# -- the response ----------------------------------------------------------------------------------------------------


def _expect_response(answer: Exchange, sent: Mapping[str, Any]) -> None:
    body = answer.object
    expect_shape(body, RESPONSE, answer.name)
    own = {"ok": "content", "denied": "denial", "error": "error"}[body["status"]]
    expect(own in body, f"{answer.name}: status is {body['status']} and there is no `{own}`")
    for other in {"content", "denial", "error"} - {own}:
        expect(other not in body, f"{answer.name}: status is {body['status']} and there is `{other}`")
    expect(body["request_id"] == sent["request_id"], f"{answer.name}: request_id is {shown(body['request_id'])}")
    expect(is_timestamp(body["timestamp"]), f"{answer.name}: timestamp is {shown(body['timestamp'])}")


@CHECKS.add("Schema summary", "MUST", "aip_version, request_id, timestamp, status; content when status is ok")
def _response(target: Target) -> None:
    sent, answer = granted(target)
    expect_shape(answer.object, RESPONSE, answer.name)
    expect(answer.object["aip_version"] == sent["aip_version"], "the version is not that of the request")


@CHECKS.add("Schema summary", "MUST", "request_id: Echoes the request_id from the corresponding RetrieveRequest.")
def _request_id(target: Target) -> None:
    sent, answer = granted(target)
    found = answer.object.get("request_id")
    expect(found == sent["request_id"], f"request_id is {shown(found)}, expected {shown(sent['request_id'])}")


@CHECKS.add("Status handling", "MUST", "A response MUST NOT include both content and denial.")
def _content_or_denial(target: Target) -> None:
    sent, answer = granted(target)
    _expect_response(answer, sent)


@CHECKS.add("Content rules", "MUST", "Returned chunks MUST respect max_chunks and max_tokens from publisher policy.")
def _limits(target: Target) -> None:
    _, answer = granted(target)
    declared = declaration(target)["retrieval"]
    applied = answer.object.get("limits_applied", {})
    chunks = answer.object["content"]["chunks"]
    tokens = sum(chunk.get("token_count", 0) for chunk in chunks)
    for limits, name in ((declared, "aip.json"), (applied, "limits_applied")):
        most = limits.get("max_chunks")
        expect(most is None or len(chunks) <= most, f"{len(chunks)} chunks, and max_chunks of {name} is {most}")
        most = limits.get("max_tokens")
        expect(most is None or tokens <= most, f"{tokens} tokens, and max_tokens of {name} is {most}")


@CHECKS.add("Schema summary", "SHOULD", "limits_applied: Publisher-enforced limits (max_chunks, max_tokens).")
def _limits_applied(target: Target) -> None:
    applied = granted(target)[1].object.get("limits_applied", {})
    require(applied, "there is no limits_applied")
    declared = declaration(target)["retrieval"]
    for name in ("max_chunks", "max_tokens"):
        if name in applied and name in declared:
            expect(applied[name] <= declared[name], f"{name} is {applied[name]}, and {declared[name]} in aip.json")


@CHECKS.add("Citation rules", "MUST", "Citations MUST reference returned chunks.")
def _citations(target: Target) -> None:
    body = granted(target)[1].object
    require(body.get("citations"), "there are no citations")
    ids = {chunk["id"] for chunk in body["content"]["chunks"]}
    for citation in body["citations"]:
        foreign = set(citation.get("chunk_ids", ())) - ids
        expect(not foreign, f"a citation names {shown(sorted(foreign))}, which was not returned")


@CHECKS.add(
    "Citation rules",
    "MUST",
    "Citations MUST be truthful and canonical (source_url: Canonical URL of the cited source. Required).",
)
def _canonical(target: Target) -> None:
    body = granted(target)[1].object
    require(body.get("citations"), "there are no citations")
    for citation in body["citations"]:
        parts = urlsplit(str(citation.get("source_url")))
        absolute = parts.scheme in {"https", "http"} and parts.netloc
        expect(absolute, f"source_url is {shown(citation.get('source_url'))}")


@CHECKS.add("Purpose", "MUST", "It MUST NOT return: any advertising or pricing metadata.")
def _no_pricing(target: Target) -> None:
    body = granted(target)[1].object
    _expect_no_pricing({name: value for name, value in body.items() if name != "content"}, "")


def _expect_no_pricing(value: Any, path: str) -> None:
    if isinstance(value, dict):
        for name, inner in value.items():
            words = set(str(name).lower().replace("-", "_").replace(".", "_").split("_"))
            expect(not words & FORBIDDEN, f"the response has {path}{name}")
            _expect_no_pricing(inner, f"{path}{name}.")
    elif isinstance(value, list):
        for inner in value:
            _expect_no_pricing(inner, path)


@CHECKS.add("aip.json", "MUST", "cache_policy no_store: what is retrieved is not stored.")
def _no_store(target: Target) -> None:
    require(declaration(target)["intent_access"].get("cache_policy") == "no_store", "cache_policy is not no_store")
    _, answer = granted(target)
    expect("no-store" in (answer.header("cache-control") or ""), f"Cache-Control is {answer.header('cache-control')}")
