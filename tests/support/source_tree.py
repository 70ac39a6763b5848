"""The project's Python files as syntax trees: what they import, and which public names their rooms have."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

PACKAGES = ("engine", "ingest", "api")
FOLDERS = (*PACKAGES, "aidre", "benchmarks", "tests", "demo", "examples")
OUTSIDE = {"benchmarks", "tests", "demo", "examples"}
RANK = {"engine": 0, "ingest": 1, "api": 2, "aidre": 3}


@dataclass(frozen=True)
class Source:
    """One file of Python; `path` is relative to the root."""

    path: str
    text: str
    tree: ast.Module

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @cached_property
    def imported(self) -> list[tuple[str, str | None]]:
        """Modules and names that the file imports of this project, inside of functions too."""
        found: list[tuple[str, str | None]] = []
        for node in self.nodes:
            if isinstance(node, ast.Import):
                found += [(alias.name, None) for alias in node.names if is_ours(alias.name)]
            elif isinstance(node, ast.ImportFrom) and node.module and is_ours(node.module):
                found += [(node.module, alias.name) for alias in node.names]
        return found

    @property
    def folder(self) -> str:
        return self.path.split("/", 1)[0]

    @property
    def room(self) -> str:
        """The folder below the top folder; a module beside the rooms is a room of its own, `__init__` is none."""
        inner = self.path.split("/", 1)[1].removesuffix(".py")
        return inner.rpartition("/")[0] or inner.removesuffix("__init__").removesuffix("__main__")

    @property
    def module(self) -> str:
        name = self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        return name if self.folder in OUTSIDE | {"aidre"} else f"aidre.{name}"


@dataclass(frozen=True)
class Import:
    """`name` of the module or package `target`, as one file imports it; None for `import target`."""

    source: Source
    target: str
    name: str | None


@dataclass(frozen=True)
class Tree:
    """All files of a checkout."""

    root: Path

    @cached_property
    def sources(self) -> list[Source]:
        paths = sorted(path for folder in FOLDERS for path in (self.root / folder).rglob("*.py"))
        texts = [(path.relative_to(self.root).as_posix(), path.read_text(encoding="utf-8")) for path in paths]
        return [Source(path, text, ast.parse(text)) for path, text in texts]

    @cached_property
    def product(self) -> list[Source]:
        return [source for source in self.sources if source.folder in RANK]

    @cached_property
    def modules(self) -> dict[str, Source]:
        return {source.module: source for source in self.sources}

    @cached_property
    def stubs(self) -> dict[str, dict[str, str]]:
        """The public names of each room and of each folder, with the modules that they come from."""
        found = {}
        folders = [self.root / folder for folder in (*PACKAGES, "aidre")]
        for path in sorted(path for folder in folders for path in folder.rglob("__init__.pyi")):
            inner = path.parent.relative_to(self.root).as_posix().replace("/", ".")
            package = inner if inner.split(".")[0] == "aidre" else f"aidre.{inner}"
            found[package] = {
                alias.name: f"{package}.{node.module}" if node.module else f"{package}.{alias.name}"
                for node in ast.parse(path.read_text(encoding="utf-8")).body
                if isinstance(node, ast.ImportFrom)
                for alias in node.names
            }
        return found

    def imports(self, source: Source) -> Iterator[Import]:
        return (Import(source, target, name) for target, name in source.imported)

    def resolved(self, one: Import) -> str:
        """The module that an import loads, behind the public names of a room."""
        whole = f"{one.target}.{one.name}"
        behind = self.stubs.get(one.target, {}).get(one.name or "")
        return behind or (whole if whole in self.modules else one.target)


def is_ours(name: str) -> bool:
    return name == "aidre" or name.startswith("aidre.")


def top_folder(module: str) -> str:
    second = module.split(".")[1] if "." in module else ""
    return second if second in PACKAGES else "aidre"


def foreign(nodes: Iterable[ast.AST]) -> set[str]:
    """The top-level names of all modules that the nodes import."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add((node.module or "").split(".")[0])
    return found


def outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run at import; what stands under `if TYPE_CHECKING` does not."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from outside_functions(child)


def defined(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update(name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))
    return found
