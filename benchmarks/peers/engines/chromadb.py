"""Chroma, embedded and persistent: an HNSW graph, metadata in SQLite; ef_search is fixed at creation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import chromadb
from chromadb.config import Settings

from benchmarks.peers.engines.protocol import Answer, Below, Values, Vectors

NEIGHBOURS, CONSTRUCTION, BATCH = 16, 128, 5_000


class Chroma:
    settings = (100,)
    filters = True

    def build(self, rows: Vectors, values: Values, folder: Path) -> None:
        self._folder = folder / "chroma"
        self._client = chromadb.PersistentClient(str(self._folder), Settings(anonymized_telemetry=False))
        graph: Any = {
            "space": "cosine",
            "max_neighbors": NEIGHBOURS,
            "ef_construction": CONSTRUCTION,
            "ef_search": self.settings[0],
            "num_threads": 2,
        }
        self._collection = self._client.create_collection(
            "bench", embedding_function=None, configuration={"hnsw": graph}
        )
        for first in range(0, len(rows), BATCH):
            numbers = range(first, min(first + BATCH, len(rows)))
            self._collection.add(
                ids=[str(number) for number in numbers],
                embeddings=rows[first : first + len(numbers)],
                metadatas=[{name: float(column[number]) for name, column in values.items()} for number in numbers],
            )
        self._collection.query(query_embeddings=rows[:1], n_results=1, include=[])  # completes pending indexing

    def answer(self, setting: int, k: int, only: Below | None) -> Answer:
        collection = self._collection
        where: Any = {only.field: {"$lt": only.value}} if only else None

        def search(query: Vectors) -> Any:
            return collection.query(query_embeddings=[query], n_results=k, where=where, include=[])["ids"][0]

        return search

    def rows_of(self, answered: Any) -> list[int]:
        return [int(number) for number in answered]

    def size(self) -> int:
        return sum(path.stat().st_size for path in self._folder.rglob("*") if path.is_file())

    def close(self) -> None:
        pass
