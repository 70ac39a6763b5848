"""A test collection of documented functions of the running Python's standard library.

A document is the source of a function without its docstring; its query is the first paragraph of the docstring. The
same Python version always gives the same set; other versions give similar ones.
"""

from __future__ import annotations

import ast
import json
import sysconfig
import textwrap
from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.harness.judged_sets import CORPUS, JUDGEMENTS, QUERIES

MODULES: Final = """
argparse bdb bisect calendar cmd codecs configparser contextlib copy csv dataclasses difflib dis enum fileinput fnmatch
fractions functools getpass gettext glob gzip hashlib heapq imaplib inspect ipaddress locale mailbox mimetypes netrc
numbers optparse pickle pickletools platform poplib pprint queue random selectors shelve shlex shutil smtplib socket
statistics subprocess tarfile tempfile textwrap threading timeit tokenize trace traceback uuid warnings weakref zipapp
"""
"""Single-file modules of every Python from 3.11 on."""

MIN_WORDS: Final = 6
"""A shorter paragraph ("Return the name.") is ambiguous."""

MIN_LINES, MAX_LINES = 2, 40


class Function(NamedTuple):
    """`name` is module:qualified.name, `source` lacks the docstring, `summary` is its first paragraph on one line."""

    name: str
    source: str
    summary: str


def write_set(folder: Path, most: int = 500) -> None:
    """Writes a set in the format of `harness.judged_sets`: at most `most` functions, with one query each."""
    chosen = sorted(functions(), key=lambda each: blake2b(each.name.encode(), digest_size=8).digest())[:most]
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / CORPUS, [{"id": each.name, "title": "", "text": each.source} for each in chosen])
    _write(folder / QUERIES, [{"id": each.name, "text": each.summary} for each in chosen])
    lines = ["query-id\tcorpus-id\tscore", *(f"{each.name}\t{each.name}\t1" for each in chosen)]
    (folder / JUDGEMENTS).write_text("\n".join(lines) + "\n", "utf-8")


def functions() -> list[Function]:
    """Functions with a docstring and code whose name, source and summary are all unique."""
    library = Path(sysconfig.get_path("stdlib"))
    found: list[Function] = []
    for module in MODULES.split():
        found += _documented(module, (library / f"{module}.py").read_bytes())
    times = [Counter(values) for values in zip(*found, strict=True)]
    return [each for each in found if all(counted[value] == 1 for counted, value in zip(times, each, strict=True))]


def _documented(module: str, content: bytes) -> Iterator[Function]:
    lines = content.decode("utf-8").split("\n")  # as ast counts lines: a form feed ends none
    for path, node in _walk(ast.parse(content), ""):
        docstring = ast.get_docstring(node)
        if docstring is None or len(node.body) < 2:
            continue
        literal = node.body[0]
        head, rest = lines[node.lineno - 1 : literal.lineno - 1], lines[literal.end_lineno : node.end_lineno]
        summary = " ".join(docstring.split("\n\n")[0].split())
        if MIN_LINES <= len(head) + len(rest) <= MAX_LINES and head and len(summary.split()) >= MIN_WORDS:
            yield Function(f"{module}:{path}", textwrap.dedent("\n".join([*head, *rest])), summary)


def _walk(node: ast.AST, path: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Functions and methods in source order, with their qualified names; nested functions are skipped."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{path}{child.name}", child
        elif isinstance(child, ast.ClassDef):
            yield from _walk(child, f"{path}{child.name}.")


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
