"""Finds clocks that are read when a module is imported: what is compared with them depends on how long ago that was.

A call counts at module level, in a class body, a decorator and a default value. It may name the clock by any import, or
call a function or a class of the tests that reads one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.rules.source_tree import Source

CLOCKS = frozenset(
    {
        *(f"time.{name}{unit}" for name in ("time", "monotonic", "perf_counter") for unit in ("", "_ns")),
        *(f"time.{name}" for name in ("localtime", "gmtime", "ctime", "strftime")),
        *(f"datetime.datetime.{name}" for name in ("now", "utcnow", "today")),
        "datetime.date.today",
    }
)
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_STARTS = {"__init__", "__post_init__", "__new__"}
"""Methods that run when a class is called."""


def clocks_read_at_import(sources: Iterable[Source]) -> Iterator[tuple[Source, int, str]]:
    """The source, the line, and the call as it is written."""
    names = _Names({source.module: _Module.of(source) for source in sources})
    reading = names.that_read_clocks()
    for module in names.modules.values():
        for node in _run_at_import(module.source.tree):
            if isinstance(node, ast.Call) and names.meant(module, node.func) in reading:
                yield module.source, node.lineno, ast.unparse(node.func)


@dataclass(frozen=True, slots=True)
class _Module:
    """A file, and what its names stand for: `datetime` for `datetime.datetime`, `published` for `tests.x.published`."""

    source: Source
    names: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, source: Source) -> _Module:
        names: dict[str, str] = {}
        for node in source.nodes:
            if isinstance(node, ast.Import):
                for one in node.names:
                    first = one.name.partition(".")[0]
                    names[one.asname or first] = one.name if one.asname else first
            elif isinstance(node, ast.ImportFrom) and node.module:
                names |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
        for statement in source.tree.body:
            if isinstance(statement, _Function | ast.ClassDef):
                names[statement.name] = f"{source.module}.{statement.name}"
        return cls(source, names)


@dataclass(frozen=True, slots=True)
class _Names:
    modules: Mapping[str, _Module]

    def meant(self, module: _Module, expression: ast.expr) -> str:
        """The full name of what an expression names; an empty one for what is not a name."""
        parts: list[str] = []
        while isinstance(expression, ast.Attribute):
            parts.append(expression.attr)
            expression = expression.value
        if not isinstance(expression, ast.Name):
            return ""
        return self._followed(".".join([module.names.get(expression.id, expression.id), *reversed(parts)]))

    def _followed(self, name: str) -> str:
        """The name behind one that a module of the tests has imported from elsewhere."""
        for _ in self.modules:
            owner, _, rest = name.rpartition(".")
            while owner and owner not in self.modules:
                owner, _, more = owner.rpartition(".")
                rest = f"{more}.{rest}"
            first, dot, others = rest.partition(".")
            behind = self.modules[owner].names.get(first, f"{owner}.{first}") + dot + others if owner else name
            if behind == name:
                break
            name = behind
        return name

    def that_read_clocks(self) -> set[str]:
        """The clocks, and the functions and classes of the modules that read one when they are called."""
        users = {
            f"{module.source.module}.{statement.name}": {self.meant(module, one) for one in _used_by(statement)}
            for module in self.modules.values()
            for statement in module.source.tree.body
            if isinstance(statement, _Function | ast.ClassDef)
        }
        found, before = set(CLOCKS), 0
        while len(found) > before:
            before = len(found)
            found |= {name for name, used in users.items() if used & found}
        return found


def _used_by(statement: _Function | ast.ClassDef) -> Iterator[ast.expr]:
    """What is called when a function or a class is called; a generator and a coroutine do not run then."""
    if isinstance(statement, ast.ClassDef):
        starts = [one for one in statement.body if isinstance(one, _Function) and one.name in _STARTS]
        factories = [
            one for one in ast.walk(statement) if isinstance(one, ast.keyword) and one.arg == "default_factory"
        ]
        yield from (one.value for one in factories)
        for method in starts:
            yield from _used_by(method)
    elif isinstance(statement, ast.FunctionDef):
        inner = [one for part in statement.body for one in (part, *_outside_functions(part))]
        yield from (one.func for one in inner if isinstance(one, ast.Call))


def _run_at_import(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when a module is imported: of functions their decorators and default values."""
    if isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "__name__ == '__main__'"}:
        return
    if isinstance(node, _Function | ast.Lambda):
        decorators: Sequence[ast.AST] = node.decorator_list if isinstance(node, _Function) else []
        evaluated: Sequence[ast.AST] = [*decorators, *node.args.defaults, *filter(None, node.args.kw_defaults)]
    else:
        yield node
        evaluated = [*ast.iter_child_nodes(node)]
    for one in evaluated:
        yield from _run_at_import(one)


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, _Function | ast.Lambda):
            yield child
            yield from _outside_functions(child)
