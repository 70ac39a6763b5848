"""The messages about whole documents, an extension of ours: written, changed, deleted, read back and counted."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from aidre.api.http import AS_LIST, AtLeastOne, Count, DateTime, Message
from aidre.api.protocols.aidre.search_messages import FILTER, MAX_FACETS, Facet, FacetRequest

MAX_IDS, MAX_FIELDS, MAX_DELETED = 1_000, 100, 10_000
"""Ids and names of fields in a request, and ids in a deletion."""
MAX_OFFSET = 10_000_000
ORDER = (
    "The name of a member or of metadata, -name for the greatest value first, or a list of them. Documents "
    "without a value are last, equal ones by id"
)


class Written(Message):
    """Rows that are durable."""

    collection: str
    generation: Annotated[int, Meta(ge=0, description="The state of the collection that has them")]
    documents: Annotated[Count, Meta(description="Documents that were sent")]
    written: Annotated[Count, Meta(description="Of these, the new and the changed ones")]
    unchanged: Annotated[Count, Meta(description="Of these, the ones that were stored as they are")]
    request_id: str


class Deleted(Message):
    """A deletion that is durable."""

    collection: str
    generation: Annotated[int, Meta(ge=0, description="The state of the collection that lacks them")]
    deleted: Annotated[Count, Meta(description="Documents that existed")]
    request_id: str


class Deletion(Message):
    """Which documents to delete: send exactly one of `ids` and `filter`."""

    ids: Annotated[Annotated[list[str], Meta(max_length=MAX_DELETED)] | None, Meta(description="Documents by id")] = (
        None
    )
    filter: Annotated[dict[str, Any] | None, Meta(description=FILTER)] = None
    allow_unknown: Annotated[
        bool, Meta(description="Delete also where the filter names a field that no document has; without it: refused")
    ] = False


class Patched(Message):
    """A change of documents that is durable."""

    collection: str
    generation: Annotated[int, Meta(ge=0, description="The state of the collection that has it")]
    documents: Annotated[Count, Meta(description="Documents that were named")]
    changed: Annotated[Count, Meta(description="Of these, the ones that differ now")]
    request_id: str


class DocumentQuery(Message):
    """Which documents to read: those with some ids, or all that pass a filter."""

    ids: Annotated[
        Annotated[list[str], Meta(max_length=MAX_IDS)] | None,
        Meta(description="Documents by id, answered in this order, null for one that is not there"),
    ] = None
    filter: Annotated[dict[str, Any] | None, Meta(description=FILTER)] = None
    order_by: Annotated[str | list[str] | None, Meta(description=ORDER, extra_json_schema=AS_LIST)] = None
    limit: Annotated[
        AtLeastOne | None, Meta(description="Documents at most; a larger one than the maximum is clamped")
    ] = None
    offset: Annotated[Annotated[int, Meta(ge=0, le=MAX_OFFSET)] | None, Meta(description="Documents to leave out")] = (
        None
    )
    fields: Annotated[
        Annotated[list[str], Meta(max_length=MAX_FIELDS)] | None,
        Meta(description="Members and metadata that each document is to have; left out: all but vectors"),
    ] = None
    vectors: Annotated[bool | None, Meta(description="`vectors` of documents of one chunk; false if left out")] = None
    cursor: Annotated[str | None, Meta(description="The `next` of an earlier answer to the same request")] = None


class StoredDocument(Message):
    """A whole document. `text` is there if the collection returns texts; white space between chunks is not stored."""

    id: str
    text: str | UnsetType = UNSET
    title: str | UnsetType = UNSET
    url: str | UnsetType = UNSET
    type: str | UnsetType = UNSET
    updated_at: DateTime | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
    schema_object: Annotated[Any, Meta(description="The schema.org object")] | UnsetType = UNSET
    vectors: Annotated[dict[str, list[float]], Meta(description="By embedding space")] | UnsetType = UNSET


class DocumentPage(Message):
    """Some documents, of one state of the collection."""

    collection: str
    generation: Annotated[int, Meta(ge=0, description="The state that was read")]
    documents: Annotated[list[StoredDocument | None], Meta(description="null for an id that is not there")]
    request_id: str
    ignored: Annotated[list[str], Meta(description="Fields of the filter that no document has")] | UnsetType = UNSET
    next: Annotated[str, Meta(description="Send it as `cursor` with the same request for what follows")] | (
        UnsetType
    ) = UNSET


class CountQuery(Message):
    """Which documents to count, and which of their fields."""

    filter: Annotated[dict[str, Any] | None, Meta(description=FILTER)] = None
    facets: Annotated[
        Annotated[list[str | FacetRequest], Meta(max_length=MAX_FACETS)] | None,
        Meta(description="Fields whose values are counted in these documents"),
    ] = None


class DocumentCount(Message):
    """How many documents there are."""

    collection: str
    generation: Annotated[int, Meta(ge=0, description="The state that was read")]
    documents: Annotated[Count, Meta(description="Documents that pass the filter")]
    request_id: str
    ignored: Annotated[list[str], Meta(description="Fields of the filter that no document has")] | UnsetType = UNSET
    facets: Annotated[dict[str, Facet], Meta(description="By field, as the request names it")] | UnsetType = UNSET
