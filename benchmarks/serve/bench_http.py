"""The serving path: what a request costs beyond the scan, throughput and latency by connections, and peers.

    python -m benchmarks http [--rows N] [--rounds N] [--seconds S] [--peers NAME ...] [--previous PYTHON]
                              [--python PATH] [--figures] [--folder DIR] [--update-readme]

The data are real embeddings (`harness.real`), the queries questions and unseen passages. The server is pinned to one
core and the load generator (`harness.load`) to another, except in the runs with several workers. Keys, limits, metrics
and the access log are on, answers are not signed. The series take turns: the raw scan and the same searches in process
on the server's core, an echo server under uvicorn, vector and text searches, every protocol; then an open loop at half
of the highest rate reached, with requests due evenly and at random, where latency counts from the moment a request was
due; and the same of the echo server, whose longest waits are the machine's. What a request costs beyond the scan is the
processor time of the server per request minus that of the raw scan. Peers are measured at the shallowest depth that
reaches recall 0.99 for the kind of query, else at the deepest. `--previous` serves another release of aidre, by vector
and by text; `--python` runs all of this under another interpreter (`harness.interpreters`), and `--only-beside`
measures peers and the other release alone. All latencies are kept in results/raw; `--figures` recomputes the figures
from them. A ratio is taken within a turn and given as the median (minimum to maximum) over the turns.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.embedding.embedder import DEFAULT_SPACE
from aidre.engine.index.vectors.encoding import encode_query
from aidre.engine.index.vectors.scan import search_depth
from aidre.engine.model import Query
from aidre.engine.search.dense import search_dense
from aidre.engine.search.plan import plan_for
from benchmarks.harness import interpreters
from benchmarks.harness.commands import echoing, first_answer, memory, server, until_answered
from benchmarks.harness.load import Load, Request, Samples, answer, http_frame, pinned, processor_seconds
from benchmarks.harness.machine import loop_nanoseconds
from benchmarks.harness.metrics import ratio
from benchmarks.harness.real import KINDS, Kind, Real, real
from benchmarks.harness.truth import Truth, truth
from benchmarks.peers.aidre_load import COLLECTION, load
from benchmarks.peers.client import PeerMissing
from benchmarks.peers.servers import PeerServer, Release, aidre_rows, serve
from benchmarks.report.results import RESULTS, named, record
from benchmarks.serve import questions

CONNECTIONS: Final = (1, 8, 64, 256)
BESIDE: Final = (1, 8, 64)
"""Numbers of connections beside peers, and of the cost beyond the scan."""

VECTOR: Final[Mapping[Kind, str]] = {"ood": "vector", "ind": "vector of a passage"}
PREVIOUS: Final = "aidre previous"
PEERS: Final = ("chroma", "valkey", "txtai")
JUDGED: Final = 200
"""Queries of each kind that are answered once for recall."""

GOAL: Final = 0.99
OPEN_TIMES: Final = 4
"""The duration of an open loop, relative to a closed one: enough samples beyond the 99.9th percentile."""

WARM_SECONDS: Final = 0.3
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
            arrays[f"{name}|late"] = samples.late.astype(np.float32)
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
                seconds, late = float(arrays[f"{stem}seconds"]), arrays[f"{stem}late"]
                samples = Samples(arrays[name], arrays[f"{stem}statuses"], seconds, late=late)
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

    def vectors(self, kind: Kind) -> list[Request]:
        return questions.vectors(np.asarray(self.data.queries(kind)), DEFAULT_SPACE.id)

    def truths(self) -> dict[Kind, Truth]:
        return {kind: truth(self.data.rows, self.data.queries(kind)[:JUDGED], questions.TOP_K) for kind in KINDS}

    def closed(
        self, series: str, port: int, asked: Sequence[Request], connections: int, pids: Sequence[int] = ()
    ) -> None:
        """One closed-loop series over HTTP; notes the processor time of the processes per request."""
        with pinned(LOAD_CORE), Load(port, connections) as generator:
            self.run(series, generator, asked, connections, pids)

    def run(
        self, series: str, generator: Load, asked: Sequence[Request], connections: int, pids: Sequence[int]
    ) -> None:
        generator.closed(asked, min(WARM_SECONDS, self.seconds))
        before = sum(map(processor_seconds, pids))
        samples = generator.closed(asked, self.seconds)
        self.runs.note(f"{series} {connections} generator", samples.busy)
        if pids:
            spent = sum(map(processor_seconds, pids)) - before
            self.runs.note(f"{series} {connections} processor us", 1e6 * spent / max(1, len(samples.latencies)))
        self.runs.add(series, connections, samples)


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments(argv)
    if options.python:
        return interpreters.rerun(options.python, "benchmarks.serve.bench_http", sys.argv[1:] if argv is None else argv)
    raw = RESULTS / "raw" / f"{named('bench_http', options.variant)}.npz"
    if not options.figures:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            measure(Path(folder), options).save(raw)
    found = figures(Runs.load(raw))
    print(json.dumps(found))
    record("bench_http", found, variant=options.variant, readme=options.update_readme)
    return 0


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench_http", description=__doc__)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="duration of each run")
    parser.add_argument("--peers", nargs="*", default=(), choices=PEERS, help="also measure these installed peers")
    parser.add_argument("--previous", type=Path, metavar="PYTHON", help="the interpreter of another release of aidre")
    parser.add_argument("--only-beside", action="store_true", help="measure peers and the other release alone")
    parser.add_argument("--figures", action="store_true", help="only compute the figures from stored samples")
    parser.add_argument("--folder", type=Path, help="parent of the temporary store")
    parser.add_argument("--update-readme", action="store_true")
    interpreters.add_options(parser)
    return parser.parse_args(argv)


def measure(folder: Path, options: argparse.Namespace) -> Runs:
    data = real(options.rows)
    bench = Bench(Runs(), data, folder / "store", folder / "aidre.toml", options.seconds)
    bench.config.write_text(questions.CONFIGURATION)
    load(bench.store, data.rows, data.passages())
    snapshot = Store(bench.store).open(COLLECTION)
    bench.runs.note("rows", snapshot.chunks)
    bench.runs.note("loop ns", loop_nanoseconds())
    if not options.only_beside:
        one_core(bench, snapshot, options.rounds)
        several_workers(bench)
        body = json.dumps({"query": bench.texts()[0], "mode": "lexical"}).encode()
        for _ in range(3):
            bench.runs.note("first answer seconds", first_answer(bench.arguments, body))
        for workers in (1, 2, 3):
            bench.runs.note(f"{workers} workers pss mib", memory(bench.arguments, body, workers) / 1024)
    for name in [*([PREVIOUS] if options.previous else []), *options.peers]:
        scratch = folder / name.replace(" ", "-")
        scratch.mkdir()
        try:
            beside(bench, name, scratch, options)
        except PeerMissing as missing:
            print(f"{name} was not measured: {missing}", file=sys.stderr)
    return bench.runs


def one_core(bench: Bench, snapshot: Snapshot, rounds: int) -> None:
    """One worker against an echo server, and searches in process, all on the same core."""
    texts = bench.texts()
    ways: Mapping[str, Sequence[Request]] = {
        "vector": bench.vectors("ood"),
        "vector of a passage": bench.vectors("ind"),
        "hybrid new": questions.new_texts(texts),
        "hybrid": questions.texts(texts),
        "lexical": questions.texts(texts, "lexical"),
        "chunk": questions.chunks([f"row-{number:08d}#chunk_1" for number in range(0, snapshot.chunks, 7)]),
        "ask": questions.asks(texts),
        "mcp": questions.tools(texts),
        "intent": questions.retrieves(texts),
        "intake": questions.submissions(texts),
    }
    by_connections = ("vector", "vector of a passage", "hybrid")
    log = bench.store.parent / "log.txt"
    with ExitStack() as stack, pinned(SERVER_CORE):
        pid, port = stack.enter_context(server(bench.arguments, 1, log))
        until_answered(port, json.dumps({"query": texts[0]}).encode())
        size = len(asked(port, ways)["vector"])
        echo, its_port = stack.enter_context(echoing(size))
        for kind, judged in bench.truths().items():
            bench.runs.note(f"recall {VECTOR[kind]}", recall(port, bench.vectors(kind), judged))
        for _ in range(rounds):
            in_process(bench, snapshot)
            for connections in CONNECTIONS:
                bench.closed("echo", its_port, ways["vector"], connections, [echo])
                for series in by_connections:
                    bench.closed(series, port, ways[series], connections, [pid])
            for series in ways:
                for connections in (1, 8) if series not in by_connections else ():
                    bench.closed(series, port, ways[series], connections, [pid])
            half = max(bench.runs.turns("vector", number)[-1]["rate"] for number in CONNECTIONS) / 2
            for due in ("evenly", "at random"):
                for asked_port, whose in ((port, ""), (its_port, "echo, ")):
                    with pinned(LOAD_CORE), Load(asked_port, 64) as generator:
                        seconds = OPEN_TIMES * bench.seconds
                        samples = generator.open(ways["vector"], seconds, half, random=due == "at random")
                    bench.runs.add(f"{whose}half the rate, due {due}", 64, samples)


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


def recall(port: int, requests: Sequence[Request], judged: Truth, peer: PeerServer | None = None) -> float:
    """Recall of the answers to the first queries, which are those of the truth."""
    read, framing = (peer.rows_of, peer.framing) if peer else (aidre_rows, http_frame)
    count = len(judged.queries)
    found = [
        judged.found(number, read(answer(port, content, framing)[1]))
        for number, content in enumerate(requests[:count])
        if isinstance(content, bytes)
    ]
    return sum(found) / (count * judged.count)


def in_process(bench: Bench, snapshot: Snapshot) -> None:
    """The same queries without a server, on the server's core: searches, and the raw scan alone."""
    for kind, series in VECTOR.items():
        queries = np.asarray(bench.data.queries(kind))
        asked = [Query(query, DEFAULT_SPACE.id, questions.TOP_K) for query in queries]
        alone(bench, f"search {series}", [partial(snapshot.search, query) for query in asked])
        alone(bench, f"scan {series}", raw_scans(snapshot, DEFAULT_SPACE.id, queries))


