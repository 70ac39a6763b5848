"""AIDRE (draft-batum-aidre-00) as pure translation: parse a request, retrieve, render; and its GET endpoints.

Where the draft leaves a choice: unknown return fields are ignored, known ones that are not granted are refused (20.2),
top_k is clamped (18.1), vectors are normalised on receipt (19.4). The discovery document states these choices.
application/aidre+json is a provisional media type (13).
"""

from __future__ import annotations

import math
import struct
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from time import perf_counter
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

import msgspec
import numpy as np
import orjson
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aidre.api.access import Guard, caller_of, may_query_by_vector
from aidre.api.config import Limits
from aidre.api.http import (
    AIDRE_JSON,
    AIDRE_VARIANT,
    JSON,
    JSON_VARIANT,
    MIN_FLOAT_INTEGER,
    BadRequest,
    NotFound,
    PreparedResponse,
    Representation,
    UnsupportedReturnField,
    Variant,
    accept_header,
    conditional_message,
    conditional_response,
    etag_digest,
    negotiate,
    parse_object,
    prepare_headers,
    quality,
    read_content,
    read_integers,
    read_message,
    render_error,
    renders_errors_with,
    request_id,
)
from aidre.api.protocols.aidre import discovery
from aidre.api.protocols.aidre.extensions import (
    check_extensions,
    check_facets,
    check_order,
    parse_facets,
    parse_highlight,
    parse_order,
    parse_weights,
    read_limits,
    render_facets,
    render_highlight,
    render_passages,
)
from aidre.api.protocols.aidre.reading import image_of
from aidre.api.protocols.aidre.search_messages import (
    Collection,
    CollectionAnswer,
    CollectionList,
    Fusion,
    ReturnFields,
    SearchMeta,
    SearchRequest,
    Understood,
)
from aidre.api.protocols.provenance import ProvenanceSigners
from aidre.api.retrieval import Served, VisibleCollection, retrieval_of, visible_payload
from aidre.engine.model import FUSED_RANKS, Query, Visibility
from aidre.engine.native import native
from aidre.engine.retrieve import RELEVANT, Answer, Question
from aidre.engine.types import ResultLayout, RetrievedChunk

BODY_TYPES = frozenset({AIDRE_JSON, JSON})
METADATA = b',"metadata":{%%b,"visibility":"%b","etag":"%b\\"%%b%b\\""}'
"""Filled twice: with the visibility and the ETag's prefix and suffix, then with a chunk's stored metadata and ETag."""
MAX_CACHED_SPLICES = 256
"""Templates of results, by everything but their content."""
MAX_CACHED_BODIES, MAX_CACHED_BODY = 1_024, 512
"""Requests that are kept parsed, without their vectors, and the bytes that one may have."""
CHUNK_SECONDS = 60
"""Cache lifetime of a public chunk."""
OVERFLOW_GUARD = 1e-25
"""A factor by which the dot product of any finite float32 vector with itself stays finite."""
MAX_SUSPECTS = 8
"""Numbers that may be booleans and are checked one by one, before the types of all are."""
FLOAT_BYTES, LOWER_HALF = 4, bytes(2)
SEARCH_HEADERS = {
    variant.mark: prepare_headers(cache_control="no-store", vary="Accept", content_type=variant.media_type)
    for variant in (AIDRE_VARIANT, JSON_VARIANT)
}
"""Header fields of a search response, by the mark of its variant."""


DEFAULT_FIELDS = ReturnFields()


@dataclass(frozen=True, slots=True)
class ParsedSearch:
    """A search request: the question, its filter as JSON, and what the answer is to be like."""

    question: Question
    filter: Any
    collection: str | None
    top_k: int | None
    fields: ReturnFields


class EtagParts(NamedTuple):
    """The parts of chunk ETags that depend on the response: suffix and weakness; and the visibility in force.

    An ETag is weak if the chunk carries a signature, which changes from time to time.
    """

    suffix: bytes
    visibility: bytes
    weak: bytes = b""


# -- parsing ---------------------------------------------------------------------------------------------------------


