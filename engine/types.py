"""The values that engines and their callers exchange: chunks and hits, changes, facets, and what operators are told.

`RetrievedChunk` is what an engine gives back, `PlainChunk` one that is made of values, for engines that store no
fragments. Importing this module loads no FAISS.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, NotRequired, Protocol, TypeAlias, TypedDict

import numpy as np
import orjson
import xxhash
from numpy.typing import NDArray

from aidre.engine.model import Json, Visibility
from aidre_client.values import (
    Copies as Copies,
    Facet as Facet,
    FacetBound as FacetBound,
    FacetRequest as FacetRequest,
    FoundChunk,
    Hit as AnyHit,
)

if TYPE_CHECKING:
    from aidre.engine.index.fields import Kind

Passage: TypeAlias = tuple[Hashable, str, str, int | None, bytes]
"""Key of the document, chunk id, text, token count (None: not counted), and SHA-256 of the text. A plain tuple: one is
made for every hit, and a named tuple takes eight times as long to make."""


class RetrievedChunk(FoundChunk, Protocol):
    """A chunk with the properties of its document, as an engine gives it: with what answers are made of."""

    @property
    def fragments(self) -> tuple[bytes, bytes, bytes, bytes]:
        """JSON of the chunk's id, of its source and of its metadata (without braces), and its etag in hexadecimal."""

    @property
    def passage(self) -> Passage: ...
    @property
    def document_key(self) -> Hashable:
        """A key for caches: in one lineage, equal keys are the same content of the same document."""

    @property
    def signature(self) -> bytes | None:
        """The signature that detects near-copies (`engine/index/shingles.py`); None if not stored."""

    @property
    def document_chunk_count(self) -> int: ...
    @property
    def document_digests(self) -> Sequence[tuple[str, bytes]]:
        """The id of every chunk of the document, and the SHA-256 of its text."""


def own_text(chunk: FoundChunk) -> str:
    """The text of a chunk's span: without the names of columns that a chunk among the rows of a table repeats."""
    start, end = chunk.span
    text = chunk.text
    return text[max(0, len(text) - (end - start)) :]


if TYPE_CHECKING:  # the hits of an engine have chunks of one
    Hit: TypeAlias = AnyHit[RetrievedChunk]
else:
    Hit = AnyHit


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
    `candidates`, `mean` and `p5`. With that capability `costs` says for each `recall` that may be asked for what is
    `promised` and, in `milliseconds`, about how long a search for ten hits takes here. `weights` are those of the
    cosine in hybrid search in languages that the model does not know, each with `language`, `a` and `chunks`, the
    number of chunks when it was measured, None if it was not."""

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
    languages: tuple[str, ...] | None
    state: str
    chunks: int
    runtime: str | None
    calibration: Json
    costs: NotRequired[Sequence[Json]]
    weights: NotRequired[Sequence[Json]]
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


def facet_of(counts: Mapping[tuple[Kind, Any], int], documents: int, missing: int) -> Facet:
    """From the counts by kind and value, where an instant is in microseconds since 1970."""
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], TYPE_ORDER[pair[0][0]], pair[0][1]))
    shown = tuple((shown_value(kind, value), number) for (kind, value), number in ordered)
    numbers = [value for kind, value in counts if kind in {"int", "float"}]
    instants = [shown_value(kind, value) for kind, value in sorted(counts) if kind == "date"]
    bounds: list[Any] = [min(numbers), max(numbers)] if numbers else [*instants[:1], *instants[-1:]] or [None, None]
    return Facet(shown, documents, missing, bounds[0], bounds[-1], len(shown))


TYPE_ORDER: Mapping[Kind, int] = {"bool": 0, "int": 1, "float": 1, "date": 2, "string": 3, "other": 4}


def shown_value(kind: Kind, value: Any) -> Any:
    """A value as it is shown: an instant, in microseconds since 1970, as RFC 3339."""
    if kind == "bool":
        return bool(value)
    return f"{(datetime(1970, 1, 1) + timedelta(microseconds=value)).isoformat()}Z" if kind == "date" else value


class ResultLayout(NamedTuple):
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


@dataclass(frozen=True, slots=True)
class CommitResult:
    """A durable generation: its number, and the live documents and chunks of the collection in it."""

    generation: int
    documents: int
    chunks: int


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
    def signature(self) -> bytes | None:
        return None

    @property
    def content_hash(self) -> str:
        return "sha256:" + hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def document_chunk_count(self) -> int:
        return len(self.document_digests)

    def vectors(self) -> Mapping[str, NDArray[np.float32]]:
        return self.embeddings
