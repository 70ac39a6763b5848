"""Decides where a search runs: in the event loop while it is short, in a thread while it is long, or not at all.

What a kind of search takes is measured, not modelled, so it holds for a thousand rows and for millions. A kind that was
not seen yet counts as long. While the long ones that wait would take longer than they may, more of them are refused at
once: a caller that is told to come back is better off than one whose answer comes after it has gone.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from aidre.api.refusals import Overloaded
from aidre.engine.runtime import available_cores

INLINE_SECONDS = 0.001
"""What lasts no longer is not worth the way to a thread and back, which takes a good part of this where both want the
interpreter; others wait no longer for it than for their turn."""

UNSEEN_SECONDS = 0.01
KINDS = 64
"""As many are remembered; the rest counts as not seen. The engine keeps the masks of about as many filters."""

NEWEST = 1 / 8
"""The weight of the newest time in a mean."""

FARTHEST = 4
"""It counts for no more than so many times the mean: where another process held the processor, it tells little."""

T = TypeVar("T")


class Backlog:
    """Work that waits for a thread or runs there, in seconds by estimate; `most` of it may wait."""

    def __init__(self, most: float, threads: int = 1) -> None:
        self._most = most
        self._threads = threads
        self._seconds = 0.0
        self._jobs = 0

    def enter(self, seconds: float) -> None:
        """Raises Overloaded; what finds nobody before it may come in whatever it takes."""
        wait = self._seconds / self._threads
        if self._jobs >= self._threads and wait > self._most:
            raise Overloaded(math.ceil(wait))
        self._jobs += 1
        self._seconds += seconds

    def leave(self, seconds: float) -> None:
        """`seconds` as they were when it came in."""
        self._jobs -= 1
        self._seconds = self._seconds - seconds if self._jobs else 0.0


class Estimate:
    """What something takes: a running mean in seconds that a single long time hardly moves, and several soon."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def learn(self, seconds: float) -> None:
        self.seconds += (min(seconds, FARTHEST * self.seconds) - self.seconds) * NEWEST


class Scheduler:
    """All searches of a process. Its methods run in the event loop."""

    def __init__(self, wait: float) -> None:
        cores = available_cores()
        self._threads = ThreadPoolExecutor(cores, thread_name_prefix="search")
        self._backlog = Backlog(wait, cores)
        self._kinds: OrderedDict[Hashable, Estimate] = OrderedDict()

    async def run(self, kind: Hashable | None, work: Callable[[], T]) -> T:
        """The result of `work`; without a `kind` it is long in any case. Raises Overloaded."""
        known = self._kinds.get(kind) if kind is not None else None
        if known is not None and known.seconds <= INLINE_SECONDS:
            self._kinds.move_to_end(kind)
            result, taken = _timed(work)
        else:
            result, taken = await self._in_a_thread(work, known.seconds if known else UNSEEN_SECONDS)
        if known is not None:
            known.learn(taken)
        elif kind is not None:
            self._remember(kind, taken)
        return result

    async def _in_a_thread(self, work: Callable[[], T], expected: float) -> tuple[T, float]:
        self._backlog.enter(expected)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, _timed, work)
        finally:
            self._backlog.leave(expected)

    def _remember(self, kind: Hashable, seconds: float) -> None:
        self._kinds[kind] = Estimate(seconds)
        if len(self._kinds) > KINDS:
            self._kinds.popitem(last=False)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    # By the clock: to ask for the time of a thread is a system call, at which a busy system takes the processor away.
    started = time.perf_counter()
    result = work()
    return result, time.perf_counter() - started
