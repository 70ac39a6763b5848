"""faiss: exhaustive search (Flat), and its HNSW graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import faiss
import numpy as np

from benchmarks.peers.engines.protocol import Answer, AnswerAll, Below, Values, Vectors

NEIGHBOURS, CONSTRUCTION, BUILD_THREADS = 16, 128, 2


class Flat:
    settings: tuple[int, ...] = (0,)
    filters = True

    def build(self, rows: Vectors, values: Values, folder: Path) -> None:
        faiss.omp_set_num_threads(BUILD_THREADS)
        self._values = values
        self._index = self._made(rows.shape[1])
        self._index.add(rows)
        faiss.omp_set_num_threads(1)

    def _made(self, dimensions: int) -> Any:
        return faiss.IndexFlatIP(dimensions)

    def _parameters(self, setting: int, selector: Any) -> Any:
        return faiss.SearchParameters(sel=selector) if selector else None

    def answer(self, setting: int, k: int, only: Below | None) -> Answer:
        index = self._index
        selector = None
        if only:
            self._bits = np.packbits(only.mask(self._values), bitorder="little")
            selector = faiss.IDSelectorBitmap(self._bits)
        parameters = self._parameters(setting, selector)

        def search(query: Vectors) -> Any:
            return index.search(query[None], k, params=parameters)[1]

        return search

    def answer_all(self, setting: int, k: int) -> AnswerAll:
        index, parameters = self._index, self._parameters(setting, None)

        def search(queries: Vectors) -> Any:
            return index.search(queries, k, params=parameters)[1][:, None]

        return search

    def rows_of(self, answered: Any) -> list[int]:
        return [row for row in answered[0].tolist() if row >= 0]

    def size(self) -> int:
        return len(faiss.serialize_index(self._index))

    def close(self) -> None:
        pass


class Hnsw(Flat):
    settings = (32, 64, 128, 192, 256, 384, 512, 768, 1024)

    def _made(self, dimensions: int) -> Any:
        index = faiss.IndexHNSWFlat(dimensions, NEIGHBOURS, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = CONSTRUCTION
        return index

    def _parameters(self, setting: int, selector: Any) -> Any:
        return faiss.SearchParametersHNSW(efSearch=setting, sel=selector)
