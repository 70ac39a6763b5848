"""Filtered search in process: recall, result counts and latency relative to the unfiltered search.

    python -m benchmarks filter [--rows N ...] [--commits N] [--update-readme]

Rows are real embeddings, and mixes of them beyond the real ones; queries are unseen passages (`ind`) and questions
(`ood`), see `harness.real`. Every document has a random number and its rank by distance from one point (both scaled
to 0..1). A range of the first is a random filter, a range of the second a correlated one: the rows that pass are
neighbours in vector space. Correlated filters are measured with queries from inside (nearest to the point) and outside
(farthest from it). Recall@10 is against exact search. Latencies are of single queries on one thread, unfiltered and
filtered in turns. *Cached* repeats one filter; *cold* gives every query a new filter: ratios of filtered to unfiltered
latency, p50 to p50 and p99 to p99.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.index.fields.filters import Filter, parse_filter
from aidre.engine.model import Chunk, Document, EmbeddingSpace, Query, Record
from benchmarks.harness.real import KINDS, ROWS, Kind, Real, blocks, real, synthetic
from benchmarks.harness.truth import Truth, truth
from benchmarks.report.results import record

SPACE = "v"
COLLECTION = "bench"
K = 10
SELECTIVITIES = (0.5, 0.1, 0.01, 0.001)
MASKS: dict[str, Any] = {
    "equal": {"language": "de"},
    "range": {"random": {"gte": 0.25, "lt": 0.26}},
    "in": {"number": {"in": list(range(0, 10_000, 10))}},
    "both": {"and": [{"language": "de"}, {"year": {"gte": 2000}}, {"not": {"random": {"lt": 0.5}}}]},
}

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Data:
    """Vectors, the two filter fields (0..1 per row), and the queries of each kind for each group of filters."""

    rows: Vectors
    random: NDArray[np.float64]
    near: NDArray[np.float64]
    asked: Mapping[tuple[str, Kind], Vectors]


@dataclass(frozen=True, slots=True)
class Case:
    """One group of filters at one selectivity, with one kind of query."""

    group: str
    share: float
    kind: Kind

    @property
    def field(self) -> Literal["random", "near"]:
        return "random" if self.group == "random" else "near"

    @property
    def name(self) -> str:
        return f"{self.group} {self.share * 100:g}%, {self.kind}"

    def truth(self, data: Data) -> Truth:
        values = data.random if self.field == "random" else data.near
        return truth(data.rows, data.asked[self.group, self.kind], K, values < self.share)

    def filter(self, from_: float = 0.0) -> Filter:
        return parse_filter({self.field: {"gte": from_, "lt": from_ + self.share}})


GROUPS = ("random", "inside", "outside")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench_filter", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[60_000, 300_000])
    parser.add_argument("--commits", type=int, default=1)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--synthetic", action="store_true", help="synthetic vectors instead of real embeddings")
    parser.add_argument("--update-readme", action="store_true", help="write the figures into README.md")
    options = parser.parse_args(argv)
    figures: dict[str, Any] = {"commits": options.commits}
    for rows in options.rows:
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder)
            found = synthetic(made / "made", rows) if options.synthetic else real(min(rows, ROWS))
            figures |= measure(made / "store", prepared(found, rows, options.queries), options.commits)
    print(json.dumps(figures, indent=1))
    record("bench_filter", figures, readme=options.update_readme)
    return 0


def measure(folder: Path, data: Data, commits: int) -> dict[str, Any]:
    snapshot = build(folder, data, commits)
    rows = f"{len(data.rows):,} rows"
    cases = [Case(group, share, kind) for kind in KINDS for group in GROUPS for share in SELECTIVITIES]
    masks = {name: f"{mask_time(snapshot, parse_filter(written)) * 1e6:.0f} us" for name, written in MASKS.items()}
    return {
        f"{rows}, segments": len(snapshot.segments),
        rows: {case.name: of_case(snapshot, data, case) for case in cases},
        f"{rows}, bitmaps": masks,
    }


def prepared(found: Real, rows: int, count: int) -> Data:
    """The data of the filters. Queries inside of a correlated filter are nearest to its point."""
    data = np.concatenate(list(blocks(rows, found.rows)))
    point = data[0]
    asked: dict[tuple[str, Kind], Vectors] = {}
    for kind in KINDS:
        pool = np.asarray(found.queries(kind))
        order = np.argsort(-(pool @ point))
        asked["random", kind] = pool[:count]
        asked["inside", kind], asked["outside", kind] = pool[order[:count]], pool[order[-count:]]
    near = np.argsort(np.argsort(-(data @ point))) / rows
    return Data(data, np.random.default_rng(3).random(rows), near, asked)


def build(path: Path, data: Data, commits: int) -> Snapshot:
    """Writes the rows to a store in `commits` commits, and opens it."""
    space = EmbeddingSpace(SPACE, data.rows.shape[1], "cosine", normalized=True)
    with Store(path).writer(COLLECTION, spaces=[space]) as writer:
        for numbers in np.array_split(np.arange(len(data.rows)), commits):
            writer.upsert(list(records(data, numbers)), {SPACE: writer.encode(SPACE, data.rows[numbers])}, {})
            writer.commit()
            writer.finish()
    return Store(path).open(COLLECTION)


def records(data: Data, numbers: NDArray[np.int64]) -> Iterator[Record]:
    for number in numbers.tolist():
        text = f"A short passage about thing {number}."
        metadata = {
            "random": float(data.random[number]),
            "near": float(data.near[number]),
            "number": number,
            "year": 1990 + number % 36,
            "language": ("en", "de", "tr", "zh")[number % 4],
        }
        document = Document(id=f"row-{number:08d}", text=text, metadata=metadata)
        chunk = Chunk(f"{document.id}#chunk_1", 1, text, 0, len(text))
        yield Record(document, (chunk,), number.to_bytes(16, "little"))


def of_case(snapshot: Snapshot, data: Data, case: Case) -> dict[str, float]:
    """Recall, the median of the unfiltered searches, and the latency ratios of the case."""
    asked = data.asked[case.group, case.kind]
    plain: list[float] = []
    cached: list[float] = []
    for turn in range(4):
        for query in asked:
            plain.append(seconds(snapshot, query, None))
            cached.append(seconds(snapshot, query, case.filter()))
        if turn == 0:
            plain, cached = [], []  # the first turn is warm-up
    starts = np.linspace(0.001, 1 - case.share, len(asked)).tolist()
    cold = [seconds(snapshot, query, case.filter(start)) for query, start in zip(asked, starts, strict=True)]
    ratios = {
        f"{name} p{percent}": round(percentile(times, percent) / percentile(plain, percent), 3)
        for name, times in (("cached", cached), ("cold", cold))
        for percent in (50, 99)
    }
    return {
        "recall": round(recall(snapshot, data, case), 4),
        "unfiltered us": round(median(plain) * 1e6),
        "filtered us": round(median(cached) * 1e6),
        **ratios,
    }


def percentile(times: Sequence[float], percent: int) -> float:
    return float(np.percentile(times, percent))


def seconds(snapshot: Snapshot, query: Vectors, only: Filter | None) -> float:
    request = Query(query, SPACE, K, filter=only)
    started = time.perf_counter()
    snapshot.search(request)
    return time.perf_counter() - started


def recall(snapshot: Snapshot, data: Data, case: Case) -> float:
    """Recall@10 among the rows that pass; 0 if any query returns too few hits."""
    judged = case.truth(data)
    found = 0
    for number, query in enumerate(data.asked[case.group, case.kind]):
        hits = snapshot.search(Query(query, SPACE, K, filter=case.filter()))
        if len(hits) != judged.count:
            return 0.0
        found += judged.found(number, [int(hit.chunk.document_id[4:]) for hit in hits])
    return found / (judged.count * len(judged.queries))


def mask_time(snapshot: Snapshot, condition: Filter) -> float:
    """Median seconds to build the bitmap of a filter over all segments, with warm columns."""
    times = []
    for _ in range(9):
        started = time.perf_counter()
        for part in snapshot.segments:
            part.segment.fields.mask(condition)
        times.append(time.perf_counter() - started)
    return median(times)


if __name__ == "__main__":
    sys.exit(main())
