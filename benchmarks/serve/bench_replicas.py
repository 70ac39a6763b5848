"""What replicas cost: requests, the time until a commit is visible, many collections, a first answer of a cold one.

    python -m benchmarks replicas [--collections N] [--many N] [--rows N] [--folder DIR]

The bucket is a folder behind a link of 15 ms for each request and 100 MB/s in all; requests are counted as those of S3,
a listing once for a thousand objects, at its prices in us-east-1. Small collections have one document. An idle replica
polls every second. A commit is visible when the cache of a replica that polls every second has it. Of many collections
a lazy replica is asked for twenty. The cold collection has rows of 384 dimensions and texts of words by Zipf; its first
answer is a hybrid search, from the moment it is asked for until the hits are there.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import IO, Any

import numpy as np

from aidre.engine.collection import Store
from aidre.engine.maintenance import Bucket, BucketAddress, Replica, StorePublisher
from aidre.engine.model import Chunk, Document, EmbeddingSpace, Query, Record
from aidre.engine.storage import MANIFESTS, encode_manifest, manifest_name, read_manifest
from benchmarks.report.results import record

SECONDS, BYTES_PER_SECOND = 0.015, 100e6
PRICES = {"PUT": 5e-6, "LIST": 5e-6, "GET": 0.4e-6, "DELETE": 0.0}
"""Dollars a request."""
MONTH = 30 * 86_400
WARM, COMMITS, DIMENSIONS = 20, 10, 384
SMALL = EmbeddingSpace("small", 8, "cosine")
LARGE = EmbeddingSpace("large", DIMENSIONS, "cosine")


class Link:
    """The way to the bucket, shared by all who use it."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self._free = 0.0
        self._lock = threading.Lock()
        self._inside = threading.local()

    @contextmanager
    def request(self, kind: str) -> Iterator[None]:
        """One request; what it does inside is part of it."""
        if getattr(self._inside, "depth", 0):
            yield
            return
        self.asked[kind] += 1
        time.sleep(SECONDS)
        self._inside.depth = 1
        try:
            yield
        finally:
            self._inside.depth = 0

    def carry(self, size: int) -> None:
        with self._lock:
            self._free = max(self._free, time.monotonic()) + size / BYTES_PER_SECOND
            until = self._free
        time.sleep(max(0.0, until - time.monotonic()))


class Far(Bucket):
    """A bucket at the other end of a link."""

    def __init__(self, url: str, link: Link) -> None:
        super().__init__(BucketAddress(url), make=True)
        self._link = link

    def get(self, key: str, *, unless: str | None = None) -> tuple[bytes, str] | None:
        with self._link.request("GET"):
            found = super().get(key, unless=unless)
        self._link.carry(0 if found is None else len(found[0]))
        return found

    def download(self, key: str, target: IO[bytes]) -> bool:
        link = self._link

        class Carried:
            def write(self, block: bytes) -> int:
                link.carry(len(block))
                return target.write(block)

        with link.request("GET"):
            return super().download(key, Carried())  # type: ignore[arg-type]

    def put_new(self, key: str, content: bytes | Path) -> bool:
        with self._link.request("PUT"):
            return super().put_new(key, content)

    def put(self, key: str, content: bytes | Path) -> None:
        with self._link.request("PUT"):
            super().put(key, content)

    def swap(self, key: str, content: bytes, etag: str | None) -> bool:
        with self._link.request("PUT"):
            return super().swap(key, content, etag)

    def size(self, key: str) -> int | None:
        with self._link.request("GET"):
            return super().size(key)

    def list(self, prefix: str, *, beginning: str = "") -> Iterator[Any]:
        with self._link.request("LIST"):
            found = list(super().list(prefix, beginning=beginning))
        self._link.asked["LIST"] += len(found) // 1_000
        return iter(found)

    def folders(self) -> frozenset[str]:
        with self._link.request("LIST"):
            return super().folders()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench_replicas", description=__doc__)
    parser.add_argument("--collections", type=int, default=200)
    parser.add_argument("--many", type=int, default=1_000)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, help="parent of the temporary stores")
    options = parser.parse_args(argv)
    figures: dict[str, Any] = {}
    for name, measure, size in (
        ("replica, collections", eager_replica, options.collections),
        ("lazy replica, collections", lazy_replica, options.many),
        ("cold collection, chunks", cold_collection, options.rows),
    ):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            figures[f"{name}: {size:,}"] = measure(Path(folder), size)
    print(json.dumps(figures, indent=1))
    record("bench_replicas", figures)
    return 0


def eager_replica(folder: Path, count: int) -> dict[str, Any]:
    store, link = folder / "store", Link()
    names = fill(store, count)
    publisher, figures = first_publication(store, folder, link, names)
    replica = Replica(Far((folder / "bucket").as_uri(), link), folder / "cache")
    figures |= first_pull(replica, link) | idle(replica, link) | visible(publisher, Store(store), replica, link, names)
    return figures | {"MB of files": megabytes(replica.cache)}


