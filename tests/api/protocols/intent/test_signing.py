"""The times that requests are signed with, `api/protocols/intent/signing.py`."""

from __future__ import annotations

import pytest

from aidre.api.protocols.intent.signing import parse_rfc3339


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("1970-01-01T00:00:01Z", 1.0),
        ("1970-01-01t00:00:01.25z", 1.25),
        ("1970-01-01T02:00:01+02:00", 1.0),
        ("2016-12-31T23:59:60Z", 1_483_228_800.0),
        ("1970-01-01T00:00:01", None),
        ("1970-01-01 00:00:01Z", None),
        ("1970-02-30T00:00:01Z", None),
        ("1970-01-01T25:00:01Z", None),
        ("1970-01-01T00:00:01+24:00", None),
        ("9999-12-31T23:59:59Z", 253_402_300_799.0),
        ("0000-01-01T00:00:00Z", None),
        ("٢٠٢٦-01-01T00:00:01Z", None),
        ("1970-01-01T00:00:01Z\n", None),
    ],
)
def test_instants_are_those_of_rfc_3339(text: str, instant: float | None) -> None:
    assert parse_rfc3339(text) == instant
