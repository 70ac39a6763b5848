"""The messages of AIDRE (draft-batum-aidre-00): requests, answers and errors.

The structs check requests, are encoded as answers, and become the components of the OpenAPI document.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType, field, structs

from aidre.api.http import AS_LIST, AtLeastOne, Count, DateTime, Message, NotBlank, OpenMessage
from aidre.engine.model import Distance, FusionMethod, Group, Mode, Visibility

VERSION = "1"
FLOAT32_MAX = 3.4e38
MAX_FACETS, MAX_RANGES = 20, 100
"""Facets of a request, and ranges of a facet."""
FILTER = (
    'a JSON object: {"field": value}, {"field": {OPERATOR: value}} with eq, ne, in, nin, gt, gte, lt, lte, contains '
    '(a part of a string, an element of a list) or exists, {"and": [filter, ...]}, {"or": [filter, ...]} or '
    '{"not": filter}, over the metadata and type, site, url, updated_at, document_id (also id) and title; a metadata '
    "field named id or title comes first where a document has one, as metadata.id it is always meant; dates compare as "
    "instants; ne, nin and not hold for a missing field"
)

Relevance: TypeAlias = Annotated[float, Meta(ge=0, le=1, description="0 to 1, on one scale for all collections")]
Span: TypeAlias = Annotated[list[Count], Meta(min_length=2, max_length=2)]
Sha256: TypeAlias = Annotated[str, Meta(pattern="^sha256:[0-9a-f]{64}$")]
Vector: TypeAlias = list[Annotated[float, Meta(ge=-FLOAT32_MAX, le=FLOAT32_MAX)]]
Base64: TypeAlias = Annotated[str, Meta(pattern="^(?:[A-Za-z0-9+/]{16})*(?:[A-Za-z0-9+/]{6}==|[A-Za-z0-9+/]{11}=)?$")]
"""Base64 of a whole number of float32 values."""


class ReturnFields(Message):
    """Which members each result has. `score` and `source` are always there; unknown members are ignored."""

    ids: Annotated[bool | None, Meta(description="`id` of the chunk; true if left out")] = True
    metadata: Annotated[bool | None, Meta(description="`metadata`; true if left out")] = True
    text: Annotated[bool | None, Meta(description="`text` of the chunk; false if left out")] = False
    semantic_payload: Annotated[bool | None, Meta(description="The schema.org object; false if left out")] = False
    vectors: Annotated[bool | None, Meta(description="The vectors by space; false if left out")] = False
    image: Annotated[bool | None, Meta(description="The address of the document's image; false if left out")] = False

    def __post_init__(self) -> None:
        for name in ("ids", "metadata"):  # null counts as absent, and these two are true then
            if getattr(self, name) is None:
                structs.force_setattr(self, name, True)


class FacetRange(Message):
    """A range of numbers or dates: values from `from` on and below `to`. At least one of them is sent."""

    from_: Annotated[int | float | str | None, Meta(description="As `gte` of a filter")] = field(
        default=None, name="from"
    )
    to: Annotated[int | float | str | None, Meta(description="As `lt` of a filter")] = None


class FacetRequest(Message):
    """A field whose values are counted."""

    field: Annotated[str, Meta(description="A field as filters name it")]
    limit: Annotated[
        AtLeastOne | None, Meta(description="Values at most; a larger one than the maximum is clamped")
    ] = None
    ranges: Annotated[
        Annotated[list[FacetRange], Meta(max_length=MAX_RANGES)] | None, Meta(description="Ranges to count, too")
    ] = None
    exclude_own: Annotated[
        bool | None, Meta(description="Count without the conditions of `filter` on this field; false if left out")
    ] = None


class HighlightRequest(Message):
    """What to mark in each result."""

    spans: Annotated[AtLeastOne | None, Meta(description="Words at most in each text")] = None
    snippets: Annotated[Count | None, Meta(description="Sentences at most")] = None
    snippet_chars: Annotated[AtLeastOne | None, Meta(description="Characters of a sentence at most")] = None


class Order(Message):
    """Relevant results are ordered by the values of a field, those without one last."""

    field: str
    direction: Literal["ascending", "descending"]


class Weights(Message):
    """How much vectors and words count in a hybrid search; only their ratio matters."""

    dense: Annotated[float, Meta(ge=0)]
    lexical: Annotated[float, Meta(ge=0)]


class SearchRequest(Message):
    """A search. Send exactly one of `query` and `query_vector`; a `query_vector` needs its `embedding_space`.

    A member that is null counts as absent, members that are not listed here are ignored.
    """

    query: Annotated[NotBlank | None, Meta(description="The text to search for")] = None
    query_vector: Annotated[
        Vector | Base64 | None,
        Meta(
            description="A vector of the dimensions of `embedding_space`; or base64 of its numbers as float32",
            extra_json_schema=AS_LIST,
        ),
    ] = None
    embedding_space: Annotated[str | None, Meta(description="The id of an embedding space of the collection")] = None
    collection: Annotated[str | None, Meta(description="Left out: the default one, or the only one there is")] = None
    top_k: Annotated[AtLeastOne | None, Meta(description="Results at most; written without a fraction")] = None
    cursor: Annotated[str | None, Meta(description="`meta.next_cursor` of the page before")] = None
    mode: Annotated[Mode | None, Meta(description="Left out: the first of the modes of the collection")] = None
    filter: Annotated[dict[str, Any] | None, Meta(description=FILTER)] = None
    correct: Annotated[
        bool | None, Meta(description="false: answer `query` as it is typed, and suggest nothing; true if left out")
    ] = None
    operators: Annotated[
        bool | None, Meta(description="false: read no quotes, no -word and no conditions in `query`; true if left out")
    ] = None
    group: Annotated[
        Group | None,
        Meta(
            description="document: each result is the best chunk of another document, with more of its chunks in "
            "`passages`; `top_k` and pages count documents. chunk if left out"
        ),
    ] = None
    collapse: Annotated[
        bool | None,
        Meta(description="false, with `group` document: near-copies of a better document are results; else `copies`"),
    ] = None
    recall: Annotated[
        Annotated[float, Meta(gt=0, le=1)] | None,
        Meta(
            description="The share of the nearest vectors to find, of which the next higher one in `extensions.recall` "
            "holds: lower is faster, 1 compares every vector. Left out: that of the collection"
        ),
    ] = None
    order: Annotated[
        Order | None,
        Meta(description="Order the relevant ones of the best results by a field in place of scores"),
    ] = None
    weights: Annotated[
        Weights | None,
        Meta(description="What vectors and words count in mode hybrid. Left out: as the operator has configured it"),
    ] = None
    fusion: Annotated[
        FusionMethod | None,
        Meta(
            description="How mode hybrid joins vectors and words: score, or rrf by their ranks in two short lists, "
            "which is faster. Left out: as the operator has configured it"
        ),
    ] = None
    return_: Annotated[ReturnFields | None, Meta(description="Which members each result has")] = field(
        default=None, name="return"
    )
    facets: Annotated[
        Annotated[list[str | FacetRequest], Meta(max_length=MAX_FACETS)] | None,
        Meta(description="Fields whose values are counted in the documents of all matches"),
    ] = None
    highlight: Annotated[
        bool | HighlightRequest | None, Meta(description="Mark the words of `query` in each result")
    ] = None


class Source(Message):
    """Where a chunk comes from: the address and title of its document, and its section there."""

    url: str | UnsetType = UNSET
    title: str | UnsetType = UNSET
    section: str | UnsetType = UNSET


class Metadata(OpenMessage):
    """Facts about a chunk. The document's own metadata stand beside these members."""

    updated_at: DateTime
    canonical: bool
    visibility: Visibility
    content_hash: Annotated[Sha256, Meta(description="Of the UTF-8 bytes of the text")]
    etag: Annotated[str, Meta(description="The ETag of GET /chunks/{id}")]
    provenance: (
        Annotated[
            str,
            Meta(
                pattern=r"^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]{86}$",
                description="A compact JWS over iss, sub (the chunk id), collection, content_hash, source_url, "
                "updated_at, iat and exp; in the answer to GET /chunks/{id}",
            ),
        ]
        | UnsetType
    ) = UNSET


