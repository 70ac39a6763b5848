"""What a chunk takes on disk, by kind of file, and which pages searches touch: the inputs of `report.capacity`.

    python -m benchmarks footprint [--rows N ...] [--queries N] [--folder DIR] [--update-readme]

The chunks are those of `bench_text`: text of real passages, vectors of 384 dimensions, one space. One commit of fifty
documents follows the bulk load. Searches are dense, k = 10, single, on one thread. They are asked three times: warm;
directly after the store is opened, with its files in the page cache; and after the files are evicted from it. Each
round is a process of its own. The resident bytes are those of the mapped files after the last round, as
/proc/self/smaps tells them: what the searches touched, and what the kernel read around it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.embedding.embedder import DEFAULT_SPACE, Embedder, load_embedder
from aidre.engine.model import Query
from aidre.ingest.pipeline.batching import COMMIT_BYTES
from benchmarks.harness.equal_passages import texts
from benchmarks.report.results import record
from benchmarks.text.bench_text import (
    BLOCK,
    COLLECTION,
    PASSAGES,
    TOP_K,
    Material,
    material,
    milliseconds,
    records_of,
    vectors_of,
)

SMALL_COMMIT: Final = 50
"""Documents of the commit whose files are counted."""

FIRST: Final = 20
"""Queries after opening or eviction whose time counts as that of a cold start."""

_MAPPED = re.compile(r"^[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \S+\s+(/.*)$")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench_footprint", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000])
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--folder", type=Path, help="parent of the temporary folder")
    parser.add_argument("--update-readme", action="store_true", help="write the figures into REPORT.md")
    options = parser.parse_args(argv)
    embedder = load_embedder(DEFAULT_SPACE)
    passages = list(islice(texts(None), PASSAGES))
    made_of = material(passages, embedder.embed_documents(passages))
    for rows in options.rows:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            figures = measure(Path(folder), embedder, made_of, rows, options.queries)
        print(json.dumps(figures))
        name = "bench_footprint" if rows <= 10_000 else f"bench_footprint_{rows}"
        record(name, figures, readme=options.update_readme)
    return 0


def measure(folder: Path, embedder: Embedder, made_of: Material, rows: int, count: int) -> dict[str, Any]:
    started = time.perf_counter()
    text_bytes = build(folder, embedder, made_of, rows)
    built = time.perf_counter() - started
    calibration = Store(folder).open(COLLECTION).space(embedder.space.id).calibration
    asked = [Query(vector, embedder.space.id, TOP_K) for vector in vectors_of(made_of, rows + BLOCK, count)[1]]
    warm, _ = alone(folder, asked)
    opened, _ = alone(folder, asked[:FIRST])
    evict(folder)
    evicted, resident = alone(folder, asked)
    before = sizes(folder)
    added = commit_more(folder, embedder, made_of, rows)
    return {
        "chunks": rows,
        "dimensions": embedder.space.dimensions,
        "text_bytes_a_chunk": round(text_bytes / rows, 1),
        "segments": len(Store(folder).open(COLLECTION).segments) - 1,
        "seconds_to_build": round(built, 1),
        "method": calibration.kind if calibration else "exact",
        "codes_a_vector": calibration.code_size if calibration else 0,
        "candidates": calibration.depths[0].candidates if calibration and calibration.depths else 0,
        "warm_p50_ms": milliseconds(float(np.median(warm[FIRST:]))),
        "warm_p99_ms": milliseconds(float(np.percentile(warm[FIRST:], 99))),
        "first_queries_after_opening_mean_ms": milliseconds(float(np.mean(opened))),
        "first_queries_after_eviction_mean_ms": milliseconds(float(np.mean(evicted[:FIRST]))),
        "last_queries_after_eviction_mean_ms": milliseconds(float(np.mean(evicted[-FIRST:]))),
        "files_of_a_commit_of_50_documents": len(added),
        "bytes_of_a_commit_of_50_documents": sum(added.values()),
        "bytes a chunk": {
            kind: {"on disk": round(size / rows, 2), f"resident after {count} queries": round(resident[kind] / rows, 2)}
            for kind, size in sorted(by_kind(before).items())
        },
    }


def build(folder: Path, embedder: Embedder, made_of: Material, rows: int) -> int:
    """Writes the chunks as a bulk load does; returns the bytes of their texts."""
    space, total = embedder.space, 0
    with Store(folder).writer(COLLECTION, spaces=[space], runtimes={space.id: embedder.runtime}) as writer:
        for first in range(0, rows, BLOCK):
            pairs, vectors = vectors_of(made_of, first, min(BLOCK, rows - first))
            records = list(records_of(made_of, pairs, first))
            total += sum(len(record.chunks[0].text.encode()) for record in records)
            writer.upsert(records, {space.id: writer.encode(space.id, vectors)}, {space.id: keys(first, len(records))})
            if writer.pending_bytes >= COMMIT_BYTES:
                writer.commit()
        writer.commit()
        writer.finish()
    return total


def keys(first: int, count: int) -> list[bytes]:
    """Embedding keys that look like hashes."""
    drawn = np.random.default_rng([9, first]).bytes(16 * count)
    return [drawn[16 * each : 16 * each + 16] for each in range(count)]


def commit_more(folder: Path, embedder: Embedder, made_of: Material, rows: int) -> dict[str, int]:
    """Commits fifty documents; returns the files that the new manifest names and the old one did not, with sizes."""
    space, before = embedder.space, sizes(folder)
    with Store(folder).writer(COLLECTION, spaces=[space], runtimes={space.id: embedder.runtime}) as writer:
        pairs, vectors = vectors_of(made_of, rows, SMALL_COMMIT)
        records = list(records_of(made_of, pairs, rows))
        writer.upsert(records, {space.id: writer.encode(space.id, vectors)}, {space.id: keys(rows, SMALL_COMMIT)})
        writer.commit()
    return {name: size for name, size in sizes(folder).items() if name not in before}


def sizes(folder: Path) -> dict[str, int]:
    """The files of the newest generation: of its segments, and its manifest."""
    manifest = Store(folder).open(COLLECTION).manifest
    found = {f"{entry.id}/{name}": file.size for entry in manifest.segments for name, file in entry.files.items()}
    path = folder / COLLECTION / "manifests" / f"{manifest.generation:06d}.json"
    return {**found, path.name: path.stat().st_size}


def by_kind(found: dict[str, int]) -> Counter[str]:
    counted: Counter[str] = Counter()
    for name, size in found.items():
        counted[kind_of(name)] += size
    return counted


def kind_of(name: str) -> str:
    """documents, chunks, ids, fields, lexicon, vectors, keys, index or manifest."""
    words = Path(name).name.removesuffix(".arrow").split(".")
    found = [word for word in words if word in ("vectors", "keys", "index")]
    return found[0] if found else "manifest" if "json" in words else words[0]


def alone(folder: Path, asked: Sequence[Query]) -> tuple[NDArray[np.float64], Counter[str]]:
    """`searched` in a process of its own, so that afterwards nothing maps the files."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(searched, folder, asked).result()


