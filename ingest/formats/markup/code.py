"""The sandbox's reader of source code: the text of a file, with each definition as a heading above its lines.

A definition begins with the comments and decorators above it, so that a passage has its name, signature,
documentation and body. Python is parsed; other languages are read line by line, by the words that begin a definition.
The languages of source code by the suffixes of their files.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json
from aidre.ingest.formats.markup.text_writer import clean
from aidre.ingest.records import decode

CODE_SUFFIXES: Mapping[str, str] = {
    ".py": "Python", ".pyi": "Python", ".rb": "Ruby", ".go": "Go", ".rs": "Rust", ".js": "JavaScript",
    ".mjs": "JavaScript", ".cjs": "JavaScript", ".jsx": "JavaScript", ".ts": "TypeScript", ".tsx": "TypeScript",
    ".java": "Java", ".kt": "Kotlin", ".kts": "Kotlin", ".scala": "Scala", ".swift": "Swift", ".c": "C", ".h": "C",
    ".cc": "C++", ".cpp": "C++", ".cxx": "C++", ".hpp": "C++", ".cs": "C#", ".php": "PHP", ".lua": "Lua",
    ".ex": "Elixir", ".exs": "Elixir", ".jl": "Julia", ".pl": "Perl", ".pm": "Perl", ".r": "R", ".sh": "Shell",
    ".bash": "Shell", ".dart": "Dart", ".groovy": "Groovy", ".sql": "SQL", ".vue": "Vue", ".svelte": "Svelte",
    ".zig": "Zig", ".nim": "Nim", ".proto": "Protobuf",
}  # fmt: skip

BRACED = frozenset({"JavaScript", "TypeScript", "Java", "C", "C++", "C#", "Shell", "Dart", "Groovy", "Vue", "Svelte"})
"""Languages in which a function may have no word of its own before its name, but a brace behind it."""


MAX_CHARACTERS = 4 << 20
"""A longer file was written by a program."""

MAX_DEFINITIONS = 50_000
_MAX_LINE_CHARACTERS = 1000
"""A longer line defines nothing; a file of such lines is minified."""

_NAME = r"([A-Za-z_$][\w$]{0,100})"
_MODIFIERS = (
    r"(?:(?:public|private|protected|internal|static|final|abstract|async|export|default|declare|readonly|"
    r"virtual|override|sealed|open|data|inline|suspend|unsafe|extern|const|pub(?:\([\w:]{1,40}\))?|partial|case|"
    r"implicit|lazy|synchronized|native|constexpr|explicit)[ \t]{1,20}){0,6}"
)
_TYPES = re.compile(
    rf"([ \t]{{0,99}}){_MODIFIERS}(?:class|interface|trait|struct|enum(?:[ \t]{{1,20}}class)?|"
    rf"impl(?:<[^<>]{{0,200}}>)?|module|mod|object|protocol|extension|record|namespace|union|type|defmodule|package|"
    rf"contract)[ \t]{{1,20}}{_NAME}"
)
_FUNCTIONS = re.compile(
    rf"([ \t]{{0,99}}){_MODIFIERS}(?:(?:function\*?|func|fn|fun|def|sub|defp?|defmacro|procedure|proc|macro_rules!)"
    rf"(?:[ \t]{{1,20}}\([^()\n]{{0,200}}\))?[ \t]{{1,20}}|function\*[ \t]{{0,20}})(?:self\.)?{_NAME}"
)
_ARROWS = re.compile(
    rf"([ \t]{{0,99}}){_MODIFIERS}(?:const|let|var)[ \t]{{1,20}}{_NAME}[^=\n]{{0,200}}="
    r"[ \t]{0,20}(?:async[ \t]{0,20})?(?:function\b|\(|[\w$]{1,100}[ \t]{0,20}=>)"
)
_METHODS = re.compile(
    rf"([ \t]{{0,99}}){_MODIFIERS}(?:get[ \t]{{1,20}}|set[ \t]{{1,20}}|\*[ \t]{{0,20}})?"
    rf"(?:[A-Za-z_][\w<>\[\],.?:]{{0,100}}[ \t*&]{{1,20}}){{0,3}}{_NAME}"
    r"[ \t]{0,20}\([^;]{0,900}\{[ \t]{0,20}(?://.*)?"
)
_NO_NAMES = frozenset(
    {"if", "for", "while", "switch", "catch", "return", "else", "do", "try", "with", "match", "when", "function", "new",
     "sizeof", "await", "using", "lock", "foreach", "until", "unless", "elif", "and", "or", "not", "in", "is"}
)  # fmt: skip
_ABOVE = re.compile(r"[ \t]{0,20}(?://|/\*|\*|#(?!include|define|if|endif|else|pragma)|@\w|--|\"\"\"|\[\w|;;|%)")
_LINES = _TYPES, _FUNCTIONS, _ARROWS
_BRACES = _TYPES, _FUNCTIONS, _ARROWS, _METHODS


class _Definition(NamedTuple):
    """`line` is its first, from 0, `depth` its margin or level, `name` with the names of what it is in."""

    line: int
    level: int
    name: str


def parse(content: bytes, options: Mapping[str, Any]) -> dict[str, Json]:
    """Text, headings and language of a file whose name ends in `options["suffix"]`; raises InvalidDocument."""
    decoded = decode(content)
    text = clean(decoded.text.replace("\r\n", "\n").replace("\r", "\n"))
    if len(text) > MAX_CHARACTERS:
        raise InvalidDocument(f"has more than {MAX_CHARACTERS >> 20} million characters of code: left to programs")
    language = CODE_SUFFIXES[options["suffix"]]
    patterns = _BRACES if language in BRACED else _LINES
    lines = text.split("\n")
    if lines and sum(len(line) > _MAX_LINE_CHARACTERS for line in lines) > len(lines) / 4:
        raise InvalidDocument("is minified code: ingest its source")
    found = _parse_python(text) if language == "Python" else None
    if found is None:
        found = list(_find_definitions(lines, patterns))
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    headings: list[Json] = []
    for definition in found[:MAX_DEFINITIONS]:
        start = _find_start(lines, definition.line, headings[-1][0] if headings else -1, starts)
        headings.append([start, min(definition.level + 1, 9), definition.name])
    borders = [*dict.fromkeys([0, *(heading[0] for heading in headings), len(text)])]
    return {
        "text": text,
        "headings": headings,
        "verbatim": [list(span) for span in pairwise(borders)],
        "metadata": {"programming_language": language},
        "notice": decoded.notice,
    }


def _parse_python(text: str) -> list[_Definition] | None:
    """The definitions of a module, None for one that this Python cannot parse."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return list(_walk(tree.body, "", 0))


