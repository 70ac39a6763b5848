"""The frame around every request: its id, other origins, admission, HEAD, its counts, and what becomes of a fault."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Any

import httpx
import pytest
from msgspec.structs import replace
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aidre.api.access.caller import Caller
from aidre.api.access.guard import Guard
from aidre.api.config.settings import parse_settings
from aidre.api.http.metrics import Metrics
from aidre.api.server import frame
from tests.api.counts import counted, counting, total
from tests.api.frames import framed, whole

SECRET = "the secret of a reader"
ORIGIN = "https://pages.example"
CONFIGURATION = f"""
[server]
base_url = "http://127.0.0.1:8000"
[[keys]]
name = "reader"
sha256 = "{hashlib.sha256(SECRET.encode()).hexdigest()}"
"""
PREFLIGHT = {"origin": ORIGIN, "access-control-request-method": "POST", "access-control-request-headers": "x-other"}


async def answering(scope: Scope, receive: Receive, send: Send) -> None:
    await Response("an answer", headers={"cache-control": "max-age=60"})(scope, receive, send)


def call(
    app: ASGIApp, method: str = "GET", path: str = "/search", origins: Sequence[str] = (), **headers: str
) -> httpx.Response:
    settings = parse_settings(CONFIGURATION)
    settings = replace(settings, server=replace(settings.server, cors_origins=tuple(origins)))
    around = framed(app, Guard(settings))

    async def story() -> httpx.Response:
        transport = httpx.ASGITransport(around)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
            return await client.request(method, path, headers=headers)

    return asyncio.run(story())


def sent_by(app: ASGIApp, method: str, path: str = "/search") -> list[Message]:
    """What a server is given to send; the place that the request took is free again."""
    guard, sent = Guard(parse_settings(CONFIGURATION)), list[Message]()

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "headers": [], "client": ("192.0.2.1", 1)}
    asyncio.run(framed(app, guard)(scope, whole, send))
    assert guard.running.count == 0
    return sent


def test_every_answer_has_an_id_of_its_own() -> None:
    ids = [call(answering).headers["x-request-id"] for _ in range(3)]
    assert len(set(ids)) == 3
    assert all(one.startswith("req_") for one in ids)


def test_head_is_answered_without_a_body() -> None:
    start, body = sent_by(answering, "HEAD")
    assert (start["status"], dict(start["headers"])[b"content-length"]) == (200, b"9")
    assert body["body"] == b""


def test_the_server_as_a_whole_says_its_methods_and_has_no_others() -> None:
    start, _ = sent_by(answering, "OPTIONS", "*")
    assert (start["status"], dict(start["headers"])[b"allow"]) == (204, b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
    start, _ = sent_by(answering, "GET", "*")
    assert start["status"] == 405


def test_where_all_origins_may_read_all_are_told_so() -> None:
    for headers in ({}, {"origin": ORIGIN}):
        response = call(answering, origins=["*"], **headers)
        assert response.headers["access-control-allow-origin"] == "*"
        assert "X-Request-Id" in response.headers["access-control-expose-headers"]
        assert "access-control-allow-credentials" not in response.headers


def test_of_listed_origins_each_is_told_of_itself_and_others_of_nothing() -> None:
    response = call(answering, origins=[ORIGIN], origin=ORIGIN)
    assert response.headers["access-control-allow-origin"] == ORIGIN
    assert "Origin" in response.headers["vary"]
    for headers in ({}, {"origin": "https://others.example"}):
        response = call(answering, origins=[ORIGIN], **headers)
        assert "access-control-allow-origin" not in response.headers
        assert "Origin" in response.headers["vary"], "a cache must tell them apart"


def test_without_origins_pages_of_others_are_refused() -> None:
    response = call(answering, origin=ORIGIN)
    assert response.status_code == 403
    assert not [name for name in response.headers if name.startswith("access-control")]
    assert "Origin" in response.headers["vary"], "a cache must tell them apart"


def test_a_preflight_is_answered_before_anyone_is_admitted() -> None:
    response = call(answering, "OPTIONS", origins=[ORIGIN], authorization="Bearer unknown", **PREFLIGHT)
    assert response.status_code == 204
    assert response.headers["access-control-allow-methods"] == "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
    assert response.headers["access-control-allow-headers"] == "x-other"
    assert call(answering, "OPTIONS", authorization="Bearer unknown", **PREFLIGHT).status_code == 403


def test_who_is_not_admitted_is_refused_and_the_application_is_not_asked() -> None:
    async def never(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("it was asked")

    response = call(never, authorization="Bearer unknown")
    assert response.status_code == 401
    assert response.headers["x-request-id"].startswith("req_")


def test_an_answer_to_a_caller_with_a_key_is_not_for_shared_caches() -> None:
    assert call(answering).headers["cache-control"] == "max-age=60"
    assert call(answering, authorization=f"Bearer {SECRET}").headers["cache-control"] == "private, max-age=60"


def test_a_fault_is_answered_and_logged_under_its_id(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise ValueError("a detail that nobody is told")

    response = call(broken)
    assert response.status_code == 500
    assert "a detail" not in response.text
    assert f"request {response.headers['x-request-id']} failed" in caplog.messages


def test_a_fault_after_the_answer_began_adds_nothing_to_it(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        await answering(scope, receive, send)
        raise ValueError("too late")

    response = call(broken)
    assert (response.status_code, response.text) == (200, "an answer")
    assert "too late" in caplog.text


def test_a_client_that_left_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    async def leaving(scope: Scope, receive: Receive, send: Send) -> None:
        raise ClientDisconnect

    assert sent_by(leaving, "POST") == []
    assert caplog.text == ""


class Line:
    """Stands in for the log of requests."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def write(self, **line: Any) -> None:
        self.lines.append(line)


