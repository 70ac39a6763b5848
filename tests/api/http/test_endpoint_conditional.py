"""Conditional requests, `api/http/endpoint.py`: ETags, HTTP dates, what is answered with 304."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from aidre.api.http.endpoint import http_date, not_modified


def a_request(**headers: str) -> Request:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": "GET", "path": "/", "headers": raw})


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
