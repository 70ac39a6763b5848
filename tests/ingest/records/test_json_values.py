"""JSON values within bounds: what Python values become, and how much one text or object may hold."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from aidre.engine.errors import InvalidDocument
from aidre.ingest.records import json_values
from aidre.ingest.records.json_values import (
    MAX_CONVERTED_VALUES,
    MAX_DEPTH,
    find_integer_fault,
    parse_json,
    to_json_value,
)


@pytest.mark.parametrize(
    ("value", "converted"),
    [
        (None, None),
        (True, True),
        ("é", "é"),
        (1 << 62, 1 << 62),
        (1 << 64, 1 << 64),
        (float("nan"), None),
        (float("inf"), None),
        (Decimal("1.5"), 1.5),
        (Decimal("NaN"), None),
        (date(2026, 4, 1), "2026-04-01"),
        (time(10, 30), "10:30:00"),
        (timedelta(minutes=2), 120.0),
        (datetime(2026, 4, 1, 10), "2026-04-01T10:00:00Z"),
        (datetime(2026, 4, 1, 10, tzinfo=UTC), "2026-04-01T10:00:00Z"),
        (datetime(2026, 4, 1, 10, tzinfo=timezone(timedelta(hours=2))), "2026-04-01T08:00:00Z"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ((1, {"a": {2}}), [1, {"a": [2]}]),
        ({1: "a", None: "b", date(2026, 4, 1): "c"}, {"1": "a", "null": "b", "2026-04-01": "c"}),
    ],
)
def test_a_python_value_becomes_json(value: Any, converted: Any) -> None:
    assert to_json_value(value, "metadata") == converted


@pytest.mark.parametrize("value", [b"bytes", object(), 1j, [b"bytes"]])
def test_a_value_that_json_cannot_express_is_refused_by_name(value: Any) -> None:
    with pytest.raises(InvalidDocument, match=r"^metadata holds a value that JSON cannot express"):
        to_json_value(value, "metadata")


@pytest.mark.parametrize("value", [1 << 63, -(1 << 63) - 1, [1, [1 << 64]], {"a": {"b": 1 << 70}}])
def test_an_integer_beyond_those_of_a_field_is_found_at_any_depth(value: Any) -> None:
    assert "beyond 64 bits" in str(find_integer_fault({"n": value}, "metadata"))
    assert str(find_integer_fault({"n": value}, "metadata")).startswith("metadata.n")


def test_other_values_have_no_integer_beyond() -> None:
    values = [(1 << 63) - 1, -(1 << 63), 1e30, True, "x", None, [1, {"a": 2}]]
    assert find_integer_fault({"n": values}, "metadata") is None


def test_what_is_no_number_is_null_in_files_and_refused_elsewhere() -> None:
    assert parse_json(b'{"n": NaN, "m": [-Infinity]}') == {"n": None, "m": [None]}
    for text in (b'{"n": NaN}', b"[Infinity]", b'{"n": -Infinity}'):
        with pytest.raises(InvalidDocument, match="are not numbers"):
            parse_json(text, is_strict=True)
    assert parse_json(b'"NaN"', is_strict=True) == "NaN"


def test_a_name_must_be_a_scalar() -> None:
    with pytest.raises(InvalidDocument, match="a name must be a string"):
        to_json_value({(1, 2): 3}, "metadata")


def test_a_value_may_be_nested_to_a_depth() -> None:
    deep: Any = "x"
    for _ in range(MAX_DEPTH - 1):
        deep = [deep]
    to_json_value(deep, "metadata")
    with pytest.raises(InvalidDocument, match="metadata is nested too deep"):
        to_json_value([deep], "metadata")


def test_aliases_do_not_multiply_the_values_of_an_object() -> None:
    to_json_value([0] * (MAX_CONVERTED_VALUES - 1), "metadata")
    alias: Any = [0] * 100
    for _ in range(3):
        alias = [alias] * 100
    with pytest.raises(InvalidDocument, match=f"metadata has more than {MAX_CONVERTED_VALUES} values"):
        to_json_value(alias, "metadata")


@pytest.mark.parametrize("text", [b"", b"{", b"NaN", b'"\xff"', b"[1,]"])
def test_a_text_that_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidDocument, match=r"^malformed JSON: ") as caught:
        parse_json(text)
    assert "large" not in caught.value.details


def test_a_large_text_of_too_many_values_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_values, "_SMALL_BYTES", 10)
    assert parse_json(b"[1,2,3,4,5]", 5) == [1, 2, 3, 4, 5]
    with pytest.raises(InvalidDocument, match=r"has more than 5 values \(commas and brackets\): divide it") as caught:
        parse_json(b"[1,2,3,4,5,6", 5, "divide it")
    assert caught.value.details["large"]