class Highlight(Message):
    """Where the words of the query are in a result, as pairs of start and end in characters (code points) of `text`,
    `source.title` and `source.section`; the end is not included."""

    text: list[Span]
    title: list[Span]
    section: list[Span]
    snippets: Annotated[list[Span], Meta(description="The best sentences of `text`; without a word the first one")]


class FacetValue(Message):
    """A value of a field."""

    value: str | int | float | bool
    count: Annotated[Count, Meta(description="Documents that have it")]


class FacetRangeCount(Message):
    """A range of the request."""

    count: Annotated[Count, Meta(description="Documents with a value in it")]
    from_: int | float | str | UnsetType = field(default=UNSET, name="from")
    to: int | float | str | UnsetType = UNSET


class Facet(Message):
    """The values of a field in the documents of all matches: in mode lexical of the chunks with a word of the query,
    else of all that pass the filter."""

    documents: Annotated[Count, Meta(description="Documents that are counted")]
    missing: Annotated[Count, Meta(description="Documents that lack the field")]
    distinct: Annotated[Count, Meta(description="Different values, of which `values` may have the first")]
    values: Annotated[list[FacetValue], Meta(description="The most frequent first")]
    min: Annotated[int | float | str, Meta(description="Of the numbers, else of the dates")] | UnsetType = UNSET
    max: Annotated[int | float | str, Meta(description="Of the numbers, else of the dates")] | UnsetType = UNSET
    ranges: list[FacetRangeCount] | UnsetType = UNSET


