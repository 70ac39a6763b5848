"""Search in process: quantized scan against exact search, and a thousand commits against one segment.

    python -m benchmarks.bench_search [--rows N] [--dimensions D] [--commits N] [--update-readme]

Recall@10 is measured against float64 on held-out queries. Times are medians of single queries on one thread, both
sides in turns in one run; only their ratios are meaningful.
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

import numpy as np
from numpy.typing import NDArray

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.index.vectors.encoding import encode_query
from aidre.engine.model import Chunk, Document, EmbeddingSpace, Query, Record
from aidre.engine.search.dense import search_dense
from benchmarks.data import queries, vectors
from benchmarks.report import record

SPACE = "v"
COLLECTION = "bench"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench_search", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--commits", type=int, default=1_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--update-readme", action="store_true", help="write the figures into README.md")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder), options.rows, options.dimensions, options.commits, options.queries)
    print(json.dumps(figures))
    record("bench_search", figures, readme=options.update_readme)
    return 0


def measure(folder: Path, rows: int, dimensions: int, commits: int, count: int) -> dict[str, float]:
    data, asked = vectors(rows, dimensions), queries(count, dimensions)
    build(folder / "one", data, 1)
    written = build(folder / "many", data, commits)
    one, many = Store(folder / "one").open(COLLECTION), Store(folder / "many").open(COLLECTION)
    compacted = sum(file.size for entry in one.manifest.segments for file in entry.files.values())
    calibration = one.space(SPACE).calibration
    promised = calibration.depths[0].mean if calibration and calibration.depths else 1.0
    times = compare(one, many, asked)
    return {
        "rows": rows,
        "dimensions": dimensions,
        "recall_at_10": round(recall(one, data, asked), 4),
        "recall_at_10_calibrated": round(promised, 4),
        "recall_at_10_many_segments": round(recall(many, data, asked), 4),
        "exact_over_scan": round(median(times["exact"]) / median(times["one"]), 1),
        "p50_us": round(median(times["one"]) * 1e6),
        "p99_us": round(float(np.percentile(times["one"], 99)) * 1e6),
        "commits": commits,
        "segments_after_commits": len(many.segments),
        "many_over_one": round(median(times["many"]) / median(times["one"]), 2),
        "written_over_data": round(written / compacted, 2),
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
    """Recall@10 against float64, ties tolerated."""
    rows = data.astype(np.float64)
    found = 0
    for query in asked.astype(np.float64):
        scores = rows @ query
        tenth = np.partition(scores, -10)[-10] - 1e-9
        hits = snapshot.search(Query(query, SPACE, 10))
        found += sum(scores[int(hit.chunk.document_id[4:])] >= tenth for hit in hits)
    return found / (10 * len(asked))


def compare(one: Snapshot, many: Snapshot, asked: NDArray[np.float32]) -> dict[str, list[float]]:
    """Seconds of single searches, in turns: one segment, many segments, and one segment searched exactly."""
    state = one.space(SPACE)
    times: dict[str, list[float]] = {"one": [], "many": [], "exact": []}
    for turn in range(3):
        for query in asked:
            request = Query(query, SPACE, 10)
            for name, snapshot in (("one", one), ("many", many)):
                started = time.perf_counter()
                snapshot.search(request)
                times[name].append(time.perf_counter() - started)
        for query in asked[:20]:
            started = time.perf_counter()
            search_dense(one.segments, SPACE, encode_query(state.space, query), k=10)
            times["exact"].append(time.perf_counter() - started)
        if turn == 0:
            times = {name: [] for name in times}  # the first turn is warm-up
    return times


if __name__ == "__main__":
    sys.exit(main())
