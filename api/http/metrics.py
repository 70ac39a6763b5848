"""Counters and histograms of a server: requests by route and status, durations of requests and stages, error codes.

Each worker has a shared file of its own, locked while it lives, and increments numbers in it; a reader sums the files
of all workers. A worker that replaces a dead one continues its file, so no counter ever decreases. An observation costs
two or three additions, a seventh of what prometheus-client takes where several processes count; undeclared routes and
codes count as "other".

The numbers are float64: process id, gauges, the dropped lines of the access log, for each route its statuses and
histogram, for each stage its histogram, and one counter for each error code. A histogram is its buckets, the last
without an upper bound, and the sum.
"""

from __future__ import annotations

import hashlib
import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import count, takewhile
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aidre.api.http.shared_file import SharedFile

Stage: TypeAlias = Literal["embed", "search", "render"]
Numbers: TypeAlias = NDArray[np.float64]

STAGES: tuple[Stage, ...] = ("embed", "search", "render")
BUCKET_BOUNDS = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds in seconds, inclusive."""
SUM_OFFSET = len(BUCKET_BOUNDS) + 1
"""Offset of the sum in a histogram: after the bounded buckets and the one without a bound."""
HISTOGRAM_WIDTH = SUM_OFFSET + 1
STATUSES = (0, 200, 202, 204, 304, 400, 401, 403, 404, 405, 406, 408, 409, 410, 413, 415, 421, 422, 429, 500, 503)
"""0: the caller disconnected before the response."""
STATUS_OFFSETS = {status: offset for offset, status in enumerate(STATUSES)}
OTHER_STATUS = len(STATUSES)
STATUS_WIDTH = OTHER_STATUS + 1
OTHER = "other"
NUMBER_BYTES = 8
_RESTARTS = "restarts"

PID, IN_FLIGHT, QUEUED, DROPPED, FIRST_ROUTE = range(5)
"""Offsets of the first numbers. Those before DROPPED describe the present: they do not count for a dead worker."""


@dataclass(frozen=True, slots=True)
class WorkerCounters:
    """The counters of one worker process; they stay when it ends."""

    numbers: Numbers
    pid: int
    is_alive: bool


class Metrics:
    """The numbers of one worker."""

    def __init__(self, protocols: Sequence[str]) -> None:
        self.stages = tuple((protocol, stage) for protocol in protocols for stage in STAGES)
        self.declare((), ())

    def declare(self, routes: Sequence[str], codes: Iterable[str], folder: Path | None = None) -> None:
        """Allocates the numbers of routes and error codes; before, all requests count as "other".

        `folder` holds the files of all workers of a server; without it the numbers stay in memory.
        """
        self.routes = tuple(dict.fromkeys((*routes, OTHER)))
        self.codes = (*sorted(set(codes) - {OTHER}), OTHER)
        step = STATUS_WIDTH + HISTOGRAM_WIDTH
        self._routes = {route: FIRST_ROUTE + number * step for number, route in enumerate(self.routes)}
        first = FIRST_ROUTE + len(self.routes) * step
        self._stages = {names: first + number * HISTOGRAM_WIDTH for number, names in enumerate(self.stages)}
        first += len(self.stages) * HISTOGRAM_WIDTH
        self._codes = {code: first + number for number, code in enumerate(self.codes)}
        self._length = first + len(self.codes)
        self._other_route = self._routes[OTHER]
        self._other_code = self._codes[OTHER]
        declared = repr((self.routes, self.stages, self.codes, BUCKET_BOUNDS, STATUSES)).encode()
        self._kind = hashlib.blake2b(declared, digest_size=8).digest()
        self._folder = folder
        self._file = self._claim()
        self._values = self._file.body.cast("d")
        self._values[PID], self._values[IN_FLIGHT], self._values[QUEUED] = os.getpid(), 0.0, 0.0

    # -- observing ---------------------------------------------------------------------------------------------------

    def request_started(self) -> None:
        self._values[IN_FLIGHT] += 1

    def request_ended(self, route: str, status: int, seconds: float, code: str | None = None) -> None:
        """`code` is the error code of a refused request."""
        values = self._values
        values[IN_FLIGHT] -= 1
        offset = self._routes.get(route, self._other_route)
        values[offset + STATUS_OFFSETS.get(status, OTHER_STATUS)] += 1
        offset += STATUS_WIDTH
        values[offset + bisect_left(BUCKET_BOUNDS, seconds)] += 1
        values[offset + SUM_OFFSET] += seconds
        if code is not None:
            values[self._codes.get(code, self._other_code)] += 1

    def observe_stage(self, protocol: str, stage: Stage, seconds: float) -> None:
        """Adds the duration of a stage; an undeclared protocol is not counted."""
        offset = self._stages.get((protocol, stage))
        if offset is not None:
            values = self._values
            values[offset + bisect_left(BUCKET_BOUNDS, seconds)] += 1
            values[offset + SUM_OFFSET] += seconds

    def add_queued(self, change: int) -> None:
        """Adds to the number of texts that wait to be embedded."""
        self._values[QUEUED] += change

    def add_dropped(self, lines: int) -> None:
        """Adds to the number of lines of the access log that were lost."""
        self._values[DROPPED] += lines

    # -- reading -----------------------------------------------------------------------------------------------------

    def workers(self) -> list[WorkerCounters]:
        """All workers of this server, those that died included."""
        folder = self._folder
        if folder is None or not self._file.is_shared:
            return [_worker(self._file, is_alive=True)]
        workers = []
        for name in takewhile(lambda name: (folder / name).exists(), map(_name, count())):
            with closing(self._open(name)) as file:
                workers.append(_worker(file, is_alive=file.is_locked()))
        return workers

    def total(self, workers: Iterable[WorkerCounters]) -> Numbers:
        """The sum over workers; dead ones do not count in the gauges."""
        total = np.zeros(self._length)
        for worker in workers:
            total += worker.numbers
            if not worker.is_alive:
                total[:DROPPED] -= worker.numbers[:DROPPED]
        return total

    def requests(self, total: Numbers, route: str) -> Iterator[tuple[str, int]]:
        """Status and number of requests, for each status that occurred."""
        counts = total[self._routes[route] :][:STATUS_WIDTH]
        names = (*map(str, STATUSES), OTHER)
        yield from ((name, int(count)) for name, count in zip(names, counts, strict=True) if count)

    def route_seconds(self, total: Numbers, route: str) -> Numbers:
        """The histogram of a route."""
        return total[self._routes[route] + STATUS_WIDTH :][:HISTOGRAM_WIDTH]

    def stage_seconds(self, total: Numbers, protocol: str, stage: Stage) -> Numbers:
        """The histogram of a stage."""
        return total[self._stages[protocol, stage] :][:HISTOGRAM_WIDTH]

    def refusals(self, total: Numbers, code: str) -> int:
        return int(total[self._codes[code]])

    @property
    def restarts(self) -> int:
        """How many workers ended by themselves, or were killed, and were replaced."""
        with suppress(OSError, ValueError):
            return 0 if self._folder is None else int((self._folder / _RESTARTS).read_bytes())
        return 0

    # -- the files ---------------------------------------------------------------------------------------------------

    def _open(self, name: str) -> SharedFile:
        folders = [] if self._folder is None else [self._folder]
        return SharedFile(folders, name, self._kind, NUMBER_BYTES * self._length)

    def _claim(self) -> SharedFile:
        """The first file that no living worker holds, locked for as long as this one lives."""
        for name in map(_name, count()):
            file = self._open(name)
            if not file.is_shared or file.lock():
                break
            file.close()
        return file

    def close(self) -> None:
        """Releases the file to the next worker."""
        self._values.release()
        self._file.close()
        self.declare(self.routes, self.codes)


def count_restart(folder: Path) -> None:
    """In the folder that the workers share; one process counts."""
    path, temporary = folder / _RESTARTS, folder / f".{_RESTARTS}"
    temporary.write_text(f"{int(path.read_bytes()) + 1 if path.exists() else 1}")
    temporary.replace(path)


def _name(number: int) -> str:
    return f"metrics-{number}"


def _worker(file: SharedFile, *, is_alive: bool) -> WorkerCounters:
    numbers = np.frombuffer(file.body, np.float64).copy()
    pid, numbers[PID] = int(numbers[PID]), 0.0  # a sum of ids says nothing
    return WorkerCounters(numbers, pid, is_alive)