class Passage(Message):
    """A chunk of the same document as a result, which was found, too."""

    score: float
    span: Annotated[Span, Meta(description="Start and end in the document, in characters")]
    id: str | UnsetType = UNSET
    relevance: Relevance | UnsetType = UNSET
    section: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    highlight: Highlight | UnsetType = UNSET


class Copies(Message):
    """Documents that are near-copies of that of a result."""

    count: Count
    ids: Annotated[list[str], Meta(description="Of the best chunks of the first of them")]


class Result(Message):
    """One chunk that was found."""

    score: Annotated[float, Meta(description="Larger is better in every space and mode")]
    id: str | UnsetType = UNSET
    relevance: Relevance | UnsetType = UNSET
    passages: (
        Annotated[list[Passage], Meta(description="With `group` document: the next best chunks of it, best first")]
        | UnsetType
    ) = UNSET
    copies: Annotated[Copies, Meta(description="With `group` document, where there are any")] | UnsetType = UNSET
    source: Source | UnsetType = UNSET
    metadata: Metadata | UnsetType = UNSET
    text: str | UnsetType = UNSET
    semantic_payload: Any | UnsetType = UNSET
    vectors: Annotated[dict[str, list[float]], Meta(description="By embedding space")] | UnsetType = UNSET
    image: Annotated[str, Meta(description="http or https, where the document names one")] | UnsetType = UNSET
    highlight: Highlight | UnsetType = UNSET


class Condition(Message):
    """What some words of a query ask of the fields of the collection: a filter or an order."""

    words: str
    applied: Annotated[bool, Meta(description="false: offered, to be sent as `filter`, and without effect here")]
    filter: dict[str, Any] | UnsetType = UNSET
    order: Order | UnsetType = UNSET
    note: Annotated[str, Meta(description="Why one that is certain is not applied")] | UnsetType = UNSET


class Understood(Message):
    """What a query asks for beside its words: phrases in quotes have to stand in a result, excluded words must not."""

    phrases: list[str] | UnsetType = UNSET
    excluded: list[str] | UnsetType = UNSET
    conditions: Annotated[list[Condition], Meta(description="Numbers, dates and orders in words")] | UnsetType = UNSET


class Fusion(Message):
    """How words and vectors were joined."""

    method: FusionMethod
    ranks: Annotated[int, Meta(ge=1, description="Chunks of each of both lists that were looked at, at least")]


