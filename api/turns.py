"""Short work in the event loop: so much of it in one turn of the loop, the rest in later turns.

In between the loop looks at its sockets. So who is refused because too much waits is told so at once, however long
those wait that came before; where all were worked off first, nobody would hear of the new ones for as long.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable

from aidre.api.refusals import Overloaded

TURN_SECONDS = 0.005
"""A turn ends with the work that reaches this."""


class Turns:
    """Who comes in a turn that is not over may begin at once, and says afterwards what it took (`spend`). All of it
    runs in the event loop; `most` is how many seconds of work may wait."""

    __slots__ = ("_most", "_spent", "_waiting", "over", "waiting_seconds")

    def __init__(self, most: float) -> None:
        self._most = most
        self._spent = 0.0
        self._waiting: deque[tuple[float, Callable[[], None]]] = deque()
        self.over = False
        self.waiting_seconds = 0.0
        """Of all that could not begin, by estimate; also of what waits elsewhere and says so here."""

    def spend(self, seconds: float) -> None:
        """Counts work that was done in this turn."""
        self._spent += seconds
        if self._spent >= TURN_SECONDS and not self.over:
            self.over = True
            asyncio.get_running_loop().call_soon(self._next)

    def check(self) -> None:
        """Raises Overloaded where more waits than may."""
        if self.waiting_seconds > self._most:
            raise Overloaded(math.ceil(self.waiting_seconds))

    async def wait(self, seconds: float) -> None:
        """Until the turn comes of work that takes so many seconds by estimate. Raises Overloaded."""
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
        """Calls `begin` when its turn comes; `waiting_seconds` stay as they are."""
        self._waiting.append((seconds, begin))

    def _next(self) -> None:
        """A new turn: as many may begin as it has time for, in the order in which they came."""
        self._spent = begun = 0.0
        while self._waiting and begun < TURN_SECONDS:
            seconds, begin = self._waiting.popleft()
            begun += seconds
            begin()
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next)
        else:
            self.over = False
            self.waiting_seconds = max(self.waiting_seconds, 0.0)