def _walk(body: Sequence[ast.stmt], outer: str, level: int) -> Iterator[_Definition]:
    """Classes and functions with those in classes; what is inside of a function is its body."""
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)]) - 1
            name = f"{outer}{node.name}"
            yield _Definition(first, level + 1, name)
            if isinstance(node, ast.ClassDef):
                yield from _walk(node.body, f"{name}.", level + 1)
        elif isinstance(node, ast.If | ast.Try):
            yield from _walk([*node.body, *node.orelse], outer, level)


def _find_definitions(lines: Sequence[str], patterns: Sequence[re.Pattern[str]]) -> Iterator[_Definition]:
    """Definitions by the first words of lines; one with a wider margin than the one above is inside it."""
    outer: list[tuple[int, str]] = []
    for number, line in enumerate(lines):
        if not line.strip() or len(line) > _MAX_LINE_CHARACTERS:
            continue
        match = next((found for pattern in patterns if (found := pattern.match(line))), None)
        if match is None or match[2] in _NO_NAMES or line.lstrip().startswith(("return ", "else ", "await ", "new ")):
            continue
        margin = len(match[1].expandtabs(4))
        outer = [(column, name) for column, name in outer if column < margin]
        if len(outer) > 2:
            continue
        outer.append((margin, match[2]))
        yield _Definition(number, len(outer), ".".join(name for _, name in outer))


def _find_start(lines: Sequence[str], line: int, before: int, starts: Sequence[int]) -> int:
    """Where the comments and decorators above a definition begin, behind the definition before it."""
    while line > 0 and starts[line - 1] > before and _ABOVE.match(lines[line - 1]):
        line -= 1
    return max(starts[line], before)
