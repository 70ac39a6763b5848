"""How far a scan goes for a number of results: between the calibrated numbers by logarithm."""

from __future__ import annotations

import math
from dataclasses import dataclass

from aidre.engine.manifest import Calibration, Depth


@dataclass(frozen=True, slots=True)
class Reach:
    """How many candidates are compared exactly, and what else is known of the calibration for `results` of them."""

    candidates: int
    results: int = 0
    depths: tuple[Depth, ...] = ()

    def probes(self, share: float = 1.0) -> int:
        """Of how many centroids the lists are to be gone over at most, 0: of all, where only a share of the rows is
        wanted. Of rows that are spread evenly, the k-th that is wanted is the k/share-th of all.
        """
        return math.ceil(_between(self.depths, self._wanted(share), "probes"))

    def gap(self, share: float = 1.0) -> float:
        """By how much the last of them may be less close to the query than the first, 0: by any."""
        return _between(self.depths, self._wanted(share), "gap")

    def _wanted(self, share: float) -> float:
        return self.results / share if share > 0 else math.inf


def reach_for(calibration: Calibration | None, wanted: int) -> Reach | None:
    """None, that is an exact search, where the space is exact or `wanted` lies beyond what was calibrated."""
    if calibration is None or calibration.kind != "scan":
        return None
    candidates = math.ceil(_between(calibration.depths, wanted, "candidates"))
    return Reach(candidates, wanted, calibration.depths) if candidates else None


def _between(depths: tuple[Depth, ...], wanted: float, name: str) -> float:
    """0 beyond the last of them, or where one of both is 0."""
    for number, depth in enumerate(depths):
        here = float(getattr(depth, name))
        if depth.results >= wanted:
            if depth.results == wanted or number == 0:
                return here
            below = depths[number - 1]
            least = float(getattr(below, name))
            share = math.log(wanted / below.results) / math.log(depth.results / below.results)
            return least * math.pow(here / least, share) if least else 0
    return 0
