"""Quantities as people write them: bounds, units and currencies."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from aidre.engine.retrieve.measures.quantities import read_bounds
from tests.support.properties import REPEATABLE


def operators(value: Any) -> dict[str, float] | None:
    bounds = read_bounds(value)
    return None if bounds is None else bounds.operators()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (15, {"eq": 15}),
        (2.5, {"eq": 2.5}),
        ("15", {"eq": 15}),
        ("= 15", {"eq": 15}),
        ("$15.50", {"eq": 15.5}),
        ("less than $20", {"lt": 20}),
        ("under 20", {"lt": 20}),
        ("cheaper than 20 euros", {"lt": 20}),
        ("<20", {"lt": 20}),
        ("<= 20", {"lte": 20}),
        ("at most 20", {"lte": 20}),
        ("up to $20", {"lte": 20}),
        ("no more than 20", {"lte": 20}),
        ("20 or less", {"lte": 20}),
        ("20 dollars max", {"lte": 20}),
        ("> 5", {"gt": 5}),
        ("more than 5", {"gt": 5}),
        (">= 5", {"gte": 5}),
        ("≥5", {"gte": 5}),
        ("at least 4.5 stars", {"gte": 4.5}),
        ("5+", {"gte": 5}),
        ("5 and up", {"gte": 5}),
        ("10-20", {"gte": 10, "lte": 20}),
        ("$10 – $20", {"gte": 10, "lte": 20}),
        ("10..20", {"gte": 10, "lte": 20}),
        ("10 to 20 dollars", {"gte": 10, "lte": 20}),
        ("between 10 and 20 euros", {"gte": 10, "lte": 20}),
        ("zwischen 10 und 20 Euro", {"gte": 10, "lte": 20}),
        ("more than 10 but less than 20", {"gt": 10, "lt": 20}),
        ("at least 10, at most 20", {"gte": 10, "lte": 20}),
        ("free", {"eq": 0}),
        ("-5", {"eq": -5}),
        (".5", {"eq": 0.5}),
        ("1,200.50", {"eq": 1200.5}),
        ("1.200,50 €", {"eq": 1200.5}),
        ("1 200", {"eq": 1200}),
        ("under 1,50 €", {"lt": 1.5}),
        ("up to 20k", {"lte": 20_000}),
        ({"max": 20}, {"lte": 20}),
        ({"min": 10, "max": "20"}, {"gte": 10, "lte": 20}),
        ({"minPrice": 10}, {"gte": 10}),
        ({"gt": 10, "lte": 20}, {"gt": 10, "lte": 20}),
        ({"@type": "QuantitativeValue", "minValue": 1, "maxValue": 2}, {"gte": 1, "lte": 2}),
        ({"value": 7}, {"eq": 7}),
    ],
)
def test_a_quantity_has_bounds(value: Any, expected: dict[str, float]) -> None:
    assert operators(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        "cheap", "$$", "", "about 20", "10 20", "20-10", "1-2-3", "2024-05-03", "twenty", ">", "under", "x" * 10_000,
        "9" * 150 + "e999", True, None, [], {}, {"max": "cheap"}, {"min": 20, "max": 10}, {"foo": 3}, {"max": True},
        {"value": 1, "max": 2}, float("nan"), float("inf"), 10**400, {"max": float("nan")},
    ],
)  # fmt: skip
def test_what_is_no_quantity_has_no_bounds(value: Any) -> None:
    assert read_bounds(value) is None


@pytest.mark.parametrize(
    ("value", "codes"),
    [
        ("under 20 euros", ("EUR",)),
        ("under 20 EUR", ("EUR",)),
        ("£20", ("GBP",)),
        ("$20 CAD", ("CAD",)),
        ("under 20", ()),
        ({"maxPrice": 20, "priceCurrency": "CHF"}, ("CHF",)),
    ],
)
def test_a_currency_stands_apart(value: Any, codes: tuple[str, ...]) -> None:
    bounds = read_bounds(value)
    assert bounds is not None
    assert bounds.currencies == codes


def test_a_dollar_may_be_one_of_several_countries() -> None:
    bounds = read_bounds("$20")
    assert bounds is not None
    assert {"USD", "CAD", "AUD"} <= set(bounds.currencies)
    assert "EUR" not in bounds.currencies


@settings(REPEATABLE)
@given(st.text(max_size=60) | st.text("0123456789.,-+<>=$€ abkmtoundr", max_size=40))
def test_any_text_is_bounds_in_order_or_none(text: str) -> None:
    bounds = read_bounds(text)
    if bounds is not None and bounds.low is not None and bounds.high is not None:
        assert bounds.low <= bounds.high
