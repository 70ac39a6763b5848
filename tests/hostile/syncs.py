"""Where the product syncs: every call of it that reaches the disk, by its place in the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests import ROOT
from tests.hostile.recording import PRODUCT, Synced

CALLS = frozenset({"fsync", "fdatasync", "sync", "sync_file", "sync_files", "sync_folder", "sync_name"})


@dataclass(frozen=True, slots=True)
class Site:
    """A call in a function of a module; `number` tells equal calls of one function apart, from 1."""

    module: str
    function: str
    call: str
    number: int
    lines: range

    def __str__(self) -> str:
        return f"{self.module} {self.function}: {self.call} {self.number}"

    def asks_for(self, event: Synced) -> bool:
        """Whether it is this call that a sync comes from, itself or by what it calls."""
        return any(module == self.module and line in self.lines for module, line in event.stack)


def sites() -> list[Site]:
    paths = (path for folder in PRODUCT for path in sorted((ROOT / folder).rglob("*.py")))
    return [site for path in paths for site in _sites_of(path, path.read_bytes())]


def _sites_of(path: Path, source: bytes) -> Iterator[Site]:
    counts: dict[tuple[str, str], int] = {}
    for function, call in _calls(ast.parse(source), "") if b"sync" in source else ():
        text = ast.unparse(call)
        number = counts[function, text] = counts.get((function, text), 0) + 1
        lines = range(call.lineno, (call.end_lineno or call.lineno) + 1)
        yield Site(path.relative_to(ROOT).as_posix(), function, text, number, lines)


def _calls(node: ast.AST, within: str) -> Iterator[tuple[str, ast.Call]]:
    for child in ast.iter_child_nodes(node):
        own = within
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            own = f"{within}.{child.name}" if within else child.name
        if isinstance(child, ast.Call) and _name(child.func) in CALLS:
            yield own, child
        yield from _calls(child, own)


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
