"""One request, `api/http/request.py`: its target, its header fields, and what middleware is told of it."""

from __future__ import annotations

from starlette.requests import Request

from aidre.api.http.request import (
    MAX_ACCEPT_CHARS,
    TARGET,
    accept_header,
    header_field,
    note_error_code,
    request_id,
    request_target,
)


def a_request(*headers: tuple[bytes, bytes]) -> Request:
    state = {"request_id": "req_1"}
    return Request({"type": "http", "method": "GET", "path": "/", "headers": list(headers), "state": state})


def test_of_a_repeated_field_the_first_one_counts() -> None:
    request = a_request((b"content-type", b"a/b"), (b"content-type", b"c/d"), (b"x", b"\xe9"))
    assert header_field(request, b"content-type") == "a/b"
    assert header_field(request, b"x") == "é"
    assert header_field(request, b"content-length") is None


def test_all_accept_fields_are_one_list() -> None:
    assert accept_header(a_request((b"accept", b"a/b"), (b"x", b"y"), (b"accept", b"c/d;q=0.5"))) == "a/b, c/d;q=0.5"
    assert accept_header(a_request((b"x", b"y"))) == ""


def test_a_long_accept_is_cut_behind_a_whole_member() -> None:
    members = [f"a/{number:06d}" for number in range(MAX_ACCEPT_CHARS // 8)]
    accept = accept_header(a_request((b"accept", ",".join(members).encode())))
    assert MAX_ACCEPT_CHARS - 20 < len(accept) <= MAX_ACCEPT_CHARS
    assert accept.split(",") == members[: len(accept.split(","))]


def test_the_target_is_what_the_connection_received() -> None:
    scope = {"type": "http", "path": "/a b", "raw_path": b"/a%20b", "query_string": b"q=%41"}
    assert request_target(scope) == b"/a%20b?q=%41"
    assert request_target({**scope, "query_string": b""}) == b"/a%20b"
    assert request_target({**scope, "state": {TARGET: b"/a%20b?"}}) == b"/a%20b?"
    assert request_target({"type": "http", "path": "/ü"}) == "/ü".encode()


def test_middleware_reads_the_code_and_the_identifier_from_the_state() -> None:
    request = a_request()
    note_error_code(request, "not_found")
    assert (request_id(request), request.scope["state"]["code"]) == ("req_1", "not_found")
