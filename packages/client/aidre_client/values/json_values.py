"""Values of a program as JSON, without numpy: the rules of the library's metadata. InvalidDocument names the value."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import Any
from uuid import UUID

from aidre_client.errors import InvalidDocument, InvalidFilter
from aidre_client.values.model import Json

MAX_INTEGER = (1 << 63) - 1
MAX_DEPTH = 100
"""Nesting of a value."""


def to_json(value: Any, name: str, depth: int = MAX_DEPTH) -> Json:
    """Times with a zone become RFC 3339 in UTC, dates, UUIDs and paths strings, Decimals and scalars of numpy numbers,
    sets, tuples and arrays lists, at any depth. What JSON would change or lose is refused."""
    if depth == 0:
        raise InvalidDocument(f"{name} is nested too deep")
    if isinstance(value, Mapping):
        return {_key(key, name): to_json(item, name, depth - 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json(item, name, depth - 1) for item in value]
    if type(value).__module__ == "numpy":
        return _of_numpy(value, name, depth)
    for kinds, convert in _SCALARS:
        if isinstance(value, kinds):
            return convert(value, name)
    raise InvalidDocument(f"{name} holds a value that JSON cannot express ({type(value).__name__})")


def to_json_filter(filter: Any) -> Json:
    """A filter with its values as metadata have them. InvalidFilter."""
    if not isinstance(filter, Mapping):
        raise InvalidFilter(f'filter must be a mapping such as {{"price": 3}}, not {type(filter).__name__}')
    try:
        return to_json(filter, "filter")
    except InvalidDocument as error:
        raise InvalidFilter(error.message) from None


def _key(key: Any, name: str) -> str:
    if not isinstance(key, str):
        raise InvalidDocument(f"a name in {name} must be a string, not {type(key).__name__}")
    return _checked_text(key, name)


def _of_numpy(value: Any, name: str, depth: int) -> Json:
    """datetime64 counts in days and more as a date, else as a time without a zone; timedelta64 has no unit in JSON."""
    kind = value.dtype.kind
    if kind == "m":
        raise InvalidDocument(f"{name} is a span of time: write a number of seconds")
    if kind == "M" and value.ndim == 0:
        if value != value:  # noqa: PLR0124 - NaT
            raise InvalidDocument(f"{name} is no time (NaT): leave it out")
        unit = str(value.dtype).partition("[")[2].rstrip("]")
        return to_json(value.astype("datetime64[D]" if unit in {"Y", "M", "W", "D"} else "datetime64[us]").item(), name)
    listed = list(value) if kind == "M" else value.tolist()
    return to_json(listed, name, depth - 1)


def _checked_text(text: str, name: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidDocument(f"{name} has half a surrogate pair, which no encoding writes: remove it") from None
    return str(text)


def _to_number(value: float | Decimal, name: str) -> int | float:
    """The number that JSON has for it, which is the same."""
    if isinstance(value, int):
        if not -MAX_INTEGER - 1 <= value <= MAX_INTEGER:
            raise InvalidDocument(f"{name} is a whole number beyond 64 bits with a sign: write it as a string")
        return int(value)
    if not math.isfinite(value):
        raise InvalidDocument(f"{name} is not a finite number: leave it out")
    nearest = float(value)
    if isinstance(value, Decimal) and Decimal(repr(nearest)) != value:
        raise InvalidDocument(f"{name} is a Decimal with more digits than a number has: write it as a string")
    return nearest


def _of_datetime(value: datetime, name: str) -> str:
    """A time without a zone is refused: `datetime.now()` is a local one, and nothing that is stored would say so."""
    if value.tzinfo is None:
        raise InvalidDocument(f"{name} is a time without a zone: give it one, as in datetime.now(timezone.utc)")
    try:
        return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"
    except OverflowError:
        raise InvalidDocument(f"{name} is not a date of the calendar in UTC: {value.isoformat()}") from None


_SCALARS: Sequence[tuple[tuple[type, ...], Callable[[Any, str], Json]]] = (
    ((type(None), bool), lambda value, _: value),
    ((str,), _checked_text),
    ((int, float, Decimal), _to_number),
    ((datetime,), _of_datetime),
    ((date, time), lambda value, _: value.isoformat()),
    ((timedelta,), lambda value, _: value.total_seconds()),
    ((UUID, PurePath), lambda value, _: str(value)),
)
"""By type how a value is written; of two that fit, the first."""
