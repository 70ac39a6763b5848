"""A fault in every room is found by the tests that `make check FILE=` runs: one in its first public function.

The function returns None at once, in a copy of the project. The test that fails with it has to pass without it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from tests import ROOT
from tests.__main__ import tests_of
from tests.hostile.planted import AT_ONCE, Copies, copies_in
from tests.hostile.planted_faults import Mutant, returning_none
from tests.hostile.report import Report
from tests.test_architecture import LAYERS

EXAMPLES = Path("examples")
WITHOUT_FUNCTIONS = {
    *(Path("aidre", name) for name in ("client.py", "conformance.py", "remote.py", "results.py", "segments.py")),
    Path("engine/model.py"),
    Path("engine/ports.py"),
}
SECONDS = 1_800.0
"""Ends tests that a fault makes hang."""
RED = {1, 2, 3}
"""Exit statuses of pytest where a test failed, where a module could not be imported, and where pytest itself failed
after that, for what the test left running."""
NOTHING_CHOSEN = 5
_FAILED = re.compile(r"^(?:FAILED|ERROR) ([^\s\[]+)", re.MULTILINE)
"""The name of a test, without its parameters, which may hold any character."""


def rooms() -> Iterator[Path]:
    """Folders and modules from the root: those of the architecture, the packages, and the examples. Of
    `WITHOUT_FUNCTIONS` there is nothing to plant in; benchmarks measure, and whole runs of them are slow tests."""
    for folder, layers in LAYERS.items():
        if folder == "benchmarks":
            continue
        for name in " ".join(layers).split():
            path = Path(folder, name)
            room = path if (ROOT / path).is_dir() else path.with_suffix(".py")
            if room not in WITHOUT_FUNCTIONS:
                yield room
    yield from (path.parent.relative_to(ROOT) for path in sorted(ROOT.glob("packages/*/aidre_*/**/__init__.py")))
    yield EXAMPLES


def fault_in(room: Path) -> Mutant:
    """In the first of its functions that is public and returns something."""
    place, below = ROOT / room, "*/*.py" if room == EXAMPLES else "*.py"
    paths = [place] if place.is_file() else sorted(path for path in place.glob(below) if path.stem != "__init__")
    faults = (fault for path in paths for fault in returning_none(str(path.relative_to(ROOT)), path.read_bytes()))
    fault = next(faults, None)
    assert fault is not None, f"no public function of {room} returns anything"
    return fault


def why_not_found(copies: Copies, fault: Mutant) -> str | None:
    """None where the tests of its file find a fault."""
    tests = [str(path.relative_to(ROOT)) for path in tests_of(Path(fault.module))]
    with copies.one() as copy:
        with copy.with_fault(fault):
            status = copy.run([*tests, "-m", "not slow"], SECONDS)
            if status == NOTHING_CHOSEN:
                status = copy.run(tests, SECONDS)
        red = sorted(set(_FAILED.findall(copy.output)))
        if status not in RED or not red:
            return f"status {status} of {' '.join(tests)}"
        status = copy.run([_chosen(name, tests) for name in red], SECONDS)
        return None if status == 0 else f"{' '.join(red)} fails without the fault, too: {copy.output[-2_000:]}"


def _chosen(name: str, tests: Collection[str]) -> str:
    """A test with the parameter with which it was chosen: those of examples take seconds with each of the others."""
    return next((test for test in tests if test.partition("[")[0] == name), name)


def examine(report: Report, chosen: Collection[Path], at_once: int = AT_ONCE) -> None:
    """AssertionError with the faults that are not found."""
    faults = [fault_in(room) for room in chosen]
    missed: list[str] = []
    with copies_in(report.folder, at_once) as (copies, threads):
        problems = threads.map(lambda fault: why_not_found(copies, fault), faults)
        for fault, problem in zip(faults, problems, strict=True):
            report.say(f"{fault.module} {fault.function}: {problem or 'found'}")
            missed += [] if problem is None else [f"{fault.module}:{fault.line} {fault.function}: {problem}"]
    report.figure("rooms", f"{len(faults)} faults, one in each room: {len(faults) - len(missed)} found")
    assert not missed, "the tests that `make check FILE=` runs do not find these faults:\n" + "\n".join(missed)


def run(report: Report, rounds: int, chance: random.Random) -> None:
    """All rooms, or as many of them as there are rounds."""
    every = list(rooms())
    examine(report, every if rounds >= len(every) else chance.sample(every, rounds))
