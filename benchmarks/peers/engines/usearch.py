"""usearch: an HNSW graph over float16 rows. The Python package has no filters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from usearch.index import Index

from benchmarks.peers.engines.protocol import Answer, Below, Values, Vectors

NEIGHBOURS, CONSTRUCTION, BUILD_THREADS = 16, 128, 2


class Usearch:
    settings = (64, 128, 256, 384, 512, 768)
    filters = False

    def build(self, rows: Vectors, values: Values, folder: Path) -> None:
        self._index = Index(
            ndim=rows.shape[1], metric="ip", dtype="f16", connectivity=NEIGHBOURS, expansion_add=CONSTRUCTION
        )
        self._index.add(np.arange(len(rows)), rows, threads=BUILD_THREADS)

    def answer(self, setting: int, k: int, only: Below | None) -> Answer:
        index = self._index

        def search(query: Vectors) -> Any:
            index.expansion_search = setting
            return index.search(query, k, threads=1).keys

        return search

    def rows_of(self, answered: Any) -> list[int]:
        found: list[int] = answered.tolist()
        return found

    def size(self) -> int:
        return int(self._index.serialized_length)

    def close(self) -> None:
        pass
