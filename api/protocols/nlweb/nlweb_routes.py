"""NLWeb 0.55 over HTTP (7): POST /ask and /await, GET /ask for EventSource and older clients, and GET /sites.

`mount` makes it part of the application, with /mcp over the same service. The operations of NLWeb for the OpenAPI
document. NLWeb's specification is authoritative.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import get_args
from urllib.parse import parse_qsl

import msgspec
import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aidre.api.access import caller_of
from aidre.api.http import (
    JSON,
    NOT_BLANK,
    BodyContent,
    Operation,
    Parameter,
    UnsupportedMediaType,
    accept_header,
    cacheable_response,
    link,
    note_error_code,
    parse_content_type,
    quality,
    read_body,
    renders_errors_with,
)
from aidre.api.protocols.nlweb import mcp
from aidre.api.protocols.nlweb.answer.answering import AskService, answer, complete_answer, find_items
from aidre.api.protocols.nlweb.answer.items import Items
from aidre.api.protocols.nlweb.answer.llm import ChatModel
from aidre.api.protocols.nlweb.ask_messages import (
    AskAnswer,
    AskRequest,
    AwaitRequest,
    Failure,
    NlwebMeta,
    PromiseAnswer,
    RpcRequest,
    RpcResponse,
    Site,
    SiteList,
)
from aidre.api.protocols.nlweb.nlweb_envelope import (
    VERSION,
    AnswerResponse,
    Code,
    Dialect,
    NlwebFailure,
    Outcome,
    build_meta,
    invalid_query,
    refuse,
    respond,
)
from aidre.api.protocols.nlweb.promise_table import MAX_PROMISES
from aidre.api.protocols.nlweb.promises import Promises
from aidre.api.protocols.nlweb.query.ask import MODES, RESPONSE_FORMATS, read_ask
from aidre.api.protocols.nlweb.query.dialects import Body, detect_dialect, parse_parameters, to_canonical
from aidre.api.protocols.nlweb.stream import (
    EVENT_STREAM,
    EventStream,
    cancel_on_disconnect,
    render_events,
    render_failure,
)
from aidre.api.retrieval import Retrieval
from aidre.api.server import Mounted
from aidre.engine.model import Json

FORM = "application/x-www-form-urlencoded"
MAX_PARAMETERS = 256
"""Fields of a query string or a form."""


@renders_errors_with(refuse)
async def ask(request: Request) -> Response:
    """POST, and GET with the request as query string; a GET without a query string describes the endpoint."""
    if request.method == "POST":
        return await _ask(request, await _read_body(request))
    body = _from_parameters(
        request.scope["query_string"].decode("utf-8", "replace")
    )  # not by way of `request.url`: `urlsplit` caches every URL
    if not body:
        return _self_description(request)
    response = await _ask(request, body)
    if _streaming_preference(body) is None:
        response.headers.add_vary_header("Accept")  # it decides whether to stream
    return response


@renders_errors_with(refuse)
async def await_(request: Request) -> Response:
    body = await _read_body(request)
    outcome = await _service(request).promises.handle_await(body, caller_of(request))
    if isinstance(outcome, bytes):
        return Response(outcome, 200, {"Cache-Control": "no-store"}, JSON)
    return respond(outcome)


@renders_errors_with(refuse)
async def sites(request: Request) -> Response:
    """The values of `query.site` for this caller."""
    service = _service(request)
    collections = [
        Site(name=visible.name, description=visible.description, documents=visible.snapshot.documents)
        for visible in service.retrieval.collections.visible(caller_of(request), "nlweb")
    ]
    names = dict.fromkeys([*(collection.name for collection in collections), *service.retrieval.settings.nlweb.sites])
    meta = NlwebMeta(response_type="answer", version=VERSION)
    return cacheable_response(
        request, msgspec.json.encode(SiteList(meta=meta, sites=list(names), collections=collections)), "no-cache"
    )


async def _ask(request: Request, body: Body) -> Response:
    service, caller = _service(request), caller_of(request)
    dialect = detect_dialect(body)
    try:
        ask = read_ask(body, service.retrieval.settings, streaming=_accepts_only_stream(request))
    except NlwebFailure as error:
        return _reject(request, error, body, dialect)
    if not ask.streaming:
        return _respond(request, await cancel_on_disconnect(request.receive, answer(ask, caller, service)), dialect)
    # A failure before the first event can still set the HTTP status.
    start = answer if ask.respond_async else find_items
    first = await cancel_on_disconnect(request.receive, start(ask, caller, service))
    if isinstance(first, NlwebFailure) and first.status != 200:
        return _respond(request, first, dialect)
    return EventStream(render_events(first, lambda partial: complete_answer(ask, partial, service), dialect))


def _reject(request: Request, failure: NlwebFailure, body: Body, dialect: Dialect) -> Response:
    """Responds to a request that cannot be read: as a stream if it prefers one and the status allows it."""
    preference = _streaming_preference(body)
    streams = preference is True or (preference is None and _accepts_only_stream(request))
    if failure.status != 200 or not streams:
        return _respond(request, failure, dialect)
    note_error_code(request, failure.failure_code)
    return EventStream(render_failure(failure, dialect))


def _respond(request: Request, outcome: Outcome, dialect: Dialect) -> Response:
    if isinstance(outcome, NlwebFailure):
        note_error_code(request, outcome.failure_code)
    return respond(outcome, dialect)


def _streaming_preference(body: Body) -> Json:
    """The member `prefer.streaming` of a request in any dialect; None if it is absent."""
    prefer = to_canonical(body).get("prefer")
    return prefer.get("streaming") if type(prefer) is dict else None


def _accepts_only_stream(request: Request) -> bool:
    """Whether the client accepts an event stream and no JSON (7.3)."""
    accept = accept_header(request)
    return quality(accept, JSON) == 0 < quality(accept, EVENT_STREAM)


async def _read_body(request: Request) -> Body:
    """The body of a request: JSON, or the form that some clients send."""
    limit = _service(request).retrieval.settings.limits.body_bytes
    media_type, charset = parse_content_type(request.headers.get("content-type", JSON))
    if media_type not in {JSON, FORM} and not media_type.endswith("+json"):
        raise UnsupportedMediaType(f"Content-Type must be {JSON}", {"Accept": JSON})
    if charset not in {"", "utf-8"} or request.headers.get("content-encoding", "identity") != "identity":
        raise UnsupportedMediaType("a body must be UTF-8, without Content-Encoding", {"Accept-Encoding": "identity"})
    content = await read_body(request, limit)
    if media_type == FORM and not content.lstrip().startswith(b"{"):  # curl declares JSON as a form by default
        return _from_parameters(content.decode("utf-8", "replace"))
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise invalid_query(f"the body is not JSON: {error}") from error
    if type(value) is not dict:
        raise invalid_query("the body must be a JSON object")
    return value


def _from_parameters(text: str) -> Body:
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="replace", max_num_fields=MAX_PARAMETERS)
    except ValueError as error:
        raise invalid_query(f"there are more than {MAX_PARAMETERS} parameters: send fewer") from error
    return parse_parameters(pairs)


def _self_description(request: Request) -> Response:
    """Describes how to use the endpoint, for a GET without parameters."""
    service = _service(request)
    base, limits = service.retrieval.settings.server.base_url, service.retrieval.settings.limits
    body = {
        "_meta": build_meta(AnswerResponse(()), response_format="conversational_search"),
        "results": [],
        "usage": {
            "ask": {"method": "POST", "url": f"{base}/ask", "body": {"query": {"text": "..."}}},
            "await": {"method": "POST", "url": f"{base}/await"},
            "sites": {"method": "GET", "url": f"{base}/sites"},
            "mcp": f"{base}/mcp",
            "modes": sorted(MODES),
            "formats": sorted(set(RESPONSE_FORMATS.values())),
            "limits": {"results": limits.top_k_max, "query_chars": limits.query_chars, "body_bytes": limits.body_bytes},
        },
    }
    return cacheable_response(request, orjson.dumps(body), "max-age=300")


def _service(request: Request) -> AskService:
    service: AskService = request.app.state.nlweb
    return service


routes = [
    Route("/ask", ask, methods=["GET", "POST"]),
    Route("/await", await_, methods=["POST"]),
    Route("/sites", sites, methods=["GET"]),
]


# -- in the application ----------------------------------------------------------------------------------------


def mount(retrieval: Retrieval, folders: Sequence[Path]) -> Mounted:
    """The file of promises is in the first of `folders` that can be written. A replica promises nothing and answers
    instead: the request that comes back for the answer may reach another one."""
    settings = retrieval.settings.nlweb
    promises = Promises(folders, settings.timeout, max_promises=0 if retrieval.is_replica else MAX_PROMISES)
    model = ChatModel(settings.llm) if settings.llm is not None else None
    service = AskService(retrieval, promises, Items(settings.actions), model)
    endpoint = mcp.McpEndpoint(service)

    async def close() -> None:
        await endpoint.close()
        await promises.close()

    return Mounted(
        routes=[*routes, *mcp.routes],
        error_codes=get_args(Code),
        error_renderers={**dict.fromkeys(("ask", "await", "sites"), refuse), "mcp": mcp.refuse_rpc},
        state={"nlweb": service, "mcp": endpoint},
        open=promises.open,
        close=close,
    )


STREAM = {EVENT_STREAM: {"type": "string"}}
ANSWER = "An answer, an elicitation, or a failure to find one"
ERRORS = (400, 408, 413, 415, 500)
QUERY = Parameter(
    "query",
    "query",
    "The question; left out: the answer says how to ask",
    "how is a backup restored",
    {"type": "string", "pattern": NOT_BLANK},
)
PROMISE = BodyContent(PromiseAnswer, description="A promise")
AWAIT = {
    "await": link("await", "Check on the promise: `promise_token` is `promise.token` of this answer, `action` checkin")
}

_operation = partial(Operation, tag="NLWeb", method="post", error=BodyContent(Failure, description="A failure"))

OPERATIONS: tuple[Operation, ...] = (
    _operation(
        method="get",
        path="/ask",
        name="askByAddress",
        summary="Ask with a query string",
        description="For EventSource and older clients: each member of the request may be a parameter.",
        answers={200: BodyContent(AskAnswer, description=ANSWER, also=STREAM), 202: PROMISE},
        errors=ERRORS,
        parameters=(QUERY,),
        conditional=True,
    ),
    _operation(
        path="/ask",
        name="ask",
        summary="Ask in natural language",
        description="Answers with the best documents, and with a summary of them if `prefer.mode` says so.",
        request=BodyContent(AskRequest),
        answers={200: BodyContent(AskAnswer, description=ANSWER, also=STREAM), 202: PROMISE},
        errors=ERRORS,
        links=AWAIT,
    ),
    _operation(
        path="/await",
        name="await",
        summary="Check on a promise, or cancel it",
        description="Answers with the promise while the work runs, then with its answer.",
        request=BodyContent(AwaitRequest),
        answers={200: BodyContent(AskAnswer, description=ANSWER), 202: PROMISE},
        errors=ERRORS,
        links=AWAIT,
    ),
    _operation(
        path="/mcp",
        name="mcp",
        summary="One message of the Model Context Protocol",
        description="Streamable HTTP without sessions (NLWeb, appendix C); the tools are ask, await, search and fetch.",
        request=BodyContent(RpcRequest),
        answers={200: BodyContent(RpcResponse), 202: BodyContent({}, (), "A notification was accepted")},
        error=BodyContent(RpcResponse, description="A failure"),
        errors=(400, 404, 406, 408, 413, 415, 421, 500),
    ),
    _operation(
        method="get",
        path="/sites",
        name="listSites",
        summary="The values that query.site accepts",
        description="The collections that the caller may ask, and configured hosts.",
        answers={200: BodyContent(SiteList)},
        errors=(500,),
        conditional=True,
    ),
)
