"""Signs answers: Content-Digest (RFC 9530), and an HTTP message signature (RFC 9421).

The signature covers the digest, the status, the Content-Type, and the method and URI of the request. Every answer with
a Content-Length, a Content-Type and a body is signed, including errors. Streams are not, since their digest is known
only at the end and this server sends no trailers; nor are answers to HEAD, 204 and 304, which have no content. Signed
answers must not be transformed on their way (Cache-Control: no-transform, RFC 9111 5.2.2.6).
"""

from __future__ import annotations

import hashlib
import time
from binascii import b2a_base64
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from starlette.types import Scope

from aidre.api.http import BELOW_BASE, request_target
from aidre.api.protocols.provenance.keys import KeyRing, SigningKey

LABEL = "aidre"
TAG = "aidre-provenance"
LIFETIME_SECONDS = 300
"""Between `created` and `expires` of a signature."""
COMPONENTS = b'("@status" "content-type" "content-digest" "@method";req "@target-uri";req)'
BASE = (
    b'"@status": %d\n"content-type": %b\n"content-digest": sha-256=:%b:\n'
    b'"@method";req: %b\n"@target-uri";req: %b\n"@signature-params": %b'
)

WELL_KNOWN = b"/.well-known/"

Fields = list[tuple[bytes, bytes]]


class AnswerSigner:
    """Signs answers in one process. `base_url` is the prefix of the URLs that callers use, `origin` that of well-known
    documents, which are at the root of a website, too."""

    def __init__(
        self, ring: KeyRing, base_url: str, origin: str | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._ring = ring
        self._base = base_url.rstrip("/").encode()
        self._origin = (origin or base_url).rstrip("/").encode()
        base_host = urlsplit(base_url).hostname
        self._base_host = None if urlsplit(origin or base_url).hostname == base_host else base_host
        self._clock = clock
        self._key: SigningKey | None = None
        self._second = -1
        self._parameters = b""

    def target_uri(self, scope: Scope) -> bytes | None:
        """The URI that the caller asked for; None where the target is not an absolute path in ASCII.

        A well-known document is asked for at the root of the website unless the proxy, or the Host of a `base_url` on
        another host, says otherwise.
        """
        target = request_target(scope)
        if target[:1] != b"/" or not target.isascii():
            return None
        if not target.startswith(WELL_KNOWN) or scope.get("state", {}).get(BELOW_BASE) or self._is_for_base(scope):
            return self._base + target
        return self._origin + target

    def _is_for_base(self, scope: Scope) -> bool:
        if self._base_host is None:
            return False
        host = next((value for name, value in scope["headers"] if name == b"host"), b"").decode("latin-1")
        return host.lower().rpartition(":")[0] == self._base_host or host.lower() == self._base_host

    def fields(self, method: str, uri: bytes, status: int, content_type: bytes, body: bytes) -> Fields:
        """The three header fields that sign an answer to a request for `uri`."""
        second = int(self._clock())
        if second != self._second or self._key is not self._ring.signing:
            self._renew(second)
        digest = b2a_base64(hashlib.sha256(body).digest(), newline=False)
        values = (status, content_type, digest, method.encode(), uri, self._parameters)
        signature = b2a_base64(self._sign(BASE % values), newline=False)
        return [
            (b"content-digest", b"sha-256=:%b:" % digest),
            (b"signature-input", b"aidre=" + self._parameters),
            (b"signature", b"aidre=:%b:" % signature),
        ]

    def _renew(self, second: int) -> None:
        """Compute the signature parameters, which stay the same for a second."""
        key = self._ring.signing
        self._key, self._second, self._sign = key, second, key.sign
        expires = second + LIFETIME_SECONDS
        parameters = f';created={second};expires={expires};keyid="{key.public.id}";alg="ed25519";tag="{TAG}"'
        self._parameters = COMPONENTS + parameters.encode()


def signed_headers(signer: AnswerSigner, scope: Scope, status: int, headers: Fields, body: bytes) -> Fields:
    """The header fields of an answer with those of its signature; `body` is empty where a stream begins."""
    if scope["method"] == "HEAD":
        return headers
    if not _has_content(headers):
        # The Cache-Control of a 304 replaces that of the signed answer in a cache.
        return _untransformed(headers) if status == 304 else headers
    uri = signer.target_uri(scope)
    if not body or uri is None:
        return headers
    content_type = dict(headers)[b"content-type"]
    return [*_untransformed(headers), *signer.fields(scope["method"], uri, status, content_type, body)]


def _has_content(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    named = dict(headers)
    return bool(named.get(b"content-type")) and named.get(b"content-length", b"0") != b"0"


def _untransformed(fields: Fields) -> Fields:
    """The fields with `no-transform` in Cache-Control: a proxy that recompresses a body breaks its digest."""
    values = [value for name, value in fields if name == b"cache-control"]
    if any(b"no-transform" in value for value in values):
        return fields
    others = [field for field in fields if field[0] != b"cache-control"]
    return [*others, (b"cache-control", b", ".join([*values, b"no-transform"]))]