def lazy_replica(folder: Path, count: int) -> dict[str, Any]:
    store, link = folder / "store", Link()
    names = fill(store, count)
    publisher, figures = first_publication(store, folder, link, names)
    replica = Replica(Far((folder / "bucket").as_uri(), link), folder / "cache", keep_seconds=3_600.0)
    figures |= first_pull(replica, link)
    asked = names[:: max(1, count // WARM)][:WARM]
    for name in asked:
        replica.pull_collection(name)
    replica.pull()
    figures |= {f"MB of files, {len(asked)} of them asked for": megabytes(replica.cache)}
    return figures | idle(replica, link) | visible(publisher, Store(store), replica, link, asked)


def first_publication(
    store: Path, folder: Path, link: Link, names: Sequence[str]
) -> tuple[StorePublisher, dict[str, Any]]:
    publisher = StorePublisher(Store(store), Far((folder / "bucket").as_uri(), link))
    started = time.perf_counter()
    publisher.publish(names)
    return publisher, {
        "first publication, requests": link.asked.total(),
        "first publication, seconds": round(time.perf_counter() - started, 1),
    }


def megabytes(folder: Path) -> float:
    return round(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6, 2)


def first_pull(replica: Replica, link: Link) -> dict[str, Any]:
    replica.prepare()
    link.asked.clear()
    started = time.perf_counter()
    replica.pull()
    return {
        "first pull, seconds": round(time.perf_counter() - started, 1),
        "first pull, requests": link.asked.total(),
    }


def idle(replica: Replica, link: Link) -> dict[str, Any]:
    link.asked.clear()
    started = time.perf_counter()
    replica.pull()
    seconds = time.perf_counter() - started
    cost = sum(PRICES[kind] * number for kind, number in link.asked.items())
    return {
        "idle poll, requests": link.asked.total(),
        "idle poll, ms": round(seconds * 1_000, 1),
        "idle replica, dollars a month": round(cost * MONTH, 2),
    }


def visible(
    publisher: StorePublisher, store: Store, replica: Replica, link: Link, names: Sequence[str]
) -> dict[str, Any]:
    """Commits to collections here and there, one after the other, and the time from each commit to the replica."""
    stopped = threading.Event()
    following = threading.Thread(target=replica.follow, args=(stopped, 1.0), daemon=True)
    times, requests = [], []
    following.start()
    for number in range(COMMITS):
        name = names[number * 37 % len(names)]
        write(store, name, f"new{number}")
        generation, before = store.current(name), link.asked.total()
        started = time.perf_counter()
        publisher.publish([name])
        requests.append(link.asked.total() - before)
        while replica.source.current(name) != generation:
            time.sleep(0.005)
        times.append(time.perf_counter() - started)
    stopped.set()
    following.join()
    return {
        "commit until visible, seconds (median, longest)": f"{median(times):.2f}, {max(times):.2f}",
        "commit, requests of the publisher and of polls meanwhile": median(requests),
    }


def cold_collection(folder: Path, rows: int) -> dict[str, Any]:
    store, link, random = Store(folder / "store"), Link(), np.random.default_rng(5)
    words = np.array([f"word{number}" for number in range(20_000)])
    with store.writer("cold", spaces=[LARGE]) as writer:
        for first in range(0, rows, 10_000):
            count = min(10_000, rows - first)
            centres = random.normal(size=(64, DIMENSIONS))[random.integers(0, 64, count)]
            vectors = (centres + random.normal(size=(count, DIMENSIONS)) * 0.5).astype(np.float32)
            drawn = words[np.minimum(random.zipf(1.2, (count, 60)), len(words)) - 1]
            records = [one(f"d{first + place}", " ".join(drawn[place].tolist())) for place in range(count)]
            writer.upsert(records, {LARGE.id: writer.encode(LARGE.id, vectors)}, {})
        writer.commit()
    StorePublisher(store, Far((folder / "bucket").as_uri(), Link())).publish(["cold"])
    replica = Replica(Far((folder / "bucket").as_uri(), link), folder / "cache", keep_seconds=3_600.0)
    replica.prepare()
    replica.pull()
    link.asked.clear()
    started, busy = time.perf_counter(), time.process_time()
    replica.pull_collection("cold")
    pulled = time.perf_counter()
    reader = replica.source.open("cold")
    query = Query(top_k=10, mode="hybrid", space=LARGE.id, vector=vectors[0].tolist(), text="word5 word700")
    assert reader.search(query)
    seconds, busy = time.perf_counter() - started, time.process_time() - busy
    size = sum(path.stat().st_size for path in (folder / "cache" / "cold").rglob("*") if path.is_file())
    return {
        "MB": round(size / 1e6, 1),
        "of these on the link alone, seconds": round(size / BYTES_PER_SECOND, 2),
        "pull, seconds": round(pulled - started, 2),
        "first answer, seconds": round(seconds, 2),
        "first answer, processor seconds": round(busy, 2),
        "requests": link.asked.total(),
    }


def fill(store: Path, count: int) -> list[str]:
    """Collections of one document; all but the first are copies of that, which is much faster than to write them."""
    names = [f"tenant{number:04d}" for number in range(count)]
    write(Store(store), names[0], "a")
    manifest = read_manifest(store / names[0] / MANIFESTS, 1, names[0])
    for name in names[1:]:
        shutil.copytree(store / names[0], store / name, copy_function=os.link)
        path = store / name / MANIFESTS / manifest_name(1)
        path.unlink()
        path.write_bytes(encode_manifest(replace(manifest, name=name, lineage=secrets.token_hex(16))))
    return names


def write(store: Store, name: str, document: str) -> None:
    with store.writer(name, spaces=[SMALL]) as writer:
        vectors = np.random.default_rng(len(document)).normal(size=(1, 8)).astype(np.float32)
        writer.upsert([one(document, f"text of {document}")], {SMALL.id: writer.encode(SMALL.id, vectors)}, {})
        writer.commit()


def one(name: str, text: str) -> Record:
    chunk = Chunk(f"{name}#chunk_1", 1, text, 0, len(text))
    return Record(Document(name, text, updated_at="2026-04-01T10:00:00Z"), (chunk,), secrets.token_bytes(16))


if __name__ == "__main__":
    sys.exit(main())
