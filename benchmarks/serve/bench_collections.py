"""What a server takes by the number of its collections: memory, open files, start, first questions, polls.

    python -m benchmarks collections [--collections N ...] [--rows N] [--dimensions D] [--folder DIR]

The same rows in all are divided into equal collections: one is written and compacted, the others are copies of its
files, each with files of its own. Vectors and texts are those of `bench_memory`. A server of one worker
starts with the files in the page cache; its limit of open files is 1,024 before, as shells give it. Anonymous memory
is private to each worker; the mapped files are shared, and are the size of the store at most. A question by words goes
to each collection, or to 200 of them. `idle` is the processor time that a second takes in which nobody asks: the looks
for new generations. The requests of a replica are those of its first pull and of a poll, over collections of one
document, in a folder behind the link of `bench_replicas`.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import resource
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, Final

import aidre
from aidre.engine.collection import Store
from aidre.engine.maintenance import Replica
from aidre.engine.storage import MANIFESTS, encode_manifest, manifest_name, read_manifest
from benchmarks.harness.commands import server, status
from benchmarks.harness.data import blocks, rows_of
from benchmarks.harness.load import processor_seconds
from benchmarks.report.results import record
from benchmarks.serve.bench_replicas import Far, Link, fill, first_publication, first_pull, idle, megabytes

COLLECTIONS: Final = (1, 20, 200, 1_000)
MOST_ASKED: Final = 200
SOFT_FILES: Final = 1_024
START_SECONDS: Final = 600
IDLE_SECONDS: Final = 20.0
QUESTION: Final = "w1 w7 w40"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench_collections", description=__doc__)
    parser.add_argument("--collections", type=int, nargs="+", default=COLLECTIONS)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of all collections together")
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--idle-seconds", type=float, default=IDLE_SECONDS)
    parser.add_argument("--folder", type=Path, help="parent of the temporary stores")
    options = parser.parse_args(argv)
    served: dict[str, Any] = {}
    replicas: dict[str, Any] = {}
    for count in options.collections:
        name = f"{count:,} collection{'s' * (count > 1)}"
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            names = write(Path(folder) / "store", count, options.rows // count, options.dimensions)
            served[name] = measure(Path(folder) / "store", names, options.idle_seconds)
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            replicas[name] = replica(Path(folder), count)
        print(json.dumps({name: {**served[name], **replicas[name]}}), flush=True)
        facts = {"rows of all collections": options.rows, "dimensions": options.dimensions}
        record("bench_collections", {**facts, "a server of one worker": served, "a replica": replicas})
    return 0


# -- the stores ----------------------------------------------------------------------------------------------------


def write(store: Path, count: int, rows: int, dimensions: int) -> list[str]:
    """A store of collections with the same rows; their names."""
    names = [f"tenant{number:04d}" for number in range(count)]
    space = aidre.EmbeddingSpace("given", dimensions, "cosine")
    with aidre.open(store) as db, db.collection(names[0], space=space).writer() as rows_writer:
        first = 0
        for vectors in blocks(rows, dimensions):
            rows_writer.add_all(rows_of(first, len(vectors)), vectors=vectors)
            first += len(vectors)
    with Store(store).writer(names[0], spaces=None) as writer:
        writer.compact()
        writer.purge()  # what compaction has replaced
    multiply(store, names)
    return names


def multiply(store: Path, names: Sequence[str]) -> None:
    """Copies the first collection, each with files and a lineage of its own."""
    first, *others = names
    [newest] = (store / first / MANIFESTS).glob(manifest_name(int((store / first / "CURRENT").read_text())))
    manifest = read_manifest(store / first / MANIFESTS, int(newest.stem), first)
    for name in others:
        shutil.copytree(store / first, store / name)
        path = store / name / MANIFESTS / newest.name
        path.unlink()
        path.write_bytes(encode_manifest(replace(manifest, name=name, lineage=secrets.token_hex(16))))


# -- a server ------------------------------------------------------------------------------------------------------


def measure(store: Path, names: Sequence[str], idle_seconds: float) -> dict[str, Any]:
    with few_files():
        started = time.perf_counter()
        with server(["--store", store], 1) as (pid, port):
            until_ready(port)
            ready, spent = time.perf_counter() - started, processor_seconds(pid)
            opened = facts_of(pid)
            step = max(1, len(names) // MOST_ASKED)
            first = [seconds_of(port, name) for name in names[::step]]
            asked = facts_of(pid)
            time.sleep(2)
            before, began = processor_seconds(pid), time.perf_counter()
            time.sleep(idle_seconds)
            busy = (processor_seconds(pid) - before) / (time.perf_counter() - began)
    return {
        "MB on disk": round(megabytes(store)),
        "ready, s": round(ready, 1),
        "ready, processor s": round(spent, 1),
        "anonymous MB, ready": opened["anonymous"],
        "anonymous MB, asked": asked["anonymous"],
        "open files": asked["files"],
        "memory maps": asked["maps"],
        "first question, ms (median)": round(1e3 * median(first), 1),
        "first question, ms (longest)": round(1e3 * max(first), 1),
        "idle, ms of a core a second": round(1e3 * busy, 1),
    }


@contextmanager
def few_files() -> Iterator[None]:
    """Processes that are started have the soft limit of a shell."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(SOFT_FILES, soft), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def until_ready(port: int) -> None:
    """Waits until every collection is open."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            answer = ask(port, "GET", "/readyz")
        except OSError:
            time.sleep(0.02)
            continue
        if answer.get("status") == "ready":
            return
        time.sleep(0.1)
    raise SystemExit(f"the server is not ready after {START_SECONDS} seconds")


def seconds_of(port: int, collection: str) -> float:
    """The time of a question to one collection, over a connection of its own."""
    started = time.perf_counter()
    body = {"query": QUESTION, "collection": collection, "mode": "lexical"}
    if not ask(port, "POST", "/search", body).get("results"):
        raise SystemExit(f"{collection} has no answer")
    return time.perf_counter() - started


def ask(port: int, method: str, path: str, body: Any = None) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_SECONDS)
    try:
        content = None if body is None else json.dumps(body)
        connection.request(method, path, content, {"Content-Type": "application/aidre+json"})
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def facts_of(pid: int) -> dict[str, int]:
    return {
        "anonymous": round(status(pid, "RssAnon") * 1_024 / 1e6),
        "files": len(os.listdir(f"/proc/{pid}/fd")),  # noqa: PTH208
        "maps": len(Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines()),
    }


# -- a replica -----------------------------------------------------------------------------------------------------


def replica(folder: Path, count: int) -> dict[str, Any]:
    """What a replica asks the bucket for, over collections of one document."""
    link = Link()
    _, published = first_publication(folder / "store", folder, link, fill(folder / "store", count))
    pulling = Replica(Far((folder / "bucket").as_uri(), link), folder / "cache")
    return {**published, **first_pull(pulling, link), **idle(pulling, link)}


if __name__ == "__main__":
    sys.exit(main())
