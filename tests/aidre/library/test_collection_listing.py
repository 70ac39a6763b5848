"""Documents by `limit`, `offset` and `order_by`: what comes, in which order, and that pages have each document once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import aidre
from aidre.engine.listing import ListingOrder, to_order
from aidre.library.asynchronous import AsyncDatabase
from tests.aidre.library.conftest import SMALL, letters

ROWS: list[dict[str, Any]] = [
    {"id": "a", "text": "one", "price": 3, "when": "2026-04-01T10:00:00.5Z", "size": {"cm": 9}},
    {"id": "b", "text": "two", "price": 1.5, "when": "2026-04-01T10:00:00Z", "tags": ["x", "y"]},
    {"id": "c", "text": "three", "price": 3, "title": "Third", "size": {"cm": 10}},
    {"id": "d", "text": "four", "price": "free", "when": "2026-04-01T11:00:00+02:00"},
    {"id": "e", "text": "five", "tags": []},
]


@pytest.fixture
def rows(docs: aidre.Collection) -> aidre.Collection:
    docs.add(ROWS)
    return docs


def ids(collection: aidre.Collection, **asked: Any) -> str:
    return "".join(document.id for document in collection.get(**asked))


@pytest.mark.parametrize(
    ("order_by", "expected"),
    [
        (None, "abcde"),
        ("id", "abcde"),
        ("-id", "edcba"),
        ("price", "bacde"),
        ("-price", "dacbe"),
        (["price", "-id"], "bcade"),
        ("when", "dbace"),
        ("-size.cm", "cabde"),
        ("title", "cabde"),
        ("tags", "bacde"),
        ("nothing", "abcde"),
    ],
)
def test_documents_come_in_the_order_of_fields(rows: aidre.Collection, order_by: Any, expected: str) -> None:
    assert ids(rows, order_by=order_by) == expected
    assert "".join(ids(rows, order_by=order_by, limit=2, offset=offset) for offset in (0, 2, 4)) == expected


def test_limits_hold_for_ids_and_for_a_filter(rows: aidre.Collection) -> None:
    assert [one and one.id for one in rows.get(["c", "none", "a"], limit=2)] == ["c", None]
    assert [one and one.id for one in rows.get(["c", "none", "a"], offset=2)] == ["a"]
    assert ids(rows, filter={"price": 3}, offset=1) == "c"
    assert [row["id"] for row in rows.scan(fields=["price"], limit=1, order_by="-price")] == ["d"]
    assert ids(rows, offset=9) == ""


def test_a_listing_of_a_collection_that_does_not_exist_is_empty(db: aidre.Database) -> None:
    assert db.collection("none").get(limit=3, order_by="price") == []


@pytest.mark.parametrize("order_by", [3, "", "-", ["price", 1], {"price": "asc"}])
def test_an_order_that_is_none_is_refused(rows: aidre.Collection, order_by: Any) -> None:
    with pytest.raises(aidre.InvalidInput, match="order_by"):
        rows.get(order_by=order_by)


@pytest.mark.parametrize(("name", "value"), [("limit", 0), ("limit", 1.5), ("offset", -1), ("offset", None)])
def test_limits_out_of_range_are_refused(rows: aidre.Collection, name: str, value: Any) -> None:
    for verb in (rows.get, rows.scan):
        with pytest.raises(aidre.InvalidInput, match=name):
            list(verb(**{name: value}))


def test_ids_and_a_filter_are_not_taken_together(rows: aidre.Collection) -> None:
    untyped: Any = rows
    for wrong in ({"filter": {"price": 3}}, {"order_by": "price"}):
        with pytest.raises(aidre.InvalidInput, match="not both"):
            untyped.get(["a"], **wrong)


def test_a_minus_means_descending() -> None:
    assert to_order(["a", "-b"]) == (ListingOrder("a", False), ListingOrder("b", True))


def test_an_asynchronous_listing_is_the_same(db: aidre.Database) -> None:
    async def listed() -> tuple[list[str], list[str]]:
        docs = AsyncDatabase(db).collection("docs", space=SMALL, embed=letters)
        await docs.upsert([{"id": str(number), "text": "a text", "n": -number} for number in range(4)])
        first = [one.id for one in await docs.get(order_by="n", limit=2)]
        return first, [one.id async for one in docs.scan(order_by="n", offset=2)]

    assert asyncio.run(listed()) == (["3", "2"], ["1", "0"])
