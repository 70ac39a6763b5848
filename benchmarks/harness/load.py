"""A load generator: prebuilt requests over keep-alive connections, on one thread, directly on sockets.

Closed loop: every connection sends its next request as soon as its answer has arrived. Open loop: requests are due at
given times, whatever the answers do, and latency counts from the due time, so a stalled server is charged for all
requests that should have been sent meanwhile (no coordinated omission). What the generator itself was late is kept
beside it. Every sample is kept; figures are computed from the samples afterwards. A framing tells where an answer ends:
HTTP/1.1 (`http_frame`) or RESP (`resp_frame`).
"""

from __future__ import annotations

import gc
import os
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.resp import reply_length

WAIT_SECONDS = 30.0
"""Grace period for pending answers at the end of a run; a later answer counts as an error."""

_READ = 1 << 18
_ENDS = b"\r\n\r\n"

Request = bytes | Callable[[], bytes]
"""The bytes of a request, or a function that makes them when they are sent (a signature carries its time)."""

Framing = Callable[[bytes], tuple[int, int]]
"""The length and the status of the answer that begins with these bytes; length 0 where more bytes are needed to know
it, -1 where it ends with an empty chunk."""


def http_frame(data: bytes) -> tuple[int, int]:
    head, end, _ = data.partition(_ENDS)
    if not end:
        return 0, 0
    _, found, length = head.lower().partition(b"\r\ncontent-length:")
    return (len(head) + len(end) + int(length.split(b"\r\n", 1)[0]) if found else -1), int(head[9:12])


def resp_frame(data: bytes) -> tuple[int, int]:
    """An error has status 500."""
    return reply_length(data), 500 if data.startswith(b"-") else 200


def arrivals(count: int, rate: float, *, random: bool) -> NDArray[np.float64]:
    """Seconds at which `count` requests are due: evenly, or independently of each other (a Poisson process)."""
    if not random:
        return np.arange(count) / rate
    due: NDArray[np.float64] = np.cumsum(np.random.default_rng(count).exponential(1 / rate, count))
    return due


@dataclass(frozen=True, slots=True)
class Samples:
    """All answers of a run: latencies in seconds, statuses (0: the connection broke), and the duration in seconds.

    `reconnected` counts idle connections that the server closed and the generator replaced. `late` holds the seconds
    between the moment at which a request was due and a connection idle, and its sending (open loop alone); `busy` is
    the share of the duration in which the generator used its core (closed loop alone: an open one never sleeps).
    """

    latencies: NDArray[np.float64]
    statuses: NDArray[np.int16]
    seconds: float
    reconnected: int = 0
    late: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    busy: float = 0.0

    @property
    def good(self) -> NDArray[np.float64]:
        return self.latencies[(self.statuses >= 200) & (self.statuses < 300)]

    def figures(self) -> dict[str, float]:
        """Throughput (answers a second), latency percentiles (ms) of 2xx answers, number of all other answers, and the
        lateness of the generator."""
        good = self.good
        quantiles = 1e3 * np.quantile(good, [0.5, 0.99, 0.999]) if len(good) else np.full(3, np.nan)
        names = ("p50_ms", "p99_ms", "p999_ms")
        return {
            "rate": len(good) / self.seconds,
            **dict(zip(names, quantiles.tolist(), strict=True)),
            "errors": len(self.latencies) - len(good),
            **({"late_p99_ms": 1e3 * float(np.quantile(self.late, 0.99))} if len(self.late) else {}),
        }


def request(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """The bytes of a request; underscores in header names become hyphens."""
    fields = {"host": "127.0.0.1", "content_type": "application/json", **headers, "content_length": str(len(body))}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body


@contextmanager
def pinned(core: int | None) -> Iterator[None]:
    """Pins this thread, and the processes it starts meanwhile, to one core; None: no pinning."""
    former = os.sched_getaffinity(0)
    if core is not None:
        os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, former)


@dataclass(slots=True, eq=False)
class _Connection:
    socket: socket.socket
    since: float = 0.0
    idle_since: float = 0.0
    asked: bool = False
    """Whether an answer is pending."""

    parts: list[bytes] = field(default_factory=list)
    size: int = 0
    whole: int = 0
    """Length of the pending answer in bytes, as its framing tells it."""

    status: int = 0


