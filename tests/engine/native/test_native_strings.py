"""Sorted strings that the kernel searches in the map: what bisect finds, and no crash where offsets are damaged."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import numpy as np
import pytest

from tests.support.native import kernel

pytestmark = pytest.mark.skipif(kernel is None, reason="the C kernel was not built here")


def _strings(texts: list[bytes]) -> kernel.Strings:
    return kernel.Strings(np.cumsum([0, *map(len, texts)]), b"".join(texts))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 100, 1_000])
def test_what_is_found_is_what_bisect_finds(count: int) -> None:
    random = np.random.default_rng(count)
    drawn = {bytes(random.integers(0, 4, int(random.integers(0, 8)), np.uint8)) for _ in range(count)}
    texts = sorted(drawn)
    strings = _strings(texts)
    for key in [*texts, *(text + b"\0" for text in texts), *(text[:-1] for text in texts), b"", b"\xff" * 9]:
        first = bisect_left(texts, key)
        assert strings.first(key) == first
        assert strings.find(key) == (first if key in drawn else -1)


@pytest.mark.parametrize("offsets", [[-1, 5, 10], [5, 0, 3], [0, 1 << 62, 1 << 61], [0, 3, 1_000]])
def test_damaged_offsets_give_no_crash(offsets: list[int]) -> None:
    strings = kernel.Strings(np.array(offsets, np.int64), b"0123456789")
    assert 0 <= strings.first(b"2") <= 2
    assert -1 <= strings.find(b"") <= 1


@pytest.mark.parametrize(
    ("offsets", "text"), [(np.empty(0, np.int64), b""), (np.zeros(2, np.int32), b""), (np.zeros(2, np.int64), 1)]
)
def test_what_is_no_dictionary_is_refused(offsets: Any, text: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        kernel.Strings(offsets, text)


def test_keys_are_bytes() -> None:
    with pytest.raises(TypeError):
        _strings([b"a"]).find("a")  # type: ignore[arg-type]
