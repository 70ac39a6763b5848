"""Bulk load, small commits, text ingest and start-up time, by the real commands in their own processes.

    python -m benchmarks ingest [--rows N] [--dimensions D] [--texts N] [--commits N] [--folder DIR]
                                [--update-readme]

Ingests vectors from Parquet (rows a second including the index, by stage; peak anonymous memory of all processes),
commits one and a hundred documents at a time, and ingests text in turns with embedding the same chunks by the bare
model. Then serves the rows: seconds from start to the first answered vector search, the share of the imports, and the
proportional set size (PSS) that a second worker adds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from aidre.engine.collection.store import Store
from aidre.engine.embedding.embedder import DEFAULT_SPACE, Embedder, load_embedder
from aidre.engine.model import Chunk, Document, EmbeddingSpace, Record
from aidre.ingest.pipeline.ingest import ingest as ingested
from aidre.ingest.pipeline.run import IngestOptions
from benchmarks.harness.commands import first_answer, memory, watched
from benchmarks.harness.data import queries, vectors, write_parquet
from benchmarks.harness.equal_passages import texts as passages
from benchmarks.report.results import record

SPACE = "v"
CONFIGURATION = """
[[spaces]]
id = "v"
dimensions = {dimensions}
distance = "cosine"
normalized = true

[collections.bench]
spaces = ["v"]
"""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench_ingest", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--texts", type=int, default=1000, help="passages to embed; 0 skips text ingest")
    parser.add_argument("--commits", type=int, default=50, help="number of small commits of each size")
    parser.add_argument("--folder", type=Path, help="parent of the temporary folder")
    parser.add_argument("--update-readme", action="store_true", help="write the figures into README.md")
    options = parser.parse_args(argv)
    # Always a fresh folder: against an existing store all rows would be unchanged and skipped.
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        figures = measure(Path(folder), options.rows, options.dimensions)
        figures |= commit_seconds(Path(folder) / "commits", options.dimensions, options.commits)
        if options.texts:
            figures |= text_share(Path(folder) / "text", options.texts)
    print(json.dumps(figures))
    record("bench_ingest", figures, readme=options.update_readme)
    return 0


def measure(folder: Path, rows: int, dimensions: int) -> dict[str, Any]:
    data, config, store = folder / "rows.parquet", folder / "aidre.toml", folder / "store"
    config.write_text(CONFIGURATION.format(dimensions=dimensions))
    write_parquet(data, rows, dimensions, SPACE)
    load = watched([data, "--store", store, "--collection", "bench", "--config", config, "--json"])
    seconds, commits = (
        load.seconds,
        [(at, event["documents"]) for at, event in load.events if event["event"] == "commit"],
    )
    (first, before), (last, after) = commits[0], commits[-1]
    arguments = ["--store", store, "--config", config]
    body = json.dumps({"query_vector": queries(1, dimensions)[0].tolist(), "embedding_space": SPACE}).encode()
    starts = [first_answer(arguments, body) for _ in range(3)]
    alone, together = memory(arguments, body, 1), memory(arguments, body, 2)
    return {
        "rows": rows,
        "dimensions": dimensions,
        "seconds": round(seconds, 1),
        "rows_per_second": round(rows / seconds),
        "until_first_commit_seconds": round(first, 2),
        "rows_per_second_between_commits": round((after - before) / (last - first)) if last > first else None,
        "after_last_commit_seconds": round(seconds - last, 2),
        "peak_anonymous_mib": round(load.peak / 1024),
        "first_answer_seconds": round(sorted(starts)[1], 2),
        "imports_seconds": round(sorted(imports() for _ in range(3))[1], 2),
        "one_worker_pss_mib": round(alone / 1024),
        "two_workers_pss_mib": round(together / 1024),
        "second_worker_share": round((together - alone) / alone, 3),
    }


def commit_seconds(folder: Path, dimensions: int, commits: int) -> dict[str, Any]:
    """Milliseconds of small commits to a growing collection, without merges."""
    space = EmbeddingSpace(SPACE, dimensions, "cosine", normalized=True)
    figures: dict[str, Any] = {}
    for size in (1, 100):
        rows = vectors(commits * size, dimensions)
        taken = []
        with Store(folder / str(size)).writer("bench", spaces=[space]) as writer:
            for number in range(commits):
                batch = range(number * size, (number + 1) * size)
                records = [_record(row) for row in batch]
                writer.upsert(records, {SPACE: writer.encode(SPACE, rows[batch.start : batch.stop])}, {})
                started = time.perf_counter()
                writer.commit()
                taken.append(1000 * (time.perf_counter() - started))
        figures[f"commit_{size}_ms_p50"] = round(float(np.percentile(taken, 50)), 1)
        figures[f"commit_{size}_ms_p99"] = round(float(np.percentile(taken, 99)), 1)
    return figures


def _record(number: int) -> Record:
    text = f"A short passage about thing {number}, with a few words behind it."
    document = Document(f"row-{number:08d}", text, f"Row {number}", metadata={"year": 1990 + number % 36})
    return Record(document, (Chunk(f"{document.id}#chunk_1", 1, text, 0, len(text)),), number.to_bytes(16, "little"))


def text_share(folder: Path, count: int, rounds: int = 3) -> dict[str, Any]:
    """Throughput of text ingest as a share of the bare model's over the same chunks, in turns in one process."""
    embedder = RecordingEmbedder(load_embedder(DEFAULT_SPACE))
    folder.mkdir()
    data = folder / "texts.jsonl"
    rows = ({"id": str(number), "text": text} for number, text in enumerate(islice(passages(None), count)))
    data.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    taken: list[tuple[float, float]] = []
    for number in range(rounds):
        embedder.texts = []
        started = time.perf_counter()
        ingested(
            Store(folder / f"store-{number}"),
            "bench",
            [data],
            spaces=[embedder.space],
            embedders={embedder.space.id: embedder},
            options=IngestOptions(),
            report=lambda _: None,
        )
        between = time.perf_counter()
        embedder.bare.embed_documents(list(embedder.texts))
        taken.append((between - started, time.perf_counter() - between))
    shares = sorted(bare / whole for whole, bare in taken)
    return {
        "text_chunks": len(embedder.texts),
        "text_chunks_per_second": round(len(embedder.texts) / sorted(whole for whole, _ in taken)[rounds // 2], 1),
        "text_share_of_bare_embedding": round(shares[rounds // 2], 3),
        "text_share_lowest": round(shares[0], 3),
        "text_share_highest": round(shares[-1], 3),
    }


class RecordingEmbedder:
    """An Embedder that records the texts it embeds."""

    def __init__(self, bare: Embedder) -> None:
        self.bare, self.space, self.runtime, self.max_tokens = bare, bare.space, bare.runtime, bare.max_tokens
        self.count_tokens, self.embed_queries = bare.count_tokens, bare.embed_queries
        self.texts: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.texts += texts
        return self.bare.embed_documents(texts)


def imports() -> float:
    """Seconds of a process that only imports the modules of a server."""
    started = time.perf_counter()
    loads = "import aidre.api.cli.main, aidre.api.cli.serve, aidre.api.app, uvicorn"
    subprocess.run([sys.executable, "-c", loads], check=True)
    return time.perf_counter() - started


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
