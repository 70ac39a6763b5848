"""A load generator: prebuilt HTTP/1.1 requests over kept connections, one thread, no library between it and the socket.

Closed loop: every connection sends its next request when it has its answer. Open loop: requests are due at a fixed
rate and latency counts from the moment one was due, so a server that stalls is charged for all that should have been
asked meanwhile (no coordinated omission). It keeps every sample; figures are computed from them afterwards.
"""

from __future__ import annotations

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

WAIT_SECONDS = 30.0
"""How long answers that are out may take when a run is over: what comes later is an error."""

_READ = 1 << 18
_ENDS = b"\r\n\r\n"

Request = bytes | Callable[[], bytes]
"""Bytes as they go out, or what makes them: a signature belongs to its moment."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Every answer of a run: its latency in seconds and its status, 0 where the connection broke; the run's seconds.

    `reconnected` is how often the server had ended a connection that waited for nothing, and another took its place.
    """

    latencies: NDArray[np.float64]
    statuses: NDArray[np.int16]
    seconds: float
    reconnected: int = 0

    @property
    def good(self) -> NDArray[np.float64]:
        return self.latencies[(self.statuses >= 200) & (self.statuses < 300)]

    def figures(self) -> dict[str, float]:
        """Rate in answers a second, quantiles in milliseconds, both of good answers; and how many were not good."""
        good = self.good
        quantiles = 1e3 * np.quantile(good, [0.5, 0.99, 0.999]) if len(good) else np.full(3, np.nan)
        names = ("p50_ms", "p99_ms", "p999_ms")
        return {
            "rate": len(good) / self.seconds,
            **dict(zip(names, quantiles.tolist(), strict=True)),
            "errors": len(self.latencies) - len(good),
        }


def request(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """A request as bytes; an underscore in the name of a header stands for a hyphen."""
    fields = {"host": "127.0.0.1", "content_type": "application/json", **headers, "content_length": str(len(body))}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body


@contextmanager
def pinned(core: int | None) -> Iterator[None]:
    """This thread, and every process that it starts meanwhile, on one core; on all where that is None."""
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
    asked: bool = False
    """Whether an answer is awaited."""

    parts: list[bytes] = field(default_factory=list)
    size: int = 0
    whole: int = 0
    """Bytes of the answer that is coming; 0 until its header is there, -1 where only its end tells."""

    status: int = 0


class Load:
    """Connections to one server, to be asked several runs."""

    def __init__(self, port: int, connections: int, host: str = "127.0.0.1") -> None:
        self._address = (host, port)
        self._poll = select.epoll()
        self._idle: deque[_Connection] = deque()
        self._by_number: dict[int, _Connection] = {}
        self._latencies: list[float] = []
        self._statuses: list[int] = []
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
        """As many requests as the server answers in that time, one at a time on each connection, round and round."""
        self._begin_run()
        following = cycle(requests)
        started = time.perf_counter()
        end = started + seconds
        while self._idle:
            self._send(self._idle.popleft(), next(following))
        while (now := time.perf_counter()) < end:
            self._receive(end - now)
            while self._idle:
                self._send(self._idle.popleft(), next(following))
        samples = self._samples(time.perf_counter() - started)
        self._settle()
        return samples

    def open(self, requests: Sequence[Request], seconds: float, rate: float) -> Samples:
        """Requests at a fixed rate, each on a connection that is free; where none is, it is late since it was due."""
        self._begin_run()
        following = cycle(requests)
        started = time.perf_counter()
        count, sent = int(seconds * rate), 0
        while sent < count:
            due = started + sent / rate
            now = time.perf_counter()
            if now >= due and self._idle:
                self._send(self._idle.popleft(), next(following), due)
                sent += 1
            else:  # looked at without waiting: the system's shortest wait is longer than the gaps
                self._receive(0.0 if self._idle else 0.001)
        self._settle()
        return self._samples(time.perf_counter() - started)

    def _begin_run(self) -> None:
        self._latencies, self._statuses, self._reconnected = [], [], 0
        self._receive(0.0)  # which connections were ended since the last run

    def _samples(self, seconds: float) -> Samples:
        return Samples(np.array(self._latencies), np.array(self._statuses, np.int16), seconds, self._reconnected)

    def _connect(self) -> _Connection:
        made = socket.create_connection(self._address, timeout=WAIT_SECONDS)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.setblocking(False)
        connection = self._by_number[made.fileno()] = _Connection(made)
        self._poll.register(made.fileno(), select.EPOLLIN)
        return connection

    def _send(self, connection: _Connection, wanted: Request, due: float | None = None) -> None:
        content = wanted if isinstance(wanted, bytes) else wanted()
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
        """Takes what has come; connections whose answer is whole are idle again."""
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
                self._begin(connection)
            if connection.size == connection.whole or (connection.whole < 0 and part.endswith(b"0" + _ENDS)):
                self._done(connection)

    @staticmethod
    def _begin(connection: _Connection) -> None:
        """Reads the header of an answer, as soon as all of it is there."""
        head, end, _ = b"".join(connection.parts).partition(_ENDS)
        if not end:
            return
        connection.status = int(head[9:12])
        _, found, length = head.lower().partition(b"\r\ncontent-length:")
        connection.whole = len(head) + len(end) + int(length.split(b"\r\n", 1)[0]) if found else -1

    def _done(self, connection: _Connection) -> None:
        self._latencies.append(time.perf_counter() - connection.since)
        self._statuses.append(connection.status)
        connection.parts, connection.size, connection.whole, connection.asked = [], 0, 0, False
        self._idle.append(connection)

    def _broken(self, connection: _Connection) -> None:
        self._latencies.append(time.perf_counter() - connection.since)
        self._statuses.append(0)
        self._forget(connection)
        self._idle.append(self._connect())

    def _ended(self, connection: _Connection) -> None:
        """The server may end a connection that waits for nothing: that is no answer, and another takes its place."""
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
        """Waits for the answers that are out; those that do not come count as broken."""
        end = time.perf_counter() + WAIT_SECONDS
        while len(self._idle) < len(self._by_number) and time.perf_counter() < end:
            self._receive(0.05)
        for connection in [one for one in self._by_number.values() if one.asked]:
            self._broken(connection)


def answer(port: int, content: bytes) -> tuple[int, bytes]:
    """The status and the body of one answer, to look at before it is asked a hundred thousand times."""
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_SECONDS) as connection:
        connection.sendall(content.replace(b"\r\n", b"\r\nconnection: close\r\n", 1))
        parts = []
        while part := connection.recv(_READ):
            parts.append(part)
    head, _, body = b"".join(parts).partition(_ENDS)
    return int(head[9:12]), body


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def processor_seconds(pid: int) -> float:
    """What all threads of a process have used so far, in user space and in the kernel."""
    total = 0
    for task in os.scandir(f"/proc/{pid}/task"):
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread may end in this moment
            total += int(Path(task.path, "schedstat").read_text().split()[0])
    return total / 1e9
