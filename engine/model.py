"""The data types of the engine, and those that it shares with the client: frozen, without behaviour.

Chunk and Record, which a bulk load makes by the million, are named tuples: as immutable as a frozen dataclass, and made
in a third of the time. A larger `score` is better in every space: cosine similarity, inner product, or minus the
euclidean distance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from aidre_client.values import (
    Document as Document,
    FusionMethod as FusionMethod,
    Group as Group,
    Heading as Heading,
    Highlight as Highlight,
    HighlightLimits as HighlightLimits,
    Json as Json,
    Mode as Mode,
    Span as Span,
)

if TYPE_CHECKING:  # parsers in the sandbox need these types, and 120 MB of address space less
    import numpy as np
    from numpy.typing import NDArray

Distance: TypeAlias = Literal["cosine", "dot", "euclidean"]
Precision: TypeAlias = Literal["float16", "float32"]
Visibility: TypeAlias = Literal["public", "private"]

MAX_NORM = 1e18
"""Norm of a vector; beyond it the product of two norms, and so a score, can leave float32."""


@dataclass(frozen=True, slots=True)
class EmbeddingSpace:
    """Declares which vectors are comparable, and how.

    `model` names an Embedder; without one the vectors come with the rows. `revision` identifies weights, pooling,
    prefixes and chunking. `precision` is the stored number type; None leaves the choice to the engine. The prefixes are
    put before each text that is embedded, as E5's "query: " and "passage: "; None: those of the model's folder.
    `languages` are tags of those that the model knows; None: it is not told (`engine.embedding.reads_language`).

    Examples:
        >>> images = db.collection("images", space=aidre.EmbeddingSpace("mine", 2, "cosine"))
        >>> images.add([{"id": "a", "text": "a cat"}, {"id": "b", "text": "a bus"}], vectors=[[1, 0], [0, 1]])
        ['a', 'b']
        >>> images.search(vector=[0.9, 0.1], k=1)[0].document_id
        'a'
    """

    id: str
    dimensions: int
    distance: Distance
    normalized: bool = False
    provider: str | None = None
    model: str | None = None
    revision: str | None = None
    precision: Precision | None = None
    query_prefix: str | None = None
    document_prefix: str | None = None
    languages: tuple[str, ...] | None = None


class Chunk(NamedTuple):
    """The smallest retrievable unit: `text` is `document.text[start:end]`.

    Only a chunk that begins among the rows of a table has the names of its columns, and its caption, in front of that.
    `id` is `{document_id}#chunk_{number}`, number from 1. `start` and `end` count code points. `section` is the path of
    headings joined by " > ". `token_count` is None without a tokenizer.

    Examples:
        >>> hit = docs.search("a warm dish", k=1)[0]
        >>> hit.chunk.id, hit.chunk.span
        ('soup#chunk_1', (0, 30))
    """

    id: str
    number: int
    text: str
    start: int
    end: int
    section: str | None = None
    token_count: int | None = None


class Record(NamedTuple):
    """A document to store: its chunks in order, and the fingerprint by which a later ingest detects a change."""

    document: Document
    chunks: tuple[Chunk, ...]
    fingerprint: bytes


@dataclass(frozen=True, slots=True)
class EncodedVectors:
    """Vectors of one space in their stored form.

    `codes` is float16 or float32 of shape (n, dimensions), unit rows in a cosine space; `norms` is float32 of shape
    (n,), the norm of each row before normalisation (1.0 where the row is stored unchanged).
    """

    codes: NDArray[Any]
    norms: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Collection:
    """A named set of chunks. `spaces` are the live ones; `updated_at` is RFC 3339 in UTC."""

    name: str
    description: str
    visibility: Visibility
    updated_at: str
    spaces: tuple[EmbeddingSpace, ...]


@dataclass(frozen=True, slots=True)
class Fusion:
    """Weights of a hybrid search: score = a * cosine + (1 - a) * bm25 / (bm25 + c), 0 <= a <= 1, c > 0.

    A bonus for codes and the feedback of the best hits have weights in proportion to 1 - a and to a. By `method` "rrf"
    the score is that of the ranks in the lists that dense and lexical search give.
    """

    a: float = 0.5
    c: float = 20.0
    method: FusionMethod = "score"


@dataclass(frozen=True, slots=True)
class Rescore:
    """Rescores the best `depth` hits of a hybrid search with the cosine in a second space."""

    vector: NDArray[np.float32] | Sequence[float]
    space: str
    depth: int = 50


RECALLS = (0.90, 0.95, 0.99, 0.995)
"""Recalls that are calibrated."""

COSTED_RESULTS = 10
"""Hits of the searches whose costs are shown by recall."""


FUSED_RANKS = 30
"""Chunks of each list, at least, whose ranks are fused: on nine test sets as good as 100, in .74 of the time."""


@dataclass(frozen=True, slots=True)
class Query:
    """A search in a Snapshot for `top_k` hits, after the `offset` best ones.

    `mode` is "dense" (`vector` in `space`), "lexical" (BM25 of the words in `text`) or "hybrid" (both, fused).
    `vector` has shape (dimensions,) and need not be normalised. `filter` is a parsed filter (engine.index.fields), None
    for all rows. `recall` is the share of the nearest rows that a search has to find: the next higher one that was
    calibrated holds, 1 compares every row, None is what the engine aims at.

    Examples:
        >>> aidre.Query(None, None, top_k=3, text="soup", mode="lexical").top_k
        3
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
    recall: float | None = None


class Alias(NamedTuple):
    """Another name of a collection. `former` are those that it meant before, the latest first, each with the Unix time
    of the move: for ten minutes their cursors go on."""

    collection: str
    former: tuple[tuple[str, float], ...] = ()
