"""Planted faults: what the mutator makes of a source, that the table is true, and that a fault is found end to end."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import ROOT
from tests.hostile import __main__ as long_forms
from tests.hostile.planted import Copies, Copy, Equivalent, Table, examine
from tests.hostile.planted_faults import Mutant, functions_of, mutants_of
from tests.hostile.report import Report

TABLE = Table()


def planted(body: str, annotation: str = "int") -> list[str]:
    """What the mutants of a function read like, without the lines that stay."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    source = f"def function(a, b, c) -> {annotation}:\n{lines}\n"
    return [f"{mutant.original} -> {mutant.mutated}" for mutant in mutants_of("m.py", source.encode(), ["function"])]


@pytest.mark.parametrize(
    ("body", "mutated"),
    [
        ("x = a < b", ["x = a <= b"]),
        ("x = a >= b", ["x = a > b"]),
        ("x = a == b", ["x = a != b"]),
        ("x = (a) not in (b)", ["x = (a) in (b)"]),
        ("x = a is b", ["x = a is not b"]),
        ("x = a < b <= c", ["x = a <= b <= c", "x = a < b < c"]),
        ("x = a and b", ["x = a or b"]),
        ("x = a or b or c", ["x = a and b or c", "x = a or b and c"]),
        ("x = not a", ["x = a"]),
        ("x = ~a", ["x = a"]),
        ("a.sort(key=lambda one: -one)", ["pass", "a.sort(key=lambda one: one)"]),
        ("x = 7", ["x = 8"]),
        ("x = 600", ["x = 1200"]),
        ("x = -1", ["x = -2"]),
        ("x = a[0]", []),
        ("x = a[1:]", ["x = a[2:]"]),
        ("x = a + b - c", ["x = a - b - c", "x = a + b + c"]),
        ("x = a & b", ["x = a | b"]),
        ("a += b", ["a -= b"]),
        ("x = min(a, max(b, c))", ["x = max(a, max(b, c))", "x = min(a, min(b, c))"]),
        ('x = a.searchsorted(b, side="right")', ['x = a.searchsorted(b, side="left")']),
        ("os.fsync(a)", ["pass"]),
        ("await a.commit()", ["pass"]),
        ("x = a.open(b, exist_ok=True)", ["x = a.open(b)"]),
        ("x = a.open(exist_ok=True, mode=b)", ["x = a.open(mode=b)"]),
        ("if a == b:\n    a = c", ["if True:", "if False:"]),
        ("if a < b:\n    a = c", ["if True:", "if False:", "if a <= b:"]),
        ("if not a:\n    a = c", ["if True:", "if False:"]),
        ("if a:\n    raise ValueError(b + 1)", ["if False:"]),
        ("if a:\n    a = b\n    raise ValueError", ["if True:", "if False:", "pass"]),
        ("while a:\n    a = b", ["while False:"]),
        ("x = a if b else c", ["x = a if True else c", "x = a if False else c"]),
        ("x = [one for one in a if one]", ["x = [one for one in a if True]", "x = [one for one in a if False]"]),
        ("try:\n    a = b\nexcept OSError:\n    raise", ["pass"]),
    ],
)  # fmt: skip
def test_a_fault_is_one_small_change(body: str, mutated: list[str]) -> None:
    assert sorted(one.partition(" -> ")[2] for one in planted(body)) == sorted(mutated)


@pytest.mark.parametrize(
    ("annotation", "value", "mutated"),
    [
        ("int", "a", []),
        ("int | None", "a", ["return None"]),
        ("bool", "a.any()", ["return not (a.any())"]),
        ("bool", "True", ["return False"]),
        ("bool", "a < b", ["return a <= b"]),
        ("list[int]", "a", ["return []"]),
        ("list[int]", "[]", []),
        ("tuple[int, ...]", "a", ["return ()"]),
        ("tuple[int, int]", "a", []),
        ("dict[str, int]", "a", ["return {}"]),
        ("bytes", "a", ['return b""']),
    ],
)
def test_a_function_returns_another_value_of_its_type(annotation: str, value: str, mutated: list[str]) -> None:
    assert [one.partition(" -> ")[2] for one in planted(f"return {value}", annotation)] == mutated


