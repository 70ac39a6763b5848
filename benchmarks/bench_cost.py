"""What one search of one segment costs by each means: the figures from which engine/cost.py has its constants.

    python -m benchmarks.bench_cost [--rows N] [--dimensions D ...] [--rounds N]

Every means is asked in turn, round after round, on one thread. A figure is the lower quartile of the processor time
of its single queries, so that a busy moment of the machine does not count. What is fitted is the relative error.
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

from aidre.engine.codebook import TRAIN_ROWS, blocks_of, code_sizes, fill, train
from aidre.engine.index import Scan
from aidre.engine.kernel import Bits, Column, nearest
from aidre.engine.model import EmbeddingSpace, Precision
from aidre.engine.passes import Pass, Sweep
from benchmarks.data import queries, vectors
from benchmarks.report import record

SELECTIVITIES = (0.5, 0.1, 0.03, 0.01, 0.003, 0.001)
DEPTHS = (100, 400, 1_600)
KEPT = 26
"""Results of an exact search: ten and the slack that ties need."""

GATHERED_BYTES = 1 << 24
PRECISIONS: tuple[Precision, ...] = ("float16", "float32")
FEATURES = {
    "exact": ("call", "bytes"),
    "masked": ("call", "total", "bytes"),
    "gather": ("call", "rows", "bytes"),
    "scan": ("call", "codes", "depth"),
    "masked scan": ("call", "codes", "depth"),
}


@dataclass(frozen=True, slots=True)
class Means:
    """One way to search, and what it has to go over."""

    kind: str
    features: tuple[float, ...]
    search: Callable[[NDArray[np.float32]], object]


@dataclass(frozen=True, slots=True)
class Sample:
    """What one means took, in microseconds of processor time."""

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
    means = list(all_means(space, vectors(rows, dimensions).astype(precision)))
    seconds = np.zeros((rounds, len(means)))
    for turn, query in enumerate(queries(rounds, dimensions)[:, None, :]):
        for place, one in enumerate(means):
            started = time.thread_time()
            one.search(query)
            seconds[turn, place] = time.thread_time() - started
    quartiles = np.percentile(seconds[1:], 25, axis=0) * 1e6  # the first turn warms the caches
    samples = [Sample(one.kind, one.features, float(us)) for one, us in zip(means, quartiles, strict=True)]
    for taken in samples:
        print(
            f"{dimensions:5d} {precision} {taken.kind:12s} {taken.features} {taken.microseconds:9.1f}", file=sys.stderr
        )
    return samples


def compare(column: Column, bits: Bits | None, query: NDArray[np.float32]) -> object:
    return column.search(query, KEPT, bits)


def gather(column: Column, rows: NDArray[np.int64], query: NDArray[np.float32]) -> object:
    return nearest([(column, rows)], query, 10)


def bits_of(mask: NDArray[np.bool_]) -> Bits:
    return Bits(np.packbits(mask, bitorder="little"))


def scanned(one: Pass, depth: int, query: NDArray[np.float32]) -> object:
    return one.search(query, depth)


def all_means(space: EmbeddingSpace, codes: NDArray[Any]) -> Iterator[Means]:
    total, width = len(codes), codes.itemsize * codes.shape[1]
    column = Column(space, codes)
    for rows in (256, 1_024, 4_096, 16_384, total):
        yield Means("exact", (1, rows * width), partial(compare, Column(space, codes[:rows]), None))
    rng = np.random.default_rng(1)
    masks = [rng.random(total) < share for share in SELECTIVITIES]
    for mask in masks:
        count = int(mask.sum())
        yield Means("masked", (1, total, count * width), partial(compare, column, bits_of(mask)))
        if count * width <= GATHERED_BYTES:
            yield Means("gather", (1, count, count * width), partial(gather, column, np.flatnonzero(mask)))
    sample = codes[np.sort(rng.choice(total, min(total, TRAIN_ROWS), replace=False))]
    for size in code_sizes(space.dimensions):
        sweep = Sweep([Scan(space, fill(train(space, sample, size), blocks_of(codes)))])
        for depth in DEPTHS:
            features = (1, total * size, depth)
            yield Means("scan", features, partial(scanned, Pass(sweep), depth))
            for mask in masks:
                allowed = min(depth, int(mask.sum()))
                yield Means("masked scan", features, partial(scanned, Pass(sweep, bits=bits_of(mask)), allowed))


def fit(samples: Sequence[Sample]) -> dict[str, float]:
    """Microseconds for one of each feature, none negative, and how far off the model is: lowest and highest ratio."""
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
