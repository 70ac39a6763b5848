"""HMAC-SHA256 signatures of requests and answers, over a canonical string.

Pure functions: the module reads no clock and no store.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

VERSION_FIELD, KEY_ID_FIELD, TIMESTAMP_FIELD, NONCE_FIELD, SIGNATURE_FIELD = (
    "X-AIP-Version",
    "X-AIP-Key-Id",
    "X-AIP-Timestamp",
    "X-AIP-Nonce",
    "X-AIP-Signature",
)
SCHEME = "v1="
WINDOW_SECONDS = 300
"""Largest accepted difference between a timestamp and the clock, in either direction, inclusive."""
NONCE_BYTES = 16
NONCE_PATTERN = re.compile(r"[!-~]{22,256}")
"""Base64 needs at least 22 characters to hold 16 random bytes."""


@dataclass(frozen=True, slots=True)
class SignatureFields:
    """The values of the five header fields of a signed message."""

    version: str
    key_id: str
    timestamp: str
    nonce: str
    signature: str

    def headers(self) -> dict[str, str]:
        values = (self.version, self.key_id, self.timestamp, self.nonce, self.signature)
        return dict(
            zip((VERSION_FIELD, KEY_ID_FIELD, TIMESTAMP_FIELD, NONCE_FIELD, SIGNATURE_FIELD), values, strict=True)
        )


def canonical_string(subject: str, path: str, body: bytes, timestamp: str, nonce: str) -> bytes:
    """The bytes to sign. `subject` is the method of a request or the status of an answer; `path` includes the query."""
    parts = (subject, path, hashlib.sha256(body).hexdigest(), timestamp, nonce)
    return "\n".join(parts).encode("utf-8", "surrogateescape")


def compute_signature(secret: str, text: bytes) -> str:
    """The value of the signature field: the scheme, then the code in base64."""
    code = hmac.digest(secret.encode(), text, "sha256")
    return SCHEME + base64.b64encode(code).decode()


def verify_signature(secret: str, text: bytes, signature: str) -> bool:
    """Compare in constant time, so that the duration does not reveal where the signatures differ."""
    return hmac.compare_digest(compute_signature(secret, text).encode(), signature.encode("utf-8", "surrogateescape"))


def sign_response(
    secret: str, key_id: str, version: str, *, status: int, path: str, body: bytes, now: float
) -> Mapping[str, str]:
    """The signature headers of an answer, with a fresh nonce; `now` is Unix time."""
    timestamp, nonce = format_rfc3339(now), secrets.token_urlsafe(NONCE_BYTES)
    text = canonical_string(str(status), path, body, timestamp, nonce)
    return SignatureFields(version, key_id, timestamp, nonce, compute_signature(secret, text)).headers()


def format_rfc3339(now: float) -> str:
    """Format Unix time in UTC, to the millisecond."""
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
