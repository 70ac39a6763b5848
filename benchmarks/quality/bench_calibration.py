"""Promised against found: the recall that a calibration promises, and what questions find.

    python -m benchmarks calibration [PATH...] [--sizes N ...] [--queries N] [--update-readme]

A PATH is a test set or a folder of sets (format: harness/judged_sets.py); without one, a set is made from this Python's
standard library. Measured are each set by itself, embedded by the default model, one row a document; and, without a
model at hand, its vectors and latent semantic vectors (`quality.lsa`) of all sets together at each size, where mixes
of two rows follow the real ones (`harness.real`). Recall at ten is against exact search over the stored rows. `own`
are questions of the sets that are searched, `others` those of the remaining sets: sets of fewer than 1,000 documents
are never searched. Embeddings are kept in the cache folder. Times are medians of single queries.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.embedding.embedder import DEFAULT_SPACE, Embedder, load_embedder
from aidre.engine.index.vectors.encoding import encode_query
from aidre.engine.maintenance.recalibration import measure_recall
from aidre.engine.model import Chunk, Document, EmbeddingSpace, Query, Record
from aidre.engine.ports import EmbedQueries
from benchmarks.harness.judged_sets import QUERIES, read_set, rows_of, sets_in
from benchmarks.harness.real import BLOCK, bench_cache, blocks, say
from benchmarks.harness.stdlib_corpus import write_set
from benchmarks.quality.lsa import fit
from benchmarks.report.results import record

SIZES: Final = (8_000, 60_000, 300_000)
MIN_DOCUMENTS: Final = 1_000
DIMENSIONS: Final = 256
"""Dimensions of latent semantic vectors."""

COLLECTION: Final = "bench"
_BATCH: Final = 1_000

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Texts:
    """Documents and questions of a test set."""

    name: str
    documents: Sequence[str]
    questions: Sequence[str]


@dataclass(frozen=True, slots=True)
class Case:
    """Rows to store with their texts, questions to ask, and the model of the space if it is at hand."""

    space: EmbeddingSpace
    blocks: Callable[[], Iterator[Vectors]]
    texts: Sequence[str]
    own: Vectors
    others: Vectors
    model: EmbedQueries | None = None


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments(argv)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        try:
            sets = list(read(options.paths, Path(folder)))
        except ValueError as error:
            raise SystemExit(f"bench_calibration: {error}") from error
        figures = measure(sets, load_embedder(DEFAULT_SPACE), options, Path(folder))
    print(json.dumps(figures))
    record("bench_calibration", figures, readme=options.update_readme)
    return 0


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench_calibration", description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, help="test sets, or folders of test sets")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="rows of mixtures and latent vectors")
    parser.add_argument("--queries", type=int, default=400, help="questions of each kind at most")
    parser.add_argument("--folder", type=Path, help="parent of the temporary stores")
    parser.add_argument("--update-readme", action="store_true", help="write benchmarks/REPORT.md and README.md")
    return parser.parse_args(argv)


def read(paths: Sequence[Path], folder: Path) -> Iterator[Texts]:
    if not paths:
        write_set(folder / "stdlib")
        paths = [folder / "stdlib"]
    for path in [each for given in paths for each in sets_in(given)]:
        judged = read_set(path)
        rows = rows_of(judged.corpus, ("id", "text"))
        documents = [f"{row.get('title') or ''}\n{row['text']}".strip() for row in rows]
        yield Texts(judged.name, documents, [str(row["text"]) for row in rows_of(path / QUERIES, ("id", "text"))])


def measure(
    sets: Sequence[Texts], embedder: Embedder, options: argparse.Namespace, folder: Path
) -> dict[str, dict[str, dict[str, Any]]]:
    searched = [one for one in sets if len(one.documents) >= MIN_DOCUMENTS]
    asked = {one.name: questions_of(embedder, one, options.queries) for one in sets}
    rows = {one.name: embedded(embedder.embed_documents, embedder, one.documents) for one in searched}
    by_set = {}
    for one in searched:
        own, others = asked[one.name], drawn([asked[each.name] for each in sets if each is not one], options.queries)
        all_rows = partial(blocks, len(rows[one.name]), rows[one.name])
        case = Case(embedder.space, all_rows, one.documents, own, others, embedder.embed_queries)
        by_set[one.name] = measured(case, folder / one.name)
    figures = {"sets": by_set}
    order = np.random.default_rng(7).permutation(sum(len(one.documents) for one in searched))
    own = drawn([asked[one.name] for one in searched], options.queries)
    others = drawn([asked[one.name] for one in sets if one not in searched], options.queries)
    mixed = np.concatenate([rows[one.name] for one in searched])[order], own, others
    for kind, vectors in {"mixtures": mixed, "latent semantic vectors": latent(sets, searched, order, options)}.items():
        figures[kind] = {
            f"{size:,} rows": measured(unmodelled(size, *vectors), folder / f"{kind} {size}") for size in options.sizes
        }
    return figures


def latent(
    sets: Sequence[Texts], searched: Sequence[Texts], order: NDArray[np.int64], options: argparse.Namespace
) -> tuple[Vectors, Vectors, Vectors]:
    """Latent semantic vectors of the documents in this order, of their questions, and of other questions."""
    say("latent semantic vectors ...")
    documents = [text for one in searched for text in one.documents]
    own = [text for one in searched for text in one.questions]
    others = [text for one in sets if one not in searched for text in one.questions]
    projection = fit(documents, DIMENSIONS)
    asked = [drawn([projection.project(texts)] if texts else [], options.queries) for texts in (own, others)]
    return projection.project([documents[number] for number in order.tolist()]), asked[0], asked[1]


def unmodelled(size: int, rows: Vectors, own: Vectors, others: Vectors) -> Case:
    """A space without a model: `size` rows, of which those beyond the real ones are mixes."""
    space = EmbeddingSpace("vectors", rows.shape[1], "cosine", normalized=True)
    return Case(space, partial(blocks, size, rows), (), own, others)


def drawn(vectors: Sequence[Vectors], count: int) -> Vectors:
    """Up to `count` of all of them, evenly."""
    together: Vectors = np.concatenate(vectors) if len(vectors) else np.empty((0, 0), np.float32)
    chosen: Vectors = together[np.linspace(0, len(together) - 1, min(count, len(together))).astype(int)]
    return chosen


def questions_of(embedder: Embedder, one: Texts, count: int) -> Vectors:
    numbers = np.linspace(0, len(one.questions) - 1, min(count, len(one.questions))).astype(int).tolist()
    return embedded(embedder.embed_queries, embedder, [one.questions[number] for number in numbers])


def embedded(embed: Callable[[Sequence[str]], Vectors], embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """Vectors of the texts, kept in the cache folder by texts, model and kind."""
    parts = [embedder.space.model or "", embedder.space.revision or "", embed.__name__, *texts]
    folder = bench_cache() / "calibration"
    folder.mkdir(exist_ok=True)
    path = folder / f"{sha256(chr(0).join(parts).encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.npy"
    if not path.exists():
        say(f"embedding {len(texts):,} texts ...")
        found = [embed(texts[start : start + _BATCH]) for start in range(0, len(texts), _BATCH)]
        temporary = path.with_suffix(".partial.npy")
        np.save(temporary, np.concatenate(found))
        temporary.replace(path)
    vectors: Vectors = np.load(path)
    return vectors


def measured(case: Case, path: Path) -> dict[str, Any]:
    started = time.monotonic()
    snapshot = write(case, path)
    calibration = snapshot.space(case.space.id).calibration
    depth = calibration.depths[0] if calibration and calibration.depths else None
    figures = {
        "rows": snapshot.chunks,
        "method": "scan" if depth else "exact",
        "promised": round(depth.mean, 4) if depth else 1.0,
        "own": found(snapshot, case.space, case.own),
        "others": found(snapshot, case.space, case.others),
        "candidates": depth.candidates if depth else "-",
        "codes": calibration.code_size if calibration and depth else "-",
        "p50_us": round(p50(snapshot, case)),
    }
    say(f"{path.name}: {figures} in {time.monotonic() - started:.0f} s")
    return figures


def write(case: Case, path: Path) -> Snapshot:
    models = {} if case.model is None else {case.space.id: case.model}
    first = 0
    with Store(path).writer(COLLECTION, spaces=[case.space], models=models) as writer:
        for block in case.blocks():
            numbers = range(first, first + len(block))
            keys = {case.space.id: [bytes(16)] * len(block)} if case.space.model else {}
            codes = writer.encode(case.space.id, np.asarray(block))
            writer.upsert([row_record(number, case.texts) for number in numbers], {case.space.id: codes}, keys)
            first = numbers.stop
            if first % (4 * BLOCK) == 0:
                writer.commit()
        writer.commit()
        writer.finish()
    return Store(path).open(COLLECTION)


def row_record(number: int, texts: Sequence[str]) -> Record:
    text = texts[number] if texts else f"Row {number}."
    document = Document(f"row-{number:08d}", text)
    return Record(document, (Chunk(f"{document.id}#chunk_1", 1, text, 0, len(text)),), number.to_bytes(16, "little"))


def found(snapshot: Snapshot, space: EmbeddingSpace, queries: Vectors) -> float | str:
    """Recall at ten, "-" without questions."""
    if not len(queries):
        return "-"
    encoded = np.concatenate([encode_query(space, query) for query in queries])
    return round(measure_recall(snapshot, space.id, encoded), 4)


def p50(snapshot: Snapshot, case: Case) -> float:
    """Microseconds of a search for ten hits; the first turn is warm-up."""
    times: list[float] = []
    for _ in range(3):
        times = []
        for query in case.own[:200]:
            request = Query(query, case.space.id, 10)
            started = time.perf_counter()
            snapshot.search(request)
            times.append(1e6 * (time.perf_counter() - started))
    return median(times)


if __name__ == "__main__":
    sys.exit(main())
