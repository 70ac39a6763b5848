"""Endpoints and how their errors are answered, also those of rejected requests, `api/http/endpoint.py`."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace

import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Scope

from aidre.api.http.endpoint import PreparedResponse, Rejection, prepare_headers, renders_errors_with
from aidre.api.http.http_errors import BadRequest, NotFound, ServerFault
from aidre.engine.errors import AidreError


def rendered(request: Request, error: AidreError) -> Response:
    return Response(f"{type(error).__name__}: {error} {request.scope['state'].get('echo', '')}", 418)


def a_scope() -> Scope:
    route = SimpleNamespace(path="/chunks/{id}")
    return {"type": "http", "method": "GET", "path": "/chunks/secret", "headers": [], "state": {}, "route": route}


def answer(error: BaseException) -> Response:
    @renders_errors_with(rendered)
    async def endpoint(request: Request) -> Response:
        raise error

    return asyncio.run(endpoint(Request(a_scope())))  # type: ignore[arg-type]


def test_an_error_becomes_an_answer_of_the_protocol() -> None:
    response = answer(NotFound("no chunk"))
    assert (response.status_code, bytes(response.body)) == (418, b"NotFound: no chunk ")


def test_a_defect_is_logged_by_its_route_and_its_message_is_told_to_nobody(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        response = answer(RuntimeError("secret"))
    assert bytes(response.body).startswith(ServerFault.__name__.encode())
    assert b"secret" not in bytes(response.body)
    assert [record.getMessage() for record in caplog.records] == ["GET /chunks/{id} failed"]


@pytest.mark.parametrize("error", [ClientDisconnect(), asyncio.CancelledError()])
def test_whoever_left_is_answered_nothing(error: BaseException) -> None:
    with pytest.raises(type(error)):
        answer(error)


def test_prepared_fields_are_sent_with_the_length() -> None:
    response = PreparedResponse(b"{}", prepare_headers(content_type="application/json", vary="Accept"))
    assert response.raw_headers == [
        (b"content-type", b"application/json"),
        (b"vary", b"Accept"),
        (b"content-length", b"2"),
    ]


@pytest.mark.parametrize("fault", [None, BadRequest("no JSON")])
def test_a_rejected_request_is_read_for_what_its_answer_repeats(fault: AidreError | None) -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    async def read(request: Request) -> None:
        await request.receive()
        if fault is not None:
            raise fault
        request.scope["state"]["echo"] = "what was asked"

    asyncio.run(Rejection(NotFound("no"), read, rendered)(a_scope(), receive, send))
    assert sent[0]["status"] == 418
    assert sent[1]["body"] == (b"NotFound: no what was asked" if fault is None else b"NotFound: no ")
