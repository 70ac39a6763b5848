"""Writes passages with their vectors to a store of the aidre that is installed here, for a server of it.

python -m benchmarks.peers.aidre_load STORE ROWS.npy COUNT TEXTS.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aidre.engine.collection.store import Store
from aidre.engine.embedding.embedder import DEFAULT_SPACE, load_embedder
from aidre.engine.model import Chunk, Document, Record
from aidre.engine.storage.format import NO_KEY

COLLECTION = "bench"
BATCH = 20_000


def load(path: Path, rows: NDArray[np.float32], passages: Sequence[str]) -> None:
    embedder = load_embedder(DEFAULT_SPACE)
    space = embedder.space
    with Store(path).writer(COLLECTION, spaces=[space], runtimes={space.id: embedder.runtime}) as writer:
        for first in range(0, len(rows), BATCH):
            block = np.asarray(rows[first : first + BATCH])
            records = [record(number, passages[number]) for number in range(first, first + len(block))]
            writer.upsert(records, {space.id: writer.encode(space.id, block)}, {space.id: [NO_KEY] * len(block)})
        writer.commit()
        writer.finish()


def record(number: int, text: str) -> Record:
    url = f"https://example.com/rows/{number}"
    document = Document(
        f"row-{number:08d}", text, title=f"Row {number}", url=url, metadata={"year": 1990 + number % 36}
    )
    chunk = Chunk(f"{document.id}#chunk_1", 1, text, 0, len(text))
    return Record(document, (chunk,), number.to_bytes(16, "little"))


def main(store: str, rows: str, count: str, texts: str) -> None:
    load(Path(store), np.load(rows, mmap_mode="r")[: int(count)], json.loads(Path(texts).read_bytes()))


if __name__ == "__main__":
    main(*sys.argv[1:])
