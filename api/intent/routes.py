"""Agentic Intent over HTTP: the declaration and the capabilities for all, passages and events for signed partners."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeAlias

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from aidre.api.intent import discovery, passages
from aidre.api.intent.envelope import conversation_of, head_of, refuse, respond
from aidre.api.intent.messages import ID_CHARS, read_event, read_retrieve
from aidre.api.intent.receipts import Nonce, access_event
from aidre.api.intent.service import Service
from aidre.api.intent.signing import rfc3339
from aidre.api.refusals import BadRequest, UnsupportedMediaType
from aidre.api.wire import JSON, content_type, digest, not_modified, read_body, speaks
from aidre.engine.errors import AidreError

Members: TypeAlias = dict[str, Any]
PartnerEndpoint: TypeAlias = Callable[[Request, Members, Nonce], Awaitable[Response]]

DECLARED_SECONDS = 60


def _to_partners(endpoint: PartnerEndpoint) -> Callable[[Request], Awaitable[Response]]:
    """Hands the body over once it is known whose it is. No answer leaves before the nonce is on disk.

    An endpoint that writes spends it in the same turn of the disk: what a replay would have been told is never sent.
    """

    @speaks(refuse)
    @functools.wraps(endpoint)
    async def answering(request: Request) -> Response:
        service = _service(request)
        content, body = await _body(request)
        nonce = service.authenticate(request, content)
        try:
            return await endpoint(request, _members(request, body), nonce)
        finally:
            await service.receipts.spend(nonce)

    return answering


class TurnedAway:
    """Answers a partner who was not let in: the body is read for the request_id that the answer has to echo."""

    def __init__(self, error: AidreError) -> None:
        self._error = error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        with suppress(AidreError):
            await _body(request)
        await refuse(request, self._error)(scope, receive, send)


async def _body(request: Request) -> tuple[bytes, Any]:
    """The body, and what it says. Whatever is answered from now on echoes its request_id, if it has one."""
    content = await read_body(request, _service(request).retrieval.settings.limits.body_bytes)
    body = _json(content)
    if isinstance(body, dict) and type(body.get("request_id")) is str and len(body["request_id"]) <= ID_CHARS:
        conversation_of(request).request_id = body["request_id"]
    return content, body


def _json(content: bytes) -> Any:
    """What the body says; the error where it is no JSON."""
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        return error


def _members(request: Request, body: Any) -> Members:
    if request.scope.get("query_string"):
        raise BadRequest("this address takes no query string")
    kind, charset = content_type(request.headers.get("content-type", ""))
    if kind != JSON or charset not in {"", "utf-8"}:
        raise UnsupportedMediaType(f"Content-Type must be {JSON}, in UTF-8", {"Accept": JSON})
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise UnsupportedMediaType("a body must be sent without Content-Encoding", {"Accept-Encoding": "identity"})
    if isinstance(body, orjson.JSONDecodeError):
        raise BadRequest(f"the body is not JSON: {body}")
    if type(body) is not dict:
        raise BadRequest("the body must be a JSON object")
    return body


@_to_partners
async def retrieve(request: Request, body: Members, nonce: Nonce) -> Response:
    service, known = _service(request), conversation_of(request)
    asked = read_retrieve(body, known.version, service.retrieval.settings.limits.query_chars)
    now = service.clock()
    event = functools.partial(
        access_event,
        asked.request_id,
        version=known.version,
        publisher=service.publisher,
        key_id=known.key_id,
        now=now,
    )
    asking = passages.Asking(asked, known.key_id, nonce, event)
    found = await passages.retrieve(service.retrieval, service.receipts, asking, now)
    content = passages.render(found, service.intent, service.publisher)
    return respond(request, 200, {**head_of(request, "ok", rfc3339(now)), **content})


@_to_partners
async def report(request: Request, body: Members, nonce: Nonce) -> Response:
    """A citation event: 202 when it is kept, 200 when it was kept before."""
    service, known = _service(request), conversation_of(request)
    publisher = {name: service.publisher[name] for name in ("id", "domain")}
    cited = read_event(body, known.version, publisher)
    kept = await service.receipts.keep_citation(nonce, known.key_id, cited)
    content = {**head_of(request, "ok", rfc3339(service.clock())), "event_id": cited.event_id}
    return respond(request, 202 if kept == "kept" else 200, content)


@speaks(refuse)
async def declare(request: Request) -> Response:
    service = _service(request)
    return _published(request, discovery.declaration(service.retrieval.settings, service.started))


@speaks(refuse)
async def show_capabilities(request: Request) -> Response:
    return _published(request, discovery.capabilities(_service(request).retrieval.settings))


def _published(request: Request, content: Members) -> Response:
    body = orjson.dumps(content)
    etag = f'"{digest(body)}"'
    headers = {"ETag": etag, "Cache-Control": f"max-age={DECLARED_SECONDS}"}
    if not_modified(request, etag, None):
        return Response(status_code=304, headers=headers)
    return Response(body, 200, headers, JSON)


def _service(request: Request) -> Service:
    service: Service = request.app.state.intent
    return service


routes = [
    Route(discovery.WELL_KNOWN, declare, methods=["GET"]),
    Route(discovery.CAPABILITIES, show_capabilities, methods=["GET"]),
    Route(discovery.RETRIEVE, retrieve, methods=["POST"]),
    Route(discovery.EVENTS, report, methods=["POST"]),
]
