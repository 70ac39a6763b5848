"""The serving path: overhead of the server over a search, throughput and latency by connections, and peers.

    python -m benchmarks.bench_http [--rows N] [--rounds N] [--seconds S] [--peers] [--figures] [--folder DIR]

The data are real embeddings (`benchmarks.real`). The server is pinned to one core and the load generator
(`benchmarks.load`) to another, except in the runs with several workers. The series take turns: the same searches in
process on the server's core, echo servers under the same uvicorn, the server without its search (`benchmarks.stored`),
vector and text searches, every protocol; then an open loop at half of the highest rate reached, where latency counts
from the moment a request was due. All latencies are kept in results/raw/bench_http.npz; `--figures` recomputes the
figures from that file. A ratio is taken within a turn and given as the median (minimum to maximum) over the turns.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.embedding.embedder import DEFAULT_SPACE, load_embedder
from aidre.engine.model import Chunk, Document, Query, Record
from aidre.engine.storage.format import NO_KEY
from benchmarks import questions
from benchmarks.bench_ingest import first_answer, memory, server, until_answered
from benchmarks.load import Load, Request, Samples, answer, free_port, pinned, processor_seconds
from benchmarks.metrics import ratio
from benchmarks.peers.client import PeerMissing
from benchmarks.peers.servers import PeerServer, serve
from benchmarks.real import Real, real
from benchmarks.report import RESULTS, record

COLLECTION: Final = "bench"
CONNECTIONS: Final = (1, 8, 64, 256)
BATCH: Final = 20_000
WARM_SECONDS: Final = 0.3
RAW: Final = RESULTS / "raw" / "bench_http.npz"
WITHOUT: Final = "vector without its search"
CORES: Final = sorted(os.sched_getaffinity(0))
SERVER_CORE, LOAD_CORE = CORES[0], CORES[-1]

Key = tuple[str, int, int]
"""Series, number of connections (0: in process), turn."""


class Runs:
    """All samples of a benchmark run by series, connections and turn, and scalar facts by name."""

    def __init__(self) -> None:
        self.samples: dict[Key, Samples] = {}
        self.facts: dict[str, list[float]] = {}

    def add(self, series: str, connections: int, samples: Samples) -> None:
        turn = sum(key[:2] == (series, connections) for key in self.samples)
        self.samples[series, connections, turn] = samples

    def note(self, name: str, value: float) -> None:
        self.facts.setdefault(name, []).append(value)

    def turns(self, series: str, connections: int) -> list[dict[str, float]]:
        found = {key[2]: one.figures() for key, one in self.samples.items() if key[:2] == (series, connections)}
        return [found[turn] for turn in sorted(found)]

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        arrays: dict[str, NDArray[Any]] = {"facts": np.array(json.dumps(self.facts))}
        for (series, connections, turn), samples in self.samples.items():
            name = f"{series}|{connections}|{turn}"
            arrays[f"{name}|latencies"] = samples.latencies.astype(np.float32)
            arrays[f"{name}|statuses"] = samples.statuses
            arrays[f"{name}|seconds"] = np.array(samples.seconds)
        np.savez_compressed(path, allow_pickle=False, **arrays)

    @classmethod
    def load(cls, path: Path) -> Runs:
        runs = cls()
        with np.load(path) as arrays:
            runs.facts = json.loads(str(arrays["facts"]))
            for name in (one for one in arrays.files if one.endswith("|latencies")):
                series, connections, turn, _ = name.split("|")
                stem = name.removesuffix("latencies")
                samples = Samples(arrays[name], arrays[f"{stem}statuses"], float(arrays[f"{stem}seconds"]))
                runs.samples[series, int(connections), int(turn)] = samples
        return runs


@dataclass(frozen=True, slots=True)
class Bench:
    """The context that all measurements share."""

    runs: Runs
    data: Real
    store: Path
    config: Path
    seconds: float

    @property
    def arguments(self) -> list[object]:
        return ["--store", self.store, "--config", self.config]

    def texts(self) -> list[str]:
        return self.data.questions()

    def closed(
        self, series: str, port: int, asked: Sequence[Request], connections: int, pid: int | None = None
    ) -> None:
        """One closed-loop series. With `pid`, also notes the processor time of that process per request."""
        with pinned(LOAD_CORE), Load(port, connections) as load:
            load.closed(asked, min(WARM_SECONDS, self.seconds))
            before = processor_seconds(pid) if pid else 0.0
            samples = load.closed(asked, self.seconds)
            if pid:
                spent = processor_seconds(pid) - before
                self.runs.note(f"{series} {connections} processor us", 1e6 * spent / max(1, len(samples.latencies)))
        self.runs.add(series, connections, samples)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench_http", description=__doc__)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="duration of each run")
    parser.add_argument("--peers", action="store_true", help="also measure the servers of installed peers")
    parser.add_argument("--figures", action="store_true", help="only compute the figures from stored samples")
    parser.add_argument("--folder", type=Path, help="parent of the temporary store")
    parser.add_argument("--update-readme", action="store_true")
    options = parser.parse_args(argv)
    if not options.figures:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            measure(Path(folder), options.rows, options.rounds, options.seconds, peers=options.peers).save(RAW)
    found = figures(Runs.load(RAW))
    print(json.dumps(found))
    record("bench_http", found, readme=options.update_readme)
    return 0


def measure(folder: Path, rows: int, rounds: int, seconds: float, *, peers: bool) -> Runs:
    bench = Bench(Runs(), real(rows), folder / "store", folder / "aidre.toml", seconds)
    bench.config.write_text(questions.CONFIGURATION)
    snapshot = build(bench.store, bench.data)
    bench.runs.note("rows", snapshot.chunks)
    one_core(bench, snapshot, rounds)
    several_workers(bench)
    if peers:
        beside(bench, folder, rounds)
    body = json.dumps({"query": bench.texts()[0], "mode": "lexical"}).encode()
    for _ in range(3):
        bench.runs.note("first answer seconds", first_answer(bench.arguments, body))
    for workers in (1, 2, 3):
        bench.runs.note(f"{workers} workers pss mib", memory(bench.arguments, body, workers) / 1024)
    return bench.runs


def build(path: Path, data: Real) -> Snapshot:
    """Writes the passages with their precomputed vectors to a store, and opens it."""
    embedder = load_embedder(DEFAULT_SPACE)
    space, passages = embedder.space, data.passages()
    with Store(path).writer(COLLECTION, spaces=[space], runtimes={space.id: embedder.runtime}) as writer:
        for first in range(0, len(data.rows), BATCH):
            block = np.asarray(data.rows[first : first + BATCH])
            records = [_record(number, passages[number]) for number in range(first, first + len(block))]
            writer.upsert(records, {space.id: writer.encode(space.id, block)}, {space.id: [NO_KEY] * len(block)})
        writer.commit()
        writer.finish()
    return Store(path).open(COLLECTION)


def _record(number: int, text: str) -> Record:
    url = f"https://example.com/rows/{number}"
    document = Document(
        f"row-{number:08d}", text, title=f"Row {number}", url=url, metadata={"year": 1990 + number % 36}
    )
    chunk = Chunk(f"{document.id}#chunk_1", 1, text, 0, len(text))
    return Record(document, (chunk,), number.to_bytes(16, "little"))


def one_core(bench: Bench, snapshot: Snapshot, rounds: int) -> None:
    """One worker against echo servers and in-process search, all on the same core."""
    texts, queries = bench.texts(), np.asarray(bench.data.queries)
    vectors = questions.vectors(queries, DEFAULT_SPACE.id)
    ways: Mapping[str, Sequence[Request]] = {
        "vector": vectors,
        "hybrid new": questions.new_texts(texts),
        "hybrid": questions.texts(texts),
        "lexical": questions.texts(texts, "lexical"),
        "chunk": questions.chunks([f"row-{number:08d}#chunk_1" for number in range(0, snapshot.chunks, 7)]),
        "ask": questions.asks(texts),
        "mcp": questions.tools(texts),
        "intent": questions.retrieves(texts),
        "intake": questions.submissions(texts),
    }
    with ExitStack() as stack, pinned(SERVER_CORE):
        pid, port = stack.enter_context(server(bench.arguments, 1))
        until_answered(port, json.dumps({"query": texts[0]}).encode())
        size = len(asked(port, ways)["vector"])
        others = {f"echo {kind}": stack.enter_context(started("echo", kind, size)) for kind in ("bare", "starlette")}
        others[WITHOUT] = stack.enter_context(started("stored", bench.store, bench.config))
        for _ in range(rounds):
            in_process(bench, snapshot, queries)
            for connections in CONNECTIONS:
                for series, (other, its_port) in others.items():
                    bench.closed(series, its_port, vectors, connections, other)
                bench.closed("vector", port, vectors, connections, pid)
                bench.closed("hybrid", port, ways["hybrid"], connections, pid)
            for series in ways:
                for connections in (1, 8) if series not in {"vector", "hybrid"} else ():
                    bench.closed(series, port, ways[series], connections, pid)
            half = max(one["rate"] for number in CONNECTIONS for one in bench.runs.turns("vector", number)) / 2
            with pinned(LOAD_CORE), Load(port, 64) as load:
                bench.runs.add("vector at half its rate", 64, load.open(vectors, bench.seconds, half))


def asked(port: int, ways: Mapping[str, Sequence[Request]]) -> dict[str, bytes]:
    """Sends one request of each series and checks the answer, before the load generator repeats it 100,000 times."""
    found = {}
    for series, requests in ways.items():
        content = requests[0] if isinstance(requests[0], bytes) else requests[0]()
        status, body = answer(port, content)
        if status != 200 or b"row-" not in body:
            raise SystemExit(f"{series} answered {status}: {body[:200]!r}")
        found[series] = body
    return found


def in_process(bench: Bench, snapshot: Snapshot, queries: NDArray[np.float32]) -> None:
    """The same searches without a server, on the server's core, for the duration of a series."""
    latencies = []
    with pinned(SERVER_CORE):
        for query in queries[:200]:
            snapshot.search(Query(query, DEFAULT_SPACE.id, questions.TOP_K))
        started, before = time.perf_counter(), time.process_time()
        while time.perf_counter() - started < bench.seconds:
            for query in queries:
                begun = time.perf_counter()
                snapshot.search(Query(query, DEFAULT_SPACE.id, questions.TOP_K))
                latencies.append(time.perf_counter() - begun)
        spent = time.process_time() - before
        seconds = time.perf_counter() - started
    bench.runs.note("search processor us", 1e6 * spent / len(latencies))
    bench.runs.add("search", 0, Samples(np.array(latencies), np.full(len(latencies), 200, np.int16), seconds))


