"""Search in process: quantized scan against exact search, a thousand commits against one segment, batches.

    python -m benchmarks search [--rows N] [--commits N] [--batch N] [--python PATH] [--update-readme]

Rows are real embeddings, and mixes of them beyond the real ones; queries are unseen passages and questions
(`harness.real`). Recall@10 is against exact search. Times are of single queries on one thread, all sides in turns in
one run; only their ratios are meaningful. Batches hold the same queries as the single searches beside them, by
processor time. `--python` runs this under another interpreter (`harness.interpreters`).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.index.vectors.encoding import encode_query
from aidre.engine.model import Chunk, Document, EmbeddingSpace, Query, Record
from aidre.engine.search.dense import search_dense
from benchmarks.harness import interpreters
from benchmarks.harness.machine import loop_nanoseconds
from benchmarks.harness.metrics import ratio
from benchmarks.harness.real import KINDS, ROWS, Real, blocks, real, synthetic
from benchmarks.harness.truth import truth
from benchmarks.report.results import record

SPACE = "v"
COLLECTION = "bench"
K = 10
EXACT = 20
"""Queries that are searched exactly."""

TURNS = 3


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments(argv)
    if options.python:
        return interpreters.rerun(
            options.python, "benchmarks.search.bench_search", sys.argv[1:] if argv is None else argv
        )
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder)
        found = synthetic(made / "made", options.rows) if options.synthetic else real(min(options.rows, ROWS))
        figures = measure(made, found, options)
    print(json.dumps(figures, indent=1))
    record("bench_search", figures, variant=options.variant, readme=options.update_readme)
    return 0


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench_search", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--commits", type=int, default=1_000)
    parser.add_argument("--queries", type=int, default=192, help="queries of each kind")
    parser.add_argument("--batch", type=int, default=64, help="queries of a batch")
    parser.add_argument("--synthetic", action="store_true", help="synthetic vectors instead of real embeddings")
    parser.add_argument("--update-readme", action="store_true", help="write the figures into README.md")
    interpreters.add_options(parser)
    return parser.parse_args(argv)


def measure(folder: Path, found: Real, options: argparse.Namespace) -> dict[str, Any]:
    data = np.concatenate(list(blocks(options.rows, found.rows)))
    build(folder / "one", data, 1)
    written = build(folder / "many", data, options.commits)
    one, many = Store(folder / "one").open(COLLECTION), Store(folder / "many").open(COLLECTION)
    compacted = sum(file.size for entry in one.manifest.segments for file in entry.files.values())
    calibration = one.space(SPACE).calibration
    promised = calibration.depths[0].mean if calibration and calibration.depths else 1.0
    figures: dict[str, Any] = {
        "rows": len(data),
        "loop_ns": round(loop_nanoseconds(), 1),
        "dimensions": data.shape[1],
        "recall_at_10_calibrated": round(promised, 4),
        "commits": options.commits,
        "segments_after_commits": len(many.segments),
        "written_over_data": round(written / compacted, 2),
        "searches": {},
        f"batches_of_{options.batch}": {},
    }
    for kind in KINDS:
        asked = np.ascontiguousarray(found.queries(kind)[: options.queries])
        figures["searches"][kind] = searched(one, many, data, asked)
        figures[f"batches_of_{options.batch}"][kind] = batched(one, asked, options.batch)
    return figures


def searched(one: Snapshot, many: Snapshot, data: NDArray[np.float32], asked: NDArray[np.float32]) -> dict[str, float]:
    times = compare(one, many, asked)
    return {
        "recall_at_10": round(recall(one, data, asked), 4),
        "recall_of_many_segments": round(recall(many, data, asked), 4),
        "exact_over_scan": round(median(times["exact"]) / median(times["one"]), 1),
        "p50_us": round(median(times["one"]) * 1e6),
        "p99_us": round(float(np.percentile(times["one"], 99)) * 1e6),
        "many_over_one": round(median(times["many"]) / median(times["one"]), 2),
    }


def batched(snapshot: Snapshot, asked: NDArray[np.float32], size: int) -> dict[str, str | float]:
    """Processor time per query, one by one and in batches of `size`, in turns."""
    queries = [Query(query, SPACE, K) for query in asked]
    groups = [queries[first : first + size] for first in range(0, len(queries) - size + 1, size)] or [queries]
    single: list[float] = []
    together: list[float] = []
    for turn in range(TURNS + 1):
        for group in groups:
            started = time.process_time()
            for query in group:
                snapshot.search(query)
            middle = time.process_time()
            snapshot.search_all(group)
            if turn:  # the first turn is warm-up
                single.append(1e6 * (middle - started) / len(group))
                together.append(1e6 * (time.process_time() - middle) / len(group))
    return {
        "single_us": round(median(single), 1),
        "batched_us": round(median(together), 1),
        "throughput": str(ratio(single, together)),
    }


def build(path: Path, data: NDArray[np.float32], commits: int) -> int:
    """Writes `data` to a store in `commits` commits, without compaction; returns the bytes written."""
    space = EmbeddingSpace(SPACE, data.shape[1], "cosine", normalized=True)
    before = written_bytes()
    with Store(path).writer(COLLECTION, spaces=[space]) as writer:
        for numbers in np.array_split(np.arange(len(data)), commits):
            writer.upsert(list(records(numbers)), {SPACE: writer.encode(SPACE, data[numbers])}, {})
            writer.commit()
            writer.finish()
    return written_bytes() - before


def records(numbers: NDArray[np.int64]) -> Iterator[Record]:
    for number in numbers.tolist():
        text = f"A short passage about thing {number}, with a few words behind it."
        document = Document(id=f"row-{number:08d}", text=text, title=f"Row {number}")
        chunk = Chunk(f"{document.id}#chunk_1", 1, text, 0, len(text))
        yield Record(document, (chunk,), number.to_bytes(16, "little"))


def written_bytes() -> int:
    """Bytes that this process has passed to write calls so far."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("wchar:")).split()[1])


def recall(snapshot: Snapshot, data: NDArray[np.float32], asked: NDArray[np.float32]) -> float:
    judged = truth(data, asked, K)
    found = 0
    for number, query in enumerate(asked):
        hits = snapshot.search(Query(query, SPACE, K))
        found += judged.found(number, [int(hit.chunk.document_id[4:]) for hit in hits])
    return found / (judged.count * len(asked))


def compare(one: Snapshot, many: Snapshot, asked: NDArray[np.float32]) -> dict[str, list[float]]:
    """Seconds of single searches, in turns: one segment, many segments, and one segment searched exactly."""
    state = one.space(SPACE)
    times: dict[str, list[float]] = {"one": [], "many": [], "exact": []}
    for turn in range(TURNS):
        for query in asked:
            request = Query(query, SPACE, K)
            for name, snapshot in (("one", one), ("many", many)):
                started = time.perf_counter()
                snapshot.search(request)
                times[name].append(time.perf_counter() - started)
        for query in asked[:EXACT]:
            started = time.perf_counter()
            search_dense(one.segments, SPACE, encode_query(state.space, query), k=K)
            times["exact"].append(time.perf_counter() - started)
        if turn == 0:
            times = {name: [] for name in times}  # the first turn is warm-up
    return times


if __name__ == "__main__":
    sys.exit(main())
