"""aidre itself, as a contender: a store of one collection, compacted, searched through its Snapshot."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from aidre.engine.calibration import Target, calibrate
from aidre.engine.filters import parse_filter
from aidre.engine.kernel import Column
from aidre.engine.model import Chunk, Document, EmbeddingSpace, Query, Record
from aidre.engine.parts import Allowed
from aidre.engine.reach import Reach
from aidre.engine.search import search
from aidre.engine.segment import StoredChunk
from aidre.engine.snapshot import Snapshot
from aidre.engine.store import Store
from aidre.engine.vectors import encode_query
from benchmarks.peers.protocol import Answer, Below, Values, Vectors

SPACE, COLLECTION = "v", "bench"
BATCH = 50_000
PRODUCT = 0
"""The setting that means: as a user gets it, with the depth that was calibrated."""


class Aidre:
    settings = (PRODUCT, 20, 40, 80, 160, 320, 640)
    """Candidates that are compared exactly."""

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
            return search(snapshot.parts, SPACE, vector, wanted=k, reach=Reach(setting), only=condition)

        return ask if setting == PRODUCT else ask_deep

    def rows_of(self, answered: Any) -> list[int]:
        if isinstance(answered, list):
            return [number(hit.chunk.document_id) for hit in answered]
        segments = [part.segment for part in self.snapshot.parts]
        found = zip(answered.parts.tolist(), answered.rows.tolist(), strict=True)
        return [number(StoredChunk(segments[part], row).document_id) for part, row in found]

    def size(self) -> int:
        return vector_bytes(self.snapshot)

    def close(self) -> None:
        pass


def number(name: str) -> int:
    """The number of a row from the id of its document."""
    return int(name.removeprefix("row-"))


def vector_bytes(snapshot: Snapshot) -> int:
    """Bytes of the vectors and of their index on disk; text and look-ups are not compared."""
    files = (file for entry in snapshot.manifest.segments for file in entry.files.items())
    return sum(file.size for name, file in files if ".vectors." in name or ".index." in name)


def build(path: Path, rows: Vectors, values: Values | None = None, space: EmbeddingSpace | None = None) -> Snapshot:
    """A store of the rows, in batches, each of them a commit that is kept as one segment at the end."""
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
        if len(Store(path).open(COLLECTION).parts) > 1:
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
    """What the index alone takes, over rows in memory: training, coding and the calibration of its depth."""
    space = EmbeddingSpace(SPACE, rows.shape[1], "cosine", normalized=True)
    started = time.perf_counter()
    column = Column(space, rows.astype(np.float16))
    calibrate(space, [Target("bench", column, Allowed(None, len(rows)), None)], 0.99)
    return time.perf_counter() - started
