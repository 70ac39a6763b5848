"""Values of YAML and Parquet as JSON has them: dates as RFC 3339, sets and tuples as lists. Knows no document."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json

DEEPEST = 100
MOST_VALUES = 100_000
"""A few hundred bytes of YAML aliases can stand for billions of values."""

_LARGEST_INTEGER = (1 << 63) - 1


def plain(value: Any, name: str) -> Json:
    """The JSON form of a value; raises InvalidDocument, naming `name`, where it has none or is out of bounds."""
    return _plain(value, name, DEEPEST, iter(range(MOST_VALUES)))


def _plain(value: Any, name: str, depth: int, budget: Iterator[int]) -> Json:
    if depth == 0:
        raise InvalidDocument(f"{name} is nested too deep")
    if next(budget, None) is None:
        raise InvalidDocument(f"{name} has more than {MOST_VALUES} values")
    convert = _CONVERSIONS.get(type(value))
    if convert is not None:
        return convert(value)
    if isinstance(value, dict):
        return {_key(key): _plain(item, name, depth - 1, budget) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(item, name, depth - 1, budget) for item in value]
    raise InvalidDocument(f"{name} holds a value that JSON has not ({type(value).__name__})")


def _same(value: Json) -> Json:
    return value


def _integer(value: int) -> Json:
    """JSON numbers beyond 64 bits are floating point to every reader."""
    if -_LARGEST_INTEGER - 1 <= value <= _LARGEST_INTEGER:
        return value
    return float(value) if value.bit_length() < 1024 else None


def _float(value: float) -> Json:
    return value if math.isfinite(value) else None


def _datetime(value: datetime) -> str:
    if value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return value.isoformat() + "Z"


_CONVERSIONS: dict[type, Callable[[Any], Json]] = {
    type(None): _same,
    bool: _same,
    str: _same,
    int: _integer,
    float: _float,
    datetime: _datetime,
    date: date.isoformat,
    time: time.isoformat,
    timedelta: timedelta.total_seconds,
    Decimal: lambda value: _float(float(value)),
    UUID: str,
}


def _key(key: Any) -> str:
    convert = _CONVERSIONS.get(type(key))
    if convert is None:
        raise InvalidDocument("a name must be a string")
    converted = convert(key)
    return converted if isinstance(converted, str) else orjson.dumps(converted).decode()
