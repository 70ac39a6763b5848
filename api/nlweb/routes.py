"""NLWeb 0.55 over HTTP (7): POST /ask and /await, and GET /ask and /sites for clients that ask by address."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aidre.api.access import caller_of
from aidre.api.nlweb.answering import Service, answer, begin, finish
from aidre.api.nlweb.dialects import Body, canonical, dialect_of, from_parameters
from aidre.api.nlweb.envelope import (
    Answered,
    Dialect,
    NlwebFailure,
    Outcome,
    invalid,
    meta_of,
    refuse,
    respond,
)
from aidre.api.nlweb.request import FORMATS, MODES, read_ask
from aidre.api.nlweb.stream import EVENT_STREAM, EventStream, failing, frames, while_there
from aidre.api.refusals import UnsupportedMediaType
from aidre.api.wire import JSON, accept_of, content_type, digest, not_modified, note_refusal, quality, read_body, speaks
from aidre.engine.model import Json

FORM = "application/x-www-form-urlencoded"
PARAMETERS_MOST = 256


@speaks(refuse)
async def ask(request: Request) -> Response:
    """POST, and GET /ask?query=... as EventSource and older clients ask; a bare GET is told how to ask."""
    if request.method == "POST":
        return await _ask(request, await _body(request))
    body = _from_parameters(request.scope["query_string"].decode("utf-8", "replace"))  # no url is split, and remembered
    if not body:
        return _self_description(request)
    response = await _ask(request, body)
    if _streaming(body) is None:
        response.headers.add_vary_header("Accept")  # which decides whether this is a stream
    return response


@speaks(refuse)
async def await_(request: Request) -> Response:
    body = await _body(request)
    known = await _service(request).promises.awaited(body, caller_of(request))
    if isinstance(known, bytes):
        return Response(known, 200, {"Cache-Control": "no-store"}, JSON)
    return respond(known)


@speaks(refuse)
async def sites(request: Request) -> Response:
    """What `query.site` may name here."""
    service = _service(request)
    collections = [
        {"name": shown.name, "description": shown.description, "documents": shown.snapshot.documents}
        for shown in service.retrieval.shown(caller_of(request), "nlweb")
    ]
    hosts = service.settings.nlweb.sites
    names = [*(one["name"] for one in collections), *(host for host in hosts)]
    body = {"_meta": meta_of(Answered(())), "sites": list(dict.fromkeys(names)), "collections": collections}
    return _cacheable(request, body, "no-cache")


async def _ask(request: Request, body: Body) -> Response:
    service, caller = _service(request), caller_of(request)
    dialect = dialect_of(body)
    try:
        asked = read_ask(body, service.settings, streaming=_wants_stream(request))
    except NlwebFailure as error:
        wanted = _streaming(body)
        streams = wanted is True or (wanted is None and _wants_stream(request))
        if error.status != 200 or not streams:
            return _respond(request, error, dialect)
        note_refusal(request, error.failure)
        return EventStream(failing(error, dialect))
    if not asked.streaming:
        return _respond(request, await while_there(request.receive, answer(asked, caller, service)), dialect)
    # What fails before the first event can still be said by the status.
    beginning = answer if asked.respond_async else begin
    first = await while_there(request.receive, beginning(asked, caller, service))
    if isinstance(first, NlwebFailure) and first.status != 200:
        return _respond(request, first, dialect)
    return EventStream(frames(first, lambda found: finish(asked, found, service), dialect))


def _respond(request: Request, outcome: Outcome, dialect: Dialect) -> Response:
    if isinstance(outcome, NlwebFailure):
        note_refusal(request, outcome.failure)
    return respond(outcome, dialect)


def _streaming(body: Body) -> Json:
    """What a request says of streaming; None where it says nothing."""
    prefer = canonical(body).get("prefer")
    return prefer.get("streaming") if type(prefer) is dict else None


def _wants_stream(request: Request) -> bool:
    """Whether a stream is all that the client can take (7.3)."""
    accept = accept_of(request)
    return quality(accept, JSON) == 0 < quality(accept, EVENT_STREAM)


async def _body(request: Request) -> Body:
    """The body of a request: JSON, or a form as some clients send it."""
    limit = _service(request).settings.limits.body_bytes
    kind, charset = content_type(request.headers.get("content-type", JSON))
    if kind not in {JSON, FORM} and not kind.endswith("+json"):
        raise UnsupportedMediaType(f"Content-Type must be {JSON}", {"Accept": JSON})
    if charset not in {"", "utf-8"} or request.headers.get("content-encoding", "identity") != "identity":
        raise UnsupportedMediaType("a body must be UTF-8, without Content-Encoding", {"Accept-Encoding": "identity"})
    content = await read_body(request, limit)
    if kind == FORM and not content.lstrip().startswith(b"{"):  # curl calls whatever it sends a form
        return _from_parameters(content.decode("utf-8", "replace"))
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise invalid(f"the body is not JSON: {error}") from error
    if type(value) is not dict:
        raise invalid("the body must be a JSON object")
    return value


def _from_parameters(text: str) -> Body:
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="replace", max_num_fields=PARAMETERS_MOST)
    except ValueError as error:
        raise invalid(f"there are more than {PARAMETERS_MOST} parameters: send fewer") from error
    return from_parameters(pairs)


def _self_description(request: Request) -> Response:
    """How to ask here, for those who look without a question."""
    service = _service(request)
    base, limits = service.settings.server.base_url, service.settings.limits
    body = {
        "_meta": meta_of(Answered(()), response_format="conversational_search"),
        "results": [],
        "usage": {
            "ask": {"method": "POST", "url": f"{base}/ask", "body": {"query": {"text": "..."}}},
            "await": {"method": "POST", "url": f"{base}/await"},
            "sites": {"method": "GET", "url": f"{base}/sites"},
            "mcp": f"{base}/mcp",
            "modes": sorted(MODES),
            "formats": sorted(set(FORMATS.values())),
            "limits": {"results": limits.top_k_max, "query_chars": limits.query_chars, "body_bytes": limits.body_bytes},
        },
    }
    return _cacheable(request, body, "max-age=300")


def _cacheable(request: Request, body: dict[str, Any], cache: str) -> Response:
    content = orjson.dumps(body)
    etag = f'"{digest(content)}"'
    headers = {"ETag": etag, "Cache-Control": cache}
    if not_modified(request, etag, None):
        return Response(status_code=304, headers=headers)
    return Response(content, 200, headers, JSON)


def _service(request: Request) -> Service:
    service: Service = request.app.state.nlweb
    return service


routes = [
    Route("/ask", ask, methods=["GET", "POST"]),
    Route("/await", await_, methods=["POST"]),
    Route("/sites", sites, methods=["GET"]),
]