class SearchMeta(Message):
    """How the search was done."""

    returned: Annotated[Count, Meta(description="The number of results")]
    top_k: Annotated[int, Meta(ge=1, description="As applied")]
    top_k_requested: Annotated[int, Meta(ge=1, description="As sent, if it was above the maximum")] | UnsetType = UNSET
    mode: Mode | UnsetType = UNSET
    embedding_space: str | UnsetType = UNSET
    reranked: (
        Annotated[
            Literal["feedback", "rescore"],
            Meta(description="What ordered the best hits of a hybrid search anew: each other, or a second space"),
        ]
        | UnsetType
    ) = UNSET
    fusion: (
        Annotated[Fusion, Meta(description="In mode hybrid, where scores are those of ranks in two lists")] | UnsetType
    ) = UNSET
    relevance_bound: Annotated[float, Meta(ge=0, le=1, description="From here on a result counts as relevant")] | (
        UnsetType
    ) = UNSET
    ignored: Annotated[list[str], Meta(description="Fields of filter and order that no document has")] | UnsetType = (
        UNSET
    )
    corrected: Annotated[str, Meta(description="The text that was answered in place of `query`")] | UnsetType = UNSET
    suggestion: Annotated[str, Meta(description="`query` without what may be typing errors")] | UnsetType = UNSET
    understood: Annotated[Understood, Meta(description="What was read in `query`")] | UnsetType = UNSET
    next_cursor: Annotated[str, Meta(description="Send it as `cursor` for the next page")] | UnsetType = UNSET


class SearchAnswer(Message):
    """The results, ordered by score, then by id."""

    request_id: str
    collection: str
    results: list[Result]
    meta: SearchMeta
    facets: Annotated[dict[str, Facet], Meta(description="By field, as the request names it")] | UnsetType = UNSET


class Chunk(Message):
    """One chunk. `text` is there if the collection returns texts."""

    id: str
    collection: str
    source: Source
    metadata: Metadata
    text: str | UnsetType = UNSET
    semantic_payload: Any | UnsetType = UNSET


class Collection(Message):
    """One collection that the caller may search."""

    name: str
    description: str
    visibility: Visibility
    updated_at: DateTime
    document_count: Count
    chunk_count: Count
    embedding_spaces: Annotated[list[str], Meta(description="Ids; discovery describes them")]
    modes: Annotated[list[Mode], Meta(description="Modes of a text query, the default one first")]


class CollectionAnswer(Collection):
    """One collection that the caller may search, with the id of the request."""

    request_id: str


class CollectionList(Message):
    """The collections that the caller may search."""

    collections: list[Collection]
    request_id: str


class SuggestAnswer(Message):
    """A text with its last word completed, in several ways."""

    collection: str
    suggestions: Annotated[list[str], Meta(description="Whole texts, the one with the most frequent word first")]
    request_id: str


class OfferedFacet(Message):
    """A field that is worth a filter."""

    field: str
    kind: Annotated[
        Literal["value", "number", "date"], Meta(description="Whether to choose values, or a range of numbers or dates")
    ]
    documents: Annotated[Count, Meta(description="Documents that have it")]
    distinct: Annotated[Count, Meta(description="Different values")]


class ProfiledSpace(Message):
    """An embedding space of a collection."""

    id: str
    dimensions: Annotated[int, Meta(ge=1)]
    bytes: Annotated[Count, Meta(description="Of its vectors, their index and their keys")]
    is_exact: Annotated[bool, Meta(description="Whether every vector is compared")]
    recall: Annotated[dict[str, float], Meta(description="By number of results, the mean recall that was measured")]
    milliseconds: Annotated[
        dict[str, float],
        Meta(description="By recall that a search may ask for, about how long one for ten results takes here"),
    ]
    model: str | UnsetType = UNSET


class Profile(Message):
    """What a collection holds."""

    collection: str
    documents: Count
    chunks: Count
    bytes: Annotated[Count, Meta(description="Of all its files")]
    created_at: Annotated[DateTime, Meta(description="When its present state was committed")]
    updated_at: Annotated[DateTime, Meta(description="When documents were last written or deleted")]
    languages: Annotated[dict[str, Count], Meta(description="Chunks by language, the most frequent first")]
    spaces: list[ProfiledSpace]
    request_id: str
    read_at: Annotated[float, Meta(ge=0, description="Unix time at which the least recently read source was read")] | (
        UnsetType
    ) = UNSET
    sites: Annotated[
        list[FacetValue], Meta(description="Sites of the documents and their documents; absent as `facets` is")
    ] | (UnsetType) = UNSET
    facets: Annotated[
        list[OfferedFacet], Meta(description="Fields that are worth a filter; absent where text is not returned")
    ] | (UnsetType) = UNSET


