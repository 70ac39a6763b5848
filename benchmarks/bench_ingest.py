"""Bulk load, small commits, text ingest and start-up time, by the real commands in their own processes.

    python -m benchmarks.bench_ingest [--rows N] [--dimensions D] [--texts N] [--commits N] [--folder DIR]
                                      [--update-readme]

Ingests vectors from Parquet (rows a second including the index, by stage; peak anonymous memory of all processes),
commits one and a hundred documents at a time, and ingests text in turns with embedding the same chunks by the bare
model. Then serves the rows: seconds from start to the first answered vector search, the share of the imports, and the
proportional set size (PSS) that a second worker adds.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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
from benchmarks.bench_embed import texts as passages
from benchmarks.data import queries, vectors, write_parquet
from benchmarks.report import record

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


def aidre(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "aidre.api.cli.main", *map(str, arguments)]


@dataclass(frozen=True, slots=True)
class Load:
    """One run of `aidre ingest --json`.

    `peak` is the peak anonymous resident memory of all its processes together, in KiB; an event is stamped with the
    seconds since the start.
    """

    seconds: float
    peak: int
    events: list[tuple[float, dict[str, Any]]]


def ingest(arguments: Sequence[object]) -> tuple[float, int]:
    """Runs `aidre ingest`; returns its seconds and its peak anonymous resident memory in KiB."""
    load = watched(arguments)
    return load.seconds, load.peak


def watched(arguments: Sequence[object]) -> Load:
    started = time.perf_counter()
    process = subprocess.Popen(aidre("ingest", *arguments), stdout=subprocess.PIPE)
    peak = 0

    def watch() -> None:
        nonlocal peak
        while process.poll() is None:
            peak = max(peak, sum(status(pid, "RssAnon") for pid in (process.pid, *descendants(process.pid))))
            time.sleep(0.1)

    watcher = threading.Thread(target=watch)
    watcher.start()
    assert process.stdout is not None
    events = [(time.perf_counter() - started, json.loads(line)) for line in process.stdout if line.startswith(b"{")]
    process.stdout.close()
    code = process.wait()
    seconds = time.perf_counter() - started
    watcher.join()
    if code:
        raise SystemExit(f"ingest ended with {code}")
    return Load(seconds, peak, events)


def descendants(pid: int) -> Iterator[int]:
    """The child processes of a process, and theirs."""
    try:
        lists = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return
    for child in (int(each) for one in lists for each in one.split()):
        yield child
        yield from descendants(child)


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


def status(pid: int, name: str) -> int:
    """A value of /proc/PID/status in KiB; 0 if the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(name + ":")), 0)


@contextmanager
def server(arguments: Sequence[object], workers: int, log: Path | None = None) -> Iterator[tuple[int, int]]:
    """Runs `aidre serve`, with its log in a file; yields its process id and port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = aidre("serve", *arguments, "--port", port, "--workers", workers)
    with (log or Path(os.devnull)).open("ab") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said)
    try:
        yield process.pid, port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def imports() -> float:
    """Seconds of a process that only imports the modules of a server."""
    started = time.perf_counter()
    loads = "import aidre.api.cli.main, aidre.api.cli.serve, aidre.api.app, uvicorn"
    subprocess.run([sys.executable, "-c", loads], check=True)
    return time.perf_counter() - started


def first_answer(arguments: Sequence[object], body: bytes) -> float:
    """Seconds from the start of a server to its first answer."""
    started = time.perf_counter()
    with server(arguments, 1) as (_, port):
        until_answered(port, body)
        return time.perf_counter() - started


def until_answered(port: int, body: bytes) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            connection.request("POST", "/search", body, {"Content-Type": "application/aidre+json"})
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.005)
        finally:
            connection.close()
    raise SystemExit("the server did not answer within a minute")


def memory(arguments: Sequence[object], body: bytes, workers: int) -> int:
    """Proportional set size in KiB of all worker processes, after 50 searches per worker."""
    with server(arguments, workers) as (pid, port):
        for _ in range(50 * workers):
            until_answered(port, body)
        serving = children(pid) if workers > 1 else [pid]
        return sum(pss(process) for process in serving)


def children(pid: int) -> list[int]:
    """The worker processes of a server: its children that map files of the store."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                mapped = ".vectors.arrow" in (entry / "maps").read_text()
            except (OSError, IndexError):
                continue
            if parent == pid and mapped:
                found.append(int(entry.name))
    return found


def pss(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
