"""Token buckets: how often an account may call, counted by all workers together.

An account is one number, the theoretical arrival time of the generic cell rate algorithm: when its bucket will be full
again. A request moves it by one interval, and is refused where that would lie further ahead than the whole bucket. So
a bucket holds N at once and refills evenly, and one that is full need not be remembered.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from aidre.api.guard.shared import SharedFile
from aidre.api.tables import Rate

NAME, KIND = "limits", b"aidrlim1"
GROUPS = 8_192
WAYS = 8
"""Slots among which an account finds its own; where all are taken, the one that is full again soonest is lost."""
SLOTS = GROUPS * WAYS
SECOND = 1_000_000_000
REMEMBERED = 16_384


class Taken(NamedTuple):
    """What is left: `remaining` requests; `reset` seconds until all are back, or, of a refusal, until one is."""

    admitted: bool
    remaining: int
    reset: int


class Buckets:
    """The buckets of one server; SLOTS accounts at a time."""

    def __init__(self, folders: Iterable[Path], clock: Callable[[], int] = time.time_ns) -> None:
        self._file = SharedFile(folders, NAME, KIND, SLOTS * 16)
        self._tags = self._file.body.cast("Q")
        self._times = self._file.body.cast("q")
        self._clock = clock
        self._places: dict[str, tuple[int, int]] = {}

    def take(self, account: str, rate: Rate) -> Taken:
        """Takes one request from the account's bucket, unless it is empty."""
        interval = max(1, rate.seconds * SECOND // rate.count)
        whole = interval * rate.count
        tag, first = self._places.get(account) or self._place(account)
        held = self._file.lock()
        try:
            now = self._clock()
            slot = first if self._tags[first] == tag else self._slot(tag, first)
            # A time beyond the whole bucket is of a clock that was set back, or of a rate that was another one.
            used = min(max(self._times[slot + 1] - now, 0), whole)
            ahead = used + interval
            admitted = ahead <= whole
            self._tags[slot] = tag
            self._times[slot + 1] = now + (ahead if admitted else used)
        finally:
            if held:
                self._file.unlock()
        if not admitted:
            return Taken(False, 0, -((whole - ahead) // SECOND))
        return Taken(True, (whole - ahead) // interval, -(-ahead // SECOND))

    def _place(self, account: str) -> tuple[int, int]:
        """The tag of an account, and where its slots begin."""
        if len(self._places) >= REMEMBERED:
            self._places.clear()
        number = self._file.number(account)
        found = self._places[account] = number & (2**64 - 1), (number >> 64) % GROUPS * WAYS * 2
        return found

    def _slot(self, tag: int, first: int) -> int:
        """Where the account stands, or where it can be put."""
        tags, times = self._tags, self._times
        slots = range(first, first + WAYS * 2, 2)
        for slot in slots:
            if tags[slot] == tag:
                return slot
        free = min(slots, key=lambda slot: times[slot + 1])
        times[free + 1] = 0
        return free

    def close(self) -> None:
        self._tags.release()
        self._times.release()
        self._file.close()