class ListedDocument(Message):
    """A document of a collection."""

    id: str
    updated_at: DateTime
    chunk_count: Count
    title: str | UnsetType = UNSET
    url: str | UnsetType = UNSET
    type: str | UnsetType = UNSET


class DocumentList(Message):
    """A page of the documents of a collection, in the order of storage."""

    collection: str
    document_count: Annotated[Count, Meta(description="Of the whole collection")]
    documents: list[ListedDocument]
    request_id: str
    next: Annotated[int, Meta(ge=1, description="Send it as `offset` for the next page")] | UnsetType = UNSET


class BrowsedDocument(ListedDocument):
    """A document with its metadata and its schema.org object."""

    metadata: dict[str, Any] = field(default_factory=dict)
    semantic_payload: Any | UnsetType = UNSET


class BrowsedChunk(Message):
    """A chunk of a document. `text` is there if the collection returns texts."""

    id: str
    span: Annotated[Span, Meta(description="Start and end in the document, in characters")]
    section: str | UnsetType = UNSET
    text: str | UnsetType = UNSET


class DocumentAnswer(Message):
    """A document with its chunks in order."""

    collection: str
    document: BrowsedDocument
    chunks: list[BrowsedChunk]
    request_id: str
    next: Annotated[int, Meta(ge=1, description="Send it as `offset` for the next chunks")] | UnsetType = UNSET


class Change(Message):
    """What happened to one chunk. A deleted chunk has no source."""

    op: Literal["add", "change", "delete"]
    id: str
    content_hash: Sha256
    source: Source | UnsetType = UNSET


class ChangePage(Message):
    """A page of the change feed, oldest first."""

    request_id: str
    collection: str
    changes: list[Change]
    next: Annotated[str, Meta(description="Send it as `since` for what follows")]
    more: Annotated[bool, Meta(description="Whether more has happened already")]


class EmbeddingSpace(Message):
    """A space in which vectors are comparable."""

    id: str
    dimensions: Annotated[int, Meta(ge=1)]
    distance: Distance
    normalized: bool
    provider: str | None
    model: str | None
    revision: str | None
    score: Annotated[str, Meta(description="What a score of this space is")]
    query_text: Annotated[bool, Meta(description="Whether the space takes text queries")]


class Endpoints(Message):
    """Addresses; `{name}` and `{id}` stand for the name of a collection and the id of a chunk."""

    search: str
    collections: str
    changes: str
    chunk: str
    suggest: Annotated[str | UnsetType, Meta(description="Where a text is completed")] = UNSET
    profile: Annotated[str | UnsetType, Meta(description="What a collection holds")] = UNSET
    browse: Annotated[str | UnsetType, Meta(description="The documents of a collection; /{id}: one of them")] = UNSET
    query: Annotated[str | UnsetType, Meta(description="Where whole documents are read")] = UNSET
    count: Annotated[str | UnsetType, Meta(description="Where documents are counted")] = UNSET
    documents: Annotated[str | UnsetType, Meta(description="Where this caller may write documents")] = UNSET
    nlweb: str | UnsetType = UNSET
    mcp: str | UnsetType = UNSET
    intent: str | UnsetType = UNSET
    intake: str | UnsetType = UNSET


class Authentication(Message):
    """How callers identify themselves."""

    type: Literal["none", "bearer"]
    required: bool | UnsetType = UNSET


class Defaults(Message):
    """What holds for members that a request leaves out."""

    top_k: int
    mode: Mode
    changes: int
    return_: dict[str, bool] = field(name="return")
    collection: str | UnsetType = UNSET


class Discovery(Message):
    """What the caller may use here, with every default, limit and choice."""

    version: str
    service: Literal["AIDRE"]
    endpoints: Endpoints
    capabilities: dict[str, bool]
    embedding_spaces: list[EmbeddingSpace]
    auth: Authentication
    modes: list[Mode]
    defaults: Defaults
    limits: dict[str, int]
    filter: Annotated[str, Meta(description="The grammar of filters")]
    extensions: dict[str, Any]
    behaviour: Annotated[dict[str, str], Meta(description="Choices that the draft leaves open, in words")]
    openapi: str
    organization: str | UnsetType = UNSET
    provenance: Annotated[dict[str, Any], Meta(description="How chunks and answers are signed")] | UnsetType = UNSET
