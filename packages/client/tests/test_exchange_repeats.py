"""When a request is sent again, how long is waited, and what an answer that is not a success becomes."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

import aidre_client
from aidre_client.exchange import NoAnswer, Request, Response, Retry, error_of, retry_after
from tests.support.fault_proxy import RESET_AFTER, RESET_BEFORE, Asked, Fault, FaultyServer, foreign, refusal
from tests.support.remote import connected

NOW = 1_700_000_000.0
ASKED = Request("POST", "http://127.0.0.1/search")


def answer(status: int, body: bytes = b"", /, **fields: str) -> Response:
    return Response(status, tuple((name.replace("_", "-"), value) for name, value in fields.items()), body, ASKED)


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": " 0 "}, 0.0),
        ({"retry_after": "Tue, 14 Nov 2023 22:13:30 GMT"}, 10.0),
        ({"retry_after": "Tue, 14 Nov 2023 22:13:10 GMT"}, 0.0),
        ({"retry_after": "Tue, 14 Nov 2023 23:00:09 GMT", "date": "Tue, 14 Nov 2023 23:00:00 GMT"}, 9.0),
        ({"retry_after": "-1"}, None),
        ({"retry_after": "1.5"}, None),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "٣"}, None),
        ({"retry_after": "9" * 5_000}, 999_999_999.0),
        ({"retry_after": "Tue, 14 Nov 99999 22:13:30 GMT"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(fields: dict[str, str], seconds: float | None) -> None:
    assert retry_after(answer(503, b"", **fields), NOW) == seconds


def test_a_pause_is_what_the_server_says_within_what_is_left_of_the_patience() -> None:
    retry = Retry(attempts=3, patience=60.0, random=lambda: 0.0)
    assert retry.pause(answer(429, retry_after="30"), 1, 0.0, repeatable=True) == 30.0
    assert retry.pause(answer(429, retry_after="30"), 2, 30.0, repeatable=True) == 30.0
    assert retry.pause(answer(429, retry_after="30"), 2, 31.0, repeatable=True) is None
    assert retry.pause(answer(429, retry_after="1"), 3, 0.0, repeatable=True) is None, "the third is the last"
    assert [retry.pause(answer(503), number, 0.0, repeatable=True) for number in (1, 2)] == [0.125, 0.25]


@pytest.mark.parametrize(
    ("outcome", "repeatable", "again"),
    [
        (answer(200), True, False),
        (answer(500), True, False),
        (answer(404), True, False),
        (answer(502), True, True),
        (answer(502), False, False),
        (answer(504), True, True),
        (answer(429), False, True),
        (answer(503), False, True),
        (NoAnswer("reset", sent=True), True, True),
        (NoAnswer("reset", sent=True), False, False),
        (NoAnswer("refused", sent=False), False, True),
    ],
)
def test_only_what_is_safe_is_sent_again(outcome: Response | NoAnswer, repeatable: bool, again: bool) -> None:
    assert (Retry().pause(outcome, 1, 0.0, repeatable) is not None) == again


@pytest.mark.parametrize("misuse", [{"attempts": 0}, {"patience": -1.0}, {"patience": float("nan")}])
def test_bounds_that_are_none_are_invalid_input(misuse: dict[str, float]) -> None:
    with pytest.raises(aidre_client.InvalidInput):
        aidre_client.connect("http://127.0.0.1", **misuse)  # type: ignore[arg-type]


def turns(*faults: Fault) -> Callable[[Asked], Fault | None]:
    return lambda asked: faults[asked.number] if asked.number < len(faults) else None


def test_who_is_refused_waits_as_long_as_the_server_says_and_no_longer_than_wanted(proxy: FaultyServer) -> None:
    waits: list[float] = []
    with connected(proxy.url, waits, patience=60.0) as client:
        _ = client.discovery
        proxy.asked.clear()
        proxy.plan = turns(refusal(429, Retry_After="20"), refusal(503, Retry_After="30"))
        assert client.collections() == ["docs"]
        assert waits == [20.0, 30.0]
        proxy.asked.clear()
        proxy.plan = lambda asked: refusal(429, Retry_After="61")
        with pytest.raises(aidre_client.RequestFailed) as caught:
            client.collections()
        assert waits == [20.0, 30.0]
        assert len(proxy.asked) == 1
        assert (caught.value.details["status"], caught.value.details["retry_after"]) == (429, 61.0)
        assert caught.value.code == "request_failed"


def test_a_server_that_never_answers_fails_after_so_many_attempts(proxy: FaultyServer) -> None:
    with connected(proxy.url, attempts=3) as client:
        _ = client.discovery
        proxy.asked.clear()
        for fault in (RESET_BEFORE, RESET_AFTER):
            proxy.plan = lambda asked, fault=fault: fault  # type: ignore[misc]
            proxy.asked.clear()
            with pytest.raises(aidre_client.RequestFailed) as caught:
                client.collections()
            assert caught.value.details["error"] == "no_answer"
            assert len(proxy.asked) == 3


def test_a_server_that_is_not_there_is_a_failed_request() -> None:
    with foreign(lambda asked: None) as proxy:
        url = proxy.url
    with connected(url, attempts=2) as client, pytest.raises(aidre_client.RequestFailed) as caught:
        client.collections()
    assert caught.value.details["attempts"] == 2


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "invalid_request", aidre_client.InvalidInput),
        (401, "unauthorized", aidre_client.AccessDenied),
        (403, "forbidden", aidre_client.AccessDenied),
        (404, "not_found", aidre_client.Missing),
        (409, "conflict", aidre_client.Conflict),
        (410, "gone", aidre_client.HistoryMissing),
        (422, "unsupported_embedding_space", aidre_client.SpaceMissing),
        (422, "invalid_embedding_dimension", aidre_client.DimensionMismatch),
        (422, "unsupported_return_field", aidre_client.InvalidInput),
        (429, "rate_limited", aidre_client.RequestFailed),
        (500, "internal_error", aidre_client.RequestFailed),
        (418, "new", aidre_client.RequestFailed),
    ],
)
def test_an_error_of_a_server_is_one_exception_with_its_facts(
    status: int, code: str, kind: type[aidre_client.AidreError]
) -> None:
    said = {"error": code, "message": "a\nb", "request_id": "r1", "details": {"n": 1, "message": "x", "self": 2}}
    error = error_of(answer(status, json.dumps(said).encode(), retry_after="4"), NOW)
    assert type(error) is kind
    assert "\n" not in str(error)
    facts = {"status": status, "error": code, "request_id": "r1", "retry_after": 4.0, "n": 1, "url": ASKED.url}
    assert error.details == facts


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b'{"error":7,"message":{},"details":[],"request_id":0}'])
def test_an_error_that_is_not_of_the_protocol_is_one_too(body: bytes) -> None:
    error = error_of(answer(502, body, x_request_id="r2"), NOW)
    assert type(error) is aidre_client.RequestFailed
    assert error.details["request_id"] == "r2"
    assert error.message == "http://127.0.0.1/search: HTTP status 502"
