"""A page for each room of the code: what it is for, its modules, its public names, and a drawing of its imports."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path

from tests import ROOT
from tests.rules.source_tree import module_of

FOLDERS = ("engine", "ingest", "api", "aidre", "packages", "benchmarks", "tests")
PATTERNS = {"tests": "*/__init__.py", "packages": "*/aidre_*/**/__init__.py"}
"""Where rooms are; elsewhere they are anywhere."""
MOST_IN_A_COLUMN = 9
BOX_WIDTH, BOX_HEIGHT, GAP_X, GAP_Y, MARGIN = 168, 30, 72, 14, 8


@dataclass(frozen=True, slots=True)
class Room:
    """A folder of modules. `path` is relative to the root; `imports` leads from a module to those of this room."""

    path: str
    purpose: str
    modules: Mapping[str, str]
    names: Mapping[str, tuple[str, ...]]
    imports: Mapping[str, frozenset[str]]

    @property
    def page(self) -> str:
        return f"architecture/{self.path.replace('/', '-')}.md"


@cache
def rooms() -> tuple[Room, ...]:
    """Every room with modules, folder by folder, outer ones first. Of the tests the kinds alone."""
    found = []
    for folder in FOLDERS:
        paths = sorted(path.parent for path in (ROOT / folder).glob(PATTERNS.get(folder, "**/__init__.py")))
        found += [room for path in paths if (room := _room(path)).modules]
    return tuple(found)


def room_page(room: Room) -> str:
    """The page in Markdown; the drawing stands in it as SVG."""
    rows = "".join(f"| `{name}.py` | {escape(purpose, quote=False)} |\n" for name, purpose in room.modules.items())
    text = f"# {room.path}/\n\n{room.purpose}\n\n## Modules\n\n| module | what it is |\n|---|---|\n{rows}"
    if any(room.imports.values()):
        text += f"\n## Imports\n\nAn arrow leads from a module to one that it imports.\n\n{drawing(room)}\n"
    if room.names:
        names = "".join(
            f"| `{module}.py` | {', '.join(f'`{one}`' for one in each)} |\n" for module, each in room.names.items()
        )
        text += f"\n## Public names\n\nWhat other rooms may import.\n\n| module | names |\n|---|---|\n{names}"
    return text


def _room(folder: Path) -> Room:
    init = _parsed(folder / "__init__.py")
    files = [path for path in sorted(folder.glob("*.py")) if path.name not in ("__init__.py", "__main__.py")]
    trees = {path.stem: _parsed(path) for path in files}
    stub = folder / "__init__.pyi"
    return Room(
        str(folder.relative_to(ROOT)),
        ast.get_docstring(init) or "",
        {name: (ast.get_docstring(tree) or "").split("\n\n")[0].replace("\n", " ") for name, tree in trees.items()},
        _public(_parsed(stub)) if stub.exists() else {},
        {name: frozenset(_imported(tree, folder) & trees.keys() - {name}) for name, tree in trees.items()},
    )


def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _public(stub: ast.Module) -> dict[str, tuple[str, ...]]:
    """The names by module; one that is exported whole has its own name."""
    found: dict[str, tuple[str, ...]] = {}
    for node in stub.body:
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            names = tuple(alias.asname or alias.name for alias in node.names)
            found |= {node.module: names} if node.module else {name: (name,) for name in names}
    return found


def _imported(tree: ast.Module, folder: Path) -> set[str]:
    """Modules of this folder that a module imports, by whatever form."""
    package = module_of(folder.relative_to(ROOT).as_posix())
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == package:
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(package + "."):
            found.add((node.module or "").removeprefix(package + ".").split(".")[0])
    return found


def columns(imports: Mapping[str, frozenset[str]]) -> list[list[str]]:
    """Modules by their height: 0 imports none of the others, n imports one of height n - 1 and none higher."""
    heights: dict[str, int] = {}

    def height(name: str, path: tuple[str, ...] = ()) -> int:
        if name not in heights:
            below = [height(one, (*path, name)) for one in imports[name] if one not in path]
            heights[name] = 1 + max(below, default=-1)
        return heights[name]

    for name in imports:
        height(name)
    return [sorted(name for name in imports if heights[name] == level) for level in range(max(heights.values()) + 1)]


def drawing(room: Room) -> str:
    """The imports between modules as SVG: those that import nothing stand left. Colours follow the page."""
    grid = [
        column[start : start + MOST_IN_A_COLUMN]
        for column in columns(room.imports)
        for start in range(0, len(column), MOST_IN_A_COLUMN)
    ]
    tallest = max(map(len, grid))
    places = {
        name: (MARGIN + x * (BOX_WIDTH + GAP_X), MARGIN + y * (BOX_HEIGHT + GAP_Y))
        for x, column in enumerate(grid)
        for y, name in enumerate(column)
    }
    width = 2 * MARGIN + len(grid) * (BOX_WIDTH + GAP_X) - GAP_X
    height = 2 * MARGIN + tallest * (BOX_HEIGHT + GAP_Y) - GAP_Y
    lines = "".join(
        _arrow(places[name], places[other]) for name, others in sorted(room.imports.items()) for other in sorted(others)
    )
    boxes = "".join(_box(name, place) for name, place in places.items())
    title = escape(f"Imports between the modules of {room.path}")
    marker = (
        '<marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="currentColor"/></marker>'
    )
    return (
        f'<svg class="rooms" role="img" viewBox="0 0 {width} {height}" width="{width}" aria-label="{title}">'
        f"<defs>{marker}</defs>{lines}{boxes}</svg>"
    )


def _box(name: str, place: tuple[int, int]) -> str:
    x, y = place
    return (
        f'<rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6"/>'
        f'<text x="{x + BOX_WIDTH // 2}" y="{y + BOX_HEIGHT // 2}">{escape(name)}</text>'
    )


def _arrow(start: tuple[int, int], end: tuple[int, int]) -> str:
    """A curve from the left side of a box to the right side of one that stands further left; else around below."""
    (x0, y0), (x1, y1) = start, end
    y0, y1 = y0 + BOX_HEIGHT // 2, y1 + BOX_HEIGHT // 2
    x1 += BOX_WIDTH
    bend = max(GAP_X // 2, (x0 - x1) // 2)
    return f'<path d="M{x0} {y0}C{x0 - bend} {y0} {x1 + bend} {y1} {x1} {y1}" marker-end="url(#tip)"/>'
