from __future__ import annotations

import pytest
from starlette.requests import Request

from aidre.api.http.conditional import http_date, not_modified
from aidre.api.http.errors import BadRequest
from aidre.api.http.media_types import exact_quality, quality
from aidre.api.http.members import positive_member, text_member


def a_request(**headers: str) -> Request:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": "GET", "path": "/", "headers": raw})


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", 1.0),
        ("*/*", 1.0),
        ("application/*;q=0.5", 0.5),
        ("application/json", 1.0),
        ("Application/JSON ; Q=0.25", 0.25),
        ("application/json;charset=utf-8;q=0.3", 0.3),
        ("*/*;q=0.9, application/*;q=0.5, application/json;q=0.1", 0.1),
        ("application/json;q=0, */*", 0.0),
        ("text/html", 0.0),
        ("text/*", 0.0),
        ("application/json;q=nonsense", 0.0),
        (",,application/json,", 1.0),
    ],
)
def test_the_most_specific_range_gives_the_weight(accept: str, expected: float) -> None:
    assert quality(accept, "application/json") == expected


def test_a_wildcard_names_nothing() -> None:
    assert exact_quality("*/*", "application/problem+json") == 0
    assert exact_quality("application/problem+json;q=0.4", "application/problem+json") == 0.4


@pytest.mark.parametrize(
    ("wanted", "known"),
    [
        ('"a"', True),
        ('W/"a"', True),
        ('"b", "a"', True),
        ('"b",W/"a"', True),
        ("*", True),
        ('"b"', False),
        ("a", False),
        ('"a', False),
        ('"x, a"', False),
        ('"aa"', False),
    ],
)
@pytest.mark.parametrize("tag", ['"a"', 'W/"a"'])
def test_if_none_match_compares_weakly(wanted: str, known: bool, tag: str) -> None:
    assert not_modified(a_request(if_none_match=wanted), tag, None) == known


def test_if_modified_since_stands_back_behind_if_none_match() -> None:
    request = a_request(if_none_match='"b"', if_modified_since="Fri, 01 Jan 2038 00:00:00 GMT")
    assert not not_modified(request, '"a"', 0.0)
    assert not_modified(a_request(if_modified_since="Fri, 01 Jan 2038 00:00:00 GMT"), '"a"', 0.0)
    assert not not_modified(a_request(if_modified_since="Fri, 99 Jan 2038"), '"a"', 0.0)
    assert not not_modified(a_request(), '"a"', 0.0)


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        ("2026-04-01T10:00:00Z", "Wed, 01 Apr 2026 10:00:00 GMT"),
        ("2026-04-01T12:00:00.750+02:00", "Wed, 01 Apr 2026 10:00:00 GMT"),
        ("1950-01-01T00:00:00Z", "Sun, 01 Jan 1950 00:00:00 GMT"),
    ],
)
def test_an_rfc_3339_time_becomes_an_http_date(timestamp: str, expected: str) -> None:
    found = http_date(timestamp)
    assert found is not None
    assert found[0] == expected


def test_what_is_no_time_becomes_no_date() -> None:
    assert http_date("soon") is None


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
