"""AIDRE, draft-batum-aidre-00, as pure translation: parse a request, retrieve, render.

Choices where the draft leaves one: unknown return fields are ignored and known ones that are not granted refused
(20.2), top_k is clamped (18.1), vectors are normalised on receipt (19.4). The discovery document states them.
application/aidre+json is a provisional media type (13).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from time import perf_counter
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

import numpy as np
import orjson
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aidre.api import discovery
from aidre.api.access import caller_of
from aidre.api.bodies import payload_of
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
from aidre.engine.model import Mode, Visibility
from aidre.engine.segment import StoredChunk

BODY_TYPES = frozenset({AIDRE_JSON, JSON})
MODES: tuple[Mode, ...] = ("hybrid", "dense", "lexical")
KNOWN_MODES: Mapping[str, Mode] = {mode: mode for mode in MODES}
METADATA = b',"metadata":{%%b,"visibility":"%b","etag":"%b\\"%%b%b\\""}'
"""Visibility, how ETags begin and their mark go in first; what comes out takes the metadata and the ETag of a chunk."""
SOURCE, AFTER = b',"source":', b"},"
KINDS = 256
"""Of results that differ in all but their content: as many are remembered."""
CHUNK_SECONDS = 60
"""For which a cache may keep a public chunk."""
SMALLER = 1e-25
FEW = 8
"""Numbers that may be true or false and are looked at one by one."""
FLOAT_BYTES, LOWER_HALF = 4, bytes(2)
SEARCHED = {
    variant.mark: prepared(cache_control="no-store", vary="Accept", content_type=variant.media_type)
    for variant in (PREFERRED, PLAIN)
}
"""The header of an answer to a search, by the mark of its variant."""


@dataclass(frozen=True, slots=True)
class Returns:
    """The return object (20.1) with its defaults."""

    ids: bool = True
    metadata: bool = True
    text: bool = False
    semantic_payload: bool = False
    vectors: bool = False


BY_DEFAULT = Returns()


class Seal(NamedTuple):
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
        packed = _packing(len(value))(*value)
    except struct.error as error:
        raise _no_vector() from error
    if _has_flags(value, packed):
        raise _no_vector()
    vector = np.frombuffer(packed, np.float32)
    # One product tells of numbers that are not finite; made smaller before, none that are finite can overflow in it.
    smaller = vector * SMALLER
    if not math.isfinite(np.dot(smaller, smaller)):
        raise BadRequest("query_vector has a number beyond float32", member="query_vector")
    return vector


def _has_flags(value: list[Any], packed: bytes) -> bool:
    """Whether true or false stand in a list, which are packed like 1 and 0, so that their lower half is zero. To look
    at every type would double the time of parsing; few numbers of real vectors look like that."""
    place = packed.find(LOWER_HALF)
    for _ in range(FEW):
        if place < 0:
            return False
        if place % FLOAT_BYTES == 0 and type(value[place // FLOAT_BYTES]) is bool:
            return True
        place = packed.find(LOWER_HALF, place + 1)
    return bool in set(map(type, value))


@lru_cache(maxsize=128)
def _packing(numbers: int) -> Callable[..., bytes]:
    return struct.Struct(f"{numbers}f").pack


def _no_vector() -> BadRequest:
    return BadRequest("query_vector must be a list of numbers", member="query_vector")


def _mode(body: Mapping[str, Any]) -> Mode | None:
    mode = text_member(body, "mode")
    if mode is None:
        return None
    known = KNOWN_MODES.get(mode)
    if known is None:
        raise BadRequest(f"mode must be one of {', '.join(MODES)}", member="mode", supported=list(MODES))
    return known


def parse_returns(body: Mapping[str, Any], shown: Shown, vectors_granted: bool) -> Returns:
    """The return object of a request, as far as the collection grants it."""
    wanted = object_member(body, "return")
    if not wanted:
        return BY_DEFAULT
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
    opening, scored, described, sealed, closing = _splices(
        returns.ids, returns.metadata, _seal(answer.shown, variant, provenance)
    )
    scores = orjson.dumps([score for _, score in answer.hits])[1:-1].split(b",")  # at once: a tenth of one by one
    more = returns.text or returns.semantic_payload or returns.vectors
    pieces = [orjson.dumps({"request_id": identifier, "collection": answer.shown.name})[:-1], b',"results":[']
    for (chunk, _), score in zip(answer.hits, scores, strict=False):  # without hits there is one empty score
        id, source, metadata, etag = chunk.fragments
        if not returns.ids:
            id = b""
        if not returns.metadata:
            metadata = etag = b""
        apart = _apart(chunk, returns, answer.shown) if more else b""
        pieces += (opening, id, scored, score, SOURCE, source, described, metadata, sealed, etag, closing, apart, AFTER)
    if answer.hits:
        pieces[-1] = b"}"
    pieces += (b'],"meta":', orjson.dumps(meta), b"}")
    return b"".join(pieces)


@lru_cache(maxsize=KINDS)
def _splices(ids: bool, metadata: bool, seal: Seal) -> tuple[bytes, bytes, bytes, bytes, bytes]:
    """What stands in a result before its id, its score, its metadata and its ETag, and after that; nothing for what is
    not wanted."""
    opening, scored = (b'{"id":', b',"score":') if ids else (b"{", b'"score":')
    if not metadata:
        return opening, scored, b"", b"", b""
    described, sealed, closing = (METADATA % (seal.visibility, seal.weak, seal.mark)).split(b"%b")
    return opening, scored, described, sealed, closing


def _apart(chunk: StoredChunk, returns: Returns, shown: Shown) -> bytes:
    """What is stored apart from the rest of a result."""
    found = b""
    if returns.text:
        found += b',"text":' + orjson.dumps(chunk.text)
    payload = payload_of(chunk, shown.settings.return_text) if returns.semantic_payload else None
    if payload is not None:
        found += b',"semantic_payload":' + payload
    if returns.vectors:
        found += b',"vectors":' + orjson.dumps(chunk.vectors(), option=orjson.OPT_SERIALIZE_NUMPY)
    return found


def _seal(shown: Shown, variant: Variant, provenance: Provenance | None) -> Seal:
    """Another one for everything beside the stored content that the body of GET /chunks/{id} depends on."""
    signed = None if provenance is None else provenance.chunks.mark
    return _sealed(shown.visibility, shown.settings.return_text, variant.mark, signed)


@lru_cache(maxsize=KINDS)
def _sealed(visibility: Visibility, return_text: bool, variant: str, signed: str | None) -> Seal:
    private = "p" if visibility == "private" else ""
    textless = "" if return_text else "b"
    mark = f"-{variant}{private}{textless}"
    if signed is None:
        return Seal(mark.encode(), visibility.encode())
    return Seal(f"{mark}-{signed}".encode(), visibility.encode(), b"W/")


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
    payload = payload_of(chunk, shown.settings.return_text)
    if payload is not None:
        body += b',"semantic_payload":' + payload
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
    return Prepared(content, SEARCHED[variant.mark])


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
    kept = CHUNK_SECONDS if provenance is None else min(CHUNK_SECONDS, int(provenance.chunks.fresh))
    cache = f"max-age={kept}, must-revalidate" if shown.visibility == "public" else "private, no-cache"
    # By its date alone nobody is told to keep a chunk whose signature is another one by now.
    dated = chunk.updated_at if provenance is None else None
    return cacheable(request, Page(body, variant, _etag(chunk, seal), cache, dated))


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