class Template:
    path = "/chunks/{id:path}"


async def _nothing() -> Message:
    return {"type": "http.disconnect"}


async def _drop(message: Message) -> None: ...


def watched(app: Any, metrics: Metrics, **scope: Any) -> list[dict[str, Any]]:
    log = Line()
    whole = {"type": "http", "method": "GET", "path": "/chunks/secret", "headers": [], **scope}
    guard = Guard(parse_settings(""))
    asyncio.run(framed(app, guard, metrics, log=log)(whole, _nothing, _drop))
    return log.lines


async def _refusing(scope: Scope, receive: Receive, send: Send) -> None:
    scope["route"] = Template
    scope["state"] |= {"request_id": "req_1", "code": "not_found", "caller": Caller("key partner")}
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body", "body": b"12345", "more_body": True})
    await send({"type": "http.response.body", "body": b"678"})


def test_a_request_is_counted_and_written_down_by_its_template(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter((100.0, 100.25))
    monkeypatch.setattr(frame, "perf_counter", lambda: next(moments))
    metrics = counting()
    [line] = watched(_refusing, metrics)
    assert line == {
        "identifier": "req_1",
        "method": "GET",
        "route": "/chunks/{id:path}",
        "status": 404,
        "code": "not_found",
        "size": 8,
        "seconds": 0.25,
        "caller": "key partner",
    }
    found = counted(metrics)
    assert found["aidre_requests_total{route=/chunks/{id:path},status=404}"] == 1
    assert found["aidre_refusals_total{code=not_found}"] == 1
    assert found["aidre_requests_in_flight"] == 0


async def _leaving(scope: Scope, receive: Receive, send: Send) -> None:
    raise asyncio.CancelledError


def test_a_request_without_an_answer_is_counted_too() -> None:
    metrics = counting()
    with pytest.raises(asyncio.CancelledError):
        watched(_leaving, metrics)
    assert counted(metrics)["aidre_requests_total{route=other,status=0}"] == 1
    assert counted(metrics)["aidre_requests_in_flight"] == 0


def test_what_is_no_request_passes_uncounted() -> None:
    metrics = counting()
    seen: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["type"])

    assert watched(app, metrics, type="lifespan") == []
    assert seen == ["lifespan"]
    assert total(metrics).sum() == 0
