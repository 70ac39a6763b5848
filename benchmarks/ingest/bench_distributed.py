"""Distributed ingest: the adoption of segments, and Ray on one machine beside an ingest without it.

    python -m benchmarks distributed [--documents N] [--segments N] [--without-ray] [--update-readme]

`adoption_seconds` is `Writer.adopt` of `segments` segments that workers have written, into a new collection, with their
checksums, the list of changes, calibration and publication. `here_seconds` is `aidre ingest` of rows with a text to
embed by the hashing embedder and a vector of 384 dimensions, `ray_seconds` the same on a local Ray cluster after
`ray_start_seconds`; `overhead` is their ratio. `here_mib` is the peak of the resident memory of the process,
`ray_mib` that of the driver and all processes of the cluster together, sampled, shared pages counted once each
process; `ray_processes` is how many there were. On one machine Ray never pays: the figures say what it costs.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from aidre.engine.collection import Store
from aidre.engine.embedding import Embedder, load_embedder
from aidre.engine.model import Chunk, Document, EmbeddingSpace, Record
from aidre.engine.segment import PendingCommit, Staging, to_columns, write_pending
from aidre.ingest.pipeline import IngestOptions, ingest
from aidre_ray import connect, ingest_distributed
from benchmarks.report.results import record

WORDS = EmbeddingSpace("words", 384, "cosine", normalized=True, provider="aidre", model="hashing")
MINE = EmbeddingSpace("mine", 384, "cosine")
COLLECTION = "rows"
FILES = 20
SAMPLE_SECONDS = 0.2
MIB = 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench_distributed", description=__doc__)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--segments", type=int, default=100)
    parser.add_argument("--without-ray", action="store_true")
    parser.add_argument("--update-readme", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        figures = adoption(root / "adoption", options.documents, options.segments)
        _write_rows(root / "rows", options.documents)
        figures |= local(root / "here", root / "rows")
        if not options.without_ray and find_spec("ray") is not None:
            figures |= on_ray(root / "there", root / "rows")
            figures["overhead"] = round(figures["ray_seconds"] / figures["here_seconds"], 2)
    record("bench_distributed", figures, readme=options.update_readme)


def adoption(folder: Path, documents: int, segments: int) -> dict[str, Any]:
    each = documents // segments
    with Store(folder).writer(COLLECTION, spaces=[MINE]) as writer:
        staging = writer.stage()
        entries = []
        for number in range(segments):
            pending = PendingCommit()
            records = [_record(number * each + row) for row in range(each)]
            encoded = writer.encode(MINE.id, _vectors(number, each))
            pending.rows.add(to_columns(records), {MINE.id: encoded}, {}, "2026-04-01T10:00:00Z")
            spaces = list(writer.spaces.values())
            entries.append(write_pending(staging, pending.rows, spaces, (), staging=Staging(staging, str(number))))
        started = time.perf_counter()
        result = writer.adopt(staging, entries)
        seconds = time.perf_counter() - started
        assert result is not None and result.documents == each * segments
    return {"segments": segments, "adopted_documents": each * segments, "adoption_seconds": round(seconds, 3)}


def local(store: Path, rows: Path) -> dict[str, Any]:
    with _peak_memory() as peak:
        started = time.perf_counter()
        summary = ingest.ingest(
            Store(store),
            COLLECTION,
            [rows],
            spaces=[WORDS, MINE],
            embedders=load_models(),
            options=IngestOptions(),
            report=lambda _: None,
        )
        seconds = time.perf_counter() - started
    return {"documents": summary.documents, "here_seconds": round(seconds, 2), "here_mib": peak["bytes"] // MIB}


def on_ray(store: Path, rows: Path) -> dict[str, Any]:
    with _peak_memory() as peak:
        begun = time.perf_counter()
        with connect("ray") as runner:
            started = time.perf_counter()
            ingest_distributed(
                Store(store),
                COLLECTION,
                [rows],
                spaces=[WORDS, MINE],
                embedders=load_models(),
                load=load_models,
                options=IngestOptions(),
                report=lambda _: None,
                runner=runner,
            )
            seconds = time.perf_counter() - started
    return {
        "workers": runner.workers,
        "ray_start_seconds": round(started - begun, 2),
        "ray_seconds": round(seconds, 2),
        "ray_mib": peak["bytes"] // MIB,
        "ray_processes": peak["processes"],
    }


def load_models() -> Mapping[str, Embedder]:
    return {WORDS.id: load_embedder(WORDS)}


def _record(number: int) -> Record:
    text = f"Row {number} of the benchmark, about rain on tents, bridges and the price of tea in {number % 997} towns."
    document = Document(f"row-{number}", text, updated_at="2026-04-01T10:00:00Z", source="rows", origin="rows.jsonl")
    return Record(document, (Chunk(f"row-{number}#chunk_1", 1, text, 0, len(text)),), number.to_bytes(16, "little"))


def _vectors(seed: int, rows: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(seed).normal(size=(rows, MINE.dimensions)).astype(np.float32)


def _write_rows(folder: Path, documents: int) -> None:
    folder.mkdir()
    each = documents // FILES
    for number in range(FILES):
        with (folder / f"{number:02d}.jsonl").open("wb") as file:
            for row, vector in enumerate(_vectors(number, each), number * each):
                text = _record(row).document.text
                vectors = {MINE.id: vector.round(5).tolist()}
                file.write(orjson.dumps({"id": f"row-{row}", "text": text, "vectors": vectors}) + b"\n")


@contextmanager
def _peak_memory() -> Iterator[dict[str, int]]:
    """The largest sum of the resident memory of this process and those that it started, and how many these were."""
    peak = {"bytes": 0, "processes": 0}
    ended = threading.Event()

    def sample() -> None:
        while not ended.is_set():
            sizes = [_resident(pid) for pid in _family(os.getpid())]
            peak["bytes"] = max(peak["bytes"], sum(sizes))
            peak["processes"] = max(peak["processes"], len(sizes))
            ended.wait(SAMPLE_SECONDS)

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield peak
    finally:
        ended.set()
        thread.join()


def _family(root: int) -> set[int]:
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


if __name__ == "__main__":
    main()
