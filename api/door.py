"""What is said to requests that come while all places are taken: what the application said to the last one of their
kind, within a second. So it costs a fraction of an answer to turn them away, and those inside are answered all the
same.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from starlette.types import Scope

from aidre.api.guard.guard import UNCOUNTED, WELL_KNOWN
from aidre.api.guard.running import Running
from aidre.api.logs import RequestLog
from aidre.api.metrics import Metrics

TURNED_AWAY = "turned_away"
"""In the state of a request: that there was no place for it, and that the refusal depends on nothing but its kind."""

SECONDS = 1.0
KINDS = 64
KIND_BYTES = 4_096
"""As many are remembered, of no more bytes; others are answered by the application."""

ALWAYS_ASKED = frozenset(path.split("/")[1].encode() for path in (*UNCOUNTED, WELL_KNOWN))
"""First parts of paths that are answered also when all places are taken, and of others that are not: /healthz/x."""

Kind = tuple[bytes, bytes, bytes]


@dataclass(frozen=True, slots=True)
class Said:
    """One answer as it went out, the id that it gave its request, and as what it was counted."""

    content: bytes
    request_id: bytes
    route: str
    code: str | None


class Door:
    """One per process; `running` knows whether there is a place."""

    __slots__ = ("_log", "_metrics", "_said", "_until", "running")

    def __init__(self, running: Running, metrics: Metrics, log: RequestLog | None = None) -> None:
        self.running = running
        self._metrics = metrics
        self._log = log
        self._said: dict[Kind, Said] = {}
        self._until = 0.0

    def answer(self, kind: Kind, now: float) -> bytes | None:
        """What to say to a request of this kind; None where it has to be asked of the application."""
        if now >= self._until:
            self._said.clear()
            return None
        if kind[1] in ALWAYS_ASKED or kind[0] == b"OPTIONS":  # a preflight needs no place, and looks like what does
            return None
        said = self._said.get(kind)
        if said is None:
            return None
        self._metrics.began()
        self._metrics.ended(said.route, 503, 0.0, said.code)
        if self._log is not None:
            self._log.turned_away()
        return said.content.replace(said.request_id, b"req_%018x" % random.getrandbits(72))

    def remember(self, kind: Kind, content: bytes, scope: Scope, now: float) -> None:
        """That the application, which had no place, said this; a signature is good for one request alone."""
        if now >= self._until:
            self._said.clear()
            self._until = now + SECONDS
        state = scope["state"]
        is_small = sum(map(len, kind)) <= KIND_BYTES
        if len(self._said) < KINDS and is_small and b"ignature-input: " not in content:
            self._said[kind] = Said(content, state["request_id"].encode(), scope["path"], state.get("code"))


def kind_of(method: bytes, url: bytes, headers: Any) -> Kind:
    """What a refusal depends on: the method, the first part of the path, which tells the protocol, and what the caller
    accepts."""
    path = url.partition(b"?")[0].split(b"/", 2)
    accepted = b",".join([value for name, value in headers if name in {b"accept", b"origin"}])
    return method, path[1] if len(path) > 1 else b"", accepted
