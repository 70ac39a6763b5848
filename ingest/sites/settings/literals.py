"""Literals of JavaScript and TypeScript: the object that a configuration file exports, as far as it is written out.

The file is read as text and never executed. Strings, numbers, booleans, null, arrays and objects are read, names of
constants by their values, calls that wrap an object (`defineConfig({...})`) by their first argument that is one,
`process.env.X || "default"` by its default. Everything else is COMPUTED.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_MAX_DEPTH = 40
_MAX_TOKENS = 200_000
_MAX_STEPS = 500_000
"""Tokens that are read or skipped in all: constants that name constants could double the work again and again."""

_READ_STEPS = 10
"""What reading a token costs, where skipping one costs 1."""

_MAX_SIGNATURE = 100
"""Tokens between the word `function` and its body."""

_TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))|(?P<number>0[xX][0-9a-fA-F]+|\d[\d_]*\.?\d*(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[A-Za-z_$][\w$]*)|(?P<string>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')"
    r"|(?P<mark>=>|\.\.\.|\?\?|\|\||&&|===|!==|==|!=|\?\.|[^\s])",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(u\{[0-9a-fA-F]{1,6}\}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|\r?\n|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_OPENING = {"(": ")", "[": "]", "{": "}"}
_CLOSING = frozenset(")]}")
_REGEX = re.compile(r"/(?![*/])(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*")


class _Computed:
    """The value of an expression that is not written out."""


COMPUTED: Final = _Computed()


@dataclass(frozen=True, slots=True)
class _LiteralToken:
    kind: str
    text: str


def read_exported(text: str | None) -> dict[str, Any] | None:
    """The object that a module exports; None if none is written out."""
    tokens = _tokenize(text or "")
    reader = _LiteralReader(tokens)
    reader.learn_constants()
    for start in _export_starts(tokens):
        value = reader.value_at(start)
        if reader.is_exhausted:
            return None
        if isinstance(value, dict):
            return value
    return None


def read_constant(text: str | None, name: str) -> dict[str, Any]:
    """The object that a module gives a name; empty without one."""
    reader = _LiteralReader(_tokenize(text or ""))
    reader.learn_constants()
    value = reader.value_of(name)
    return value if isinstance(value, dict) else {}


def _export_starts(tokens: list[_LiteralToken]) -> list[int]:
    """Where exported values begin: behind `export default`, behind `module.exports =`, and behind each `return`."""
    texts = [token.text for token in tokens]
    exported, returned = [], []
    for index, word in enumerate(texts):
        if (word, *texts[index + 1 : index + 2]) in (("export", "default"), ("exports", "=")):
            exported.append(index + 2)
        elif word == "return":
            returned.append(index + 1)
    return [*exported, *reversed(returned)]


def _tokenize(text: str) -> list[_LiteralToken]:
    tokens: list[_LiteralToken] = []
    position = 0
    while position < len(text) and len(tokens) < _MAX_TOKENS:
        if text[position] == "`":
            end = _template_end(text, position)
            tokens.append(_LiteralToken("template", text[position + 1 : end - 1]))
            position = end
            continue
        if text[position] == "/" and _may_be_regex(tokens):
            match = _REGEX.match(text, position)
            if match is not None:
                tokens.append(_LiteralToken("regex", match[0]))
                position = match.end()
                continue
        match = _TOKEN.match(text, position)
        if match is None:
            break
        kind = match.lastgroup or ""
        if kind not in ("space", "comment"):
            tokens.append(_LiteralToken(kind, match[0]))
        position = match.end()
    return tokens


def _may_be_regex(tokens: list[_LiteralToken]) -> bool:
    if not tokens:
        return True
    last = tokens[-1]
    return (
        last.text in ("return", "typeof", "case")
        if last.kind == "name"
        else (last.kind == "mark" and last.text not in (")", "]", "}"))
    )


def _template_end(text: str, start: int) -> int:
    """The position behind a template; expressions in it may hold braces, but no templates of their own."""
    position = start + 1
    while position < len(text):
        if text[position] == "\\":
            position += 2
        elif text[position] == "`":
            return position + 1
        else:
            position += 1
    return len(text)


@dataclass(slots=True)
class _LiteralReader:
    tokens: list[_LiteralToken]
    constants: dict[str, int] = field(default_factory=dict)
    _open: set[str] = field(default_factory=set)
    _steps: int = 0

    def learn_constants(self) -> None:
        """Where the values of constants at the top of the module, and of functions' first lines, begin."""
        for index, token in enumerate(self.tokens):
            if token.text in ("const", "let", "var") and token.kind == "name":
                name = self._text(index + 1)
                position = index + 2
                if self._text(position) == ":":  # a type of TypeScript, up to the sign
                    while position < len(self.tokens) and self._text(position) not in ("=", ";"):
                        position += 1
                if self._text(position) == "=" and name.isidentifier():
                    self.constants.setdefault(name, position + 1)
            elif token.text == "function" and token.kind == "name":
                self._learn_function(index)

    def _learn_function(self, index: int) -> None:
        """A function stands for what its last `return` gives."""
        name = self._text(index + 1)
        returned = self._last_return(self._find_body(index)) if name.isidentifier() else None
        if returned is not None:
            self.constants.setdefault(name, returned)

    def _find_body(self, index: int) -> int:
        """The brace that begins the body of a function; the end of the file if none is near."""
        near = range(index, min(index + _MAX_SIGNATURE, len(self.tokens)))
        return next((at for at in near if self._text(at) == "{"), len(self.tokens))

    def _last_return(self, brace: int) -> int | None:
        end = self._skip_group(brace)
        return next((at + 1 for at in reversed(range(brace, end)) if self._text(at) == "return"), None)

    @property
    def is_exhausted(self) -> bool:
        """Whether more would have had to be read than may be."""
        return self._steps > _MAX_STEPS

    def value_at(self, index: int) -> Any:
        """The value that begins at a token."""
        return self._value(index, 0)[0]

    def value_of(self, name: str) -> Any:
        """The value of a constant."""
        return self._constant(name, 0)

    def _text(self, index: int) -> str:
        return self.tokens[index].text if 0 <= index < len(self.tokens) else ""

    def _value(self, index: int, depth: int) -> tuple[Any, int]:
        """The value that begins at a token, and the token behind its expression."""
        value, end = self._operand(index, depth)
        after = self._text(end)
        if after in ("||", "??"):
            default, end = self._value(end + 1, depth + 1)
            return (default if value is COMPUTED else value), end
        if after in ("as", "satisfies"):
            return value, self._skip_expression(end)
        if after in (",", ")", "]", "}", ";", "") or (index < end and self._begins_statement(end)):
            return value, end
        return COMPUTED, self._skip_expression(end)

    def _begins_statement(self, index: int) -> bool:
        return self._text(index) in ("const", "let", "var", "export", "module", "function", "import", "async", "class")

    def _operand(self, index: int, depth: int) -> tuple[Any, int]:
        self._steps += _READ_STEPS
        if index >= len(self.tokens) or depth > _MAX_DEPTH or self._steps > _MAX_STEPS:
            return COMPUTED, len(self.tokens)
        token = self.tokens[index]
        if token.kind in _PLAIN:
            return _PLAIN[token.kind](token.text), index + 1
        if token.kind == "name":
            return self._named(token.text, index, depth)
        if token.text == "-":
            value, end = self._operand(index + 1, depth + 1)
            return (-value if isinstance(value, int | float) else COMPUTED), end
        group = {"{": self._object, "[": self._array, "(": self._parenthesis}.get(token.text)
        return (COMPUTED, index + 1) if group is None else group(index, depth + 1)

    def _parenthesis(self, index: int, depth: int) -> tuple[Any, int]:
        """A value in parentheses, or a function without a name, which stands for its object."""
        end = self._skip_group(index)
        if self._text(end) == "=>":
            return self._function_body(end + 1, depth + 1)
        value, _ = self._value(index + 1, depth + 1)
        return value, end

    def _function_body(self, index: int, depth: int) -> tuple[Any, int]:
        if self._text(index) != "{":
            return self._value(index, depth)
        returned = self._last_return(index)
        return (COMPUTED if returned is None else self._value(returned, depth)[0]), self._skip_group(index)

    def _named(self, name: str, index: int, depth: int) -> tuple[Any, int]:
        if name in ("true", "false", "null"):
            return {"true": True, "false": False, "null": None}[name], index + 1
        if name in ("await", "async"):
            return self._operand(index + 1, depth + 1)
        if name == "function":
            return self._function_body(self._find_body(index), depth + 1)
        end = index + 1
        while self._text(end) in (".", "?."):
            end += 2
        is_plain = end == index + 1
        if self._text(end) == "(":
            close = self._skip_group(end)
            if is_plain and name in self.constants and self._text(end + 1) == ")":
                return self._constant(name, depth), close
            return self._first_object(end, close, depth), close
        return (self._constant(name, depth) if is_plain else COMPUTED), end

    def _constant(self, name: str, depth: int) -> Any:
        start = self.constants.get(name)
        if start is None or name in self._open:
            return COMPUTED
        self._open.add(name)
        try:
            return self._value(start, depth + 1)[0]
        finally:
            self._open.discard(name)

    def _first_object(self, start: int, close: int, depth: int) -> Any:
        """The first argument of a call that is an object: calls as `defineConfig` give it back."""
        index = start + 1
        while index < close - 1:
            value, end = self._value(index, depth + 1)
            if isinstance(value, dict):
                return value
            index = max(end, index + 1)
            if self._text(index) == ",":
                index += 1
        return COMPUTED

    def _array(self, index: int, depth: int) -> tuple[Any, int]:
        items: list[Any] = []
        index += 1
        while index < len(self.tokens) and self._text(index) != "]":
            if self._text(index) == ",":
                index += 1
                continue
            if self._text(index) == "...":
                spread, index = self._value(index + 1, depth)
                items += spread if isinstance(spread, list) else []
                continue
            value, end = self._value(index, depth)
            items.append(value)
            index = max(end, index + 1)
        return items, index + 1

    def _object(self, index: int, depth: int) -> tuple[Any, int]:
        members: dict[str, Any] = {}
        index += 1
        while index < len(self.tokens) and self._text(index) != "}":
            token = self.tokens[index]
            if token.text == ",":
                index += 1
            elif token.text == "...":
                spread, index = self._value(index + 1, depth)
                members |= spread if isinstance(spread, dict) else {}
            elif token.kind in ("name", "string", "number") and self._text(index + 1) == ":":
                name = _unescape(token.text[1:-1]) if token.kind == "string" else token.text
                members[name], end = self._value(index + 2, depth)
                index = max(end, index + 1)
            elif token.kind == "name" and self._text(index + 1) in (",", "}"):
                members[token.text], index = self._constant(token.text, depth), index + 1
            elif token.text in _OPENING:  # a computed name
                index = self._skip_expression(self._skip_group(index))
            else:  # a method
                name = self._text(index + 1) if token.text in ("async", "get") else token.text
                members[name], index = COMPUTED, self._skip_expression(index + 1)
        return members, index + 1

    def _skip_group(self, index: int) -> int:
        """The token behind a group of parentheses, brackets or braces."""
        depth = 0
        for at in range(index, len(self.tokens)):
            text = self.tokens[at].text if self.tokens[at].kind == "mark" else ""
            depth += (text in _OPENING) - (text in _CLOSING)
            self._steps += 1
            if depth <= 0 or self._steps > _MAX_STEPS:
                return at + 1
        return len(self.tokens)

    def _skip_expression(self, index: int) -> int:
        """The next token that ends an expression: a comma, a semicolon, or what closes the group around it."""
        while index < len(self.tokens):
            text = self.tokens[index].text if self.tokens[index].kind == "mark" else ""
            self._steps += 1
            if text in (",", ";") or text in _CLOSING:
                return index
            if self._steps > _MAX_STEPS:
                return len(self.tokens)
            index = self._skip_group(index) if text in _OPENING else index + 1
        return index


def _unescape(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] in "ux" and len(code) > 1:
            number = int(code[1:].strip("{}"), 16)
            return chr(number) if number <= 0x10FFFF else "\ufffd"
        return "" if code.endswith("\n") else _ESCAPES.get(code, code)

    return _ESCAPE.sub(replace, text) if "\\" in text else text


def _to_number(text: str) -> Any:
    text = text.replace("_", "")
    try:
        return int(text, 0) if text.isdigit() or text[:2].lower() == "0x" else float(text)
    except ValueError:
        return COMPUTED


_PLAIN: Mapping[str, Callable[[str], Any]] = {
    "string": lambda text: _unescape(text[1:-1]),
    "template": lambda text: COMPUTED if "${" in text else _unescape(text),
    "number": _to_number,
}
"""The value of a token, by its kind."""
