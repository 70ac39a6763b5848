"""The project's Python files as syntax trees: what they import, and which public names their rooms have."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

PACKAGES = ("engine", "ingest", "api")
BESIDE = "packages"
"""The distributions beside aidre: `packages/postgres/aidre_postgres`, with tests in `packages/postgres/tests`."""
FOLDERS = (*PACKAGES, "aidre", BESIDE, "benchmarks", "tests", "demo", "examples")
BENCHMARKS = "benchmarks"
OUTSIDE = {BENCHMARKS, "tests", "demo", "examples"}
CLIENT = "aidre_client"
"""The distribution that aidre needs, and takes errors and types of results from; the others need aidre."""
DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
RANK = {CLIENT: -1, "engine": 0, "ingest": 1, "api": 2, "aidre": 3, BESIDE: 4}


@dataclass(frozen=True)
class Source:
    """One file of Python; `path` is relative to the root."""

    path: str
    text: str
    tree: ast.Module

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @property
    def reference_lines(self) -> int:
        """Lines of parameters and examples in docstrings of the library, which are the page of its reference."""
        if not self.path.startswith(("aidre/library/", "aidre/opening.py")):
            return 0
        texts = [ast.get_docstring(one) or "" for one in self.nodes if isinstance(one, DOCUMENTED)]
        kept = [re.split(r"^(?:Parameters|Examples):$", text, flags=re.MULTILINE)[0].rstrip() for text in texts]
        return sum(text.count("\n") - rest.count("\n") for text, rest in zip(texts, kept, strict=True))

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
        """The folder that a file belongs to by its kind: the tests beside a package are tests."""
        top, *inner = self.path.split("/")
        return "tests" if top == BESIDE and "tests" in inner[1:2] else top

    @property
    def room(self) -> str:
        """The folder below the top folder; a module beside the rooms is a room of its own, `__init__` is none."""
        inner = self.path.split("/", 1)[1].removesuffix(".py")
        return inner.rpartition("/")[0] or inner.removesuffix("__init__").removesuffix("__main__")

    @property
    def module(self) -> str:
        return module_of(self.path.removesuffix(".py").removesuffix("/__init__"))


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
        paths = sorted(path for folder in FOLDERS for path in files_in(self.root / folder, "*.py"))
        texts = [(path.relative_to(self.root).as_posix(), path.read_text(encoding="utf-8")) for path in paths]
        return [Source(path, text, ast.parse(text)) for path, text in texts]

    @cached_property
    def product(self) -> list[Source]:
        """What the distribution aidre consists of."""
        return [source for source in self.sources if source.folder in RANK and source.folder != BESIDE]

    @cached_property
    def beside(self) -> list[Source]:
        """What the distributions in packages/ consist of."""
        return [source for source in self.sources if source.folder == BESIDE]

    @cached_property
    def benchmarks(self) -> list[Source]:
        return [source for source in self.sources if source.folder == BENCHMARKS]

    @cached_property
    def modules(self) -> dict[str, Source]:
        return {source.module: source for source in self.sources}

    @cached_property
    def stubs(self) -> dict[str, dict[str, str]]:
        """The public names of each room and of each folder, with the modules that they come from."""
        found = {}
        folders = [self.root / folder for folder in (*PACKAGES, "aidre", BESIDE)]
        for path in sorted(path for folder in folders for path in files_in(folder, "__init__.pyi")):
            package = module_of(path.parent.relative_to(self.root).as_posix())
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


def files_in(folder: Path, pattern: str) -> Iterator[Path]:
    """The files of a folder but those that setuptools made."""
    return (path for path in folder.rglob(pattern) if "build" not in path.relative_to(folder).parts)


def asked_by(tree: Tree) -> Mapping[str, set[str]]:
    """By module the paths of the files that import it of tests/, or name its file as a program."""
    found: dict[str, set[str]] = defaultdict(set)
    for source in tree.sources:
        for node in source.nodes:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests."):
                for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                    found[name or ""].add(source.path)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.endswith(".py"):
                found[f"{module_of(source.path.rpartition('/')[0])}.{node.value[:-3]}"].add(source.path)
    return found


def module_of(path: str) -> str:
    """The name that a module or package has for Python, by its path without a suffix."""
    top, *inner = path.split("/")
    parts = [top, *inner]
    if top == BESIDE:
        parts = inner[2:] if inner[1:2] == ["tests"] else inner[1:]
    return ".".join(parts if top in OUTSIDE | {"aidre", BESIDE} else ["aidre", *parts])


def is_ours(name: str) -> bool:
    return re.match(rf"(aidre(_\w+)?|{BENCHMARKS})(\.|$)", name) is not None


def top_folder(module: str) -> str:
    if module.split(".", maxsplit=1)[0] == CLIENT:
        return CLIENT
    if module.startswith("aidre_"):
        return BESIDE
    if module.split(".", maxsplit=1)[0] == BENCHMARKS:
        return BENCHMARKS
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
    """The names that a module defines, or hands on: `from aidre_client import connect as connect`."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            found.update(alias.name for alias in node.names if alias.name == alias.asname)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update(name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))
    return found
