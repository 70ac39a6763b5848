"""Every regular expression of the code, found in its syntax trees, and texts that are hard for it, made of itself.

What a pattern repeats is repeated a hundred thousand times, after what stands before it and before something that fits
nowhere; so are characters that patterns often stumble over. Work that grows with the square of a text, or faster, does
not end within a few seconds of the processor; work that grows with the text takes milliseconds.
"""

from __future__ import annotations

import ast
import importlib
import random
import re
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from aidre.engine.retrieve.measures import mentions, periods, quantities
from tests import ROOT
from tests.hostile.report import Report
from tests.rules.source_tree import files_in, module_of

# The parser of patterns has no public name since 3.13.
from re import _constants as constants  # isort: skip
from re import _parser as parser  # isort: skip

PACKAGES = (
    "engine",
    "ingest",
    "api",
    *(f"packages/{name}" for name in ("client", "milvus", "postgres", "ray", "rows")),
)
"""The kit alone is left out: its patterns meet answers of a server that is under test."""
EVERY = frozenset({"match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"})
CALLS = EVERY | {"compile"}
HANDED_ON = {
    **dict.fromkeys(("URI", "HOSTNAME", "DOMAIN", "LANGUAGE", "COUNTRY"), frozenset({"fullmatch"})),
    **dict.fromkeys(("_TYPES", "_FUNCTIONS", "_ARROWS", "_METHODS"), frozenset({"match"})),
}
"""Patterns that are used as values, by name, and what is done with them there."""
MADE = {
    "re.compile(re.sub('\\\\$$', '\\\\\\\\Z', pattern))": "the pattern of a class, which is read there",
    "re.search(f'(?<!\\\\w){option}(?!\\\\w)', words)": "the operator's words, escaped",
    "re.compile(f'[{marks}]{{2,}}')": "a class of characters from a file of the package",
    "re.compile(f'[{signs}]|[^ {signs}]+')": "the same",
    "re.compile('(' + '|'.join(map(re.escape, sorted(special, key=len, reverse=True))) + ')')": "tokens, escaped",
    "re.compile(pattern + ('' if UNSPACED_RUN.match(before) else f'(?!{_SPACED})'))": "words of a phrase, escaped",
    "re.compile(_WEEKDAY + form + _TIME, re.IGNORECASE | re.ASCII)": "a form beside it, of a short text",
    "re.compile(f\"({_BLANK}){line.replace('_', _BLANK)}{_BLANK}$\")": "a form beside it, of one line",
    "re.sub(others, '-', text if pretty else text.replace('_', '-'))": "a class of characters, of a short text",
    "re.compile(pattern)": "a path of a configuration, escaped, with three parameters at most",
    "re.compile(_to_pattern(old))": "the same",
    "re.compile('|'.join((f'(?:{_translate(glob)})' for glob in expanded)))": "a glob, whose stars do not go back",
    "re.search(pattern, text)": "the name of a place, its words escaped, with blanks between two of them",
}
"""Calls whose pattern is made of what a function is given, and why that is harmless."""
SHORT = {
    "engine/retrieve/measures/quantities.py": quantities.MAX_QUANTITY_CHARS,
    "engine/retrieve/measures/periods.py": periods.MAX_DURATION_CHARS,
    "engine/retrieve/measures/mentions.py": mentions.MAX_MENTION_CHARS,
    "engine/retrieve/measures/numerals.py": mentions.MAX_MENTION_CHARS,
}
"""Where the code looks at the length of a text first."""
LONG = 100_000
SECONDS = 3.0
"""Of the processor, for all that is tried on a pattern with one text."""
STUMBLED_OVER = (
    " ", "\t", "\n", "\r\n", "a", "A", "aA", "0", "0.", "-", "_", ".", "/", "//@", "@", ":", ",", ";", "=", "<", "<a ",
    "{", "{{", "(", "[", "\"", "`", "~", "#", "é", "\u3042", "\u00a0", "\x00", "<meta ", "1e", "a-",
)  # fmt: skip
ENDS = ("", "\x00", "!", "\n!", " ", "\uffff")


@dataclass(frozen=True, slots=True)
class Pattern:
    """`uses` are the methods that the code calls, all of them where it hands the pattern on."""

    where: str
    compiled: re.Pattern[Any]
    uses: frozenset[str]

    @property
    def longest(self) -> int:
        """Of the texts that it is used on, as far as they are tried."""
        return SHORT.get(self.where.partition(":")[0], LONG)

    def __str__(self) -> str:
        return f"{self.where} {self.compiled.pattern!r:.100}"


