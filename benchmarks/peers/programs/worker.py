"""Runs one program in the environment of its library, and prints what it took as JSON.

    python -m benchmarks.peers.programs.worker add|search NAME FOLDER DATA.npz

It imports nothing of aidre but what the program of aidre does.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

K = 10
BELOW = 10
"""Of the prices from 0 to 99: a tenth of the rows."""


def add(program: Any, folder: Path, data: Any) -> dict[str, Any]:
    ids, texts = [f"d{number}" for number in range(len(data["rows"]))], data["texts"].tolist()
    prices, rows = data["prices"].tolist(), np.ascontiguousarray(data["rows"])
    before, started = _peak(), time.perf_counter()
    program.add(folder, ids, texts, prices, rows)
    return {"add_seconds": time.perf_counter() - started, "peak_mb": _peak(), "before_mb": before}


def search(program: Any, folder: Path, data: Any) -> dict[str, Any]:
    queries = data["queries"]
    started = time.perf_counter()
    find = program.opened(folder)
    find(queries[0], K, None)
    first = time.perf_counter() - started
    found, seconds = timed(find, queries, None)
    answer = {"first_seconds": first, "found": found, "seconds": seconds, "peak_mb": _peak()}
    if getattr(program, "FILTERS", True):
        answer["filtered"], answer["filtered_seconds"] = timed(find, queries[: len(queries) // 4], BELOW)
    return answer


def timed(find: Any, queries: Any, below: int | None) -> tuple[list[list[str]], list[float]]:
    found, seconds = [], []
    for query in queries:
        began = time.perf_counter()
        hits = find(query, K, below)
        seconds.append(time.perf_counter() - began)
        found.append(list(hits))
    return found, seconds


def _peak() -> int:
    """The largest resident set of this program so far, in MB; `getrusage` would count that of its parent, too."""
    status = Path("/proc/self/status").read_text("utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


def main(arguments: list[str]) -> int:
    step, name, folder, data = arguments
    program = importlib.import_module(f"benchmarks.peers.programs.{name}_program")
    with np.load(data) as loaded:
        answer = {"add": add, "search": search}[step](program, Path(folder), loaded)
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
