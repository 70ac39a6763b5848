"""One gate for values: a Python value means the same in a mapping, a table and a filter, or is refused by name."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest

import aidre

MINE = aidre.EmbeddingSpace("mine", 2, "cosine")
NOON = datetime(2026, 4, 1, 12, tzinfo=UTC)
HALF = NOON + timedelta(milliseconds=500)
ELSEWHERE = timezone(timedelta(hours=5))


@pytest.fixture
def rows(db: aidre.Database) -> aidre.Collection:
    return db.collection("rows", space=MINE)


def add(rows: aidre.Collection, *values: Any) -> None:
    rows.add([{"id": str(n), "text": "x", "v": v} for n, v in enumerate(values)], vectors=np.ones((len(values), 2)))


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (NOON, "2026-04-01T12:00:00Z"),
        (HALF.astimezone(ELSEWHERE), "2026-04-01T12:00:00.500000Z"),
        (date(2026, 4, 1), "2026-04-01"),
        (np.datetime64("2026-04-01"), "2026-04-01"),
        (UUID(int=7), str(UUID(int=7))),
        (Decimal("19.99"), 19.99),
        (np.int64(3), 3),
        (np.float32(0.5), 0.5),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        (PurePosixPath("a/b"), "a/b"),
        (-(2**63), -(2**63)),
        (2**63 - 1, 2**63 - 1),
        (timedelta(seconds=3), 3.0),
    ],
)
def test_a_value_finds_itself(rows: aidre.Collection, value: Any, stored: Any) -> None:
    add(rows, value, "other")
    assert rows["0"].metadata == {"v": stored}
    for filter in ({"v": value}, {"v": {"in": (value,)}}, {"v": {"in": [value]}}, {"not": {"v": {"ne": value}}}):
        assert rows.count(filter) == 1
    for filter in ({"v": {"ne": value}}, {"v": {"nin": [value]}}):
        assert [one.id for one in rows.scan(filter)] == ["1"]


def test_times_are_instants_in_filters(rows: aidre.Collection) -> None:
    add(rows, NOON, HALF, HALF + timedelta(microseconds=1), date(2026, 4, 2))
    for filter, expected in (
        ({"gt": NOON}, "123"),
        ({"gte": HALF, "lt": date(2026, 4, 2)}, "12"),
        ({"lte": HALF.astimezone(ELSEWHERE)}, "01"),
        ({"eq": datetime(2026, 4, 2, tzinfo=UTC)}, "3"),
        ({"in": {NOON, date(2026, 4, 2)}}, "03"),
        ({"gt": np.datetime64("2026-04-01")}, "0123"),
    ):
        assert "".join(one.id for one in rows.scan({"v": filter})) == expected
    request = aidre.FacetRequest("v", ranges=[(NOON, HALF), (HALF, None)])  # type: ignore[list-item]
    assert rows.search(vector=[1, 0], facets=request).facets["v"].ranges == (1, 3)


def test_tuples_sets_and_arrays_are_lists_in_filters(rows: aidre.Collection) -> None:
    add(rows, {"x", "y"}, frozenset(["z"]), ("x",), np.array(["w"]))
    assert rows["3"].metadata == {"v": ["w"]}
    for several, count in ((("x", "z"), 3), ({"z"}, 1), (frozenset(["w", "x"]), 3), (np.array(["z"]), 1), ((), 0)):
        assert rows.count({"v": {"in": several}}) == count
    assert rows.count({"and": ({"v": "x"}, {"v": "y"})}) == 1


def test_a_declared_date_makes_instants_of_strings(db: aidre.Database) -> None:
    rows = db.collection("dated", space=MINE, dates=["v"])
    add(rows, "2026-04-01T12:00:00.5Z", "2026-04-01T12:00:00Z")
    for again in (rows, db.collection("dated")):
        assert [one.id for one in again.scan({"v": {"gt": "2026-04-01T14:00:00+02:00"}})] == ["0"]
    with pytest.raises(aidre.InvalidFilter, match="must be a date"):
        rows.count({"v": "some day"})
    assert rows.reader is not None and rows.reader.dates == ("v",)
    with pytest.raises(aidre.InvalidInput, match="dates is a list"):
        db.collection("dated", dates="v")


WRONG: list[tuple[Any, str]] = [
    (math.nan, "not a finite number"),
    (-math.inf, "not a finite number"),
    (np.float32("nan"), "not a finite number"),
    ([1.0, math.inf], "not a finite number"),
    ({"deep": [math.nan]}, "not a finite number"),
    (np.array([1, math.nan]), "not a finite number"),
    (Decimal("NaN"), "not a finite number"),
    (Decimal("1e999"), "not a finite number"),
    (Decimal("0.10000000000000000001"), "more digits"),
    (2**63, "beyond 64 bits"),
    (-(2**63) - 1, "beyond 64 bits"),
    (10**400, "beyond 64 bits"),
    (np.uint64(2**64 - 1), "beyond 64 bits"),
    ([[2**64]], "beyond 64 bits"),
    (np.datetime64("NaT"), "no time"),
    (datetime(2026, 4, 1), "without a zone"),
    (np.datetime64("2026-04-01T10:00"), "without a zone"),
    ("a \ud800", "surrogate"),
    ({"\ud800": 1}, "surrogate"),
    (b"bytes", "bytes"),
    (1j, "complex"),
]


@pytest.mark.parametrize(("value", "words"), WRONG)
def test_what_cannot_be_kept_is_refused_by_name_and_nothing_is_stored(
    rows: aidre.Collection, value: Any, words: str
) -> None:
    for count in (1, 100):
        with pytest.raises(aidre.InvalidDocument, match=f"document {count - 1}: v .*{words}") as caught:
            add(rows, *[1] * (count - 1), value)
        assert caught.value.details == {"row": count - 1}
    rows.add({"id": "a", "text": "x"}, vectors=np.ones((1, 2)))
    with pytest.raises(aidre.InvalidDocument, match=f"^v .*{words}"):
        rows.patch({"a": {"v": value}})
    assert (len(rows), rows["a"].metadata) == (1, {})


def columns() -> Iterator[tuple[Any, str]]:
    yield pa.array([1.0, math.nan]), "not a finite number"
    yield pa.array([np.float16(1), np.float16("inf")], pa.float16()), "not a finite number"
    yield pa.array([1, 2**63], pa.uint64()), "beyond 64 bits"
    yield pa.array([[1.0], [2.0, math.nan]]), "not a finite number"
    yield pa.array([[1, 2], [3, 2**64 - 1]], pa.list_(pa.uint64(), 2)), "beyond 64 bits"
    yield pa.array([{"a": 1.0}, {"a": math.inf}]), "not a finite number"
    yield pa.array([1.0, math.nan]).dictionary_encode(), "not a finite number"
    yield pa.array([Decimal("1.00"), Decimal("0.10000000000000000001")]), "more digits"


@pytest.mark.parametrize(("column", "words"), list(columns()))
def test_a_table_is_refused_alike_however_many_rows_it_has(rows: aidre.Collection, column: Any, words: str) -> None:
    for times in (1, 50):
        table = pa.concat_tables([pa.table({"text": ["x", "y"], "v": column})] * times)
        with pytest.raises(aidre.InvalidDocument, match=f"document 1: v .*{words}"):
            rows.add(table, vectors=np.ones((2 * times, 2)))
    assert len(rows) == 0


def test_an_id_may_be_a_number_of_any_size(rows: aidre.Collection) -> None:
    rows.add([{"id": 2**64, "text": "x"}], vectors=np.ones((1, 2)))
    rows.add(pa.table({"id": pa.array([2**64 - 1], pa.uint64()), "text": ["x"]}), vectors=np.ones((1, 2)))
    assert sorted(one.id for one in rows.scan()) == [str(2**64 - 1), str(2**64)]


def test_a_table_that_is_broken_is_refused_with_the_name_of_its_column(rows: aidre.Collection) -> None:
    class Frame:
        """As pandas has it: a column of objects that Arrow has no type for."""

        columns = ("text", "v")

        def __arrow_c_stream__(self, schema: object = None) -> object:
            raise pa.ArrowInvalid("Could not convert <object> with type object\nmore")

        def __getitem__(self, name: str) -> list[Any]:
            return ["x"] if name == "text" else [object()]

    with pytest.raises(aidre.InvalidDocument, match="cannot be read at column 'v': ") as caught:
        rows.add(Frame(), vectors=np.ones((1, 2)))
    assert "\n" not in caught.value.message
    not_utf_8 = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])
    with pytest.raises(aidre.InvalidDocument, match="document 0: v is not UTF-8"):
        rows.add(pa.table({"text": ["x"], "v": not_utf_8}), vectors=np.ones((1, 2)))


@pytest.mark.parametrize(("member", "value"), [("dimensions", 3), ("distance", "dot")])
def test_a_declaration_that_contradicts_what_is_stored_is_refused_on_reading(
    db: aidre.Database, rows: aidre.Collection, member: str, value: Any
) -> None:
    add(rows, 1)
    other = db.collection(
        "rows", space=aidre.EmbeddingSpace(**{"id": "mine", "dimensions": 2, "distance": "cosine", member: value})
    )
    for verb in (
        lambda: other.search(vector=[1, 0]),
        lambda: len(other),
        lambda: other.get(["0"]),
        other.count,
    ):
        with pytest.raises(aidre.SpaceConflict, match=f"has {member}"):
            verb()
    assert len(db.collection("rows", space=MINE)) == 1
