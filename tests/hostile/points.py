"""Every point of a cycle at which a process can die or be refused, met one after the other.

In Python that is every call by which it touches the store, on any machine; with strace every system call.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from tests.hostile import stages, tracing
from tests.hostile.injection import ERRORS, FREEING, Calls, die, fail
from tests.hostile.nursery import Child, Say, asked, started, waiting
from tests.hostile.report import Report
from tests.hostile.stages import Stage

NEEDING = (*tracing.WRITING, "openat", "mkdir", "rename", "renameat", "renameat2", "link", "fsync", "fdatasync")
"""System calls that a full disk refuses."""


@dataclass(frozen=True, slots=True)
class Point:
    """A call of a stage, its number among those of its kind, from 1, and whether a full disk would refuse it."""

    stage: Stage
    call: str
    number: int
    needs_room: bool

    @property
    def where(self) -> str:
        return f"{self.stage.name}, {self.call} {self.number}"


class Way(Protocol):
    """How points are found and met."""

    def points(self, cycle: Sequence[Stage], *, reading: bool) -> list[Point]:
        """Those that change a store, or all of them."""

    def met(self, point: Point, fault: str) -> AbstractContextManager[Child]:
        """A child that does the stage and meets with "KILL", or with an error by its name."""


class InPython:
    def points(self, cycle: Sequence[Stage], *, reading: bool) -> list[Point]:
        found = []
        for stage in cycle:
            stage.fresh()
            for number, call in enumerate(asked(_counted, stage, reading), 1):
                found.append(Point(stage, call, number, call not in FREEING))
        return found

    def met(self, point: Point, fault: str) -> AbstractContextManager[Child]:
        return started(meeting, point, fault)


def _counted(stage: Stage, reading: bool) -> list[str]:
    """The calls of a stage that nothing disturbs."""
    calls = Calls(stage.store, 0, die, reading=reading)
    calls.install()
    stages.index_small()
    assert stages.attempt(stage) == "done"
    return calls.names


def meeting(say: Say, point: Point, fault: str) -> None:
    is_death = fault == "KILL"
    Calls(point.stage.store, point.number, die if is_death else fail(ERRORS[fault]), reading=not is_death).install()
    stages.run(say, point.stage)


class Traced:
    """A call that several threads make is met in the first that comes to its number."""

    def points(self, cycle: Sequence[Stage], *, reading: bool) -> list[Point]:
        found: dict[tuple[str, str, int], Point] = {}
        calls = (*tracing.CHANGING, *(tracing.READING if reading else ()))
        for stage in cycle:
            stage.fresh()
            output = stage.folder / "calls"
            with waiting(stages.run, stage) as child, tracing.traced(child, *tracing.listing(calls, output)):
                child.go()
                assert child.hear() == "done"
            for met in tracing.read(output, stage.store):
                if met.changes or reading:
                    needs_room = met.changes and met.call in NEEDING
                    found[stage.name, met.call, met.number] = Point(stage, met.call, met.number, needs_room)
        return list(found.values())

    @contextmanager
    def met(self, point: Point, fault: str) -> Iterator[Child]:
        what = "signal=KILL" if fault == "KILL" else f"error={fault}"
        options = tracing.injecting(point.call, point.number, what)
        with waiting(stages.run, point.stage) as child, tracing.traced(child, *options):
            child.go()
            yield child


@dataclass(slots=True)
class Tally:
    """What became of the points that were met."""

    name: str
    met: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    examined: dict[tuple[str, str, bool, bool], int] = field(default_factory=dict)

    def examine(self, point: Point, *, done: bool = False, refused: bool = False) -> int:
        """Examine what a stage left, once for all that left the same."""
        stage = point.stage
        key = stage.name, stages.digest(stage.store), done, refused
        if key not in self.examined:
            try:
                self.examined[key] = asked(stages.examine, stage, done, refused)
            except AssertionError as error:
                raise AssertionError(f"{self.name} at {point.where}: {error}") from error
        return self.examined[key]

    def add(self, point: Point, outcome: str, report: Report) -> None:
        self.met += 1
        self.outcomes[outcome] += 1
        self.calls[point.call] += 1
        if self.met % 100 == 0:
            report.say(self.text())

    def text(self) -> str:
        calls = ", ".join(f"{name} {count}" for name, count in self.calls.most_common())
        outcomes = ", ".join(f"{name} {count}" for name, count in self.outcomes.most_common())
        return f"{self.name}: {self.met:,} points ({calls}): {outcomes}; {len(self.examined)} different ends"


def some(points: Sequence[Point], most: int, chance: random.Random) -> list[Point]:
    """All of them in order, or so many at random."""
    chosen = sorted(chance.sample(range(len(points)), min(most, len(points))))
    return [points[number] for number in chosen]


def die_everywhere(report: Report, most: int, chance: random.Random, way: Way, cycle: Sequence[Stage]) -> None:
    """SIGKILL before every call that changes the store: what is left is the state before or after; the rest completes.

    Threads do not make the same calls in every run: a few points may not be reached again.
    """
    tally = Tally("SIGKILL")
    for point in some(way.points(cycle, reading=False), most, chance):
        point.stage.fresh()
        with way.met(point, "KILL") as child:
            ended = child.killed_by()
        outcome = "not reached" if ended is None else ("as before", "as after")[tally.examine(point)]
        tally.add(point, outcome, report)
    assert tally.outcomes["not reached"] * 20 <= tally.met, tally.text()
    report.figure("crash points of one cycle", f"{tally.text()}; between 0")


def fail_everywhere(report: Report, most: int, chance: random.Random, way: Way, cycle: Sequence[Stage]) -> None:
    """EIO at every call, ENOSPC at every one that needs room: an error that is meant for it, readers served on, space
    given back, success afterwards."""
    points = way.points(cycle, reading=True)
    needing = [point for point in points if point.needs_room]
    for fault, those in (("EIO", points), ("ENOSPC", needing)):
        tally = Tally(fault)
        problems: list[str] = []
        for point in some(those, most, chance):
            point.stage.fresh()
            with way.met(point, fault) as child:
                said = last_words(child)
            problems += _judged(point, said, tally, report)
        report.figure(f"{fault} at every call of one cycle", f"{tally.text()}; problems {len(problems)}")
        assert not problems, "\n".join(problems)


def last_words(child: Child) -> str:
    """How a stage ended; that its process died is an end, too, and a bad one."""
    try:
        return child.hear()
    except AssertionError as error:
        return f"broke: {error}"


def _judged(point: Point, said: str, tally: Tally, report: Report) -> list[str]:
    """What is wrong with the end of a stage that met with an error, and with what it left."""
    if said.startswith("broke"):
        tally.add(point, "broke", report)
        return [f"{tally.name} at {point.where}: {said}"]
    tally.add(point, "done nevertheless" if said == "done" else said.split(":")[1].strip(), report)
    try:
        tally.examine(point, done=said == "done", refused=stages.stored_nothing(said))
    except AssertionError as error:
        return [f"{error} (it had said: {said})"]
    return []


# -- the proofs --------------------------------------------------------------------------------------------------------


def crashes(report: Report, rounds: int, chance: random.Random) -> None:
    die_everywhere(report, rounds, chance, InPython(), stages.cycle(report))


def faults(report: Report, rounds: int, chance: random.Random) -> None:
    fail_everywhere(report, rounds, chance, InPython(), stages.cycle(report))


def traced_crashes(report: Report, rounds: int, chance: random.Random) -> None:
    _need_strace()
    die_everywhere(report, rounds, chance, Traced(), stages.cycle(report))


def traced_faults(report: Report, rounds: int, chance: random.Random) -> None:
    _need_strace()
    fail_everywhere(report, rounds, chance, Traced(), stages.cycle(report))


def _need_strace() -> None:
    problem = tracing.why_not()
    assert problem is None, problem
