"""What stands behind a collection: the protocols between an engine and the code that searches or fills a collection.

A `Source` holds collections, a `Reader` is one state of a collection, and a `Sink` takes its documents. `Capabilities`
says what an engine can do beside dense search; callers refuse by name what it cannot. The engine over local segments
(`Store`, `Snapshot` and `Writer` of `engine/collection`) can do all of it, and `aidre.engine.open_source` opens it. The
docstrings of methods name the errors that they raise. Importing this module loads no FAISS.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from aidre.engine import model
from aidre.engine.model import (
    Alias,
    EmbeddingSpace,
    EncodedVectors,
    Highlight,
    HighlightLimits,
    Query,
    Record,
    Visibility,
)
from aidre.engine.types import (
    ChangeCursor,
    ChangesPage,
    CollectionStatus,
    CommitResult,
    Facet,
    Hit,
    ResultLayout,
    RetrievedChunk,
)

if TYPE_CHECKING:
    from aidre.engine.index.fields import Filter, ValueRange
    from aidre.engine.segment import RecordColumns


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an engine can do beside dense search with filters."""

    lexical: bool = False
    """Searches in mode lexical, by BM25."""
    hybrid: bool = False
    """Searches in mode hybrid, in the spaces whose scores are cosines or follow from them."""
    rescore: bool = False
    """Rescores a hybrid search in a second space."""
    feedback: bool = False  #: Reorders the best hits of a hybrid search by what the first ones have in common.
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
    facets: bool = False  #: Counts the values of fields.
    highlight: bool = False  #: Finds the words of a query in hits.
    recall: bool = False  #: Measures the recall of its searches and reports it.
    words: bool = False
    """Knows the words of its texts: `corrected`, `completions`, `word_shares`, and the chunks that a `fields.Wording`
    asks for."""


class TextDictionary(Protocol):
    """Distinct texts of a field."""

    def __len__(self) -> int: ...
    def matching(self, pattern: str, most: int) -> list[str]:
        """Texts that contain a match of a regular expression of RE2; of more than `most`, the first `most`."""


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

    def splice(self, hits: Sequence[Hit], scores: Sequence[bytes], layout: ResultLayout) -> bytes | None:
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

    def scan(self, filter: Filter | None = None, *, start: int = 0) -> Iterator[RetrievedChunk]:
        """The chunks that pass a filter, those of a document together and in order, without the first `start` ones.
        InvalidFilter."""

    def get(self, chunk_id: str) -> RetrievedChunk | None: ...
    def document(self, document_id: str) -> Sequence[RetrievedChunk]:
        """The chunks of a document in order; empty where there is none."""

    def chunk_counts(self) -> Mapping[int, int]:
        """The number of documents that have so many chunks, by number of chunks."""

    def unknown_fields(self, filter: Filter) -> tuple[str, ...]:
        """The fields that a filter names and no document has, sorted, as `fields.field_name` returns them. Only `ne`
        and `exists: false` hold there. They do not include the fields that every collection has."""

    def has_field(self, name: str) -> bool:
        """Whether a document has the field with this stored name, or a title for `fields.TITLE`."""

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

    def word_shares(self, text: str, hits: Sequence[Hit]) -> tuple[int, list[float]]:
        """The number of content words of a question, and the share of them, weighted by inverse document frequency,
        that each hit of this state has."""

    def question_language(self, text: str) -> str | None:
        """The tag of the language of a question, one of the chunks where it shows no other; None where it is not
        told."""

    @property
    def languages(self) -> Mapping[str, int]:
        """The number of chunks by the tag of their language, most first."""

    def knows_question(self, space_id: str, text: str) -> bool:
        """Whether the model of a space knows the language of a question; True where that is not told."""

    def cosines(self, space_id: str, vector: NDArray[np.float32], hits: Sequence[Hit]) -> NDArray[np.float64] | None:
        """The cosine of a vector and each hit of this state, shape (n,); None where the caller compares them itself."""

    def centroid(self, space_id: str) -> NDArray[np.float32] | None: ...
    def status(self) -> CollectionStatus: ...


@runtime_checkable
class Unpulled(Protocol):
    """What a reader has beside its own members where its documents are not on this machine yet: it tells what is known
    of the collection, and finds nothing."""

    def pull(self) -> None:
        """Bring the newest state here, which `Source.open` opens then; it takes as long as that. BucketFailed,
        PublicationRefused, StorageFailed, StoreDamaged, FormatTooNew."""


@runtime_checkable
class LazySource(Protocol):
    """What a source has beside its own members where collections that nobody asks for leave this machine."""

    def used(self, collection: str) -> None:
        """A question was asked. Cheap; it fails silently."""


EmbedQueries: TypeAlias = Callable[[Sequence[str]], NDArray[np.float32]]
"""Embeds texts as queries, shape (n, dimensions)."""
Recompute: TypeAlias = Callable[[Sequence[RetrievedChunk]], tuple[EncodedVectors, Sequence[bytes]]]
"""Computes the vectors and embedding keys of some chunks again, in their order."""


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

    def aliases(self) -> Mapping[str, Alias]:
        """The other names of collections; every method takes them where it takes a name. StoreDamaged."""

    def point_alias(self, name: str, collection: str) -> None:
        """Let a name, which no collection has, mean a collection from now on; all readers switch in one step.

        InvalidInput for the name, CollectionMissing, Conflict where a collection has the name, Unsupported,
        StoreDamaged, StorageFailed.
        """

    def remove_alias(self, name: str) -> None:
        """Missing, Unsupported, StoreDamaged, StorageFailed."""

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
        StoreLocked, StorageFailed; Conflict for an alias, and for a collection that has one."""