def several_workers(bench: Bench) -> None:
    """Production layout: no pinning; the kernel schedules the workers and the load generator."""
    vectors = questions.vectors(np.asarray(bench.data.queries), DEFAULT_SPACE.id)
    for workers in (1, 2):
        with server(bench.arguments, workers) as (_, port):
            until_answered(port, json.dumps({"query": bench.texts()[0]}).encode())
            for series, requests in (("vector", vectors), ("hybrid", questions.texts(bench.texts()))):
                for connections in (8, 64):
                    with Load(port, connections) as load:
                        load.closed(requests, WARM_SECONDS)
                        samples = load.closed(requests, bench.seconds)
                    bench.runs.add(f"{series} {workers} unpinned", connections, samples)


def beside(bench: Bench, folder: Path, rounds: int) -> None:
    """aidre and each peer in turns, both servers on the same core."""
    queries, texts = np.asarray(bench.data.queries), bench.texts()
    vectors = questions.vectors(queries, DEFAULT_SPACE.id)
    ours: Mapping[str, Sequence[Request]] = {"chroma": vectors, "txtai": questions.new_texts(texts)}
    asking: Mapping[str, Callable[[PeerServer], list[Request]]] = {
        "chroma": lambda peer: [peer.request(vector, questions.TOP_K) for vector in queries],
        "txtai": lambda peer: [peer.request(text, questions.TOP_K) for text in texts],
    }
    for name, requests in ours.items():
        scratch = folder / name
        scratch.mkdir()
        try:
            with ExitStack() as stack:
                peer = stack.enter_context(serve(name, bench.data, folder=scratch, core=SERVER_CORE))
                theirs = asking[name](peer)
                with pinned(SERVER_CORE):
                    _, port = stack.enter_context(server(bench.arguments, 1))
                until_answered(port, json.dumps({"query": texts[0]}).encode())
                for _ in range(rounds):
                    for connections in (1, 8, 64):
                        bench.closed(name, peer.port, theirs, connections)
                        bench.closed(f"beside {name}", port, requests, connections)
        except PeerMissing as missing:
            print(f"{name} was not measured: {missing}", file=sys.stderr)


