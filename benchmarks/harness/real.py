"""Real embeddings of passages and of two kinds of queries, computed once per machine and kept in the cache folder.

    python -m benchmarks.harness.real [--rows N] [--queries N] [--renew]

`harness.passages` supplies the text, aidre's default embedder the vectors. Queries are `ind` (passages of documents
that gave no row: the distribution of the rows) or `ood` (questions, as users write them). The environment variable
AIDRE_BENCH_SETS names test collections, or folders of them, separated as in PATH; without it the text is installed
documentation. Beyond the real rows, `blocks` continues with mixes norm(0.8 a + 0.6 b) of two real rows, drawn from the
block number alone; they keep the covariance of the real rows.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aidre.engine.embedding.cache import cache_folder, publish, staging
from aidre.engine.embedding.embedder import DEFAULT_SPACE, Embedder, load_embedder
from benchmarks.harness import data
from benchmarks.harness.judged_sets import CORPUS, QUERIES as SET_QUERIES, sets_in
from benchmarks.harness.passages import material

SETS: Final = "AIDRE_BENCH_SETS"
ROWS: Final = 60_000
QUERIES: Final = 1_000
BATCH: Final = 1_000
BLOCK: Final = 50_000
FORMAT: Final = 2
CARD, VECTORS, PASSAGES, QUESTIONS = "card.json", "real.npy", "passages.json", "questions.json"

Kind = Literal["ind", "ood"]
KINDS: Final[Sequence[Kind]] = ("ind", "ood")
Vectors = NDArray[np.float32]


class Real(NamedTuple):
    """Memory-mapped unit vectors, shape (n, dimensions): passages (`rows`), unseen passages, questions.

    The texts of the rows and of the questions are in the same folder.
    """

    folder: Path
    rows: Vectors
    ind: Vectors
    ood: Vectors

    def queries(self, kind: Kind) -> Vectors:
        return {"ind": self.ind, "ood": self.ood}[kind]

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


def sets_given() -> list[Path]:
    """The test collections of the environment. Raises ValueError for a folder without one."""
    given = [Path(each).expanduser() for each in os.environ.get(SETS, "").split(os.pathsep) if each]
    return [found.resolve() for each in given for found in sets_in(each)]


def folder_of(sets: Sequence[Path]) -> Path:
    """The cache folder of the vectors of these test collections; other contents have another folder."""
    if not sets:
        return bench_cache() / "real"
    sizes = [f"{one.name} {(one / CORPUS).stat().st_size} {(one / SET_QUERIES).stat().st_size}" for one in sets]
    return bench_cache() / f"real-{blake2b(chr(0).join(sizes).encode(), digest_size=6).hexdigest()}"


def real(rows: int = ROWS, queries: int = QUERIES, *, renew: bool = False) -> Real:
    """The first rows of the real set; computes the set if it is missing or too small."""
    sets = sets_given()
    folder = folder_of(sets)
    if renew or not sufficient(folder, rows, queries):
        with staging(bench_cache()) as made:
            make(made, max(rows, ROWS), max(queries, QUERIES), load_embedder(DEFAULT_SPACE), sets)
            publish(made, folder, lambda path: not renew and sufficient(path, rows, queries))
    return opened(folder, rows, queries)


def opened(folder: Path, rows: int, queries: int) -> Real:
    return Real(folder, load(folder / VECTORS, rows), *(load(folder / f"{kind}.npy", queries) for kind in KINDS))


def synthetic(folder: Path, rows: int, queries: int = QUERIES) -> Real:
    """The same files with vectors of `harness.data` and meaningless texts; loads no model.

    `ood` are points of another mixture, drawn towards one of this.
    """
    dimensions = DEFAULT_SPACE.dimensions
    folder.mkdir(parents=True, exist_ok=True)
    ind, other = data.queries(queries, dimensions), data.queries(queries, dimensions, seed=6)
    np.save(folder / VECTORS, data.vectors(rows, dimensions))
    np.save(folder / "ind.npy", ind)
    np.save(folder / "ood.npy", unit(ind[::-1] + other))
    for name, count in ((PASSAGES, rows), (QUESTIONS, queries)):
        written = [f"Passage {number} tells of thing{number % 97} and place{number % 89}." for number in range(count)]
        (folder / name).write_text(json.dumps(written), "utf-8")
    return opened(folder, rows, queries)


def unit(vectors: Vectors) -> Vectors:
    scaled: Vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return scaled


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


def make(folder: Path, rows: int, queries: int, embedder: Embedder, sets: Sequence[Path] = ()) -> None:
    say(f"reading {', '.join(one.name for one in sets) or 'documentation'} ...")
    found = material(rows, queries, sets)
    say(f"{len(found.passages):,} passages, {len(found.questions):,} questions; embedding by {embedder.runtime} ...")
    np.save(folder / VECTORS, embedded(embedder, found.passages))
    np.save(folder / "ind.npy", embedded(embedder, found.unseen))
    np.save(folder / "ood.npy", np.concatenate([embedder.embed_queries([text]) for text in found.questions]))
    (folder / PASSAGES).write_text(json.dumps(found.passages), "utf-8")
    (folder / QUESTIONS).write_text(json.dumps(found.questions), "utf-8")
    card = {
        "format": FORMAT,
        "rows": len(found.passages),
        "queries": queries,
        "all": len(found.passages) < rows,
        "sources": [one.name for one in sets] or ["documentation"],
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


def reduced(vectors: Real, dimensions: int) -> Real:
    """The same in fewer dimensions: unit vectors of the principal components of the rows."""
    rows = np.asarray(vectors.rows)
    basis = np.linalg.eigh(rows.T @ rows)[1][:, ::-1][:, :dimensions]
    return vectors._replace(rows=unit(rows @ basis), ind=unit(vectors.ind @ basis), ood=unit(vectors.ood @ basis))


def blocks(rows: int, base: Vectors) -> Iterator[Vectors]:
    """`rows` unit vectors in blocks of BLOCK: first those of `base`, then mixes of two of its rows."""
    for start in range(0, min(rows, len(base)), BLOCK):
        yield base[start : min(start + BLOCK, rows)]
    for start in range(len(base), rows, BLOCK):
        rng = np.random.default_rng([11, start])
        one, other = rng.integers(0, len(base), (2, min(BLOCK, rows - start)))
        yield unit(np.float32(0.8) * base[one] + np.float32(0.6) * base[other])


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
    print(json.dumps({"folder": str(found.folder), "rows": len(found.rows), "queries": len(found.ood)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
