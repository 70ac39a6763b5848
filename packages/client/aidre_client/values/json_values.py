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

MAX_DEPTH = 100
"""Nesting of a value."""


def to_json(value: Any, name: str, depth: int = MAX_DEPTH) -> Json:
    """Times with a zone become RFC 3339 in UTC, dates, UUIDs and paths strings, Decimals and scalars of numpy numbers,
    sets, tuples and arrays lists, at any depth."""
    if depth == 0:
        raise InvalidDocument(f"{name} is nested too deep")
    if isinstance(value, Mapping):
        return {_key(key, name): to_json(one, name, depth - 1) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json(one, name, depth - 1) for one in value]
    if type(value).__module__ == "numpy":
        return _of_numpy(value, name, depth)
    for kinds, convert in _SCALARS:
        if isinstance(value, kinds):
            return convert(value, name)
    raise InvalidDocument(f"{name} holds a value that JSON cannot express ({type(value).__name__})")


def to_json_filter(filter: Any) -> Json:
    """A filter with its values as metadata have them. InvalidFilter."""
    try:
        return to_json(filter, "filter")
    except InvalidDocument as error:
        raise InvalidFilter(error.message) from None


def _key(key: Any, name: str) -> str:
    if not isinstance(key, str):
        raise InvalidDocument(f"a name in {name} must be a string, not {type(key).__name__}")
    return key


def _of_numpy(value: Any, name: str, depth: int) -> Json:
    """datetime64 counts in days and more as a date, else as a time without a zone; timedelta64 has no unit in JSON."""
    kind = value.dtype.kind
    if kind == "m":
        raise InvalidDocument(f"{name} is a span of time: write a number of seconds")
    if kind == "M" and value.ndim == 0:
        unit = str(value.dtype).partition("[")[2].rstrip("]")
        return to_json(value.astype("datetime64[D]" if unit in {"Y", "M", "W", "D"} else "datetime64[us]").item(), name)
    listed = list(value) if kind == "M" else value.tolist()
    return to_json(listed, name, depth - 1)


def _of_datetime(value: datetime, name: str) -> str:
    """A time without a zone is refused: `datetime.now()` is a local one, and nothing that is stored would say so."""
    if value.tzinfo is None:
        raise InvalidDocument(f"{name} is a time without a zone: give it one, as in datetime.now(timezone.utc)")
    try:
        return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"
    except OverflowError:
        raise InvalidDocument(f"{name} is no date of the calendar in UTC: {value.isoformat()}") from None


_SCALARS: Sequence[tuple[tuple[type, ...], Callable[[Any, str], Json]]] = (
    ((type(None), bool, str, int), lambda value, _: value),
    ((float, Decimal), lambda value, _: float(value) if math.isfinite(value) else None),
    ((datetime,), _of_datetime),
    ((date, time), lambda value, _: value.isoformat()),
    ((timedelta,), lambda value, _: value.total_seconds()),
    ((UUID, PurePath), lambda value, _: str(value)),
)
"""By type how a value is written; of two that fit, the first."""
