"""hnswlib: an HNSW graph; a filter is a Python callback for every visited row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hnswlib

from benchmarks.peers.engines.protocol import Answer, Below, Values, Vectors

NEIGHBOURS, CONSTRUCTION, BUILD_THREADS = 16, 128, 2


class Hnswlib:
    settings = (32, 64, 128, 192, 256, 384, 512)
    filters = True

    def build(self, rows: Vectors, values: Values, folder: Path) -> None:
        self._values = values
        self._index = hnswlib.Index("ip", rows.shape[1])
        self._index.init_index(len(rows), M=NEIGHBOURS, ef_construction=CONSTRUCTION)
        self._index.add_items(rows, num_threads=BUILD_THREADS)
        self._saved = folder / "hnswlib.bin"
        self._index.set_num_threads(1)

    def answer(self, setting: int, k: int, only: Below | None) -> Answer:
        index = self._index
        allowed = only.mask(self._values).tolist().__getitem__ if only else None

        def search(query: Vectors) -> Any:
            index.set_ef(setting)
            return index.knn_query(query, k, num_threads=1, filter=allowed)[0]

        return search

    def rows_of(self, answered: Any) -> list[int]:
        found: list[int] = answered[0].tolist()
        return found

    def size(self) -> int:
        self._index.save_index(str(self._saved))
        return self._saved.stat().st_size

    def close(self) -> None:
        pass
