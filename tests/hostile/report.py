"""What a proof is given beside its counts: a place for its files, and where its figures go."""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(slots=True)
class Report:
    """One run of one proof. `folder` is empty at its beginning and removed after it."""

    folder: Path
    figures: list[tuple[str, str]] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def figure(self, name: str, text: str) -> None:
        """One line of what was measured, shown at once: "kills: 1,000; acknowledged documents lost 0; ..."."""
        self.figures.append((name, text))
        self.say(f"{name}: {text}")

    def say(self, text: str) -> None:
        """How far a long run is; no figure."""
        print(f"[{time.monotonic() - self.began:7.1f} s] {text}", flush=True)  # noqa: T201 - a program's output

    def place(self, name: str) -> Path:
        """A new empty folder of that name."""
        path = self.folder / name
        path.mkdir(parents=True)
        return path


class Proof(Protocol):
    """What a subject offers: AssertionError, with the round in its message, where something did not hold."""

    def __call__(self, report: Report, rounds: int, chance: random.Random) -> None: ...


def seed_of_run() -> int:
    """The same in every run unless AIDRE_SEED is another number, or "random" for a new one; pytest shows it with a
    failure."""
    chosen = os.environ.get("AIDRE_SEED", "1")
    number = random.randrange(1 << 32) if chosen == "random" else int(chosen)
    print(f"AIDRE_SEED={number}")  # noqa: T201 - where a test writes
    return number
