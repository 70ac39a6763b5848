"""Runs the tests of single files: `python -m tests FILE... [options of pytest]`.

A module's tests are the `test_<module>.py` and `test_<module>_<aspect>.py` of the folder that mirrors its own, or that
is beside its package in `packages/`. Where it has none, they are the test files that import it, and all of its room
where none of the room does. Tests that are marked `slow` are left out, unless they are the only ones or the file is a
test file itself. The tests of an adapter in `integrations/` run in an environment of its own, which `make integrations`
makes.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from tests import ROOT

TESTS = ROOT / "tests"
PACKAGES = ("engine", "ingest", "api")
MIRRORED = {*PACKAGES, "aidre", "benchmarks"}
BESIDE = "packages"
OF_EVERY_ENGINE = TESTS / "backends"
"""The tests of a package of engines that has none of its own: they hold for every engine."""
ELSEWHERE = {
    ".ci": "test_not_proved.py",
    "demo": "test_demo.py",
    "docs": "test_docs.py",
    "constraints.txt": "test_installation.py",
    "pyproject.toml": "test_architecture.py",
    "setup.py": "test_packaging.py",
}
"""The tests of what no folder mirrors; other documents are checked by test_docs.py."""
PUBLIC_NAMES = TESTS / "test_architecture.py"
ENTRANCES = {
    "aidre/__init__.py": [PUBLIC_NAMES, TESTS / "aidre" / "library"],
    "aidre/__init__.pyi": [PUBLIC_NAMES, TESTS / "aidre" / "library"],
    "aidre/__main__.py": [TESTS / "engine" / "test_checkout.py"],
}
"""The tests of the files beside the rooms of `aidre/`, of which all tests would be too many."""
COMMANDS, LISTED = "test_the_commands_show_what_the_readme_says", "test_every_example_is_listed_and_tested_and_short"
"""The tests of examples."""
ADAPTERS = Path("integrations")
ENVIRONMENTS = ROOT / ".venv-integrations"


def tests_of(file: Path) -> list[Path]:
    """The test files of one file of the project, which is named from the root of the repository."""
    top = file.parts[0]
    if file.name.startswith("test_"):
        return [ROOT / file]
    if file.as_posix() in ENTRANCES:
        return ENTRANCES[file.as_posix()]
    if top in MIRRORED:
        doors = [PUBLIC_NAMES] if file.suffix == ".pyi" else []
        return doors + (_named_after(file) or _around(file))
    if top == BESIDE and len(file.parts) > 2 and file.suffix != ".md":
        return [TESTS / "test_packages.py"] if len(file.parts) == 3 else _of_package(file)
    if top == "examples":
        return _of_example(file)
    if top == "tests":
        return _importing(file) or [_of_room(file.parent.relative_to("tests"))]
    return [TESTS / ELSEWHERE.get(top, "test_docs.py")]


def _named_after(file: Path) -> list[Path]:
    siblings = {one.stem for one in (ROOT / file.parent).glob("*.py")}

    def is_longest(name: str) -> bool:
        """False where another module of the room has a longer name that fits, as `client_address` beside `client`."""
        return not any(f"{name}_".startswith(f"test_{one}_") for one in siblings if len(one) > len(file.stem))

    found = _folder_of_tests(file).glob(f"test_{file.stem}*.py")
    fitting = (path for path in found if f"{path.stem}_".startswith(f"test_{file.stem}_"))
    return sorted(path for path in fitting if is_longest(path.stem))


def _folder_of_tests(file: Path) -> Path:
    return ROOT / BESIDE / file.parts[1] / "tests" if file.parts[0] == BESIDE else TESTS / file.parent


def _of_package(file: Path) -> list[Path]:
    doors = [PUBLIC_NAMES] if file.suffix == ".pyi" else []
    folder = _folder_of_tests(file)
    around = folder if folder.is_dir() else OF_EVERY_ENGINE
    return doors + (_named_after(file) or _importing(file) or [around])


def _around(file: Path) -> list[Path]:
    importing, room = _importing(file), _of_room(file.parent)
    return importing if any(path.is_relative_to(room) for path in importing) else [*importing, room]


def _of_example(file: Path) -> list[Path]:
    """The commands of its page; of a page, also what holds for all documents."""
    tests = TESTS / "examples" / "test_examples.py"
    documents = [TESTS / "test_docs.py"] if file.suffix == ".md" else []
    if len(file.parts) == 2:
        return [tests, *documents]
    return [*(Path(f"{tests}::{name}") for name in (f"{COMMANDS}[{file.parts[1]}]", LISTED)), *documents]


def _importing(file: Path) -> list[Path]:
    if file.stem == "__init__":
        return []
    top, *inner = file.with_suffix("").parts
    dotted = ".".join(inner[1:] if top == BESIDE else [top, *inner])
    wanted = f"aidre.{dotted}" if top in PACKAGES else dotted
    every = (*TESTS.rglob("test_*.py"), *ROOT.glob(f"{BESIDE}/*/tests/test_*.py"))
    return sorted(path for path in every if file.stem in _text(path) and wanted in _imports(path))


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def _imports(path: Path) -> frozenset[str]:
    """The modules that a file may mean by its imports: `a.b` and `a.b.c` for `from a.b import c`."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(_text(path))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found)


def _of_room(folder: Path) -> Path:
    room = TESTS / folder
    while not any(room.rglob("test_*.py")):
        room = room.parent
    return room


def main(words: list[str]) -> int:
    files = [word for word in words if not word.startswith("-")]
    missing = [name for name in files if not (ROOT / name).exists()]
    if not files or missing:
        print(f"no such file: {', '.join(missing)}" if missing else __doc__, file=sys.stderr)
        return 2
    options = [word for word in words if word.startswith("-")]
    paths = [(ROOT / name).resolve().relative_to(ROOT.resolve()) for name in files]
    adapters = dict.fromkeys(path.parts[1] for path in paths if is_of_an_adapter(path))
    ours = [path for path in paths if not is_of_an_adapter(path)]
    statuses = [*(run_adapter(name, options) for name in adapters), *([run_ours(ours, options)] if ours else [])]
    return next(filter(None, statuses), 0)


def run_ours(files: Sequence[Path], options: Sequence[str]) -> int:
    chosen = dict.fromkeys(path for file in files for path in tests_of(file))
    print("tests of", *files, "->", *(path.relative_to(ROOT) for path in chosen), flush=True)
    command = [*map(str, chosen), *options]
    if all(file.name.startswith("test_") for file in files):
        return int(pytest.main(command))
    status = pytest.main([*command, "-m", "not slow"])
    return int(pytest.main(command) if status == pytest.ExitCode.NO_TESTS_COLLECTED else status)


def is_of_an_adapter(file: Path) -> bool:
    """Whether only an environment of its own can tell what is wrong with a file."""
    return file.parent != ADAPTERS and file.is_relative_to(ADAPTERS) and file.suffix != ".md"


def run_adapter(name: str, options: Sequence[str]) -> int:
    """The tests of an adapter, over its files as they are in this checkout."""
    python = ENVIRONMENTS / name / "bin" / "python"
    if not python.exists():
        print(
            f"{ADAPTERS / name} was not tested: its tests run in an environment of its own. "
            f"`make integrations INTEGRATIONS={name}` makes it and runs them.",
            file=sys.stderr,
        )
        return 1
    print("tests of", ADAPTERS / name, "in", python.parent.parent, flush=True)
    return subprocess.run([python, "-m", "pytest", *options], cwd=ROOT / ADAPTERS / name, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
