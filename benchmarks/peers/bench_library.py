"""`import aidre` beside other libraries: the same program of each, its time, memory, disk and lines.

    python -m benchmarks library [--rows N] [--queries N] [--rounds N] [--only NAME ...] [--update-readme]

The programs are in `peers/programs`; each runs in a process and in the environment of its library (`make peers`),
with the library's defaults. They store documents with text, a price and a vector, then open the folder again and search
it one query at a time, k = 10. Vectors are real embeddings (`harness.real`), queries unseen passages. `add_seconds`
is until all is stored, and searchable as the library's own guide does it; `peak_mb` the largest resident set of that
process, `before_mb` what it held before; `first_ms` opening the folder and the first search; `p50_us` and `p99_us` a
search; `recall` of ten among the exact ten; `filtered_*` the same with a filter that a tenth of the rows pass; `lines`
those of the program without blank ones. The programs take turns. `overhead_us` is `Collection.search` of the library
beyond `Snapshot.search` of the engine, in one process.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import aidre
from aidre.engine.model import Query
from benchmarks.harness.real import blocks, real
from benchmarks.peers.environments import folder as environment
from benchmarks.peers.programs.worker import BELOW, K
from benchmarks.report.results import ROOT, record

PROGRAMS: Final = {
    "aidre": None,
    "chromadb": "stores",
    "lancedb": "stores",
    "qdrant": "stores",
    "txtai": "txtai",
    "usearch": "libraries",
}
"""Programs, and the environments of their libraries."""
SECONDS: Final = 1_200


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench_library", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=list(PROGRAMS), choices=list(PROGRAMS))
    parser.add_argument("--update-readme", action="store_true")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as place:
        figures = measure(Path(place), options.rows, options.queries, options.rounds, options.only)
    record("bench_library", figures, readme=options.update_readme)
    return 0


def measure(place: Path, rows: int, queries: int, rounds: int, only: Sequence[str]) -> dict[str, Any]:
    vectors, asked = material(rows, queries)
    prices = np.random.default_rng(5).integers(0, 100, rows)
    texts = np.array([f"Passage {number} about thing {number % 997}." for number in range(rows)])
    np.savez(place / "data.npz", rows=vectors, queries=asked, prices=prices, texts=texts)
    truth = [exact(vectors, asked, None), exact(vectors, asked[: queries // 4], prices < BELOW)]
    turns: dict[str, list[dict[str, Any]]] = {name: [] for name in only}
    missing: dict[str, str] = {}
    for _ in range(rounds):
        for name in only:
            if name not in missing:
                try:
                    turns[name].append(turn(place, name, truth))
                except RuntimeError as error:
                    missing[name] = str(error)
    found = {name: summarize(name, each) for name, each in turns.items() if each}
    facts = {"rows": rows, "queries": queries, "rounds": rounds, "missing": missing}
    overhead = overhead_of(place / "overhead", vectors[:60_000], asked) if "aidre" in only else None
    return {**facts, "programs": found, "overhead_us": overhead}


def material(rows: int, queries: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    found = real(min(rows, 60_000), queries)
    vectors = np.concatenate(list(blocks(rows, found.rows)))
    return np.ascontiguousarray(vectors), np.ascontiguousarray(found.ind[:queries])


def exact(rows: NDArray[np.float32], queries: NDArray[np.float32], allowed: NDArray[np.bool_] | None) -> list[set[str]]:
    chosen = np.arange(len(rows)) if allowed is None else np.flatnonzero(allowed)
    best = np.argpartition(-(queries @ rows[chosen].T), K, axis=1)[:, :K]
    return [{f"d{chosen[column]}" for column in line} for line in best.tolist()]


# -- one turn ----------------------------------------------------------------------------------------------------


def turn(place: Path, name: str, truth: Sequence[Sequence[set[str]]]) -> dict[str, Any]:
    """Add and search in a new folder. RuntimeError where the library is missing or its program fails."""
    folder = place / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    added = run("add", name, folder, place / "data.npz")
    disk = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    searched = run("search", name, folder, place / "data.npz")
    figures = {**added, "disk_mb": disk / 1e6, "first_ms": 1e3 * searched["first_seconds"]}
    figures |= latencies("", searched["seconds"]) | {"recall": recall(searched["found"], truth[0])}
    if "filtered" in searched:
        figures |= latencies("filtered_", searched["filtered_seconds"])
        figures["filtered_recall"] = recall(searched["filtered"], truth[1])
    return figures


def run(step: str, name: str, folder: Path, data: Path) -> dict[str, Any]:
    chosen = PROGRAMS[name]
    python = Path(sys.executable) if chosen is None else environment(chosen) / "bin" / "python"
    if not python.exists():
        raise RuntimeError("it is not installed: run `make peers`")
    command = [str(python), "-m", "benchmarks.peers.programs.worker", step, name, str(folder), str(data)]
    quiet = {"ANONYMIZED_TELEMETRY": "False", "ALLOW_RESOLVE_TRANSFORM": "True"}
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, **quiet},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{step} took longer than {SECONDS} seconds") from None
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1])
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def latencies(prefix: str, seconds: Sequence[float]) -> dict[str, float]:
    p50, p99 = 1e6 * np.quantile(seconds, [0.5, 0.99])
    return {f"{prefix}p50_us": float(p50), f"{prefix}p99_us": float(p99)}


def recall(found: Sequence[Sequence[str]], truth: Sequence[set[str]]) -> float:
    return float(np.mean([len(wanted.intersection(hits)) / K for hits, wanted in zip(found, truth, strict=True)]))


def summarize(name: str, turns: Sequence[dict[str, Any]]) -> dict[str, Any]:
    middle = {figure: round(median(one[figure] for one in turns), 4) for figure in turns[0]}
    return {**middle, "lines": lines(name)}


def lines(name: str) -> int:
    text = (Path(__file__).parent / "programs" / f"{name}_program.py").read_text("utf-8")
    return sum(1 for line in text.splitlines() if line.strip() and not line.startswith(("#", '"""')))


def overhead_of(folder: Path, rows: NDArray[np.float32], queries: NDArray[np.float32]) -> float:
    """Microseconds of a search by the library beyond that of the engine, the median over interleaved rounds."""
    with aidre.open(folder) as db:
        docs = db.collection("docs", space=aidre.EmbeddingSpace("mine", rows.shape[1], "cosine"))
        docs.add([{"id": f"d{number}", "text": f"Text {number}."} for number in range(len(rows))], vectors=rows)
        reader = docs.reader
        assert reader is not None
        differences = []
        for _ in range(9):
            began = time.perf_counter()
            for query in queries:
                docs.search(vector=query, k=K)
            between = time.perf_counter()
            for query in queries:
                reader.search(Query(query, "mine", K, 0, None))
            differences.append(2 * between - began - time.perf_counter())
    return round(1e6 * median(differences) / len(queries), 2)


if __name__ == "__main__":
    raise SystemExit(main())