def searched(folder: Path, asked: Sequence[Query]) -> tuple[NDArray[np.float64], Counter[str]]:
    """The seconds of each query on a newly opened snapshot, and the resident bytes by kind of file afterwards."""
    snapshot = Store(folder).open(COLLECTION)
    seconds = np.array([seconds_of(snapshot, query) for query in asked])
    resident: Counter[str] = Counter()
    for name, size in resident_files():
        if name.startswith(str(folder)):
            resident[kind_of(name)] += size
    return seconds, resident


def seconds_of(snapshot: Snapshot, query: Query) -> float:
    started = time.perf_counter()
    snapshot.search(query)
    return time.perf_counter() - started


def resident_files() -> Iterator[tuple[str, int]]:
    """Each mapped file of this process, and its bytes in memory."""
    name = None
    with Path("/proc/self/smaps").open(encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("Rss:") and name is not None:
                yield name, 1024 * int(line.split()[1])
            elif found := _MAPPED.match(line):
                name = found[1]
            elif re.match(r"^[0-9a-f]+-", line):
                name = None


def evict(folder: Path) -> None:
    """Drops the files from the page cache. They are synced, and no snapshot maps them any more."""
    for path in folder.rglob("*.arrow"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


if __name__ == "__main__":
    sys.exit(main())
