"""Older and flat requests in the form of NLWeb 0.55."""

from __future__ import annotations

from typing import Any

import pytest

from aidre.api.protocols.nlweb.query.dialects import detect_dialect, parse_parameters, to_canonical


@pytest.mark.parametrize(
    ("body", "dialect"),
    [
        ({"query": {"text": "soup"}}, "0.55"),
        ({}, "0.55"),
        ({"query": {"text": "soup"}, "meta": {"api_version": "0.54"}}, "0.54"),
        ({"query": {"text": "soup"}, "prefer": {"response_format": "conv_search"}}, "0.54"),
        ({"query": {"text": "soup"}, "prefer": {"response_format": "other"}}, "0.55"),
        ({"query": "soup"}, "legacy"),
        ({"q": "soup", "meta": {"api_version": "0.54"}}, "legacy"),
        ({"question": "soup"}, "legacy"),
        ({"query": {"text": "soup"}, "q": "no dialect by this"}, "0.55"),
    ],
)
def test_a_request_says_its_dialect_by_its_members(body: dict[str, Any], dialect: str) -> None:
    assert detect_dialect(body) == dialect


def test_the_parameters_of_a_flat_request_move_to_their_sections() -> None:
    body = {
        "query": "soup", "site": "a.example, b.example", "num_results": 5, "item_type": "Recipe",
        "prev": "bread, salad", "generate_mode": "none", "streaming": "no", "colour": "blue",
    }  # fmt: skip
    assert to_canonical(body) == {
        "query": {"text": "soup", "site": ["a.example", "b.example"], "num_results": 5, "itemType": "Recipe"},
        "context": {"prev": ["bread", "salad"]},
        "prefer": {"mode": "list", "streaming": False},
        "meta": {},
    }


def test_a_request_of_today_stays_as_it_is() -> None:
    body = {"query": {"text": "soup", "site": "a.example, b.example"}, "meta": {"api_version": "0.54"}}
    assert to_canonical(body) == body


def test_names_with_a_point_are_members_of_a_section() -> None:
    pairs = [("query.text", "soup"), ("query.site", '["a.example"]'), ("prefer.streaming", "on"), ("query.limit", "")]
    assert parse_parameters(pairs) == {"query": {"text": "soup", "site": "a.example"}, "prefer": {"streaming": True}}


def test_a_flat_query_keeps_the_filters_of_both_forms() -> None:
    found = parse_parameters(
        [("q", "soup"), ("price", "5"), ("query.itemType", "Recipe"), ("site", "a"), ("site", "b")]
    )
    assert found["query"] == {"text": "soup", "price": "5", "itemType": "Recipe", "site": ["a", "b"]}
