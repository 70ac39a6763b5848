"""Canned results of benchmarks: a contest with peers, a curve of growth, a table of what servers answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.report import results as report


def run(
    contender: str, setting: int, turn: int, times: list[float], found: list[int], kind: str = "ind"
) -> dict[str, Any]:
    return {
        "contender": contender,
        "kind": kind,
        "setting": setting,
        "turn": turn,
        "possible": 10,
        "microseconds": times,
        "found": found,
        "anchor": [100.0, 100.0 + turn, 100.0],
        "anchor_found": [10, 10, 10],
        "anchors": {
            "0.9": [40.0, 40.0 + turn, 40.0],
            "0.95": [50.0, 50.0 + turn, 50.0],
            "0.99": [100.0, 100.0 + turn, 100.0],
        },
    }


CONTENDERS = {
    "aidre": {
        "index": "scan",
        "version": "1",
        "seconds": 4.0,
        "processor_seconds": 5.0,
        "bytes": 48_000_000,
    },
    "graph": {"index": "graph M=16", "version": "2.1", "seconds": 10.0, "processor_seconds": 19.0, "bytes": 96_000_000},
    "absent": {"problem": "not installed"},
}


RUNS = [
    run("aidre", 900, 0, [40.0, 41.0, 39.0], [9, 9, 9]),
    run("aidre", 950, 0, [50.0, 51.0, 49.0], [9, 10, 10]),
    run("aidre", 990, 0, [100.0, 101.0, 99.0], [10, 10, 10]),
    run("aidre", 990, 1, [100.0, 102.0, 99.0], [10, 10, 9]),
    run("graph", 32, 0, [150.0, 150.0, 900.0], [9, 10, 10]),
    run("graph", 32, 1, [160.0, 150.0, 170.0], [9, 10, 10]),
    run("graph", 128, 0, [300.0, 310.0, 290.0], [10, 10, 10]),
    run("graph", 128, 1, [400.0, 410.0, 390.0], [10, 10, 10]),
    run("aidre", 900, 0, [80.0, 81.0, 79.0], [9, 9, 9], "ood"),
    run("aidre", 950, 0, [90.0, 91.0, 89.0], [10, 9, 9], "ood"),
    run("aidre", 990, 0, [200.0, 201.0, 199.0], [10, 10, 9], "ood"),
    run("graph", 128, 0, [300.0, 310.0, 290.0], [10, 9, 10], "ood"),
]


CONTEST = {
    "machine": "2 cores",
    "rows": 60_000,
    "dimensions": 384,
    "k": 10,
    "contenders": CONTENDERS,
    "runs": RUNS,
    "batches": [
        {
            "contender": "aidre",
            "kind": "ood",
            "setting": 990,
            "size": 64,
            "single_us": [90.0, 100.0],
            "batched_us": [45.0, 40.0],
            "recall": 0.995,
        }
    ],
    "filtered": [{**run("graph", 64, 0, [500.0, 500.0, 500.0], [10, 10, 10]), "field": "random", "share": 0.01}],
}


def case(group: str, label: str, rows: int, scale: float) -> dict[str, Any]:
    return {
        "group": group,
        "label": label,
        "rows": rows,
        "dimensions": 384,
        "segments": 1,
        "kind": "scan",
        "queries": "ood",
        "seconds": 2.0 * scale,
        "open_seconds": 0.01,
        "bytes": 800 * rows,
        "private_bytes": 0,
        "possible": 10,
        "found": [10, 9],
        "microseconds": [[50.0 * scale, 50.0 * scale, 60.0 * scale]] * 2,
        "base": [[100.0, 100.0, 100.0]] * 2,
    }


CURVES = {
    "machine": "2 cores",
    "k": 10,
    "base": {"rows": 60_000, "dimensions": 384},
    "cases": [
        case("sizes", "10,000", 10_000, 1),
        case("sizes", "1,000,000", 1_000_000, 10),
        case("segments", "5", 1, 2),
    ],
}


SERVED = {
    "non_search_us": 31.4,
    "connections": {
        "aidre vector": {
            "1": {"rate": 4_000.0, "p50_ms": 0.2, "p99_ms": 0.5, "spread": [3_900.0, 4_100.0]},
            "8": {"rate": 8_000.0, "p50_ms": 0.9, "p99_ms": 1.5, "spread": [7_900.0, 8_100.0]},
        },
        "chroma": {"8": {"rate": 800.0, "p50_ms": 9.0, "p99_ms": 12.0, "spread": [790.0, 810.0]}},
    },
}


def written(root: Path) -> str:
    """The page that is written from the results below `root`."""
    report.write(root / "results", root)
    return (root / "benchmarks" / "REPORT.md").read_text()
