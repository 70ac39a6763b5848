"""aidre and other engines side by side on real embeddings: recall, latency, build time, bytes and filters.

    python -m benchmarks.bench_peers [--rows N] [--peers NAME ...] [--turns N] [--no-filters] [--update-readme]

Every contender runs in its own process and virtual environment (`python -m benchmarks.peers install`), on one core,
one query per call. Before each batch of its queries aidre answers the same queries with its default settings (the
anchor): a ratio compares two medians taken within about a second of each other, and its spread is the range over the
turns. Raw samples are written to benchmarks/results/ as soon as a contender is done. A contender that cannot run is
reported with the reason.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks import report
from benchmarks.metrics import cheapest, figure, points
from benchmarks.peers.client import PeerMissing, Running, running
from benchmarks.peers.protocol import ENTRIES, Below, entry
from benchmarks.real import ROWS, VECTORS, Real, blocks, real, say, synthetic
from benchmarks.truth import Truth, truth

K: Final = 10
QUERIES: Final = 500
PRODUCT: Final = 0
SATURATED_RECALL: Final = 0.9975
"""Settings deeper than the first one that reaches this recall are skipped."""

GOAL: Final = 0.99
SHARES: Final = (0.5, 0.1, 0.01, 0.001)
FIELDS: Final = {"random": "random", "near": "correlated"}
FILTER_TURNS, FILTER_QUERIES, PROBES = 3, 40, 25


@dataclass(frozen=True, slots=True)
class Data:
    """The files that every contender reads, and the arrays for the ground truth."""

    files: dict[str, Any]
    rows: NDArray[np.float32]
    queries: NDArray[np.float32]
    values: dict[str, NDArray[np.float64]]

    def truth(self, only: Below | None = None) -> Truth:
        return truth(self.rows, self.queries, K, only.mask(self.values) if only else None)


class Contest:
    """Measures contenders against one anchor and keeps the raw samples."""

    def __init__(self, data: Data, anchor: Running, turns: int, count: int) -> None:
        self.runs: list[dict[str, Any]] = []
        self.filtered: list[dict[str, Any]] = []
        self._data = data
        self._anchor = anchor
        self._turns = turns
        self._count = count
        self._truth = data.truth()
        self._filters = [
            (only, share, self._data.truth(only))
            for field in FIELDS
            for share in SHARES
            if np.count_nonzero((only := Below(field, share)).mask(data.values)) >= K
        ]

    def measure(self, peer: Running) -> None:
        """Measures all settings of a peer in turns, side by side with the anchor."""
        settings = list(peer.facts["settings"])
        for turn in range(self._turns):
            for setting in list(settings):
                run = self._side_by_side(peer, setting, turn, self._truth, count=self._count)
                self.runs.append(run)
                recall = sum(run["found"]) / (len(run["found"]) * self._truth.count)
                if turn == 0 and recall >= SATURATED_RECALL and setting != PRODUCT:
                    settings = [one for one in settings if one <= setting]
                    break

    def filter(self, peer: Running) -> None:
        """Measures each filter at the shallowest setting that reaches GOAL, else at the deepest."""
        settings: dict[str, list[int]] = {}
        for only, share, judged in self._filters:  # a stricter filter needs no less depth: resume at the last setting
            left = settings.setdefault(only.field, list(peer.facts["settings"]))
            setting = self._deep_enough(peer, left, only, judged)
            del left[: left.index(setting)]
            for turn in range(FILTER_TURNS):
                run = self._side_by_side(peer, setting, turn, judged, count=FILTER_QUERIES, only=only)
                self.filtered.append({**run, "field": only.field, "share": share})

    def _deep_enough(self, peer: Running, settings: Sequence[int], only: Below, judged: Truth) -> int:
        for setting in settings:
            asked = peer.search(setting, K, 0, PROBES, only=(only.field, only.value))
            found = [judged.found(number, rows) for number, rows in enumerate(asked["rows"])]
            if sum(found) >= GOAL * judged.count * len(found):
                return setting
        return settings[-1]

    def _side_by_side(
        self, peer: Running, setting: int, turn: int, judged: Truth, *, count: int, only: Below | None = None
    ) -> dict[str, Any]:
        first = turn * count % len(self._data.queries)
        named = (only.field, only.value) if only else None
        beside = self._anchor.search(PRODUCT, K, first, count, only=named)
        asked = peer.search(setting, K, first, count, only=named)
        return {
            "contender": peer.name,
            "setting": setting,
            "turn": turn,
            "possible": judged.count,
            "microseconds": asked["microseconds"],
            "processor_us": asked["processor_us"],
            "found": self._found(judged, first, asked["rows"]),
            "anchor": beside["microseconds"],
            "anchor_found": self._found(judged, first, beside["rows"]),
        }

    def _found(self, judged: Truth, first: int, answers: Sequence[Sequence[int]]) -> list[int]:
        total = len(self._data.queries)
        return [judged.found((first + number) % total, rows) for number, rows in enumerate(answers)]


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
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--queries", type=int, default=100, help="queries per batch")
    parser.add_argument("--no-filters", action="store_true")
    parser.add_argument("--build-seconds", type=float, default=300.0, help="skip a peer whose build takes longer")
    parser.add_argument("--synthetic", action="store_true", help="use vectors of benchmarks.data instead of real ones")
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
        running_contest = Contest(data, anchor, options.turns, options.queries)
        raw |= {"runs": running_contest.runs, "filtered": running_contest.filtered}
        for name in ["aidre", *options.peers]:
            started = time.monotonic()
            try:
                if name == anchor.name:
                    running_contest.measure(anchor)
                else:
                    with built(name, data, raw, options, cores) as peer:
                        running_contest.measure(peer)
                        if peer.facts["filters"] and not options.no_filters:
                            running_contest.filter(peer)
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
    with running(name, options.folder) as found:
        os.sched_setaffinity(0, cores[:1])
        facts = found.build(data.files, options.build_seconds)
        raw["contenders"][name] = {"index": entry(name).index, **facts}
        found.pin(cores[-1])
        yield found


def prepared(folder: Path, rows: int, base: Real | None) -> Data:
    base = base or real(min(rows, ROWS))
    found = base.rows if rows <= len(base.rows) else mixed(folder / "rows.npy", rows, base.rows)
    queries = np.ascontiguousarray(base.queries[:QUERIES])
    near = np.argsort(np.argsort(-(found @ found[0]))) / len(found)
    values = {"random": np.random.default_rng(3).random(len(found)), "near": near}
    np.save(folder / "asked.npy", queries)
    np.savez(folder / "values.npz", **values)  # type: ignore[arg-type]
    at = base.folder / VECTORS if rows <= len(base.rows) else folder / "rows.npy"
    files = {
        "rows": str(at),
        "count": len(found),
        "values": str(folder / "values.npz"),
        "queries": str(folder / "asked.npy"),
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
    print(f"{'':14}{'setting':>8}{'recall':>8}{'p50 us':>9}{'p99 us':>9}  x aidre")
    for point in found:
        at_goal = cheapest(found, point.contender, GOAL)
        mark = "*" if point is at_goal else " "
        print(
            f"{point.contender:14}{point.setting:8}{point.recall:8.4f}{figure(point.p50):>9}{figure(point.p99):>9} "
            f"{mark}{point.ratio}"
        )
    for name, facts in raw["contenders"].items():
        if "problem" in facts:
            print(f"{name:14}not measured: {facts['problem']}")
        else:
            print(f"{name:14}build {facts['seconds']:.1f} s, {facts['bytes'] / raw['rows']:.0f} bytes per vector")


if __name__ == "__main__":
    sys.exit(main())
