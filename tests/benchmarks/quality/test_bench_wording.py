"""The benchmark of the order of words: what it counts as right."""

from __future__ import annotations

import pytest

from benchmarks.quality import bench_wording


@pytest.mark.slow
def test_every_pair_is_told_apart_in_both_modes() -> None:
    fillers = [f"Filler number {number} about rivers and their banks." for number in range(40)]
    found = bench_wording.pairs(fillers)
    assert found == {mode: {"right": 2 * len(bench_wording.PAIRS), "of": 32} for mode in ("lexical", "hybrid")}
