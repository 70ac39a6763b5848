"""A time budget for work in the event loop: 5 ms in a turn of the loop, the rest in later turns, in order of arrival.

Between two turns the loop serves its sockets. So a new request that is rejected for a full queue is told at once, and
not after all work that arrived before it.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import TypeVar

from aidre.api.http import Overloaded

TURN_SECONDS = 0.005
"""A turn ends with the work that reaches this."""

T = TypeVar("T")


class LoopBudget:
    """Used in the event loop only. Work arriving while `is_spent` is False may `run` at once; other work waits.
    `max_wait` is in estimated seconds of waiting work."""

    __slots__ = ("_max_wait", "_spent", "_waiting", "_waiting_seconds", "is_spent")

    def __init__(self, max_wait: float) -> None:
        self._max_wait = max_wait
        self._spent = 0.0
        self._waiting: deque[Callable[[], float]] = deque()
        self._waiting_seconds = 0.0
        self.is_spent = False

    def run(self, work: Callable[[], T]) -> T:
        """Does work in this turn, and counts its duration by the clock."""
        started = perf_counter()
        try:
            return work()
        finally:
            self._spend(perf_counter() - started)

    def _spend(self, seconds: float) -> None:
        self._spent += seconds
        if self._spent >= TURN_SECONDS and not self.is_spent:
            self.is_spent = True
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
        """Calls `begin` in its turn, which returns the estimated seconds of what it has started. While `is_spent` only:
        otherwise there is no later turn."""
        self._waiting.append(begin)

    def _next_turn(self) -> None:
        """Starts as much waiting work as fits into a turn."""
        self._spent = started = 0.0
        while self._waiting and started < TURN_SECONDS:
            started += self._waiting.popleft()()
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next_turn)
        else:
            self.is_spent = False
