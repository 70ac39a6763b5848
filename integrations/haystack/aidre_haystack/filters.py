"""Haystack's filters: those that aidre evaluates over its columns, and the others, which Haystack evaluates itself."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from haystack.errors import FilterError

from aidre_haystack.documents import RESERVED, WITHOUT

LOGICAL = {"AND", "OR", "NOT"}
COMPARED = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
OPERATORS = {"==", "!=", "in", "not in", *COMPARED}
ALL = {"document_id": {"exists": True}}
NONE = {"document_id": {"exists": False}}


def check(filters: dict[str, Any]) -> None:
    """FilterError for a filter that is malformed, whatever the documents are."""
    if "field" in filters:
        _check_comparison(filters)
        return
    operator = filters.get("operator")
    if operator is None or "conditions" not in filters:
        raise FilterError(f"'operator' or 'conditions' is missing in {filters}")
    if operator not in LOGICAL:
        raise FilterError(f"unknown logical operator {operator!r}: use one of {sorted(LOGICAL)}")
    for condition in filters["conditions"]:
        if "field" not in condition and "conditions" not in condition:
            raise FilterError(f"'field' is missing in {condition}")
        check(condition)


def _check_comparison(condition: dict[str, Any]) -> None:
    for name in ("operator", "value"):
        if name not in condition:
            raise FilterError(f"{name!r} is missing in {condition}")
    operator, value = condition["operator"], condition["value"]
    if operator not in OPERATORS:
        raise FilterError(f"unknown comparison operator {operator!r}: use one of {sorted(OPERATORS)}")
    if operator in {"in", "not in"} and not isinstance(value, list):
        raise FilterError(f"the value of {operator!r} must be a list, not {type(value).__name__}")
    if operator in COMPARED and isinstance(value, list):
        raise FilterError(f"the value of {operator!r} can be no list")
    if operator in COMPARED and isinstance(value, str) and not _is_date(value):
        raise FilterError(f"{operator!r} compares numbers and dates, and {value!r} is neither")


def translate(filters: dict[str, Any]) -> dict[str, Any] | None:
    """The filter of aidre that passes the same documents; None where it has none."""
    if "field" in filters:
        return _comparison(str(filters["field"]), filters["operator"], filters["value"])
    parts = [translate(condition) for condition in filters["conditions"]]
    if any(part is None for part in parts):
        return None
    if filters["operator"] == "OR":
        return {"or": parts} if parts else NONE
    both = {"and": parts} if parts else ALL
    return {"not": both} if filters["operator"] == "NOT" else both


def _comparison(field: str, operator: str, value: Any) -> dict[str, Any] | None:
    name = _field(field)
    if name is None:
        return None
    if operator in COMPARED:
        if value is None:
            return NONE
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return {name: {COMPARED[operator]: value}} if is_number else None
    if operator in {"in", "not in"}:
        found = [_equal(name, one) for one in value]
        if any(one is None for one in found):
            return None
        either: dict[str, Any] = {"or": found} if found else NONE
        return {"not": either} if operator == "not in" else either
    same = _equal(name, value)
    return {"not": same} if same is not None and operator == "!=" else same


def _equal(name: str, value: Any) -> dict[str, Any] | None:
    """Values that Python takes for equal and aidre does not, or the other way round, are left to Haystack."""
    if value is None:
        return {name: {"exists": False}}
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, str) and _is_date(value):
        return None
    if not isinstance(value, str) and value in {0, 1}:
        return None  # equal to False and True
    return {name: {"eq": value}}


def _field(field: str) -> str | None:
    """The field of aidre: the id, or a member of the metadata that is not an object's."""
    if field == "id":
        return "document_id"
    name = field.removeprefix("meta.")
    plain = "." not in name and name not in RESERVED and name != WITHOUT
    return f"metadata.{name}" if plain and field.startswith("meta.") else None


def _is_date(value: str) -> bool:
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True
