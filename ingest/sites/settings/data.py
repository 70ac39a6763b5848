"""Configuration files as plain data: YAML whose unknown tags are left out, TOML, JSON, and literals of Python.

Nothing is executed. A file that cannot be read is empty.
"""

from __future__ import annotations

import ast
import json
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import yaml

from aidre.engine.errors import InvalidDocument
from aidre.ingest.records import to_json_value

_MAX_NODES = 20_000
_MAX_ALIASES = 1000
_MAX_LENGTH = 100_000
"""Characters or members of a value of Python, which sums could double again and again."""


def read_yaml(text: str | None) -> dict[str, Any]:
    """The mapping of a YAML file."""
    if not text:
        return {}
    try:
        loaded = _SettingsLoader(text).get_single_data()
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError, LookupError, AttributeError, TypeError):
        return {}
    try:
        settings = to_json_value(loaded, "settings")  # a value that aliases repeat counts each time
    except (InvalidDocument, RecursionError):
        return {}
    return settings if isinstance(settings, dict) else {}


def read_toml(text: str | None) -> dict[str, Any]:
    try:
        return tomllib.loads((text or "").replace("\r\n", "\n"))
    except (ValueError, RecursionError):
        return {}


def read_json(text: str | None) -> Any:
    """The value of a JSON file; None for one that cannot be read."""
    try:
        return json.loads(text or "null")
    except (ValueError, RecursionError):
        return None


def read_python(text: str | None) -> dict[str, Any]:
    """The names that top-level assignments of a Python file give literal values; the last assignment counts."""
    try:
        tree = ast.parse(text or "")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found: dict[str, Any] = {}
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found.pop(name, None)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found.pop(name, None)
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value) if name in found:
                pass
            case _:
                continue
        with suppress(ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            literal = _evaluate(value, found)
            found[name] = _add(found[name], literal) if name in found else literal
    return found


def _evaluate(value: ast.expr, names: Mapping[str, Any]) -> Any:
    """A literal, a name of one, or a sum of them; raises ValueError for anything else."""
    match value:
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _add(_evaluate(left, names), _evaluate(right, names))
    return ast.literal_eval(value)


def _add(first: Any, second: Any) -> Any:
    """The sum; raises ValueError for a long one."""
    is_long = isinstance(first, str | list | tuple) and len(first) + len(second) > _MAX_LENGTH
    if is_long:
        raise ValueError("too long")
    return first + second


def get_text(settings: Mapping[str, Any], name: str, default: str = "") -> str:
    """A setting that is a text; the default for another one."""
    value = settings.get(name)
    return value if isinstance(value, str) else default


def get_texts(settings: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """A setting that is a list of texts, or one text."""
    value = settings.get(name)
    if isinstance(value, str):
        return (value,)
    is_list = isinstance(value, Sequence) and not isinstance(value, bytes)
    return tuple(text for text in value if isinstance(text, str)) if is_list and value else ()


def get_table(settings: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """A table of settings inside others; empty if there is none."""
    table: Any = settings
    for name in names:
        table = table.get(name) if isinstance(table, dict) else None
    return table if isinstance(table, dict) else {}


class _SettingsLoader(yaml.SafeLoader):
    """Knows no tags but those of plain YAML: what has another one is None, but `!ENV [NAME, default]` its default."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._nodes = 0
        self._aliases = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._nodes += 1
        self._aliases += self.check_event(yaml.AliasEvent)
        if self._nodes > _MAX_NODES or self._aliases > _MAX_ALIASES:
            raise yaml.YAMLError("too many values")
        return super().compose_node(parent, index)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        self._nodes += len(node.value)
        if self._nodes > 10 * _MAX_NODES:
            raise yaml.YAMLError("too many values")


def _unknown_tag(loader: _SettingsLoader, suffix: str, node: yaml.Node) -> Any:
    if node.tag == "!ENV" and isinstance(node, yaml.SequenceNode) and len(node.value) > 1:
        return loader.construct_object(node.value[-1], deep=True)
    return None


_SettingsLoader.add_multi_constructor("", _unknown_tag)
