"""Runs a search inline in the event loop or in a thread, by the recent duration of similar searches, or rejects it.

Searches that take about equally long share a *kind*. Durations are measured, not modelled, so the rule holds for a
thousand rows and for millions. An unseen kind counts as long. Beside a busy event loop every search in a thread seems
long: a kind that needs little processor time there is tried inline from time to time. When the estimated wait of
queued work exceeds its limit, new searches are rejected at once with Retry-After, instead of being answered after
their callers have gone.

Searches with equal *batch keys* are made in one call: those that arrive in one turn of the event loop, and long ones
that arrive while all threads are busy. No search waits for a batch to fill.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from aidre.api.http import Overloaded
from aidre.api.retrieval.loop_budget import LoopBudget
from aidre.engine.embedding import available_cores

INLINE_SECONDS = 0.002
"""Shorter searches run inline: the hand-over to a thread and back costs a good part of this while both compete for the
interpreter lock, and other requests wait no longer for it than for a turn."""

UNSEEN_SECONDS = 0.01
"""The estimate for an unseen kind."""

MAX_KINDS = 64
"""Kinds remembered, by recent use; the engine caches the masks of no more filters for each segment."""

NEWEST_WEIGHT = 1 / 8
"""Weight of the newest duration in the exponential moving average."""

DOUBTS_BEFORE_INLINE = 16
"""After this many searches of a kind in a row that were long by the clock and short in processor time, the next one is
tried inline."""

MAX_OUTLIER = 4
"""A duration counts for at most this many times the mean: another process may have held the processor."""

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


class Estimate:
    """A moving average of durations in seconds, robust against one outlier."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def update(self, seconds: float) -> None:
        self.seconds += (min(seconds, MAX_OUTLIER * self.seconds) - self.seconds) * NEWEST_WEIGHT


class _KindEstimate(Estimate):
    """The duration of a kind, and how often threads made it seem longer than it was."""

    __slots__ = ("_doubts",)

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self._doubts = 0

    @property
    def is_short(self) -> bool:
        """Whether the next search runs inline: the kind is short, or it is time to try."""
        return self.seconds <= INLINE_SECONDS or self._doubts >= DOUBTS_BEFORE_INLINE

    def ran_inline(self, seconds: float) -> None:
        if self._doubts and seconds <= INLINE_SECONDS:
            self.seconds = min(self.seconds, seconds)
        else:
            self.update(seconds)
        self._doubts = 0

    def ran_in_thread(self, seconds: float, processor_seconds: float) -> None:
        self.update(seconds)
        self._doubts = self._doubts + 1 if processor_seconds <= INLINE_SECONDS else 0


_Batch = list[tuple[Any, "asyncio.Future[Any]"]]
"""Items with the futures of their results."""


class _BatchQueue:
    """Waiting items of one batch key."""

    def __init__(self, kind: Hashable, work: Callable[[Sequence[Any]], Sequence[Any]]) -> None:
        self.kind = kind
        self.work = work
        self.waiting: _Batch = []
        self.inline_seconds = 0.0
        """Estimated seconds of the waiting items that are accounted for in the loop budget."""
        self.running = 0
        """Batches in threads."""

    def take(self, loop_budget: LoopBudget) -> _Batch:
        """Removes the next batch."""
        batch, rest = self.waiting[:MAX_BATCH], self.waiting[MAX_BATCH:]
        remaining = self.inline_seconds * len(rest) / len(self.waiting)
        loop_budget.waiting_seconds += remaining - self.inline_seconds
        self.waiting, self.inline_seconds = rest, remaining
        return batch