@pytest.mark.parametrize(
    "body",
    [
        '"""A docstring of 1 line."""',
        "x: Literal[1] = a",
        'logger.warning("%d", 1)',
        'x = f"{a + 1}"',
        "assert a < 1",
        "super().__init__(a)",
        "x = zip(a, b, strict=True)",
        "if True:\n    x = a",
        'x = "a" + b',
    ],
)
def test_nothing_is_planted_in_what_is_no_behaviour(body: str) -> None:
    assert planted(body) == []


def test_all_other_text_stays_as_it_is() -> None:
    source = (
        "class One:\n    def two(self):  # é\n        return 'é' if (self  <  # why\n            3) else 1\n".encode()
    )
    mutants = mutants_of("m.py", source, ["One.two"], ["comparison"])
    assert [one.applied(source) for one in mutants] == [source.replace(b"self  <  #", b"self  <=  #")]
    assert [(one.function, one.line) for one in mutants] == [("One.two", 3)]


def test_functions_are_found_by_name_and_methods_by_their_class() -> None:
    source = (
        b"def a():\n    def b(): pass\nclass C:\n    async def d(self): pass\n    class E:\n        def f(self): pass\n"
    )
    assert list(functions_of(source)) == ["a", "C.d", "C.E.f"]


# -- the table -----------------------------------------------------------------------------------------------------


def test_the_table_names_functions_and_mutants_that_exist() -> None:
    TABLE.check()
    for entry in TABLE.exempt:
        functions = functions_of((ROOT / entry["module"]).read_bytes())
        assert entry["reason"] and set(entry["functions"]) <= set(functions), entry
        targets = {name for target in TABLE.targets if target.module == entry["module"] for name in target.functions}
        assert targets.isdisjoint(entry["functions"]), entry


def test_every_target_has_mutants_and_tests_that_exist() -> None:
    planted_in = {(mutant.module, mutant.function) for mutant in TABLE.mutants}
    for target in TABLE.targets:
        assert {(target.module, name) for name in target.functions} <= planted_in, target
        assert TABLE.tests(target.module), target
        assert [name for name in TABLE.tests(target.module) if not (ROOT / name).exists()] == [], target


def test_the_full_form_plants_every_mutant() -> None:
    assert long_forms.rounds_of("planted", 1.0) >= len(TABLE.mutants)


def test_every_mutant_reads_otherwise_and_is_a_program() -> None:
    assert [one for one in TABLE.mutants if one.original == one.mutated] == []
    for mutant in {(one.module, one.kind): one for one in TABLE.mutants}.values():
        ast.parse(mutant.applied((ROOT / mutant.module).read_bytes()))


def test_equivalents_say_why() -> None:
    known = [(one.module, one.function, one.original, one.mutated) for one in TABLE.equivalents]
    assert len(set(known)) == len(known)
    assert [one for one in TABLE.equivalents if len(one.reason) < 20] == []


def test_an_equivalent_that_is_no_mutant_any_more_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "planted.toml"
    target = '[[target]]\nmodule = "api/access/caller.py"\nfunctions = ["may_see"]\n'
    path.write_text(f'{target}[[equivalent]]\nmodule = "api/access/caller.py"\nfunction = "may_see"\noriginal = "x"\n'
                    'mutated = "y"\nreason = "it was so"\n', encoding="utf-8")  # fmt: skip
    with pytest.raises(AssertionError, match="no mutant reads like this any more"):
        Table(path).check()
    path.write_text(target.replace("may_see", "may_not_see"), encoding="utf-8")
    with pytest.raises(AssertionError, match=r"api/access/caller.py has no may_not_see: change planted.toml"):
        Table(path).check()


