"""What stands behind a collection: the protocols between an engine and the code that searches or fills a collection.

A `Source` holds collections, a `Reader` is one state of a collection, and a `Sink` takes its documents. `Capabilities`
says what an engine can do beside dense search; callers refuse by name what it cannot. The engine over local segments
(`Store`, `Snapshot` and `Writer` of `engine/collection`) can do all of it, and `aidre.engine.open_source` opens it. The
docstrings of methods name the errors that they raise. Importing this module loads no FAISS.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypedDict

import numpy as np
import orjson
import xxhash
from numpy.typing import NDArray

from aidre.engine import model
from aidre.engine.model import (
    EmbeddingSpace,
    EncodedVectors,
    Highlight,
    HighlightLimits,
    Json,
    Query,
    Record,
    Visibility,
)

if TYPE_CHECKING:
    from aidre.engine.index.fields import Filter, Kind, ValueRange
    from aidre.engine.segment import RecordColumns

Passage: TypeAlias = tuple[Hashable, str, str, int | None, bytes]
"""Key of the document, chunk id, text, token count (None: not counted), and SHA-256 of the text. A plain tuple: one is
made for every hit, and a named tuple takes eight times as long to make."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an engine can do beside dense search with filters."""

    lexical: bool = False
    """Searches in mode lexical, by BM25."""
    hybrid: bool = False
    """Searches in mode hybrid, in the spaces that `can_fuse` admits."""
    rescore: bool = False
    """Rescores a hybrid search in a second space."""
    feedback: bool = False  #: Orders the best hits of a hybrid search anew by what the first ones have in common.
    exact_scores: bool = False
    """A score is the one that a comparison with the whole vector gives."""
    complete_filters: bool = False
    """A search with a filter returns as many hits as were asked for, where so many chunks pass."""
    generations: bool = False
    """`open` finds an older generation while readers may need it: pages of one search go on after a commit. Without
    it a search with an offset raises GenerationMissing where another state was committed since."""
    changes: bool = False
    """Has a change feed."""
    vocabulary: bool = False
    """Knows its fields and their texts: `fields`, `dictionaries`, `is_object_field`."""
    facets: bool = False
    """Counts the values of fields."""
    highlight: bool = False
    """Finds the words of a query in hits."""
    recall: bool = False
    """Measures the recall of its searches and reports it."""
    words: bool = False
    """Knows the words of its texts: `corrected`, `completions`."""


# -- reading ---------------------------------------------------------------------------------------------------


