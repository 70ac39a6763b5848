"""Responses to requests beyond the concurrency limit, repeated by the connection without asking the application.

The application's 503 to one request answers similar requests for a second. A repeated rejection costs a fraction of a
rendered one, so that an overloaded server still finishes the requests that it has admitted.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from starlette.types import Scope

from aidre.api.access import UNMETERED, WELL_KNOWN
from aidre.api.access.limits import ConcurrencyLimit
from aidre.api.http import AccessLog, Metrics

REJECTED = "rejected"
"""Key in `scope["state"]`: the request was rejected at the concurrency limit, with a response that depends on its
`RequestKind` alone."""

CACHE_SECONDS = 1.0
MAX_KINDS = 64
MAX_KIND_BYTES = 4_096
"""Limits of the cache; other requests are rejected by the application."""

UNLIMITED_SEGMENTS = frozenset(path.split("/")[1].encode() for path in (*UNMETERED, WELL_KNOWN))
"""First path segments with routes beyond the limit. Paths below them (/healthz/x) may be limited: the application
decides."""

RequestKind = tuple[bytes, bytes, bytes]
"""Everything that a rejection depends on: the method, the first path segment (it selects the protocol), and Accept
with Origin."""


@dataclass(frozen=True, slots=True)
class CachedRejection:
    """A response as written to the connection, the request id in it, and the labels under which it is counted."""

    content: bytes
    request_id: bytes
    route: str
    code: str | None


class RejectionCache:
    """One per process. `running` is the limit that the application enforces."""

    __slots__ = ("_expires_at", "_log", "_metrics", "_rejections", "running")

    def __init__(self, running: ConcurrencyLimit, metrics: Metrics, log: AccessLog | None = None) -> None:
        self.running = running
        self._metrics = metrics
        self._log = log
        self._rejections: dict[RequestKind, CachedRejection] = {}
        self._expires_at = 0.0

    def rejection(self, kind: RequestKind, now: float) -> bytes | None:
        """The response with a new request id, which it counts and logs; None if the application must answer."""
        if now >= self._expires_at:
            self._rejections.clear()
            return None
        if kind[1] in UNLIMITED_SEGMENTS or kind[0] == b"OPTIONS":  # a preflight is not limited, other OPTIONS are
            return None
        cached = self._rejections.get(kind)
        if cached is None:
            return None
        self._metrics.request_started()
        self._metrics.request_ended(cached.route, 503, 0.0, cached.code)
        if self._log is not None:
            self._log.count_rejected()
        return cached.content.replace(cached.request_id, b"req_%018x" % random.getrandbits(72))

    def store(self, kind: RequestKind, content: bytes, scope: Scope, now: float) -> None:
        """Caches the application's rejection, unless it is signed: a signature is valid for one request alone."""
        if now >= self._expires_at:
            self._rejections.clear()
            self._expires_at = now + CACHE_SECONDS
        state = scope["state"]
        is_small = sum(map(len, kind)) <= MAX_KIND_BYTES
        if len(self._rejections) < MAX_KINDS and is_small and b"ignature-input: " not in content:
            self._rejections[kind] = CachedRejection(
                content, state["request_id"].encode(), scope["path"], state.get("code")
            )


def kind_of(method: bytes, url: bytes, headers: Any) -> RequestKind:
    """`url` is path and query; `headers` are pairs of bytes with lower-case names."""
    segments = url.partition(b"?")[0].split(b"/", 2)
    accepted = b",".join([value for name, value in headers if name in {b"accept", b"origin"}])
    return method, segments[1] if len(segments) > 1 else b"", accepted