def raw_scans(snapshot: Snapshot, space: str, queries: NDArray[np.float32]) -> list[Callable[[], object]]:
    """For each query the innermost call of the engine: candidates from the codes, and their exact order.

    With the kernel that is one call of it, without the kernel a dense search of the encoded query.
    """
    k, segments, state = questions.TOP_K, snapshot.segments, snapshot.space(space)
    depth = search_depth(state.calibration, k)
    vectors = [encode_query(state.space, query) for query in queries]
    plan = plan_for(segments, space, depth.candidates if depth else None, None)
    if plan.native is None or depth is None:
        return [partial(search_dense, segments, space, vector, k=k, depth=depth) for vector in vectors]
    count = max(depth.candidates, k)
    if plan.selectivity is None or not depth.nprobe(plan.selectivity):
        return [partial(plan.native.search, vector, k, count, None, True) for vector in vectors]
    nprobe, gap = depth.nprobe(plan.selectivity), depth.max_gap(plan.selectivity)
    return [partial(plan.native.probe, vector, k, count, nprobe, gap) for vector in vectors]


def alone(bench: Bench, series: str, calls: Sequence[Callable[[], object]]) -> None:
    """Calls for half the duration of a series, on the server's core; notes the processor time per call."""
    latencies = []
    with pinned(SERVER_CORE):
        for call in calls[:200]:
            call()
        started, before = time.perf_counter(), time.process_time()
        while time.perf_counter() - started < bench.seconds / 2:
            for call in calls:
                begun = time.perf_counter()
                call()
                latencies.append(time.perf_counter() - begun)
        spent = time.process_time() - before
        seconds = time.perf_counter() - started
    bench.runs.note(f"{series} processor us", 1e6 * spent / len(latencies))
    bench.runs.add(series, 0, Samples(np.array(latencies), np.full(len(latencies), 200, np.int16), seconds))


