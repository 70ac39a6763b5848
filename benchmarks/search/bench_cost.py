"""Cost of searching one segment by each method: the source of the constants in engine/search/cost.py.

    python -m benchmarks cost [--rows N] [--dimensions D ...] [--rounds N]

All methods take turns on one thread. A sample is the lower quartile of the processor time of single queries, so that
a busy moment of the machine does not count. The fit minimizes the relative error.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidre.engine.index.vectors.distance import Bitmap, VectorColumn, score_rows
from aidre.engine.index.vectors.quantizer import (
    MAX_TRAINING_ROWS,
    code_sizes,
    quantize_rows,
    row_blocks,
    train_codebook,
)
from aidre.engine.index.vectors.scan import PreparedScan, ScanGroup
from aidre.engine.index.vectors.vector_index import VectorIndex
from aidre.engine.model import EmbeddingSpace, Precision
from benchmarks.harness.data import queries, vectors
from benchmarks.report.results import record

SELECTIVITIES = (0.5, 0.1, 0.03, 0.01, 0.003, 0.001)
DEPTHS = (100, 400, 1_600)
KEPT = 26
"""Results of an exact search: k = 10, and slack for the tie-break."""

MAX_GATHERED_BYTES = 1 << 24
"""Larger selections are not measured with `gather`."""

PRECISIONS: tuple[Precision, ...] = ("float16", "float32")
FEATURES = {
    "exact": ("call", "bytes"),
    "masked": ("call", "total", "bytes"),
    "gather": ("call", "rows", "bytes"),
    "scan": ("call", "codes", "depth"),
    "masked scan": ("call", "codes", "depth"),
}


@dataclass(frozen=True, slots=True)
class Method:
    """A search method with the amount of data that it reads (`features`, in the order of FEATURES)."""

    kind: str
    features: tuple[float, ...]
    search: Callable[[NDArray[np.float32]], object]


@dataclass(frozen=True, slots=True)
class Sample:
    """Processor time of one method, in microseconds."""

    kind: str
    features: tuple[float, ...]
    microseconds: float


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench_cost", description=__doc__)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--dimensions", type=int, nargs="+", default=[64, 384, 1536])
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args(argv)
    samples: list[Sample] = []
    for dimensions in options.dimensions:
        for precision in PRECISIONS:
            samples += measured(options.rows, dimensions, precision, options.rounds)
    fitted = {kind: fit([one for one in samples if one.kind == kind]) for kind in FEATURES}
    print(json.dumps(fitted))
    record("bench_cost", {"rows": options.rows, **fitted})
    return 0


def measured(rows: int, dimensions: int, precision: Precision, rounds: int) -> list[Sample]:
    space = EmbeddingSpace("v", dimensions, "cosine", normalized=True, precision=precision)
    searched = list(methods(space, vectors(rows, dimensions).astype(precision)))
    seconds = np.zeros((rounds, len(searched)))
    for turn, query in enumerate(queries(rounds, dimensions)[:, None, :]):
        for column, method in enumerate(searched):
            started = time.thread_time()
            method.search(query)
            seconds[turn, column] = time.thread_time() - started
    quartiles = np.percentile(seconds[1:], 25, axis=0) * 1e6  # the first turn is warm-up
    samples = [Sample(method.kind, method.features, float(us)) for method, us in zip(searched, quartiles, strict=True)]
    for sample in samples:
        line = f"{dimensions:5d} {precision} {sample.kind:12s} {sample.features} {sample.microseconds:9.1f}"
        print(line, file=sys.stderr)
    return samples


def compare(column: VectorColumn, bits: Bitmap | None, query: NDArray[np.float32]) -> object:
    return column.search(query, KEPT, bits)


def gather(column: VectorColumn, rows: NDArray[np.int64], query: NDArray[np.float32]) -> object:
    return score_rows([(column, rows)], query, 10)


def bits_of(mask: NDArray[np.bool_]) -> Bitmap:
    return Bitmap(np.packbits(mask, bitorder="little"))


def scanned(one: PreparedScan, depth: int, query: NDArray[np.float32]) -> object:
    return one.search(query, depth)


def methods(space: EmbeddingSpace, codes: NDArray[Any]) -> Iterator[Method]:
    total, width = len(codes), codes.itemsize * codes.shape[1]
    column = VectorColumn(space, codes)
    for rows in (256, 1_024, 4_096, 16_384, total):
        yield Method("exact", (1, rows * width), partial(compare, VectorColumn(space, codes[:rows]), None))
    rng = np.random.default_rng(1)
    masks = [rng.random(total) < share for share in SELECTIVITIES]
    for mask in masks:
        count = int(mask.sum())
        yield Method("masked", (1, total, count * width), partial(compare, column, bits_of(mask)))
        if count * width <= MAX_GATHERED_BYTES:
            yield Method("gather", (1, count, count * width), partial(gather, column, np.flatnonzero(mask)))
    sample = codes[np.sort(rng.choice(total, min(total, MAX_TRAINING_ROWS), replace=False))]
    for size in code_sizes(space.dimensions):
        sweep = ScanGroup([VectorIndex(space, quantize_rows(train_codebook(space, sample, size), row_blocks(codes)))])
        for depth in DEPTHS:
            features = (1, total * size, depth)
            yield Method("scan", features, partial(scanned, PreparedScan(sweep), depth))
            for mask in masks:
                allowed = min(depth, int(mask.sum()))
                yield Method(
                    "masked scan", features, partial(scanned, PreparedScan(sweep, bitmap=bits_of(mask)), allowed)
                )


def fit(samples: Sequence[Sample]) -> dict[str, float]:
    """Non-negative cost per feature in microseconds; `least` and `most`: extremes of predicted over measured time."""
    names = FEATURES[samples[0].kind]
    features = np.array([one.features for one in samples], np.float64)
    times = np.array([one.microseconds for one in samples])
    used = list(range(len(names)))
    while True:
        weights = np.linalg.lstsq(features[:, used] / times[:, None], np.ones(len(times)), rcond=None)[0]
        if (weights >= 0).all():
            break
        used.pop(int(np.argmin(weights)))
    off = features[:, used] @ weights / times
    fitted = {names[place]: float(f"{weight:.3g}") for place, weight in zip(used, weights, strict=True)}
    return {**fitted, "least": round(float(off.min()), 2), "most": round(float(off.max()), 2)}


if __name__ == "__main__":
    sys.exit(main())
