"""The asynchronous classes of the client and of the library, generated from those for threads: `make twins`.

Of the client the module itself is turned: names get their asynchronous counterparts; what calls a method that waits
awaits it; a function that awaits is `async`, and a property that does is a method. The engine of the library does not
await: there each verb runs the one for threads in a thread, under the same signature.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests import ROOT

CLIENT = ROOT / "packages" / "client" / "aidre_client"
SOURCE, TARGET = CLIENT / "client.py", CLIENT / "asynchronous.py"
HEAD = '"""The client of an asynchronous program: the verbs of `client.py`, awaited. `make twins` writes it."""\n'
CLASSES = ("Changes", "Client", "Intake", "Intent", "Nlweb", "RemoteCollection", "Transport")
NAMES = {
    **{name: f"Async{name}" for name in (*CLASSES, "Iterator", "BaseTransport")},
    "__enter__": "__aenter__",
    "__exit__": "__aexit__",
    "__next__": "__anext__",
    "StopIteration": "StopAsyncIteration",
    "connect": "connect_async",
    "iter_raw": "aiter_raw",
}
CLOSED = ("stream.close()", "stream.aclose()")
"""The method of a response of httpx, which has another name there."""
WAITING = {"aclose", "close", "run", "run_all"}
"""Methods that are awaited."""


def twin(source: str) -> str:
    """The module, with the lines of its original, unformatted."""
    named = _renamed(source.replace(*CLOSED))
    lines = named.splitlines()
    tree = ast.parse(named)
    edits = sorted(set(_edits(tree)), reverse=True)
    for line, column, text in edits:  # offsets are in bytes
        encoded = lines[line - 1].encode()
        lines[line - 1] = (encoded[:column] + text.encode() + encoded[column:]).decode()
    for line in sorted(_properties(tree), reverse=True):
        del lines[line - 1]
    return HEAD + "\n".join(lines).partition('"""\n')[2] + "\n"


def _renamed(source: str) -> str:
    """With the names of code, and those in backquotes of docstrings."""
    names = re.compile(rf"(?<![\w\"'])(?:{'|'.join(NAMES)})\b")
    parts = re.split(r'("""(?:.|\n)*?"""|"[^"\n]*")', source)
    quoted = re.compile(rf"`({'|'.join(NAMES)})(?=[`.])")
    return "".join(
        quoted.sub(lambda match: "`" + NAMES[match[1]], part)
        if number % 2
        else names.sub(lambda match: NAMES[match[0]], part)
        for number, part in enumerate(parts)
    )