def several_workers(bench: Bench) -> None:
    """Production layout: no pinning; the kernel schedules the workers and the load generator."""
    for workers in (1, 2):
        with server(bench.arguments, workers, bench.store.parent / "log.txt") as (_, port):
            until_answered(port, json.dumps({"query": bench.texts()[0]}).encode())
            for series, requests in (("vector", bench.vectors("ood")), ("hybrid", questions.texts(bench.texts()))):
                for connections in (8, 64):
                    with Load(port, connections) as generator:
                        generator.closed(requests, WARM_SECONDS)
                        samples = generator.closed(requests, bench.seconds)
                    bench.runs.add(f"{series} {workers} unpinned", connections, samples)


def beside(bench: Bench, name: str, scratch: Path, options: argparse.Namespace) -> None:
    """aidre and a peer in turns, both servers on the same core. Raises PeerMissing."""
    release = Release(options.previous, bench.config, lambda vector: questions.vector_search(vector, DEFAULT_SPACE.id))
    with ExitStack() as stack:
        chosen = release if name == PREVIOUS else None
        peer = stack.enter_context(serve(name, bench.data, folder=scratch, core=SERVER_CORE, release=chosen))
        with pinned(SERVER_CORE):
            pid, port = stack.enter_context(server(bench.arguments, 1, bench.store.parent / "log.txt"))
        until_answered(port, json.dumps({"query": bench.texts()[0]}).encode())
        theirs: dict[str, Sequence[Request]]
        if name == "txtai":
            ours = {"hybrid new": questions.new_texts(bench.texts())}
            theirs = {"hybrid new": [peer.request(text, questions.TOP_K, 0) for text in bench.texts()]}
        else:
            ours = {VECTOR[kind]: bench.vectors(kind) for kind in KINDS}
            theirs = {VECTOR[kind]: deep_enough(bench, peer, kind, judged) for kind, judged in bench.truths().items()}
        if name == PREVIOUS:  # the same requests: text is compared, too
            ours |= (by_text := {"hybrid new": questions.new_texts(bench.texts())})
            theirs |= by_text
        for _ in range(options.rounds):
            for connections in BESIDE:
                for series in ours:
                    with pinned(LOAD_CORE), Load(peer.port, connections, peer.framing) as generator:
                        bench.run(f"{name}: {series}", generator, theirs[series], connections, peer.pids)
                    with pinned(LOAD_CORE), Load(port, connections) as generator:
                        bench.run(f"beside {name}: {series}", generator, ours[series], connections, [pid])