def patterns() -> Iterator[Pattern]:
    """All patterns that the code compiles or uses in place."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for package in PACKAGES for path in _modules(package)}
    uses = _uses(trees.values())
    for path, tree in trees.items():
        name = module_of(path.relative_to(ROOT).as_posix().removesuffix(".py")).removesuffix(".__init__")
        named = {id(each.value): each for each in ast.walk(tree) if isinstance(each, ast.Assign | ast.AnnAssign)}
        own = _uses([tree])
        for call in (each for each in ast.walk(tree) if isinstance(each, ast.Call) and _is_pattern(each.func)):
            how = frozenset({call.func.attr if isinstance(call.func, ast.Attribute) else "fullmatch"})
            if how == {"compile"}:
                target = _target(named.get(id(call)))
                known = own if target and target.startswith("_") else uses  # a private name is of its module alone
                how = known.get(target, frozenset()) if target else EVERY
            compiled = _compiled(call, importlib.import_module(name))
            if compiled is not None:
                yield Pattern(f"{path.relative_to(ROOT)}:{call.lineno}", compiled, how & EVERY or EVERY)
        for stated in _arguments(tree):
            text = eval(ast.unparse(stated), vars(importlib.import_module(name)))
            yield Pattern(f"{path.relative_to(ROOT)}:{stated.lineno}", re.compile(text), frozenset({"search"}))


def _arguments(tree: ast.AST) -> Iterator[ast.expr]:
    """The patterns that classes of texts are given."""
    classes = (each for each in ast.walk(tree) if isinstance(each, ast.ClassDef))
    return (argument.value for each in classes for argument in each.keywords if argument.arg == "pattern")


def _modules(package: str) -> list[Path]:
    return sorted(path for path in files_in(ROOT / package, "*.py") if "tests" not in path.relative_to(ROOT).parts)


def _uses(trees: Iterable[ast.AST]) -> dict[str, frozenset[str]]:
    """The methods that are called of whatever has a name; all of them where it is used as a value."""
    found: dict[str, frozenset[str]] = {}
    for tree in trees:
        methods = {id(each.value): each.attr for each in ast.walk(tree) if isinstance(each, ast.Attribute)}
        for each in ast.walk(tree):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load):
                how = frozenset({methods[id(each)]}) if id(each) in methods else HANDED_ON.get(each.id, EVERY)
                found[each.id] = found.get(each.id, frozenset()) | how
    return found


def _target(statement: ast.AST | None) -> str | None:
    target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
    return target.id if isinstance(target, ast.Name) else None


def _is_pattern(called: ast.expr) -> bool:
    """Whether a method of `re` is called, or the constraint of a string in the configuration is made."""
    if isinstance(called, ast.Name):
        return called.id == "matching"
    named = isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id
    return named == "re" and isinstance(called, ast.Attribute) and called.attr in CALLS


def _compiled(call: ast.Call, module: ModuleType) -> re.Pattern[Any] | None:
    """As the call compiles it; None where a function makes it of what it is given, which MADE must name."""
    given = [*call.args[:1], *(word.value for word in call.keywords if word.arg == "flags")]
    if isinstance(call.func, ast.Attribute) and call.func.attr == "compile":
        given += call.args[1:2]
    try:
        pattern, *flags = (eval(ast.unparse(each), vars(module)) for each in given)
    except NameError:
        assert ast.unparse(call) in MADE, f"{module.__name__}: {ast.unparse(call)}"
        return None
    return re.compile(pattern, *flags)


@dataclass(frozen=True, slots=True)
class Hard:
    """A text of a hundred thousand characters, as what it is made of."""

    before: str
    repeated: str
    end: str
    longest: int

    @property
    def text(self) -> str:
        return self.before + self.repeated * (self.longest // max(1, len(self.repeated))) + self.end


def hard_texts(pattern: Pattern) -> Iterator[Hard]:
    """What is hard for a pattern, if anything is."""
    compiled = pattern.compiled
    source = compiled.pattern if isinstance(compiled.pattern, str) else compiled.pattern.decode("latin-1")
    pumped = [*_pumped(list(parser.parse(source, compiled.flags & ~re.UNICODE)), "")]
    for before, repeated in dict.fromkeys([*pumped, *(("", each) for each in STUMBLED_OVER)]):
        for end in ENDS:
            yield Hard(before, repeated, end, pattern.longest)


def _pumped(nodes: list[Any], before: str) -> Iterator[tuple[str, str]]:
    """What every repetition repeats, with what stands before it."""
    for kind, given in nodes:
        if kind in (constants.MAX_REPEAT, constants.MIN_REPEAT, constants.POSSESSIVE_REPEAT):
            least, most, body = given
            if most > 9:
                yield before, _sample(list(body)) or "a"
                yield before, _sample(list(body), other=True) or "a"
            yield from _pumped(list(body), before)
            before += _sample(list(body)) * max(1, least)
        else:
            for part in _parts(kind, given):
                yield from _pumped(part, before)
            before += _sample([(kind, given)])


def _parts(kind: Any, given: Any) -> list[list[Any]]:
    if kind is constants.SUBPATTERN:
        return [list(given[3])]
    if kind is constants.BRANCH:
        return [list(branch) for branch in given[1]]
    if kind in (constants.ASSERT, constants.ASSERT_NOT):
        return [list(given[1])]
    return [list(given)] if kind is constants.ATOMIC_GROUP else []


def _sample(nodes: list[Any], *, other: bool = False) -> str:
    """A text that nodes match, roughly; `other` takes the last choice instead of the first."""
    said = ""
    for kind, given in nodes:
        if kind is constants.LITERAL:
            said += chr(given)
        elif kind is constants.NOT_LITERAL:
            said += "a" if given != ord("a") else "b"
        elif kind is constants.IN:
            said += _member(given, other)
        elif kind is constants.ANY:
            said += "a"
        elif kind in (constants.MAX_REPEAT, constants.MIN_REPEAT, constants.POSSESSIVE_REPEAT):
            said += _sample(list(given[2]), other=other) * max(1, min(given[0], 40))
        elif kind is constants.BRANCH:
            said += _sample(list(given[1][-1 if other else 0]), other=other)
        elif kind in (constants.SUBPATTERN, constants.ATOMIC_GROUP):
            said += _sample(list(given[3] if kind is constants.SUBPATTERN else given), other=other)
    return said


def _member(given: list[Any], other: bool) -> str:
    if given[0][0] is constants.NEGATE:
        left_out = {chr(value) for kind, value in given[1:] if kind is constants.LITERAL}
        return next(each for each in "ax0 -!\u4e00" if each not in left_out)
    kind, value = given[-1 if other else 0]
    if kind is constants.LITERAL:
        return chr(value)
    if kind is constants.RANGE:
        return chr(value[1 if other else 0])
    return {"CATEGORY_DIGIT": "0", "CATEGORY_SPACE": " ", "CATEGORY_WORD": "a"}.get(str(value), "!")


def run(report: Report, rounds: int, chance: random.Random) -> None:
    """So many texts for each pattern, of those that are hard for it; all where there are fewer."""
    count = tried = 0
    for pattern in patterns():
        hard = list(hard_texts(pattern))
        for each in hard if len(hard) <= rounds else chance.sample(hard, rounds):
            text = each.text
            try:
                work_through(pattern, text)
            except TimeoutError:
                raise AssertionError(f"{pattern} does not end on {len(text):,} characters, {text[:40]!r}...") from None
            tried += 1
        count += 1
    assert count > 100, "the patterns of the code were not found"
    report.figure("patterns", f"{count} of the code, {tried:,} texts of up to {LONG:,} characters; all worked through")


def work_through(pattern: Pattern, text: str, seconds: float = SECONDS) -> None:
    """The ways in which the code uses a pattern; TimeoutError where that takes too long."""
    compiled = pattern.compiled
    given: Any = text if isinstance(compiled.pattern, str) else text.encode("utf-8", "surrogatepass")
    with _limited(seconds):
        if "match" in pattern.uses:
            compiled.match(given)
        if "fullmatch" in pattern.uses:
            compiled.fullmatch(given)
        if "search" in pattern.uses:
            compiled.search(given)
        if pattern.uses - {"match", "fullmatch", "search"}:
            for _ in compiled.finditer(given):
                pass


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    former = signal.signal(signal.SIGVTALRM, _gave_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, former)


def _gave_up(number: int, frame: FrameType | None) -> None:
    raise TimeoutError
