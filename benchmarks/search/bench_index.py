"""How search cost scales with rows, dimensions, distance, k, deleted rows and segments.

    python -m benchmarks index [--groups GROUP ...] [--rows N] [--sizes N ...] [--huge [N]] [--update-readme]

Groups: sizes, dimensions, distances, results, deleted, segments; by default all of them. Each case is a separate
store, measured in turns with the base (real embeddings, cosine, one segment) and reported as a ratio to it, for unseen
passages and for questions. Rows beyond the real ones are mixes of them (`real`); fewer dimensions are their principal
components, more are synthetic (`data`) and have no questions. `--huge` measures only sizes, up to 10,000,000 rows of 96
dimensions. Queries are single, on one thread; recall is against exact search.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.model import Distance, EmbeddingSpace, Query
from benchmarks.harness import data
from benchmarks.harness.metrics import against, figure, growth
from benchmarks.harness.real import BLOCK, KINDS, ROWS, Kind, Real, blocks, real, reduced, say, synthetic
from benchmarks.harness.truth import Truth, truth
from benchmarks.peers.aidre import COLLECTION, SPACE, number, records, vector_bytes
from benchmarks.peers.worker import private_bytes
from benchmarks.report import results as report

K: Final = 10
QUERIES: Final = 300
SIZES: Final = (10_000, 30_000, 100_000, 300_000, 1_000_000)
HUGE_ROWS, HUGE_DIMENSIONS = 10_000_000, 96
DIMENSIONS: Final = (64, 128, 256, 768, 1536)
DELETED: Final = (0.01, 0.1, 0.3, 0.5)
SEGMENTS: Final = (5, 20)
RESULTS: Final = (1, 100, 1_000)
GROUPS: Final = ("sizes", "dimensions", "distances", "results", "deleted", "segments")

Vectors = NDArray[np.float32]
Blocks = Callable[[], Iterator[Vectors]]


@dataclass(frozen=True, slots=True)
class Case:
    """One store and its queries. `label` is the value that varies within the group."""

    group: str
    label: str
    rows: int
    dimensions: int
    blocks: Blocks
    queries: Mapping[Kind, Vectors]
    distance: Distance = "cosine"
    segments: int = 1
    deleted: float = 0.0
    k: int = K


@dataclass(frozen=True, slots=True)
class Built:
    """A case with its open store, its ground truth, and the cost of building and opening it."""

    case: Case
    snapshot: Snapshot
    facts: dict[str, Any]
    truths: Mapping[Kind, Truth]


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments(argv)
    groups: dict[str, dict[str, Any]] = {}
    cores = os.sched_getaffinity(0)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        rows = options.rows
        found = synthetic(Path(folder) / "made", rows) if options.synthetic else real(min(rows, ROWS))
        base = built(based(found, rows), Path(folder) / "base")
        for ordinal, case in enumerate(cases(options, found)):
            started = time.monotonic()
            made = built(case, Path(folder) / f"{ordinal}")
            name = "huge" if options.huge else case.group
            raw = groups.setdefault(name, {"base": base.facts, "cases": []})
            raw["cases"] += [measured(made, base, kind, options.turns, cores) for kind in case.queries]
            report.keep(f"index_{name}", raw)
            say(f"{case.group} {case.label}: {time.monotonic() - started:.0f} s")
    for raw in groups.values():
        print("\n".join(lines(raw)))
    if options.update_readme:
        report.write()
    return 0


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench_index", description=__doc__)
    parser.add_argument("--groups", nargs="+", default=GROUPS, metavar="GROUP", choices=GROUPS, help=", ".join(GROUPS))
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of the base")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--dimensions", type=int, nargs="+", default=DIMENSIONS)
    parser.add_argument(
        "--huge",
        type=int,
        nargs="?",
        const=HUGE_ROWS,
        metavar="N",
        help=f"only up to this many rows (default: {HUGE_ROWS:,}) of {HUGE_DIMENSIONS} dimensions",
    )
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--synthetic", action="store_true", help="synthetic vectors instead of real embeddings")
    parser.add_argument("--folder", type=Path, help="parent of the temporary stores")
    parser.add_argument("--update-readme", action="store_true", help="write benchmarks/REPORT.md and README.md")
    return parser.parse_args(argv)


def based(found: Real, rows: int, group: str = "base", label: str = "", **other: Any) -> Case:
    """A case over real rows, followed by mixes of them beyond their number."""
    asked = {kind: np.ascontiguousarray(found.queries(kind)[:QUERIES]) for kind in KINDS}
    return Case(group, label, rows, found.rows.shape[1], partial(blocks, rows, found.rows), asked, **other)


def generated(rows: int, dimensions: int, group: str, label: str) -> Case:
    """A case over synthetic rows; there are no questions about them."""
    queries: Mapping[Kind, Vectors] = {"ind": data.queries(QUERIES, dimensions)}
    return Case(group, label, rows, dimensions, partial(data.blocks, rows, dimensions), queries)


def cases(options: argparse.Namespace, found: Real) -> Iterator[Case]:
    if options.huge:
        components = reduced(found, HUGE_DIMENSIONS)
        for rows in (options.huge // 100, options.huge // 10, options.huge):
            yield based(components, rows, "sizes", label=f"{rows:,} x {HUGE_DIMENSIONS}")
        return
    groups = options.groups
    if "sizes" in groups:
        yield from (based(found, rows, "sizes", label=f"{rows:,}") for rows in options.sizes)
    if "dimensions" in groups:
        for each in options.dimensions:
            if each <= found.rows.shape[1]:
                yield based(reduced(found, each), options.rows, "dimensions", label=str(each))
            else:
                yield generated(options.rows, each, "dimensions", f"{each}, synthetic")
    if "distances" in groups:
        distances: tuple[Distance, ...] = ("dot", "euclidean")
        yield from (based(found, options.rows, "distances", label=each, distance=each) for each in distances)
    if "results" in groups:
        yield from (based(found, options.rows, "results", label=str(each), k=each) for each in RESULTS)
    if "deleted" in groups:
        yield from (based(found, options.rows, "deleted", label=f"{each:.0%}", deleted=each) for each in DELETED)
    if "segments" in groups:
        yield from (based(found, options.rows, "segments", label=str(each), segments=each) for each in SEGMENTS)


def built(case: Case, path: Path) -> Built:
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    started = time.perf_counter()
    write(case, path)
    seconds = time.perf_counter() - started
    gc.collect()
    before, started = private_bytes(), time.perf_counter()
    snapshot = Store(path).open(COLLECTION)
    snapshot.search(Query(case.queries["ind"][0], SPACE, case.k))
    opened = time.perf_counter() - started
    calibration = snapshot.space(SPACE).calibration
    facts = {
        "group": case.group,
        "label": case.label,
        "rows": case.rows,
        "dimensions": case.dimensions,
        "k": case.k,
        "segments": len(snapshot.segments),
        "kind": calibration.kind if calibration else "exact",
        "seconds": seconds,
        "open_seconds": opened,
        "bytes": vector_bytes(snapshot),
        "private_bytes": max(0, private_bytes() - before),
        "peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }
    return Built(case, snapshot, facts, judged(case))


def write(case: Case, path: Path) -> None:
    """Writes the store of a case block by block, so that memory use stays constant."""
    space = EmbeddingSpace(SPACE, case.dimensions, case.distance, normalized=case.distance == "cosine")
    with Store(path).writer(COLLECTION, spaces=[space]) as writer:
        first = 0
        for block in case.blocks():
            numbers = range(first, first + len(block))
            writer.upsert(list(records(numbers, {})), {SPACE: writer.encode(SPACE, np.asarray(block))}, {})
            first += len(block)
            if first % (4 * BLOCK) == 0:
                writer.commit()
        writer.commit()
        writer.finish()
        if len(Store(path).open(COLLECTION).segments) > 1:
            writer.compact()
        if case.segments > 1:
            writer.generations.split(-(-case.rows // case.segments))
        if case.deleted:
            writer.delete([f"row-{each:08d}" for each in np.flatnonzero(gone(case)).tolist()])
            writer.commit()


def gone(case: Case) -> NDArray[np.bool_]:
    return np.random.default_rng(4).random(case.rows) < case.deleted


def judged(case: Case) -> dict[Kind, Truth]:
    """Ground truth of a case by kind of query. For unit rows all three distances have the same neighbours."""
    rows = np.empty((case.rows, case.dimensions), np.float32)
    first = 0
    for block in case.blocks():
        rows[first : first + len(block)] = block
        first += len(block)
    allowed = ~gone(case) if case.deleted else None
    return {kind: truth(rows, queries, case.k, allowed) for kind, queries in case.queries.items()}


def measured(made: Built, base: Built, kind: Kind, turns: int, cores: set[int]) -> dict[str, Any]:
    """Raw samples of the case and the base for one kind of query, in turns on one core."""
    asked, beside = searches(made, kind), searches(base, kind)
    times: dict[str, list[list[float]]] = {"microseconds": [], "base": []}
    os.sched_setaffinity(0, {max(cores)})
    try:
        for turn in range(turns + 1):
            ours = [timed(made, query) for query in asked]
            others = [timed(base, query) for query in beside]
            if turn:  # the first turn is warm-up
                times["microseconds"].append(ours)
                times["base"].append(others)
    finally:
        os.sched_setaffinity(0, cores)
    judged = made.truths[kind]
    found = [judged.found(ordinal, answered(made, query)) for ordinal, query in enumerate(asked)]
    return {**made.facts, "queries": kind, "possible": judged.count, "found": found, **times}


def searches(made: Built, kind: Kind) -> list[Query]:
    return [Query(vector, SPACE, made.case.k) for vector in made.case.queries[kind]]


def timed(made: Built, query: Query) -> float:
    started = time.perf_counter()
    made.snapshot.search(query)
    return round((time.perf_counter() - started) * 1e6, 1)


def answered(made: Built, query: Query) -> list[int]:
    return [number(hit.chunk.document_id) for hit in made.snapshot.search(query)]


def lines(raw: dict[str, Any]) -> Iterator[str]:
    for case in raw["cases"]:
        recall = sum(case["found"]) / max(1, len(case["found"]) * case["possible"])
        p50 = np.median([time for turn in case["microseconds"] for time in turn])
        yield (
            f"{case['group']:10} {case['label']:>16} {case['queries']} {case['kind']:6} recall {recall:.4f} "
            f"p50 {figure(p50)} us, {against(case)} of the base; {case['bytes'] / case['rows']:.0f} bytes a row, "
            f"built in {case['seconds']:.1f} s, opened and first query in {1000 * case['open_seconds']:.0f} ms"
        )
    for name, found in growth(raw["cases"]).items():
        yield f"{name} grows as rows^{found:.2f}"


if __name__ == "__main__":
    sys.exit(main())
