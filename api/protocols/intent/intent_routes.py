"""Agentic Intent over HTTP: the declaration and the capabilities for everyone, passages and events for partners.

The operations of Agentic Intent for the OpenAPI document.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, cast, get_args

import msgspec
import orjson
from msgspec import UNSET
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from aidre.api.http import (
    JSON,
    BadRequest,
    BodyContent,
    Operation,
    Parameter,
    RateLimited,
    Rejection,
    Unauthorized,
    UnsupportedMediaType,
    cacheable_response,
    parse_content_type,
    read_body,
    renders_errors_with,
)
from aidre.api.protocols.intent import declaration
from aidre.api.protocols.intent.declaration import CAPABILITIES, EVENTS, RETRIEVE, WELL_KNOWN
from aidre.api.protocols.intent.hmac_signing import (
    KEY_ID_FIELD,
    NONCE_FIELD,
    NONCE_PATTERN,
    SIGNATURE_FIELD,
    TIMESTAMP_FIELD,
    VERSION_FIELD,
)
from aidre.api.protocols.intent.intent_messages import (
    MAX_ID_CHARS,
    VERSIONS,
    CitationReport,
    EventAnswer,
    IntentCapabilities,
    IntentDeclaration,
    IntentLimits,
    RetrieveAnswer,
    RetrieveRequest,
    Version,
    read_event,
    read_retrieve,
)
from aidre.api.protocols.intent.partners import IntentService
from aidre.api.protocols.intent.passages import SignedRequest, render_citations, render_content, retrieve_passages
from aidre.api.protocols.intent.receipts import Nonce, build_access_event
from aidre.api.protocols.intent.signed_envelope import (
    DEFAULT_VERSION,
    Reason,
    context_of,
    envelope_members,
    refuse,
    respond,
)
from aidre.api.retrieval import Retrieval
from aidre.api.server import Mounted
from aidre.engine.errors import AidreError

Members: TypeAlias = dict[str, Any]
PartnerEndpoint: TypeAlias = Callable[[Request, Members, Nonce], Awaitable[Response]]

DISCOVERY_CACHE = "max-age=60"


def _for_partners(endpoint: PartnerEndpoint) -> Callable[[Request], Awaitable[Response]]:
    """Authenticate the partner before the endpoint runs, and spend the nonce before any answer leaves.

    An endpoint that writes spends the nonce in the same commit, so that a replay never receives its answer.
    """

    @renders_errors_with(refuse)
    @functools.wraps(endpoint)
    async def authenticated(request: Request) -> Response:
        service = _service(request)
        content, value = await _read_json(request)
        nonce = service.authenticate(request, content)
        try:
            return await endpoint(request, _check_object(request, value), nonce)
        finally:
            await service.receipts.spend(nonce)

    return authenticated


async def _read_json(request: Request) -> tuple[bytes, Any]:
    """The body, and its JSON value or the error of the parser. Every later answer echoes its request_id, if valid."""
    content = await read_body(request, _service(request).retrieval.settings.limits.body_bytes)
    value: Any
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        value = error
    if isinstance(value, dict) and type(value.get("request_id")) is str and len(value["request_id"]) <= MAX_ID_CHARS:
        context_of(request).request_id = value["request_id"]
    return content, value


def _check_object(request: Request, value: Any) -> Members:
    if request.scope.get("query_string"):
        raise BadRequest("this address takes no query string")
    media_type, charset = parse_content_type(request.headers.get("content-type", ""))
    if media_type != JSON or charset not in {"", "utf-8"}:
        raise UnsupportedMediaType(f"Content-Type must be {JSON}, in UTF-8", {"Accept": JSON})
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise UnsupportedMediaType("a body must be sent without Content-Encoding", {"Accept-Encoding": "identity"})
    if isinstance(value, orjson.JSONDecodeError):
        raise BadRequest(f"the body is not JSON: {value}")
    if type(value) is not dict:
        raise BadRequest("the body must be a JSON object")
    return value


@_for_partners
async def retrieve(request: Request, body: Members, nonce: Nonce) -> Response:
    service, context = _service(request), context_of(request)
    message = read_retrieve(body, context.version, service.retrieval.settings.limits.query_chars)
    now = service.clock()
    make_event = functools.partial(
        build_access_event,
        message.request_id,
        version=context.version,
        publisher=service.publisher,
        key_id=context.key_id,
        now=now,
    )
    signed = SignedRequest(message, context.key_id, nonce, make_event)
    passages = await retrieve_passages(service.retrieval, service.receipts, signed, now)
    answer = RetrieveAnswer(
        **envelope_members(request, now),
        status="ok",
        content=render_content(passages),
        citations=render_citations(passages, service.publisher["name"]) if service.intent.citations else UNSET,
        limits_applied=IntentLimits(max_chunks=service.intent.max_chunks, max_tokens=service.intent.max_tokens),
    )
    return respond(request, 200, answer)


@_for_partners
async def report(request: Request, body: Members, nonce: Nonce) -> Response:
    """Accept a citation event: 202 if it is new, 200 if it was recorded before."""
    service, context = _service(request), context_of(request)
    publisher = {name: service.publisher[name] for name in ("id", "domain")}
    citation = read_event(body, context.version, publisher)
    status = 202 if await service.receipts.record_citation(nonce, context.key_id, citation) == "kept" else 200
    members = envelope_members(request, service.clock())
    return respond(request, status, EventAnswer(**members, status="ok", event_id=str(citation.event_id)))


@renders_errors_with(refuse)
async def declare(request: Request) -> Response:
    service = _service(request)
    settings = service.retrieval.settings
    return _cacheable(request, declaration.build_declaration(settings, service.started, _version(request)))


@renders_errors_with(refuse)
async def show_capabilities(request: Request) -> Response:
    return _cacheable(request, declaration.build_capabilities(_service(request).retrieval.settings, _version(request)))


def _cacheable(request: Request, content: IntentDeclaration | IntentCapabilities) -> Response:
    return cacheable_response(request, msgspec.json.encode(content), DISCOVERY_CACHE, vary=VERSION_FIELD)


def _version(request: Request) -> Version:
    """The version that X-AIP-Version asks for; the default one where it asks for none, or for an unknown one."""
    version = request.headers.get(VERSION_FIELD)
    return cast(Version, version) if version in VERSIONS else DEFAULT_VERSION


def _service(request: Request) -> IntentService:
    service: IntentService = request.app.state.intent
    return service


routes = [
    Route(declaration.WELL_KNOWN, declare, methods=["GET"]),
    Route(declaration.CAPABILITIES, show_capabilities, methods=["GET"]),
    Route(declaration.RETRIEVE, retrieve, methods=["POST"]),
    Route(declaration.EVENTS, report, methods=["POST"]),
]


# -- in the application ----------------------------------------------------------------------------------------


SIGNED_PATHS = frozenset({declaration.RETRIEVE, declaration.EVENTS})
"""Paths of signed requests, whose answers name the request, also when it is not admitted."""


def mount(retrieval: Retrieval, folder: Path) -> Mounted:
    """`folder` is for the ledger."""
    if not retrieval.settings.intent.declared:
        return Mounted(error_codes=get_args(Reason), state={"intent": None})
    service = IntentService(retrieval, folder)
    return Mounted(
        routes=routes,
        error_codes=get_args(Reason),
        error_renderers=dict.fromkeys(("aip", declaration.WELL_KNOWN), refuse),
        reject=_reject,
        state={"intent": service},
        open=service.open,
        close=service.close,
    )


def _reject(request: Request, error: AidreError) -> ASGIApp | None:
    """The answer to a partner whose request the middleware rejected; it echoes the request_id of the body."""
    is_signed = request.scope["path"] in SIGNED_PATHS
    return Rejection(error, _read_json, refuse) if is_signed and isinstance(error, RateLimited | Unauthorized) else None


VERSION = Parameter(
    VERSION_FIELD,
    "header",
    "The version to describe; 0.1 if left out",
    "1.0",
    {"type": "string", "enum": list(VERSIONS)},
    required=False,
)
SIGNED = (
    Parameter(VERSION_FIELD, "header", "As `aip_version`", "0.1", {"type": "string", "enum": list(VERSIONS)}),
    Parameter(KEY_ID_FIELD, "header", "The key that signs", "platform"),
    Parameter(TIMESTAMP_FIELD, "header", "The time of signing (RFC 3339)", "2026-04-01T10:00:00Z"),
    Parameter(
        NONCE_FIELD,
        "header",
        "At least 16 random bytes, never sent twice",
        "kE3VbX0nT8mWcY1uLs5dRg",
        {"type": "string", "pattern": f"^{NONCE_PATTERN.pattern}$"},
    ),
    Parameter(
        SIGNATURE_FIELD,
        "header",
        "HMAC-SHA256 over method, path, digest of the body, timestamp and nonce",
        "v1=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
        {"type": "string", "pattern": "^v1=[A-Za-z0-9+/]{43}=$"},
    ),
)
ERRORS = (400, 401, 408, 413, 415, 422, 500)

_operation = partial(
    Operation, tag="Agentic Intent", error=BodyContent(RetrieveAnswer, description="A denial or an error")
)
_get = partial(_operation, method="get", parameters=(VERSION,), conditional=True, errors=(500,))
_post = partial(_operation, method="post", parameters=SIGNED)

OPERATIONS: tuple[Operation, ...] = (
    _get(
        path=WELL_KNOWN,
        name="declareIntent",
        summary="The publisher's declaration",
        description="Who the publisher is, the declared domains, and the terms of access.",
        answers={200: BodyContent(IntentDeclaration)},
    ),
    _get(
        path=CAPABILITIES,
        name="showCapabilities",
        summary="The capabilities of retrieval",
        description="What answers may have, and how much.",
        answers={200: BodyContent(IntentCapabilities)},
    ),
    _post(
        path=RETRIEVE,
        name="retrieve",
        summary="Passages within a declared domain",
        description="Signed both ways. A denial is a decision of the publisher, an error a technical failure.",
        request=BodyContent(RetrieveRequest),
        answers={200: BodyContent(RetrieveAnswer)},
        errors=ERRORS,
    ),
    _post(
        path=EVENTS,
        name="reportCitation",
        summary="Report a citation of returned passages",
        description="An event that was recorded before is answered with 200.",
        request=BodyContent(CitationReport),
        answers={
            202: BodyContent(EventAnswer, description="Recorded"),
            200: BodyContent(EventAnswer, description="Known"),
        },
        errors=(*ERRORS, 404, 409),
    ),
)
