"""The ratios of one quick run beside those that were stored."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from benchmarks.harness.metrics import Ratio, figure, ratio

SLOWER: Final = 1.5
"""A group whose ratio exceeds the stored one by this factor is named as slower. Two runs of the same code on a busy
machine differ by up to a quarter."""
YARDSTICK: Final = "yardstick_of_"


def ratios(raw: Mapping[str, Any]) -> dict[str, Ratio]:
    """By group: the time of what is watched over that of its yardstick, within each turn of pytest-benchmark's file."""
    medians: dict[str, dict[bool, list[float]]] = defaultdict(lambda: {False: [], True: []})
    for one in raw["benchmarks"]:
        medians[one["group"]][one["name"].startswith(YARDSTICK)].append(one["stats"]["median"])
    return {group: ratio(sides[False], sides[True]) for group, sides in medians.items()}


def table(measured: Mapping[str, Ratio], stored: Mapping[str, float]) -> Iterator[str]:
    """A row for each group, and a last line that names those that became slower."""
    yield f"{'group':10}{'ratio (range)':26}{'stored':>8}{'change':>9}"
    for group, found in measured.items():
        known = stored.get(group)
        change = f"{100 * (found.median / known - 1):+.0f} %" if known else "new"
        yield f"{group:10}{found!s:26}{figure(known) if known else '-':>8}{change:>9}"
    slower = [group for group, found in measured.items() if found.median > SLOWER * stored.get(group, float("inf"))]
    yield f"Slower than stored by more than half: {', '.join(slower) or 'none'}."
