"""Reads the tables of a TOML file into frozen dataclasses, by their type hints.

Every error is one line that names the key by its path. The dataclasses define which keys exist.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, NewType, Union, get_args, get_origin, get_type_hints

from aidre.engine.errors import ConfigurationError

Duration = NewType("Duration", float)
"""Seconds, written as "90s", "5m", "1h" or "7d"."""

Secret = NewType("Secret", str)
"""A string that no message repeats; "env:NAME" reads it from the environment."""


MIN_SECRET_CHARS = 16
"""Characters; a shorter secret can be guessed from one signature or digest."""


@dataclass(frozen=True, slots=True)
class Rate:
    """`count` requests in `seconds`; a count of 0 means no limit."""

    count: int
    seconds: int


SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "second": 1, "minute": 60, "hour": 3600}
INTEGERS = range(-(2**63), 2**63)
KIND_NAMES = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a string",
    Duration: 'a duration such as "90s", "5m", "1h" or "7d"',
    Rate: 'a rate such as "10/second", "600/minute" or "1000/hour", or "none"',
    Secret: 'a string or "env:NAME"',
}


def read_value(kind: Any, value: Any, where: str) -> Any:
    """`value` as `kind`; raises ConfigurationError that names `where`."""
    if kind in READERS:
        return READERS[kind](value, where)
    if is_dataclass(kind):
        return _record(kind, value, where)
    return _compound(kind, value, where)


def _compound(kind: Any, value: Any, where: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in {Union, UnionType}:
        return read_value(next(argument for argument in arguments if argument is not NoneType), value, where)
    if origin is Literal:
        return _choice(arguments, value, where)
    if origin is tuple:
        return _list(arguments[0], value, where)
    return _mapping(arguments[1], value, where)


def _record(kind: Any, value: Any, where: str) -> Any:
    table = _table(value, where)
    known = {field.name: field for field in fields(kind)}
    for key in table:
        if key not in known:
            raise unknown_key(key, known, where)
    for name, field in known.items():
        if name not in table and field.default is MISSING and field.default_factory is MISSING:
            raise ConfigurationError(f"{_path(where, name)} is missing: give it a value")
    hints = get_type_hints(kind)
    return kind(**{key: read_value(hints[key], item, _path(where, key)) for key, item in table.items()})


def unknown_key(key: str, known: Mapping[str, Any], where: str) -> ConfigurationError:
    """The error for an unknown key; it names the nearest valid one."""
    nearest = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    cure = f"did you mean {nearest[0]!r}?" if nearest else f"valid keys are {', '.join(sorted(known))}"
    return ConfigurationError(f"{_path(where, key)} is not a key of aidre.toml: {cure}")


def check_secret(secret: str, where: str) -> None:
    """Raises ConfigurationError for a secret that could be guessed."""
    if len(secret) < MIN_SECRET_CHARS:
        raise ConfigurationError(
            f"{where} must have at least {MIN_SECRET_CHARS} characters: `openssl rand -hex 32` makes one"
        )


def _path(where: str, key: str) -> str:
    shown = key if re.fullmatch(r"[\w-]+", key) else f'"{key}"'
    return f"{where}.{shown}" if where else shown


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ConfigurationError(f"{where} must be a table, not {value!r}")
    return value


def _mapping(kind: Any, value: Any, where: str) -> Mapping[str, Any]:
    return {key: read_value(kind, item, _path(where, key)) for key, item in _table(value, where).items()}


def _list(kind: Any, value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise ConfigurationError(f"{where} must be a list, not {value!r}")
    return tuple(read_value(kind, item, f"{where}[{number}]") for number, item in enumerate(value))


def _choice(choices: Sequence[Any], value: Any, where: str) -> Any:
    if value not in choices:
        raise ConfigurationError(f"{where} must be one of {', '.join(map(repr, choices))}, not {value!r}")
    return value


def _exactly(kind: type) -> Callable[[Any, str], Any]:
    def reader(value: Any, where: str) -> Any:
        if type(value) is not kind:
            raise _wrong(kind, value, where)
        return value

    return reader


def _wrong(kind: Any, value: Any, where: str) -> ConfigurationError:
    shown = "" if kind is Secret else f", not {value!r}"
    return ConfigurationError(f"{where} must be {KIND_NAMES[kind]}{shown}")


def _whole(value: Any, where: str) -> int:
    if type(value) is not int:
        raise _wrong(int, value, where)
    return _in_64_bits(value, where)


def _number(value: Any, where: str) -> float:
    if type(value) not in {int, float}:
        raise _wrong(float, value, where)
    return float(_in_64_bits(value, where) if type(value) is int else value)


def _in_64_bits(value: int, where: str) -> int:
    """TOML guarantees 64 bits, and published documents could not hold more."""
    if value not in INTEGERS:
        raise ConfigurationError(f"{where} must be a number of 64 bits, not one of {value.bit_length()}")
    return value


def _duration(value: Any, where: str) -> float:
    match = re.fullmatch(r"(\d{1,9})([smhd])", value) if isinstance(value, str) else None
    if match is None:
        raise _wrong(Duration, value, where)
    return float(int(match[1]) * SECONDS[match[2]])


def _rate(value: Any, where: str) -> Rate:
    if value == "none":
        return Rate(0, 1)
    match = re.fullmatch(r"([1-9]\d{0,8})/(second|minute|hour)", value) if isinstance(value, str) else None
    if match is None:
        raise _wrong(Rate, value, where)
    return Rate(int(match[1]), SECONDS[match[2]])


def _secret(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise _wrong(Secret, value, where)
    if not value.startswith("env:"):
        return value
    name = value.removeprefix("env:")
    secret = os.environ.get(name)
    if not secret:
        raise ConfigurationError(f"{where} names the environment variable {name}, which is not set: set it")
    return secret


READERS: Mapping[Any, Callable[[Any, str], Any]] = {
    Any: lambda value, _: value,
    bool: _exactly(bool),
    int: _whole,
    str: _exactly(str),
    float: _number,
    Duration: _duration,
    Rate: _rate,
    Secret: _secret,
}
