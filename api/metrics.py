"""What is counted while a server runs: requests by route and status, how long they and their stages take, refusals.

Each worker adds to numbers in a file of its own, which it maps; whoever is asked for the metrics sums the files of all.
A worker that takes the place of one that died goes on with its file, so that no count ever goes back. To observe is two
or three additions to preallocated numbers: names that were not declared are counted as "other".
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
BOUNDS = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the buckets, in seconds."""
SUM = len(BOUNDS) + 1
"""Where the sum stands: behind the buckets and the one that has no bound."""
WIDTH = SUM + 1
STATUSES = (0, 200, 202, 204, 304, 400, 401, 403, 404, 405, 406, 408, 409, 410, 413, 415, 422, 429, 500, 503)
"""0 is of a caller that went away before it had an answer."""
PLACES = {status: place for place, status in enumerate(STATUSES)}
OTHER_STATUS = len(STATUSES)
OTHER = "other"

SUFFIX = ".metrics"
IN_FLIGHT, QUEUED, DROPPED = range(3)
GAUGES = 2
"""The first numbers are of what goes on now, and are over when their worker is."""
FIRST = 3
NUMBER_BYTES = 8
HEAD_BYTES = 16
"""A digest of what is counted, and the process."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A process that serves, or that did: of one that is gone its counts remain."""

    numbers: Numbers
    pid: int
    lives: bool


