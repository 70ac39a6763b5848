"""Conversion of plain option values: texts, paths, whole numbers and choices, without pydantic.

typer converts every value of a command line with a pydantic model of its own, whose import takes as long as half of a
search. What is not certain here, faults first of all, is left to typer: its messages stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

import typer

_NUMBER: Final = re.compile("-?[0-9]{1,18}")
_UNSURE: Final = object()


class _Conversion:
    """Replaces typer's conversion of one parameter, and calls it for the values that it does not convert itself."""

    def __init__(self, parameter: Any) -> None:
        self._typers = parameter.get_runtime_param
        self._annotation = parameter.type_descriptor.annotation
        self._rules = parameter.type_descriptor.parameter_info

    def __call__(self) -> _Conversion:
        return self

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if param.multiple or param.nargs == -1:
            converted = _convert_all(value, self._annotation)
        else:
            converted = None if value is None else _convert(value, _without_none(self._annotation), self._rules)
        return self._typers().coerce(value, param=param, ctx=ctx) if converted is _UNSURE else converted


def convert_plainly(command: Any) -> None:
    """Let a command of typer, and the commands of a group, convert plain values without pydantic."""
    command.get_params = partial(_plain_parameters, command.get_params)
    for inner in getattr(command, "commands", {}).values():
        convert_plainly(inner)


def _plain_parameters(get_params: Callable[[Any], list[Any]], context: Any) -> list[Any]:
    """The parameters of a command, --help among them, which typer makes at its first use."""
    parameters = get_params(context)
    for parameter in parameters:
        if hasattr(parameter, "type_descriptor") and not isinstance(parameter.get_runtime_param, _Conversion):
            parameter.get_runtime_param = _Conversion(parameter)
    return parameters


def _convert(value: Any, annotation: Any, rules: Any) -> Any:
    """The value of an option, or _UNSURE."""
    if rules.parser is not None:
        return _parse(value, rules.parser)
    if get_origin(annotation) is Literal:
        return value if value in get_args(annotation) else _UNSURE
    if isinstance(annotation, type) and type(value) is annotation and annotation in (str, bool):
        return value
    if annotation is int and (type(value) is int or (type(value) is str and _NUMBER.fullmatch(value))):
        number = int(value)
        is_inside = (rules.min is None or number >= rules.min) and (rules.max is None or number <= rules.max)
        return number if is_inside else _UNSURE
    if annotation is Path and type(value) is str and not (rules.exists or rules.resolve_path):
        return Path(value)
    return _UNSURE


def _parse(value: Any, parser: Any) -> Any:
    try:
        return parser(value)
    except typer.BadParameter:
        return _UNSURE


def _convert_all(values: Iterable[Any] | None, annotation: Any) -> Any:
    """The values of a list of texts, or _UNSURE."""
    if values is None:
        return ()
    if get_args(_without_none(annotation)) != (str,) or isinstance(values, str):
        return _UNSURE
    return list(values)


def _without_none(annotation: Any) -> Any:
    """The annotation without `| None`."""
    if get_origin(annotation) not in (Union, UnionType):
        return annotation
    inner = [part for part in get_args(annotation) if part is not type(None)]
    return inner[0] if len(inner) == 1 else annotation
