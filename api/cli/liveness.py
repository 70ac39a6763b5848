"""Signs of life: what a publisher tells replicas and its own server, what a replica makes of it, and a port of health.

A publisher that follows its store puts a small object into the bucket once in HEARTBEAT_SECONDS. These are 43,800
requests a month to write it, and twice as many to read what it replaces and the term, 0.25 $ at S3; each replica asks
once a minute, too, for 0.02 $.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

from aidre.api.operations import fleet_status, monitoring
from aidre.engine.errors import AidreError, ConfigurationError

if TYPE_CHECKING:
    from aidre.engine.maintenance import Bucket, Replica

HEARTBEAT_SECONDS = 60
SILENT_SECONDS = 3 * HEARTBEAT_SECONDS
"""After so long without success a publisher is not healthy."""
PROGRESS_SECONDS = 10
"""Between two notes of an upload that goes on."""


class PublishRecord:
    """What a publisher has done, in a file of its store, where a server of the store finds it."""

    def __init__(
        self, store: Path, generations: Callable[[], dict[str, int]], *, stays: bool = False, only: str | None = None
    ) -> None:
        """`generations` are those of the store that are followed, `only` the name of one collection that alone is.
        Only a publisher that `stays` is reported as silent."""
        self._store, self.generations, self._stays, self._only = store, generations, stays, only
        known = fleet_status.read_state(store, fleet_status.PUBLISHES, fleet_status.Publishing)
        self._state = known or fleet_status.Publishing(fleet_status.boot(), None, 0.0, 0, {})
        self.refused: frozenset[str] = frozenset()
        self._told: float | None = None
        self._writing = threading.Lock()

    @property
    def state(self) -> fleet_status.Publishing:
        return self._state

    def succeeded(self, published: Mapping[str, int]) -> None:
        """The bucket took these generations, or, where there are none, a sign of life. While others are `refused` the
        publisher is not healthy."""
        with self._writing:
            known = {**self._state.published, **published}
            state = replace(self._state, published=known)
            self._write(state if self.refused else self._alive(state))

    def progressed(self) -> None:
        """The bucket took one object of many."""
        with self._writing:
            if self._stays and (self._told is None or fleet_status.moment() - self._told >= PROGRESS_SECONDS):
                self._write(self._alive(self._state))

    def failed(self) -> None:
        with self._writing:
            self._write(replace(self._state, failures=self._state.failures + 1))

    def _alive(self, state: fleet_status.Publishing) -> fleet_status.Publishing:
        alive = replace(state, succeeded_at=time.time())
        if not self._stays:
            return alive
        self._told = fleet_status.moment()
        return replace(alive, boot=fleet_status.boot(), succeeded=self._told, only=self._only)

    def _write(self, state: fleet_status.Publishing) -> None:
        self._state = state
        fleet_status.write_state(self._store, fleet_status.PUBLISHES, state)


class ReplicaWatch:
    """Follows the publisher of a replica, and tells the workers how far that is behind it."""

    def __init__(self, replica: Replica, bucket: Bucket) -> None:
        self._replica, self._bucket = replica, bucket
        self._etag: str | None = None
        self._asked: float | None = None
        self._heard: float | None = None
        self._behind: float | None = None
        self._committed: Mapping[str, int] = {}

    def pulled(self, changed: Sequence[str] | None) -> None:
        """After each pull; None: it was not complete, and the publisher is listened to nevertheless."""
        now = fleet_status.moment()
        is_due = self._asked is None or now - self._asked >= HEARTBEAT_SECONDS
        may_differ = bool(changed) or (changed is None and self._behind is not None)
        if (is_due and self._listen(now)) or (may_differ and self._committed):
            self._behind = (self._behind or now) if self._lacks() else None
        last = now if changed is not None else self._last_pull(now)
        if last is not None:
            state = fleet_status.PullStatus(fleet_status.boot(), last, self._heard, self._behind, self._committed)
            fleet_status.write_state(self._replica.cache, fleet_status.PULLS, state)

    def _last_pull(self, now: float) -> float | None:
        """The moment of the last complete pull, also of a process before this one; None where this is not a replica."""
        from aidre.engine.maintenance import pulled_at

        at = pulled_at(self._replica.cache)
        return None if at is None else now - max(0.0, time.time() - at)

    def _listen(self, now: float) -> bool:
        """Whether there was a new sign of life. A first one may be old: so its own time counts, then the clock here."""
        from aidre.engine.maintenance import read_heartbeat

        self._asked = now
        try:
            found = read_heartbeat(self._bucket, self._etag)
        except AidreError:
            return False
        if found is None:
            return False
        heartbeat, etag = found
        is_first, self._etag = self._etag is None, etag
        self._heard = now - max(0.0, time.time() - heartbeat.at) if is_first else now
        self._committed = heartbeat.generations
        return True

    def _lacks(self) -> bool:
        source = self._replica.source
        return any(
            source.mark(name) is None or source.current(name) < generation
            for name, generation in self._committed.items()
        )


# -- a port of health ------------------------------------------------------------------------------------------------


def parse_address(text: str) -> tuple[str, int]:
    """HOST:PORT, or PORT on loopback. ConfigurationError."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise ConfigurationError(f"--health: {text!r} is not an address: give PORT, or HOST:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)


@contextmanager
def health_port(address: tuple[str, int], record: PublishRecord) -> Iterator[int]:
    """Answer GET /healthz and GET /metrics within this context; yields the port. ConfigurationError."""

    def lines() -> bytes:
        return monitoring.join_lines(monitoring.publish_lines(record.state, record.generations()))

    def is_alive() -> bool:
        state = record.state
        return state.succeeded is not None and fleet_status.age(state, state.succeeded) < SILENT_SECONDS

    try:
        family = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0][0]
        served = type("HealthServer", (ThreadingHTTPServer,), {"address_family": family})
        server: ThreadingHTTPServer = served(address, _answering(is_alive, lines))
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or "this is not a host"
        raise ConfigurationError(f"--health: cannot listen on {address[0]}:{address[1]}: {why}") from error
    thread = threading.Thread(target=server.serve_forever, name="health", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def _answering(is_alive: Callable[[], bool], lines: Callable[[], bytes]) -> type[BaseHTTPRequestHandler]:
    class Answering(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            if self.path == "/healthz":
                alive = is_alive()
                body = b'{"status":"ok"}' if alive else b'{"status":"late"}'
                self._send(200 if alive else 503, "application/json", body)
            elif self.path == "/metrics":
                self._send(200, monitoring.MEDIA_TYPE, lines())
            else:
                self._send(404, "text/plain", b"/healthz or /metrics\n")

        def _send(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            headers = {"Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": "no-store"}
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is logged of scrapes."""

    return Answering
