"""The asynchronous classes of the client, generated from those for threads: `make twins`.

Names get their asynchronous counterparts; what calls a method that waits awaits it; a function that awaits is `async`,
and a property that does is a method.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator

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


def main() -> None:
    TARGET.write_text(twin(SOURCE.read_text(encoding="utf-8")), encoding="utf-8")
    for words in (("check", "--select", "I", "--fix", "-q"), ("format", "-q")):
        subprocess.run([sys.executable, "-m", "ruff", *words, str(TARGET)], check=True)


if __name__ == "__main__":
    main()
