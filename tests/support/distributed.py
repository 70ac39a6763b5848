"""Documents for a distributed ingest: Markdown files and JSON Lines with ids and vectors, repeated ids, bad rows."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.embedding.embedder import Embedder
from aidre.engine.embedding.graph import HashingEmbedder
from aidre.engine.model import EmbeddingSpace, Query

WORDS = EmbeddingSpace("words", 32, "cosine", normalized=True, provider="aidre", model="hashing")
BROUGHT = EmbeddingSpace("brought", 4, "cosine")
SPACES = (WORDS, BROUGHT)
TIME = "2026-04-01T10:00:00Z"
_SUBJECTS = ("river", "bridge", "harbour", "mountain", "library", "engine", "garden", "market", "railway", "island")


def load_models() -> Mapping[str, Embedder]:
    return {WORDS.id: HashingEmbedder(WORDS)}


def sentence(seed: int) -> str:
    chosen = random.Random(seed)
    return " ".join(chosen.choice(_SUBJECTS) for _ in range(12))


def row(number: int, **members: Any) -> dict[str, Any]:
    vector = np.random.default_rng(number).normal(size=BROUGHT.dimensions).round(4).tolist()
    return {
        "id": f"row-{number}",
        "title": f"Row {number}",
        "text": f"{sentence(number)} number {number}",
        "updated_at": TIME,
        "metadata": {"group": number % 7, "even": number % 2 == 0},
        "vectors": {BROUGHT.id: vector},
        **members,
    }


def write_rows(path: Path, *rows: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join((one if isinstance(one, bytes) else orjson.dumps(one)) + b"\n" for one in rows))


def write_corpus(folder: Path, documents: int = 5_000) -> None:
    """Rows in three files. Every tenth id of the first file is in the second again, and some of the third are faulty:
    no JSON, a vector of another length, no vector."""
    third = documents // 3
    write_rows(folder / "a.jsonl", *map(row, range(third)))
    repeated = [row(number, text=f"{sentence(number)} again {number}") for number in range(0, third, 10)]
    write_rows(folder / "b" / "b.jsonl", *repeated, *map(row, range(third, 2 * third)))
    faulty = [b"{no json", row(9_000_001, vectors={BROUGHT.id: [1.0]}), row(9_000_002, vectors={})]
    write_rows(folder / "c.jsonl", *map(row, range(2 * third, documents)), *faulty, row(5, title="The last one"))


def write_pages(folder: Path, pages: int) -> None:
    """Markdown files, some of them with an id of their own, two of which are the same."""
    for number in range(pages):
        path = folder / f"{number % 13}" / f"{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        identity = f"id: page-{number % 50}\n" if number % 50 == 7 or number == pages - 1 else ""
        sections = "\n\n".join(f"## Part {part}\n\n{sentence(number * 3 + part)}" for part in range(3))
        path.write_text(f"---\n{identity}updated_at: {TIME}\ngroup: {number % 7}\n---\n# Page {number}\n\n{sections}\n")
    (folder / "bad.md").write_bytes(bytes(range(256)))


def contents(snapshot: Snapshot) -> dict[str, tuple[Any, ...]]:
    """All that a reader sees of each chunk but its row."""
    found = {}
    for chunk in snapshot.scan():
        vectors = {name: vector.tobytes() for name, vector in chunk.vectors().items()}
        _, source, metadata, etag = chunk.fragments
        found[chunk.id] = (chunk.content_hash, chunk.text, bytes(source), bytes(metadata), bytes(etag), vectors)
    return found


def searches(snapshot: Snapshot, space: EmbeddingSpace, queries: int = 40) -> list[list[tuple[str, float]]]:
    """Ids and scores of dense, lexical and hybrid searches."""
    found = []
    embedder = HashingEmbedder(WORDS)
    for number in range(queries):
        text = " ".join(sentence(number).split()[:4])
        is_word = space.model is not None
        random_vector = np.random.default_rng(number).normal(size=space.dimensions).astype(np.float32)
        vector = embedder.embed_queries([text])[0] if is_word else random_vector
        asked = [Query(vector, space.id, 10)]
        if is_word:
            asked += [Query(None, None, 10, text=text, mode="lexical")]
            asked += [Query(vector, space.id, 10, text=text, mode="hybrid")]
        found += [[(hit.chunk.id, round(hit.score, 5)) for hit in snapshot.search(query)] for query in asked]
    return found
