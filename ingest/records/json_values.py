"""JSON values within bounds: parsed from JSON text, or converted from Python values as YAML and Parquet give them.

The input is untrusted: two bytes of JSON can take two hundred bytes of memory, and a few hundred bytes of YAML
aliases can stand for billions of values. Knows no document.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TypeAlias
from uuid import UUID

import orjson

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json
from aidre.ingest.records.dates import to_timestamp

Prepare: TypeAlias = Callable[[Any, str], Any]
"""Makes a value of a program one that can be converted; it takes the value and the name for messages."""

MAX_ROW_VALUES = 1_000_000
MAX_FILE_VALUES = 4_000_000
"""Values of one row and of one file, estimated as commas and opening brackets; no human writes more."""

_SMALL_BYTES = 1 << 20
"""JSON texts up to this size are parsed without counting."""

_COUNTED = (b",", b"[", b"{")

MAX_DEPTH = 100
MAX_CONVERTED_VALUES = 100_000
"""Nesting and values of one converted Python object."""

_NOT_FINITE = re.compile(rb"[\[:,\s](?:NaN|-?Infinity)\b")
"""NaN and Infinity, as Python writes them; other JSON readers refuse them, so they become null."""

MAX_INTEGER = (1 << 63) - 1
"""The greatest whole number of a field; the least is one further from zero."""


def parse_json(
    text: bytes, max_values: int = MAX_ROW_VALUES, cure: str = "split it", *, is_strict: bool = False
) -> Json:
    """Raises InvalidDocument; with `details["large"]` for a text beyond `max_values`, which may be valid JSON. NaN and
    infinity, which files have where a value is missing, are null unless `is_strict`."""
    if len(text) > _SMALL_BYTES and sum(map(text.count, _COUNTED)) > max_values:
        raise InvalidDocument(f"has more than {max_values:,} values (commas and brackets): {cure}", large=True)
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if _NOT_FINITE.search(text) is not None:
            if is_strict:
                raise InvalidDocument("malformed JSON: NaN and Infinity are not numbers: leave them out") from None
            with suppress(ValueError, RecursionError):
                return json.loads(text, parse_constant=lambda _: None)
        raise InvalidDocument(f"malformed JSON: {error}") from None


def to_json_value(value: Any, name: str, prepare: Prepare | None = None) -> Json:
    """Convert a Python value: dates become RFC 3339 strings, sets and tuples lists, non-finite numbers null; integers
    stay as they are (`find_integer_fault`).

    Each value, at every depth, passes through `prepare` first. Raises InvalidDocument, with `name` in the message, for
    a value that JSON cannot express or that exceeds the bounds.
    """
    return _convert(value, name, MAX_DEPTH, iter(range(MAX_CONVERTED_VALUES)), prepare)


def _convert(value: Any, name: str, depth: int, budget: Iterator[int], prepare: Prepare | None) -> Json:
    if depth == 0:
        raise InvalidDocument(f"{name} is nested too deep")
    if next(budget, None) is None:
        raise InvalidDocument(f"{name} has more than {MAX_CONVERTED_VALUES} values")
    if prepare is not None:
        value = prepare(value, name)
    convert = _CONVERSIONS.get(type(value))
    if convert is not None:
        return convert(value)
    if isinstance(value, dict):
        return {_convert_key(key): _convert(item, name, depth - 1, budget, prepare) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [_convert(item, name, depth - 1, budget, prepare) for item in value]
    raise InvalidDocument(f"{name} holds a value that JSON cannot express ({type(value).__name__})")


def _convert_key(key: Any) -> str:
    convert = _CONVERSIONS.get(type(key))
    if convert is None:
        raise InvalidDocument("a name must be a string")
    converted = convert(key)
    return converted if isinstance(converted, str) else orjson.dumps(converted).decode()


def _keep(value: Json) -> Json:
    return value


def find_integer_fault(value: Json, name: str) -> str | None:
    """The reason why a value cannot be stored that is, or has at some depth, an integer beyond MAX_INTEGER, which to a
    filter would be a float and so equal to its neighbours. None where it has none."""
    kind = type(value)
    if kind is int:
        fits = -MAX_INTEGER - 1 <= value <= MAX_INTEGER
        return None if fits else f"{name} is a whole number beyond 64 bits with a sign: write it as a string"
    if kind is list:
        return next(filter(None, (find_integer_fault(item, name) for item in value)), None)
    if kind is dict:
        items = (find_integer_fault(item, f"{name}.{key}") for key, item in value.items())
        return next(filter(None, items), None)
    return None


def _convert_float(value: float) -> Json:
    return value if math.isfinite(value) else None


_CONVERSIONS: dict[type, Callable[[Any], Json]] = {
    type(None): _keep,
    bool: _keep,
    str: _keep,
    int: _keep,
    float: _convert_float,
    datetime: to_timestamp,
    date: date.isoformat,
    time: time.isoformat,
    timedelta: timedelta.total_seconds,
    Decimal: lambda value: _convert_float(float(value)),
    UUID: str,
}