def deep_enough(bench: Bench, peer: PeerServer, kind: Kind, judged: Truth) -> list[Request]:
    """The requests at the shallowest setting that reaches GOAL, else at the deepest; notes setting and recall."""
    queries = np.asarray(bench.data.queries(kind))
    requests: list[Request] = []
    reached = 0.0
    for setting in peer.settings:
        requests = [peer.request(vector, questions.TOP_K, setting) for vector in queries]
        reached = recall(peer.port, requests, judged, peer)
        if reached >= GOAL:
            break
    bench.runs.note(f"recall {peer.name}: {VECTOR[kind]}", reached)
    bench.runs.note(f"setting {peer.name}: {VECTOR[kind]}", setting)
    return requests


def figures(runs: Runs) -> dict[str, Any]:
    """The figures of the report: ratios within turns, and absolute rates and times for scale."""
    facts = {name: median(values) for name, values in runs.facts.items()}
    found: dict[str, Any] = {"rows": int(facts["rows"]), "loop_ns": round(facts["loop ns"], 1)}
    if runs.turns("vector", 8):
        found |= _alone(runs, facts)
    found["errors"] = sum(int(samples.figures()["errors"]) for samples in runs.samples.values())
    found["request_minus_raw_scan"] = _beyond(facts)
    found["beside"] = _beside(runs, facts)
    found |= {"connections": {}, "connections_beside": {}}
    for series, connections, _ in runs.samples:
        if connections:
            row = _row(runs.turns(series, connections))
            if f"{series} {connections} generator" in facts:  # near 1 the generator is the limit, not the server
                row["generator"] = round(facts[f"{series} {connections} generator"], 2)
            table = found["connections_beside" if ": " in series else "connections"]
            table.setdefault(series, {})[str(connections)] = row
    return {name: value for name, value in found.items() if value != {}}


