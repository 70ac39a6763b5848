"""Decides where a search runs: in the event loop while it is short, in a thread while it is long, or not at all.

What a kind of search takes is measured, not modelled, so it holds for a thousand rows and for millions. A kind that was
not seen yet counts as long. In a thread beside a busy event loop everything seems long: what took little of the
processor there is tried in the event loop from time to time. While those that wait, the long ones or the short ones,
would take longer than they may, more of them are refused at once: a caller that is told to come back is better off than
one whose answer comes after it has gone.

Searches that can be made together are: those that come in one turn of the event loop, and the long ones that come
while as many as there are threads are under way. Nobody waits for company.
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

from aidre.api.refusals import Overloaded
from aidre.api.turns import Turns
from aidre.engine.runtime import available_cores

INLINE_SECONDS = 0.002
"""What lasts no longer is not worth the way to a thread and back, which takes a good part of this where both want the
interpreter; others wait no longer for it than for their turn."""

UNSEEN_SECONDS = 0.01
KINDS = 64
"""As many are remembered; the rest counts as not seen. The engine keeps the masks of about as many filters."""

NEWEST = 1 / 8
"""The weight of the newest time in a mean."""

DOUBTED = 16
"""After so many searches in a row that were long by the clock and short by the processor, one is tried in the loop."""

FARTHEST = 4
"""It counts for no more than so many times the mean: where another process held the processor, it tells little."""

MOST_TOGETHER = 8
"""More save nothing, and the first of them waits for the last."""

T = TypeVar("T")
Item = TypeVar("Item")


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


class _Kind(Estimate):
    """What searches of one kind take, each as far as it can be told where it ran."""

    __slots__ = ("_doubts",)

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self._doubts = 0

    @property
    def is_short(self) -> bool:
        """Whether the next one is for the event loop: they are short, or it is time to see whether they are."""
        return self.seconds <= INLINE_SECONDS or self._doubts >= DOUBTED

    def ran_in_the_loop(self, seconds: float) -> None:
        if self._doubts and seconds <= INLINE_SECONDS:
            self.seconds = min(self.seconds, seconds)
        else:
            self.learn(seconds)
        self._doubts = 0

    def ran_in_a_thread(self, seconds: float, worked: float) -> None:
        """`worked` are the seconds of the processor."""
        self.learn(seconds)
        self._doubts = self._doubts + 1 if worked <= INLINE_SECONDS else 0


_Batch = list[tuple[Any, "asyncio.Future[Any]"]]


class _Group:
    """What can be made together: items that wait, with where their results go, and batches that are under way."""

    def __init__(self, kind: Hashable, work: Callable[[Sequence[Any]], Sequence[Any]]) -> None:
        self.kind = kind
        self.work = work
        self.waiting: _Batch = []
        self.seconds = 0.0
        """What those that wait take, as far as they wait for a turn of the event loop."""
        self.under_way = 0

    def next(self, turns: Turns) -> _Batch:
        batch, rest = self.waiting[:MOST_TOGETHER], self.waiting[MOST_TOGETHER:]
        left = self.seconds * len(rest) / len(self.waiting)
        turns.waiting_seconds += left - self.seconds
        self.waiting, self.seconds = rest, left
        return batch


class Scheduler:
    """All searches of a process. Its methods run in the event loop."""

    def __init__(self, wait: float) -> None:
        cores = available_cores()
        self._threads = ThreadPoolExecutor(cores, thread_name_prefix="search")
        self._backlog = Backlog(wait, cores)
        self._turns = Turns(wait)
        self._kinds: OrderedDict[Hashable, _Kind] = OrderedDict()
        self._cores = cores
        self._groups: dict[Hashable, _Group] = {}

    async def run(self, kind: Hashable | None, work: Callable[[], T]) -> T:
        """The result of `work`; without a `kind` it is long in any case. Raises Overloaded."""
        known = self._kinds.get(kind) if kind is not None else None
        if known is not None and known.is_short:
            if self._turns.over:
                await self._turns.wait(known.seconds)
            result, taken = _timed(work)
            self._turns.spend(taken)
            self._learn(kind, taken)
        else:
            result, taken, worked = await self._in_a_thread(work, known.seconds if known else UNSEEN_SECONDS)
            if kind is not None:
                self._learn(kind, taken, worked)
        return result

    async def run_together(
        self, kind: Hashable, like: Hashable, item: Item, work: Callable[[Sequence[Item]], Sequence[T]]
    ) -> T:
        """The result for `item` of `work`, which is given all items at once that are `like` it. Raises Overloaded."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[T] = loop.create_future()
        known = self._kinds.get(kind)
        expected = known.seconds if known is not None else UNSEEN_SECONDS
        if expected > INLINE_SECONDS:
            self._backlog.enter(expected)
            result.add_done_callback(lambda _: self._backlog.leave(expected))
        else:
            self._turns.check()
        group = self._groups.get(like)
        if group is None:
            group = self._groups[like] = _Group(kind, work)
        if expected <= INLINE_SECONDS:
            group.seconds += expected
            self._turns.waiting_seconds += expected
        if not group.waiting:
            loop.call_soon(self._begin, like, group)
        group.waiting.append((item, result))
        return await result

    def _begin(self, like: Hashable, group: _Group) -> None:
        """Answer those of a group that wait, unless as many batches as there are cores are under way."""
        known = self._kinds.get(group.kind)
        if group.waiting and known is not None and known.is_short:
            if self._turns.over:
                seconds = known.seconds * min(len(group.waiting), MOST_TOGETHER)
                self._turns.defer(seconds, partial(self._begin_now, like, group))
                return
            self._begin_now(like, group)
            return
        while group.waiting and group.under_way < self._cores:
            batch = group.next(self._turns)
            group.under_way += 1
            running = asyncio.get_running_loop().run_in_executor(self._threads, _measured, _finding(batch, group.work))
            running.add_done_callback(partial(self._ended, like, group, batch))
        if not group.waiting and not group.under_way:
            self._groups.pop(like, None)

    def _begin_now(self, like: Hashable, group: _Group) -> None:
        """Answer some of a group in this turn of the event loop."""
        if group.waiting:
            batch = group.next(self._turns)
            found, taken = _timed(_finding(batch, group.work))
            _tell(batch, found)
            self._turns.spend(taken)
            self._learn(group.kind, taken / len(batch))
        if group.waiting:  # not before the answers of these are on their way
            asyncio.get_running_loop().call_soon(self._begin, like, group)
        elif not group.under_way:
            self._groups.pop(like, None)

    def _ended(
        self, like: Hashable, group: _Group, batch: _Batch, running: asyncio.Future[tuple[list[Any], float, float]]
    ) -> None:
        group.under_way -= 1
        if running.cancelled():  # the server ends
            for _, result in batch:
                result.cancel()
            return
        found, taken, worked = running.result()
        _tell(batch, found)
        self._learn(group.kind, taken / len(batch), worked / len(batch))
        self._begin(like, group)

    def _learn(self, kind: Hashable, seconds: float, worked: float | None = None) -> None:
        """`worked` is of the thread where it ran in one."""
        known = self._kinds.get(kind)
        if known is not None:
            if worked is None:
                known.ran_in_the_loop(seconds)
            else:
                known.ran_in_a_thread(seconds, worked)
            self._kinds.move_to_end(kind)
            return
        self._kinds[kind] = _Kind(seconds)
        if len(self._kinds) > KINDS:
            self._kinds.popitem(last=False)

    async def _in_a_thread(self, work: Callable[[], T], expected: float) -> tuple[T, float, float]:
        self._backlog.enter(expected)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, _measured, work)
        finally:
            self._backlog.leave(expected)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _finding(batch: _Batch, work: Callable[[Sequence[Any]], Sequence[Any]]) -> Callable[[], list[Any]]:
    """What finds the result of each item, or the error that it causes."""
    return partial(_each, [item for item, _ in batch], work)


def _each(items: Sequence[Any], work: Callable[[Sequence[Any]], Sequence[Any]]) -> list[Any]:
    try:
        return list(work(items))
    except Exception as error:  # whose it is shows when each is alone
        return [error] if len(items) == 1 else [_each([item], work)[0] for item in items]


def _tell(batch: _Batch, found: Sequence[Any]) -> None:
    for (_, result), value in zip(batch, found, strict=True):
        if result.done():
            continue  # the caller has gone
        if isinstance(value, Exception):
            result.set_exception(value)
        else:
            result.set_result(value)


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    # By the clock: to ask for the time of a thread is a system call, at which a busy system takes the processor away.
    started = time.perf_counter()
    result = work()
    return result, time.perf_counter() - started


def _measured(work: Callable[[], T]) -> tuple[T, float, float]:
    """The result, the seconds by the clock, and those of the processor: how long it waits for the interpreter, which a
    busy event loop holds, says nothing about the work."""
    started = time.thread_time()
    result, taken = _timed(work)
    return result, taken, time.thread_time() - started
