"""Three times as many requests as the server can answer: who is not answered is told so at once, and it passes."""

from __future__ import annotations

import asyncio
import math
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aidre.engine.collection.store import Store
from aidre.engine.model import Chunk, Document, EmbeddingSpace, Record
from benchmarks.harness.load import Load, Samples
from tests.hostile.client import Connection, posted
from tests.hostile.report import Report
from tests.hostile.server import Server, running

COLLECTION = "docs"
SPACE = EmbeddingSpace("aidre:hashing:384:cosine:v1", 384, "cosine", True, "aidre", "hashing", "hashing;v1")
CONFIGURATION = """
[limits]
rate = "none"
"""
ROWS = 20_000
"""A search of so many takes about a thousandth of a second, which is short: it is made in the event loop."""

WORDS = 500
FEW, MANY = 16, 512
"""Connections that find what the server can do, and that ask for more."""

TIMES = 3
USUAL = 0.3
"""Of what it can do, as a load that is none."""

LONG_SECONDS = 8
"""From here on the times mean something."""

REFUSED_MS = 50.0
RECOVERED_SECONDS = 5.0
REFUSALS = (429, 503)
WINDOW_SECONDS = 0.5
LEAST_MS = 20.0
"""A p99 below this is not told from the machine's own moods."""


def run(report: Report, rounds: int, chance: random.Random) -> None:
    """Each kind of search for `rounds` seconds."""
    folder = report.place("saturation")
    configuration = folder / "aidre.toml"
    configuration.write_text(CONFIGURATION, encoding="utf-8")
    fill(folder / "store", ROWS if rounds >= LONG_SECONDS else ROWS // 10, chance)
    with running(folder / "store", configuration) as server:
        for name, requests in (("vector", vectors(chance)), ("text", texts(chance))):
            prove(report, server, name, requests, rounds)
        assert not server.complaints(), server.complaints()[:5]


def prove(report: Report, server: Server, name: str, requests: Sequence[bytes], rounds: int) -> None:
    """One kind of search."""
    with Load(server.port, FEW) as few:
        few.closed(requests, min(1.0, rounds / 4))  # what such a search takes is learned
        capacity = few.closed(requests, min(4.0, rounds / 2)).figures()["rate"]
        before = p99(few.open(requests, min(4.0, rounds / 2), USUAL * capacity))
        with Load(server.port, MANY) as many, Looking(server.port, requests[0]) as looking:
            crowded = many.open(requests, rounds, TIMES * capacity)
        recovered = recovery(few, requests, USUAL * capacity, before) if rounds >= LONG_SECONDS else math.nan
    refused = np.isin(crowded.statuses, REFUSALS)
    late = quantile(crowded.latencies[refused], 0.99)
    asked = len(crowded.latencies) / crowded.seconds
    report.figure(
        "saturation",
        f"{name}: {capacity:.0f} a second are answered; at {asked:.0f} a second for {rounds} s "
        f"{dict(Counter(crowded.statuses.tolist()))}, {len(crowded.good) / crowded.seconds:.0f} a second good with a "
        f"p99 of {p99(crowded):.0f} ms; refusals within {quantile(crowded.latencies[refused], 0.5):.1f} ms (p50), "
        f"{late:.1f} ms (p99); p99 {before:.1f} ms before, again after {recovered:.1f} s",
    )
    strange = Counter(crowded.statuses[(crowded.statuses != 200) & ~refused].tolist())
    assert not strange, f"{name}: answers that are neither good nor refusals: {strange}"
    assert not looking.wrong, f"{name}: {looking.wrong[:3]}"
    if rounds >= LONG_SECONDS:
        assert refused.any(), f"{name}: nobody was refused at {asked:.0f} a second"
        assert late <= REFUSED_MS, f"{name}: refusals take {late:.0f} ms"
        assert recovered <= RECOVERED_SECONDS, f"{name}: {recovered:.1f} s until all is as before"


class Looking:
    """Beside the load, one who reads what refusals say."""

    def __init__(self, port: int, request: bytes) -> None:
        self.wrong: list[str] = []
        self._request = request
        self._port = port
        self._over = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._look()))

    def __enter__(self) -> Looking:
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._over.set()
        self._thread.join()

    async def _look(self) -> None:
        connection = Connection(self._port)
        while not self._over.is_set():
            answer = await connection.ask(self._request)
            waits = answer.fields.get("retry-after", "")
            if answer.status != 200 and not (answer.status in REFUSALS and waits.isdigit() and int(waits) >= 1):
                self.wrong.append(f"{answer.status} {answer.fields} {answer.body[:200]!r}")
            await asyncio.sleep(0.1)
        connection.close()


def recovery(load: Load, requests: Sequence[bytes], rate: float, before: float) -> float:
    """Seconds until others wait no longer than before."""
    began = time.monotonic()
    while (passed := time.monotonic() - began) < 2 * RECOVERED_SECONDS:
        if p99(load.open(requests, WINDOW_SECONDS, rate)) <= max(2 * before, LEAST_MS):
            return passed
    return math.inf


def p99(samples: Samples) -> float:
    return quantile(samples.good, 0.99)


def quantile(latencies: NDArray[np.float64], share: float) -> float:
    """In milliseconds."""
    return float(np.quantile(latencies, share)) * 1e3 if len(latencies) else math.nan


def fill(folder: Path, rows: int, chance: random.Random) -> None:
    """Any vectors and any words: what a search finds is not looked at."""
    folder.mkdir()
    numbers = np.random.default_rng(chance.getrandbits(32))
    records = []
    for number in range(rows):
        text = words(chance, 8)
        document = Document(f"doc_{number}", text, updated_at="2026-04-01T10:00:00Z")
        records.append(Record(document, (Chunk(f"doc_{number}#chunk_1", 1, text, 0, len(text)),), b"%016d" % number))
    given = numbers.normal(size=(rows, SPACE.dimensions)).astype(np.float32)
    with Store(folder).writer(COLLECTION, spaces=(SPACE,), description="Anything") as writer:
        keys = {SPACE.id: [b"%016d" % number for number in range(rows)]}
        writer.upsert(records, {SPACE.id: writer.encode(SPACE.id, given)}, keys)
        writer.finish()


def words(chance: random.Random, count: int) -> str:
    return " ".join(f"word{chance.randrange(WORDS)}" for _ in range(count))


def vectors(chance: random.Random) -> list[bytes]:
    given = ([chance.gauss(0, 1) for _ in range(SPACE.dimensions)] for _ in range(200))
    return [posted("/search", {"query_vector": vector, "embedding_space": SPACE.id}) for vector in given]


def texts(chance: random.Random) -> list[bytes]:
    return [posted("/search", {"query": words(chance, 2)}) for _ in range(200)]
