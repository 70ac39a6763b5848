"""Figures from raw samples: recall, quantiles, ratios of two sides of one run with their spread, exponents."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times one side takes what the other does: the median over the turns, and the least and the most."""

    middle: float
    least: float
    most: float

    def __str__(self) -> str:
        return f"{figure(self.middle)} ({figure(self.least)} to {figure(self.most)})"


@dataclass(frozen=True, slots=True)
class Point:
    """One contender at one setting: all its turns together."""

    contender: str
    setting: int
    recall: float
    p50: float
    p99: float
    mean: float
    ratio: Ratio
    """Its p50 over that of the anchor, which was measured beside it in every turn."""

    @property
    def rate(self) -> float:
        """Queries a second, one after the other."""
        return 1e6 / self.mean


def figure(value: float, digits: int = 3) -> str:
    """A number with so many significant digits, and none that mean nothing."""
    if not math.isfinite(value):
        return "-"
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    places = digits - 1 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:,.{max(0, places)}f}"


def ratio(upper: Sequence[float], lower: Sequence[float]) -> Ratio:
    """Of values that belong together pair by pair."""
    each = [one / other for one, other in zip(upper, lower, strict=True)]
    return Ratio(median(each), min(each), max(each))


def points(runs: Iterable[Mapping[str, Any]], k: int) -> list[Point]:
    """Raw runs of one kind of query to points: the turns of a contender and setting together, in the order of both."""
    grouped: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for run in runs:
        grouped.setdefault((run["contender"], run["setting"]), []).append(run)
    return [_point(name, setting, turns, k) for (name, setting), turns in grouped.items()]


def _point(name: str, setting: int, turns: Sequence[Mapping[str, Any]], k: int) -> Point:
    times = np.concatenate([turn["microseconds"] for turn in turns])
    found = [count for turn in turns for count in turn["found"]]
    recall = sum(found) / max(1, len(found) * min(k, turns[0].get("possible", k)))
    medians = [median(turn["microseconds"]) for turn in turns]
    anchors = [median(turn["anchor"]) for turn in turns]
    return Point(
        name,
        setting,
        recall,
        float(np.percentile(times, 50)),
        float(np.percentile(times, 99)),
        float(times.mean()),
        ratio(medians, anchors),
    )


def cheapest(found: Iterable[Point], contender: str, recall: float) -> Point | None:
    """The fastest setting of a contender that reaches the recall."""
    enough = [point for point in found if point.contender == contender and point.recall >= recall]
    return min(enough, key=lambda point: point.p50, default=None)


def against(case: Mapping[str, Any]) -> Ratio:
    """The p50 of a case in p50s of the base that was measured with it, turn by turn."""
    return ratio([median(turn) for turn in case["microseconds"]], [median(turn) for turn in case["base"]])


def memory(case: Mapping[str, Any]) -> int:
    """What answering needs: the vectors and the index, which are mapped, and what the process has for itself."""
    return int(case["bytes"] + case["private_bytes"])


def growth(cases: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """The exponents with which cases of several sizes grow with their rows; none where there is one size."""
    grown = [case for case in cases if case["group"] == "sizes"]
    if len(grown) < 2:
        return {}
    costs = {
        "time": [against(case).middle for case in grown],
        "memory": [float(memory(case)) for case in grown],
        "time to build": [case["seconds"] for case in grown],
    }
    return {name: exponent([case["rows"] for case in grown], cost) for name, cost in costs.items()}


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The e of cost = c * size**e that fits best in logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])
