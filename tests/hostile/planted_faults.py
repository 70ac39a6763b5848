"""Mutants of chosen functions: each is the source of a module with one small fault in it.

The faults are made from the syntax tree, and replace one span of the source: all other text stays as it is. Nothing is
planted in docstrings, annotations, default values, messages (f-strings, what is raised), log calls and assertions.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

Function = ast.FunctionDef | ast.AsyncFunctionDef
Edit = tuple[str, int, int, str]
"""Kind of the fault, the span of bytes that it replaces, and the text in its place."""

LARGE_NUMBER = 16
"""A constant beyond it is doubled: one more would be no fault in a bound."""

_COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: (r"<", "<="), ast.LtE: (r"<=", "<"), ast.Gt: (r">", ">="), ast.GtE: (r">=", ">"),
    ast.Eq: (r"==", "!="), ast.NotEq: (r"!=", "=="), ast.In: (r"\bin\b", "not in"), ast.NotIn: (r"\bnot\s+in\b", "in"),
    ast.Is: (r"\bis\b", "is not"), ast.IsNot: (r"\bis\s+not\b", "is"),
}  # fmt: skip
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: (r"\+", "-"), ast.Sub: (r"-", "+"), ast.BitAnd: (r"&", "|"), ast.BitOr: (r"\|", "&"),
}  # fmt: skip
_SWAPPED = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "left": "right", "right": "left"}
_EMPTY = (
    (r"(list|Sequence)\b", "[]"),
    (r"tuple\[[^\[\]]*, \.\.\.\]", "()"),
    (r"(dict|Mapping)\b", "{}"),
    (r"set\b", "set()"),
    (r"frozenset\b", "frozenset()"),
    (r"str$", '""'),
    (r"bytes$", 'b""'),
)
"""By the annotation of a function, what it returns instead of its value."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault. `original` and `mutated` are the lines that it touches, without indentation and line breaks.

    The span from `start` to `end` is in bytes of the module's source.
    """

    module: str
    function: str
    kind: str
    line: int
    start: int
    end: int
    replacement: str
    original: str
    mutated: str

    def applied(self, content: bytes) -> bytes:
        """The source of the module with the fault."""
        return content[: self.start] + self.replacement.encode() + content[self.end :]

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.function}\n  - {self.original}\n  + {self.mutated}"


class _Source:
    """The source of a module, and the spans of its nodes in bytes."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.tree = ast.parse(content)
        self._starts = [0]
        for line in content.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def span(self, node: ast.AST) -> tuple[int, int]:
        return self._offset(node.lineno, node.col_offset), self._offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def _offset(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column

    def text(self, start: int, end: int) -> str:
        return self.content[start:end].decode()

    def between(self, left: ast.AST, right: ast.AST, pattern: str) -> tuple[int, int]:
        """The span of an operator between two operands, which may have brackets around them."""
        start, end = self.span(left)[1], self.span(right)[0]
        found = re.search(pattern.encode(), self.content[start:end])
        assert found is not None, self.text(start, end)
        return start + found.start(), start + found.end()

    def line_of(self, offset: int) -> int:
        return self.content.count(b"\n", 0, offset) + 1

    def lines(self, start: int, end: int, replacement: str | None = None) -> str:
        """The lines that a span touches, in one line; with a replacement for the span, if one is given."""
        first = self.content.rfind(b"\n", 0, start) + 1
        last = self.content.find(b"\n", end)
        stop = len(self.content) if last < 0 else last
        middle = self.text(start, end) if replacement is None else replacement
        return " ".join((self.text(first, start) + middle + self.text(end, stop)).split())


def functions_of(content: bytes) -> dict[str, Function]:
    """The functions of a module by name, methods as `Class.method`; not those inside of functions."""
    found: dict[str, Function] = {}

    def collect(body: Iterable[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, Function):
                found[prefix + node.name] = node
            elif isinstance(node, ast.ClassDef):
                collect(node.body, f"{prefix}{node.name}.")

    collect(_Source(content).tree.body, "")
    return found


def mutants_of(
    module: str, content: bytes, functions: Collection[str], kinds: Collection[str] | None = None
) -> list[Mutant]:
    """The mutants of some functions of a module, in order of their lines; of some kinds only, where these are given."""
    source, nodes = _Source(content), functions_of(content)
    found: dict[tuple[int, int, str], Mutant] = {}
    for name in functions:
        for kind, start, end, replacement in _Planter(source).edits(nodes[name]):
            if kinds is None or kind in kinds:
                found.setdefault(
                    (start, end, replacement),
                    Mutant(
                        module,
                        name,
                        kind,
                        source.line_of(start),
                        start,
                        end,
                        replacement,
                        source.lines(start, end),
                        source.lines(start, end, replacement),
                    ),
                )
    return [found[key] for key in sorted(found)]


def returning_none(module: str, content: bytes) -> Iterator[Mutant]:
    """The coarsest faults of a module: each of its public functions that return something returns None at once."""
    lines = content.splitlines(keepends=True)
    for name, function in functions_of(content).items():
        statement = _first_statement(function)
        if statement is not None and _is_public(name) and _returns_something(function):
            decorators = getattr(statement, "decorator_list", None)
            line = decorators[0].lineno if decorators else statement.lineno
            start = sum(map(len, lines[: line - 1]))
            text = f"{' ' * statement.col_offset}return None\n"
            yield Mutant(module, name, "return", line, start, start, text, "", text.strip())


def _is_public(name: str) -> bool:
    return not any(part.startswith("_") for part in name.split("."))


def _returns_something(function: Function) -> bool:
    return function.returns is not None and ast.unparse(function.returns) not in {"None", "NoReturn", "Never"}


def _first_statement(function: Function) -> ast.stmt | None:
    """None for a declaration: of a protocol, or of one more signature."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return None if not body or ast.unparse(body[0]) == "..." or body[0].lineno == function.lineno else body[0]


class _Planter:
    """Finds the faults of one function. `_rules` has the faults of each type of node."""

    def __init__(self, source: _Source) -> None:
        self._source = source
        self._conditions: set[ast.AST] = set()
        self._refusals: set[ast.AST] = set()
        self._returns = ""
        self._rules: Mapping[type[ast.AST], Callable[..., Iterator[Edit]]] = {
            ast.Compare: self._comparison,
            ast.BoolOp: self._boolean,
            ast.UnaryOp: self._negation,
            ast.If: self._if,
            ast.IfExp: self._if,
            ast.While: self._while,
            ast.comprehension: self._comprehension,
            ast.Constant: self._constant,
            ast.BinOp: self._arithmetic,
            ast.AugAssign: self._addition,
            ast.Call: self._call,
            ast.Expr: self._statement,
            ast.Return: self._return,
            ast.Raise: self._raise,
        }

    def edits(self, node: ast.AST) -> Iterator[Edit]:
        if isinstance(node, Function):
            outer, self._returns = self._returns, ast.unparse(node.returns) if node.returns else ""
            for statement in node.body:
                yield from self.edits(statement)
            self._returns = outer
            return
        if isinstance(node, ast.Assert | ast.JoinedStr) or _is_log(node):
            return
        rule = self._rules.get(type(node))
        if rule is not None:
            yield from rule(node)
        if isinstance(node, ast.Raise):
            return
        skipped: set[ast.AST] = {node.annotation} if isinstance(node, ast.AnnAssign) else set()
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            skipped = {node.slice}  # another index is no small fault
        for child in ast.iter_child_nodes(node):
            if child not in skipped:
                yield from self.edits(child)

    # -- expressions ---------------------------------------------------------------------------------------------

    def _comparison(self, node: ast.Compare) -> Iterator[Edit]:
        if node in self._conditions and len(node.ops) == 1 and not isinstance(node.ops[0], _ORDERS):
            return  # a condition that is always true and one that is always false are no weaker
        for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            pattern, other = _COMPARISONS[type(operator)]
            yield "comparison", *self._source.between(left, right, pattern), other

    def _boolean(self, node: ast.BoolOp) -> Iterator[Edit]:
        pattern, other = (r"\band\b", "or") if isinstance(node.op, ast.And) else (r"\bor\b", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            yield "boolean", *self._source.between(left, right, pattern), other

    def _negation(self, node: ast.UnaryOp) -> Iterator[Edit]:
        is_number = isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant)
        if not is_number and not (node in self._conditions and isinstance(node.op, ast.Not)):
            start, stop = self._source.span(node)[0], self._source.span(node.operand)[0]
            yield "negation", start, stop, re.sub(r"^(not\s*|[-~+])", "", self._source.text(start, stop))

    def _constant(self, node: ast.Constant) -> Iterator[Edit]:
        if type(node.value) is int:
            changed = node.value * 2 if node.value > LARGE_NUMBER else node.value + 1
            yield "number", *self._source.span(node), str(changed)
        elif node.value in {"left", "right"}:
            start, end = self._source.span(node)
            yield "argument", start + 1, end - 1, _SWAPPED[str(node.value)]

    def _arithmetic(self, node: ast.BinOp) -> Iterator[Edit]:
        if type(node.op) in _ARITHMETIC and not any(map(_is_sequence, (node.left, node.right))):
            pattern, other = _ARITHMETIC[type(node.op)]
            yield "arithmetic", *self._source.between(node.left, node.right, pattern), other

    def _call(self, node: ast.Call) -> Iterator[Edit]:
        start, end = self._source.span(node.func)
        name = self._source.text(start, end).rpartition(".")[2]
        if name in {"min", "max", "minimum", "maximum"}:
            yield "extreme", end - len(name), end, _SWAPPED[name]
        for keyword in node.keywords:
            is_flag = isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, bool)
            if is_flag and keyword.arg not in {None, "strict"}:  # zip(strict=True) is an assertion
                yield self._without(node, keyword)

    def _without(self, node: ast.Call, keyword: ast.keyword) -> Edit:
        """A call without an argument, and without the comma before it, or after it where it is the first."""
        start, end = self._source.span(keyword)
        before = [self._source.span(one)[1] for one in (*node.args, *node.keywords)]
        before = [stop for stop in before if stop <= start]
        if before:
            return "argument", max(before), end, ""
        comma = re.match(rb"\s*,\s*", self._source.content[end:])
        return "argument", start, end + (comma.end() if comma else 0), ""

    # -- conditions ----------------------------------------------------------------------------------------------

    def _condition(self, test: ast.expr, values: Iterable[str]) -> Iterator[Edit]:
        self._conditions.add(test)
        has_name = any(isinstance(node, ast.NamedExpr) for node in ast.walk(test))
        if not isinstance(test, ast.Constant):
            for value in values:
                if value == "False" or not has_name:
                    yield "condition", *self._source.span(test), value

    def _if(self, node: ast.If | ast.IfExp) -> Iterator[Edit]:
        if isinstance(node, ast.If) and not node.orelse and len(node.body) == 1 and isinstance(node.body[0], ast.Raise):
            self._refusals.add(node.body[0])  # where the condition is false, nothing is raised
            return self._condition(node.test, ["False"])
        return self._condition(node.test, ["True", "False"])

    def _while(self, node: ast.While) -> Iterator[Edit]:
        return self._condition(node.test, ["False"])

    def _comprehension(self, node: ast.comprehension) -> Iterator[Edit]:
        for test in node.ifs:
            yield from self._condition(test, ["True", "False"])

    # -- statements ----------------------------------------------------------------------------------------------

    def _addition(self, node: ast.AugAssign) -> Iterator[Edit]:
        if type(node.op) in _ARITHMETIC and not _is_sequence(node.value):
            pattern, other = _ARITHMETIC[type(node.op)]
            yield "arithmetic", *self._source.between(node.target, node.value, pattern), other

    def _statement(self, node: ast.Expr) -> Iterator[Edit]:
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(call, ast.Call) and not ast.unparse(call.func).startswith("super()"):
            yield "call", *self._source.span(node), "pass"

    def _return(self, node: ast.Return) -> Iterator[Edit]:
        if node.value is None:
            return
        other = _other_value(node.value, self._returns, self._source.text(*self._source.span(node.value)))
        if other is not None:
            yield "return", *self._source.span(node.value), other

    def _raise(self, node: ast.Raise) -> Iterator[Edit]:
        if node not in self._refusals:
            yield "raise", *self._source.span(node), "pass"


def _other_value(value: ast.expr, annotation: str, written: str) -> str | None:
    """What a function returns instead of a value; None where a caller could not but notice, or other faults suffice."""
    if isinstance(value, ast.Constant):
        return str(not value.value) if isinstance(value.value, bool) else None
    if annotation == "bool":
        has_operator = any(isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp) for node in ast.walk(value))
        return None if has_operator else f"not ({written})"
    if annotation.endswith("| None"):
        return "None"
    empty = next((empty for pattern, empty in _EMPTY if re.match(pattern, annotation)), None)
    return None if empty == written else empty


def _is_sequence(node: ast.expr) -> bool:
    """Whether an operand of + is certainly no number."""
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    return is_text or isinstance(node, ast.JoinedStr | ast.List | ast.Tuple | ast.ListComp)


def _is_log(node: ast.AST) -> bool:
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    return ast.unparse(node.value.func).startswith(("logger.", "self.logger.", "print"))
