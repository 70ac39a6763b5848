"""What does not fit a schema, `api/config/json_schema.py`, and how far it is looked for."""

from __future__ import annotations

from typing import Any

import pytest

from aidre.api.config.json_schema import schema_violation

ROOM: dict[str, Any] = {
    "$defs": {
        "room": {
            "oneOf": [
                {"properties": {"type": {"const": kind}, "parts": {"items": {"$ref": "#/$defs/room"}}}}
                for kind in ("room", "floor", "house")
            ]
        }
    },
    "properties": {"site": {"$ref": "#/$defs/room"}},
}


MANY = {"properties": {"a": {"anyOf": [{"type": "string"}, {"items": {"type": "string"}}]}}}


PARTS = {
    "$defs": {
        "order": {"anyOf": [{"type": "string"}, {"properties": {"parts": {"items": {"$ref": "#/$defs/part"}}}}]},
        "part": {"anyOf": [{"type": "string"}, {"required": ["name"]}]},
    },
    "properties": {"a": {"$ref": "#/$defs/order"}},
}
"""Whose references go in one direction."""


def rooms(levels: int) -> dict[str, Any]:
    """Rooms within rooms, of which the innermost is none."""
    found: dict[str, Any] = {"type": "shed"}
    for _ in range(levels):
        found = {"type": "house", "parts": [found]}
    return {"site": found}


@pytest.mark.parametrize(
    ("schema", "few", "many"),
    [
        (ROOM, rooms(1), rooms(8)),
        (MANY, {"a": [1]}, {"a": [1] * 9_999}),
        (PARTS, {"a": {"parts": [{"x": 1}] * 40}}, {"a": {"parts": [{"x": 1}] * 9_999}}),
    ],
)
def test_what_is_wrong_within_a_choice_is_looked_for_as_far_as_that_is_quick(
    schema: dict[str, Any], few: dict[str, Any], many: dict[str, Any]
) -> None:
    [member] = few
    assert str(schema_violation(schema, few, "data")).startswith(f"data.{member} does not fit its schema: ")
    assert schema_violation(schema, many, "data") == "data does not fit its schema"


def test_data_however_deep_or_long_that_fit_a_schema_with_choices_are_taken() -> None:
    deep: dict[str, Any] = {"type": "room"}
    for _ in range(100):
        deep = {"type": "house", "parts": [deep]}
    assert schema_violation(ROOM, {"site": deep}, "data") is None
    assert schema_violation(MANY, {"a": ["x"] * 9_999}, "data") is None
