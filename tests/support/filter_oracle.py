"""Brute force: which documents pass a filter in its JSON form, and which of them are nearest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

DATES: Final = ("day",)
"""The fields that the collections of these tests declare as dates."""


def kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, int | float) else "text"


def passes(metadata: Mapping[str, Any], written: Mapping[str, Any]) -> bool:
    """Whether a document with this metadata passes."""
    return all(_member(metadata, key, value) for key, value in written.items())


def _member(metadata: Mapping[str, Any], key: str, value: Any) -> bool:
    if key == "not":
        return not passes(metadata, value)
    if key in {"and", "or"}:
        return (all if key == "and" else any)([passes(metadata, one) for one in value])
    operators = value if isinstance(value, dict) else {"eq": value}
    return all(_compared(metadata, key, op, operand) for op, operand in operators.items())


def _compared(metadata: Mapping[str, Any], name: str, op: str, operand: Any) -> bool:
    stored = metadata.get(name)
    values: Sequence[Any] = stored if isinstance(stored, list) else [] if stored is None else [stored]
    match op:
        case "exists":
            return bool(bool(values) == operand)
        case "ne":
            return not _compared(metadata, name, "eq", operand)
        case "in":
            return any(_compared(metadata, name, "eq", one) for one in operand)
        case "nin":
            return not _compared(metadata, name, "in", operand)
        case "contains" if isinstance(operand, str):
            return any(isinstance(one, str) and operand in one for one in values)
    return any(_ordered(one, "eq" if op == "contains" else op, operand, is_date=name in DATES) for one in values)


def _ordered(value: Any, op: str, operand: Any, *, is_date: bool) -> bool:
    if is_date:
        found = _instant(value)
        if found is None:
            return False
        value, operand = found, _instant(operand)
    elif kind_of(value) != kind_of(operand):
        return False
    elif isinstance(value, str):
        value, operand = value.encode("utf-8", "surrogatepass"), operand.encode("utf-8", "surrogatepass")
    match op:
        case "gt":
            return bool(value > operand)
        case "gte":
            return bool(value >= operand)
        case "lt":
            return bool(value < operand)
        case "lte":
            return bool(value <= operand)
    return bool(value == operand)


def _instant(value: Any) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
