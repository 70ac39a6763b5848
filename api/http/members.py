"""Typed members of a JSON object in a request. A member that is null counts as absent; a wrong type is BadRequest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aidre.api.http.errors import BadRequest

MIN_FLOAT_INTEGER = 2.0**64
"""orjson reads integers from this value on as floats."""


def text_member(body: Mapping[str, Any], name: str) -> str | None:
    value = body.get(name)
    if value is not None and type(value) is not str:
        raise BadRequest(f"{name} must be a string", member=name)
    return value


def object_member(body: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The object, empty if it is absent."""
    value = body.get(name)
    if value is None:
        return {}
    if type(value) is not dict:
        raise BadRequest(f"{name} must be an object", member=name)
    return value


def flag_member(body: Mapping[str, Any], name: str, default: bool, parent: str) -> bool:
    """A boolean; `parent` is the name of `body` in error messages."""
    value = body.get(name)
    if value is None:
        return default
    if type(value) is not bool:
        raise BadRequest(f"{parent}.{name} must be true or false", member=f"{parent}.{name}")
    return value


def positive_member(body: Mapping[str, Any], name: str) -> int | None:
    """An integer of at least 1, without an upper limit; 5.0 and "5" are refused."""
    value = body.get(name)
    if value is None:
        return None
    if type(value) is float and abs(value) >= MIN_FLOAT_INTEGER:
        value = int(value)
    if type(value) is not int or value < 1:
        raise BadRequest(f"{name} must be a whole number of at least 1", member=name)
    return value
