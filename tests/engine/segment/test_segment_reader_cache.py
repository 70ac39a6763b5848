"""The bounded cache: what it drops, what it returns, and threads that share it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from aidre.engine.segment.segment_reader import BoundedCache, max_masks


def test_the_oldest_entry_makes_room() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    for number, key in enumerate("abc"):
        assert cache.add(key, number) == number
    assert dict(cache) == {"b": 1, "c": 2}
    assert cache.get("a") is None


def test_reading_an_entry_does_not_make_it_younger() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    cache.add("a", 1)
    cache.add("b", 2)
    assert cache["a"] == 1
    cache.add("c", 3)
    assert "a" not in cache


def test_threads_may_share_it() -> None:
    cache: BoundedCache[int, int] = BoundedCache(3)

    def work(start: int) -> list[int]:
        return [cache.add(number % 7, number) - number for number in range(start, start + 2_000)]

    with ThreadPoolExecutor(4) as pool:
        differences = [one for found in pool.map(work, range(4)) for one in found]
    assert differences == [0] * 8_000
    assert 1 <= len(cache) <= 3 + 4


@pytest.mark.parametrize(
    ("rows", "expected"), [(0, 10), (1, 10), (100, 10), (200, 5), (250, 4), (251, 4), (1_000_000, 4)]
)
def test_as_many_masks_are_kept_as_fit_and_four_always(rows: int, expected: int) -> None:
    assert max_masks(rows, max_count=10, max_bytes=1_000) == expected
