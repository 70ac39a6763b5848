"""Values of a program as a document holds them, `aidre/library/conversion.py`."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest

import aidre


def test_values_of_a_program_become_json_at_any_depth(docs: aidre.Collection) -> None:
    zone = timezone(timedelta(hours=2))
    docs.add(
        {
            "id": "a",
            "text": "x",
            "updated_at": datetime(2026, 4, 1, 2, tzinfo=zone),
            "when": datetime(2026, 4, 1, 12, 0, 0, 500_000, tzinfo=zone),
            "day": date(2026, 4, 1),
            "uuid": UUID(int=1),
            "price": Decimal("19.99"),
            "path": Path("a/b.txt"),
            "deep": {"n": [np.int64(3), {"f": np.float32(0.5)}, np.array([[True]])], "set": {np.str_("s")}},
            "days": np.array(["2026-04-01", "2026-04-02"], "datetime64[D]"),
            "none": [None, {"deep": None}],
        }
    )
    assert docs["a"].updated_at == "2026-04-01T00:00:00Z"
    assert docs["a"].metadata == {
        "when": "2026-04-01T10:00:00.500000Z",
        "day": "2026-04-01",
        "uuid": "00000000-0000-0000-0000-000000000001",
        "price": 19.99,
        "path": "a/b.txt",
        "deep": {"n": [3, {"f": 0.5}, [[True]]], "set": ["s"]},
        "days": ["2026-04-01", "2026-04-02"],
        "none": [None, {"deep": None}],
    }
    docs.patch({"a": {"when": [datetime(2027, 1, 1, tzinfo=UTC)], "uuid": None}})
    assert docs.count({"when": "2027-01-01T00:00:00Z"}) == 1


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (datetime(2026, 4, 1), "when is a time without a zone: give it one"),
        ([{"deep": datetime(2026, 4, 1)}], "when is a time without a zone"),
        (np.datetime64("2026-04-01T10:00"), "when is a time without a zone"),
        (np.array(["2026-04-01T10:00"], "datetime64[ns]"), "when is a time without a zone"),
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=2))), "when is not a date of the calendar in UTC"),
        (np.timedelta64(5, "s"), "when is a span of time"),
        (b"bytes", "when holds a value that JSON cannot express"),
    ],
)
def test_a_value_that_would_lose_its_meaning_is_refused_by_name(docs: aidre.Collection, value: Any, words: str) -> None:
    with pytest.raises(aidre.InvalidDocument, match=f"document 0: {words}"):
        docs.add({"text": "x", "when": value})
    assert len(docs) == 0


def test_a_list_that_holds_itself_is_refused(docs: aidre.Collection) -> None:
    endless: list[Any] = []
    endless += [endless, endless]
    with pytest.raises(aidre.InvalidDocument, match="when is nested too deep"):
        docs.add({"text": "x", "when": endless})


def test_times_of_a_table_without_a_zone_are_in_utc(docs: aidre.Collection) -> None:
    times = pa.array([datetime(2026, 4, 1, 10)], pa.timestamp("us"))
    docs.add(pa.table({"id": ["a"], "text": ["one"], "when": times, "zoned": times.cast(pa.timestamp("us", "UTC"))}))
    assert docs["a"].metadata == {"when": "2026-04-01T10:00:00Z", "zoned": "2026-04-01T10:00:00Z"}


def test_a_document_with_a_long_table_comes_back_with_the_names_of_its_columns_once(docs: aidre.Collection) -> None:
    rows = "\n".join(f"| part {number} of the pump | {number} EUR | hall {number % 5} |" for number in range(80))
    text = f"Prices of parts\n\n| article | net price | store |\n|---|---|---|\n{rows}\n\nAll prices are net."
    docs.add({"id": "prices", "text": text})
    stored = list(docs.scan({"id": "prices"}))
    assert docs["prices"].text == text and stored[0].text == text
    hits = docs.search("part 70 of the pump", mode="lexical", k=1)
    assert hits[0].chunk.text.startswith("Prices of parts\n\n| article | net price | store |\n|---|---|---|\n| part")
