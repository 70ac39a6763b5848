"""The shape of the house, read from its syntax trees: who may import whom, and what a module may not do.

Every rule stands beside a planted breach that it must find: a rule that cannot fail is no rule.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("engine", "ingest", "api")
FOLDERS = (*PACKAGES, "benchmarks", "tests", "demo")
RANK = {"engine": 0, "ingest": 1, "api": 2}
FAISS_MODULES = re.compile(r"engine/(index|lists|codebook|passes|codes|kernel|calibrate|calibration)\.py")
HEAVY = {"torch", "sentence_transformers", "onnxruntime", "transformers", "mcp"}
VAGUE = {"util", "utils", "helper", "helpers", "common", "base", "manager", "factory", "misc"}
COMMAND_LINE = {"api/cli.py", "api/commands.py", "api/options.py"}
MOST_LINES = 400


@dataclass(frozen=True, slots=True)
class Source:
    """One file of Python; `path` is relative to the root."""

    path: str
    text: str
    tree: ast.Module

    @property
    def folder(self) -> str:
        return self.path.split("/", 1)[0]


Rule: TypeAlias = Callable[[Source], Iterable[str]]


def sources(root: Path) -> list[Source]:
    paths = sorted(path for folder in FOLDERS for path in (root / folder).rglob("*.py"))
    texts = [(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")) for path in paths]
    return [Source(path, text, ast.parse(text)) for path, text in texts]


def imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The full names of the modules that the nodes import."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or ""
            if node.module == "aidre":
                yield from (f"aidre.{alias.name}" for alias in node.names)


def outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run at import; what stands under `if TYPE_CHECKING` does not."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from outside_functions(child)


def tops(source: Source) -> set[str]:
    return {name.split(".")[0] for name in imported(ast.walk(source.tree))}


def imports_run_one_way(source: Source) -> Iterator[str]:
    rank = RANK.get(source.folder, len(RANK))
    for name in imported(ast.walk(source.tree)):
        parts = name.split(".")
        if parts[0] == "aidre" and len(parts) > 1 and RANK.get(parts[1], -1) > rank:
            yield f"imports {name}"
        if rank < len(RANK) and parts[0] in {"benchmarks", "tests", "demo"}:
            yield f"imports {name}"


def folders_are_imported_by_their_full_name(source: Source) -> Iterator[str]:
    yield from (f"imports {name}: write aidre.{name}" for name in sorted(tops(source) & set(PACKAGES)))


def faiss_stays_in_the_index(source: Source) -> Iterator[str]:
    if source.folder in PACKAGES and "faiss" in tops(source) and not FAISS_MODULES.fullmatch(source.path):
        yield "imports faiss"


def http_stays_in_api(source: Source) -> Iterator[str]:
    if source.folder in {"engine", "ingest"}:
        yield from (f"imports {name}" for name in sorted(tops(source) & {"starlette", "uvicorn"}))


def typer_stays_in_the_command_line(source: Source) -> Iterator[str]:
    if source.folder in PACKAGES and source.path not in COMMAND_LINE and "typer" in tops(source):
        yield "imports typer"


def heavy_libraries_wait_until_they_are_needed(source: Source) -> Iterator[str]:
    if source.folder in PACKAGES:
        at_import = {name.split(".")[0] for name in imported(outside_functions(source.tree))}
        yield from (f"imports {name} at module level" for name in sorted(at_import & HEAVY))


def files_are_short(source: Source) -> Iterator[str]:
    lines = source.text.count("\n")
    if lines > MOST_LINES:
        yield f"has {lines} lines, more than {MOST_LINES}"


def modules_have_names_that_say_something(source: Source) -> Iterator[str]:
    for word in re.split(r"[/_.]", source.path.removesuffix(".py")):
        if word in VAGUE:
            yield f"is named {word}"


def modules_say_what_they_are(source: Source) -> Iterator[str]:
    if source.folder not in {"tests"} and not ast.get_docstring(source.tree):
        yield "has no docstring"


def identifiers(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        for field in ("id", "attr", "arg", "name", "asname"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                yield value


def no_identifier_says_aip(source: Source) -> Iterator[str]:
    """Two protocols abbreviate themselves so; in code they are `intent` and `intake`."""
    for name in sorted(set(identifiers(source.tree))):
        if source.path != "tests/test_architecture.py" and re.search(r"(^|_)aip(_|$)|A(ip|IP)([A-Z_]|$)", name):
            yield f"uses the identifier {name}"


def libraries_do_not_print(source: Source) -> Iterator[str]:
    calls = (node for node in ast.walk(source.tree) if isinstance(node, ast.Call))
    if source.folder in {"engine", "ingest"} and any(ast.unparse(call.func) == "print" for call in calls):
        yield "calls print"


PLANTED: dict[Rule, tuple[str, str]] = {
    imports_run_one_way: ("engine/store.py", "def f() -> None:\n    from aidre.api.app import create_app\n"),
    folders_are_imported_by_their_full_name: ("api/app.py", "from engine.store import Store\n"),
    faiss_stays_in_the_index: ("engine/store.py", "import faiss\n"),
    http_stays_in_api: ("ingest/files.py", "import starlette.requests\n"),
    typer_stays_in_the_command_line: ("api/app.py", "def f() -> None:\n    import typer\n"),
    heavy_libraries_wait_until_they_are_needed: (
        "engine/embed.py",
        "try:\n    import torch.nn\nexcept OSError:\n    pass\n",
    ),
    files_are_short: ("tests/test_store.py", "\n" * 401),
    modules_have_names_that_say_something: ("ingest/text_utils.py", ""),
    modules_say_what_they_are: ("engine/store.py", "import os\n"),
    no_identifier_says_aip: ("api/intent.py", "class AipRequest:\n    pass\n"),
    libraries_do_not_print: ("ingest/files.py", "def f() -> None:\n    print(1)\n"),
}
RULES = [pytest.param(rule, id=rule.__name__) for rule in PLANTED]


@pytest.mark.parametrize("rule", RULES)
def test_the_house_keeps_the_rule(rule: Rule) -> None:
    found = sources(ROOT)
    assert {source.folder for source in found} >= set(PACKAGES), "no sources found: wrong root?"
    breaches = [f"{source.path} {breach}" for source in found for breach in rule(source)]
    assert not breaches, "\n".join(breaches)


@pytest.mark.parametrize("rule", RULES)
def test_the_rule_finds_a_planted_breach(rule: Rule, tmp_path: Path) -> None:
    path, text = PLANTED[rule]
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(text, encoding="utf-8")
    [source] = sources(tmp_path)
    assert len(list(rule(source))) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("engine/index.py", '"""Index."""\nimport faiss\nfrom aidre.engine.model import Query\n'),
        ("engine/embed.py", '"""Embed."""\ndef load() -> None:\n    import torch\n'),
        ("api/cli.py", '"""Commands."""\nimport typer\nfrom aidre.ingest import pipeline\nprint("aip")\n'),
        ("tests/test_api.py", "import starlette.testclient\nfrom aidre.api.app import create_app\n"),
    ],
)
def test_what_is_allowed_is_no_breach(path: str, text: str, tmp_path: Path) -> None:
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(text, encoding="utf-8")
    [source] = sources(tmp_path)
    assert [breach for rule in PLANTED for breach in rule(source)] == []


def loaded_by(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter holds after it ran the code."""
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted({{name.split('.')[0] for name in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_help_loads_no_heavy_library() -> None:
    loaded = loaded_by(
        "from aidre.api.cli import run\nassert run(['--help']) == 0\nassert run(['ingest', '--help']) == 0"
    )
    assert loaded.isdisjoint(
        {"torch", "faiss", "pyarrow", "onnxruntime", "sentence_transformers", "numpy", "starlette"}
    )
    assert "typer" in loaded


def test_the_watch_on_loaded_modules_can_fail() -> None:
    assert "pyarrow" in loaded_by("import pyarrow")
