"""Signs of life: what a publisher tells replicas and its own server, what a replica makes of it, and a port of health.

A publisher that follows its store puts a small object into the bucket once in HEARTBEAT_SECONDS. These are 43,800
requests a month to write it, and as many to read what it replaces, 0.24 $ at S3; each replica asks so, too, for 0.02 $.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

from aidre.api.operations import fleet, prometheus
from aidre.engine.errors import AidreError, ConfigurationError

if TYPE_CHECKING:
    from aidre.engine.maintenance import Bucket, Replica

HEARTBEAT_SECONDS = 60
SILENT_SECONDS = 3 * HEARTBEAT_SECONDS
"""After so long without success a publisher is not healthy."""


class PublishRecord:
    """What a publisher has done, in a file of its store, where a server of the store finds it."""

    def __init__(self, store: Path, generations: Callable[[], dict[str, int]], *, stays: bool = False) -> None:
        """`generations` are those of the store. Silence is told of a publisher that `stays`, and of no other."""
        self._store, self.generations, self._stays = store, generations, stays
        known = fleet.read_state(store, fleet.PUBLISHES, fleet.Publishing)
        self._state = known or fleet.Publishing(fleet.boot(), None, 0.0, 0, {})

    @property
    def state(self) -> fleet.Publishing:
        return self._state

    def succeeded(self, published: Mapping[str, int]) -> None:
        """The bucket took these generations, or, where there are none, a sign of life."""
        known = {**self._state.published, **published}
        self._write(
            replace(
                self._state,
                boot=fleet.boot(),
                succeeded=fleet.moment() if self._stays else self._state.succeeded,
                succeeded_at=time.time(),
                published=known,
            )
        )

    def failed(self) -> None:
        self._write(replace(self._state, failures=self._state.failures + 1))

    def _write(self, state: fleet.Publishing) -> None:
        self._state = state
        fleet.write_state(self._store, fleet.PUBLISHES, state)


class ReplicaWatch:
    """Follows the publisher of a replica, and tells the workers how far that is behind it."""

    def __init__(self, replica: Replica, bucket: Bucket) -> None:
        self._replica, self._bucket = replica, bucket
        self._etag: str | None = None
        self._asked: float | None = None
        self._heard: float | None = None
        self._behind: float | None = None
        self._committed: Mapping[str, int] = {}

    def pulled(self, changed: Sequence[str]) -> None:
        """After each complete pull."""
        now = fleet.moment()
        is_due = self._asked is None or now - self._asked >= HEARTBEAT_SECONDS
        if (is_due and self._listen(now)) or (changed and self._committed):
            self._behind = (self._behind or now) if self._lacks() else None
        state = fleet.Pulling(fleet.boot(), now, self._heard, self._behind, self._committed)
        fleet.write_state(self._replica.cache, fleet.PULLS, state)

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
        return any(source.mark(name) is None or source.current(name) < one for name, one in self._committed.items())


# -- a port of health ------------------------------------------------------------------------------------------------


def parse_address(text: str) -> tuple[str, int]:
    """HOST:PORT, or PORT on loopback. ConfigurationError."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise ConfigurationError(f"--health: {text!r} is no address: give PORT, or HOST:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)


@contextmanager
def health_port(address: tuple[str, int], record: PublishRecord) -> Iterator[int]:
    """Answer GET /healthz and GET /metrics within this context; yields the port. ConfigurationError."""

    def lines() -> bytes:
        return prometheus.join_lines(prometheus.publish_lines(record.state, record.generations()))

    def is_alive() -> bool:
        state = record.state
        return state.succeeded is not None and fleet.age(state, state.succeeded) < SILENT_SECONDS

    try:
        server = ThreadingHTTPServer(address, _answering(is_alive, lines))
    except OSError as error:
        raise ConfigurationError(f"--health: cannot listen on {address[0]}:{address[1]}: {error.strerror}") from error
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
                self._send(200, prometheus.MEDIA_TYPE, lines())
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
