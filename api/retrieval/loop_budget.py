"""A time budget for work in the event loop: 5 ms in a turn of the loop, the rest in later turns, in order of arrival.

Between two turns the loop serves its sockets. So a new request that is rejected for a full queue is told at once, and
not after all work that arrived before it.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable

from aidre.api.http import Overloaded

TURN_SECONDS = 0.005
"""A turn ends with the work that reaches this."""


class LoopBudget:
    """Used in the event loop only. Work arriving while `is_spent` is False runs at once and reports its duration with
    `spend`; other work waits. `max_wait` is in seconds of queued work."""

    __slots__ = ("_max_wait", "_spent", "_waiting", "is_spent", "waiting_seconds")

    def __init__(self, max_wait: float) -> None:
        self._max_wait = max_wait
        self._spent = 0.0
        self._waiting: deque[tuple[float, Callable[[], None]]] = deque()
        self.is_spent = False
        self.waiting_seconds = 0.0
        """Estimated seconds of the queued work, including work that waits elsewhere and is added here by its owner."""

    def spend(self, seconds: float) -> None:
        """Counts work done in this turn."""
        self._spent += seconds
        if self._spent >= TURN_SECONDS and not self.is_spent:
            self.is_spent = True
            asyncio.get_running_loop().call_soon(self._next_turn)

    def check(self) -> None:
        """Raises Overloaded if the queue is longer than `max_wait`."""
        if self.waiting_seconds > self._max_wait:
            raise Overloaded(math.ceil(self.waiting_seconds))

    async def wait(self, seconds: float) -> None:
        """Waits for the turn of work that takes an estimated number of seconds. Raises Overloaded."""
        self.check()
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting_seconds += seconds
        self.defer(seconds, lambda: self._begin(seconds, begun))
        await begun

    def _begin(self, seconds: float, begun: asyncio.Future[None]) -> None:
        self.waiting_seconds -= seconds
        if not begun.done():  # else the caller has gone
            begun.set_result(None)

    def defer(self, seconds: float, begin: Callable[[], None]) -> None:
        """Calls `begin` in its turn; the caller accounts for it in `waiting_seconds`."""
        self._waiting.append((seconds, begin))

    def _next_turn(self) -> None:
        """Starts as much queued work as fits into a turn by its estimates."""
        self._spent = started = 0.0
        while self._waiting and started < TURN_SECONDS:
            seconds, begin = self._waiting.popleft()
            started += seconds
            begin()
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next_turn)
        else:
            self.is_spent = False
            self.waiting_seconds = max(self.waiting_seconds, 0.0)
