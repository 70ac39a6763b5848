"""What the tests of the engine share: vectors with a known shape, small stores made of them, and brute force."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.collection.writer import Writer
from aidre.engine.model import Chunk, Distance, Document, EmbeddingSpace, Query, Record

Vectors = NDArray[np.float32]
NAME = "docs"
DISTANCES: tuple[Distance, ...] = ("cosine", "dot", "euclidean")
TIME = "2026-04-01T10:00:00Z"


def space_of(distance: Distance = "cosine", dimensions: int = 8, **members: Any) -> EmbeddingSpace:
    return EmbeddingSpace(f"test:{distance}:{dimensions}", dimensions, distance, **members)


def record(document_id: str, texts: Sequence[str] = (), **members: Any) -> Record:
    """A document with one chunk a text; its fingerprint depends on everything that was given."""
    texts = texts or (f"text of {document_id}",)
    document = Document(document_id, "".join(texts), **{"updated_at": TIME, **members})
    chunks, start = [], 0
    for number, text in enumerate(texts, 1):
        chunks.append(Chunk(f"{document_id}#chunk_{number}", number, text, start, start + len(text)))
        start += len(text)
    mark = hashlib.blake2b(repr((document, texts)).encode(), digest_size=16).digest()
    return Record(document, tuple(chunks), mark)


def names(count: int, first: int = 0) -> list[str]:
    return [f"d{number:06d}" for number in range(first, first + count)]


def put(
    writer: Writer,
    records: Sequence[Record | str],
    vectors: Vectors | Mapping[str, Vectors],
    keys: Mapping[str, Sequence[bytes]] | None = None,
) -> None:
    """Upsert documents, given whole or by id alone, with one row of vectors a chunk."""
    given = vectors if isinstance(vectors, Mapping) else dict.fromkeys(writer.spaces, vectors)
    whole = [one if isinstance(one, Record) else record(one) for one in records]
    writer.upsert(whole, {space: writer.encode(space, rows) for space, rows in given.items()}, keys or {})


def shuffled(ids: Sequence[str], seed: int = 0) -> list[str]:
    """The order of ids must not be the order of rows, or a tie would prove nothing."""
    return [ids[place] for place in np.random.default_rng(seed).permutation(len(ids)).tolist()]


def fill(
    path: Path,
    space: EmbeddingSpace,
    vectors: Vectors,
    ids: Sequence[str] | None = None,
    *,
    commits: int = 1,
    finish: bool = False,
    bulk: bool = True,
    metadata: Sequence[Mapping[str, Any]] | None = None,
    dates: Collection[str] = (),
) -> Snapshot:
    """A store of one-chunk documents written in that many commits; answers its newest generation.

    The first load of a collection is `bulk`: it merges little and indexes its first segment and its end. Otherwise
    every commit is indexed and merged as those of later runs are.
    """
    ids = names(len(vectors)) if ids is None else ids
    with Store(path).writer(NAME, spaces=[space], dates=dates) as writer:
        for part in np.array_split(np.arange(len(vectors)), commits):
            rows = part.tolist()
            records = [record(ids[row], metadata=metadata[row] if metadata else {}) for row in rows]
            put(writer, records, vectors[rows])
            writer.commit()
            if not bulk:
                writer.finish()
        if finish:
            writer.finish()
    return Store(path).open(NAME)


def normal(rows: int, dimensions: int, seed: int = 0) -> Vectors:
    return np.asarray(np.random.default_rng(seed).normal(size=(rows, dimensions)), dtype=np.float32)


def structured(rows: int, dimensions: int, seed: int = 0) -> Vectors:
    """Rows as embeddings are: clusters of low intrinsic dimension, bent into `dimensions`, with a little noise.

    The clusters depend on `dimensions` alone, so that rows of another seed are of the same kind.
    """
    world = np.random.default_rng(dimensions)
    inner = min(dimensions, 16)
    centres = world.normal(size=(64, inner)) * 1.5
    bend = world.normal(size=(inner, dimensions)) / np.sqrt(inner)
    rng = np.random.default_rng(seed + 1)
    points = centres[rng.integers(0, 64, rows)] + rng.normal(size=(rows, inner))
    result = np.tanh(points @ bend) + rng.normal(size=(rows, dimensions)) * 0.05
    return np.asarray(result, dtype=np.float32)


def true_scores(distance: Distance, vectors: NDArray[Any], query: NDArray[Any]) -> NDArray[np.float64]:
    """The scores of every row as the contract defines them, in float64."""
    rows, wanted = vectors.astype(np.float64), query.astype(np.float64)
    if distance == "euclidean":
        return np.asarray(-np.linalg.norm(rows - wanted, axis=1))
    products = rows @ wanted
    if distance == "dot":
        return np.asarray(products)
    cosines = products / (np.linalg.norm(rows, axis=1) * np.linalg.norm(wanted))
    return np.asarray(np.clip(cosines, -1.0, 1.0))


def best(scores: NDArray[np.float64], ids: Sequence[str], count: int) -> list[str]:
    """Ids in order of (-score, id)."""
    order = sorted(range(len(scores)), key=lambda row: (-scores[row], ids[row]))
    return [ids[row] for row in order[:count]]


def nearest(distance: Distance, rows: NDArray[Any], queries: NDArray[Any], count: int) -> NDArray[np.int64]:
    """The places of the `count` best rows for each query, by matrix products in float64, without a rule for ties."""
    wide, asked = rows.astype(np.float64), queries.astype(np.float64)
    scores = asked @ wide.T
    if distance == "cosine":
        scores /= np.linalg.norm(wide, axis=1)
    elif distance == "euclidean":
        scores = 2 * scores - np.einsum("ij,ij->i", wide, wide)
    chosen = np.argpartition(-scores, count - 1, axis=1)[:, :count]
    return np.asarray(chosen, dtype=np.int64)


def ask(snapshot: Snapshot, vector: NDArray[Any], top_k: int = 10, **members: Any) -> list[str]:
    """Document ids of the hits of a vector in the collection's first space."""
    hits = snapshot.search(Query(vector, snapshot.collection.spaces[0].id, top_k, **members))
    return [hit.chunk.document_id for hit in hits]


