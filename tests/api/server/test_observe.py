"""The outermost layer, `api/server/observe.py`: every request is counted, and written down by its template."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from aidre.api.access.caller import Caller
from aidre.api.http.metrics import Metrics
from aidre.api.server import observe
from aidre.api.server.observe import ObserveMiddleware
from tests.support.counts import counted, counting, total


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
    asyncio.run(ObserveMiddleware(app, metrics, log)(whole, _nothing, _drop))  # type: ignore[arg-type]
    return log.lines


async def _refusing(scope: Scope, receive: Receive, send: Send) -> None:
    scope["route"] = Template
    scope["state"] = {"request_id": "req_1", "code": "not_found", "caller": Caller("key partner")}
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body", "body": b"12345", "more_body": True})
    await send({"type": "http.response.body", "body": b"678"})


def test_a_request_is_counted_and_written_down_by_its_template(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter((100.0, 100.25))
    monkeypatch.setattr(observe, "perf_counter", lambda: next(moments))
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


async def _breaking(scope: Scope, receive: Receive, send: Send) -> None:
    raise RuntimeError("broken")


@pytest.mark.parametrize(("app", "error"), [(_leaving, asyncio.CancelledError), (_breaking, RuntimeError)])
def test_a_request_without_an_answer_is_counted_too(app: Any, error: type[BaseException]) -> None:
    metrics = counting()
    with pytest.raises(error):
        watched(app, metrics)
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
