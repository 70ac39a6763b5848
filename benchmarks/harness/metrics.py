"""Figures from raw samples: recall, latency percentiles, side-by-side ratios with their spread, growth exponents."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Ratio:
    """The ratio of two sides: median, minimum and maximum over the turns."""

    median: float
    minimum: float
    maximum: float

    def __str__(self) -> str:
        return f"{figure(self.median)} ({figure(self.minimum)} to {figure(self.maximum)})"


@dataclass(frozen=True, slots=True)
class Point:
    """One contender at one setting over one kind of queries, all turns together. Times are in microseconds."""

    contender: str
    kind: str
    setting: int
    recall: float
    p50: float
    p99: float
    mean: float
    ratio: Ratio
    """p50 over the p50 of the anchor by default, which was measured side by side in every turn."""
    at: Mapping[str, Ratio]
    """The same over the p50 of the anchor that was asked for a recall, by that recall."""

    @property
    def rate(self) -> float:
        """Throughput of sequential queries, per second."""
        return 1e6 / self.mean


def figure(value: float, digits: int = 3) -> str:
    """Formats a number to `digits` significant digits."""
    if not math.isfinite(value):
        return "-"
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    decimals = digits - 1 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:,.{max(0, decimals)}f}"


def ratio(upper: Sequence[float], lower: Sequence[float]) -> Ratio:
    """Pairwise ratios, one per turn."""
    ratios = [one / other for one, other in zip(upper, lower, strict=True)]
    return Ratio(median(ratios), min(ratios), max(ratios))


def points(runs: Iterable[Mapping[str, Any]], k: int) -> list[Point]:
    """Groups raw runs into points, one per contender, kind of queries and setting, in order of appearance."""
    grouped: dict[tuple[str, str, int], list[Mapping[str, Any]]] = {}
    for run in runs:
        grouped.setdefault((run["contender"], run["kind"], run["setting"]), []).append(run)
    return [_point(name, kind, setting, turns, k) for (name, kind, setting), turns in grouped.items()]


def _point(name: str, kind: str, setting: int, turns: Sequence[Mapping[str, Any]], k: int) -> Point:
    times = np.concatenate([turn["microseconds"] for turn in turns])
    found = [count for turn in turns for count in turn["found"]]
    recall = sum(found) / max(1, len(found) * min(k, turns[0].get("possible", k)))
    medians = [median(turn["microseconds"]) for turn in turns]
    asked = turns[0].get("anchors", {})
    return Point(
        name,
        kind,
        setting,
        recall,
        float(np.percentile(times, 50)),
        float(np.percentile(times, 99)),
        float(times.mean()),
        ratio(medians, [median(turn["anchor"]) for turn in turns]),
        {goal: ratio(medians, [median(turn["anchors"][goal]) for turn in turns]) for goal in asked},
    )


def cheapest(found: Iterable[Point], contender: str, kind: str, recall: float) -> Point | None:
    """The fastest setting of a contender that reaches the recall for a kind of queries."""
    enough = [point for point in of(found, contender, kind) if point.recall >= recall]
    return min(enough, key=lambda point: point.p50, default=None)


def of(found: Iterable[Point], contender: str, kind: str) -> list[Point]:
    return [point for point in found if (point.contender, point.kind) == (contender, kind)]


def against(case: Mapping[str, Any]) -> Ratio:
    """The p50 of a case over the p50 of the base, turn by turn."""
    return ratio([median(turn) for turn in case["microseconds"]], [median(turn) for turn in case["base"]])


def memory(case: Mapping[str, Any]) -> int:
    """Bytes needed to answer: mapped vectors and index, plus private memory of the process."""
    return int(case["bytes"] + case["private_bytes"])


def growth(cases: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Growth exponents of time (of questions), memory and build time over the rows; empty with fewer than two sizes."""
    grown = [case for case in cases if case["group"] == "sizes" and case["queries"] == "ood"]
    if len(grown) < 2:
        return {}
    costs = {
        "time": [against(case).median for case in grown],
        "memory": [float(memory(case)) for case in grown],
        "time to build": [case["seconds"] for case in grown],
    }
    return {name: exponent([case["rows"] for case in grown], cost) for name, cost in costs.items()}


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The exponent e of cost = c * size**e, by least squares in logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])
