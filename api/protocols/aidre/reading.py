"""Reading whole documents back, and counting them (an extension of ours), as the library's `get`, `scan`, `count` and
`facets` do.

What a page has is charged to the caller's budget: with texts every chunk of its documents, without them one chunk of
each, whose metadata may repeat its text. A collection that withholds its text gives documents without theirs, counts
no facets, and takes no filter that would tell words. The image of a document, which people know it by: named in its
metadata, else in its schema.org object.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple
from urllib.parse import urljoin, urlsplit

import msgspec
import orjson
from msgspec import UNSET
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aidre.api.access import caller_of
from aidre.api.http import (
    AIDRE_JSON,
    JSON,
    MIN_FLOAT_INTEGER,
    BadRequest,
    Unprocessable,
    UnsupportedReturnField,
    negotiate,
    parse_object,
    present,
    read_content,
    read_integers,
    read_message,
    render_error,
    renders_errors_with,
    request_id,
)
from aidre.api.protocols.aidre.document_endpoints import may_be_made
from aidre.api.protocols.aidre.document_messages import (
    MAX_IDS,
    MAX_OFFSET,
    CountQuery,
    DocumentCount,
    DocumentPage,
    DocumentQuery,
    StoredDocument,
)
from aidre.api.protocols.aidre.extensions import check_facets, parse_facets, read_limits, render_facets
from aidre.api.protocols.aidre.search_messages import Facet
from aidre.api.retrieval import VisibleCollection, retrieval_of, visible_object
from aidre.engine.errors import CollectionMissing
from aidre.engine.index.fields import Filter, filter_digest
from aidre.engine.listing import documents, some_of, stored_document, to_order
from aidre.engine.model import Document
from aidre.engine.ports import Reader
from aidre.engine.retrieve import count_facets
from aidre.engine.schema_text import by_property
from aidre.engine.types import FacetRequest, RetrievedChunk

DOCUMENTS_DEFAULT, DOCUMENTS_MAX = 100, 500
"""Documents of a page."""
PAGE_BYTES = 4 << 20
"""Bytes of texts and objects after which a page ends, with the document that reaches it."""
BODY_TYPES = frozenset({AIDRE_JSON, JSON})
MEMBERS = ("text", "title", "url", "type", "updated_at")
READING = {
    "query": 'POST {"ids": [...]} or {"filter", "order_by", "offset"} to {collections}/{name}/query: whole '
    "documents; fields names members and metadata, next goes into cursor",
    "count": 'POST {"filter", "facets"} to {collections}/{name}/count: how many documents, and the values of fields',
    "ids_max": MAX_IDS,
    "documents_default": DOCUMENTS_DEFAULT,
    "documents_max": DOCUMENTS_MAX,
    "offset_max": MAX_OFFSET,
    "page_bytes": PAGE_BYTES,
}
"""The member `read` of the extensions in the discovery document."""


class ReadDocuments(NamedTuple):
    """Some documents, None for an id that is not there; `end` is where the next page begins, None after the last."""

    documents: list[StoredDocument | None]
    chunk_ids: list[str]
    end: int | None


class Listing(NamedTuple):
    """What a request asks for. `newest` has the deletions of today, `start` is the position of its page."""

    query: DocumentQuery
    collection: VisibleCollection
    reader: Reader
    newest: Reader
    filter: Filter | None
    start: int
    is_first: bool

    def read(self) -> ReadDocuments:
        limit = min(self.query.limit or DOCUMENTS_DEFAULT, DOCUMENTS_MAX)
        shown: list[StoredDocument | None] = []
        charged: list[str] = []
        size, end = 0, self.start
        for chunks, after in self._groups():
            if len(shown) == limit or size >= PAGE_BYTES:
                return ReadDocuments(shown, charged, end)
            end = after
            if chunks is None:
                shown.append(None)
                continue
            if self.newest is not self.reader and not self.newest.document(chunks[0].document_id):
                continue  # deleted since
            document = shown_document(chunks, self.query, self.collection)
            shown.append(document)
            charged += [chunk.id for chunk in (chunks if document.text is not UNSET else chunks[:1])]
            size += sum(len(chunk.text) + len(chunk.json_payload or b"") for chunk in chunks)
        return ReadDocuments(shown, charged, None)

    def _groups(self) -> Iterator[tuple[Sequence[RetrievedChunk] | None, int]]:
        """The chunks of each document from the position on, and the position after it."""
        query, end = self.query, self.start
        if query.ids is not None:
            for document_id in query.ids[self.start :]:
                end += 1
                yield self.reader.document(document_id) or None, end
            return
        skipped = (query.offset or 0) if self.is_first else 0
        order = to_order(query.order_by)
        if order:
            end += skipped
            found = documents(self.reader, self.filter)
            some = some_of(found, order, limit=DOCUMENTS_MAX + 1, offset=end, document=self.reader.document)
            for chunks in some:
                end += 1
                yield chunks, end
            return
        found = documents(self.reader, self.filter, start=self.start)
        for chunks in islice(found, skipped):
            end += len(chunks)
        for chunks in found:
            end += len(chunks)
            yield chunks, end


def shown_document(
    chunks: Sequence[RetrievedChunk], query: DocumentQuery, collection: VisibleCollection
) -> StoredDocument:
    """A document with what was asked for and the collection returns."""
    first, settings = chunks[0], collection.settings
    named = None if query.fields is None else frozenset(query.fields)
    shows_text = settings.return_text if named is None else "text" in named
    whole: Document = stored_document(chunks if shows_text else chunks[:1], vectors=False)
    members = {name: present(getattr(whole, name)) for name in MEMBERS if named is None or name in named}
    if not shows_text:
        members.pop("text", None)
    if named is not None:
        metadata = {name: value for name, value in whole.metadata.items() if name in named}
        return StoredDocument(first.document_id, metadata=metadata, **members)
    schema_object = whole.schema_object
    if schema_object is not None:
        schema_object = visible_object(schema_object, first, settings)
    vectors = {space: vector.tolist() for space, vector in first.vectors().items()} if query.vectors else None
    return StoredDocument(
        first.document_id,
        metadata=dict(whole.metadata),
        schema_object=present(schema_object),
        vectors=present(vectors if len(chunks) == 1 else None),
        **members,
    )


# -- requests --------------------------------------------------------------------------------------------------------


def parse_query(body: dict[str, Any]) -> DocumentQuery:
    """Raises BadRequest, InvalidInput."""
    members = {**body}
    read_integers(members, "limit", "offset", least=MIN_FLOAT_INTEGER)
    query = read_message(members, DocumentQuery)
    if query.ids is not None:
        beside = [name for name in ("filter", "order_by", "offset") if getattr(query, name) is not None]
        if beside:
            raise BadRequest(f"send ids or {beside[0]}, not both", members=["ids", beside[0]])
    if query.fields is not None and query.vectors:
        raise BadRequest("send fields or vectors, not both", members=["fields", "vectors"])
    to_order(query.order_by)
    return query


def check_granted(query: DocumentQuery, collection: VisibleCollection, vectors_granted: bool) -> None:
    """Raises UnsupportedReturnField for what is not granted."""
    if query.vectors and not (collection.settings.return_vectors and vectors_granted):
        raise UnsupportedReturnField("vectors are not returned here", field="vectors")
    if query.fields is not None and "text" in query.fields and not collection.settings.return_text:
        raise UnsupportedReturnField("this collection does not return text", field="text")


def binding_of(query: DocumentQuery, filter: Filter | None, caller: str, collection: str) -> bytes:
    """The listing that a cursor continues, as bytes; the limit may change between pages."""
    digest = None if filter is None else filter_digest(filter).hex()
    listed = [query.ids, query.order_by, query.offset or 0, query.fields, bool(query.vectors)]
    return orjson.dumps(["documents", caller, collection, digest, *listed])


def is_unmade(request: Request, name: str) -> bool:
    """Whether the first document of the caller would make a collection, which is empty to it until then, as to the
    library."""
    caller, retrieval = caller_of(request), retrieval_of(request)
    return retrieval.settings.server.writes and caller.may_write and may_be_made(retrieval, caller, name)


async def _read_body(request: Request) -> dict[str, Any]:
    limits = retrieval_of(request).settings.limits
    return parse_object(await read_content(request, BODY_TYPES, limits.body_bytes))


@renders_errors_with(render_error)
async def query_documents(request: Request) -> Response:
    variant = negotiate(request)
    retrieval, caller = retrieval_of(request), caller_of(request)
    query = parse_query(await _read_body(request))
    name = request.path_params["name"]
    await retrieval.reach(request, name)
    try:
        collection = await retrieval.find(name, query.cursor, caller, "aidre")
    except CollectionMissing:
        if not is_unmade(request, name):
            raise
        nothing: list[StoredDocument | None] = [None] * len(query.ids or ())
        empty = DocumentPage(collection=name, generation=0, documents=nothing, request_id=request_id(request))
        return _fresh(msgspec.json.encode(empty), variant.media_type)
    check_granted(query, collection, caller.vectors)
    retrieval.check_budget(caller)
    filter = None if query.filter is None else await retrieval.read_filter(query.filter, collection)
    binding = binding_of(query, filter, caller.name, collection.name)
    reader, position = await retrieval.resumed(query.cursor, collection, binding)
    newest, start = collection.snapshot, 0 if position is None else position.offset
    listing = Listing(query, collection, reader, newest, filter, start, position is None)
    found = await retrieval.in_thread(listing.read)
    retrieval.check_budget(caller)  # concurrent requests may have spent it
    retrieval.charge_budget(caller, collection, found.chunk_ids)
    following = None
    if found.end is not None:
        following = retrieval.cursor_at(found.end, reader, position, collection, binding)
    answer = DocumentPage(
        collection=collection.name,
        generation=reader.generation,
        documents=found.documents,
        request_id=request_id(request),
        ignored=_ignored(reader, filter),
        next=present(following),
    )
    return _fresh(msgspec.json.encode(answer), variant.media_type)


@renders_errors_with(render_error)
async def count_documents(request: Request) -> Response:
    variant = negotiate(request)
    retrieval, caller = retrieval_of(request), caller_of(request)
    body = await _read_body(request)
    query = read_message({**body, **read_limits(body, MIN_FLOAT_INTEGER)}, CountQuery)
    facets = parse_facets(query.facets)
    name = request.path_params["name"]
    await retrieval.reach(request, name)
    try:
        collection = await retrieval.find_here(name, caller, "aidre")
    except CollectionMissing:
        if not is_unmade(request, name):
            raise
        nothing = {request.field: Facet(0, 0, 0, []) for request in facets} if facets else UNSET
        empty = DocumentCount(name, 0, 0, request_id(request), facets=nothing)
        return _fresh(msgspec.json.encode(empty), variant.media_type)
    check_counted(facets, collection)
    if retrieval.counts_chunks:
        check_facets(facets, collection)
    retrieval.check_budget(caller)
    filter = None if query.filter is None else await retrieval.read_filter(query.filter, collection, is_free=True)
    reader = collection.snapshot
    count = await retrieval.in_thread(partial(reader.count_documents, filter))
    counted = await retrieval.in_thread(partial(count_facets, reader, facets, filter)) if facets else ()
    answer = DocumentCount(
        collection=collection.name,
        generation=reader.generation,
        documents=count,
        request_id=request_id(request),
        ignored=_ignored(reader, filter),
        facets=msgspec.Raw(render_facets(facets, counted)) if facets else UNSET,  # type: ignore[arg-type]
    )
    return _fresh(msgspec.json.encode(answer), variant.media_type)


def check_counted(facets: Sequence[FacetRequest], collection: VisibleCollection) -> None:
    """Raises UnsupportedReturnField where the collection withholds its text, Unprocessable where its engine counts no
    values."""
    if facets and not collection.settings.return_text:
        raise UnsupportedReturnField("this collection does not return text, so it has no facets", field="facets")
    if facets and not collection.snapshot.can.facets:
        raise Unprocessable("this collection has no facets: its engine lacks the capability facets", member="facets")


def _ignored(reader: Reader, filter: Filter | None) -> Any:
    return UNSET if filter is None else list(reader.unknown_fields(filter)) or UNSET


def _fresh(content: bytes, media_type: str) -> Response:
    return Response(content, 200, {"Cache-Control": "no-store", "Vary": "Accept"}, media_type)


routes: list[Route] = [
    Route("/collections/{name}/query", query_documents, methods=["POST"]),
    Route("/collections/{name}/count", count_documents, methods=["POST"]),
]


_NAMES: Final = (
    "thumbnail", "thumbnailUrl", "thumbnail_url", "image", "imageUrl", "image_url", "images", "cover", "coverImage",
    "cover_image", "featuredImage", "featured_image", "heroImage", "hero_image", "og:image", "primaryImageOfPage",
)  # fmt: skip
"""Members that name an image, the smallest first: those of front matters, of tables and of schema.org."""

_ADDRESSES: Final = ("url", "contentUrl", "thumbnailUrl", "src", "@id")
"""Members of an image that is an object."""

_MAX_CHARS: Final = 2_000
"""An address is shorter; a longer one is mostly the image itself."""

_MAX_DEPTH: Final = 4
"""Lists in objects in lists."""


def image_of(chunk: RetrievedChunk, url: str | None) -> str | None:
    """The address of the image of the chunk's document, http or https; a relative one is relative to `url`."""
    found = _named_in(chunk.metadata, url)
    if found is None and chunk.schema_object is not None:
        item = orjson.loads(chunk.schema_object)
        found = _named_in(by_property(item), url) if isinstance(item, dict) else None
    return found


def _named_in(members: Any, url: str | None) -> str | None:
    for name in _NAMES:
        if name in members and (found := _address(members[name], url)) is not None:
            return found
    return None


def _address(value: Any, url: str | None, depth: int = 0) -> str | None:
    if isinstance(value, str):
        return _absolute(value.strip(), url)
    if depth == _MAX_DEPTH:
        return None
    parts: list[Any] = []
    if isinstance(value, list | tuple):
        parts = list(value[:_MAX_DEPTH])
    elif isinstance(value, dict):
        members = by_property(value)
        parts = [members[name] for name in _ADDRESSES if name in members]
    return next((found for part in parts if (found := _address(part, url, depth + 1)) is not None), None)


def _absolute(address: str, url: str | None) -> str | None:
    if not address or len(address) > _MAX_CHARS or not address.isprintable() or " " in address:
        return None
    try:
        whole = urljoin(url or "", address)
        parts = urlsplit(whole)
        is_web = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
    except ValueError:
        return None
    return whole if is_web else None
