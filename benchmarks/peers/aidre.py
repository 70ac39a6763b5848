"""aidre as a contender: a store with one compacted collection, searched through its Snapshot.

`Previous` is the same of another release in an environment of its own, so what it needs is imported from the modules
that users import; that a search may name its recall is of this release alone.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import aidre.engine
from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.index.fields.filters import parse_filter
from aidre.engine.model import Chunk, Document, EmbeddingSpace, Query, Record
from benchmarks.harness.machine import kernel
from benchmarks.peers.engines.protocol import Answer, AnswerAll, Below, Values, Vectors

SPACE, COLLECTION = "v", "bench"
BATCH = 50_000
PRODUCT = 0
"""The setting of a search that names no recall."""


class Previous:
    settings: Sequence[int] = (PRODUCT,)
    filters = True

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}

    def build(self, rows: Vectors, values: Values, folder: Path) -> None:
        self.snapshot = build(folder / "store", rows, values)
        self.facts = {"version": version(), "kernel": kernel()}
        calibration = self.snapshot.space(SPACE).calibration
        if calibration and calibration.depths:
            self.facts["promised"] = calibration.depths[0].mean

    def answer(self, setting: int, k: int, only: Below | None) -> Answer:
        snapshot = self.snapshot
        condition = parse_filter({only.field: {"lt": only.value}}) if only else None

        def search(query: Vectors) -> Any:
            return snapshot.search(Query(query, SPACE, k, filter=condition))

        return search

    def answer_all(self, setting: int, k: int) -> AnswerAll:
        snapshot = self.snapshot

        def search(queries: Vectors) -> Sequence[Any]:
            return snapshot.search_all([Query(query, SPACE, k) for query in queries])

        return search

    def rows_of(self, answered: Any) -> list[int]:
        return [number(hit.chunk.document_id) for hit in answered]

    def size(self) -> int:
        return vector_bytes(self.snapshot)

    def close(self) -> None:
        pass


class Aidre(Previous):
    settings = (900, 950, 990)
    """The recall that a search asks for, in thousandths."""

    def answer(self, setting: int, k: int, only: Below | None) -> Answer:
        if setting == PRODUCT:
            return super().answer(setting, k, only)
        snapshot, recall = self.snapshot, setting / 1000
        condition = parse_filter({only.field: {"lt": only.value}}) if only else None

        def search(query: Vectors) -> Any:
            return snapshot.search(Query(query, SPACE, k, filter=condition, recall=recall))

        return search

    def answer_all(self, setting: int, k: int) -> AnswerAll:
        if setting == PRODUCT:
            return super().answer_all(setting, k)
        snapshot, recall = self.snapshot, setting / 1000

        def search(queries: Vectors) -> Sequence[Any]:
            return snapshot.search_all([Query(query, SPACE, k, recall=recall) for query in queries])

        return search


def version() -> str:
    """The version of the code that runs, with the commit of its checkout if it runs from one: an editable installation
    keeps the version that it was made with."""
    folder = Path(aidre.engine.__file__).resolve().parent
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=9"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    released = aidre.__version__
    return released if done.returncode else f"{released} at {done.stdout.strip()}"


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
