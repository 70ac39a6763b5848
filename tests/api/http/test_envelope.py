"""The envelope of AIDRE, `api/http/envelope.py`: statuses of errors, representations, and conditional answers."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import pytest
from starlette.requests import Request

from aidre.api.http.envelope import (
    AIDRE_VARIANT,
    JSON_VARIANT,
    Representation,
    conditional_response,
    negotiate,
    render_error,
)
from aidre.api.http.http_errors import NotAcceptable, RateLimited
from aidre.engine.errors import (
    AidreError,
    CollectionMissing,
    GenerationMissing,
    InvalidFilter,
    InvalidInput,
    InvalidVector,
    ModelUnavailable,
    SpaceMissing,
    StoreDamaged,
)

AIDRE, JSON, PROBLEM = "application/aidre+json", "application/json", "application/problem+json"


def a_request(accept: str | None = None, **headers: str) -> Request:
    named = headers if accept is None else {"accept": accept, **headers}
    fields = [(name.replace("_", "-").encode(), value.encode()) for name, value in named.items()]
    state = {"request_id": "req_1"}
    return Request({"type": "http", "method": "GET", "path": "/", "headers": fields, "state": state})


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (InvalidInput("x"), 400, "invalid_request"),
        (InvalidFilter("x"), 400, "invalid_request"),
        (InvalidVector("x"), 422, "invalid_request"),
        (SpaceMissing("x", embedding_space="a"), 422, "unsupported_embedding_space"),
        (CollectionMissing("x", collection="a"), 404, "not_found"),
        (GenerationMissing("x"), 409, "conflict"),
        (RateLimited("x"), 429, "rate_limited"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, AidreError) else None,
)
def test_an_error_has_the_status_of_its_kind(error: AidreError, status: int, code: str) -> None:
    request = a_request()
    response = render_error(request, error)
    assert (response.status_code, json.loads(bytes(response.body))["error"]) == (status, code)
    assert request.scope["state"]["code"] == code, "metrics and log are told"
    assert response.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("error", [StoreDamaged("/srv/store/chunks.arrow"), ModelUnavailable("/srv/model is gone")])
def test_a_caller_is_told_nothing_of_the_operators_disk(error: AidreError) -> None:
    response = render_error(a_request(), error)
    assert response.status_code == 503
    assert int(response.headers["retry-after"]) > 0
    assert b"/srv" not in bytes(response.body)


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (None, AIDRE),
        ("*/*", AIDRE),
        (JSON, JSON),
        (AIDRE, AIDRE),
        ("text/html", AIDRE),
        (PROBLEM, PROBLEM),
        (f"{PROBLEM}, */*;q=0.1", PROBLEM),
        (f"{PROBLEM};q=0.5, {JSON}", JSON),
    ],
)
def test_an_error_is_written_as_its_caller_prefers(accept: str | None, kind: str) -> None:
    response = render_error(a_request(accept), CollectionMissing("there is none", collection="a"))
    assert response.headers["content-type"] == kind
    body = json.loads(bytes(response.body))
    assert (body["message"], body["request_id"]) == ("there is none", "req_1")
    assert (body.get("status"), body.get("detail")) == ((404, "there is none") if kind == PROBLEM else (None, None))


def test_a_representation_is_negotiated() -> None:
    assert negotiate(a_request()) == negotiate(a_request("*/*")) == negotiate(a_request(AIDRE)) == AIDRE_VARIANT
    assert negotiate(a_request(JSON)) == negotiate(a_request(f"{JSON}, {AIDRE};q=0")) == JSON_VARIANT
    with pytest.raises(NotAcceptable):
        negotiate(a_request("text/html"))


def test_whoever_has_the_newest_copy_is_told_so_without_it() -> None:
    made = Representation(b"{}", JSON_VARIANT, '"a"', "no-cache", "2026-04-01T10:00:00Z")
    fresh = conditional_response(a_request(), made)
    assert (fresh.status_code, bytes(fresh.body), fresh.headers["content-type"]) == (200, b"{}", JSON)
    assert fresh.headers["last-modified"] == "Wed, 01 Apr 2026 10:00:00 GMT"
    kept = conditional_response(a_request(if_none_match='"a"'), made)
    assert (kept.status_code, bytes(kept.body)) == (304, b"")
    for name in ("etag", "cache-control", "vary", "last-modified"):
        assert kept.headers[name] == fresh.headers[name]


def test_what_is_dated_ahead_has_no_last_modified() -> None:
    ahead = datetime.fromtimestamp(time.time() + 86_400, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    response = conditional_response(a_request(), Representation(b"{}", AIDRE_VARIANT, '"a"', "no-cache", ahead))
    assert "last-modified" not in response.headers
