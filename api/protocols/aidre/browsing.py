"""Browsing a collection (an extension of ours): what it holds, its documents, one document with its chunks in order.

Whatever is shown here a search shows, too, or an operator publishes it on purpose. A collection that withholds its text
lists no fields, and its chunks come without theirs. The chunks of a document are charged to the caller's budget, at
least one for each answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from itertools import islice
from typing import Any

import orjson
from msgspec import UNSET
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aidre.api.access import caller_of
from aidre.api.http import (
    BadRequest,
    NotFound,
    conditional_message,
    negotiate,
    present,
    render_error,
    renders_errors_with,
)
from aidre.api.protocols.aidre.changes import parse_limit
from aidre.api.protocols.aidre.profile import offered_facets
from aidre.api.protocols.aidre.search_messages import (
    BrowsedChunk,
    BrowsedDocument,
    DocumentAnswer,
    DocumentList,
    FacetValue,
    ListedDocument,
    Profile,
    ProfiledSpace,
)
from aidre.api.retrieval import VisibleCollection, retrieval_of, visible_payload
from aidre.engine.index.fields import field_name
from aidre.engine.ports import Reader
from aidre.engine.types import CollectionStatus, RetrievedChunk, SpaceStatus
from aidre.ingest.pipeline import oldest_read_times

DOCUMENTS_DEFAULT, DOCUMENTS_MAX = 50, 500
"""Documents of a page."""
DOCUMENTS_DEEPEST = 10_000
"""The largest offset: the scan for a page reads all documents before it."""
CHUNKS_DEFAULT, CHUNKS_MAX = 100, 500
"""Chunks of a page."""
SITES = 20
"""Sites that a profile names."""
BROWSING = {
    "profile": "GET /collections/{name}/profile: fields, languages, bytes and calibration",
    "documents": "GET /collections/{name}/browse: its documents, in the order of storage; limit and offset",
    "document": "GET /collections/{name}/browse/{id}: a document with its chunks in order; limit and offset; it "
    "is charged at least one chunk",
    "documents_default": DOCUMENTS_DEFAULT,
    "documents_max": DOCUMENTS_MAX,
    "offset_max": DOCUMENTS_DEEPEST,
    "chunks_default": CHUNKS_DEFAULT,
    "chunks_max": CHUNKS_MAX,
}
"""The member `browse` of the extensions in the discovery document."""


def parse_offset(value: str | None, most: int) -> int:
    """Raises BadRequest."""
    if value is None:
        return 0
    if not (value.isascii() and value.isdigit() and int(value[:20]) <= most):
        raise BadRequest(f"offset must be a whole number from 0 to {most}", member="offset")
    return int(value)


def listed_documents(snapshot: Reader, offset: int, limit: int) -> tuple[list[ListedDocument], bool]:
    """Some documents in the order of storage, and whether more follow."""
    listed: list[ListedDocument] = []
    previous: Any = None
    seen = 0
    with closing(snapshot.scan()) as chunks:  # type: ignore[type-var]
        for chunk in chunks:
            if chunk.document_key == previous:
                continue
            previous = chunk.document_key
            seen += 1
            if seen <= offset:
                continue
            if len(listed) == limit:
                return listed, True
            listed.append(
                ListedDocument(
                    id=chunk.document_id,
                    title=present(chunk.title),
                    url=present(chunk.url),
                    type=present(chunk.type),
                    updated_at=chunk.updated_at,
                    chunk_count=chunk.document_chunk_count,
                )
            )
    return listed, False


def browsed_document(
    collection: VisibleCollection, document_id: str, offset: int, limit: int
) -> tuple[BrowsedDocument, list[BrowsedChunk], str]:
    """A document, some of its chunks, and the id of its first one. Raises NotFound."""
    chunks = collection.snapshot.document(document_id)
    if not chunks:
        raise NotFound("there is no document with this id")
    first: RetrievedChunk = chunks[0]
    payload = visible_payload(first, collection.settings)
    document = BrowsedDocument(
        id=first.document_id,
        title=present(first.title),
        url=present(first.url),
        type=present(first.type),
        updated_at=first.updated_at,
        chunk_count=len(chunks),
        metadata=dict(first.metadata),
        semantic_payload=UNSET if payload is None else orjson.loads(payload),
    )
    shown = [
        BrowsedChunk(
            id=chunk.id,
            span=list(chunk.span),
            section=present(chunk.section),
            text=chunk.text if collection.settings.return_text else UNSET,
        )
        for chunk in islice(chunks, offset, offset + limit)
    ]
    return document, shown, first.id


def profile_of(collection: VisibleCollection, read_times: Mapping[str, float], *, counts_texts: bool) -> Profile:
    """What a collection holds, for people: as far as its callers may know. `counts_texts` is for `offered_facets`."""
    snapshot = collection.snapshot
    status: CollectionStatus = snapshot.status()
    may_count = collection.settings.return_text and snapshot.can.facets
    return Profile(
        collection=collection.name,
        documents=status["documents"],
        chunks=status["chunks"],
        bytes=status["bytes"],
        created_at=status["created_at"],
        updated_at=status["updated_at"],
        read_at=present(read_times.get(collection.name)),
        languages=dict(status["languages"]),
        spaces=[_profiled_space(space) for space in status["spaces"] if space["state"] == "live"],
        sites=_sites(snapshot) if may_count else UNSET,
        facets=offered_facets(collection, counts_texts=counts_texts) if may_count else UNSET,
        request_id="",
    )


def _sites(snapshot: Reader) -> list[FacetValue]:
    return [FacetValue(value, count) for value, count in snapshot.facet(field_name("site"), limit=SITES).counts]


def milliseconds_of(space: SpaceStatus) -> dict[str, float]:
    """By recall that may be asked for, about how long a search for ten results takes; empty without the capability."""
    return {f"{cost['recall']:g}": cost["milliseconds"] for cost in space.get("costs", ())}


def _profiled_space(space: SpaceStatus) -> ProfiledSpace:
    calibration: Any = space["calibration"]
    is_scanned = isinstance(calibration, Mapping) and calibration.get("kind") != "exact"
    depths = calibration.get("depths") or () if is_scanned else ()
    return ProfiledSpace(
        id=space["id"],
        model=present(space["model"]),
        dimensions=space["dimensions"],
        bytes=sum(space["bytes"].values()),
        is_exact=not is_scanned,
        recall={str(depth["results"]): depth["mean"] for depth in depths},
        milliseconds=milliseconds_of(space),
    )


@renders_errors_with(render_error)
async def show_profile(request: Request) -> Response:
    variant = negotiate(request)
    retrieval = retrieval_of(request)
    collection = await retrieval.find_here(request.path_params["name"], caller_of(request), "aidre")

    def make() -> Profile:
        read_times = oldest_read_times(retrieval.snapshots.source.path)
        return profile_of(collection, read_times, counts_texts=not retrieval.counts_chunks)

    return conditional_message(request, variant, await retrieval.in_thread(make))


@renders_errors_with(render_error)
async def list_documents(request: Request) -> Response:
    variant = negotiate(request)
    retrieval, caller = retrieval_of(request), caller_of(request)
    limit = parse_limit(request.query_params.get("limit"), DOCUMENTS_DEFAULT, DOCUMENTS_MAX)
    offset = parse_offset(request.query_params.get("offset"), DOCUMENTS_DEEPEST)
    collection = await retrieval.find_here(request.path_params["name"], caller, "aidre")
    retrieval.check_budget(caller)
    listed, more = await retrieval.in_thread(partial(listed_documents, collection.snapshot, offset, limit))
    following = offset + limit
    content = DocumentList(
        collection=collection.name,
        document_count=collection.snapshot.documents,
        documents=listed,
        next=following if more and following <= DOCUMENTS_DEEPEST else UNSET,
        request_id="",
    )
    return conditional_message(request, variant, content)


@renders_errors_with(render_error)
async def show_document(request: Request) -> Response:
    variant = negotiate(request)
    retrieval, caller = retrieval_of(request), caller_of(request)
    limit = parse_limit(request.query_params.get("limit"), CHUNKS_DEFAULT, CHUNKS_MAX)
    offset = parse_offset(request.query_params.get("offset"), 1 << 31)
    collection = await retrieval.find_here(request.path_params["name"], caller, "aidre")
    retrieval.check_budget(caller)
    make = partial(browsed_document, collection, request.path_params["id"], offset, limit)
    document, chunks, first_id = await asyncio.to_thread(make)
    retrieval.check_budget(caller)  # concurrent requests may have spent it
    # The payload, which may be the whole text, leaves with every page: beyond the last one it costs a chunk, too.
    retrieval.charge_budget(caller, collection, [chunk.id for chunk in chunks] or [first_id])
    following = offset + len(chunks)
    content = DocumentAnswer(
        collection=collection.name,
        document=document,
        chunks=chunks,
        next=following if following < document.chunk_count and chunks else UNSET,
        request_id="",
    )
    return conditional_message(request, variant, content)


routes = [
    Route("/collections/{name}/profile", show_profile, methods=["GET"]),
    Route("/collections/{name}/browse", list_documents, methods=["GET"]),
    Route("/collections/{name}/browse/{id:path}", show_document, methods=["GET"]),
]
