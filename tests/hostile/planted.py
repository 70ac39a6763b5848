"""Faults planted in the product's code, and the tests that must find them (mutation testing).

`planted.toml` names the functions and, for each module, further tests. Every mutant runs in a copy of the project with
the tests of its module; a test that fails or hangs has found it. A mutant that lives must be listed as equivalent, with
the reason. `python -m tests.hostile.planted MODULE...` runs the mutants of single modules.
"""

from __future__ import annotations

import itertools
import json
import os
import queue
import random
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from tests import ROOT
from tests.__main__ import tests_of
from tests.hostile.planted_faults import Mutant, functions_of, mutants_of
from tests.hostile.planted_pytest import ELSEWHERE
from tests.hostile.report import Report

TABLE = Path(__file__).with_suffix(".toml")
AT_ONCE = 2
BASELINE_SECONDS = 1_800.0
PATIENCE_SECONDS = 60.0
PATIENCE_FACTOR = 6
"""A run may take so many times as long as that without a fault, and `PATIENCE_SECONDS` more."""
NOT_COPIED = shutil.ignore_patterns(
    ".git", ".venv*", ".*_cache", ".hypothesis", ".benchmarks", ".demo", "*.egg-info", "*.pyc.*"
)
"""The last are files of bytecode that another process writes at the moment."""
OPTIONS = ("-x", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider")

UNUSABLE = {4, 5, ELSEWHERE}
"""Exit statuses of a run that says nothing of the fault: wrong arguments, no test, other code than the copy's."""

Outcome = Literal["found", "timed out", "lives"]


@dataclass(frozen=True, slots=True)
class Target:
    """Functions of a module; `kinds` is None for faults of all kinds. `tests` are files beside the module's own."""

    module: str
    functions: tuple[str, ...]
    kinds: frozenset[str] | None
    tests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Equivalent:
    """A mutant of which no test can tell, known by its text and not by its line."""

    module: str
    function: str
    original: str
    mutated: str
    reason: str

    def means(self, mutant: Mutant) -> bool:
        own = self.module, self.function, self.original, self.mutated
        return own == (mutant.module, mutant.function, mutant.original, mutant.mutated)


class Table:
    """What `planted.toml` says."""

    def __init__(self, path: Path = TABLE) -> None:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        self.targets = [_target(entry) for entry in content["target"]]
        self.equivalents = [Equivalent(**entry) for entry in content.get("equivalent", [])]
        self.exempt: Sequence[Mapping[str, Any]] = content.get("exempt", [])

    @cached_property
    def mutants(self) -> list[Mutant]:
        return [
            mutant
            for target in self.targets
            for mutant in mutants_of(target.module, (ROOT / target.module).read_bytes(), target.functions, target.kinds)
        ]

    def is_equivalent(self, mutant: Mutant) -> bool:
        return any(entry.means(mutant) for entry in self.equivalents)

    def check(self) -> None:
        """AssertionError for a function that does not exist, and for an equivalent that is not a mutant."""
        for target in self.targets:
            missing = set(target.functions) - set(functions_of((ROOT / target.module).read_bytes()))
            assert not missing, f"{target.module} has no {', '.join(sorted(missing))}: change {TABLE.name}"
        for entry in self.equivalents:
            assert any(map(entry.means, self.mutants)), f"no mutant reads like this any more, remove it: {entry}"

    def tests(self, module: str) -> list[str]:
        """The test files of a module, from the root: its own, then those that the table names."""
        own = [str(path.relative_to(ROOT)) for path in tests_of(Path(module))]
        further = [test for target in self.targets if target.module == module for test in target.tests]
        return list(dict.fromkeys([*own, *further]))


def _target(entry: Mapping[str, Any]) -> Target:
    kinds = frozenset(entry["kinds"]) if "kinds" in entry else None
    return Target(entry["module"], tuple(entry["functions"]), kinds, tuple(entry.get("tests", ())))


class Copy:
    """A copy of the project, and a process that runs tests in it."""

    def __init__(self, folder: Path, source: Path = ROOT) -> None:
        self.folder = folder
        shutil.copytree(source, folder, symlinks=True, ignore=NOT_COPIED)
        self._output = folder.with_name(f"{folder.name}.output")
        self._temporary = folder.with_name(f"{folder.name}.tmp")
        self._changes = 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.planted_pytest"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
            env=self._environment(),
            text=True,
        )

    def _environment(self) -> dict[str, str]:
        """Under which this process and its children import the copy."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
        return inherited | {
            "PYTHONPATH": str(self.folder),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }

    def run(self, tests: Sequence[str], seconds: float) -> int | None:
        """The exit status of the tests, None where they were not done in time."""
        arguments = [*OPTIONS, f"--basetemp={self._temporary}", *tests]
        assert self._process.stdin is not None and self._process.stdout is not None
        command = {"arguments": arguments, "output": str(self._output), "seconds": seconds}
        print(json.dumps(command), file=self._process.stdin, flush=True)
        status: int | None = json.loads(self._process.stdout.readline())
        return status

    @property
    def output(self) -> str:
        """What the last run wrote."""
        return self._output.read_text(encoding="utf-8", errors="replace")

    @contextmanager
    def with_fault(self, mutant: Mutant) -> Iterator[None]:
        path = self.folder / mutant.module
        content, status = path.read_bytes(), path.stat()
        self._changes += 1
        try:
            path.write_bytes(mutant.applied(content))
            # No two faults have one time: compiled code is known by the second of its source and its size.
            os.utime(path, (status.st_atime, status.st_mtime + self._changes))
            yield
        finally:
            path.write_bytes(content)
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE_SECONDS)
        self._process.stdout.close()


class Copies:
    """Copies of the project, each for one run at a time."""

    def __init__(self, copies: Iterable[Copy]) -> None:
        self._free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for copy in copies:
            self._free.put(copy)

    @contextmanager
    def one(self) -> Iterator[Copy]:
        copy = self._free.get()
        try:
            yield copy
        finally:
            self._free.put(copy)

    def baseline(self, tests: Sequence[str]) -> float | str:
        """The seconds that tests take without a fault; what they wrote where they do not pass."""
        with self.one() as copy:
            began = time.monotonic()
            status = copy.run(["--tb=short", *tests], BASELINE_SECONDS)
            return time.monotonic() - began if status == 0 else f"status {status}\n{copy.output[-4_000:]}"

    def outcome(self, mutant: Mutant, tests: Sequence[str], seconds: float) -> Outcome:
        with self.one() as copy, copy.with_fault(mutant):
            status = copy.run(tests, PATIENCE_SECONDS + PATIENCE_FACTOR * seconds)
            assert status not in UNUSABLE, f"status {status}: {' '.join(tests)}\n{copy.output[-2_000:]}"
        return "timed out" if status is None else "found" if status else "lives"


@contextmanager
def copies_in(folder: Path, at_once: int = AT_ONCE) -> Iterator[tuple[Copies, ThreadPoolExecutor]]:
    """Copies of the project below a folder, and as many threads, each of which uses one at a time."""
    with ExitStack() as stack:
        copies = [Copy(folder / f"copy-{number}") for number in range(at_once)]
        for copy in copies:
            stack.callback(copy.close)
        yield Copies(copies), stack.enter_context(ThreadPoolExecutor(at_once))


def outcomes(report: Report, table: Table, mutants: Sequence[Mutant]) -> tuple[dict[Mutant, Outcome], list[str]]:
    """What becomes of each mutant, and the modules whose tests do not pass without one."""
    modules = list(dict.fromkeys(mutant.module for mutant in mutants))
    tests = {module: table.tests(module) for module in modules}
    found: dict[Mutant, Outcome] = {}
    with copies_in(report.folder) as (places, threads):
        baselines = dict(zip(modules, threads.map(places.baseline, tests.values()), strict=True))
        for module, problem in baselines.items():
            if isinstance(problem, str):
                report.say(f"{module}: its tests do not pass without a fault: {' '.join(tests[module])}\n{problem}")
        seconds = {module: passed for module, passed in baselines.items() if not isinstance(passed, str)}
        report.say(f"without a fault the tests of {len(seconds)} modules pass, in {sum(seconds.values()):.0f} s")
        mutants = [mutant for mutant in mutants if mutant.module in seconds]
        results = threads.map(lambda one: places.outcome(one, tests[one.module], seconds[one.module]), mutants)
        for module, own in itertools.groupby(mutants, key=lambda one: one.module):
            of_module: dict[Mutant, Outcome] = {}
            for mutant in own:
                of_module[mutant] = next(results)
                mark = " (equivalent)" if table.is_equivalent(mutant) else ""
                if mark or of_module[mutant] != "found":
                    report.say(f"{of_module[mutant]}{mark}: {mutant}")
            found |= of_module
            report.figure(f"planted in {module}", _counts(table, of_module))
    return found, [module for module in modules if module not in seconds]


def _counts(table: Table, results: Mapping[Mutant, Outcome]) -> str:
    counts = Counter(results.values())
    equivalent = sum(table.is_equivalent(one) for one, result in results.items() if result == "lives")
    return (
        f"{len(results)} mutants: {counts['found']} found, {counts['timed out']} timed out, "
        f"{equivalent} equivalent, {counts['lives'] - equivalent} live"
    )


def examine(report: Report, table: Table, mutants: Sequence[Mutant]) -> None:
    """AssertionError where a mutant lives that is not argued to be equivalent, or where nothing could be judged."""
    results, unjudged = outcomes(report, table, mutants)
    report.figure("planted", _counts(table, results))
    survivors = [one for one, result in results.items() if result == "lives" and not table.is_equivalent(one)]
    assert not survivors, "no test finds these faults:\n" + "\n".join(map(str, survivors))
    assert not unjudged, f"the tests do not pass without a fault: {', '.join(unjudged)}"


def run(report: Report, rounds: int, chance: random.Random) -> None:
    """Every mutant of the table, or as many of them as there are rounds."""
    table = Table()
    table.check()
    chosen = set(chance.sample(range(len(table.mutants)), min(rounds, len(table.mutants))))
    examine(report, table, [mutant for number, mutant in enumerate(table.mutants) if number in chosen])


def main(modules: Collection[str]) -> None:
    table = Table()
    table.check()
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        examine(Report(Path(folder)), table, [one for one in table.mutants if one.module in modules])


if __name__ == "__main__":
    main(sys.argv[1:])
