"""Bulk load and start-up as an operator meets them: the real commands in processes of their own.

    python -m benchmarks.bench_ingest [--rows N] [--dimensions D] [--folder DIR] [--update-readme]

Ingests vectors from Parquet (rows a second including the index; peak memory beyond the page cache), then
serves them: seconds from start to the first answered vector search, and the proportional set size that a
second worker adds to the first one's.
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
from pathlib import Path

from benchmarks.data import queries, write_parquet
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
    parser.add_argument("--folder", type=Path, help="where the temporary folder goes")
    parser.add_argument("--update-readme", action="store_true", help="write the figures into README.md")
    options = parser.parse_args(argv)
    # A folder of its own in any case: a store that is there already would make all rows unchanged.
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        figures = measure(Path(folder), options.rows, options.dimensions)
    print(json.dumps(figures))
    record("bench_ingest", figures, readme=options.update_readme)
    return 0


def measure(folder: Path, rows: int, dimensions: int) -> dict[str, float]:
    data, config, store = folder / "rows.parquet", folder / "aidre.toml", folder / "store"
    config.write_text(CONFIGURATION.format(dimensions=dimensions))
    write_parquet(data, rows, dimensions, SPACE)
    seconds, peak = ingest([data, "--store", store, "--collection", "bench", "--config", config, "--json"])
    arguments = ["--store", store, "--config", config]
    body = json.dumps({"query_vector": queries(1, dimensions)[0].tolist(), "embedding_space": SPACE}).encode()
    starts = [first_answer(arguments, body) for _ in range(3)]
    alone, together = memory(arguments, body, 1), memory(arguments, body, 2)
    return {
        "rows": rows,
        "dimensions": dimensions,
        "seconds": round(seconds, 1),
        "rows_per_second": round(rows / seconds),
        "peak_anonymous_mib": round(peak / 1024),
        "first_answer_seconds": round(sorted(starts)[1], 2),
        "one_worker_pss_mib": round(alone / 1024),
        "two_workers_pss_mib": round(together / 1024),
        "second_worker_share": round((together - alone) / alone, 3),
    }


def aidre(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "aidre.api.cli", *map(str, arguments)]


def ingest(arguments: Sequence[object]) -> tuple[float, int]:
    """Seconds, and the largest anonymous resident memory in KiB, of one `aidre ingest`."""
    started = time.perf_counter()
    process = subprocess.Popen(aidre("ingest", *arguments), stdout=subprocess.DEVNULL)
    peak = 0

    def watch() -> None:
        nonlocal peak
        while process.poll() is None:
            peak = max(peak, status(process.pid, "RssAnon"))
            time.sleep(0.1)

    watcher = threading.Thread(target=watch)
    watcher.start()
    code = process.wait()
    seconds = time.perf_counter() - started
    watcher.join()
    if code:
        raise SystemExit(f"ingest ended with {code}")
    return seconds, peak


def status(pid: int, name: str) -> int:
    """A figure of /proc/PID/status in KiB, 0 once the process is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(name + ":")), 0)


@contextmanager
def server(arguments: Sequence[object], workers: int) -> Iterator[tuple[int, int]]:
    """A running server: its process id and port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = aidre("serve", *arguments, "--port", port, "--workers", workers)
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        yield process.pid, port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def first_answer(arguments: Sequence[object], body: bytes) -> float:
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
    """Proportional set size in KiB of all worker processes after some searches."""
    with server(arguments, workers) as (pid, port):
        for _ in range(50 * workers):
            until_answered(port, body)
        serving = children(pid) if workers > 1 else [pid]
        return sum(pss(process) for process in serving)


def children(pid: int) -> list[int]:
    """The worker processes of a server: its children that have files of the store mapped."""
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
