"""txtai's Embeddings over external vectors, with faiss HNSW. Filters need its text database and are not measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from txtai import Embeddings

from benchmarks.peers.engines.protocol import Answer, Below, Values, Vectors


class Txtai:
    settings = (64, 128, 256, 512)
    filters = False

    def build(self, rows: Vectors, values: Values, folder: Path) -> None:
        self._embeddings = Embeddings(
            method="external",
            transform=lambda inputs: inputs,
            backend="faiss",
            faiss={"components": "IDMap,HNSW32"},
            content=False,
        )
        self._embeddings.index((number, row, None) for number, row in enumerate(rows))
        self._folder = folder / "txtai"

    def answer(self, setting: int, k: int, only: Below | None) -> Answer:
        embeddings = self._embeddings
        self._set(setting)

        def search(query: Vectors) -> Any:
            return embeddings.search(query, k)

        return search

    def _set(self, setting: int) -> None:
        import faiss

        index = faiss.downcast_index(self._embeddings.ann.backend)
        faiss.downcast_index(index.index).hnsw.efSearch = setting

    def rows_of(self, answered: Any) -> list[int]:
        return [int(number) for number, _ in answered]

    def size(self) -> int:
        self._embeddings.save(str(self._folder))
        return sum(path.stat().st_size for path in self._folder.rglob("*") if path.is_file())

    def close(self) -> None:
        self._embeddings.close()
