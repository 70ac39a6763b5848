"""Accept and Content-Type, `api/http/request.py`."""

from __future__ import annotations

import pytest

from aidre.api.http.request import exact_quality, quality


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
        ("application/json;q=1.000", 1.0),
        ("application/json;q=1.5", 0.0),
        ("application/json;q=0.1234", 0.0),
        (",,application/json,", 1.0),
    ],
)
def test_the_most_specific_range_gives_the_weight(accept: str, expected: float) -> None:
    assert quality(accept, "application/json") == expected


def test_a_wildcard_names_nothing() -> None:
    assert exact_quality("*/*", "application/problem+json") == 0
    assert exact_quality("application/problem+json;q=0.4", "application/problem+json") == 0.4