# -- end to end ----------------------------------------------------------------------------------------------------

MODULE = "api/access/caller.py"
TEST = "tests/api/access/test_caller.py::test_a_private_collection_is_there_for_those_whom_it_is_granted"


class OneTest(Table):
    """The table, with one test for the module: it finds faults of `may_see`, and none of `visibility_in_force`."""

    def tests(self, module: str) -> list[str]:
        return [TEST] if module == MODULE else super().tests(module)


def mutant_of(function: str, mutated: str) -> Mutant:
    mutants = mutants_of(MODULE, (ROOT / MODULE).read_bytes(), [function])
    return next(one for one in mutants if mutated in one.mutated)


FOUND = mutant_of("may_see", 'visibility == "public" and')
LIVING = mutant_of("visibility_in_force", '"private" if False')


def test_a_fault_is_found_and_a_survivor_is_told(report: Report) -> None:
    table = OneTest()
    with pytest.raises(AssertionError, match=r"no test finds these faults:\n.*visibility_in_force") as failure:
        examine(report, table, [FOUND, LIVING])
    assert "may_see" not in str(failure.value)
    assert report.figures[-1] == ("planted", "2 mutants: 1 found, 0 timed out, 0 equivalent, 1 live")
    table.equivalents.append(Equivalent(MODULE, LIVING.function, LIVING.original, LIVING.mutated, "for this test"))
    assert table.is_equivalent(LIVING) and not table.is_equivalent(FOUND)


class RedTable(Table):
    """Tests that do not pass without a fault."""

    def tests(self, module: str) -> list[str]:
        return ["tests/test_missing.py"]


def test_without_green_tests_nothing_is_judged(report: Report) -> None:
    with pytest.raises(AssertionError, match=f"the tests do not pass without a fault: {MODULE}"):
        examine(report, RedTable(), [FOUND])
    assert report.figures == [("planted", "0 mutants: 0 found, 0 timed out, 0 equivalent, 0 live")]


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Copy]:
    copy = Copy(tmp_path / "copy")
    yield copy
    copy.close()


def test_a_run_is_judged_by_its_end(copy: Copy) -> None:
    def test(body: str) -> int | None:
        (copy.folder / "tests" / "test_one.py").write_text(f"def test_one():\n    {body}\n", encoding="utf-8")
        return copy.run(["tests/test_one.py"], 0.01 if "while" in body else 600)

    assert [test("pass"), test("assert False"), test("while True: pass")] == [0, 1, None]
    assert test("import os, signal; os.kill(os.getpid(), signal.SIGKILL)") == -9
    assert test("import sys, types; sys.modules['aidre.x'] = types.ModuleType('x'); "
                "sys.modules['aidre.x'].__file__ = '/x.py'") == 99  # fmt: skip
    assert str(Copies([copy]).baseline(["tests/test_missing.py"])).startswith("status 4\n")


def test_a_copy_runs_its_own_code_and_so_do_its_processes(copy: Copy) -> None:
    program = "import aidre.api.access.caller as caller; print(caller.__file__)"
    body = (
        f"import subprocess, sys, aidre.api.access.caller as caller\n"
        f"def test_one():\n"
        f"    for options in ([], ['-P']):\n"
        f"        command = [sys.executable, *options, '-c', {program!r}]\n"
        f"        assert subprocess.check_output(command, cwd='/', text=True).strip() == caller.__file__\n"
        f"    assert caller.__file__.startswith({str(copy.folder)!r})\n"
        f"    assert caller.may_see(caller.ANONYMOUS, 'x', 'public')\n"
    )
    (copy.folder / "tests" / "test_one.py").write_text(body, encoding="utf-8")
    assert copy.run(["tests/test_one.py"], 600) == 0, copy.output
    with copy.with_fault(FOUND):
        assert copy.run(["tests/test_one.py"], 600) == 1, copy.output
    assert copy.run(["tests/test_one.py"], 600) == 0, copy.output
