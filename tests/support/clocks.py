"""Time in tests: a clock that only tests move, and waiting for what another thread or process does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

WAIT_SECONDS = 300.0
"""Ends a test that hangs; much longer than what is waited for takes on a busy machine."""
POLL_SECONDS = 0.005


class Clock:
    """Stands in for `time.time`; moves when a test sets `now`."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class LeapingLoop(asyncio.SelectorEventLoop):
    """An event loop whose time a test moves on; what waits for a time goes on as if it had passed."""

    leapt = 0.0

    def time(self) -> float:
        return super().time() + self.leapt


def leap(seconds: float) -> None:
    """Moves the time of the running loop on."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, LeapingLoop)
    loop.leapt += seconds


def until(holds: Callable[[], bool], reason: str = "") -> None:
    """Waits for what another thread or process does."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline, reason or "what was waited for did not happen"
        time.sleep(POLL_SECONDS)


async def until_in_loop(holds: Callable[[], bool], reason: str = "") -> None:
    """The same in an event loop, whose other tasks go on meanwhile."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline, reason or "what was waited for did not happen"
        await asyncio.sleep(POLL_SECONDS)
