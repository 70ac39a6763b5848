"""Real embeddings of passages of installed documentation, computed once per machine and kept in the cache folder.

    python -m benchmarks.real [--rows N] [--queries N] [--renew]

`benchmarks.passages` supplies the text, aidre's default embedder the vectors. Beyond the real rows, `blocks` continues
with mixes norm(0.8 a + 0.6 b) of two real rows, drawn from the block number alone; they keep the covariance of the real
rows.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aidre.engine.embedding.cache import cache_folder, publish, staging
from aidre.engine.embedding.embedder import DEFAULT_SPACE, Embedder, load_embedder
from benchmarks import data
from benchmarks.passages import material

ROWS: Final = 60_000
QUERIES: Final = 1_000
BATCH: Final = 1_000
BLOCK: Final = 50_000
FORMAT: Final = 1
CARD, VECTORS, ASKED, PASSAGES, QUESTIONS = "card.json", "real.npy", "queries.npy", "passages.json", "questions.json"

Vectors = NDArray[np.float32]


class Real(NamedTuple):
    """Memory-mapped unit vectors of passages (`rows`) and of held-out questions (`queries`), shape (n, dimensions).

    The texts are in the same folder.
    """

    folder: Path
    rows: Vectors
    queries: Vectors

    def passages(self) -> list[str]:
        found: list[str] = json.loads((self.folder / PASSAGES).read_bytes())
        return found

    def questions(self) -> list[str]:
        found: list[str] = json.loads((self.folder / QUESTIONS).read_bytes())
        return found


def bench_cache() -> Path:
    """The cache folder of the benchmarks, outside the repository; safe to delete."""
    folder = cache_folder() / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def real(rows: int = ROWS, queries: int = QUERIES, *, renew: bool = False) -> Real:
    """The first rows of the real set; computes the set if it is missing or too small."""
    folder = bench_cache() / "real"
    if renew or not sufficient(folder, rows, queries):
        with staging(bench_cache()) as made:
            make(made, max(rows, ROWS), max(queries, QUERIES), load_embedder(DEFAULT_SPACE))
            publish(made, folder, lambda path: not renew and sufficient(path, rows, queries))
    return Real(folder, load(folder / VECTORS, rows), load(folder / ASKED, queries))


def synthetic(folder: Path, rows: int, queries: int = QUERIES) -> Real:
    """The same files with vectors of `benchmarks.data` and meaningless texts; loads no model."""
    dimensions = DEFAULT_SPACE.dimensions
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / VECTORS, data.vectors(rows, dimensions))
    np.save(folder / ASKED, data.queries(queries, dimensions))
    for name, count in ((PASSAGES, rows), (QUESTIONS, queries)):
        written = [f"Passage {number} tells of thing{number % 97} and place{number % 89}." for number in range(count)]
        (folder / name).write_text(json.dumps(written), "utf-8")
    return Real(folder, load(folder / VECTORS, rows), load(folder / ASKED, queries))


def load(path: Path, rows: int) -> Vectors:
    found: Vectors = np.load(path, mmap_mode="r")[:rows]
    return found


def sufficient(folder: Path, rows: int, queries: int) -> bool:
    """Whether the folder holds a set that is large enough, or all text of this installation."""
    try:
        card: dict[str, Any] = json.loads((folder / CARD).read_bytes())
    except (OSError, ValueError):
        return False
    enough = card.get("rows", 0) >= rows or card.get("all")
    return card.get("format") == FORMAT and bool(enough) and card.get("queries", 0) >= min(queries, QUERIES)


def make(folder: Path, rows: int, queries: int, embedder: Embedder) -> None:
    say("reading documentation ...")
    found = material(rows, queries)
    say(f"{len(found.passages):,} passages, {len(found.questions):,} questions; embedding by {embedder.runtime} ...")
    np.save(folder / VECTORS, embedded(embedder, found.passages))
    np.save(folder / ASKED, np.concatenate([embedder.embed_queries([text]) for text in found.questions]))
    (folder / PASSAGES).write_text(json.dumps(found.passages), "utf-8")
    (folder / QUESTIONS).write_text(json.dumps(found.questions), "utf-8")
    card = {
        "format": FORMAT,
        "rows": len(found.passages),
        "queries": len(found.questions),
        "all": len(found.passages) < rows,
        "model": embedder.space.model,
        "revision": embedder.space.revision,
        "runtime": embedder.runtime,
    }
    (folder / CARD).write_text(json.dumps(card, indent=1) + "\n", "utf-8")


def embedded(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    rows = np.empty((len(texts), embedder.space.dimensions), np.float32)
    started = last = time.monotonic()
    for first in range(0, len(texts), BATCH):
        batch = texts[first : first + BATCH]
        rows[first : first + len(batch)] = embedder.embed_documents(batch)
        if time.monotonic() - last > 10:
            last = time.monotonic()
            done = first + len(batch)
            say(f"{done:,} of {len(texts):,} ({done / (last - started):.0f} a second)")
    return rows


def blocks(rows: int, base: Vectors) -> Iterator[Vectors]:
    """`rows` unit vectors in blocks of BLOCK: first those of `base`, then mixes of two of its rows."""
    for start in range(0, min(rows, len(base)), BLOCK):
        yield base[start : min(start + BLOCK, rows)]
    for start in range(len(base), rows, BLOCK):
        rng = np.random.default_rng([11, start])
        one, other = rng.integers(0, len(base), (2, min(BLOCK, rows - start)))
        mixed = np.float32(0.8) * base[one] + np.float32(0.6) * base[other]
        yield mixed / np.linalg.norm(mixed, axis=1, keepdims=True)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="real", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--queries", type=int, default=QUERIES)
    parser.add_argument(
        "--renew", action="store_true", help="recompute the set, for example after an update of the libraries"
    )
    options = parser.parse_args(argv)
    found = real(options.rows, options.queries, renew=options.renew)
    print(json.dumps({"folder": str(found.folder), "rows": len(found.rows), "queries": len(found.queries)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
