"""Stores of many shapes, and what processes with different kernels answer from them: `python -m
tests.hostile.kernel_stores FOLDER` answers the questions of every store in a folder, with the kernel of AIDRE_KERNEL.
"""

from __future__ import annotations

import json
import math
import random
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.index.fields.filters import parse_filter
from aidre.engine.index.vectors import encoding, quantizer
from aidre.engine.model import Distance, EmbeddingSpace, Precision, Query
from aidre.engine.native import FALL_BACK, kernel_name
from aidre.engine.search import cost, depth_choice
from tests.support.calibrations import measured_quickly
from tests.support.stores import NAME, Vectors, names, normal, put, record, structured

DIMENSIONS = (1, 2, 3, 5, 8, 16, 33, 48, 64, 96, 128, 200, 384, 768, 1024, 1536, 2048, 4096)
MAX_VALUES = 1_500_000
"""Numbers in the vectors of one store, so that no store takes many seconds to make."""

SLOW_MEMORY = 200
"""Factor on the costs of reading vectors: then small stores are scanned as otherwise only large ones are."""

FILTERS: tuple[Any, ...] = (None, {"even": True}, {"tenth": True}, {"n": {"lt": 3}}, {"n": -1})
NUMBERS = (1, 3, 10, 10, 10, 30, 100)
"""Of results that are asked for."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a store is made of. `kind` of rows: structured, normal, whole (small numbers, many ties) or copies."""

    distance: Distance
    dimensions: int
    precision: Precision | None
    rows: int
    kind: str
    commits: int
    deleted: float
    is_scanned: bool
    is_listed: bool
    seed: int

    @property
    def space(self) -> EmbeddingSpace:
        return EmbeddingSpace("test:space", self.dimensions, self.distance, precision=self.precision)