class Metrics:
    """The numbers of one worker. `folder` is where those of all workers of a server are; a lone one needs none."""

    def __init__(
        self, routes: Sequence[str], protocols: Sequence[str], codes: Iterable[str], folder: Path | None = None
    ) -> None:
        self.routes = (*dict.fromkeys(routes), OTHER)
        self.stages = tuple((protocol, stage) for protocol in protocols for stage in STAGES)
        self.codes = (*sorted(set(codes) - {OTHER}), OTHER)
        step = OTHER_STATUS + 1 + WIDTH
        self._routes = {route: FIRST + place * step for place, route in enumerate(self.routes)}
        first = FIRST + len(self.routes) * step
        self._stages = {names: first + place * WIDTH for place, names in enumerate(self.stages)}
        first += len(self.stages) * WIDTH
        self._codes = {code: first + place for place, code in enumerate(self.codes)}
        self._length = first + len(self.codes)
        self._other = self._routes[OTHER]
        self._other_code = self._codes[OTHER]
        self._folder = folder
        declared = repr((self.routes, self.stages, self.codes, BOUNDS, STATUSES)).encode()
        self._declared = hashlib.blake2b(declared, digest_size=8).digest()
        self._descriptor: int | None = None
        self._values = self._mapped(folder) if folder is not None else self._alone()

    # -- observing ---------------------------------------------------------------------------------------------------

    def began(self) -> None:
        self._values[IN_FLIGHT] += 1

    def ended(self, route: str, status: int, seconds: float, code: str | None = None) -> None:
        """A request that `began` has its answer; `code` says why it was refused."""
        values = self._values
        values[IN_FLIGHT] -= 1
        place = self._routes.get(route, self._other)
        values[place + PLACES.get(status, OTHER_STATUS)] += 1
        place += OTHER_STATUS + 1
        values[place + bisect_left(BOUNDS, seconds)] += 1
        values[place + SUM] += seconds
        if code is not None:
            values[self._codes.get(code, self._other_code)] += 1

    def stage(self, protocol: str, stage: Stage, seconds: float) -> None:
        """A part of a request is done; of a protocol that was not declared nothing is counted."""
        place = self._stages.get((protocol, stage))
        if place is not None:
            values = self._values
            values[place + bisect_left(BOUNDS, seconds)] += 1
            values[place + SUM] += seconds

    def queued(self, change: int) -> None:
        """So many more, or fewer, wait for something."""
        self._values[QUEUED] += change

    def dropped(self, lines: int) -> None:
        """So many lines of the log could not be written."""
        self._values[DROPPED] += lines

    # -- reading -----------------------------------------------------------------------------------------------------

    def workers(self) -> list[Worker]:
        """Of all workers of this server, this one first."""
        return [Worker(np.array(self._values), os.getpid(), True), *self._others()]

    def total(self, workers: Iterable[Worker]) -> Numbers:
        """The sum of their counts, and of what goes on now in those that live."""
        found = np.zeros(self._length)
        for worker in workers:
            found += worker.numbers
            if not worker.lives:
                found[:GAUGES] -= worker.numbers[:GAUGES]
        return found

    def requests(self, total: Numbers, route: str) -> Iterator[tuple[str, int]]:
        """How often a route was answered with each status."""
        counts = total[self._routes[route] :][: OTHER_STATUS + 1]
        names = (*map(str, STATUSES), OTHER)
        yield from ((name, int(count)) for name, count in zip(names, counts, strict=True) if count)

    def route_seconds(self, total: Numbers, route: str) -> Numbers:
        """Counts by bucket, and the sum."""
        return total[self._routes[route] + OTHER_STATUS + 1 :][:WIDTH]

    def stage_seconds(self, total: Numbers, protocol: str, stage: Stage) -> Numbers:
        return total[self._stages[protocol, stage] :][:WIDTH]

    def refusals(self, total: Numbers, code: str) -> int:
        return int(total[self._codes[code]])

    def _others(self) -> Iterator[Worker]:
        if self._folder is None or self._descriptor is None:
            return
        own = os.fstat(self._descriptor).st_ino
        for path in sorted(self._folder.glob(f"*{SUFFIX}")):
            with suppress(OSError):
                descriptor = os.open(path, os.O_RDONLY)
                try:
                    if os.fstat(descriptor).st_ino == own:
                        continue
                    content = os.pread(descriptor, self._bytes + 1, 0)
                    lives = not _free(descriptor, fcntl.LOCK_SH)
                finally:
                    os.close(descriptor)
                if len(content) == self._bytes and content[:NUMBER_BYTES] == self._declared:
                    pid = int.from_bytes(content[NUMBER_BYTES:HEAD_BYTES], "little")
                    yield Worker(np.frombuffer(content, np.float64, offset=HEAD_BYTES), pid, lives)

    # -- the file ----------------------------------------------------------------------------------------------------

    @property
    def _bytes(self) -> int:
        return HEAD_BYTES + NUMBER_BYTES * self._length

    def _alone(self) -> memoryview[float]:
        return memoryview(bytearray(NUMBER_BYTES * self._length)).cast("d")

    def _mapped(self, folder: Path) -> memoryview[float]:
        """The numbers in a file that a dead worker left, or in a new one. It stays locked as long as this one lives."""
        left = map(self._left, sorted(folder.glob(f"*{SUFFIX}")))
        descriptor = next((found for found in left if found is not None), None)
        if descriptor is None:
            path = folder / f"{secrets.token_hex(8)}{SUFFIX}"
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            os.posix_fallocate(descriptor, 0, self._bytes)  # a write into a full disk's map would end the process
        os.pwrite(descriptor, self._declared + os.getpid().to_bytes(NUMBER_BYTES, "little"), 0)
        values = memoryview(mmap.mmap(descriptor, self._bytes))[HEAD_BYTES:].cast("d")
        values[IN_FLIGHT] = values[QUEUED] = 0.0
        self._descriptor = descriptor
        return values

    def _left(self, path: Path) -> int | None:
        """The locked descriptor of a file whose worker is gone; None where it lives, or where this is none of ours."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return None
        content = os.pread(descriptor, NUMBER_BYTES, 0)
        whole = content == self._declared and os.fstat(descriptor).st_size == self._bytes
        if whole and _free(descriptor, fcntl.LOCK_EX):
            return descriptor
        os.close(descriptor)
        return None

    def close(self) -> None:
        """Gives the file to the next worker."""
        if self._descriptor is not None:
            self._values.release()
            self._values = self._alone()
            os.close(self._descriptor)
            self._descriptor = None


def _free(descriptor: int, lock: int) -> bool:
    """Whether nobody holds a file; now this descriptor does."""
    try:
        fcntl.flock(descriptor, lock | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
