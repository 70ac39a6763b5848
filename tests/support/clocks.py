"""Time in tests: a clock that only tests move, and waiting for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable

WAIT_SECONDS = 90.0


class Clock:
    """Stands in for `time.time`; moves when a test sets `now`."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def until(holds: Callable[[], bool]) -> None:
    """Waits for what another thread or process does."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
