"""Runs the tests of single files: `python -m tests FILE... [options of pytest]`.

A module's tests are the `test_<module>.py` and `test_<module>_<aspect>.py` of the folder that mirrors its own. Where
it has none, they are the test files that import it; where none does, those of its room. Tests that are marked `slow`
are left out, unless they are the only ones or the file is a test file itself.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import ROOT

TESTS = ROOT / "tests"
PACKAGES = ("engine", "ingest", "api")
ELSEWHERE = {
    "demo": "test_demo.py",
    "docs": "test_docs.py",
    "aidre": "test_architecture.py",
    "pyproject.toml": "test_architecture.py",
}
"""The tests of what no folder mirrors; other documents are checked by test_docs.py."""


def tests_of(file: Path) -> list[Path]:
    """The test files of one file of the project, which is named from the root of the repository."""
    top = file.parts[0]
    if file.name.startswith("test_"):
        return [ROOT / file]
    if top in {*PACKAGES, "benchmarks"}:
        return _named_after(file) or _importing(file) or _of_room(file.parent)
    if top == "tests":
        return _importing(file) or _of_room(file.parent.relative_to("tests"))
    return [TESTS / ELSEWHERE.get(top, "test_docs.py")]


def _named_after(file: Path) -> list[Path]:
    siblings = {one.stem for one in (ROOT / file.parent).glob("*.py")}

    def is_longest(name: str) -> bool:
        """False where another module of the room has a longer name that fits, as `client_address` beside `client`."""
        return not any(f"{name}_".startswith(f"test_{one}_") for one in siblings if len(one) > len(file.stem))

    found = (TESTS / file.parent).glob(f"test_{file.stem}*.py")
    fitting = (path for path in found if f"{path.stem}_".startswith(f"test_{file.stem}_"))
    return sorted(path for path in fitting if is_longest(path.stem))


def _importing(file: Path) -> list[Path]:
    if file.stem == "__init__":
        return []
    dotted = ".".join(file.with_suffix("").parts)
    wanted = f"aidre.{dotted}" if file.parts[0] in PACKAGES else dotted
    return sorted(path for path in TESTS.rglob("test_*.py") if wanted in set(_imports(path)))


def _imports(path: Path) -> Iterator[str]:
    """The modules that a file may mean by its imports: `a.b` and `a.b.c` for `from a.b import c`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _of_room(folder: Path) -> list[Path]:
    room = TESTS / folder
    while not any(room.rglob("test_*.py")):
        room = room.parent
    return [room]


def main(words: list[str]) -> int:
    files = [word for word in words if not word.startswith("-")]
    missing = [name for name in files if not (ROOT / name).exists()]
    if not files or missing:
        print(f"no such file: {', '.join(missing)}" if missing else __doc__, file=sys.stderr)
        return 2
    chosen = dict.fromkeys(
        path for name in files for path in tests_of((ROOT / name).resolve().relative_to(ROOT.resolve()))
    )
    print("tests of", *files, "->", *(path.relative_to(ROOT) for path in chosen), flush=True)
    command = [*map(str, chosen), *(word for word in words if word.startswith("-"))]
    if all(Path(name).name.startswith("test_") for name in files):
        return int(pytest.main(command))
    status = pytest.main([*command, "-m", "not slow"])
    return int(pytest.main(command) if status == pytest.ExitCode.NO_TESTS_COLLECTED else status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
