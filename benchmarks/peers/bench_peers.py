"""aidre and other engines side by side on real embeddings: recall, latency, build time, bytes, filters and batches.

    python -m benchmarks peers [--rows N] [--peers NAME ...] [--previous PYTHON] [--turns N] [--no-filters]
                               [--update-readme]

Queries are of two kinds (`harness.real`): `ind`, passages of documents that are not stored, and `ood`, questions.
`--previous` measures another release of aidre as one more engine: the interpreter of an environment in which it is
installed. Every contender runs in its own process and virtual environment (`python -m benchmarks.peers install`), on
one core, one query per call. Before each batch of its queries aidre answers the same queries (the anchor), by default
and asked for each recall of RECALLS: an engine at a recall is compared with aidre asked for that recall. A ratio
compares two medians taken within about a second of each other, and its spread is the range over the turns. Raw samples
are written to benchmarks/results/ as soon as a contender is done. A contender that cannot run is reported with the
reason.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.metrics import cheapest, figure, points, ratio
from benchmarks.harness.real import KINDS, ROWS, VECTORS, Kind, Real, blocks, real, say, synthetic
from benchmarks.harness.truth import Truth, truth
from benchmarks.peers.aidre import PRODUCT
from benchmarks.peers.client import PeerMissing, Running, running
from benchmarks.peers.engines.protocol import ENTRIES, Below, entry
from benchmarks.report import results as report

K: Final = 10
QUERIES: Final = 500
RECALLS: Final = (0.90, 0.95, 0.99)
"""Recalls at which engines are compared."""

SATURATED_RECALL: Final = 0.9975
"""Settings deeper than the first one that reaches this recall are skipped."""

GOAL: Final = 0.99
SHARES: Final = (0.5, 0.1, 0.01, 0.001)
FIELDS: Final = ("random", "near")
FILTER_TURNS, FILTER_QUERIES, PROBES = 3, 40, 25
BATCH: Final = 64
PREVIOUS: Final = "aidre previous"


@dataclass(frozen=True, slots=True)
class Data:
    """The files that every contender reads, and the arrays for the ground truth."""

    files: dict[str, Any]
    rows: NDArray[np.float32]
    queries: Mapping[Kind, NDArray[np.float32]]
    values: dict[str, NDArray[np.float64]]

    def truth(self, kind: Kind, only: Below | None = None) -> Truth:
        return truth(self.rows, self.queries[kind], K, only.mask(self.values) if only else None)


@dataclass(frozen=True, slots=True)
class Series:
    """One kind of queries, all rows or those that pass a filter, and the ground truth."""

    kind: Kind
    truth: Truth
    only: Below | None = None
    share: float = 1.0


class Contest:
    """Measures contenders against one anchor and keeps the raw samples."""

    def __init__(self, data: Data, anchor: Running, turns: int, count: int, *, filters: bool) -> None:
        self.runs: list[dict[str, Any]] = []
        self.filtered: list[dict[str, Any]] = []
        self.batches: list[dict[str, Any]] = []
        self._data = data
        self._anchor = anchor
        self._turns = turns
        self._count = count
        self._plain = [Series(kind, data.truth(kind)) for kind in KINDS]
        self._filters = [
            Series(kind, data.truth(kind, only), only, share)
            for kind in KINDS
            for field in FIELDS
            for share in SHARES
            if filters and np.count_nonzero((only := Below(field, share)).mask(data.values)) >= K
        ]

    def measure(self, peer: Running) -> None:
        """Measures all settings of a peer in turns, side by side with the anchor."""
        settings = {series.kind: list(peer.facts["settings"]) for series in self._plain}
        for turn in range(self._turns):
            for series in self._plain:
                for setting in list(settings[series.kind]):
                    run = self._side_by_side(peer, series, setting, turn, self._count)
                    self.runs.append(run)
                    if turn == 0 and _recall(run) >= SATURATED_RECALL and peer is not self._anchor:
                        settings[series.kind] = [one for one in settings[series.kind] if one <= setting]
                        break

    def filter(self, peer: Running) -> None:
        """Measures each filter at the shallowest setting that reaches GOAL, else at the deepest."""
        settings: dict[tuple[str, str], list[int]] = {}
        for series in self._filters:  # a stricter filter needs no less depth: resume at the last setting
            assert series.only is not None
            left = settings.setdefault((series.kind, series.only.field), list(peer.facts["settings"]))
            setting = self._deep_enough(peer, left, series)
            del left[: left.index(setting)]
            for turn in range(FILTER_TURNS):
                run = self._side_by_side(peer, series, setting, turn, FILTER_QUERIES)
                self.filtered.append({**run, "field": series.only.field, "share": series.share})

    def batch(self, peer: Running) -> None:
        """Measures batches against single queries, ours at each setting, others at the cheapest that reaches GOAL."""
        for series in self._plain:
            settings = list(peer.facts["settings"])
            if peer is not self._anchor:
                reached = cheapest(points(self.runs, K), peer.name, series.kind, GOAL)
                settings = [reached.setting if reached else settings[0]]
            for setting in settings:
                found = peer.batch(series.kind, setting, K, BATCH)
                counts = [series.truth.found(number, rows) for number, rows in enumerate(found.pop("rows"))]
                reached_recall = sum(counts) / max(1, len(counts) * series.truth.count)
                named = {"contender": peer.name, "kind": series.kind, "setting": setting, "size": BATCH}
                self.batches.append({**named, **found, "recall": reached_recall})

    def _deep_enough(self, peer: Running, settings: Sequence[int], series: Series) -> int:
        for setting in settings:
            asked = peer.search(series.kind, setting, K, 0, PROBES, only=_named(series))
            found = [series.truth.found(number, rows) for number, rows in enumerate(asked["rows"])]
            if sum(found) >= GOAL * series.truth.count * len(found):
                return setting
        return settings[-1]

    def _side_by_side(self, peer: Running, series: Series, setting: int, turn: int, count: int) -> dict[str, Any]:
        first = turn * count % len(self._data.queries[series.kind])
        beside = self._anchor.search(series.kind, PRODUCT, K, first, count, only=_named(series))
        anchors = {} if series.only else self._anchors(series.kind, first, count)
        asked = peer.search(series.kind, setting, K, first, count, only=_named(series))
        return {
            "contender": peer.name,
            "kind": series.kind,
            "setting": setting,
            "turn": turn,
            "possible": series.truth.count,
            "microseconds": asked["microseconds"],
            "processor_us": asked["processor_us"],
            "found": self._found(series, first, asked["rows"]),
            "anchor": beside["microseconds"],
            "anchor_processor_us": beside["processor_us"],
            "anchor_found": self._found(series, first, beside["rows"]),
            "anchors": anchors,
        }

    def _anchors(self, kind: Kind, first: int, count: int) -> dict[str, list[float]]:
        """Microseconds of the same queries, asked for each recall."""
        settings = {f"{recall:g}": round(1000 * recall) for recall in RECALLS}
        return {
            name: self._anchor.search(kind, setting, K, first, count)["microseconds"]
            for name, setting in settings.items()
        }

    def _found(self, series: Series, first: int, answers: Sequence[Sequence[int]]) -> list[int]:
        total = len(self._data.queries[series.kind])
        return [series.truth.found((first + number) % total, rows) for number, rows in enumerate(answers)]


def _named(series: Series) -> tuple[str, float] | None:
    return (series.only.field, series.only.value) if series.only else None


def _recall(run: Mapping[str, Any]) -> float:
    found: list[int] = run["found"]
    return sum(found) / (len(found) * int(run["possible"]))


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments(argv)
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[:1])  # reserve the last core for the contender
    try:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            raw = contest(Path(folder).resolve(), options, cores)
    except PeerMissing as reason:
        print(f"bench_peers: aidre failed to run: {reason}", file=sys.stderr)
        return 1
    finally:
        os.sched_setaffinity(0, cores)
    show(raw)
    if options.update_readme:
        report.write()
    return 0


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench_peers", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    names = [one.name for one in ENTRIES if one.environment]
    parser.add_argument("--peers", nargs="*", default=names, metavar="NAME", help=f"choose from: {', '.join(names)}")
    parser.add_argument("--previous", type=Path, metavar="PYTHON", help="the interpreter of another release of aidre")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--queries", type=int, default=100, help="queries per batch")
    parser.add_argument("--no-filters", action="store_true")
    parser.add_argument("--build-seconds", type=float, default=300.0, help="skip a peer whose build takes longer")
    parser.add_argument("--synthetic", action="store_true", help="synthetic vectors instead of real embeddings")
    parser.add_argument("--folder", type=Path, help="parent of the temporary files")
    parser.add_argument("--update-readme", action="store_true", help="write benchmarks/REPORT.md and README.md")
    options = parser.parse_args(argv)
    for unknown in set(options.peers) - {one.name for one in ENTRIES}:
        parser.error(f"no peer is named {unknown!r}; choose from: {', '.join(names)}")
    return options


def contest(folder: Path, options: argparse.Namespace, cores: Sequence[int]) -> dict[str, Any]:
    data = prepared(folder, options.rows, synthetic(folder / "made", options.rows) if options.synthetic else None)
    raw: dict[str, Any] = {"rows": len(data.rows), "dimensions": data.rows.shape[1], "k": K, "contenders": {}}
    with built("aidre", data, raw, options, cores) as anchor:
        found = Contest(data, anchor, options.turns, options.queries, filters=not options.no_filters)
        raw |= {"runs": found.runs, "filtered": found.filtered, "batches": found.batches}
        for name in ["aidre", *([PREVIOUS] if options.previous else []), *options.peers]:
            started = time.monotonic()
            try:
                if name == anchor.name:
                    found.measure(anchor)
                    found.batch(anchor)
                else:
                    with built(name, data, raw, options, cores) as peer:
                        found.measure(peer)
                        if peer.facts["filters"]:
                            found.filter(peer)
                        if peer.facts["batches"]:
                            found.batch(peer)
            except PeerMissing as reason:
                raw["contenders"].setdefault(name, {})["problem"] = str(reason)
                say(f"{name}: not measured: {reason}")
            report.keep(f"peers_{len(data.rows)}", raw)
            say(f"{name}: {time.monotonic() - started:.0f} s")
    return raw


@contextmanager
def built(
    name: str, data: Data, raw: dict[str, Any], options: argparse.Namespace, cores: Sequence[int]
) -> Iterator[Running]:
    """A contender with a built index, pinned to the last core."""
    os.sched_setaffinity(0, cores)  # inherited by the process: a build may use all cores
    with running(name, options.folder, options.previous if name == PREVIOUS else None) as found:
        os.sched_setaffinity(0, cores[:1])
        facts = found.build(data.files, options.build_seconds)
        raw["contenders"][name] = {"index": entry(name).index, **facts}
        found.pin(cores[-1])
        yield found


def prepared(folder: Path, rows: int, base: Real | None) -> Data:
    base = base or real(min(rows, ROWS))
    found = base.rows if rows <= len(base.rows) else mixed(folder / "rows.npy", rows, base.rows)
    queries = {kind: np.ascontiguousarray(base.queries(kind)[:QUERIES]) for kind in KINDS}
    near = np.argsort(np.argsort(-(found @ found[0]))) / len(found)
    values = {"random": np.random.default_rng(3).random(len(found)), "near": near}
    asked = {kind: folder / f"{kind}.npy" for kind in KINDS}
    for kind, path in asked.items():
        np.save(path, queries[kind])
    np.savez(folder / "values.npz", **values)  # type: ignore[arg-type]
    at = base.folder / VECTORS if rows <= len(base.rows) else folder / "rows.npy"
    files = {
        "rows": str(at),
        "count": len(found),
        "values": str(folder / "values.npz"),
        "queries": {kind: str(path) for kind, path in asked.items()},
    }
    return Data(files, found, queries, values)


def mixed(path: Path, rows: int, base: NDArray[np.float32]) -> NDArray[np.float32]:
    """Writes real rows and mixes of them to a mapped file, block by block."""
    found = np.lib.format.open_memmap(path, "w+", np.float32, (rows, base.shape[1]))
    first = 0
    for block in blocks(rows, base):
        found[first : first + len(block)] = block
        first += len(block)
    return found


def show(raw: dict[str, Any]) -> None:
    found = points(raw["runs"], raw["k"])
    print(f"{'':22}{'setting':>8}{'recall':>8}{'p50 us':>9}{'p99 us':>9}  x aidre")
    for point in found:
        at_goal = cheapest(found, point.contender, point.kind, GOAL)
        mark = "*" if point is at_goal else " "
        print(
            f"{point.contender:16}{point.kind:6}{point.setting:8}{point.recall:8.4f}{figure(point.p50):>9}"
            f"{figure(point.p99):>9} {mark}{point.ratio}"
        )
    for run in raw["batches"]:
        print(
            f"{run['contender']:16}{run['kind']:6}batches of {run['size']}: {figure(median(run['batched_us']))} us a "
            f"query, x {ratio(run['single_us'], run['batched_us'])} of single ones, recall {run['recall']:.4f}"
        )
    for name, facts in raw["contenders"].items():
        if "problem" in facts:
            print(f"{name:16}not measured: {facts['problem']}")
        else:
            print(f"{name:16}build {facts['seconds']:.1f} s, {facts['bytes'] / raw['rows']:.0f} bytes per vector")


if __name__ == "__main__":
    sys.exit(main())