def recall(found: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]]) -> float:
    pairs = zip(found, wanted, strict=True)
    return float(np.mean([len(set(some) & set(all_)) / len(all_) for some, all_ in pairs]))


# -- one small collection that many tests write ------------------------------------------------------------

SPACE = space_of("cosine", 8)
ROWS = normal(200, 8)


def write(path: Path, records: Sequence[Record | str], first: int = 0, **settings: Any) -> int:
    """One commit of one-chunk documents; answers the generation."""
    with Store(path).writer(NAME, spaces=[SPACE], **settings) as writer:
        put(writer, records, ROWS[first : first + len(records)])
        result = writer.commit()
    assert result is not None
    return result.generation


def delete(path: Path, ids: Sequence[str]) -> int:
    """One commit of deletes; answers how many documents were there."""
    with Store(path).writer(NAME, spaces=[SPACE]) as writer:
        deleted = writer.delete(ids)
        writer.commit()
    return deleted


def everything(snapshot: Snapshot) -> list[str]:
    """The ids of all documents that a search finds."""
    return sorted(ask(snapshot, ROWS[0], 10_000))


# -- stores that are written once and copied ---------------------------------------------------------------


def copied(store: Path, target: Path) -> Path:
    """A copy whose files are as new as if they were written now, so that no sweep finds them old."""
    shutil.copytree(store, target, copy_function=shutil.copy)
    return target


def leftovers(path: Path) -> list[str]:
    """The names of temporary files and folders."""
    return sorted(one.name for one in path.iterdir() if one.name.endswith(".tmp"))
