"""The process of one contender: reads commands as JSON lines, writes answers as JSON lines.

    python -m benchmarks.peers.worker NAME

Runs in the environment of the contender and imports only `protocol`. Output of libraries is redirected to standard
error. After the build, all threads of this process and of its children can be pinned to one core.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import metadata
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.engines.protocol import ENTRIES, Answer, Below, Contender, Values, Vectors, entry
from benchmarks.peers.words import WordsWorker

WARM_UP = 10
BATCHES = 4
"""Batches of different queries."""

MIN_QUERIES = 5
"""Queries of a batch that run even beyond the time limit."""


class Worker:
    def __init__(self, name: str) -> None:
        self._entry = entry(name)
        self._contender: Contender = self._entry.make()
        self._queries: dict[str, Vectors] = {}
        self._answers: dict[tuple[Any, ...], Answer] = {}
        self._folder = str(Path.cwd())

    def build(self, rows: str, count: int, values: str, queries: dict[str, str], folder: str) -> dict[str, Any]:
        # Load all rows into memory first: the build time excludes reading the file.
        loaded = np.ascontiguousarray(np.load(rows, mmap_mode="r")[:count])
        with np.load(values) as archive:
            fields: Values = {name: archive[name][:count] for name in archive.files}
        self._queries = {kind: np.load(path) for kind, path in queries.items()}
        before = private_bytes()
        started, used = time.perf_counter(), processor_seconds(self._folder)
        self._contender.build(loaded, fields, Path(folder))
        seconds, used = time.perf_counter() - started, processor_seconds(self._folder) - used
        return {
            "version": metadata.version(self._entry.distribution),
            "seconds": seconds,
            "processor_seconds": used,
            "bytes": self._contender.size(),
            "private_bytes": private_bytes() - before,
            "settings": list(self._contender.settings),
            "filters": self._contender.filters,
            "batches": hasattr(self._contender, "answer_all"),
            **getattr(self._contender, "facts", {}),
        }

    def pin(self, core: int) -> dict[str, Any]:
        """Pins all threads of this process and of its children; new threads inherit the affinity."""
        for task in tasks(self._folder):
            os.sched_setaffinity(task, {core})
        return {}

    def search(
        self, *, kind: str, setting: int, k: int, first: int, count: int, seconds: float, only: list[Any] | None
    ) -> dict[str, Any]:
        """Runs single queries of one kind in sequence, for at most `seconds`."""
        queries = self._queries[kind]
        key = (setting, k, *(only or ()))
        answer = self._answers.get(key)
        if answer is None:
            answer = self._answers[key] = self._contender.answer(setting, k, Below(*only) if only else None)
            warm_up(answer, queries, seconds / 4)
        chosen = [queries[(first + number) % len(queries)] for number in range(count)]
        end = time.perf_counter() + seconds
        microseconds: list[float] = []
        answered: list[Any] = []
        used = time.process_time()
        for query in chosen:
            started = time.perf_counter()
            answered.append(answer(query))
            now = time.perf_counter()
            microseconds.append(round((now - started) * 1e6, 1))
            if now > end and len(microseconds) >= MIN_QUERIES:
                break
        used = time.process_time() - used
        rows = [list(map(int, self._contender.rows_of(one))) for one in answered]
        return {"microseconds": microseconds, "rows": rows, "processor_us": round(used * 1e6 / len(answered), 1)}

    def batch(self, *, kind: str, setting: int, k: int, size: int, seconds: float) -> dict[str, Any]:
        """Runs the same queries one by one and in batches of `size`, in turns, until `seconds` have passed.

        Returns the processor time per query of each turn, and the rows of the queries in batches.
        """
        queries = self._queries[kind][: min(BATCHES, len(self._queries[kind]) // size) * size]
        answer, answer_all = self._contender.answer(setting, k, None), self._contender.answer_all(setting, k)  # type: ignore[attr-defined]
        batches = [queries[first : first + size] for first in range(0, len(queries), size)]
        warm_up(answer, queries, seconds / 8)
        answered = [one for batch in batches for one in answer_all(batch)]
        single: list[float] = []
        batched: list[float] = []
        end = time.perf_counter() + seconds
        for batch in cycle(batches):
            started = time.process_time()
            for query in batch:
                answer(query)
            middle = time.process_time()
            answer_all(batch)
            single.append((middle - started) * 1e6 / len(batch))
            batched.append((time.process_time() - middle) * 1e6 / len(batch))
            if time.perf_counter() > end:
                break
        rows = [list(map(int, self._contender.rows_of(one))) for one in answered]
        return {"single_us": single, "batched_us": batched, "rows": rows}

    def close(self) -> dict[str, Any]:
        self._contender.close()
        return {}


def warm_up(answer: Answer, queries: NDArray[np.float32], seconds: float) -> None:
    end = time.perf_counter() + seconds
    for query in queries[:WARM_UP]:
        answer(query)
        if time.perf_counter() > end:
            return


def private_bytes() -> int:
    """Anonymous memory of this process."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Anonymous:"))


def processor_seconds(folder: str) -> float:
    """Processor time of the processes of `tasks` so far, ended threads included."""
    ticks = 0
    for process in family_of(folder):
        with suppress(OSError):
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def tasks(folder: str) -> Iterator[int]:
    """The threads of the processes of a contender."""
    for process in family_of(folder):
        for task in Path(f"/proc/{process}/task").glob("*"):
            yield int(task.name)


def family_of(folder: str) -> set[int]:
    """This process, servers with the folder in their command line, and all their descendants."""
    parents: dict[int, int] = {}
    family = {os.getpid()}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process has ended
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if folder.encode() in (path / "cmdline").read_bytes():
                family.add(int(path.name))
    while grown := {child for child, parent in parents.items() if parent in family} - family:
        family |= grown
    return family


def main() -> int:
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    try:
        name = sys.argv[1]
        worker = Worker(name) if name in {one.name for one in ENTRIES} else WordsWorker(name)
    except ImportError as error:
        print(json.dumps({"problem": f"not installed: {error}"}), file=out)
        return 1
    print(json.dumps({"ready": True}), file=out)
    for line in sys.stdin:
        command = json.loads(line)
        do: Callable[..., dict[str, Any]] = getattr(worker, command.pop("do"))
        try:
            found = do(**command)
        except Exception as error:  # any library may fail: report it and continue
            found = {"problem": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
            if os.environ.get("AIDRE_TRACEBACK"):
                raise
        print(json.dumps(found), file=out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