def parse_content(content: bytes, limits: Limits) -> ParsedSearch:
    """The search request in a body. Raises BadRequest.

    The kernel reads the vector. What a client sends beside it is the same in most of its requests, and parsed once.
    """
    # None where a parser of JSON has to decide; else the numbers, and the body with an empty list in their place.
    found = None if native is None else native.read_vector(content, b"query_vector")
    if found is None:
        return parse(parse_object(content), limits)
    numbers, rest = found
    parse_rest = _parse_rest if len(rest) <= MAX_CACHED_BODY else _parse_rest.__wrapped__
    try:
        search = parse_rest(rest, limits.top_k_default, limits.top_k_max, limits.query_chars)
    except BadRequest:
        return parse(parse_object(content), limits)  # so that positions in the error are those of the body
    question = search.question._replace(vector=np.frombuffer(numbers, np.float32))
    return ParsedSearch(question, search.filter, search.collection, search.top_k, search.fields)


@lru_cache(maxsize=MAX_CACHED_BODIES)
def _parse_rest(rest: bytes, top_k_default: int, top_k_max: int, query_chars: int) -> ParsedSearch:
    """A request with an empty vector."""
    return parse(parse_object(rest), Limits(top_k_default=top_k_default, top_k_max=top_k_max, query_chars=query_chars))


def parse(body: Mapping[str, Any], limits: Limits) -> ParsedSearch:
    """A search request (5, 6, 18, 20). Raises BadRequest.

    The vector is read apart from the struct, in a fifth of the time; the test `test_both_ways_to_read_a_vector` holds
    the two together.
    """
    members = {**body}
    vector = _parse_vector(members.pop("query_vector", None))
    read_integers(members, "top_k", least=MIN_FLOAT_INTEGER)
    if not members.keys().isdisjoint(("facets", "highlight")):
        members |= read_limits(members, MIN_FLOAT_INTEGER)
    request = read_message(members, SearchRequest)
    if (request.query is None) == (vector is None):
        raise BadRequest("send exactly one of query and query_vector", members=["query", "query_vector"])
    if vector is not None and request.embedding_space is None:
        raise BadRequest(
            "embedding_space is missing: name the space of query_vector, as GET /collections lists it",
            missing=["embedding_space"],
        )
    if request.query is not None and not request.query.strip():
        raise BadRequest("query must be a string that is not blank", member="query")
    if request.query is not None and len(request.query) > limits.query_chars:
        raise BadRequest(f"query must have at most {limits.query_chars} characters", member="query")
    if vector is not None and request.mode not in {None, "dense"}:
        raise BadRequest(f"mode {request.mode} needs query: a vector has no words", member="mode")
    question = Question(
        top_k=min(request.top_k or limits.top_k_default, limits.top_k_max),
        text=request.query,
        vector=vector,
        space=request.embedding_space,
        cursor=request.cursor,
        mode=request.mode,
        facets=parse_facets(request.facets) if request.facets else (),
        highlight=parse_highlight(request.highlight, request.query) if request.highlight else None,
        correct=request.correct is not False,
        operators=request.operators is not False,
        group=request.group or "chunk",
        collapse=request.collapse is not False,
        order=None if request.order is None else parse_order(request.order),
        recall=request.recall,
        weight=None if request.weights is None else parse_weights(request.weights),
        fusion=request.fusion,
    )
    return ParsedSearch(question, request.filter, request.collection, request.top_k, request.return_ or DEFAULT_FIELDS)


def _parse_vector(value: Any) -> NDArray[np.float32] | None:
    if value is None:
        return None
    if type(value) is str:
        return _decode_vector(value)
    if type(value) is not list:
        raise _not_a_vector()
    try:
        packed = _packer(len(value))(*value)
    except struct.error as error:
        raise _not_a_vector() from error
    if _contains_booleans(value, packed):
        raise _not_a_vector()
    vector = np.frombuffer(packed, np.float32)
    # One dot product detects inf and nan; scaled down first, finite numbers cannot overflow in it.
    scaled = vector * OVERFLOW_GUARD
    if not math.isfinite(np.dot(scaled, scaled)):
        raise BadRequest("query_vector has a number beyond float32", member="query_vector")
    return vector


def _decode_vector(value: str) -> NDArray[np.float32]:
    """A vector as base64 (RFC 4648, 4, with padding) of its numbers as float32, the least significant byte first; the
    engine refuses numbers that are not finite."""
    try:
        packed = b64decode(value, validate=True)
    except ValueError as error:
        raise _not_a_vector() from error
    if len(packed) % FLOAT_BYTES:
        raise _not_a_vector()
    return np.frombuffer(packed, "<f4").astype(np.float32, copy=False)


