"""aidre as a contender: a store with one compacted collection, searched through its Snapshot."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.index.fields.filters import parse_filter
from aidre.engine.index.vectors.distance import VectorColumn
from aidre.engine.index.vectors.encoding import encode_query
from aidre.engine.index.vectors.scan import SearchDepth
from aidre.engine.model import Chunk, Document, EmbeddingSpace, Query, Record
from aidre.engine.search.calibration import CalibrationTarget, calibrate
from aidre.engine.search.dense import search_dense
from aidre.engine.segment.stored_chunk import StoredChunk
from aidre.engine.segment.view import RowMask
from benchmarks.peers.protocol import Answer, Below, Values, Vectors

SPACE, COLLECTION = "v", "bench"
BATCH = 50_000
PRODUCT = 0
"""The setting of a default search, with the calibrated depth."""


class Aidre:
    settings = (PRODUCT, 20, 40, 80, 160, 320, 640)
    """Number of candidates that are re-ranked with exact scores."""

    filters = True

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}

    def build(self, rows: Vectors, values: Values, folder: Path) -> None:
        self.snapshot = build(folder / "store", rows, values)
        self.facts = {"index_seconds": index_seconds(rows)}

    def answer(self, setting: int, k: int, only: Below | None) -> Answer:
        snapshot = self.snapshot
        state = snapshot.space(SPACE)
        condition = parse_filter({only.field: {"lt": only.value}}) if only else None

        def ask(query: Vectors) -> Any:
            return snapshot.search(Query(query, SPACE, k, filter=condition))

        def ask_deep(query: Vectors) -> Any:
            vector = encode_query(state.space, query)
            return search_dense(snapshot.segments, SPACE, vector, k=k, depth=SearchDepth(setting), filter=condition)

        return ask if setting == PRODUCT else ask_deep

    def rows_of(self, answered: Any) -> list[int]:
        if isinstance(answered, list):
            return [number(hit.chunk.document_id) for hit in answered]
        segments = [view.segment for view in self.snapshot.segments]
        found = zip(answered.segment_ords.tolist(), answered.rows.tolist(), strict=True)
        return [number(StoredChunk(segments[segment_ord], row).document_id) for segment_ord, row in found]

    def size(self) -> int:
        return vector_bytes(self.snapshot)

    def close(self) -> None:
        pass


def number(name: str) -> int:
    """The row number encoded in a document id."""
    return int(name.removeprefix("row-"))


def vector_bytes(snapshot: Snapshot) -> int:
    """Bytes of vectors and index on disk, without text and look-up tables."""
    files = (file for entry in snapshot.manifest.segments for file in entry.files.items())
    return sum(file.size for name, file in files if ".vectors." in name or ".index." in name)


def build(path: Path, rows: Vectors, values: Values | None = None, space: EmbeddingSpace | None = None) -> Snapshot:
    """Writes the rows to a store, commits every four batches, and compacts it to one segment."""
    space = space or EmbeddingSpace(SPACE, rows.shape[1], "cosine", normalized=True)
    with Store(path).writer(COLLECTION, spaces=[space]) as writer:
        for first in range(0, len(rows), BATCH):
            numbers = range(first, min(first + BATCH, len(rows)))
            codes = writer.encode(SPACE, np.asarray(rows[first : first + len(numbers)]))
            writer.upsert(list(records(numbers, values or {})), {SPACE: codes}, {})
            if numbers.stop % (4 * BATCH) == 0:
                writer.commit()
        writer.commit()
        writer.finish()
        if len(Store(path).open(COLLECTION).segments) > 1:
            writer.compact()
    return Store(path).open(COLLECTION)


def records(numbers: range, values: Values) -> Iterator[Record]:
    for each in numbers:
        text = f"Passage {each}."
        metadata = {name: float(column[each]) for name, column in values.items()}
        document = Document(f"row-{each:08d}", text, metadata=metadata)
        chunk = Chunk(f"{document.id}#chunk_1", 1, text, 0, len(text))
        yield Record(document, (chunk,), each.to_bytes(16, "little"))


def index_seconds(rows: Vectors) -> float:
    """Seconds to build the index alone over rows in memory: training, encoding and calibration."""
    space = EmbeddingSpace(SPACE, rows.shape[1], "cosine", normalized=True)
    started = time.perf_counter()
    column = VectorColumn(space, rows.astype(np.float16))
    calibrate(space, [CalibrationTarget("bench", column, RowMask(None, len(rows)), None)], 0.99)
    return time.perf_counter() - started
