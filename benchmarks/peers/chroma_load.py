"""Loads rows with their texts into a running Chroma server; runs in the environment of chromadb.

    python -m benchmarks.peers.chroma_load PORT EF ROWS.npy COUNT TEXTS.json

EF is the depth of all searches. Prints the id of the collection.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
from chromadb.config import Settings

BATCH = 2_000


def main(port: str, ef: str, rows: str, count: str, texts: str) -> None:
    vectors = np.load(rows, mmap_mode="r")[: int(count)]
    written = json.loads(Path(texts).read_bytes())
    client = chromadb.HttpClient("127.0.0.1", int(port), settings=Settings(anonymized_telemetry=False))
    graph: Any = {"space": "cosine", "max_neighbors": 16, "ef_construction": 128, "ef_search": int(ef)}
    made = client.create_collection("bench", embedding_function=None, configuration={"hnsw": graph})
    for first in range(0, len(vectors), BATCH):
        numbers = range(first, min(first + BATCH, len(vectors)))
        made.add(
            ids=[str(number) for number in numbers],
            embeddings=np.ascontiguousarray(vectors[first : first + len(numbers)]),
            documents=[written[number] for number in numbers],
        )
    made.query(query_embeddings=np.ascontiguousarray(vectors[:1]), n_results=1)
    print(made.id)


if __name__ == "__main__":
    main(*sys.argv[1:])
