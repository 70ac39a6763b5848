"""The steps of chaos: what is done to which collection, and what goes wrong meanwhile, from a seed alone."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal[
    "ingest", "update", "delete", "purge", "compact", "rollback", "backup", "restore", "verify", "worker", "clock"
]
Trouble: TypeAlias = Literal["none", "kill", "full"]
WEIGHTS: dict[Kind, int] = {
    "ingest": 10,
    "update": 10,
    "delete": 10,
    "purge": 6,
    "compact": 6,
    "rollback": 7,
    "backup": 4,
    "restore": 5,
    "verify": 4,
    "worker": 2,
    "clock": 4,
}
UNTROUBLED: frozenset[Kind] = frozenset({"verify", "worker", "clock"})
TROUBLES: dict[Trouble, int] = {"none": 5, "kill": 3, "full": 2}
OPEN, CLOSED = "docs", "vault"
IDS = {OPEN: [f"d{number:05d}" for number in range(40)], CLOSED: [f"d{number:05d}" for number in range(100, 125)]}
MOST = 12
"""Documents that a step touches at most."""


@dataclass(frozen=True, slots=True)
class Move:
    """A step: `ids` and `version` of what it writes, `draw` from 0 to 1 for what depends on the state, `at` the call
    from which on the disk is full, `moment` the share of its usual time after which it is killed."""

    kind: Kind
    collection: str
    trouble: Trouble
    ids: tuple[str, ...]
    version: int
    draw: float
    at: int
    moment: float

    def __str__(self) -> str:
        trouble = "" if self.trouble == "none" else f", {self.trouble}"
        return f"{self.kind} {self.collection}{trouble}, version {self.version}"


def planned(count: int, chance: random.Random) -> list[Move]:
    """So many steps, among them one of every kind with every trouble if there are enough; alike for the same seed."""
    every = [(kind, trouble) for kind in WEIGHTS for trouble in TROUBLES if trouble == "none" or kind not in UNTROUBLED]
    chosen = chance.sample(every, min(count, len(every)))
    while len(chosen) < count:
        kind = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        trouble = chance.choices(list(TROUBLES), list(TROUBLES.values()))[0]
        chosen.append((kind, "none" if kind in UNTROUBLED else trouble))
    chance.shuffle(chosen)
    return [_move(kind, trouble, number + 2, chance) for number, (kind, trouble) in enumerate(chosen)]


def _move(kind: Kind, trouble: Trouble, version: int, chance: random.Random) -> Move:
    collection = chance.choices((OPEN, CLOSED), (3, 1))[0]
    ids = tuple(sorted(chance.sample(IDS[collection], chance.randint(1, MOST))))
    return Move(kind, collection, trouble, ids, version, chance.random(), chance.randint(1, 60), chance.uniform(0, 1.3))
