"""The feedback of hybrid search: its parameters chosen on half of the test sets and reported on the other half.

    python -m benchmarks feedback PATH... --keep DIR [--weights W...] [--sharpness S...] [--seeds N...]

PATH and --keep are those of `bench_quality`, which embeds the sets once. Every setting of the grid is searched. Then
the one with the best mean nDCG@10 on every second set, by name, is compared with a search without feedback on the sets
in between, and the other way round, and for each set the one that is best on all others. The last line is what the
product does.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any, Final, TypeAlias
from unittest.mock import patch

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.embedding.embedder import DEFAULT_SPACE, Embedder, load_embedder
from aidre.engine.model import Query
from aidre.engine.search import hybrid
from benchmarks.harness.judged_sets import Topic, ndcg, read_set, sets_in
from benchmarks.quality.bench_quality import collection_of, ingested

TOP_K: Final = 40
"""Chunks that are fetched for ten documents."""

Setting: TypeAlias = tuple[float, float, int]
"""Weight, sharpness and seeds."""
Means: TypeAlias = Mapping[str, float]
"""The mean nDCG@10 of each set."""


@dataclass(frozen=True, slots=True)
class Searched:
    """A stored set and its questions with their vectors."""

    name: str
    snapshot: Snapshot
    topics: Sequence[Topic]
    vectors: Any

    def mean(self) -> float:
        return fmean(map(self._ndcg, self.topics, self.vectors))

    def _ndcg(self, topic: Topic, vector: Any) -> float:
        query = Query(vector, DEFAULT_SPACE.id, TOP_K, text=topic.text, mode="hybrid")
        return ndcg([hit.document_id for hit in self.snapshot.search(query)], topic.grades)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench_feedback", description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path, help="test sets, or folders of test sets")
    parser.add_argument("--keep", type=Path, required=True, help="the folder in which bench_quality keeps its stores")
    parser.add_argument("--weights", type=float, nargs="+", default=[0.1, 0.15, 0.2, 0.25])
    parser.add_argument("--sharpness", type=float, nargs="+", default=[30.0, 40.0, 60.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[5, 10])
    options = parser.parse_args(argv)
    embedder = load_embedder(DEFAULT_SPACE)
    searched = [one for path in options.paths for one in read(path, options.keep, embedder)]
    without = means(searched, (0.0, 1.0, 1))
    grid = {}
    for setting in product(options.weights, options.sharpness, options.seeds):
        grid[setting] = means(searched, setting)
        print(line(f"{setting}", grid[setting], without), flush=True)
    for text in report(grid, without):
        print(text)
    print(line("the product", {one.name: one.mean() for one in searched}, without))
    return 0


def read(path: Path, keep: Path, embedder: Embedder) -> list[Searched]:
    found = []
    for folder in sets_in(path):
        data = read_set(folder)
        snapshot = ingested(Store(keep / "store"), collection_of(data.name), data.corpus, embedder)
        vectors = embedder.embed_queries([topic.text for topic in data.topics])
        found.append(Searched(data.name, snapshot, data.topics, vectors))
    return found


def means(searched: Sequence[Searched], setting: Setting) -> Means:
    with tuned(setting):
        return {one.name: one.mean() for one in searched}


@contextmanager
def tuned(setting: Setting) -> Any:
    """Hybrid search with other parameters."""
    weight, sharpness, seeds = setting
    with patch.multiple(hybrid, _FEEDBACK_WEIGHT=weight, _FEEDBACK_SHARPNESS=sharpness, _FEEDBACK_SEEDS=seeds):
        yield


def report(grid: Mapping[Setting, Means], without: Means) -> list[str]:
    """What the best setting of some sets does to the others."""
    names = sorted(without)
    halves = names[::2], names[1::2]
    lines = []
    for chosen_on, reported in (halves, halves[::-1]):
        best = choose(grid, chosen_on)
        gains = {name: grid[best][name] for name in reported}
        lines.append(line(f"chosen on {', '.join(chosen_on)}: {best}", gains, without))
    left_out = {name: grid[choose(grid, [other for other in names if other != name])][name] for name in names}
    return [*lines, line("each set with the choice of all others", left_out, without)]


def choose(grid: Mapping[Setting, Means], names: Sequence[str]) -> Setting:
    """The setting with the best mean over some sets."""
    return max(grid, key=lambda setting: fmean(grid[setting][name] for name in names))


def line(label: str, found: Means, without: Means) -> str:
    gains = {name: value - without[name] for name, value in found.items()}
    cells = " ".join(f"{name} {gain:+.4f}" for name, gain in gains.items())
    return f"{label}: mean {fmean(found.values()):.4f} ({fmean(gains.values()):+.4f}) {cells}"


if __name__ == "__main__":
    sys.exit(main())