class Load:
    """Keep-alive connections to one server, for several runs."""

    def __init__(self, port: int, connections: int, framing: Framing = http_frame) -> None:
        self._address = ("127.0.0.1", port)
        self._framing = framing
        self._poll = select.epoll()
        self._idle: deque[_Connection] = deque()
        self._by_number: dict[int, _Connection] = {}
        self._latencies: list[float] = []
        self._statuses: list[int] = []
        self._late: list[float] = []
        self._reconnected = 0
        for _ in range(connections):
            self._idle.append(self._connect())

    def __enter__(self) -> Load:
        return self

    def __exit__(self, *problem: object) -> None:
        for connection in self._by_number.values():
            connection.socket.close()
        self._poll.close()

    def closed(self, requests: Sequence[Request], seconds: float) -> Samples:
        """Closed loop: cycles through the requests for `seconds`, with one pending request per connection."""
        following = cycle(requests)
        with self._run():
            started, used = time.perf_counter(), time.process_time()
            end = started + seconds
            while self._idle:
                self._send(self._idle.popleft(), next(following))
            while (now := time.perf_counter()) < end:
                self._receive(end - now)
                while self._idle:
                    self._send(self._idle.popleft(), next(following))
            samples = self._samples(time.perf_counter() - started, time.process_time() - used)
            self._settle()
        return samples

    def open(self, requests: Sequence[Request], seconds: float, rate: float, *, random: bool = False) -> Samples:
        """Open loop: `rate` requests a second on idle connections; waiting for one counts towards latency."""
        following = cycle(requests)
        with self._run():
            started = time.perf_counter()
            for due in (started + arrivals(int(seconds * rate), rate, random=random)).tolist():
                # Answers are read between any two requests: a burst of sending would add to their latencies. Without
                # sleeping: the shortest sleep exceeds the gap between requests.
                self._receive(0.0)
                while (now := time.perf_counter()) < due or not self._idle:
                    self._receive(0.0 if self._idle else 0.001)
                connection = self._idle.popleft()
                self._late.append(now - max(due, connection.idle_since))
                self._send(connection, next(following), due)
            self._settle()
            return self._samples(time.perf_counter() - started)

    @contextmanager
    def _run(self) -> Iterator[None]:
        """Empties the samples; garbage is collected before, not in between."""
        self._latencies, self._statuses, self._late, self._reconnected = [], [], [], 0
        self._receive(0.0)  # replace connections closed since the last run
        gc.collect()
        gc.disable()
        try:
            yield
        finally:
            gc.enable()

    def _samples(self, seconds: float, used: float = 0.0) -> Samples:
        latencies, statuses = np.array(self._latencies), np.array(self._statuses, np.int16)
        return Samples(latencies, statuses, seconds, self._reconnected, np.array(self._late), used / max(seconds, 1e-9))

    def _connect(self) -> _Connection:
        made = socket.create_connection(self._address, timeout=WAIT_SECONDS)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.setblocking(False)
        connection = self._by_number[made.fileno()] = _Connection(made)
        self._poll.register(made.fileno(), select.EPOLLIN)
        return connection

    def _send(self, connection: _Connection, message: Request, due: float | None = None) -> None:
        content = message if isinstance(message, bytes) else message()
        connection.since = time.perf_counter() if due is None else due
        connection.asked = True
        try:
            sent = connection.socket.send(content)
            if sent < len(content):
                connection.socket.setblocking(True)
                connection.socket.sendall(content[sent:])
                connection.socket.setblocking(False)
        except OSError:
            self._broken(connection)

    def _receive(self, timeout: float) -> None:
        """Reads available data; a connection with a complete answer becomes idle."""
        for number, _ in self._poll.poll(timeout):
            connection = self._by_number[number]
            if not connection.asked:
                self._ended(connection)
                continue
            try:
                part = connection.socket.recv(_READ)
            except OSError:
                part = b""
            if not part:
                self._broken(connection)
                continue
            connection.size += len(part)
            connection.parts.append(part)
            if not connection.whole:
                connection.whole, connection.status = self._framing(b"".join(connection.parts))
            if connection.size == connection.whole or (connection.whole < 0 and part.endswith(b"0" + _ENDS)):
                self._done(connection)

    def _done(self, connection: _Connection) -> None:
        connection.idle_since = time.perf_counter()
        self._latencies.append(connection.idle_since - connection.since)
        self._statuses.append(connection.status)
        connection.parts, connection.size, connection.whole, connection.asked = [], 0, 0, False
        self._idle.append(connection)

    def _broken(self, connection: _Connection) -> None:
        self._latencies.append(time.perf_counter() - connection.since)
        self._statuses.append(0)
        self._forget(connection)
        self._idle.append(self._connect())

    def _ended(self, connection: _Connection) -> None:
        """Replaces an idle connection that the server closed, which is not an error."""
        self._reconnected += 1
        self._idle.remove(connection)
        self._forget(connection)
        self._idle.append(self._connect())

    def _forget(self, connection: _Connection) -> None:
        number = connection.socket.fileno()
        self._poll.unregister(number)
        del self._by_number[number]
        connection.socket.close()

    def _settle(self) -> None:
        """Waits for pending answers; missing ones count as broken connections."""
        end = time.perf_counter() + WAIT_SECONDS
        while len(self._idle) < len(self._by_number) and time.perf_counter() < end:
            self._receive(0.05)
        for connection in [one for one in self._by_number.values() if one.asked]:
            self._broken(connection)


def answer(port: int, content: bytes, framing: Framing = http_frame) -> tuple[int, bytes]:
    """Sends one request; returns the status and the body (of RESP: the reply), for a check before a load run."""
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_SECONDS) as connection:
        connection.sendall(content)
        found, whole, status = b"", 0, 0
        while not whole or not (len(found) == whole or (whole < 0 and found.endswith(b"0" + _ENDS))):
            part = connection.recv(_READ)
            if not part:
                return 0, found
            found += part
            whole, status = framing(found)
    return status, found.partition(_ENDS)[2] if framing is http_frame else found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def processor_seconds(pid: int) -> float:
    """Processor time of all threads of a process so far, user and kernel."""
    total = 0
    for task in os.scandir(f"/proc/{pid}/task"):
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread may have ended
            total += int(Path(task.path, "schedstat").read_text().split()[0])
    return total / 1e9
