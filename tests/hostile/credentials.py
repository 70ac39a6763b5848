"""The readers of signatures and credentials, each as a function of bytes for fuzzers; see parsers.py.

What lets somebody in is told by a second implementation, which knows the secrets.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import weakref
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from starlette.requests import Request

from aidre.api.access.credentials import MAX_CREDENTIAL_BYTES, bearer_of
from aidre.api.access.jwt import TokenVerifier
from aidre.api.http.http_errors import Unauthorized, Unprocessable
from aidre.api.http.messages import parse_rfc3339
from aidre.api.protocols.intent.intent_messages import VERSIONS, read_event, read_retrieve
from aidre.api.protocols.intent.partners import IntentService
from aidre.api.protocols.intent.signed_envelope import AuthenticationFailed
from tests.hostile.fuzzed_json import SPELLED, spelled, spellings, value_of
from tests.hostile.parsing import Parser, one_line
from tests.support import issuer
from tests.support.clients import a_document, fill, serving

SECRET = "test-secret-0123456789abcdef"
INTENT = (
    '[intent]\nenabled = true\n[intent.editorial_domains.all]\ncollection = "docs"\n'
    f'[intent.keys]\nplatform = "{SECRET}"\nother = "{SECRET}2"\n'
)
NOW = 1_800_000_000.0
NONCE = "AAAAAAAAAAAAAAAAAAAAAAAA"


@dataclass(frozen=True, slots=True)
class Message:
    """The parts of a signed request, as a fuzzer gives them: separated by zero bytes."""

    version: bytes
    key_id: bytes
    timestamp: bytes
    nonce: bytes
    signature: bytes
    path: bytes
    body: bytes

    @staticmethod
    def of(content: bytes) -> Message:
        parts = content.split(b"\0", 6)
        return Message(*parts, *([b""] * (7 - len(parts))))

    def signed(self, secret: str) -> bytes:
        digest = hashlib.sha256(self.body).hexdigest().encode()
        text = b"\n".join((b"POST", self.path, digest, self.timestamp, self.nonce))
        return b"v1=" + base64.b64encode(hmac.digest(secret.encode(), text, "sha256"))

    def scope(self, signature: bytes) -> dict[str, Any]:
        names = ("version", "key-id", "timestamp", "nonce", "signature")
        values = (self.version, self.key_id, self.timestamp, self.nonce, signature)
        headers = [(f"x-aip-{name}".encode(), value) for name, value in zip(names, values, strict=True)]
        path = self.path.partition(b"?")
        scope: dict[str, Any] = {"type": "http", "method": "POST", "headers": headers, "state": {}}
        return {**scope, "raw_path": path[0], "path": path[0].decode("latin-1"), "query_string": path[2]}

    def timely(self) -> bool:
        instant = parse_rfc3339(self.timestamp.decode("latin-1"))
        return instant is not None and abs(instant - NOW) <= 300


def signatures(folder: Path) -> Parser:
    """The five fields of Agentic Intent, forged and rightly signed, and the messages under them."""
    fill(folder / "store", "docs", [a_document("d", "alpha")])
    with serving(folder / "store", INTENT) as client:
        service = IntentService(client.app.state.retrieval, folder, clock=lambda: NOW)

    def authenticate(message: Message, signature: bytes) -> None:
        right = any(
            hmac.compare_digest(signature, message.signed(secret))
            for key_id, secret in ((b"platform", SECRET), (b"other", SECRET + "2"))
            if message.key_id == key_id
        )
        usable = 22 <= len(message.nonce) <= 256 and all(33 <= each <= 126 for each in message.nonce)
        expected = right and usable and message.timely() and message.version.decode("latin-1") in VERSIONS
        try:
            service.authenticate(Request(message.scope(signature)), message.body)
        except AuthenticationFailed as error:
            one_line(error)
            assert not expected, f"refused though it is signed: {message}"
        else:
            assert expected, f"let in: {message}"

    def parse(content: bytes) -> None:
        message = Message.of(content)
        if message.path.isascii() and not message.path.endswith(b"?"):  # no other address reaches a server as it is
            authenticate(message, message.signature)
            authenticate(message, message.signed(SECRET))
        with suppress(ValueError):
            body = value_of(message.body, WORDS)
            if type(body) is dict:
                _messages(body)

    platform = {"id": "platform"}
    event = {
        "aip_version": "0.1", "event_id": "e", "event_type": "citation", "timestamp": "2026-04-01T10:00:00Z",
        "request_id": "r", "publisher": {"id": "p", "domain": "example.com"}, "platform": platform,
        "citation": {"source_url": "https://example.com/a", "chunk_ids": ["d#chunk_1"], "display_surface": "answer"},
    }  # fmt: skip
    asked = {
        "aip_version": "0.1", "request_id": "r", "timestamp": "2026-04-01T10:00:00.5+02:00", "platform": platform,
        "intent": {"domain": "all", "confidence": 0.5}, "context": {"language": "de-Latn-DE-1996-x-a"},
        "runtime": {"session_id": "s", "turn_index": 1.0, "query_text": "alpha", "latency_budget_ms": 50},
    }  # fmt: skip
    head = (b"0.1", b"platform", b"2027-01-15T08:00:00Z", NONCE.encode())
    seeds = []
    for body in (event, asked, {}):
        message = Message(*head, b"", b"/aip/retrieve", orjson.dumps(body))
        seeds.append(b"\0".join((*head, message.signed(SECRET), message.path, message.body)))
    seeds.append(b"\0".join((*head, b"v1=", b"/aip/events?a=%2F", spelled(bytes(range(60))))))
    return Parser(parse, seeds, WORDS)


WORDS = (
    "aip_version", "request_id", "timestamp", "platform", "intent", "context", "runtime", "event_id", "event_type",
    "publisher", "citation", "access", "extensions", "id", "domain", "subdomain", "confidence", "language", "geography",
    "country", "session_id", "turn_index", "query_text", "latency_budget_ms", "source_url", "chunk_ids", "0.1", "1.0",
    "display_surface", "2027-01-15T08:00:00Z", "2027-01-15T08:00:60.123456789-00:30", "example.com", "all", "en-US",
    "zh-cmn-Hans-CN-a-bbb-x-y", "US", "https://example.com/a", "finance.markets", "software", "citation", "x-a-b",
)  # fmt: skip


def _messages(body: dict[str, Any]) -> None:
    """Both messages with a body; in one that lacks them the members that all have are filled in."""
    for whole in (body, {"aip_version": "0.1", "request_id": "r", "timestamp": "2026-04-01T10:00:00Z", **body}):
        for read in (
            lambda each: read_retrieve(each, "0.1", 100),
            lambda each: read_event(each, "0.1", {"id": "p", "domain": "example.com"}),
        ):
            try:
                read(whole)
            except Unprocessable as error:
                one_line(error)


def tokens(folder: Path) -> Parser:
    """Authorization fields: one Bearer or nothing, and JSON Web Tokens, forged and rightly signed."""
    oauth = issuer.oauth()
    runner = asyncio.Runner()
    known = TokenVerifier(oauth, lambda: issuer.public(issuer.EC, issuer.ED), lambda: NOW)
    runner.run(known.open())
    words = (
        *issuer.CLAIMS,
        "collections",
        "search vectors",
        issuer.ISSUER,
        issuer.AUDIENCE,
        "reader",
        "openid search",
    )

    def hold(token: bytes, claims: Any) -> None:
        try:
            holder = runner.run(known.grant(token))
        except Unauthorized as error:
            one_line(error)
        else:
            assert claims is not None, f"a forged token was believed: {token!r}"
            assert claims["iss"] == issuer.ISSUER and claims["exp"] > NOW - oauth.leeway
            assert issuer.AUDIENCE in claims["aud"], claims
            assert holder.caller.name == f"oauth {claims['sub']}"

    def parse(content: bytes) -> None:
        if content[:1] >= bytes([SPELLED]) or content[:1] == b"{":
            claims = None
            with suppress(ValueError):
                claims = value_of(content, words)
            if type(claims) is dict:
                with suppress(ValueError, TypeError):  # what no issuer could write down
                    hold(issuer.signed({**issuer.CLAIMS, **claims}, "Ed25519"), {**issuer.CLAIMS, **claims})
            return
        fields = [(b"authorization", value) for value in content.split(b"\0")[:3]]
        try:
            credential = bearer_of(fields)
        except Unauthorized as error:
            one_line(error)
            return
        assert credential is not None and len(fields) == 1 and 0 < len(credential) <= MAX_CREDENTIAL_BYTES
        if credential not in genuine:
            hold(credential, None)

    # With the parser goes its loop. `runner.close` would run it once more, maybe while another loop runs.
    weakref.finalize(parse, runner.get_loop().close)
    genuine = [issuer.signed(alg=alg) for alg in ("ES256", "Ed25519")]
    none = ".".join((issuer.encoded({"alg": "none"}), issuer.encoded(issuer.CLAIMS), "")).encode()
    odd = issuer.encoded({"alg": "ES256", "kid": ["e"], "crit": ["b64"], "b64": False}).encode() + b".e30.AA"
    seeds = [b"Bearer " + token for token in (*genuine, none, odd)] + [b"Basic eDp5", b"bearer  x\0Bearer y"]
    seeds += [json.dumps(claims).encode() for claims in (issuer.CLAIMS, {"aud": ["a", issuer.AUDIENCE], "exp": 1e99})]
    return Parser(parse, seeds + spellings(), words)