def random_shape(chance: random.Random, number: int) -> Shape:
    """A third of the stores are searched exactly, a third scanned, a third scanned in lists."""
    way = number % 3
    dimensions = chance.choice(DIMENSIONS) if way == 0 else chance.choice([one for one in DIMENSIONS if one >= 16])
    least = 2_500 if way else 1
    most = max(least + 1, min(12_000, MAX_VALUES // dimensions))
    return Shape(
        distance=chance.choice(("cosine", "dot", "euclidean")),
        dimensions=dimensions,
        precision=chance.choice((None, None, "float32", "float16")),
        rows=chance.randrange(least, most) if chance.random() < 0.8 else least,
        kind=chance.choice(("structured", "normal", "whole", "copies")) if way == 0 else "structured",
        commits=chance.choice((1, 1, 2, 5)),
        deleted=chance.choice((0.0, 0.0, 0.1, 0.6)),
        is_scanned=way > 0,
        is_listed=way == 2,
        seed=chance.randrange(1 << 31),
    )


def vectors_of(shape: Shape, rows: int, seed: int) -> Vectors:
    rng = np.random.default_rng(seed)
    if shape.kind == "structured":
        return structured(rows, shape.dimensions, seed)
    if shape.kind == "whole":
        whole = rng.integers(-2, 3, (rows, shape.dimensions)).astype(np.float32)
        whole[:, 0] += ~whole.any(axis=1)
        return whole
    if shape.kind == "copies":
        return np.asarray(normal(max(1, rows // 20), shape.dimensions, seed)[rng.integers(0, max(1, rows // 20), rows)])
    return normal(rows, shape.dimensions, seed)


def order_of(shape: Shape) -> NDArray[np.int64]:
    """The number in the id of each row: the order of ids is not that of rows."""
    return np.random.default_rng(shape.seed).permutation(shape.rows)


def deleted_rows(shape: Shape) -> NDArray[np.bool_]:
    return np.asarray(np.random.default_rng(shape.seed + 1).random(shape.rows) < shape.deleted)


def allowed_rows(shape: Shape, number: int) -> NDArray[np.bool_]:
    """The live rows that a filter lets through."""
    rows = np.arange(shape.rows)
    passing = (rows >= 0, rows % 2 == 0, rows % 10 == 0, rows % 100 < 3, rows < 0)[number]
    return np.asarray(passing & ~deleted_rows(shape))


def set_costs(shape: Shape) -> None:
    """For this process: whether its stores are scanned, and in lists."""
    costs = cost.FAISS if kernel_name() == FALL_BACK else cost.KERNEL
    factor = SLOW_MEMORY if shape.is_scanned else 1
    cost.COSTS = costs._replace(byte=costs.byte * factor, scattered_byte=costs.scattered_byte * factor)
    quantizer.MIN_LISTED_ROWS = 2_000 if shape.is_listed else 500_000
    depth_choice.MAX_PROBING_SHARE = math.inf if shape.is_listed else 0.7


def make(folder: Path, shape: Shape) -> None:
    set_costs(shape)
    every = names(shape.rows)
    ids = [every[number] for number in order_of(shape)]
    vectors = vectors_of(shape, shape.rows, shape.seed)
    with measured_quickly(), Store(folder).writer(NAME, spaces=[shape.space]) as writer:
        for part in np.array_split(np.arange(shape.rows), min(shape.commits, shape.rows)):
            rows = part.tolist()
            facts = [{"even": row % 2 == 0, "tenth": row % 10 == 0, "n": row % 100} for row in rows]
            put(writer, [record(ids[row], metadata=fact) for row, fact in zip(rows, facts, strict=True)], vectors[rows])
            writer.commit()
            if shape.seed % 2:
                writer.finish()
        gone = [ids[row] for row in np.flatnonzero(deleted_rows(shape)).tolist()]
        if gone:
            writer.delete(gone)
            writer.commit()
        writer.finish()
    (folder / "shape.json").write_text(json.dumps(asdict(shape)), encoding="ascii")


def shape_of(folder: Path) -> Shape:
    return Shape(**json.loads((folder / "shape.json").read_text(encoding="ascii")))


# -- questions ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Question:
    """Queries by number, asked for together or one by one, with a filter by number."""

    queries: tuple[int, ...]
    k: int
    filter: int
    together: bool


def queries_of(shape: Shape, count: int) -> Vectors:
    """Rows, mixtures of two, and others of their kind."""
    rng = np.random.default_rng(shape.seed + 2)
    rows = vectors_of(shape, shape.rows, shape.seed)
    queries = vectors_of(shape, count, shape.seed + 3)
    for number in range(0, count, 3):
        queries[number] = rows[rng.integers(0, shape.rows)]
        if number % 2 and shape.kind != "whole":
            queries[number] = 0.7 * queries[number] + 0.3 * rows[rng.integers(0, shape.rows)]
    queries[~queries.any(axis=1)] = 1
    return queries


def questions_of(shape: Shape, count: int) -> list[Question]:
    chance = random.Random(shape.seed)
    questions, first = [], 0
    while first < count:
        size = min(chance.choice((1, 1, 1, 1, 5, 9, 20)), count - first)
        wanted = chance.choice((*NUMBERS, shape.rows + 5)) if shape.rows < 1_000 else chance.choice(NUMBERS)
        filter = chance.choice((0, 0, 0, 1, 2, 3, 4))
        questions.append(Question(tuple(range(first, first + size)), wanted, filter, chance.random() < 0.7))
        first += size
    return questions


@dataclass(frozen=True, slots=True)
class Answers:
    """For each query the rows that were found and their scores, best first; whether the store is scanned, in lists."""

    kernel: str
    is_scanned: bool
    is_listed: bool
    rows: list[NDArray[np.int64]]
    scores: list[NDArray[np.float64]]


def is_scanned(snapshot: Snapshot) -> bool:
    """Whether some search of it compares candidates instead of all rows."""
    kinds = [space["calibration"] for space in snapshot.status()["spaces"]]
    return any(one is not None and one["kind"] == "scan" for one in kinds)


def is_listed(snapshot: Snapshot) -> bool:
    return any(scan.nlist > 1 for view in snapshot.segments for scan in view.segment.scans.values())


def answer(folder: Path, count: int) -> Answers:
    shape = shape_of(folder)
    set_costs(shape)
    snapshot = Store(folder).open(NAME)
    row_of = np.argsort(order_of(shape))
    queries = queries_of(shape, count)
    rows, scores = [], []
    for question in questions_of(shape, count):
        filter = FILTERS[question.filter]
        asked = [
            Query(queries[number], shape.space.id, question.k, filter=None if filter is None else parse_filter(filter))
            for number in question.queries
        ]
        found = snapshot.search_all(asked) if question.together else [snapshot.search(one) for one in asked]
        for hits in found:
            rows.append(row_of[[int(hit.chunk.document_id[1:]) for hit in hits]].astype(np.int64))
            scores.append(np.array([hit.score for hit in hits]))
    return Answers(kernel_name(), is_scanned(snapshot), is_listed(snapshot), rows, scores)


def save(answers: Answers, path: Path) -> None:
    sizes = np.array([len(rows) for rows in answers.rows])
    rows, scores = (np.concatenate([np.empty(0), *parts]) for parts in (answers.rows, answers.scores))
    facts = {"kernel": answers.kernel, "is_scanned": answers.is_scanned, "is_listed": answers.is_listed}
    np.savez(path, sizes=sizes, rows=rows, scores=scores, facts=np.array(json.dumps(facts)))


def load(path: Path) -> Answers:
    with np.load(path) as stored:
        ends = np.cumsum(stored["sizes"])[:-1]
        rows, scores = stored["rows"].astype(np.int64), stored["scores"]
        facts = json.loads(str(stored["facts"]))
    return Answers(**facts, rows=np.split(rows, ends), scores=np.split(scores, ends))


def stored_vectors(shape: Shape) -> NDArray[np.float64]:
    """The rows as they are stored, in float64."""
    return np.asarray(encoding.encode(shape.space, vectors_of(shape, shape.rows, shape.seed)).codes.astype(np.float64))


def main(folder: Path, count: int) -> None:
    for place in sorted(path for path in folder.iterdir() if (path / "shape.json").exists()):
        answers = answer(place, count)
        save(answers, place / f"{answers.kernel}.npz")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
