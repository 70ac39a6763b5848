"""Collections made of stored ones without embedding their texts again: samples, halves, many copies, without vectors.

The documents of a stored collection are read with their vectors (`read`), chosen or changed, and written to another
folder (`write`).
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.model import Chunk, Document, EmbeddingSpace, Record
from aidre.engine.storage.format import NO_KEY

NAME = "sample"
"""The collection that `write` makes."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A document: the texts of its chunks, and their vectors of shape (chunks, dimensions)."""

    id: str
    title: str | None
    texts: tuple[str, ...]
    vectors: NDArray[np.float32]

    @property
    def text(self) -> str:
        return "\n".join(self.texts)


def read(snapshot: Snapshot, space: str) -> dict[str, Stored]:
    """The documents of a collection by id, with their vectors in a space."""
    texts: dict[str, list[str]] = {}
    vectors: dict[str, list[NDArray[np.float32]]] = {}
    titles: dict[str, str | None] = {}
    for chunk in snapshot.scan():
        titles.setdefault(chunk.document_id, chunk.title)
        texts.setdefault(chunk.document_id, []).append(chunk.text)
        vectors.setdefault(chunk.document_id, []).append(chunk.vectors()[space])
    return {id: Stored(id, titles[id], tuple(texts[id]), np.array(vectors[id], np.float32)) for id in texts}


def write(folder: Path, documents: Iterable[Stored], space: EmbeddingSpace | None) -> Snapshot:
    """A collection of documents; without a space it has no vectors, and is searched by words alone."""
    documents = list(documents)
    records = [_record(one, number) for number, one in enumerate(documents)]
    with Store(folder).writer(NAME, spaces=[] if space is None else [space]) as writer:
        if space is None:
            writer.upsert(records, {}, {})
        else:
            rows = np.concatenate([one.vectors for one in documents])
            writer.upsert(records, {space.id: writer.encode(space.id, rows)}, {space.id: [NO_KEY] * len(rows)})
        writer.commit()
    return Store(folder).open(NAME)


def _record(stored: Stored, number: int) -> Record:
    chunks, start = [], 0
    for place, text in enumerate(stored.texts, 1):
        chunks.append(Chunk(f"{stored.id}#chunk_{place}", place, text, start, start + len(text)))
        start += len(text) + 1
    return Record(Document(stored.id, stored.text, title=stored.title), tuple(chunks), number.to_bytes(16, "little"))


def choose(documents: Sequence[Stored], answering: Collection[str], chunks: int, rng: random.Random) -> list[Stored]:
    """Random documents of about so many chunks, half of the documents from `answering` as far as these reach."""
    by_id = {one.id: one for one in documents}
    first = sorted(by_id.keys() & set(answering))
    others = sorted(by_id.keys() - set(answering))
    rng.shuffle(first)
    rng.shuffle(others)
    chosen: list[Stored] = []
    count = 0
    while count < chunks and (first or others):
        take = first if first and (len(chosen) % 2 == 0 or not others) else others
        chosen.append(by_id[take.pop()])
        count += len(chosen[-1].texts)
    return chosen


def repeat(documents: Sequence[Stored], chunks: int, seed: int, noise: float = 0.3) -> list[Stored]:
    """Documents and copies of them until there are so many chunks; a vector of a copy is v + noise * a random unit
    vector."""
    rng = np.random.default_rng(seed)
    found = list(documents)
    count = sum(len(one.texts) for one in found)
    copy = 0
    while count < chunks:
        copy += 1
        for one in documents:
            if count >= chunks:
                break
            random_rows = rng.standard_normal(one.vectors.shape).astype(np.float32)
            random_rows /= np.linalg.norm(random_rows, axis=1, keepdims=True)
            lengths = np.linalg.norm(one.vectors, axis=1, keepdims=True)
            found.append(replace(one, id=f"{one.id}/copy{copy}", vectors=one.vectors + noise * lengths * random_rows))
            count += len(one.texts)
    return found
