"""The memory that ingest and compaction take, by the number of rows.

    python -m benchmarks memory [--rows N ...] [--of writer ingest compact] [--dimensions D] [--folder DIR]

`writer` adds all rows in one writer of the library, 100,000 a call, and commits once; `ingest` is `aidre ingest` of a
Parquet file; `compact` rewrites a store whose writer committed each 100,000. Each is a process of its own, without the
workers that it starts. Anonymous memory and dirty pages of mapped files are those of /proc/PID/smaps, at the peak of
looks a fifth of a second apart; the kernel can drop all other pages. What the program itself holds is a part of it: the
table and the vectors of one call, 200 MB. The processor time is that of the process and of its workers. A size replaces
the figures of that size alone.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.data import blocks, rows_of, write_parquet
from benchmarks.report import results

KINDS: Final = ("writer", "ingest", "compact")
NAME: Final = "bench_memory"
PEAKS: Final = "peaks in one process, and what is left on disk"
COLLECTION: Final = "rows"
CALL_ROWS: Final = 100_000
"""Rows of one call of `add_all`, and of one commit of the store that is compacted."""
LOOK_SECONDS: Final = 0.2
_MAPPED = re.compile(r"^[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \S+\s*(/.*)?$")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench_memory", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000])
    parser.add_argument("--of", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--folder", type=Path, help="parent of the temporary folder")
    parser.add_argument("--update-readme", action="store_true", help="write the figures into REPORT.md")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.child:
        kind, folder = options.child
        act(kind, Path(folder), options.rows[0], options.dimensions)
        return 0
    for rows in options.rows:
        measured: dict[str, Any] = {}
        for kind in options.of:
            with tempfile.TemporaryDirectory(dir=options.folder) as folder:
                measured[kind] = measure(kind, Path(folder), rows, options.dimensions)
                print(json.dumps({"of": kind, "rows": rows, **measured[kind]}), flush=True)
        results.record(NAME, beside_stored(rows, measured, options.dimensions), readme=options.update_readme)
    return 0


def beside_stored(rows: int, measured: Mapping[str, Any], dimensions: int) -> dict[str, Any]:
    """The figures of a size, and those of other sizes that are stored; sizes in their order."""
    stored: dict[str, Any] = {}
    with suppress(FileNotFoundError):
        former = json.loads((results.RESULTS / f"{NAME}.json").read_bytes())
        stored = former[PEAKS] if former.get("dimensions") == dimensions else {}
    stored[f"{rows:,} rows"] = {**stored.get(f"{rows:,} rows", {}), **measured}
    return {"dimensions": dimensions, PEAKS: dict(sorted(stored.items(), key=lambda one: rows_in(one[0])))}


def rows_in(title: str) -> int:
    return int(title.partition(" ")[0].replace(",", ""))


def measure(kind: str, folder: Path, rows: int, dimensions: int) -> dict[str, Any]:
    """The peaks of one process in MB, its seconds of processor time, and the bytes on disk afterwards."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.ingest.bench_memory",
        "--rows",
        str(rows),
        "--dimensions",
        str(dimensions),
    ]
    if kind == "ingest":
        path = folder / "rows.parquet"
        write_parquet(path, rows, dimensions, "given")
        space = f'[[spaces]]\nid = "given"\ndimensions = {dimensions}\ndistance = "cosine"\n'
        (folder / "aidre.toml").write_text(f'{space}[collections.{COLLECTION}]\nspaces = ["given"]\n')
        store = ["--store", str(folder / "store"), "--collection", COLLECTION, "--config", str(folder / "aidre.toml")]
        command = [sys.executable, "-m", "aidre", "ingest", str(path), *store]
    else:
        command += ["--child", kind, str(folder)]
        if kind == "compact":
            subprocess.run(command, check=True)
            command = [sys.executable, "-m", "aidre", "compact", "--store", str(folder / "store")]
    return watched(command, folder / "store")


def act(kind: str, folder: Path, rows: int, dimensions: int) -> None:
    """What a child process does."""
    import aidre

    space = aidre.EmbeddingSpace("given", dimensions, "cosine")
    collection = aidre.open(folder / "store").collection(COLLECTION, space=space)
    with collection.writer() as writer:
        for first, vectors in calls(rows, dimensions):
            writer.add_all(rows_of(first, len(vectors)), vectors=vectors)
            del vectors
            if kind == "compact":  # the store that is compacted afterwards
                writer.commit()


def calls(rows: int, dimensions: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """The vectors of each call, with the number of the first row. Nothing of a call is held beyond it."""
    generated = blocks(rows, dimensions)
    for first in range(0, rows, CALL_ROWS):
        vectors = np.empty((min(CALL_ROWS, rows - first), dimensions), np.float32)
        filled = 0
        while filled < len(vectors):
            block = next(generated)
            vectors[filled : filled + len(block)] = block
            filled += len(block)
        del block
        yield first, vectors
        del vectors


def watched(command: Sequence[str], store: Path) -> dict[str, Any]:
    """Runs a command and looks at its memory while it runs."""
    anonymous = dirty = resident = together = 0
    before = processor_seconds()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            own, mapped, whole = looked_at(process.pid)
            anonymous, dirty = max(anonymous, own), max(dirty, mapped)
            resident, together = max(resident, whole), max(together, own + mapped)
            time.sleep(LOOK_SECONDS)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return {
        "anonymous_mb": round(anonymous / 1e6),
        "dirty_mapped_mb": round(dirty / 1e6),
        "both_mb": round(together / 1e6),
        "resident_mb": round(resident / 1e6),
        "cpu_s": round(processor_seconds() - before, 1),
        "disk_mb": round(sum(path.stat().st_size for path in store.rglob("*") if path.is_file()) / 1e6),
    }


def processor_seconds() -> float:
    """Those of all processes that this one started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def looked_at(process: int) -> tuple[int, int, int]:
    """Anonymous bytes, dirty bytes of mapped files, and all resident bytes of a process; 0 when it has ended."""
    own = mapped = whole = 0
    is_file = False
    with suppress(OSError), Path(f"/proc/{process}/smaps").open(encoding="utf-8") as lines:
        for line in lines:
            name, _, value = line.partition(":")
            if name in ("Rss", "Anonymous", "Shared_Dirty", "Private_Dirty"):
                size = 1024 * int(value.split()[0])
                whole += size if name == "Rss" else 0
                own += size if name == "Anonymous" else 0
                mapped += size if is_file and name.endswith("_Dirty") else 0
            elif found := _MAPPED.match(line):
                is_file = found[1] is not None
    return own, mapped, whole


if __name__ == "__main__":
    sys.exit(main())
