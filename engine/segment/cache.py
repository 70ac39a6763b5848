"""A mapping of bounded size that drops its oldest entries. Threads may share one without a lock."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(OrderedDict[K, V]):
    """Reads are those of a dict; write with `add`.

    Two threads that miss at once compute the same value twice and store it twice. An entry may be dropped by another
    thread at any time, so use the value that `add` returns instead of reading it back.
    """

    def __init__(self, max_entries: int) -> None:
        super().__init__()
        self._max_entries = max_entries

    def add(self, key: K, value: V) -> V:
        """Store the value in place of the oldest entry if the cache is full; return it."""
        while len(self) >= self._max_entries:
            self.popitem(last=False)  # atomic, unlike deleting the first key
        self[key] = value
        return value


def max_masks(rows: int, max_count: int, max_bytes: int) -> int:
    """The number of masks of `rows` bytes that a cache may hold; at least four, whatever their size."""
    return max(4, min(max_count, max_bytes // max(1, rows)))