def _awaits(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WAITING


def _streams(node: ast.AST) -> bool:
    return isinstance(node, ast.For) and isinstance(node.iter, ast.Call) and "aiter_raw" in ast.unparse(node.iter.func)


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """Those that wait, or are called by `async with`."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef):
            continue
        if node.name == "__aenter__" or any(_awaits(one) or _streams(one) for one in ast.walk(node)):
            yield node


def _edits(tree: ast.AST) -> Iterator[tuple[int, int, str]]:
    """Where `async` and `await` come in; an overload is as the function of its name."""
    waiting = set(_functions(tree))
    for parent in ast.walk(tree):
        names = {
            node.name for node in ast.iter_child_nodes(parent) if isinstance(node, ast.FunctionDef) and node in waiting
        }
        for node in ast.iter_child_nodes(parent):
            is_waiting = isinstance(node, ast.FunctionDef) and node.name in names
            if isinstance(node, ast.FunctionDef | ast.For) and (is_waiting or _streams(node)):
                yield node.lineno, node.col_offset, "async "
            elif isinstance(node, ast.Call) and _awaits(node):
                yield node.lineno, node.col_offset, "await "


def _properties(tree: ast.AST) -> Iterator[int]:
    for function in _functions(tree):
        for decorator in function.decorator_list:
            if isinstance(decorator, ast.Name) and decorator.id == "property":
                yield decorator.lineno


# -- the library -----------------------------------------------------------------------------------------------

LIBRARY: Final = ROOT / "aidre" / "library"
SYNCHRONOUS: Final = (LIBRARY / "view.py", LIBRARY / "collection.py", LIBRARY / "database.py")
IN_THREADS: Final = LIBRARY / "asynchronous.py"
WRAPPED: Final = {"CollectionView": "view", "Collection": "collection", "Database": "database"}
"""By class, the attribute of its twin that is the one for threads."""
AT_ONCE: Final = {"path", "close", "collection"}
"""They read and write no collection, and are not awaited."""
LEFT_OUT: Final = {"reader", "writer"}
"""A writer holds a lock from one call to the next: it stays in one thread."""
LIBRARY_HEAD: Final = '''"""The library for asynchronous programs: its verbs, awaited. `make twins` writes it.

Each runs in a thread: the engine releases the interpreter's lock while it scans, so that an event loop stays free. A
task that is cancelled leaves a write to its end: it is whole or not there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import islice
'''
SPECIAL: Final = """
    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.%s!r}>"

    if not TYPE_CHECKING:  # to a type checker a name that is missing is a fault

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name)
"""
MANAGER: Final = """
    async def __aenter__(self) -> AsyncDatabase:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
"""
NAMED: Final = """
    @property
    def name(self) -> str:
        return self.view.name
"""
SCANNED: Final = """
SCANNED = 256
\"\"\"Documents of a scan that are read in one go.\"\"\"
"""


def in_threads(sources: tuple[str, ...]) -> str:
    """The module of the library, unformatted."""
    trees = [ast.parse(source) for source in sources]
    classes = [
        _wrapping(node)
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name in WRAPPED
    ]
    body = SCANNED + "\n\n".join(classes)
    used = {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)}
    return LIBRARY_HEAD + _imports(trees, used) + body


def _wrapping(original: ast.ClassDef) -> str:
    """The class whose verbs call those of another in a thread."""
    name, inner = original.name, WRAPPED[original.name]
    bases = [base.id for base in original.bases if isinstance(base, ast.Name)]
    base = f"(Async{bases[0]})" if bases else ""
    yield_to = [f"super().__init__({inner})"] if bases else []
    lines = [
        f"class Async{name}{base}:",
        f'    """As `{name}`, awaited; `{inner}` is the one for threads."""',
        f"    def __init__(self, {inner}: {name}) -> None:",
        *(f"        {line}" for line in [*yield_to, f"self.{inner} = {inner}"]),
    ]
    if not bases:
        lines.append(SPECIAL % inner)
        lines.append(MANAGER if name == "Database" else NAMED)
    verbs = [
        node
        for node in original.body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and node.name not in LEFT_OUT
    ]
    overloaded = {node.name for node in verbs if "overload" in _decorators(node)}
    lines += [_verb(node, name, overloaded) for node in verbs]
    return "\n".join(lines) + "\n"


def _verb(node: ast.FunctionDef, owner: str, overloaded: set[str]) -> str:
    returned = re.sub(r"^(Collection|CollectionView)$", r"Async\1", ast.unparse(node.returns or ast.Constant(None)))
    returned = returned.replace("Iterator[", "AsyncIterator[")
    yields, decorators = returned.startswith("AsyncIterator"), _decorators(node)
    target = f"self.{WRAPPED[owner]}.{node.name}"
    is_property, waits = "property" in decorators, node.name not in AT_ONCE
    kept = [f"@{one}" for one in decorators if one != "property" or not waits]
    starts = "async def" if waits and not ("overload" in decorators and yields) else "def"
    lines = [*kept, f"{starts} {node.name}({ast.unparse(node.args)}) -> {returned}:"]
    if "overload" in decorators:
        return _indented([*lines, "    ..."])
    lines.append(f'    """As `{owner}.{node.name}`."""')
    if is_property:
        call = f"asyncio.to_thread(lambda: {target})" if waits else target
    else:
        if node.name in overloaded:  # their union is none of the overloads
            lines.append(f"    verb: Callable[..., Any] = {target}")
            target = "verb"
        call = ", ".join(["asyncio.to_thread(" + target] * waits + _passed(node.args))
        call = f"{call})" if waits else f"{target}({call})"
    call = f"await {call}" if waits else call
    if yields:
        return _indented([
            *lines,
            f"    found = {call}",
            "    while batch := await asyncio.to_thread(lambda: list(islice(found, SCANNED))):",
            "        for one in batch:",
            "            yield one",
        ])  # fmt: skip
    if returned.startswith("Async"):
        call = f"{returned}({call})"
    return _indented([*lines, f"    {call}" if returned == "None" else f"    return {call}"])


def _decorators(node: ast.FunctionDef) -> list[str]:
    return [ast.unparse(one) for one in node.decorator_list]


def _passed(arguments: ast.arguments) -> list[str]:
    """Each parameter, handed on."""
    passed = [one.arg for one in arguments.args if one.arg != "self"]
    passed += [f"*{arguments.vararg.arg}"] if arguments.vararg else []
    passed += [f"{one.arg}={one.arg}" for one in arguments.kwonlyargs]
    return passed + ([f"**{arguments.kwarg.arg}"] if arguments.kwarg else [])


def _indented(lines: list[str]) -> str:
    return "\n" + "\n".join(f"    {line}" for line in lines)


def _imports(trees: list[ast.Module], used: set[str]) -> str:
    """What the originals import and define of the names that are used, for type checkers where it is so there."""
    always: set[str] = set()
    checked: set[str] = set()
    for tree, path in zip(trees, SYNCHRONOUS, strict=True):
        for node in tree.body:
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                checked |= {line for inner in node.body for line in _import_of(inner, used)}
            always |= set(_import_of(node, used))
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
            names = {one.id for one in targets if isinstance(one, ast.Name)} | {getattr(node, "name", "")}
            always |= {f"from aidre.library.{path.stem} import {one}" for one in sorted(names & used)}
    later = "".join(f"    {line}\n" for line in sorted(checked - always))
    return "\n".join(sorted(always)) + (f"\n\nif TYPE_CHECKING:\n{later}" if later else "\n")


def _import_of(node: ast.stmt, used: set[str]) -> list[str]:
    names = node.names if isinstance(node, ast.ImportFrom) and node.module != "__future__" else []
    return [
        f"from {getattr(node, 'module', '')} import {one.name}" for one in names if one.name in used and not one.asname
    ]


# -- both ------------------------------------------------------------------------------------------------------


def generated() -> dict[Path, str]:
    """By file, what it is to be, unformatted."""
    return {
        TARGET: twin(SOURCE.read_text(encoding="utf-8")),
        IN_THREADS: in_threads(tuple(path.read_text(encoding="utf-8") for path in SYNCHRONOUS)),
    }


def main() -> None:
    for path, source in generated().items():
        path.write_text(source, encoding="utf-8")
        for words in (("check", "--select", "I", "--fix", "-q"), ("format", "-q")):
            subprocess.run([sys.executable, "-m", "ruff", *words, str(path)], check=True)


if __name__ == "__main__":
    main()
