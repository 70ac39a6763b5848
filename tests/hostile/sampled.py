"""Faults drawn by seed from the whole product, and the share of them that tests find.

`planted.toml` names functions whose faults would do harm; here chance names them, so that nobody's choice flatters the
tests. Each fault stands in a copy of the project, against the tests that ran its line in the last `make coverage`, the
nearest folders first, and against the tests of its module where the map knows none. A test that fails with the fault
must pass without it. A fault that lives is listed in `sampled.toml`, with the reason, where no test could tell.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Literal

from coverage import CoverageData

from tests import ROOT
from tests.__main__ import tests_of
from tests.hostile.planted import UNUSABLE, Copies, Equivalent, copies_in
from tests.hostile.planted_faults import Mutant, functions_of, mutants_of
from tests.hostile.report import Report

TABLE = Path(__file__).with_suffix(".toml")
COVERAGE = ROOT / "build" / "coverage" / "data"
FOLDERS = ("engine", "ingest", "api", "aidre")
LEAST_SHARE = 0.9
MOST_TESTS = 60
"""Test functions that a fault is shown to: a line that all requests run has thousands."""
SECONDS = 600.0
"""Ends tests that a fault makes hang."""
_FAILED = re.compile(r"^(?:FAILED|ERROR) ([^\s\[]+)", re.MULTILINE)

Outcome = Literal["found", "timed out", "lives", "unjudged"]


def modules() -> list[Path]:
    """The modules of the product, each by its own path and not by the links in aidre/."""
    paths = (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))
    return [path for path in paths if path.resolve() == path]


def drawn(rounds: int, chance: random.Random) -> list[Mutant]:
    """So many faults, in the order of their modules; a module is as likely as it is long."""
    paths = modules()
    sizes, found = [path.stat().st_size for path in paths], dict[Mutant, None]()
    while len(found) < rounds:
        path = chance.choices(paths, sizes)[0]
        mutants = _mutants(path)
        if mutants:
            found[chance.choice(mutants)] = None
    return sorted(found, key=lambda mutant: (mutant.module, mutant.start, mutant.replacement))


@cache
def _mutants(path: Path) -> list[Mutant]:
    content = path.read_bytes()
    return mutants_of(str(path.relative_to(ROOT)), content, functions_of(content))


class Map:
    """The test functions that ran a line, by what `make coverage` has measured; nothing where it was not run."""

    def __init__(self, path: Path = COVERAGE) -> None:
        self._data = CoverageData(str(path))
        if path.exists():
            self._data.read()

    @cached_property
    def _files(self) -> Mapping[str, str]:
        """The measured files by their path from the root, wherever the project lay."""
        found = {}
        for file in self._data.measured_files():
            parts = Path(file).parts
            for start in range(len(parts)):
                if (ROOT / Path(*parts[start:])).is_file() and not Path(*parts[start:]).is_absolute():
                    found[(ROOT / Path(*parts[start:])).resolve().relative_to(ROOT).as_posix()] = file
                    break
        return found

    def tests(self, mutant: Mutant) -> list[str]:
        """The nearest tests of a fault, as pytest names them: those that ran its line, or those of its module."""
        file = self._files.get(mutant.module)
        contexts = self._data.contexts_by_lineno(file).get(mutant.line, []) if file else []
        found = sorted({test for test in map(test_of, contexts) if test}, key=lambda test: _distance(mutant, test))
        return found[:MOST_TESTS] or [str(path.relative_to(ROOT)) for path in tests_of(Path(mutant.module))]


def test_of(context: str) -> str | None:
    """`tests/api/test_app.py::test_name` of a context; None for what ran outside of tests, or in one that is gone."""
    file, _, name = context.partition("::")
    return context if name and (ROOT / file).is_file() else None


def _distance(mutant: Mutant, test: str) -> tuple[int, str]:
    """How far the folder of a test is from the one that mirrors the module."""
    own, other = Path("tests", mutant.module).with_suffix("").parts, Path(test.partition("::")[0]).parent.parts
    shared = next((number for number, (one, two) in enumerate(zip(own, other, strict=False)) if one != two), len(other))
    return len(own) + len(other) - 2 * shared, test


def outcome(copies: Copies, mutant: Mutant, tests: Sequence[str]) -> Outcome:
    with copies.one() as copy:
        with copy.with_fault(mutant):
            status = copy.run(tests, SECONDS)
        failed = sorted(set(_FAILED.findall(copy.output)))
        if status is None:
            return "timed out"
        if status == 0:
            return "lives"
        if status in UNUSABLE:
            return "unjudged"
        return "found" if not failed or copy.run(failed, SECONDS) == 0 else "unjudged"


def equivalents(path: Path = TABLE) -> list[Equivalent]:
    """What `sampled.toml` lists. AssertionError for an entry that is not a fault of its function any more."""
    entries = [Equivalent(**entry) for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("equivalent", [])]
    for entry in entries:
        content = (ROOT / entry.module).read_bytes()
        mutants = mutants_of(entry.module, content, [entry.function]) if entry.function in functions_of(content) else []
        assert any(map(entry.means, mutants)), f"no fault reads like this any more, remove it: {entry}"
    return entries


def room_of(mutant: Mutant) -> str:
    return "/".join(Path(mutant.module).parts[:2])


def share(results: Iterable[Outcome]) -> tuple[int, int]:
    """The found ones, and those that could be found."""
    counts = Counter(results)
    found = counts["found"] + counts["timed out"]
    return found, found + counts["lives"]


def run(report: Report, rounds: int, chance: random.Random) -> None:
    """AssertionError where fewer than LEAST_SHARE of the faults are found."""
    listed, places = equivalents(), Map()
    mutants = [one for one in drawn(rounds, chance) if not any(entry.means(one) for entry in listed)]
    tests = [places.tests(mutant) for mutant in mutants]
    results: list[Outcome] = []
    with copies_in(report.folder) as (copies, threads):
        judged = threads.map(lambda pair: outcome(copies, *pair), zip(mutants, tests, strict=True))
        for mutant, result in zip(mutants, judged, strict=True):
            results.append(result)
            if result != "found":
                report.say(f"{result}: {mutant}")
    for room in sorted({room_of(mutant) for mutant in mutants}):
        own = [result for mutant, result in zip(mutants, results, strict=True) if room_of(mutant) == room]
        found, judged_ones = share(own)
        report.figure(f"sampled in {room}", f"{found} of {judged_ones} found")
    found, judged_ones = share(results)
    others = f"{results.count('unjudged')} not judged, {rounds - len(mutants)} equivalent"
    report.figure("sampled", f"{found} of {judged_ones} found, {others}")
    assert found >= LEAST_SHARE * judged_ones, f"fewer than {LEAST_SHARE:.0%} of the faults are found"
