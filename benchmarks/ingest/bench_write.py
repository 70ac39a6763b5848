"""Writing over HTTP: single documents beside a bare commit, throughput, and searches meanwhile.

    python -m benchmarks write [--rounds N] [--seconds S] [--update-readme]

Every document brings a vector of 384 dimensions. `bare_commit_ms` is the median of `Writer.upsert` and `commit` of one
document in process, on a store as large as the server's; `single_ms` that of a request with one document on one
connection; `single_over_bare` their ratio. `documents_per_second` is what 32 connections reach that send 32 rows each,
without a pause. `search_p99_ms` is that of vector searches on one connection, alone; `paced_p99_ms` while 32 clients
send 32 rows a second each (1,024 documents a second), `full_p99_ms` while they send without a pause. The phases take
turns; a ratio is taken within a turn and given as the median over the turns. `files` are those of the collection at the
end, after `commits` commits. All clients and the server share the cores of this machine.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import multiprocessing
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import orjson

from aidre.engine.collection import Store
from aidre.engine.model import Chunk, Document, EmbeddingSpace, Record
from benchmarks.harness.commands import server, until_answered
from benchmarks.harness.load import Load, Samples, answer, request
from benchmarks.harness.metrics import ratio
from benchmarks.report.results import record

SPACE = EmbeddingSpace("mine", 384, "cosine")
COLLECTION = "rows"
SECRET = "a secret of the benchmark"
ROWS, CLIENTS, STORED = 32, 32, 5_000
COMMITS = 200
"""Of one document, in process."""
VARIANTS = 64
"""Different bodies; each is sent again under other ids."""
PLACE = b"@@@@@@@@@"
"""Stands for the number in the ids of a body."""
CONFIGURATION = f"""
[server]
writes = true
[[spaces]]
id = "{SPACE.id}"
dimensions = {SPACE.dimensions}
distance = "cosine"
[collections.{COLLECTION}]
spaces = ["{SPACE.id}"]
[[keys]]
name = "writer"
sha256 = "{hashlib.sha256(SECRET.encode()).hexdigest()}"
scopes = ["search", "write"]
"""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench_write", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--update-readme", action="store_true")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder), options.rounds, options.seconds)
    record("bench_write", figures, readme=options.update_readme)
    return 0


def measure(folder: Path, rounds: int, seconds: float) -> dict[str, Any]:
    (folder / "aidre.toml").write_text(CONFIGURATION, "utf-8")
    store = folder / "store"
    store.mkdir()
    turns: list[dict[str, float]] = []
    with server(["--store", store, "--config", folder / "aidre.toml"], 1) as (_, port):
        fill(port)
        for turn in range(rounds):
            turns.append(measure_turn(port, seconds, turn))
        until_written(port)
    bare = bare_commit(store)
    return {**summarize(turns, bare), **count_files(store), "rounds": rounds}


def summarize(turns: list[dict[str, float]], bare: float) -> dict[str, Any]:
    def middle(name: str) -> float:
        return median(turn[name] for turn in turns)

    def over(name: str, other: str) -> str:
        return str(ratio([turn[name] for turn in turns], [turn[other] for turn in turns]))

    single = middle("single_ms")
    return {
        "bare_commit_ms": round(bare, 2),
        "single_ms": round(single, 2),
        "single_over_bare": round(single / bare, 2),
        "documents_per_second": round(middle("documents_per_second")),
        "search_p99_ms": round(middle("search_p99_ms"), 2),
        "paced_documents_per_second": round(middle("paced_documents_per_second")),
        "paced_p99_ms": round(middle("paced_p99_ms"), 2),
        "paced_over_alone": over("paced_p99_ms", "search_p99_ms"),
        "full_p99_ms": round(middle("full_p99_ms"), 2),
        "full_over_alone": over("full_p99_ms", "search_p99_ms"),
        "errors": sum(turn["errors"] for turn in turns),
    }


def measure_turn(port: int, seconds: float, turn: int) -> dict[str, float]:
    single = write_single(port, seconds, turn)
    alone = search(port, seconds)
    with writing(port, turn, pause=1.0) as paced:
        meanwhile = search(port, seconds)
    with writing(port, turn, pause=0.0) as full:
        loaded = search(port, seconds)
    errors = sum(int(one.figures()["errors"]) for one in (single, alone, meanwhile, loaded))
    return {
        "single_ms": single.figures()["p50_ms"],
        "search_p99_ms": alone.figures()["p99_ms"],
        "paced_p99_ms": meanwhile.figures()["p99_ms"],
        "full_p99_ms": loaded.figures()["p99_ms"],
        "paced_documents_per_second": paced()["rate"],
        "documents_per_second": full()["rate"],
        "errors": errors + paced()["errors"] + full()["errors"],
    }


# -- requests ----------------------------------------------------------------------------------------------------


def body(rows: int, seed: int) -> bytes:
    """Rows whose ids hold `PLACE`."""
    vectors = np.random.default_rng(seed).standard_normal((rows, SPACE.dimensions)).round(5).tolist()
    return orjson.dumps(
        [
            {
                "id": f"{PLACE.decode()}-{number}",
                "text": f"Text {seed} and {number} about things.",
                "number": number,
                "vectors": {SPACE.id: vector},
            }
            for number, vector in enumerate(vectors)
        ]
    )


def put(rows: int, seed: int) -> bytes:
    return request("PUT", f"/collections/{COLLECTION}/documents", body(rows, seed), authorization=f"Bearer {SECRET}")


def numbered(turn: int, phase: int, client: int = 0) -> Iterator[bytes]:
    """Texts of nine digits that stand in the place of `PLACE`, each another."""
    return (b"%09d" % number for number in itertools.count(turn * 100_000_000 + phase * 25_000_000 + client * 500_000))


def fill(port: int) -> None:
    until_listening(port)
    for number in range(10):
        status, said = answer(port, put(STORED // 10, 10_000 + number).replace(PLACE, b"9%08d" % number))
        if status != 200:
            raise SystemExit(f"the server answered {status}: {said!r}")
    until_answered(port, search_body(0))


def until_listening(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)


def until_written(port: int) -> None:
    """One more document: what came before it is written and merged."""
    answer(port, put(1, 1).replace(PLACE, b"999999999"))


# -- phases ------------------------------------------------------------------------------------------------------


def write_single(port: int, seconds: float, turn: int) -> Samples:
    prepared = [put(1, seed) for seed in range(VARIANTS)]
    numbers = numbered(turn, 0)

    def make(content: bytes) -> Callable[[], bytes]:
        return lambda: content.replace(PLACE, next(numbers))

    with Load(port, 1) as load:
        return load.closed([make(content) for content in prepared], seconds)


def search_body(seed: int) -> bytes:
    vector = np.random.default_rng(seed).standard_normal(SPACE.dimensions).round(5).tolist()
    return orjson.dumps({"query_vector": vector, "embedding_space": SPACE.id, "top_k": 10})


def search(port: int, seconds: float) -> Samples:
    requests = [request("POST", "/search", search_body(seed)) for seed in range(VARIANTS)]
    with Load(port, 1) as load:
        load.closed(requests, 0.3)
        return load.closed(requests, seconds)


@contextmanager
def writing(port: int, turn: int, pause: float) -> Iterator[Callable[[], dict[str, float]]]:
    """Clients that write meanwhile, in a process of their own; yields a function for their figures."""
    context = multiprocessing.get_context("spawn")
    results, ready, stop = context.SimpleQueue(), context.Event(), context.Event()
    phase = 1 if pause else 2
    arguments = (port, (turn, phase), pause, (ready, stop), results)
    process = context.Process(target=write_until, args=arguments, kwargs={"variants": VARIANTS})
    process.start()
    found: dict[str, float] = {}
    ready.wait(60)
    try:
        yield lambda: found
    finally:
        stop.set()
        found.update(results.get())
        process.join()


def write_until(
    port: int, place: tuple[int, int], pause: float, events: tuple[Event, Event], results: Any, *, variants: int
) -> None:
    """One thread for each client. `pause`: seconds from one request to the next; 0: as soon as it is answered."""
    prepared = [put(ROWS, 1_000 + seed) for seed in range(variants)]
    ready, stop = events
    counts, errors = [0] * CLIENTS, [0] * CLIENTS
    ready.set()
    started = time.perf_counter()

    def client(number: int) -> None:
        numbers = numbered(*place, number)
        due = time.perf_counter() + pause * number / CLIENTS
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            while not stop.is_set():
                if pause:
                    time.sleep(max(0.0, due - time.perf_counter()))
                    due += pause
                connection.sendall(prepared[counts[number] % variants].replace(PLACE, next(numbers)))
                if connection.recv(1 << 16).startswith(b"HTTP/1.1 200"):
                    counts[number] += 1
                else:
                    errors[number] += 1

    threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.put({"rate": ROWS * sum(counts) / (time.perf_counter() - started), "errors": float(sum(errors))})


# -- in process --------------------------------------------------------------------------------------------------


def bare_commit(path: Path) -> float:
    """Milliseconds of a commit of one document, the median."""
    vectors = np.random.default_rng(0).standard_normal((COMMITS, SPACE.dimensions)).astype(np.float32)
    seconds = []
    with Store(path).writer(COLLECTION, spaces=[SPACE]) as writer:
        for number in range(COMMITS):
            text = f"Text {number} about things."
            document = Document(f"bare-{number}", text, updated_at="2026-04-01T10:00:00Z")
            chunk = Chunk(f"bare-{number}#chunk_1", 1, text, 0, len(text))
            one = Record(document, (chunk,), hashlib.blake2b(text.encode(), digest_size=16).digest())
            encoded = {SPACE.id: writer.encode(SPACE.id, vectors[number : number + 1])}
            began = time.perf_counter()
            writer.upsert([one], encoded, {})
            writer.commit()
            seconds.append(time.perf_counter() - began)
    return 1e3 * median(seconds)


def count_files(path: Path) -> dict[str, int]:
    store = Store(path)
    generation = store.open(COLLECTION).generation
    return {"commits": generation, "files": sum(one.is_file() for one in (path / COLLECTION).rglob("*"))}


if __name__ == "__main__":
    raise SystemExit(main())
