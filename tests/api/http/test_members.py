"""Typed members of a JSON object, `api/http/members.py`."""

from __future__ import annotations

import pytest

from aidre.api.http.errors import BadRequest
from aidre.api.http.members import positive_member, text_member


@pytest.mark.parametrize(("value", "expected"), [(1, 1), (7, 7), (2.0**64, 2**64), (None, None)])
def test_a_whole_number_may_be_of_any_size(value: object, expected: int | None) -> None:
    assert positive_member({"top_k": value}, "top_k") == expected


@pytest.mark.parametrize("value", [0, -1, 1.5, 5.0, 2.0**53, True, False, "1", [], -(2.0**70)])
def test_what_is_no_positive_whole_number_is_refused_by_name(value: object) -> None:
    with pytest.raises(BadRequest, match="top_k"):
        positive_member({"top_k": value}, "top_k")


def test_a_string_member_is_a_string_or_absent() -> None:
    assert text_member({"query": "a"}, "query") == "a"
    assert text_member({"query": None}, "query") is None
    assert text_member({}, "query") is None
    with pytest.raises(BadRequest, match="query"):
        text_member({"query": 5}, "query")