def _contains_booleans(value: list[Any], packed: bytes) -> bool:
    """Whether the list contains True or False, which are packed like 1.0 and 0.0 and so have a zero lower half. Few
    numbers of real vectors look like that; checking the type of each would double the time of parsing."""
    offset = packed.find(LOWER_HALF)
    for _ in range(MAX_SUSPECTS):
        if offset < 0:
            return False
        if offset % FLOAT_BYTES == 0 and type(value[offset // FLOAT_BYTES]) is bool:
            return True
        offset = packed.find(LOWER_HALF, offset + 1)
    return bool in set(map(type, value))


@lru_cache(maxsize=128)
def _packer(dimensions: int) -> Callable[..., bytes]:
    return struct.Struct(f"{dimensions}f").pack


def _not_a_vector() -> BadRequest:
    return BadRequest("query_vector must be a list of numbers, or base64 of float32", member="query_vector")


def check_granted(fields: ReturnFields, collection: VisibleCollection, vectors_granted: bool) -> None:
    """Raises UnsupportedReturnField for a field that is not granted."""
    if fields.text and not collection.settings.return_text:
        raise UnsupportedReturnField("this collection does not return text", field="text")
    if fields.vectors and not (collection.settings.return_vectors and vectors_granted):
        raise UnsupportedReturnField("vectors are not returned here", field="vectors")


# -- rendering -------------------------------------------------------------------------------------------------------


def render(
    collection: VisibleCollection,
    answer: Answer,
    fields: ReturnFields,
    meta: SearchMeta,
    *,
    identifier: str,
    variant: Variant,
    provenance: ProvenanceSigners | None = None,
) -> bytes:
    """The search response (7, 16), spliced from the JSON stored at ingest."""
    highlights = answer.highlights
    layout = _layout(fields.ids, fields.metadata, _etag_parts(collection, variant, provenance))
    # One call serializes the numbers of all hits: that takes a tenth of the time.
    scores = orjson.dumps([score for _, score in answer.hits])[1:-1].split(b",") if answer.hits else []
    if scores and (relevances := answer.relevances) is not None:
        scale = orjson.dumps(relevances)[1:-1].split(b",")
        scores = [b'%b,"relevance":%b' % pair for pair in zip(scores, scale, strict=True)]
    if answer.question.group == "document":
        beside = render_passages(answer, with_ids=bool(fields.ids), with_text=bool(fields.text))
        scores = [b"%b,%b" % pair for pair in zip(scores, beside, strict=True)]
    results = None
    if not (fields.text or fields.semantic_payload or fields.vectors or fields.image or highlights):
        results = collection.snapshot.splice(answer.hits, scores, layout)
    if results is None:
        more = [_more_members(chunk, fields, collection) for chunk, _ in answer.hits]
        if highlights:
            pairs = zip(more, highlights, strict=True)
            more = [b'%b,"highlight":%b' % (members, render_highlight(highlight)) for members, highlight in pairs]
        results = layout.between.join(
            _result(chunk, score, layout, members)
            for (chunk, _), score, members in zip(answer.hits, scores, more, strict=True)
        )
    start = orjson.dumps({"request_id": identifier, "collection": collection.name})[:-1]
    facets = answer.question.facets
    end = b',"facets":%b}' % render_facets(facets, answer.facets) if facets else b"}"
    return b'%b,"results":[%b],"meta":%b%b' % (start, results, msgspec.json.encode(meta), end)


def _result(chunk: RetrievedChunk, score: bytes, layout: ResultLayout, more: bytes) -> bytes:
    id, source, metadata, etag = chunk.fragments
    return b"".join((
        layout.before_id, id if layout.ids else b"", layout.before_score, score, layout.before_source, source,
        layout.before_metadata, metadata if layout.metadata else b"", layout.before_etag,
        etag if layout.metadata else b"", layout.after_etag[:-1], more, b"}",
    ))  # fmt: skip


@lru_cache(maxsize=MAX_CACHED_SPLICES)
def _layout(ids: bool, metadata: bool, etag_parts: EtagParts) -> ResultLayout:
    before_id, before_score = (b'{"id":', b',"score":') if ids else (b"{", b'"score":')
    before_metadata = before_etag = after_etag = b""
    if metadata:
        filled = METADATA % (etag_parts.visibility, etag_parts.weak, etag_parts.suffix)
        before_metadata, before_etag, after_etag = filled.split(b"%b")
    return ResultLayout(
        before_id, before_score, b',"source":', before_metadata, before_etag, after_etag + b"}", b",", ids, metadata
    )


def _more_members(chunk: RetrievedChunk, fields: ReturnFields, collection: VisibleCollection) -> bytes:
    """The requested members that are stored apart from the fragments."""
    members = b""
    if fields.text:
        members += b',"text":' + orjson.dumps(chunk.text)
    payload = visible_payload(chunk, collection.settings) if fields.semantic_payload else None
    if payload is not None:
        members += b',"semantic_payload":' + payload
    if fields.vectors:
        members += b',"vectors":' + orjson.dumps(chunk.vectors(), option=orjson.OPT_SERIALIZE_NUMPY)
    if fields.image and (image := image_of(chunk, chunk.url)) is not None:
        members += b',"image":' + orjson.dumps(image)
    return members


def _etag_parts(collection: VisibleCollection, variant: Variant, provenance: ProvenanceSigners | None) -> EtagParts:
    """They differ for everything that changes the body of GET /chunks/{id} beside the stored content."""
    signer = None if provenance is None else provenance.chunks.mark
    return _cached_etag_parts(collection.visibility, collection.settings.return_text, variant.mark, signer)


@lru_cache(maxsize=MAX_CACHED_SPLICES)
def _cached_etag_parts(visibility: Visibility, return_text: bool, variant: str, signer: str | None) -> EtagParts:
    private = "p" if visibility == "private" else ""
    textless = "" if return_text else "c"  # another letter whenever less is shown: copies of caches must not revive
    suffix = f"-{variant}{private}{textless}"
    if signer is None:
        return EtagParts(suffix.encode(), visibility.encode())
    return EtagParts(f"{suffix}-{signer}".encode(), visibility.encode(), b"W/")


def _etag_of(chunk: RetrievedChunk, parts: EtagParts) -> str:
    return f'{parts.weak.decode()}"{chunk.fragments[3].decode()}{parts.suffix.decode()}"'


def render_chunk(
    collection: VisibleCollection, chunk: RetrievedChunk, etag_parts: EtagParts, signature: str | None
) -> bytes:
    """A chunk (8): a result without a score, with its collection and, if granted, its text."""
    id, source, metadata, etag = chunk.fragments
    body = b'{"id":%b,"collection":%b,"source":%b' % (id, orjson.dumps(collection.name), source)
    body += METADATA % (etag_parts.visibility, etag_parts.weak, etag_parts.suffix) % (metadata, etag)
    if signature is not None:
        body = body[:-1] + b',"provenance":"%b"}' % signature.encode()
    if collection.settings.return_text:
        body += b',"text":' + orjson.dumps(chunk.text)
    payload = visible_payload(chunk, collection.settings)
    if payload is not None:
        body += b',"semantic_payload":' + payload
    return body + b"}"


def render_collection(collection: VisibleCollection) -> Collection:
    """An item of the list of collections (4)."""
    stored = collection.snapshot.collection
    return Collection(
        name=collection.name,
        description=collection.description,
        visibility=collection.visibility,
        updated_at=stored.updated_at,
        document_count=collection.snapshot.documents,
        chunk_count=collection.snapshot.chunks,
        embedding_spaces=[space.id for space in stored.spaces],
        modes=collection.text_modes,
    )


def _meta(served: Served, requested: int | None) -> SearchMeta:
    answer, top_k = served.answer, served.answer.question.top_k
    return SearchMeta(
        returned=len(answer.hits),
        top_k=top_k,
        top_k_requested=requested if requested is not None and requested > top_k else UNSET,
        mode=answer.mode,
        embedding_space=UNSET if answer.space is None else answer.space.id,
        reranked=answer.reranked or UNSET,
        fusion=_fusion(answer.query),
        relevance_bound=UNSET if answer.scale is None else RELEVANT,
        ignored=list(answer.ignored) if answer.ignored else UNSET,
        corrected=answer.corrected or UNSET,
        suggestion=answer.suggestion or UNSET,
        understood=UNSET if answer.reading is None else msgspec.convert(answer.reading.understood, Understood),
        next_cursor=served.next_cursor or UNSET,
    )


def _fusion(query: Query) -> Fusion | UnsetType:
    if query.mode != "hybrid" or query.fusion.method == "score":
        return UNSET
    return Fusion(query.fusion.method, max(FUSED_RANKS, query.offset + query.top_k))


# -- endpoints -------------------------------------------------------------------------------------------------------


def _provenance(request: Request) -> ProvenanceSigners | None:
    """What signs; None without a key."""
    provenance: ProvenanceSigners | None = request.app.state.provenance
    return provenance


@renders_errors_with(render_error)
async def discover(request: Request) -> Response:
    # 3.2 requires application/json, the examples show application/aidre+json: sent only if json is not acceptable.
    accept = accept_header(request)
    variant = AIDRE_VARIANT if quality(accept, JSON) == 0 < quality(accept, AIDRE_JSON) else JSON_VARIANT
    body = msgspec.json.encode(discovery.document(retrieval_of(request), caller_of(request), _provenance(request)))
    etag = f'"{etag_digest(body)}-{variant.mark}"'
    return conditional_response(request, Representation(body, variant, etag, "max-age=300"))


@renders_errors_with(render_error)
async def search(request: Request) -> Response:
    variant = negotiate(request)
    retrieval, caller = retrieval_of(request), caller_of(request)
    limits = retrieval.settings.limits
    parsed = parse_content(await read_content(request, BODY_TYPES, limits.body_bytes), limits)
    question = parsed.question
    await retrieval.reach(request, parsed.collection)
    collection = await retrieval.find(parsed.collection, question.cursor, caller, "aidre")
    if question.vector is not None and not may_query_by_vector(caller, collection.settings):
        guard: Guard = request.app.state.guard
        raise guard.lacking(
            "vectors",
            "/search",
            caller,
            keyless="queries by vector of this collection need a key with the scope vectors: send it, or a text query",
            known="this key may not query this collection by vector: its scopes lack vectors; send a text query",
        )
    check_granted(parsed.fields, collection, caller.vectors)
    if question.facets or question.highlight is not None:
        check_extensions(question, collection)
    if retrieval.counts_chunks:
        check_facets(question.facets, collection)
    if question.order is not None and (retrieval.counts_chunks or not collection.settings.return_text):
        check_order(question.order, collection)
    served = await retrieval.ask(collection, question, caller, "aidre", filter=parsed.filter)
    started = perf_counter()
    content = render(
        served.collection,
        served.answer,
        parsed.fields,
        _meta(served, parsed.top_k),
        identifier=request_id(request),
        variant=variant,
        provenance=_provenance(request),
    )
    retrieval.metrics.observe_stage("aidre", "render", perf_counter() - started)
    return PreparedResponse(content, SEARCH_HEADERS[variant.mark])


@renders_errors_with(render_error)
async def list_collections(request: Request) -> Response:
    variant = negotiate(request)
    visible = retrieval_of(request).collections.visible(caller_of(request), "aidre")
    listed = CollectionList(collections=[render_collection(collection) for collection in visible], request_id="")
    return conditional_message(request, variant, listed)


@renders_errors_with(render_error)
async def show_collection(request: Request) -> Response:
    variant = negotiate(request)
    collection = retrieval_of(request).collections.known(request.path_params["name"], caller_of(request), "aidre")
    shown = CollectionAnswer(**msgspec.structs.asdict(render_collection(collection)), request_id="")
    return conditional_message(request, variant, shown)


@renders_errors_with(render_error)
async def show_chunk(request: Request) -> Response:
    variant = negotiate(request)
    name = request.query_params.get("collection")
    await retrieval_of(request).reach(request, name)
    collection, chunk = await retrieval_of(request).chunk(_chunk_id(request), name, caller_of(request), "aidre")
    provenance = _provenance(request)
    etag_parts = _etag_parts(collection, variant, provenance)
    signature = None if provenance is None else provenance.chunk(collection.name, chunk)
    body = render_chunk(collection, chunk, etag_parts, signature)
    max_age = CHUNK_SECONDS if provenance is None else min(CHUNK_SECONDS, int(provenance.chunks.fresh))
    cache = f"max-age={max_age}, must-revalidate" if collection.visibility == "public" else "private, no-cache"
    # No Last-Modified for a signed chunk: its date would confirm a copy with an outdated signature.
    updated_at = chunk.updated_at if provenance is None else None
    return conditional_response(request, Representation(body, variant, _etag_of(chunk, etag_parts), cache, updated_at))


def _chunk_id(request: Request) -> str:
    """The id in the path, percent-decoded. Raises NotFound for bytes that are not UTF-8."""
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
