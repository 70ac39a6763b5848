"""Comparisons as closed intervals: where a value stands among those of a type, and the interval an operator means."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

Interval: TypeAlias = tuple[float, float]
"""Lowest and highest value, both included; empty unless the first is at most the second."""

INT_MIN: Final = 1 - 2**63
INT_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Landmarks:
    """The values of a type around one value: the nearest at or under it, strictly under it, and so on."""

    bottom: float
    below: float
    most: float
    least: float
    above: float
    top: float

    def interval(self, operator: str) -> Interval:
        match operator:
            case "gt":
                return self.above, self.top
            case "gte":
                return self.least, self.top
            case "lt":
                return self.bottom, self.below
            case "lte":
                return self.bottom, self.most
        return self.least, self.most


def integer_landmarks(value: float) -> Landmarks:
    """Among the integers of 64 bits; exact for a float too: no integer is 0.5, but some are above and below it."""
    bounded = max(min(value, 2**64), -(2**64))
    floor, ceil = math.floor(bounded), math.ceil(bounded)
    return Landmarks(
        INT_MIN, min(ceil - 1, INT_MAX), min(floor, INT_MAX), max(ceil, INT_MIN), max(floor + 1, INT_MIN), INT_MAX
    )


def float_landmarks(value: float) -> Landmarks:
    """Among the floats; exact for an int too: no float is 2**53 + 1, but some are above and below it."""
    near = float(value)
    down, up = math.nextafter(near, -math.inf), math.nextafter(near, math.inf)
    below, most = near if near < value else down, near if near <= value else down
    above, least = near if near > value else up, near if near >= value else up
    if math.isinf(near):
        below, above = (below, math.nan) if near > 0 else (math.nan, above)
    return Landmarks(-math.inf, below, most, least, above, math.inf)


def merged(intervals: Iterable[Interval], *, whole: bool) -> list[Interval]:
    """The non-empty intervals in order, overlapping ones made one; `whole` numbers also where they touch."""
    wanted: list[Interval] = []
    for low, high in sorted(one for one in intervals if one[0] <= one[1]):
        if wanted and (low <= wanted[-1][1] or (whole and low == wanted[-1][1] + 1)):
            wanted[-1] = (wanted[-1][0], max(high, wanted[-1][1]))
        else:
            wanted.append((low, high))
    return wanted
