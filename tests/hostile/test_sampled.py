"""Faults drawn by seed: which tests a fault meets, and what is said of one that no test finds."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from coverage import CoverageData

from tests import ROOT
from tests.hostile import sampled
from tests.hostile.planted_faults import Mutant
from tests.hostile.report import Report
from tests.hostile.test_planted import FOUND, LIVING, MODULE, TEST


def a_map(folder: Path, *contexts: str) -> sampled.Map:
    """As `make coverage` has measured it in another place: every context ran all lines of the module."""
    data = CoverageData(str(folder / "data"))
    lines = range(1, len((ROOT / MODULE).read_bytes().splitlines()) + 1)
    for context in contexts:
        data.set_context(context)
        data.add_lines({f"/elsewhere/{MODULE}": lines})
    data.write()
    return sampled.Map(folder / "data")


def test_the_same_seed_draws_the_same_faults() -> None:
    first, again, other = (sampled.drawn(20, random.Random(seed)) for seed in (1, 1, 2))
    assert first == again != other
    assert len(set(first)) == 20


def test_every_module_of_the_product_can_be_drawn_once() -> None:
    modules = [path.relative_to(ROOT) for path in sampled.modules()]
    assert {path.parts[0] for path in modules} == set(sampled.FOLDERS)
    assert len({(ROOT / path).resolve() for path in modules}) == len(modules)


def test_a_fault_meets_the_tests_that_ran_its_line_the_nearest_first(tmp_path: Path) -> None:
    far, gone = "tests/hostile/test_planted.py::test_equivalents_say_why", "tests/gone/test_gone.py::test_it"
    assert a_map(tmp_path, "", far, TEST, gone).tests(LIVING) == [TEST, far]


def test_without_a_map_a_fault_meets_the_tests_of_its_module(tmp_path: Path) -> None:
    assert sampled.Map(tmp_path / "none").tests(FOUND) == ["tests/api/access/test_caller.py"]


def test_so_many_tests_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampled, "MOST_TESTS", 1)
    assert a_map(tmp_path, "tests/test_docs.py::test_it", TEST).tests(FOUND) == [TEST]


def test_the_list_says_why_and_names_faults_that_there_are(tmp_path: Path) -> None:
    assert [entry for entry in sampled.equivalents() if len(entry.reason) < 20] == []
    path = tmp_path / "sampled.toml"
    path.write_text(f'[[equivalent]]\nmodule = "{MODULE}"\nfunction = "may_see"\noriginal = "x"\nmutated = "y"\n'
                    'reason = "it was so"\n', encoding="utf-8")  # fmt: skip
    with pytest.raises(AssertionError, match="no fault reads like this any more"):
        sampled.equivalents(path)


class Runs:
    """In place of copies of the project: the statuses of runs, first the one with the fault."""

    def __init__(self, *statuses: int | None, output: str = "FAILED tests/test_docs.py::test_it[a] - why") -> None:
        self._statuses, self.output = list(statuses), output
        self.asked: list[list[str]] = []

    @contextmanager
    def one(self) -> Iterator[Runs]:
        yield self

    @contextmanager
    def with_fault(self, mutant: Mutant) -> Iterator[None]:
        yield

    def run(self, tests: Sequence[str], seconds: float) -> int | None:
        self.asked.append(list(tests))
        return self._statuses.pop(0)


@pytest.mark.parametrize(
    ("runs", "outcome"),
    [
        (Runs(0), "lives"),
        (Runs(1, 0), "found"),
        (Runs(1, 1), "unjudged"),  # it fails without the fault, too
        (Runs(-9, output=""), "found"),
        (Runs(None), "timed out"),
        (Runs(5), "unjudged"),  # no test
    ],
)
def test_a_fault_is_found_by_a_test_that_passes_without_it(runs: Runs, outcome: str) -> None:
    copies: Any = runs
    assert sampled.outcome(copies, FOUND, ["tests/test_docs.py"]) == outcome
    assert runs.asked == [["tests/test_docs.py"], ["tests/test_docs.py::test_it"]][: len(runs.asked)]


def test_too_many_survivors_are_an_error(report: Report, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    places = a_map(tmp_path, TEST)
    monkeypatch.setattr(sampled, "Map", lambda: places)
    monkeypatch.setattr(sampled, "copies_in", lambda folder: nullcontext((None, ThreadPoolExecutor(1))))
    monkeypatch.setattr(sampled, "outcome", lambda copies, mutant, tests: "lives" if mutant == LIVING else "found")
    monkeypatch.setattr(sampled, "drawn", lambda rounds, chance: [FOUND] * 9 + [LIVING])
    sampled.run(report, 10, random.Random(1))
    monkeypatch.setattr(sampled, "drawn", lambda rounds, chance: [FOUND, LIVING])
    with pytest.raises(AssertionError, match="fewer than 90% of the faults are found"):
        sampled.run(report, 2, random.Random(1))
    assert report.figures[-2:] == [
        ("sampled in api/access", "1 of 2 found"),
        ("sampled", "1 of 2 found, 0 not judged, 0 equivalent"),
    ]
