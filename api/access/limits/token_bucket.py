"""Token buckets by account, shared by all workers.

An account's state is one number, the theoretical arrival time of the generic cell rate algorithm (GCRA): the time at
which its bucket is full again. A request advances it by one interval and is rejected if that exceeds the whole
bucket. So a bucket allows bursts of N, refills evenly, and needs no storage while it is full. The RateLimit fields:
of draft-ietf-httpapi-ratelimit-headers-10, and the three that came before them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from aidre.api.config import Rate
from aidre.api.http import SharedFile

NAME, KIND = "limits", b"aidrlim1"
GROUPS = 8_192
WAYS = 8
"""Slots of a group, as in a set-associative cache; if all are used, the bucket that is full soonest is evicted."""
SLOTS = GROUPS * WAYS
SECOND = 1_000_000_000
"""Nanoseconds."""
CACHE_SIZE = 16_384
"""Accounts whose tag and group are cached."""


class BucketState(NamedTuple):
    """`remaining` requests; `reset` seconds until the bucket is full, or after a rejection until one is available."""

    admitted: bool
    remaining: int
    reset: int


class TokenBuckets:
    """The buckets of one server, for SLOTS accounts at a time."""

    def __init__(self, folders: Iterable[Path], clock: Callable[[], int] = time.time_ns) -> None:
        self._file = SharedFile(folders, NAME, KIND, SLOTS * 16)
        self._tags = self._file.body.cast("Q")
        self._times = self._file.body.cast("q")
        self._clock = clock
        self._located: dict[str, tuple[int, int]] = {}

    def take(self, account: str, rate: Rate, *, spend: bool = True) -> BucketState:
        """Take one token from the account's bucket, unless it is empty; without `spend` only say what would happen."""
        interval = max(1, rate.seconds * SECOND // rate.count)
        capacity = interval * rate.count
        tag, first = self._located.get(account) or self._locate(account)
        held = self._file.lock()
        try:
            now = self._clock()
            slot = first if self._tags[first] == tag else self._find_slot(tag, first)
            # A time beyond the capacity comes from a clock that was set back or from an earlier rate.
            used = min(max(self._times[slot + 1] - now, 0), capacity)
            ahead = used + interval
            admitted = ahead <= capacity
            self._tags[slot] = tag
            self._times[slot + 1] = now + (ahead if admitted and spend else used)
        finally:
            if held:
                self._file.unlock()
        if not admitted:
            return BucketState(False, 0, -((capacity - ahead) // SECOND))
        return BucketState(True, (capacity - ahead) // interval, -(-ahead // SECOND))

    def _locate(self, account: str) -> tuple[int, int]:
        """The tag of an account and the offset of its group."""
        if len(self._located) >= CACHE_SIZE:
            self._located.clear()
        number = self._file.number(account)
        location = self._located[account] = number & (2**64 - 1), (number >> 64) % GROUPS * WAYS * 2
        return location

    def _find_slot(self, tag: int, first: int) -> int:
        """The slot of the account, or the one to evict for it."""
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


RawHeaders = list[tuple[bytes, bytes]]


def rate_limit_fields(rate: Rate, state: BucketState) -> RawHeaders:
    """The fields of an answer; shared, so not to be modified."""
    return _fields(rate.count, rate.seconds, state.remaining, state.reset)


@lru_cache(maxsize=4_096)
def _fields(count: int, seconds: int, remaining_requests: int, reset_seconds: int) -> RawHeaders:
    """Cached: most callers are far from their limit, so the same fields recur."""
    remaining, reset = b"%d" % remaining_requests, b"%d" % reset_seconds
    return [
        (b"ratelimit", b'"default";r=%b;t=%b' % (remaining, reset)),
        (b"ratelimit-remaining", remaining),
        (b"ratelimit-reset", reset),
        (b"ratelimit-policy", b'"default";q=%d;w=%d' % (count, seconds)),
        (b"ratelimit-limit", b"%d" % count),
    ]


def rejection_fields(rate: Rate, state: BucketState) -> dict[str, str]:
    """The fields of a 429 answer."""
    fields = {name.decode(): value.decode() for name, value in rate_limit_fields(rate, state)}
    return {**fields, "retry-after": str(state.reset)}


def budget_fields(chunks: int, wait: int) -> dict[str, str]:
    """The fields of a 429 answer after the daily budget of `chunks`; `wait` in seconds until midnight UTC."""
    return {
        "ratelimit": f'"chunks";r=0;t={wait}',
        "ratelimit-policy": f'"chunks";q={chunks};w=86400',
        "ratelimit-limit": str(chunks),
        "ratelimit-remaining": "0",
        "ratelimit-reset": str(wait),
        "retry-after": str(wait),
    }