class RetrievedChunk(Protocol):
    """A chunk with the properties of its document."""

    @property
    def fragments(self) -> tuple[bytes, bytes, bytes, bytes]:
        """JSON of the chunk's id, of its source and of its metadata (without braces), and its etag in hexadecimal."""

    @property
    def passage(self) -> Passage: ...
    @property
    def id(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def span(self) -> tuple[int, int]:
        """Start and end of the text in its document, in characters."""

    @property
    def section(self) -> str | None: ...
    @property
    def content_hash(self) -> str:
        """ "sha256:" and the SHA-256 of the text's UTF-8 bytes in hexadecimal."""

    def vectors(self) -> Mapping[str, NDArray[np.float32]]:
        """By space, the vector of the chunk with the norm that it was ingested with."""

    @property
    def document_key(self) -> Hashable:
        """A key for caches: in one lineage, equal keys are the same content of the same document."""

    @property
    def document_chunk_count(self) -> int: ...
    @property
    def document_digests(self) -> Sequence[tuple[str, bytes]]:
        """The id of every chunk of the document, and the SHA-256 of its text."""

    @property
    def document_id(self) -> str: ...
    @property
    def url(self) -> str | None: ...
    @property
    def title(self) -> str | None: ...
    @property
    def type(self) -> str | None: ...
    @property
    def updated_at(self) -> str: ...
    @property
    def metadata(self) -> Mapping[str, Json]: ...
    @property
    def json_payload(self) -> bytes | None:
        """The semantic payload: that of the document, else its schema.org object."""

    @property
    def schema_object(self) -> bytes | None:
        """The schema.org object as JSON."""


class Hit(NamedTuple):
    """A chunk and its score; larger is better. The properties are those of the chunk."""

    chunk: RetrievedChunk
    score: float

    def __repr__(self) -> str:
        return f"<Hit {self.id!r}, score {self.score:.4f}>"

    @property
    def id(self) -> str:
        return self.chunk.id

    @property
    def document_id(self) -> str:
        return self.chunk.document_id

    @property
    def text(self) -> str:
        return self.chunk.text

    @property
    def title(self) -> str | None:
        return self.chunk.title

    @property
    def url(self) -> str | None:
        return self.chunk.url

    @property
    def metadata(self) -> Mapping[str, Json]:
        return self.chunk.metadata


class ChangelogId(NamedTuple):
    """Identifies a changelog; the mark tells it from another that was written under the same generation number."""

    generation: int
    mark: str


@dataclass(frozen=True, slots=True)
class ChangeCursor:
    """The position of a client: it has every change up to and including `changelog`.

    With `row` it has only that many rows of this changelog. With `listed_hash` it is still in the listing, and has the
    chunks whose id hashes to at most that; `changelog` then is the newest one when the listing began.

    `newest_seen` is the newest changelog that any page of the listing reflects. A generation may be visible for a
    moment and never become durable, and its chunks must not remain with the client: so the history has to lead through
    `newest_seen` too.
    """

    changelog: ChangelogId
    row: int | None = None
    listed_hash: int | None = None
    newest_seen: ChangelogId | None = None


class Change(NamedTuple):
    """A change of a chunk. `chunk` is the stored chunk while it still has this content, else None."""

    op: str
    id: str
    content_hash: bytes
    chunk: RetrievedChunk | None


@dataclass(frozen=True, slots=True)
class ChangesPage:
    """`cursor` is the position after the page. Without `more` the client is up to date."""

    changes: list[Change]
    cursor: ChangeCursor
    more: bool


class SpaceStatus(TypedDict):
    """An embedding space, as operators see it: the members of `EmbeddingSpace`, and these. `state` is "live" or
    "building". `bytes` are the sizes of its vectors, their index and their keys. `calibration` is None where every row
    is compared; else it has `kind`, `reason` and, with the capability `recall`, `depths`, each with `results`,
    `candidates`, `mean` and `p5`."""

    id: str
    dimensions: int
    distance: str
    normalized: bool
    provider: str | None
    model: str | None
    revision: str | None
    precision: str | None
    query_prefix: str | None
    document_prefix: str | None
    state: str
    chunks: int
    runtime: str | None
    calibration: Json
    bytes: Mapping[str, int]


class CollectionStatus(TypedDict):
    """A collection, as operators see it. `languages` counts chunks by tag, most frequent first. `kernel` is what
    compares vectors: the instruction set of the C kernel, or "faiss"; None if the engine has neither."""

    collection: str
    description: str
    visibility: Visibility
    generation: int
    created_at: str
    updated_at: str
    documents: int
    documents_without_url: int
    chunks: int
    deleted_chunks: int
    segments: int
    bytes: int
    kernel: str | None
    spaces: list[SpaceStatus]
    languages: Mapping[str, int]
    warnings: list[str]


@dataclass(frozen=True, slots=True)
class Facet:
    """The values of a field among some documents.

    `counts` has each distinct value with the number of documents that have it, the most frequent first, equal ones by
    type and value; a list counts once for each of its values. Dates are RFC 3339. `minimum` and `maximum` are of the
    numbers, or of the dates where there is no number. `missing` documents lack the field. `distinct` values there are,
    of which `counts` may have the first ones alone. `ranges` counts the documents with a value in each range.
    """

    counts: tuple[tuple[str | int | float | bool, int], ...]
    documents: int
    missing: int
    minimum: str | int | float | None
    maximum: str | int | float | None
    distinct: int = 0
    ranges: tuple[int, ...] = ()

    @classmethod
    def of(cls, counts: Mapping[tuple[Kind, Any], int], documents: int, missing: int) -> Facet:
        """From the counts by kind and value, where an instant is in microseconds since 1970."""
        ordered = sorted(counts.items(), key=lambda pair: (-pair[1], _TYPE_ORDER[pair[0][0]], pair[0][1]))
        shown = tuple((_shown(kind, value), number) for (kind, value), number in ordered)
        numbers = [value for kind, value in counts if kind in {"int", "float"}]
        instants = [_shown(kind, value) for kind, value in sorted(counts) if kind == "date"]
        bounds: list[Any] = [min(numbers), max(numbers)] if numbers else [*instants[:1], *instants[-1:]] or [None, None]
        return cls(shown, documents, missing, bounds[0], bounds[-1], len(shown))


_TYPE_ORDER: Mapping[Kind, int] = {"bool": 0, "int": 1, "float": 1, "date": 2, "string": 3, "other": 4}


def _shown(kind: Kind, value: Any) -> Any:
    if kind != "date":
        return value
    moment = datetime(1970, 1, 1) + timedelta(microseconds=value)
    return f"{moment.isoformat()}Z"


class TextDictionary(Protocol):
    """Distinct texts of a field."""

    def __len__(self) -> int: ...
    def matching(self, pattern: str, most: int) -> list[str]:
        """Texts that contain a match of a regular expression of RE2; of more than `most`, the first `most`."""


class Layout(NamedTuple):
    """The constant text of a result: before its id, its score, its source, its metadata and its etag, and after that;
    and what stands between two results. Without `ids` the id is left out, without `metadata` that and the etag."""

    before_id: bytes
    before_score: bytes
    before_source: bytes
    before_metadata: bytes
    before_etag: bytes
    after_etag: bytes
    between: bytes
    ids: bool
    metadata: bool


class Reader(Protocol):
    """One state of a collection, for searches from several threads; it never changes.

    States of one `lineage` with the same `generation` are equal. `dates` are the metadata fields that compare as
    instants. `warnings` are for operators. `waits`: look-ups wait for another machine; make them in threads. `centroid`
    is about the mean of the stored vectors of a space, shape (dimensions,); None if the engine has none.
    """

    can: Capabilities
    collection: model.Collection
    generation: int
    lineage: str
    documents: int
    chunks: int
    dates: tuple[str, ...]
    warnings: tuple[str, ...]
    waits: bool

    def search(self, query: Query) -> list[Hit]:
        """Hits ordered by (-score, chunk id). SpaceMissing, DimensionMismatch, InvalidVector, InvalidFilter;
        InvalidInput where `top_k` or `offset` is out of range, where the query lacks what its mode needs, or where a
        hybrid search is not possible in the space."""

    def search_all(self, queries: Sequence[Query]) -> list[list[Hit]]:
        """The hits of each query; raises the errors of `search`, for any of the queries."""

    def splice(self, hits: Sequence[Hit], scores: Sequence[bytes], layout: Layout) -> bytes | None:
        """The `fragments` of hits and the JSON of their scores in a layout, one after the other, in one step; None
        where the engine does not do that, or not for these hits: the caller joins the fragments itself."""

    def estimated_seconds(self, query: Query) -> float:
        """About how long `search` takes on one core, told at once and for any query: a caller decides by it whether to
        search in its event loop."""

    def count(self, filter: Filter | None = None) -> int:
        """Chunks that pass a filter. InvalidFilter."""

    def count_documents(self, filter: Filter | None = None) -> int:
        """Documents that pass a filter. InvalidFilter."""

    def facet(
        self,
        field: str,
        filter: Filter | None = None,
        *,
        text: str | None = None,
        limit: int | None = None,
        ranges: Sequence[ValueRange] = (),
    ) -> Facet:
        """The values of a field, by a name as `fields.field_name` returns it, among the documents that pass a filter;
        with `text` among those of the matches of a lexical search; `limit` values at most. InvalidFilter."""

    def highlight(self, text: str, hits: Sequence[Hit], limits: HighlightLimits) -> list[Highlight]:
        """Where words of a query are in each hit."""

    def scan(self, filter: Filter | None = None) -> Iterator[RetrievedChunk]:
        """The chunks that pass a filter, those of a document together and in order. InvalidFilter."""

    def get(self, chunk_id: str) -> RetrievedChunk | None: ...
    def document(self, document_id: str) -> Sequence[RetrievedChunk]:
        """The chunks of a document in order; empty where there is none."""

    def chunk_counts(self) -> Mapping[int, int]:
        """The number of documents that have so many chunks, by number of chunks."""

    def unknown_fields(self, filter: Filter) -> tuple[str, ...]:
        """The fields that a filter names and no document has, sorted; none where that is not known. Only `ne` and
        `exists: false` hold there. Names are as `fields.field_name` returns them."""

    def changes(self, cursor: ChangeCursor | None, limit: int) -> ChangesPage:
        """The page of the change feed after `cursor`; None begins with the listing of all chunks. HistoryMissing."""

    def fields(self) -> frozenset[str]:
        """Names of the fields of all documents, without the reserved names."""

    def dictionaries(self, name: str) -> Sequence[TextDictionary]:
        """The distinct texts of a field, in parts."""

    def is_object_field(self, name: str) -> bool:
        """Whether a document with a schema.org object has the field, in the object or, as to a filter, its metadata."""

    def corrected(self, text: str) -> str | None:
        """The text of a query with words repaired that no live chunk has; None where nothing is repaired."""

    def completions(self, text: str, limit: int) -> list[str]:
        """The text of a query with its last word completed, by the most frequent words first."""

    def centroid(self, space_id: str) -> NDArray[np.float32] | None: ...
    def status(self) -> CollectionStatus: ...


def can_fuse(reader: Reader, space: EmbeddingSpace) -> bool:
    """Whether a space can be searched hybrid: its scores are cosines or follow from them; others have no scale."""
    return reader.can.hybrid and (space.distance == "cosine" or space.normalized)


# -- writing ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CommitResult:
    """A durable generation: its number, and the live documents and chunks of the collection in it."""

    generation: int
    documents: int
    chunks: int


EmbedQueries: TypeAlias = Callable[[Sequence[str]], NDArray[np.float32]]
"""Embeds texts as queries, shape (n, dimensions)."""
Recompute: TypeAlias = Callable[[Sequence[RetrievedChunk]], tuple[EncodedVectors, Sequence[bytes]]]
"""Computes the vectors and embedding keys of some chunks anew, in their order."""


class Sink(Protocol):
    """The one writer of a collection; `Writer` of `engine/collection` says more of each method."""

    @property
    def snapshot(self) -> Reader | None:
        """The newest state, None before the first commit."""

    @property
    def spaces(self) -> Mapping[str, EmbeddingSpace]:
        """The spaces by id: an upsert brings a vector for each."""

    @property
    def stale_spaces(self) -> Collection[str]:
        """Spaces whose vectors come from another model or revision than configured: `reembed` them first."""

    @property
    def unfinished_spaces(self) -> Collection[str]:
        """Spaces that are being filled: an upsert brings no vectors for them."""

    def reembed(self, recompute: Mapping[str, Recompute]) -> None: ...

    # What is stored, or will be with the next commit; None for a document that is not.
    def fingerprints(self, document_ids: Sequence[str]) -> list[bytes | None]: ...
    def updated_at(self, document_ids: Sequence[str]) -> list[str | None]: ...
    def documents_of(self, source: str) -> Iterator[tuple[str, str]]:
        """Id and origin of each document of a source."""

    def states_of(self, source: str) -> Iterator[tuple[str, bytes | None]]:
        """Origin and state (JSON) of each document of a source."""

    def stored_records(
        self, document_ids: Sequence[str]
    ) -> tuple[list[Record], Mapping[str, EncodedVectors], Mapping[str, Sequence[bytes]]]:
        """Stored documents as `upsert` takes them, with vectors and embedding keys, without text beside that of their
        chunks; nothing may be pending. Missing."""

    def reuse(self, space_id: str, keys: Sequence[bytes]) -> tuple[NDArray[np.bool_], EncodedVectors]:
        """Which embedding keys have a vector, shape (n,), and the vectors; the others are zero."""

    # Changes.
    def encode(self, space_id: str, vectors: NDArray[np.float32], *, for_upsert: bool = False) -> EncodedVectors:
        """Vectors of shape (n, dimensions) in stored form. DimensionMismatch, InvalidVector with `details["row"]`."""

    def upsert(
        self,
        records: Sequence[Record] | RecordColumns,
        vectors: Mapping[str, EncodedVectors],
        keys: Mapping[str, Sequence[bytes]],
    ) -> None: ...
    def delete(self, document_ids: Sequence[str]) -> int: ...
    def source_roots(self) -> Mapping[str, str]: ...
    def set_source_root(self, source: str, root: str) -> None: ...
    def source_states(self) -> Mapping[str, Mapping[str, str]]: ...
    def set_source_state(self, url: str, state: Mapping[str, str]) -> None: ...
    def forget_source(self, source: str) -> None: ...

    # Commits.
    @property
    def pending_bytes(self) -> int: ...
    @property
    def is_full(self) -> bool:
        """Whether to commit before the next upsert."""

    @property
    def is_commit_done(self) -> bool: ...
    def begin_commit(self) -> CommitResult | None: ...
    def wait_for_commit(self) -> CommitResult | None: ...
    def commit(self) -> CommitResult | None:
        """Make all pending changes durable on return. None where nothing is pending. StorageFailed."""

    def finish(self) -> None: ...
    def compact(self) -> None: ...
    def purge(self) -> None: ...


class Source(Protocol):
    """A store of collections. `path` is its folder; what the application keeps beside collections is there, too."""

    path: Path

    def collections(self) -> list[str]:
        """The names of the collections, sorted. Missing, StorageFailed."""

    def mark(self, collection: str) -> Hashable:
        """A value that differs after every commit, cheap to ask for; None where it cannot be read."""

    def open(self, collection: str, *, previous: Reader | None = None, generation: int | None = None) -> Reader:
        """Open a state, the newest by default, sharing what `previous` has open.

        CollectionMissing, GenerationMissing, StoreDamaged, FormatTooNew, StorageFailed.
        """

    def pin(self, collection: str, generation: int) -> None:
        """Keep a generation for ten minutes, where the engine has generations and can; it fails silently."""

    def writer(
        self,
        collection: str,
        *,
        spaces: Sequence[EmbeddingSpace] | None,
        description: str | None = None,
        visibility: Visibility | None = None,
        dates: Collection[str] = (),
        runtimes: dict[str, str] | None = None,
        models: Mapping[str, EmbedQueries] | None = None,
        previous: Reader | None = None,
        wait: float = 0.0,
    ) -> AbstractContextManager[Sink]:
        """The writer of a collection, as `Store.writer` describes it; without `spaces` it takes the stored ones, and
        shares what `previous` has open."""

    def drop(self, collection: str, *, wait: float = 0.0, purge: bool = False) -> None:
        """Remove a collection. `open` may raise CollectionDropped from then on, so that its cursors and feeds are
        told; with `purge` no trace of the name stays, also of a collection that was dropped before. CollectionMissing,
        StoreLocked, StorageFailed."""


# -- for engines that store no fragments -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlainChunk:
    """A retrieved chunk made of its values, for which it writes the JSON that local segments have stored."""

    id: str
    text: str
    span: tuple[int, int]
    section: str | None
    token_count: int | None
    embeddings: Mapping[str, NDArray[np.float32]]
    document_key: Hashable
    document_id: str
    document_digests: Sequence[tuple[str, bytes]]
    url: str | None
    title: str | None
    type: str | None
    updated_at: str
    canonical: bool
    metadata: Mapping[str, Json]
    json_payload: bytes | None
    schema_object: bytes | None

    @property
    def fragments(self) -> tuple[bytes, bytes, bytes, bytes]:
        named = {"url": self.url, "title": self.title, "section": self.section}
        source = orjson.dumps({name: value for name, value in named.items() if value is not None})
        own = orjson.dumps(self.metadata)[1:-1]
        before = orjson.dumps({"updated_at": self.updated_at, "canonical": self.canonical})[1:-1]
        metadata = b",".join(filter(None, (before, own, b'"content_hash":"%b"' % self.content_hash.encode())))
        shown = b"\0".join((source, metadata, self.text.encode(), self.json_payload or b""))
        return orjson.dumps(self.id), source, metadata, xxhash.xxh3_64_hexdigest(shown).encode()

    @property
    def passage(self) -> Passage:
        return self.document_key, self.id, self.text, self.token_count, hashlib.sha256(self.text.encode()).digest()

    @property
    def content_hash(self) -> str:
        return "sha256:" + hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def document_chunk_count(self) -> int:
        return len(self.document_digests)

    def vectors(self) -> Mapping[str, NDArray[np.float32]]:
        return self.embeddings
