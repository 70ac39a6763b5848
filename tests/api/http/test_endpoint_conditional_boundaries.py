"""Conditional requests: when an answer may be 304, by ETags and by the time of the last change."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from aidre.api.http.endpoint import etag_digest, http_date, not_modified

MODIFIED = "Wed, 01 Apr 2026 10:00:00 GMT"
SECONDS = 1_775_037_600.0


def request(**fields: str) -> Request:
    headers = [(name.replace("_", "-").encode(), value.encode()) for name, value in fields.items()]
    return Request({"type": "http", "headers": headers})


@pytest.mark.parametrize(
    ("listed", "etag", "is_same"),
    [
        ('"a"', '"a"', True),
        ('W/"a"', '"a"', True),
        ('"a"', 'W/"a"', True),
        ('"b", W/"a"', '"a"', True),
        (" * ", '"a"', True),
        ('"*"', '"a"', False),
        ('"b"', '"a"', False),
        ("a", '"a"', False),
        ("", '"a"', False),
    ],
)
def test_an_etag_that_the_client_has_answers_for_its_time_too(listed: str, etag: str, is_same: bool) -> None:
    assert not_modified(request(if_none_match=listed), etag, None) is is_same
    assert not_modified(request(if_none_match=listed, if_modified_since=MODIFIED), etag, SECONDS) is is_same


@pytest.mark.parametrize(
    ("modified", "is_same"), [(SECONDS, True), (SECONDS - 1, True), (SECONDS + 1, False), (None, False)]
)
def test_what_was_changed_since_is_sent(modified: float | None, is_same: bool) -> None:
    assert not_modified(request(if_modified_since=MODIFIED), '"a"', modified) is is_same
    assert not_modified(request(), '"a"', modified) is False


@pytest.mark.parametrize("date", ["", "yesterday", "99 Xyz", "Wed, 01 Apr 99999 10:00:00 GMT"])
def test_a_date_that_is_none_is_passed_over(date: str) -> None:
    assert not_modified(request(if_modified_since=date), '"a"', SECONDS) is False


def test_a_time_is_a_date_of_http_in_whole_seconds() -> None:
    assert http_date("2026-04-01T10:00:00.9Z") == (MODIFIED, SECONDS)
    assert http_date("soon") is None


def test_a_digest_is_sixteen_hexadecimal_digits_of_the_content() -> None:
    assert len(etag_digest(b"a")) == 16 and etag_digest(b"a") != etag_digest(b"b")
