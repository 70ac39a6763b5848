"""The OpenAPI 3.1 description of the served routes; the protocol texts remain normative (AIDRE 22.2)."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aidre.api.config import Limits, Settings
from aidre.api.http import AIDRE_JSON, JSON, PROBLEM_JSON, etag_digest, not_modified
from aidre.api.operations import openapi_paths
from aidre.api.protocols.aidre import BEHAVIOUR, CHANGES_DEFAULT, FILTER, VERSION
from aidre.api.protocols.intake import openapi as intake
from aidre.api.protocols.intent import openapi as intent
from aidre.api.protocols.nlweb import openapi as nlweb
from aidre.api.protocols.provenance import openapi as provenance

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
BOOLEAN: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 0}
TIME: Schema = {"type": "string", "format": "date-time"}
FLOAT32_MOST = 3.4e38
SHA256: Schema = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}


def _object(required: list[str], **properties: Schema) -> Schema:
    return {"type": "object", "required": required, "properties": properties}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _nullable(kind: str, **more: Any) -> Schema:
    return {"type": [kind, "null"], **more}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


SOURCE = _object([], url=STRING, title=STRING, section=STRING)
METADATA = _object(
    ["updated_at", "canonical", "visibility", "content_hash", "etag"],
    updated_at=TIME,
    canonical=BOOLEAN,
    visibility={"enum": ["public", "private"]},
    content_hash=SHA256,
    etag=STRING,
    provenance=provenance.STATEMENT,
)
RELEVANCE = {"type": "number", "minimum": 0, "maximum": 1}
SPACE = _object(
    ["id", "dimensions", "distance", "normalized"],
    id=STRING,
    dimensions={"type": "integer", "minimum": 1},
    distance={"enum": ["cosine", "dot", "euclidean"]},
    normalized=BOOLEAN,
    provider=_nullable("string"),
    model=_nullable("string"),
    revision=_nullable("string"),
    score=STRING,
    query_text=BOOLEAN,
)
COLLECTION = _object(
    ["name", "description", "visibility", "updated_at"],
    name=STRING,
    description=STRING,
    visibility={"enum": ["public", "private"]},
    updated_at=TIME,
    document_count=COUNT,
    chunk_count=COUNT,
    embedding_spaces=_list(STRING),
    modes=_list({"enum": ["hybrid", "dense", "lexical"]}),
)
ERROR = _object(
    ["error", "message", "details", "request_id"],
    error=STRING,
    message=STRING,
    details={"type": "object"},
    request_id=STRING,
)
RESULT = _object(
    ["score"],
    id=STRING,
    score={"type": "number"},
    relevance=RELEVANCE,
    source=_ref("Source"),
    metadata=_ref("Metadata"),
    text=STRING,
    semantic_payload={},
    vectors={"type": "object", "additionalProperties": _list({"type": "number"})},
)
CHUNK = _object(
    ["id", "collection", "source", "metadata"],
    id=STRING,
    collection=STRING,
    source=_ref("Source"),
    metadata=_ref("Metadata"),
    text=STRING,
    semantic_payload={},
)
META = _object(
    ["returned", "top_k"],
    returned=COUNT,
    top_k={"type": "integer", "minimum": 1},
    top_k_requested={"type": "integer", "minimum": 1},
    mode={"enum": ["hybrid", "dense", "lexical"]},
    embedding_space=STRING,
    ignored=_list(STRING),
    next_cursor=STRING,
    relevance_bound=RELEVANCE,
)
SEARCH_RESPONSE = _object(
    ["request_id", "collection", "results", "meta"],
    request_id=STRING,
    collection=STRING,
    results=_list(_ref("Result")),
    meta=_ref("Meta"),
)
CHANGE = _object(
    ["op", "id", "content_hash"],
    op={"enum": ["add", "change", "delete"]},
    id=STRING,
    content_hash=SHA256,
    source=_ref("Source"),
)
CHANGES = _object(
    ["request_id", "collection", "changes", "next", "more"],
    request_id=STRING,
    collection=STRING,
    changes=_list(_ref("Change")),
    next=STRING,
    more=BOOLEAN,
)
DISCOVERY = _object(
    ["version", "service", "endpoints", "capabilities", "embedding_spaces", "auth"],
    version={"const": VERSION},
    service={"const": "AIDRE"},
    organization=STRING,
    endpoints=_object(
        ["search", "collections", "chunk"], search=STRING, collections=STRING, changes=STRING, chunk=STRING
    ),
    capabilities={"type": "object", "additionalProperties": BOOLEAN},
    embedding_spaces=_list(_ref("EmbeddingSpace")),
    auth=_object(["type"], type=STRING),
    modes=_list(STRING),
    defaults={"type": "object"},
    limits={"type": "object", "additionalProperties": {"type": "integer"}},
)


def _search_request(limits: Limits) -> Schema:
    flags = {name: _nullable("boolean") for name in ("ids", "metadata", "text", "semantic_payload", "vectors")}
    members = _object(
        [],
        query=_nullable("string", minLength=1, maxLength=limits.query_chars, pattern=nlweb.NOT_BLANK_PATTERN),
        query_vector=_nullable("array", items={"type": "number", "minimum": -FLOAT32_MOST, "maximum": FLOAT32_MOST}),
        embedding_space=_nullable("string"),
        collection=_nullable("string"),
        top_k=_nullable(
            "integer",
            minimum=1,
            default=limits.top_k_default,
            description=f"{BEHAVIOUR['top_k']}; written without a fraction, 5.0 is refused",
        ),
        cursor=_nullable("string"),
        mode={"enum": ["hybrid", "dense", "lexical", None]},
        filter={"type": ["object", "null"], "description": FILTER},
    )
    members["properties"]["return"] = _nullable("object", properties=flags)
    members["oneOf"] = [
        {"required": ["query"], "properties": {"query": STRING, "query_vector": {"type": "null"}}},
        {
            "required": ["query_vector", "embedding_space"],
            "properties": {
                "query_vector": {"type": "array"},
                "embedding_space": STRING,
                "query": {"type": "null"},
            },
        },
    ]
    return members


def _schemas(limits: Limits) -> Schema:
    return {
        "Discovery": DISCOVERY,
        "EmbeddingSpace": SPACE,
        "Collection": COLLECTION,
        "CollectionAnswer": {"allOf": [_ref("Collection"), _object(["request_id"], request_id=STRING)]},
        "Collections": _object(["collections", "request_id"], collections=_list(_ref("Collection")), request_id=STRING),
        "SearchRequest": _search_request(limits),
        "SearchResponse": SEARCH_RESPONSE,
        "Meta": META,
        "Result": RESULT,
        "Chunk": CHUNK,
        "Changes": CHANGES,
        "Change": CHANGE,
        "Source": SOURCE,
        "Metadata": METADATA,
        "Error": ERROR,
    }


def _content(name: str, *types: str) -> Schema:
    return {media_type: {"schema": _ref(name)} for media_type in types}


def _link(operation: str, description: str, body: Schema | None = None, **parameters: str) -> Schema:
    """OpenAPI links from an answer to further requests, whose parameters are runtime expressions."""
    link: Schema = {"operationId": operation, "description": description}
    return {**link, **({"requestBody": body} if body else {}), **({"parameters": parameters} if parameters else {})}


BODY = "$response.body#"
LINKS: dict[str, Schema] = {
    "listCollections": {"first": _link("showCollection", "One of them", name=f"{BODY}/collections/0/name")},
    "showCollection": {"changes": _link("listChanges", "What happens to its chunks", name=f"{BODY}/name")},
    "listChanges": {
        "next": _link("listChanges", "The next page", name=f"{BODY}/collection", since=f"{BODY}/next"),
        "chunk": _link(
            "showChunk", "A chunk that is listed", id=f"{BODY}/changes/0/id", collection=f"{BODY}/collection"
        ),
    },
    "search": {
        "next": _link(
            "search",
            "The next page of a text query without further members: a cursor needs the query that it came from",
            {
                "query": "$request.body#/query",
                "collection": f"{BODY}/collection",
                "cursor": f"{BODY}/meta/next_cursor",
            },
        ),
        "chunk": _link("showChunk", "The best result", id=f"{BODY}/results/0/id", collection=f"{BODY}/collection"),
    },
}
"""Links by operation."""


def _operation(name: str, summary: str, schema: str, errors: tuple[int, ...], **more: Any) -> Schema:
    responses: Schema = {"200": {"description": "The answer", "content": _content(schema, AIDRE_JSON, JSON)}}
    if name in LINKS:
        responses["200"]["links"] = LINKS[name]
    responses |= {str(status): _refused() for status in errors}
    if 304 in more.pop("also", ()):
        responses["304"] = {"description": "The caller has it already"}
    return {"operationId": name, "summary": summary, **more, "responses": responses}


def _refused() -> Schema:
    return {"description": "An error", "content": _content("Error", AIDRE_JSON, JSON, PROBLEM_JSON)}


def _path_parameter(name: str) -> Schema:
    return {"name": name, "in": "path", "required": True, "schema": STRING}


def _paths() -> Schema:
    kept = (304,)
    narrowing = {"name": "collection", "in": "query", "required": False, "schema": STRING}
    since = {"name": "since", "in": "query", "required": False, "schema": STRING}
    counted = {"type": "integer", "minimum": 1, "default": CHANGES_DEFAULT}
    limit = {"name": "limit", "in": "query", "required": False, "schema": counted}
    body = {"required": True, "content": _content("SearchRequest", AIDRE_JSON, JSON)}
    return {
        "/.well-known/ai-discovery": {
            "get": _operation("discover", "What is served here", "Discovery", (500,), also=kept)
        },
        "/collections": {"get": _operation("listCollections", "All collections", "Collections", (406, 500), also=kept)},
        "/collections/{name}": {
            "get": _operation(
                "showCollection",
                "One collection",
                "CollectionAnswer",
                (404, 406, 500, 503),
                also=kept,
                parameters=[_path_parameter("name")],
            )
        },
        "/collections/{name}/changes": {
            "get": _operation(
                "listChanges",
                "What happened to the chunks of a collection since a token",
                "Changes",
                (400, 404, 406, 410, 500, 503),
                description=BEHAVIOUR["changes"],
                parameters=[_path_parameter("name"), since, limit],
            )
        },
        "/search": {
            "post": _operation(
                "search",
                "The chunks nearest to a text or a vector",
                "SearchResponse",
                (400, 404, 406, 408, 409, 413, 415, 422, 500, 503),
                requestBody=body,
            )
        },
        "/chunks/{id}": {
            "get": _operation(
                "showChunk",
                "One chunk by its id",
                "Chunk",
                (404, 406, 409, 500, 503),
                also=kept,
                parameters=[_path_parameter("id"), narrowing],
            )
        },
    }


def description(settings: Settings) -> Schema:
    """The whole document: the routes that are always served, and those that this configuration enables."""
    paths, schemas = (
        {**_paths(), **nlweb.paths(settings.limits)},
        {**_schemas(settings.limits), **nlweb.schemas(settings.limits)},
    )
    protocols = "AI Discovery and Retrieval Endpoint, draft-batum-aidre-00, NLWeb 0.55"
    if settings.intakes:
        paths, schemas = {**paths, **intake.paths()}, {**schemas, **intake.schemas()}
        protocols += ", Agent Intake Protocol 0.1.0"
    if settings.intent.declared:
        paths, schemas = {**paths, **intent.paths()}, {**schemas, **intent.schemas(settings.limits)}
        protocols += ", Agentic Intent Protocol 0.1"
    if settings.provenance.key is not None:
        paths = {**paths, **provenance.paths(_refused())}
    for operation in (one for path in paths.values() for one in path.values()):
        _let_in(operation["responses"])
    paths |= openapi_paths.paths(_refused())
    secured: Schema = {}
    if settings.knows_callers:
        bearer = {"type": "http", "scheme": "bearer", "description": "A secret of the operator, or an OAuth token"}
        secured = {"securitySchemes": {"bearer": bearer}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "AIDRE", "version": VERSION, "description": protocols},
        "servers": [{"url": settings.server.base_url}],
        "paths": paths,
        "components": {"schemas": schemas, **secured},
        **({"security": [{}, {"bearer": []}]} if secured else {}),
    }


def _let_in(responses: Schema) -> None:
    """The answers of the guard, in the error envelope of the protocol of the path."""
    if "500" in responses:
        for status in ("401", "403", "429", "503"):
            responses.setdefault(status, responses["500"])


def _described(request: Request) -> tuple[bytes, str]:
    """The document and its ETag, built once."""
    state = request.app.state
    if not hasattr(state, "described"):
        body = orjson.dumps(description(state.retrieval.settings))
        state.described = body, f'"{etag_digest(body)}"'
    made: tuple[bytes, str] = state.described
    return made


async def show(request: Request) -> Response:
    body, etag = _described(request)
    headers = {"ETag": etag, "Cache-Control": "max-age=300"}
    if not_modified(request, etag, None):
        return Response(status_code=304, headers=headers)
    return Response(body, 200, headers, JSON)


routes = [Route("/openapi.json", show, methods=["GET"])]
