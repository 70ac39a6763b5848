"""Runs a search inline in the event loop or in a thread, by its estimated duration, or rejects it.

The engine estimates a search (`Reader.estimated_seconds`). A short one runs inline: at once while the turn of the event
loop has time, later in the order of arrival. A long one runs in a thread. When the estimated wait of queued work
exceeds its limit, new searches are rejected at once with Retry-After, instead of being answered after their callers
have gone.

Searches with equal *batch keys* that wait, for a turn or for a thread, are made in one call. No search waits for a
batch to fill, but if several came in the last turn, those of this turn wait for its end, to share one scan.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

from aidre.api.http import Overloaded
from aidre.engine.embedding import available_cores

INLINE_SECONDS = 0.002
"""Shorter searches run inline: the hand-over to a thread and back costs a good part of this while both compete for the
interpreter lock, and other requests wait no longer for it than for a turn."""

TURN_SECONDS = 0.005
"""A turn of the event loop ends with the work that reaches this."""

THREAD_SECONDS = 0.01
"""The estimate for work that runs in a thread without an estimate of its own."""

MAX_BATCH = 8
"""Searches in one call: more save nothing, and the first of them waits for the last."""

T = TypeVar("T")
Item = TypeVar("Item")


class Backlog:
    """Work that waits for a thread or runs in one, in estimated seconds; at most `max_wait` of it waits per thread."""

    def __init__(self, max_wait: float, threads: int = 1) -> None:
        self._max_wait = max_wait
        self._threads = threads
        self._seconds = 0.0
        self._jobs = 0

    def enter(self, seconds: float) -> None:
        """Raises Overloaded. While a thread is free any job is accepted, however long."""
        wait = self._seconds / self._threads
        if self._jobs >= self._threads and wait > self._max_wait:
            raise Overloaded(math.ceil(wait))
        self._jobs += 1
        self._seconds += seconds

    def leave(self, seconds: float) -> None:
        """`seconds` must be the value given to `enter`."""
        self._jobs -= 1
        self._seconds = self._seconds - seconds if self._jobs else 0.0


class LoopBudget:
    """A time budget for work in the event loop: TURN_SECONDS in a turn, the rest in later turns, in order of arrival.

    Between two turns the loop serves its sockets. So a request rejected for a full queue is answered at once,
    and not after all work that arrived before it. Work arriving while `is_spent` is False may `run` at once; other work
    waits. `max_wait` is in estimated seconds of waiting work.
    """

    __slots__ = (
        "_arrivals",
        "_is_crowded",
        "_is_ending",
        "_max_wait",
        "_spent",
        "_waiting",
        "_waiting_seconds",
        "is_spent",
    )

    def __init__(self, max_wait: float) -> None:
        self._max_wait = max_wait
        self._spent = 0.0
        self._waiting: deque[Callable[[], float]] = deque()
        self._waiting_seconds = 0.0
        self._arrivals = 0
        """Searches of this turn that may share a batch."""
        self._is_crowded = False
        """Whether several came in the last turn."""
        self._is_ending = False
        """Whether the next turn is called already."""
        self.is_spent = False

    def arrive(self) -> bool:
        """Counts a search that may share a batch; returns whether to expect others in this turn."""
        self._arrivals += 1
        return self._is_crowded

    def run(self, work: Callable[[], T]) -> T:
        """Does work in this turn, and counts its duration by the clock."""
        started = perf_counter()
        try:
            return work()
        finally:
            self._spend(perf_counter() - started)

    def _spend(self, seconds: float) -> None:
        self._spent += seconds
        self.is_spent = self.is_spent or self._spent >= TURN_SECONDS
        self._end_turn()

    def _end_turn(self) -> None:
        """Has the next turn called, once."""
        if not self._is_ending:
            self._is_ending = True
            asyncio.get_running_loop().call_soon(self._next_turn)

    def enter(self, seconds: float) -> None:
        """Counts work that waits. Raises Overloaded if more waits than `max_wait`."""
        if self._waiting_seconds > self._max_wait:
            raise Overloaded(math.ceil(self._waiting_seconds))
        self._waiting_seconds += seconds

    def leave(self, seconds: float) -> None:
        """`seconds` must be the value given to `enter`."""
        self._waiting_seconds = max(self._waiting_seconds - seconds, 0.0)

    async def wait(self, seconds: float) -> None:
        """Waits for the turn of work that takes an estimated number of seconds. Raises Overloaded."""
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def begin() -> float:
            if begun.done():  # the caller has gone
                return 0.0
            begun.set_result(None)
            return seconds

        self.enter(seconds)
        self.defer(begin)
        try:
            await begun
        finally:
            self.leave(seconds)

    def defer(self, begin: Callable[[], float]) -> None:
        """Calls `begin` in a later turn; it returns the estimated seconds of what it has started."""
        self._waiting.append(begin)
        self._end_turn()

    def _next_turn(self) -> None:
        """Starts as much waiting work as fits into a turn."""
        self._is_crowded, self._arrivals = self._arrivals > 1, 0
        self._spent = started = 0.0
        while self._waiting and started < TURN_SECONDS:
            started += self._waiting.popleft()()
        self.is_spent = bool(self._waiting) or self._spent >= TURN_SECONDS
        self._is_ending = False  # only now, so that this turn's answers are sent before the next turn
        if self.is_spent or self._spent:
            self._end_turn()


_Batch = list[tuple[Any, "asyncio.Future[Any]"]]
"""Items with the futures of their results."""


class _BatchQueue:
    """Waiting items of one batch key."""

    def __init__(self, work: Callable[[Sequence[Any]], Sequence[Any]]) -> None:
        self.work = work
        self.waiting: _Batch = []
        self.running = 0
        """Batches in threads."""

    def take(self) -> _Batch:
        """Removes the next batch."""
        batch, self.waiting = self.waiting[:MAX_BATCH], self.waiting[MAX_BATCH:]
        return batch


class Scheduler:
    """All searches of a process. Its methods run in the event loop. `max_wait` is in seconds."""

    def __init__(self, max_wait: float) -> None:
        cores = available_cores()
        self._threads = ThreadPoolExecutor(cores, thread_name_prefix="search")
        self._backlog = Backlog(max_wait, cores)
        self._loop_budget = LoopBudget(max_wait)
        self._cores = cores
        self._queues: dict[Hashable, _BatchQueue] = {}

    async def run(self, seconds: float, work: Callable[[], T]) -> T:
        """The result of `work`, which is estimated to take `seconds`. Raises Overloaded."""
        if seconds > INLINE_SECONDS:
            return await self.run_in_thread(work, seconds)
        if self._loop_budget.is_spent:
            await self._loop_budget.wait(seconds)
        return self._loop_budget.run(work)

    async def run_in_thread(self, work: Callable[[], T], seconds: float = THREAD_SECONDS) -> T:
        """The same in a thread, however short. Raises Overloaded."""
        self._backlog.enter(seconds)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._backlog.leave(seconds)

    async def run_batched(
        self, seconds: float, batch_key: Hashable, item: Item, work: Callable[[Sequence[Item]], Sequence[T]]
    ) -> T:
        """The result of `item`, which alone is estimated to take `seconds`, from a call of `work` for items with the
        same batch key. Raises Overloaded."""
        is_short = seconds <= INLINE_SECONDS
        if is_short and not self._loop_budget.arrive() and not self._loop_budget.is_spent:
            return self._loop_budget.run(partial(work, [item]))[0]
        accounts: LoopBudget | Backlog = self._loop_budget if is_short else self._backlog
        accounts.enter(seconds)
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        result.add_done_callback(lambda _: accounts.leave(seconds))
        queue = self._queues.get(batch_key)
        if queue is None:
            queue = self._queues[batch_key] = _BatchQueue(work)
        queue.waiting.append((item, result))
        if is_short:
            if len(queue.waiting) % MAX_BATCH == 1:  # the others of a batch come with its first item
                self._loop_budget.defer(partial(self._run_inline, seconds, batch_key, queue))
        elif len(queue.waiting) == 1:
            asyncio.get_running_loop().call_soon(self._start_threads, batch_key, queue)
        return await result

    def _run_inline(self, seconds: float, batch_key: Hashable, queue: _BatchQueue) -> float:
        """Runs one batch; returns its estimated duration."""
        batch = queue.take()
        if not queue.waiting:
            self._queues.pop(batch_key, None)
        _set_results(batch, self._loop_budget.run(_bound_work(batch, queue.work)))
        return seconds * len(batch)

    def _start_threads(self, batch_key: Hashable, queue: _BatchQueue) -> None:
        """Runs batches in threads while fewer run than there are cores."""
        while queue.waiting and queue.running < self._cores:
            batch = queue.take()
            queue.running += 1
            work = _bound_work(batch, queue.work)
            running = asyncio.get_running_loop().run_in_executor(self._threads, work)
            running.add_done_callback(partial(self._thread_ended, batch_key, queue, batch))
        if not queue.waiting and not queue.running:
            self._queues.pop(batch_key, None)

    def _thread_ended(
        self, batch_key: Hashable, queue: _BatchQueue, batch: _Batch, running: asyncio.Future[list[Any]]
    ) -> None:
        queue.running -= 1
        if running.cancelled():  # the server stops
            for _, result in batch:
                result.cancel()
            return
        _set_results(batch, running.result())
        self._start_threads(batch_key, queue)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _bound_work(batch: _Batch, work: Callable[[Sequence[Any]], Sequence[Any]]) -> Callable[[], list[Any]]:
    return partial(_results_or_errors, [item for item, _ in batch], work)


def _results_or_errors(items: Sequence[Any], work: Callable[[Sequence[Any]], Sequence[Any]]) -> list[Any]:
    """The result of each item, or the exception that it causes alone."""
    try:
        return list(work(items))
    except Exception as error:  # run one by one, it shows which item caused it
        return [error] if len(items) == 1 else [_results_or_errors([item], work)[0] for item in items]


def _set_results(batch: _Batch, results: Sequence[Any]) -> None:
    for (_, future), result in zip(batch, results, strict=True):
        if future.done():
            continue  # the caller has gone
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
