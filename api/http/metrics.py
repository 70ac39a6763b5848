"""Counters and histograms of a server: requests by route and status, durations of requests and stages, error codes.

Each worker maps a file of its own and increments numbers in it; a reader sums the files of all workers. A worker that
replaces a dead one continues its file, so no counter ever decreases. An observation costs two or three additions;
undeclared routes and codes count as "other".

File: digest of the declaration (8 bytes), process id (8 bytes), then float64 numbers: the gauges, the dropped lines of
the access log, for each route its statuses and histogram, for each stage its histogram, and one counter for each error
code. A histogram is its buckets, the last without an upper bound, and the sum.
"""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import secrets
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Stage: TypeAlias = Literal["embed", "search", "render"]
Numbers: TypeAlias = NDArray[np.float64]

STAGES: tuple[Stage, ...] = ("embed", "search", "render")
BUCKET_BOUNDS = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds in seconds, inclusive."""
SUM_OFFSET = len(BUCKET_BOUNDS) + 1
"""Offset of the sum in a histogram: after the bounded buckets and the one without a bound."""
HISTOGRAM_WIDTH = SUM_OFFSET + 1
STATUSES = (0, 200, 202, 204, 304, 400, 401, 403, 404, 405, 406, 408, 409, 410, 413, 415, 421, 422, 429, 500, 503)
"""0: the caller went away before the response."""
STATUS_OFFSETS = {status: offset for offset, status in enumerate(STATUSES)}
OTHER_STATUS = len(STATUSES)
STATUS_WIDTH = OTHER_STATUS + 1
OTHER = "other"

SUFFIX = ".metrics"
IN_FLIGHT, QUEUED, DROPPED = range(3)
GAUGES = 2
"""The first numbers are gauges: IN_FLIGHT and QUEUED describe the present and do not count for a dead worker."""
FIRST_ROUTE = 3
NUMBER_BYTES = 8
HEAD_BYTES = 16


@dataclass(frozen=True, slots=True)
class Worker:
    """The numbers of one process; those of a dead one are kept."""

    numbers: Numbers
    pid: int
    is_alive: bool


class Metrics:
    """The numbers of one worker."""

    def __init__(self, protocols: Sequence[str]) -> None:
        self.stages = tuple((protocol, stage) for protocol in protocols for stage in STAGES)
        self._descriptor: int | None = None
        self.declare((), ())

    def declare(self, routes: Sequence[str], codes: Iterable[str], folder: Path | None = None) -> None:
        """Allocates the numbers of routes and error codes; before, all requests count as "other".

        `folder` holds the files of all workers of a server; without it the numbers stay in memory. Raises OSError.
        """
        self.routes = (*dict.fromkeys(routes), OTHER)
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
        self._folder = folder
        declared = repr((self.routes, self.stages, self.codes, BUCKET_BOUNDS, STATUSES)).encode()
        self._declared = hashlib.blake2b(declared, digest_size=8).digest()
        self._values = self._map_file(folder) if folder is not None else self._in_memory()

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

    def workers(self) -> list[Worker]:
        """All workers of this server, this one first."""
        return [Worker(np.array(self._values), os.getpid(), True), *self._other_workers()]

    def total(self, workers: Iterable[Worker]) -> Numbers:
        """The sum over workers; dead ones do not count in the gauges."""
        total = np.zeros(self._length)
        for worker in workers:
            total += worker.numbers
            if not worker.is_alive:
                total[:GAUGES] -= worker.numbers[:GAUGES]
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

    def _other_workers(self) -> Iterator[Worker]:
        if self._folder is None or self._descriptor is None:
            return
        own = os.fstat(self._descriptor).st_ino
        for path in sorted(self._folder.glob(f"*{SUFFIX}")):
            with suppress(OSError):
                descriptor = os.open(path, os.O_RDONLY)
                try:
                    if os.fstat(descriptor).st_ino == own:
                        continue
                    content = os.pread(descriptor, self._file_bytes + 1, 0)
                    is_alive = not _try_lock(descriptor, fcntl.LOCK_SH)
                finally:
                    os.close(descriptor)
                if len(content) == self._file_bytes and content[:NUMBER_BYTES] == self._declared:
                    pid = int.from_bytes(content[NUMBER_BYTES:HEAD_BYTES], "little")
                    yield Worker(np.frombuffer(content, np.float64, offset=HEAD_BYTES), pid, is_alive)

    # -- the file ----------------------------------------------------------------------------------------------------

    @property
    def _file_bytes(self) -> int:
        return HEAD_BYTES + NUMBER_BYTES * self._length

    def _in_memory(self) -> memoryview[float]:
        return memoryview(bytearray(NUMBER_BYTES * self._length)).cast("d")

    def _map_file(self, folder: Path) -> memoryview[float]:
        """Maps the file of a dead worker or a new one. The file is locked while this worker lives."""
        abandoned = map(self._take_over, sorted(folder.glob(f"*{SUFFIX}")))
        descriptor = next((taken for taken in abandoned if taken is not None), None)
        if descriptor is None:
            path = folder / f"{secrets.token_hex(8)}{SUFFIX}"
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            os.posix_fallocate(descriptor, 0, self._file_bytes)  # else a full disk kills us by SIGBUS
        os.pwrite(descriptor, self._declared + os.getpid().to_bytes(NUMBER_BYTES, "little"), 0)
        values = memoryview(mmap.mmap(descriptor, self._file_bytes))[HEAD_BYTES:].cast("d")
        values[IN_FLIGHT] = values[QUEUED] = 0.0
        self._descriptor = descriptor
        return values

    def _take_over(self, path: Path) -> int | None:
        """The locked descriptor of a dead worker's file; None for a living worker's file and for any other file."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return None
        content = os.pread(descriptor, NUMBER_BYTES, 0)
        is_ours = content == self._declared and os.fstat(descriptor).st_size == self._file_bytes
        if is_ours and _try_lock(descriptor, fcntl.LOCK_EX):
            return descriptor
        os.close(descriptor)
        return None

    def close(self) -> None:
        """Releases the file to the next worker."""
        if self._descriptor is not None:
            self._values.release()
            self._values = self._in_memory()
            os.close(self._descriptor)
            self._descriptor = None


def _try_lock(descriptor: int, lock: int) -> bool:
    """Takes the lock unless another process holds it."""
    try:
        fcntl.flock(descriptor, lock | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