@contextmanager
def started(name: str, *arguments: object) -> Iterator[tuple[int, int]]:
    """Runs the module `echo` or `stored` as a server; yields its process id and port."""
    port = free_port()
    script = Path(__file__).with_name(f"{name}.py")
    process = subprocess.Popen([sys.executable, script, *map(str, arguments), str(port)])
    try:
        until_answered(port, json.dumps({"query": "any", "mode": "lexical"}).encode())
        yield process.pid, port
    finally:
        process.terminate()
        process.wait()


def figures(runs: Runs) -> dict[str, Any]:
    """The figures of the report: ratios within turns, and absolute rates and times for scale."""
    facts = {name: median(values) for name, values in runs.facts.items()}
    found: dict[str, Any] = {"rows": int(facts["rows"])}
    eight, one = runs.turns("vector", 8), runs.turns("vector", 1)
    alone, half = runs.turns("search", 0), runs.turns("vector at half its rate", 64)
    found["vector_8_connections_over_in_process"] = _over(eight, alone, "rate")
    found["vector_1_connection_p50_over_search"] = _over(one, alone, "p50_ms")
    found["vector_8_connections_over_bare_echo"] = _over(eight, runs.turns("echo bare", 8), "rate")
    found["search_processor_us"] = round(facts["search processor us"], 1)
    for series in ("echo bare", "echo starlette", WITHOUT, "vector"):
        if f"{series} 8 processor us" in facts:
            found[f"{series.replace(' ', '_')}_processor_us"] = round(facts[f"{series} 8 processor us"], 1)
    beyond = facts["vector 8 processor us"] - facts["search processor us"]
    found["beyond_search_processor_us"] = round(beyond, 1)
    found["beyond_search_over_bare_echo"] = round(beyond / facts["echo bare 8 processor us"], 2)
    found["half_rate_p99_over_search_p50"] = _times([row["p99_ms"] for row in half], [row["p50_ms"] for row in alone])
    for quantile in ("p50_ms", "p99_ms", "p999_ms"):
        found[f"half_rate_{quantile}"] = round(median(row[quantile] for row in half), 2)
    for peer, quantity in (("chroma", "rate"), ("txtai", "rate"), ("txtai", "p50_ms")):
        for connections in (1, 8, 64):
            ours, theirs = runs.turns(f"beside {peer}", connections), runs.turns(peer, connections)
            if ours and theirs:
                pair = (ours, theirs) if quantity == "rate" else (theirs, ours)
                found[f"{connections}_connections_times_{peer}_by_{quantity}"] = _over(*pair, quantity)
    for name in ("first answer seconds", *(f"{workers} workers pss mib" for workers in (1, 2, 3))):
        found[name.replace(" ", "_")] = round(facts[name], 2)
    found["errors"] = sum(int(samples.figures()["errors"]) for samples in runs.samples.values())
    found["connections"] = {}
    for series, connections, _ in runs.samples:
        if connections:
            found["connections"].setdefault(series, {})[str(connections)] = _row(runs.turns(series, connections))
    return found


def _row(turns: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    rates = [turn["rate"] for turn in turns]
    middles = {name: round(median(turn[name] for turn in turns), 3) for name in turns[0]}
    return {**middles, "spread": [round(min(rates)), round(max(rates))]}


def _over(upper: Sequence[Mapping[str, float]], lower: Sequence[Mapping[str, float]], quantity: str) -> str:
    return _times([turn[quantity] for turn in upper], [turn[quantity] for turn in lower])


def _times(upper: Sequence[float], lower: Sequence[float]) -> str:
    return str(ratio(upper, lower))


if __name__ == "__main__":
    sys.exit(main())
