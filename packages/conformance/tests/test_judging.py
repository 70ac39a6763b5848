"""How a check judges, `aidre_conformance/judging.py`."""

from __future__ import annotations

import pytest

from aidre_conformance import Failed, expect_shape, is_timestamp, shape_problem, shown


@pytest.mark.parametrize(
    ("value", "holds"),
    [
        ("2026-04-01T10:00:00Z", True),
        ("2026-04-01T10:00:00.123+02:00", True),
        ("2026-04-01t10:00:00z", True),
        ("2026-04-01", False),
        ("2026-04-01T10:00:00", False),
        ("2026-13-01T10:00:00Z", False),
        ("yesterday", False),
        (1_775_000_000, False),
        (None, False),
    ],
)
def test_a_timestamp_is_that_of_rfc_3339(value: object, holds: bool) -> None:
    assert is_timestamp(value) is holds


def test_a_shape_is_refused_with_the_name_of_its_member() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}}
    assert shape_problem({"a": [1, 2]}, schema) is None
    with pytest.raises(Failed, match=r'^body\.a\[1\]: "x" is not of type "integer"$'):
        expect_shape({"a": [1, "x"]}, schema, "body")


def test_formats_are_checked() -> None:
    assert shape_problem("x", {"type": "string", "format": "uri"}) is not None
    assert shape_problem("https://x.example/", {"type": "string", "format": "uri"}) is None


def test_what_is_shown_is_short_and_steers_no_terminal() -> None:
    assert shown("a\x1b[31mb") == '"a\\u001b[31mb"'
    assert len(shown("x" * 10_000)) < 400
    assert shown({1, 2}).startswith("{")
