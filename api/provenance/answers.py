"""Signs answers: Content-Digest (RFC 9530), and an HTTP message signature (RFC 9421) over it, status and request.

What has a Content-Length and a body is signed, errors too. Streams are not: their digest would be known at their end,
and no server here sends trailers; nor are answers to HEAD, 204 and 304, which have no content.
"""

from __future__ import annotations

import hashlib
import time
from binascii import b2a_base64
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aidre.api.provenance.keys import Ring, SigningKey
from aidre.api.wire import target_of

LABEL = "aidre"
TAG = "aidre-provenance"
LIFETIME_SECONDS = 300
COMPONENTS = b'("@status" "content-type" "content-digest" "@method";req "@target-uri";req)'
BASE = (
    b'"@status": %d\n"content-type": %b\n"content-digest": sha-256=:%b:\n'
    b'"@method";req: %b\n"@target-uri";req: %b\n"@signature-params": %b'
)

Fields = list[tuple[bytes, bytes]]


class AnswerSigner:
    """The signatures of answers in one process. `base_url` is what the addresses begin with that callers use."""

    def __init__(self, ring: Ring, base_url: str, *, clock: Callable[[], float] = time.time) -> None:
        self._ring = ring
        self._base = base_url.rstrip("/").encode()
        self._clock = clock
        self._key: SigningKey | None = None
        self._second = -1
        self._parameters = b""

    def fields(self, method: str, target: bytes, status: int, content_type: bytes, body: bytes) -> Fields:
        """The three header fields of an answer; `target` is path and query as they were sent."""
        second = int(self._clock())
        if second != self._second or self._key is not self._ring.signing:
            self._renew(second)
        digest = b2a_base64(hashlib.sha256(body).digest(), newline=False)
        values = (status, content_type, digest, method.encode(), self._base + target, self._parameters)
        signature = b2a_base64(self._sign(BASE % values), newline=False)
        return [
            (b"content-digest", b"sha-256=:%b:" % digest),
            (b"signature-input", b"aidre=" + self._parameters),
            (b"signature", b"aidre=:%b:" % signature),
        ]

    def _renew(self, second: int) -> None:
        """What stays the same for a second."""
        key = self._ring.signing
        self._key, self._second, self._sign = key, second, key.sign
        expires = second + LIFETIME_SECONDS
        about = f';created={second};expires={expires};keyid="{key.public.id}";alg="ed25519";tag="{TAG}"'
        self._parameters = COMPONENTS + about.encode()


class SignedAnswers:
    """The layer that signs; it stands around all that writes an answer."""

    def __init__(self, app: ASGIApp, signer: AnswerSigner) -> None:
        self.app = app
        self._signer = signer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] == "HEAD":
            await self.app(scope, receive, send)
            return
        opening: Message | None = None
        content_type = b""

        async def signed(message: Message) -> None:
            nonlocal opening, content_type
            if message["type"] == "http.response.start":
                named = dict(message["headers"])
                content_type = named.get(b"content-type", b"")
                if content_type and named.get(b"content-length", b"0") != b"0":
                    opening = message  # until its body is here
                    return
            elif opening is not None:
                start, opening = opening, None
                if not message.get("more_body", False):
                    fields = self._fields(scope, start["status"], content_type, message.get("body", b""))
                    start = {**start, "headers": [*start["headers"], *fields]}
                await send(start)
            await send(message)

        await self.app(scope, receive, signed)

    def _fields(self, scope: Scope, status: int, content_type: bytes, body: bytes) -> Fields:
        target = target_of(scope)
        if not body or target[:1] != b"/" or not target.isascii():
            return []  # of the last two no target URI can be said
        return self._signer.fields(scope["method"], target, status, content_type, body)