def _alone(runs: Runs, facts: Mapping[str, float]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    alone = runs.turns("search vector", 0)
    found["vector_8_connections_over_in_process"] = _over(runs.turns("vector", 8), alone, "rate")
    found["vector_1_connection_p50_over_search"] = _over(runs.turns("vector", 1), alone, "p50_ms")
    found["vector_8_connections_over_echo"] = _over(runs.turns("vector", 8), runs.turns("echo", 8), "rate")
    found |= {f"recall_{series.replace(' ', '_')}": round(facts[f"recall {series}"], 4) for series in VECTOR.values()}
    for due in ("evenly", "at random"):
        half, name = runs.turns(f"half the rate, due {due}", 64), f"half_rate_due_{due.replace(' ', '_')}"
        slowest = [row["p999_ms"] for row in half]
        found[f"{name}_p999_over_p50"] = _times(slowest, [row["p50_ms"] for row in half])
        # The median of an overloaded server is long, which makes the ratio to it small.
        found[f"{name}_p999_over_p50_of_one_connection"] = _times(
            slowest, [row["p50_ms"] for row in runs.turns("vector", 1)]
        )
        echo = runs.turns(f"echo, half the rate, due {due}", 64)  # what it waits for is the machine
        if echo:
            found[f"{name}_p999_over_that_of_echo"] = _times(slowest, [row["p999_ms"] for row in echo])
        for quantile in ("p50_ms", "p99_ms", "p999_ms", "late_p99_ms"):
            found[f"{name}_{quantile}"] = round(median(row[quantile] for row in half), 3)
    for name in ("first answer seconds", *(f"{workers} workers pss mib" for workers in (1, 2, 3))):
        if name in facts:
            found[name.replace(" ", "_")] = round(facts[name], 2)
    return found


def _beyond(facts: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Processor microseconds of the server per request, of the search and of the raw scan in process, and the rest."""
    found = {}
    for series in VECTOR.values():
        for connections in BESIDE:
            request = facts.get(f"{series} {connections} processor us")
            if request is not None:
                scan, search = facts[f"scan {series} processor us"], facts[f"search {series} processor us"]
                row = {"request us": request, "search us": search, "raw scan us": scan, "beyond us": request - scan}
                row["echo us"] = facts[f"echo {connections} processor us"]
                found[f"{series}, {connections}"] = {name: round(value, 1) for name, value in row.items()}
    return found


def _beside(runs: Runs, facts: Mapping[str, float]) -> dict[str, dict[str, Any]]:
    """How many times the rate of each peer aidre has, by connections, and the processor time of both."""
    found: dict[str, dict[str, Any]] = {}
    for label in dict.fromkeys(series for series, _, _ in runs.samples if f"beside {series}" in _series(runs)):
        row: dict[str, Any] = {}
        if f"recall {label}" in facts:
            reached = facts[f"recall {label}"]
            row["recall"] = f"{reached:.4f}{'' if reached >= GOAL else f', misses {GOAL}'}"
            row["setting"] = int(facts[f"setting {label}"])
        for connections in BESIDE:
            ours, theirs = runs.turns(f"beside {label}", connections), runs.turns(label, connections)
            row[f"times the rate, {connections}"] = _over(ours, theirs, "rate")
            row[f"times the p50, {connections}"] = _over(theirs, ours, "p50_ms")
        row["processor us, 8"] = round(facts[f"{label} 8 processor us"], 1)
        row["of aidre, 8"] = round(facts[f"beside {label} 8 processor us"], 1)
        found[label] = row
    return found


def _series(runs: Runs) -> set[str]:
    return {series for series, _, _ in runs.samples}


def _row(turns: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    rates = [turn["rate"] for turn in turns]
    middles = {name: round(median(turn[name] for turn in turns), 3) for name in turns[0]}
    return {**middles, "spread": [round(min(rates)), round(max(rates))]}


def _over(upper: Sequence[Mapping[str, float]], lower: Sequence[Mapping[str, float]], quantity: str) -> str:
    return _times([turn[quantity] for turn in upper], [turn[quantity] for turn in lower])


def _times(upper: Sequence[float], lower: Sequence[float]) -> str:
    if not all(lower):  # a run too short for a single answer
        return "-"
    return str(ratio(upper, lower))


if __name__ == "__main__":
    sys.exit(main())
