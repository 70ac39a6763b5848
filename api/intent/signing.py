"""The signatures of requests and answers: HMAC-SHA256 over a canonical string. Pure: it knows no clock and no store."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

VERSION, KEY, TIMESTAMP, NONCE, SIGNATURE = (
    "X-AIP-Version",
    "X-AIP-Key-Id",
    "X-AIP-Timestamp",
    "X-AIP-Nonce",
    "X-AIP-Signature",
)
SCHEME = "v1="
WINDOW_SECONDS = 300
"""How far a timestamp may be from now, either way; the bound itself passes."""
NONCE_BYTES = 16
USABLE_NONCE = re.compile(r"[!-~]{22,256}")
"""22 letters of base64 are the first that can hold 16 random bytes."""
RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)", re.ASCII
)


@dataclass(frozen=True, slots=True)
class Signed:
    """The five fields of a signed message."""

    version: str
    key_id: str
    timestamp: str
    nonce: str
    signature: str

    def headers(self) -> dict[str, str]:
        values = (self.version, self.key_id, self.timestamp, self.nonce, self.signature)
        return dict(zip((VERSION, KEY, TIMESTAMP, NONCE, SIGNATURE), values, strict=True))


def canonical(subject: str, path: str, body: bytes, timestamp: str, nonce: str) -> bytes:
    """What is signed. `subject` is the method of a request or the status of an answer; `path` has the query string."""
    parts = (subject, path, hashlib.sha256(body).hexdigest(), timestamp, nonce)
    return "\n".join(parts).encode("utf-8", "surrogateescape")


def signature(secret: str, text: bytes) -> str:
    """As it stands in the header."""
    code = hmac.digest(secret.encode(), text, "sha256")
    return SCHEME + base64.b64encode(code).decode()


def matches(secret: str, text: bytes, given: str) -> bool:
    """Whether it is the signature, in a time that does not tell where it differs."""
    return hmac.compare_digest(signature(secret, text).encode(), given.encode("utf-8", "surrogateescape"))


def sign(
    secret: str, key_id: str, version: str, *, status: int, path: str, body: bytes, now: float
) -> Mapping[str, str]:
    """The headers of an answer, with a nonce of its own."""
    timestamp, nonce = rfc3339(now), secrets.token_urlsafe(NONCE_BYTES)
    text = canonical(str(status), path, body, timestamp, nonce)
    return Signed(version, key_id, timestamp, nonce, signature(secret, text)).headers()


def rfc3339(now: float) -> str:
    """Unix time in UTC, to the millisecond."""
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def instant_of(text: str) -> float | None:
    """Unix time of an RFC 3339 date and time; None where it is none."""
    found = RFC3339.fullmatch(text)
    if found is None:
        return None
    day, clock, fraction, zone = found.groups()
    leap = clock.endswith(":60")  # Python knows none: the second before it, and one more
    try:
        moment = datetime.fromisoformat(f"{day}T{clock[:-2] + '59' if leap else clock}{zone.upper()}")
        return moment.timestamp() + leap + (float(f"0.{fraction}") if fraction else 0.0)
    except (ValueError, OverflowError):
        return None
