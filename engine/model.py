"""The nouns of the engine: frozen data with no behaviour and no imports from the rest of the house.

What a bulk load makes by the million (Chunk, Record) is a named tuple: as immutable, and made in a third of the time.
`score` is larger-is-better in every space: cosine similarity, inner product, or minus the euclidean distance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Distance: TypeAlias = Literal["cosine", "dot", "euclidean"]
Precision: TypeAlias = Literal["float16", "float32"]
Visibility: TypeAlias = Literal["public", "private"]
Mode: TypeAlias = Literal["hybrid", "dense", "lexical"]
Json: TypeAlias = Any
"""A value as JSON has them: None, bool, int, float, str, list or dict."""


@dataclass(frozen=True, slots=True)
class EmbeddingSpace:
    """The declaration under which vectors are comparable.

    `model` names an Embedder; without it vectors come with the rows. `revision` names weights, pooling,
    prefixes and chunking. `precision` is how a vector is stored; `None` leaves the choice to the engine.
    """

    id: str
    dimensions: int
    distance: Distance
    normalized: bool = False
    provider: str | None = None
    model: str | None = None
    revision: str | None = None
    precision: Precision | None = None


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a document: where its section starts in the text (in characters), its level and its words."""

    start: int
    level: int
    title: str


@dataclass(frozen=True, slots=True)
class Document:
    """One source text as a source yields it, before it is chunked.

    `updated_at` is RFC 3339 in UTC ("2026-04-01T10:00:00Z") or None where the source does not say.
    `schema_object` is a schema.org object kept whole; `vectors` maps space ids to one vector each, and a
    document that brings any is one chunk, unsplit. `origin` is the path of its file inside the source, or
    the address it was fetched from; `state` then holds what a later request makes conditional (etag, last_modified).
    """

    id: str
    text: str
    title: str | None = None
    url: str | None = None
    updated_at: str | None = None
    type: str | None = None
    section: str | None = None
    canonical: bool = True
    metadata: Mapping[str, Json] = field(default_factory=dict)
    semantic_payload: Json = None
    schema_object: Mapping[str, Json] | None = None
    vectors: Mapping[str, NDArray[np.float32]] | None = None
    headings: tuple[Heading, ...] = ()
    source: str = ""
    origin: str = ""
    state: Mapping[str, str] | None = None


class Chunk(NamedTuple):
    """The smallest retrievable unit; `text == document.text[start:end]`.

    `id` is `{document_id}#chunk_{number}`, number from 1. `start` and `end` count characters (code points).
    `section` is the path of headings joined by " > ". `token_count` is None where no tokenizer is known.
    """

    id: str
    number: int
    text: str
    start: int
    end: int
    section: str | None = None
    token_count: int | None = None


class Record(NamedTuple):
    """A document ready to be stored: its chunks in order and the fingerprint that tells whether it changed."""

    document: Document
    chunks: tuple[Chunk, ...]
    fingerprint: bytes


@dataclass(frozen=True, slots=True)
class Encoded:
    """Vectors of one space in their stored form.

    `codes` is float16 or float32 of shape (n, dimensions), unit rows in a cosine space;
    `norms` is float32 of shape (n,), the norm each row had as given (1.0 where it was kept as given).
    """

    codes: NDArray[Any]
    norms: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Collection:
    """A named set of chunks, as a manifest declares it. `updated_at` is RFC 3339 in UTC."""

    name: str
    description: str
    visibility: Visibility
    updated_at: str
    spaces: tuple[EmbeddingSpace, ...]


@dataclass(frozen=True, slots=True)
class Fusion:
    """How a hybrid search weighs: a * cosine + (1 - a) * bm25 / (bm25 + c). `a` is from 0 to 1, `c` positive."""

    a: float = 0.5
    c: float = 15.0


@dataclass(frozen=True, slots=True)
class Rescore:
    """A second space whose cosine takes the place of the first one's for the best `depth` hits of a hybrid search."""

    vector: NDArray[np.float32] | Sequence[float]
    space: str
    depth: int = 50


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked of a Snapshot: the best `top_k` rows, after `offset` better ones.

    `mode` says by what: "dense" by `vector` in `space`, "lexical" by the words of `text`, "hybrid" by both, fused.
    `vector` has shape (dimensions,); it need not be normalised. `filter` is a parsed filter (engine.filters)
    or None.
    """

    vector: NDArray[np.float32] | Sequence[float] | None
    space: str | None
    top_k: int = 10
    offset: int = 0
    filter: Any = None
    text: str | None = None
    mode: Mode = "dense"
    fusion: Fusion = Fusion()
    rescore: Rescore | None = None
