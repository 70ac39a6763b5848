"""AIDRE, draft-batum-aidre-00, as pure translation: parse a request, retrieve, render.

Choices where the draft leaves one: unknown return fields are ignored and known ones that are not granted refused
(20.2), top_k is clamped (18.1), vectors are normalised on receipt (19.4). The discovery document states them.
application/aidre+json is a provisional media type (13).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any
from urllib.parse import unquote_to_bytes

import numpy as np
import orjson
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aidre.api import discovery
from aidre.api.access import caller_of
from aidre.api.envelope import PLAIN, PREFERRED, Page, Variant, cacheable, negotiate, refuse
from aidre.api.provenance.service import Provenance, provenance_of
from aidre.api.refusals import BadRequest, NotFound, UnsupportedReturnField
from aidre.api.retrieve import Answer, Question, Retrieval, Shown
from aidre.api.settings import Limits
from aidre.api.wire import (
    AIDRE_JSON,
    JSON,
    Prepared,
    accept_of,
    digest,
    flag_member,
    object_member,
    positive_member,
    prepared,
    quality,
    read_object,
    request_id,
    speaks,
    text_member,
)
from aidre.engine.model import Mode
from aidre.engine.segment import StoredChunk

BODY_TYPES = frozenset({AIDRE_JSON, JSON})
MODES: tuple[Mode, ...] = ("hybrid", "dense", "lexical")
METADATA = b',"metadata":{%%b,"visibility":"%b","etag":"%b\\"%%b%b\\""}'
"""Visibility, how ETags begin and their mark go in first; what comes out takes the metadata and the ETag of a chunk."""
PACKED_ZERO, PACKED_ONE = struct.pack("f", 0), struct.pack("f", 1)
SEARCHED = {
    variant: prepared(cache_control="no-store", vary="Accept", content_type=variant.media_type)
    for variant in (PREFERRED, PLAIN)
}


@dataclass(frozen=True, slots=True)
class Returns:
    """The return object (20.1) with its defaults."""

    ids: bool = True
    metadata: bool = True
    text: bool = False
    semantic_payload: bool = False
    vectors: bool = False


@dataclass(frozen=True, slots=True)
class Seal:
    """What a response adds to the metadata of every chunk: the visibility in force, and how its ETags begin and end.

    They are weak where a chunk carries a signature, which is another one from time to time.
    """

    mark: bytes
    visibility: bytes
    weak: bytes = b""


def parse(body: Mapping[str, Any], limits: Limits) -> Question:
    """The question in a search request (5, 6, 18)."""
    text = _text(body, limits)
    vector = _vector(body.get("query_vector"))
    if (text is None) == (vector is None):
        raise BadRequest("send exactly one of query and query_vector", members=["query", "query_vector"])
    space = text_member(body, "embedding_space")
    if vector is not None and space is None:
        raise BadRequest("embedding_space is missing: name the space of query_vector", missing=["embedding_space"])
    top_k = positive_member(body, "top_k") or limits.top_k_default
    return Question(
        top_k=min(top_k, limits.top_k_max),
        text=text,
        vector=vector,
        space=space,
        filter=body.get("filter"),
        cursor=text_member(body, "cursor"),
        mode=_mode(body),
    )


def _text(body: Mapping[str, Any], limits: Limits) -> str | None:
    text = text_member(body, "query")
    if text is None:
        return None
    if not text.strip():
        raise BadRequest("query must not be blank", member="query")
    if len(text) > limits.query_chars:
        raise BadRequest(f"query must have at most {limits.query_chars} characters", member="query")
    return text


def _vector(value: Any) -> NDArray[np.float32] | None:
    if value is None:
        return None
    if type(value) is not list:
        raise _no_vector()
    try:
        packed = struct.pack(f"{len(value)}f", *value)
    except struct.error as error:
        raise _no_vector() from error
    # true and false pass for 1 and 0 above; looking at every type would double the time of parsing.
    if (PACKED_ONE in packed or PACKED_ZERO in packed) and bool in map(type, value):
        raise _no_vector()
    vector = np.frombuffer(packed, np.float32)
    # One product tells of numbers that are not finite; it can also be of finite ones that are large.
    if not math.isfinite(np.dot(vector, vector)) and not np.isfinite(vector).all():
        raise BadRequest("query_vector has a number beyond float32", member="query_vector")
    return vector


def _no_vector() -> BadRequest:
    return BadRequest("query_vector must be a list of numbers", member="query_vector")


def _mode(body: Mapping[str, Any]) -> Mode | None:
    mode = text_member(body, "mode")
    known = next((one for one in MODES if one == mode), None)
    if known is None and mode is not None:
        raise BadRequest(f"mode must be one of {', '.join(MODES)}", member="mode", supported=list(MODES))
    return known


def parse_returns(body: Mapping[str, Any], shown: Shown, vectors_granted: bool) -> Returns:
    """The return object of a request, as far as the collection grants it."""
    wanted = object_member(body, "return")
    if not wanted:
        return Returns()
    returns = Returns(
        ids=flag_member(wanted, "ids", True, "return"),
        metadata=flag_member(wanted, "metadata", True, "return"),
        text=flag_member(wanted, "text", False, "return"),
        semantic_payload=flag_member(wanted, "semantic_payload", False, "return"),
        vectors=flag_member(wanted, "vectors", False, "return"),
    )
    if returns.text and not shown.settings.return_text:
        raise UnsupportedReturnField("this collection does not return text", field="text")
    if returns.vectors and not (shown.settings.return_vectors and vectors_granted):
        raise UnsupportedReturnField("vectors are not returned here", field="vectors")
    return returns


def render(
    answer: Answer,
    returns: Returns,
    meta: Mapping[str, Any],
    identifier: str,
    variant: Variant,
    *,
    provenance: Provenance | None = None,
) -> bytes:
    """The response to a search (7, 16): spliced from the JSON that was written at ingest."""
    seal = _seal(answer.shown, variant, provenance)
    template = _template(returns, seal)
    scores = orjson.dumps([hit.score for hit in answer.hits])[1:-1].split(b",")  # at once: a tenth of one by one
    pairs = zip(answer.hits, scores, strict=False)  # without hits there is one empty score
    more = returns if returns.text or returns.semantic_payload or returns.vectors else None
    results = b",".join([_result(hit.chunk, score, template, more) for hit, score in pairs])
    head = orjson.dumps({"request_id": identifier, "collection": answer.shown.name})
    return b'%b,"results":[%b],"meta":%b}' % (head[:-1], results, orjson.dumps(meta))


def _template(returns: Returns, seal: Seal) -> bytes:
    """A result, into which go its id, score, source, metadata, etag and what lies apart. What is not wanted is cut to
    no character."""
    id = b'"id":%b,' if returns.ids else b"%.0b"
    metadata = METADATA % (seal.visibility, seal.weak, seal.mark) if returns.metadata else b"%.0b%.0b"
    return b'{%b"score":%%b,"source":%%b%b%%b}' % (id, metadata)


def _result(chunk: StoredChunk, score: bytes, template: bytes, more: Returns | None) -> bytes:
    id, source, metadata, etag = chunk.fragments
    return template % (id, score, source, metadata, etag, b"" if more is None else _apart(chunk, more))


def _apart(chunk: StoredChunk, returns: Returns) -> bytes:
    """What is stored apart from the rest of a result."""
    found = b""
    if returns.text:
        found += b',"text":' + orjson.dumps(chunk.text)
    if returns.semantic_payload and chunk.json_payload is not None:
        found += b',"semantic_payload":' + chunk.json_payload
    if returns.vectors:
        found += b',"vectors":' + orjson.dumps(chunk.vectors(), option=orjson.OPT_SERIALIZE_NUMPY)
    return found


def _seal(shown: Shown, variant: Variant, provenance: Provenance | None) -> Seal:
    """Another one for everything beside the stored content that the body of GET /chunks/{id} depends on."""
    private = "p" if shown.visibility == "private" else ""
    textless = "" if shown.settings.return_text else "n"
    mark = f"-{variant.mark}{private}{textless}"
    if provenance is None:
        return Seal(mark.encode(), shown.visibility.encode())
    return Seal(f"{mark}-{provenance.chunks.mark}".encode(), shown.visibility.encode(), b"W/")


def _etag(chunk: StoredChunk, seal: Seal) -> str:
    return f'{seal.weak.decode()}"{chunk.etag}{seal.mark.decode()}"'


def render_chunk(shown: Shown, chunk: StoredChunk, seal: Seal, signature: str | None) -> bytes:
    """A chunk (8): a result without a score, with its collection and, where that is granted, its text."""
    id, source, metadata, etag = chunk.fragments
    body = b'{"id":%b,"collection":%b,"source":%b' % (id, orjson.dumps(shown.name), source)
    body += METADATA % (seal.visibility, seal.weak, seal.mark) % (metadata, etag)
    if signature is not None:
        body = body[:-1] + b',"provenance":"%b"}' % signature.encode()
    if shown.settings.return_text:
        body += b',"text":' + orjson.dumps(chunk.text)
    if chunk.json_payload is not None:
        body += b',"semantic_payload":' + chunk.json_payload
    return body + b"}"


def render_collection(shown: Shown) -> dict[str, Any]:
    """An item of the list of collections (4)."""
    collection = shown.snapshot.collection
    return {
        "name": shown.name,
        "description": shown.description,
        "visibility": shown.visibility,
        "updated_at": collection.updated_at,
        "document_count": shown.snapshot.documents,
        "chunk_count": shown.snapshot.chunks,
        "embedding_spaces": [space.id for space in collection.spaces],
    }


def _retrieval(request: Request) -> Retrieval:
    retrieval: Retrieval = request.app.state.retrieval
    return retrieval


@speaks(refuse)
async def discover(request: Request) -> Response:
    # 3.2 demands application/json, the examples show application/aidre+json: that only where json is not acceptable.
    accept = accept_of(request)
    variant = PREFERRED if quality(accept, JSON) == 0 < quality(accept, AIDRE_JSON) else PLAIN
    body = orjson.dumps(discovery.document(_retrieval(request), caller_of(request), MODES, provenance_of(request)))
    return cacheable(request, Page(body, variant, f'"{digest(body)}-{variant.mark}"', "max-age=300"))


@speaks(refuse)
async def search(request: Request) -> Response:
    variant = negotiate(request)
    retrieval, caller = _retrieval(request), caller_of(request)
    limits = retrieval.settings.limits
    body = await read_object(request, BODY_TYPES, limits.body_bytes)
    question = parse(body, limits)
    shown = retrieval.find(text_member(body, "collection"), caller, "aidre")
    returns = parse_returns(body, shown, caller.vectors)
    answer = await retrieval.search(shown, question, caller, "aidre")
    meta: dict[str, Any] = {"returned": len(answer.hits), "top_k": question.top_k}
    if body.get("top_k") is not None and body["top_k"] > question.top_k:
        meta["top_k_requested"] = body["top_k"]
    meta["mode"] = answer.mode
    if answer.space is not None:
        meta["embedding_space"] = answer.space
    if answer.ignored:
        meta["ignored"] = list(answer.ignored)
    if answer.next_cursor is not None:
        meta["next_cursor"] = answer.next_cursor
    began = perf_counter()
    content = render(answer, returns, meta, request_id(request), variant, provenance=provenance_of(request))
    retrieval.metrics.stage("aidre", "render", perf_counter() - began)
    return Prepared(content, SEARCHED[variant])


@speaks(refuse)
async def list_collections(request: Request) -> Response:
    variant = negotiate(request)
    items = [render_collection(shown) for shown in _retrieval(request).shown(caller_of(request), "aidre")]
    return _collections(request, variant, {"collections": items})


@speaks(refuse)
async def show_collection(request: Request) -> Response:
    variant = negotiate(request)
    shown = _retrieval(request).find(request.path_params["name"], caller_of(request), "aidre")
    return _collections(request, variant, render_collection(shown))


def _collections(request: Request, variant: Variant, content: dict[str, Any]) -> Response:
    etag = f'W/"{digest(orjson.dumps(content))}-{variant.mark}"'  # weak: the body also has its request_id
    body = orjson.dumps({**content, "request_id": request_id(request)})
    return cacheable(request, Page(body, variant, etag, "no-cache"))


@speaks(refuse)
async def show_chunk(request: Request) -> Response:
    variant = negotiate(request)
    narrowed = request.query_params.get("collection")
    shown, chunk = _retrieval(request).chunk(_chunk_id(request), narrowed, caller_of(request), "aidre")
    provenance = provenance_of(request)
    seal = _seal(shown, variant, provenance)
    signature = None if provenance is None else provenance.chunk(shown.name, chunk)
    body = render_chunk(shown, chunk, seal, signature)
    cache = "max-age=60, must-revalidate" if shown.visibility == "public" else "private, no-cache"
    return cacheable(request, Page(body, variant, _etag(chunk, seal), cache, chunk.updated_at))


def _chunk_id(request: Request) -> str:
    """The id as it stands in the path, percent-decoded: bytes that are no UTF-8 name nothing."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    try:
        return unquote_to_bytes(raw.partition(b"/chunks/")[2]).decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotFound("there is no chunk with this id") from error


routes = [
    Route("/.well-known/ai-discovery", discover, methods=["GET"]),
    Route("/collections", list_collections, methods=["GET"]),
    Route("/collections/{name}", show_collection, methods=["GET"]),
    Route("/search", search, methods=["POST"]),
    Route("/chunks/{id:path}", show_chunk, methods=["GET"]),
]
