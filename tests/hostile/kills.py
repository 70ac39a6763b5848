"""SIGKILLs at random moments of a writer's life: a collection lives through hundreds of them.

Each time the next writer goes on with what the last one left. Kills of bulk loads, receipts and binds are in `bulk`
and `receipts`.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.hostile.examination import examine, look
from tests.hostile.nursery import asked, started
from tests.hostile.report import Report
from tests.hostile.steps import INDEXED, SMALL, Shape, State, Step, after, marks_in, planned, write, write_all

STEPS = 24
"""More than a writer gets done before it is killed."""
MOST = {SMALL: 8, INDEXED: 3}
"""Steps after which it is killed at the latest."""


@dataclass(slots=True)
class Life:
    """A collection that is killed again and again, and what is known of it."""

    store: Path
    shape: Shape
    state: State = field(default_factory=dict)
    version: int = 1
    kills: int = 0
    acknowledged: int = 0
    stands: set[tuple[str, int]] = field(default_factory=set)
    interrupted: Counter[str] = field(default_factory=Counter)
    undone: int = 0
    recalls: list[float] = field(default_factory=list)
    promised: list[float] = field(default_factory=list)
    indexed: int = 0
    purges: int = 0

    def begin(self) -> None:
        """Fill it, so that there is something to lose."""
        step = Step("put", tuple(self.shape.ids()), self.version)
        asked(write_all, self.store, self.shape, [step])
        self.went_on([step])

    def went_on(self, steps: list[Step]) -> None:
        """These steps were acknowledged, or found done: they may have left traces, which a purge removes."""
        for step in steps:
            self.state = after(self.state, [step])
            if step.kind == "put":
                self.stands |= {(one, step.version) for one in step.ids}
            elif step.kind == "purge":
                self.stands = set(self.state.items())
                self.purges += 1
        self.version += STEPS

    def kill(self, chance: random.Random) -> bool:
        """One kill and what follows from it; False where the writer was done before it came."""
        steps = planned(self.shape, self.state, self.version, STEPS, chance)
        with started(write, self.store, self.shape, steps) as writer:
            done = len(writer.kill_after(chance.randint(0, MOST[self.shape]), chance))
        return self.check(steps, done)

    def check(self, steps: list[Step], done: int) -> bool:
        """The first `done` steps were acknowledged: they hold; of the next one all or nothing; it can be done again.

        False where there is no next one: the writer was done before its end came.
        """
        at = after(self.state, steps[:done])
        if done == len(steps):
            asked(look, self.store, self.shape, [at])
            self.went_on(steps)
            return False
        next_ = after(at, steps[done : done + 1])
        try:
            found = asked(examine, self.store, self.shape, [at, next_], steps[done : done + 1])
        except AssertionError as error:
            where = f"kill {self.kills} of {self.shape}, in {steps[done].kind}, {done} acknowledged"
            raise AssertionError(f"{where}: {error}") from error
        self.kills += 1
        self.acknowledged += done
        self.interrupted[steps[done].kind] += 1
        self.undone += found.state == 0
        self.recalls += found.recalls
        self.promised += [] if found.promised is None else [found.promised]
        self.indexed += found.rows_in_indexes > 0
        purged = any(step.kind == "purge" for step in steps[: done + 1])
        self.went_on(steps[: done + 1])
        if purged:
            left = marks_in(self.store) - self.stands
            assert not left, f"a purge left traces of {len(left)} deleted versions: {sorted(left)[:3]}"
        return True

    def figures(self) -> str:
        kinds = ", ".join(f"{kind} {count}" for kind, count in self.interrupted.most_common())
        text = (
            f"{self.kills:,} kills (in {kinds}), {self.acknowledged:,} commits acknowledged, lost 0, between 0; "
            f"{self.undone} interrupted steps had not happened, {self.kills - self.undone} had; "
            f"{self.purges} purges left no trace"
        )
        if self.recalls:
            recall, promised = sum(self.recalls) / len(self.recalls), sum(self.promised) / len(self.promised)
            text += f"; with an index {self.indexed} times, recall@10 {recall:.4f}, calibrated {promised:.4f}"
        return text


def run(report: Report, rounds: int, chance: random.Random) -> None:
    """Three of four hit a small collection, the others one with an index."""
    live_through(report, rounds - rounds // 4, SMALL, chance)
    if rounds >= 4:
        live_through(report, rounds // 4, INDEXED, chance)


def live_through(report: Report, rounds: int, shape: Shape, chance: random.Random) -> None:
    life = Life(report.place(f"store-{shape.dimensions}"), shape)
    life.begin()
    while life.kills < rounds:
        if life.kill(chance) and life.kills % 50 == 0:
            report.say(life.figures())
    if life.recalls:
        recall, promised = sum(life.recalls) / len(life.recalls), sum(life.promised) / len(life.promised)
        assert recall >= promised - 0.01, f"recall@10 is {recall:.4f}, calibrated {promised:.4f}"
    report.figure(f"kills, {shape.dimensions} dimensions", life.figures())