class Scheduler:
    """All searches of a process. Its methods run in the event loop. `max_wait` is in seconds."""

    def __init__(self, max_wait: float) -> None:
        cores = available_cores()
        self._threads = ThreadPoolExecutor(cores, thread_name_prefix="search")
        self._backlog = Backlog(max_wait, cores)
        self._loop_budget = LoopBudget(max_wait)
        self._estimates: OrderedDict[Hashable, _KindEstimate] = OrderedDict()
        self._cores = cores
        self._queues: dict[Hashable, _BatchQueue] = {}

    async def run(self, kind: Hashable | None, work: Callable[[], T]) -> T:
        """The result of `work`; without a kind it runs in a thread. Raises Overloaded."""
        estimate = self._estimates.get(kind) if kind is not None else None
        if estimate is not None and estimate.is_short:
            if self._loop_budget.is_spent:
                await self._loop_budget.wait(estimate.seconds)
            result, seconds = _timed(work)
            self._loop_budget.spend(seconds)
            self._learn(kind, seconds)
        else:
            expected = estimate.seconds if estimate else UNSEEN_SECONDS
            result, seconds, processor_seconds = await self._run_in_thread(work, expected)
            if kind is not None:
                self._learn(kind, seconds, processor_seconds)
        return result

    async def run_batched(
        self, kind: Hashable, batch_key: Hashable, item: Item, work: Callable[[Sequence[Item]], Sequence[T]]
    ) -> T:
        """The result of `item`, from a call of `work` for several items with the same batch key. Raises Overloaded."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[T] = loop.create_future()
        estimate = self._estimates.get(kind)
        expected = estimate.seconds if estimate is not None else UNSEEN_SECONDS
        if expected > INLINE_SECONDS:
            self._backlog.enter(expected)
            result.add_done_callback(lambda _: self._backlog.leave(expected))
        else:
            self._loop_budget.check()
        queue = self._queues.get(batch_key)
        if queue is None:
            queue = self._queues[batch_key] = _BatchQueue(kind, work)
        if expected <= INLINE_SECONDS:
            queue.inline_seconds += expected
            self._loop_budget.waiting_seconds += expected
        if not queue.waiting:
            loop.call_soon(self._start, batch_key, queue)
        queue.waiting.append((item, result))
        return await result

    def _start(self, batch_key: Hashable, queue: _BatchQueue) -> None:
        """Runs one batch inline, or batches in threads while fewer run than there are cores."""
        estimate = self._estimates.get(queue.kind)
        if queue.waiting and estimate is not None and estimate.is_short:
            if self._loop_budget.is_spent:
                seconds = estimate.seconds * min(len(queue.waiting), MAX_BATCH)
                self._loop_budget.defer(seconds, partial(self._run_inline, batch_key, queue))
                return
            self._run_inline(batch_key, queue)
            return
        while queue.waiting and queue.running < self._cores:
            batch = queue.take(self._loop_budget)
            queue.running += 1
            work = _bound_work(batch, queue.work)
            running = asyncio.get_running_loop().run_in_executor(self._threads, _measured, work)
            running.add_done_callback(partial(self._thread_ended, batch_key, queue, batch))
        if not queue.waiting and not queue.running:
            self._queues.pop(batch_key, None)

    def _run_inline(self, batch_key: Hashable, queue: _BatchQueue) -> None:
        if queue.waiting:
            batch = queue.take(self._loop_budget)
            results, seconds = _timed(_bound_work(batch, queue.work))
            _set_results(batch, results)
            self._loop_budget.spend(seconds)
            self._learn(queue.kind, seconds / len(batch))
        if queue.waiting:  # the answers of this batch are sent first
            asyncio.get_running_loop().call_soon(self._start, batch_key, queue)
        elif not queue.running:
            self._queues.pop(batch_key, None)

    def _thread_ended(
        self,
        batch_key: Hashable,
        queue: _BatchQueue,
        batch: _Batch,
        running: asyncio.Future[tuple[list[Any], float, float]],
    ) -> None:
        queue.running -= 1
        if running.cancelled():  # the server stops
            for _, result in batch:
                result.cancel()
            return
        results, seconds, processor_seconds = running.result()
        _set_results(batch, results)
        self._learn(queue.kind, seconds / len(batch), processor_seconds / len(batch))
        self._start(batch_key, queue)

    def _learn(self, kind: Hashable, seconds: float, processor_seconds: float | None = None) -> None:
        """`processor_seconds` are those of a thread, None for inline work."""
        estimate = self._estimates.get(kind)
        if estimate is not None:
            if processor_seconds is None:
                estimate.ran_inline(seconds)
            else:
                estimate.ran_in_thread(seconds, processor_seconds)
            self._estimates.move_to_end(kind)
            return
        self._estimates[kind] = _KindEstimate(seconds)
        if len(self._estimates) > MAX_KINDS:
            self._estimates.popitem(last=False)

    async def _run_in_thread(self, work: Callable[[], T], expected: float) -> tuple[T, float, float]:
        self._backlog.enter(expected)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, _measured, work)
        finally:
            self._backlog.leave(expected)

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


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    """The result, and seconds by the clock: to ask for the time of a thread is a system call, at which a busy system
    takes the processor away."""
    started = time.perf_counter()
    result = work()
    return result, time.perf_counter() - started


def _measured(work: Callable[[], T]) -> tuple[T, float, float]:
    """The result, seconds by the clock, and seconds of the processor. The difference is mostly waiting for the
    interpreter lock, which a busy event loop holds, and says nothing about the work."""
    started = time.thread_time()
    result, seconds = _timed(work)
    return result, seconds, time.thread_time() - started
