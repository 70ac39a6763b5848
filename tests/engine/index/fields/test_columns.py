"""Columns of values: each comparison as Python makes it, however many rows have a value."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.support.fields import matches, row


def test_true_is_not_one_and_a_number_is_not_its_digits() -> None:
    values: list[Any] = [True, 1, 1.0, "1", "true", None, [], {}]
    rows = [row({"a": value}) for value in values]
    assert matches(rows, {"a": True}) == [0]
    assert matches(rows, {"a": 1}) == [1, 2]
    assert matches(rows, {"a": "1"}) == [3]
    assert matches(rows, {"a": {"in": ["true", True]}}) == [0, 4]
    assert matches(rows, {"a": {"exists": True}}) == [0, 1, 2, 3, 4, 7]


def test_large_integers_compare_exactly_with_integers_and_floats() -> None:
    rows = [row({"a": value}) for value in (2**60, 2**60 + 1, float(2**60), 2**53 + 1)]
    assert matches(rows, {"a": 2**60 + 1}) == [1]
    assert matches(rows, {"a": 2**60}) == [0, 2]
    assert matches(rows, {"a": {"gt": float(2**60)}}) == [1]
    assert matches(rows, {"a": {"lt": 2**53 + 2}}) == [3]
    assert matches(rows, {"a": float(2**53)}) == []


def test_nan_exists_and_compares_with_nothing() -> None:
    rows = [row({"a": math.nan}), row({"a": 1.0}), row({})]
    assert matches(rows, {"a": {"exists": True}}) == [0, 1]
    assert matches(rows, {"or": [{"a": {"gte": -math.inf}}, {"a": {"lte": math.inf}}]}) == [1]
    assert matches(rows, {"a": {"ne": 1}}) == [0, 2]


def test_not_equal_holds_for_a_missing_field_and_no_element_of_a_list() -> None:
    rows = [row({"tags": ["x", "y"]}), row({"tags": ["y"]}), row({"tags": "x"}), row({"tags": []}), row({})]
    assert matches(rows, {"tags": "x"}) == [0, 2]
    assert matches(rows, {"tags": {"ne": "x"}}) == [1, 3, 4]
    assert matches(rows, {"not": {"tags": "x"}}) == [1, 3, 4]
    assert matches(rows, {"tags": {"gt": "x"}}) == [0, 1]


def test_a_list_of_many_numbers_is_answered_alike_near_together_and_far_apart() -> None:
    stored = [0, 5, -(2**63), 2**63 - 1, 70_000, 69_999, True, 7.0, -1]
    rows = [row({"n": value}) for value in stored]
    near = [*range(0, 60, 2), 7]
    assert matches(rows, {"n": {"in": near}}) == [0, 7]
    assert matches(rows, {"n": {"in": [*near, 70_000, 2**63 - 1]}}) == [0, 3, 4, 7]
    assert matches(rows, {"n": {"in": [*range(2**63 - 60, 2**63, 1)]}}) == [3]
    complete = [row({"n": value}) for value in range(-50, 50)]
    assert matches(complete, {"n": {"in": [*range(-200, 0, 3), 48]}}) == [*range(0, 50, 3), 98]


def test_strings_order_by_code_point_also_beyond_the_basic_plane() -> None:
    rows = [row({"a": text}) for text in ("\U0001f600", "\uffff", "\ud800", "z", "")]
    assert matches(rows, {"a": {"gt": "\uffff"}}) == [0]
    assert matches(rows, {"a": {"lt": "\uffff"}}) == [2, 3, 4]
    assert matches(rows, {"a": "\ud800"}) == [2]


@pytest.mark.parametrize("carriers", [range(300), range(0, 200), range(0, 300, 3)])
def test_complete_common_and_rare_fields_answer_alike(carriers: range) -> None:
    rows = [row({"n": i, "f": i / 8, "s": f"{i:03d}"} if i in carriers else {}) for i in range(300)]
    assert matches(rows, {"n": {"gte": 17, "lt": 55}}) == [i for i in carriers if 17 <= i < 55]
    assert matches(rows, {"f": {"gt": 17 / 8, "lte": 55 / 8}}) == [i for i in carriers if 17 < i <= 55]
    assert matches(rows, {"s": {"gt": "017", "lte": "055"}}) == [i for i in carriers if 17 < i <= 55]
    picked = [*range(0, 200, 7), carriers[-1]]
    kept = [i for i in carriers if i in picked]
    assert matches(rows, {"n": {"in": picked}}) == kept
    assert matches(rows, {"f": {"in": [i / 8 for i in picked]}}) == kept
    assert matches(rows, {"s": {"in": [f"{i:03d}" for i in picked]}}) == kept
    assert matches(rows, {"n": {"exists": False}}) == [i for i in range(300) if i not in carriers]


@pytest.mark.parametrize("others", [0, 1, 9])
def test_values_at_and_beyond_the_ends_of_64_bits_and_of_floats_compare_exactly(others: int) -> None:
    stored = [-(2**63), 2**63 - 1, 0, math.inf, -math.inf, float(2**60), 1.5]
    rows = [row({"a": value}) for value in stored] + [row({})] * others
    assert matches(rows, {"a": {"gt": -math.inf}}) == [0, 1, 2, 3, 5, 6]
    assert matches(rows, {"a": {"gte": -(10**400)}}) == [0, 1, 2, 3, 4, 5, 6]
    assert matches(rows, {"a": {"lt": 10**30}}) == [0, 1, 2, 4, 5, 6]
    assert matches(rows, {"a": {"gt": math.inf}}) == matches(rows, {"a": {"lt": -math.inf}}) == []
    assert matches(rows, {"a": {"gte": math.inf}}) == [3]
    assert matches(rows, {"a": -(2**63)}) == [0]
    assert matches(rows, {"a": {"lte": -(2**63)}}) == [0, 4]
    assert matches(rows, {"a": {"gt": 2**63 - 1}}) == [3]
    assert matches(rows, {"a": {"in": [2**60 - 1, 2**60 + 1]}}) == []
    assert matches(rows, {"a": {"in": [1, 2]}}) == []
