"""Dates in other forms than RFC 3339: read where they have one meaning."""

from __future__ import annotations

import pytest

from aidre.engine.model import Json
from aidre.ingest.records.dates import read_date

MAY = "2024-05-01T00:00:00Z"


@pytest.mark.parametrize(
    "value",
    ["2024-05-01", "2024-5-1", "2024/05/01", "2024.5.1", "20240501", 20240501, "May 1, 2024", "May 1st, 2024",
     "1 May 2024", "1st of May 2024", "01-May-2024", "2024-May-01", "Wednesday, May 1, 2024", "1. May 2024",
     "01.05.2024", "1. 5. 2024", 1714521600, 1714521600.5, 1714521600000, "1714521600", "1714521600000",
     "Wed, 01 May 2024 00:00:00 GMT", "Wed, 1 May 2024 02:00:00 +0200", "Wed May  1 00:00:00 2024",
     "Wed May 01 2024 02:00:00 GMT+0200 (Central European Summer Time)", "20240501T000000Z", "2024-05-01 12:00 AM",
     "Tue, 30 Apr 2024 19:00 EST", " 2024-05-01\n", "2024-5-1 0:00"],
)  # fmt: skip
def test_a_date_with_one_meaning_is_read(value: Json) -> None:
    assert read_date(value) == MAY


@pytest.mark.parametrize(
    "value",
    ["05/06/2024", "5-6-2024", "soon", "2024", 2024, "2024-05", "May 2024", "2024-13-40", "May 32, 2024", "31.02.2024",
     "2024-W18-3", "", "  ", None, True, [], {}, -5, 12, 1e30, float("nan"), float("inf"), "9" * 5000, "1/1/24",
     "Octember 1, 2024", "2024-05-01 25:00", "0000-00-00", "13:00"],
)  # fmt: skip
def test_what_is_no_date_or_could_be_two_is_none(value: Json) -> None:
    assert read_date(value) is None


@pytest.mark.parametrize(
    ("value", "read_as"), [("25/12/2024", "2024-12-25"), ("12/25/2024", "2024-12-25"), ("5/5/2024", "2024-05-05")]
)
def test_a_date_between_slashes_is_read_where_one_number_cannot_be_the_month(value: str, read_as: str) -> None:
    assert read_date(value) == f"{read_as}T00:00:00Z"
