"""What servers answer, as structs that demand only what the draft of AIDRE demands; all other members may be missing.

Unknown members are ignored (20.3). A member of the wrong type is an error of the server.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from aidre_client.values import Highlight, Json

ChangeOperation: TypeAlias = Literal["add", "change", "delete"]


class DeclaredSpace(Struct, frozen=True):
    """An embedding space of a discovery document (19.1)."""

    id: str
    dimensions: int
    distance: str
    normalized: bool | None = None
    provider: str | None = None
    model: str | None = None
    revision: str | None = None
    query_text: bool | None = None


class Endpoints(Struct, frozen=True):
    """Addresses, of which all but `search` may be templates."""

    search: str | None = None
    collections: str | None = None
    chunk: str | None = None
    changes: str | None = None
    suggest: str | None = None
    query: str | None = None
    count: str | None = None
    documents: str | None = None
    nlweb: str | None = None
    intent: str | None = None
    intake: str | None = None


class Provenance(Struct, frozen=True):
    """How the server signs, and where its keys are."""

    jwks_uri: str
    issuer: str | None = None
    alg: str | None = None
    typ: str | None = None
    responses: dict[str, Any] | None = None


class Discovery(Struct, frozen=True):
    """A discovery document (3). `version` is the only member that every server has to send."""

    version: str
    service: str | None = None
    organization: str | None = None
    endpoints: Endpoints = Endpoints()
    capabilities: dict[str, Any] = {}
    embedding_spaces: list[DeclaredSpace] = []
    modes: list[str] | None = None
    limits: dict[str, Any] = {}
    extensions: dict[str, Any] = {}
    auth: dict[str, Any] | None = None
    provenance: Provenance | None = None

    def can(self, capability: str) -> bool:
        return self.capabilities.get(capability) is True

    def limit(self, name: str) -> int | None:
        value = self.limits.get(name)
        return value if type(value) is int and value > 0 else None


class CollectionInfo(Struct, frozen=True):
    """A collection as the server lists it (4)."""

    name: str = ""
    description: str | None = None
    visibility: str | None = None
    updated_at: str | None = None
    document_count: int | None = None
    chunk_count: int | None = None
    embedding_spaces: list[str] | None = None
    modes: list[str] | None = None


class CollectionList(Struct, frozen=True):
    """What lists collections; the draft does not say, so a bare array and bare names are read, too."""

    collections: list[CollectionInfo | str]


class Source(Struct, frozen=True):
    url: str | None = None
    title: str | None = None
    section: str | None = None


class FacetValue(Struct, frozen=True):
    value: str | int | float | bool
    count: int


class FacetRangeCount(Struct, frozen=True):
    count: int


class CountedFacet(Struct, frozen=True):
    """The values of a field, an extension."""

    values: list[FacetValue] = []
    documents: int = 0
    missing: int = 0
    distinct: int = 0
    min: str | int | float | None = None
    max: str | int | float | None = None
    ranges: list[FacetRangeCount] = []


class Passage(Struct, frozen=True):
    """Another chunk of the document of a result, an extension."""

    score: float
    id: str | None = None
    relevance: float | None = None
    section: str | None = None
    text: str | None = None
    highlight: Highlight | None = None


class CopiesSent(Struct, frozen=True):
    """How many documents are near-copies of that of a result, and the ids of chunks of some."""

    count: int = 0
    ids: list[str] = []


class Result(Struct, frozen=True):
    """A result of a search (7); which members it has is up to the request and the server."""

    id: str | None = None
    score: float | None = None
    relevance: float | None = None
    highlight: Highlight | None = None
    passages: list[Passage] = []
    copies: CopiesSent | None = None
    source: Source = Source()
    metadata: dict[str, Any] = {}
    text: str | None = None
    semantic_payload: Json = None
    vectors: dict[str, list[float]] = {}


class SearchMeta(Struct, frozen=True):
    top_k: int | None = None
    mode: str | None = None
    embedding_space: str | None = None
    next_cursor: str | None = None
    corrected: str | None = None
    suggestion: str | None = None
    understood: dict[str, Any] = {}
    ignored: list[str] = []


class SearchAnswer(Struct, frozen=True):
    """The answer to a search (16)."""

    results: list[Result]
    collection: str | None = None
    request_id: str | None = None
    meta: SearchMeta = SearchMeta()
    facets: dict[str, CountedFacet] = {}


class ChunkAnswer(Struct, frozen=True):
    """One chunk (8), of which the draft demands no member."""

    id: str | None = None
    collection: str | None = None
    source: Source = Source()
    metadata: dict[str, Any] = {}
    text: str | None = None
    semantic_payload: Json = None


class SentDocument(Struct, frozen=True):
    """A whole document, an extension. Without `text` the collection withholds it."""

    id: str
    text: str | None = None
    title: str | None = None
    url: str | None = None
    type: str | None = None
    updated_at: str | None = None
    metadata: dict[str, Any] = {}
    schema_object: dict[str, Any] | None = None
    vectors: dict[str, list[float]] | None = None


class DocumentPage(Struct, frozen=True):
    """Some documents, None for an id that is not there, and where they go on."""

    documents: list[SentDocument | None]
    next: str | None = None


class DocumentCount(Struct, frozen=True):
    """How many documents there are, and the values of their fields."""

    documents: int
    facets: dict[str, CountedFacet] = {}


class WriteAnswer(Struct, frozen=True):
    """What a write has done: documents that `changed` or were `deleted`, durable in a generation."""

    collection: str | None = None
    generation: int = 0
    changed: int = 0
    deleted: int = 0


class SuggestionsAnswer(Struct, frozen=True):
    """Texts that begin as the one that was sent, an extension."""

    suggestions: list[str]


class Change(Struct, frozen=True):
    """What happened to a chunk. A deleted chunk has no source."""

    op: ChangeOperation
    id: str
    content_hash: str | None = None
    source: Source = Source()


class ChangePage(Struct, frozen=True):
    """A page of the change feed, oldest first; `token` is where to go on from."""

    changes: list[Change]
    token: str = field(name="next")
    more: bool = False
