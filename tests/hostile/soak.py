"""A day in small: searches, ingest, deletes, compaction and reloads of one store, while the processes are watched."""

from __future__ import annotations

import asyncio
import json
import random
import string
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from aidre.api.cli import main
from aidre.api.retrieval.query_embedding import MAX_CACHED_QUERIES
from aidre.engine.collection.store import Store
from aidre.engine.embedding.embedder import DEFAULT_SPACE
from aidre.engine.model import EmbeddingSpace
from aidre.engine.storage.format import MANIFESTS
from aidre.engine.storage.manifest import read_manifest
from tests.hostile.client import Answer, Connection, posted, request
from tests.hostile.nursery import asked
from tests.hostile.report import Report
from tests.hostile.server import Server, Use, running, unlinked_bytes, use
from tests.support.clocks import WAIT_SECONDS

COLLECTION = "docs"
SECRET = "soak-soak-soak-soak"
CONFIGURATION = """
[limits]
rate = "1000000/minute"
chunks_per_day = 1000000
[[keys]]
name = "reader"
sha256 = "%s"
scopes = ["search", "vectors"]
[collections.docs]
description = "What is written anew all the time"
return_vectors = true
"""
WORDS = EmbeddingSpace("words", 64, "cosine", True, "aidre", "hashing")
SHORT_CONFIGURATION = f"""
[[spaces]]
id = "{WORDS.id}"
dimensions = {WORDS.dimensions}
distance = "cosine"
provider = "aidre"
model = "hashing"
"""
"""Of a run that is too short for its memory to be looked at: an embedder without a model, which nobody has to load."""

ASKERS = 4
PAUSE_SECONDS = 0.1
SURE = 24
"""Answers in a row, each on a new connection: one of two workers gives all of them once in eight million times."""

SAMPLE_SECONDS = 5.0
CYCLE_SECONDS = 8.0
VOCABULARY = 4_000
"""Words of a language come again; the engine remembers what it made of tens of thousands."""

WARM_SHARE = 1 / 2
"""Of a run: until then the superseded generations, and what is remembered of words, become as many as they may."""

LONG_SECONDS = 900
"""From here on a slope means something, and generations are waited for as long as they are kept."""

KEPT_SECONDS = 630
MIB_IN_TEN_MINUTES = 1.0
ODD_SAMPLES = 8
"""Descriptors come and go with connections, threads with work; so many more are not growth."""


@dataclass(slots=True)
class Watched:
    """What was seen of one process: the seconds of the run without pauses, and what it held then."""

    seconds: list[float] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)

    def slope(self, since: float) -> float:
        """MiB of private memory in ten minutes: the median of the slopes between all samples (Theil and Sen)."""
        place = np.searchsorted(self.seconds, since)
        at = np.array(self.seconds[place:])
        memory = np.array([one.memory for one in self.uses[place:]], np.float64)
        first, second = np.triu_indices(len(at), 1)
        slopes = (memory[second] - memory[first]) / (at[second] - at[first])
        return float(np.median(slopes)) * 600 / 1024 if len(slopes) else 0.0

    def most(self, name: str, begin: float, end: float) -> int:
        """The most of something between two moments."""
        held = [getattr(one, name) for at, one in zip(self.seconds, self.uses, strict=True) if begin <= at <= end]
        return max(held, default=0)


def space_of(seconds: float) -> EmbeddingSpace:
    return DEFAULT_SPACE if seconds >= LONG_SECONDS else WORDS


def configuration_of(seconds: float) -> str:
    whole = CONFIGURATION % _sha256(SECRET)
    return whole if seconds >= LONG_SECONDS else f'{whole}spaces = ["{WORDS.id}"]\n{SHORT_CONFIGURATION}'


def commanded(words: Sequence[str]) -> tuple[int, str]:
    """The status of one command of `aidre`, and what it wrote to standard error."""
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()) as said:
        return main.run(words), said.getvalue()


class Soak:
    """One run: what was asked, what was answered, what the processes held."""

    def __init__(self, server: Server, folder: Path, seconds: float, chance: random.Random) -> None:
        self._server = server
        self._folder = folder
        self._chance = chance
        self.seconds = seconds
        self.space = space_of(seconds)
        self.lived = 0.0
        self.statuses: Counter[str] = Counter()
        self.written = 0
        self.watched = {pid: Watched() for pid in server.workers}
        self._vocabulary = ["".join(chance.choices(string.ascii_lowercase, k=5)) for _ in range(VOCABULARY)]
        self.files = max(2, min(30, round(seconds / 10)))
        self.ids: list[str] = []

    async def run(self, report: Report) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch(report))
            tasks.create_task(self._write())
            for _ in range(ASKERS):
                tasks.create_task(self._ask())

    @property
    def _over(self) -> bool:
        return self.lived >= self.seconds

    async def _watch(self, report: Report) -> None:
        """Whoever stops this process and its server for a while costs it nothing: such time is not counted."""
        said, before = 0.0, time.monotonic()
        while not self._over:
            await asyncio.sleep(min(SAMPLE_SECONDS, self.seconds / 10))
            now = time.monotonic()
            self.lived += min(now - before, 2 * SAMPLE_SECONDS)
            before = now
            for pid, watched in self.watched.items():
                watched.seconds.append(self.lived)
                watched.uses.append(use(pid))
            if self.lived - said > 60:
                said = self.lived
                held = ", ".join(
                    f"{one.memory / 1024:.1f} MiB {one.files_memory / 1024:.0f} MiB of files {one.descriptors} "
                    f"descriptors {one.threads} threads"
                    for one in (watched.uses[-1] for watched in self.watched.values())
                )
                report.say(f"soak: {self.lived:.0f} s, {sum(self.statuses.values())} answers, {held}")

    # -- what is written -----------------------------------------------------------------------------------

    async def _write(self) -> None:
        cycle = 0
        while not self._over:
            began = self.lived
            file = self.write_file(cycle % self.files)
            await self.command("ingest", str(file), "--collection", COLLECTION)
            await self.command("delete", "--collection", COLLECTION, *self._chance.sample(self.ids, 5))
            cycle += 1
            if cycle % 10 == 0:
                await self.command("compact", "--collection", COLLECTION)
            while not self._over and self.lived < began + CYCLE_SECONDS:
                await asyncio.sleep(0.5)

    def write_file(self, number: int) -> Path:
        """Twenty documents that stood there with other texts."""
        self.ids = [f"doc_{number}_{place}" for place in range(20)]
        rows = [
            {"id": id, "title": self._words(4), "text": ". ".join(self._words(12) for _ in range(6)), "price": place}
            for place, id in enumerate(self.ids)
        ]
        path = self._folder / f"batch_{number}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    def _words(self, count: int) -> str:
        return " ".join(self._chance.choices(self._vocabulary, k=count))

    async def seen(self) -> None:
        """Returns when both workers have opened the new collection: when many connections in a row are answered."""
        deadline, answered = time.monotonic() + WAIT_SECONDS, 0
        while answered < SURE:
            assert time.monotonic() < deadline, "the collection is not served"
            connection = Connection(self._server.port)
            answer = await connection.ask(request("GET", f"/collections/{COLLECTION}"))
            connection.close()
            answered = answered + 1 if answer.status == 200 else 0
            if not answered:
                await asyncio.sleep(0.05)

    async def warm_up(self) -> None:
        """As many different texts as the workers remember."""

        async def ask(count: int) -> None:
            for number in range(count):
                connection = Connection(self._server.port)  # a new one each time, so that both workers are asked
                await self._said(connection, posted("/search", {"query": f"{self._words(4)} {number}", "top_k": 1}))
                connection.close()

        texts = 2.3 * MAX_CACHED_QUERIES if self.seconds >= LONG_SECONDS else 10
        await asyncio.gather(*(ask(round(texts / 8)) for _ in range(8)))

    async def command(self, *words: str) -> None:
        """One command of `aidre`, in a process of its own, as a publisher's timer runs it."""
        call = [*words, "--store", str(self._folder / "store")]
        if words[0] == "ingest":
            call += ["--config", str(self._folder / "aidre.toml")]
        status, said = await asyncio.to_thread(asked, commanded, call)
        assert status == 0, f"aidre {' '.join(words[:3])}: {said}"
        self.written += 1

    # -- what is asked -------------------------------------------------------------------------------------

    async def _ask(self) -> None:
        kinds: list[Callable[[Connection], Awaitable[None]]] = [
            self._text, self._text, self._vector, self._filtered, self._pages, self._chunk, self._changes, self._nlweb,
            self._rest,
        ]  # fmt: skip
        connection = Connection(self._server.port)
        while not self._over:
            await self._chance.choice(kinds)(connection)
            if self._chance.random() < 0.05:
                connection.close()
            await asyncio.sleep(self._chance.expovariate(1 / PAUSE_SECONDS))
        connection.close()

    async def _said(self, connection: Connection, content: bytes, *expected: int) -> Answer:
        answer = await connection.ask(content)
        self.statuses[str(answer.status)] += 1
        assert answer.status in (expected or (200,)), f"{content[:300]!r} got {answer.status} {answer.body[:300]!r}"
        return answer

    async def _search(self, connection: Connection, body: dict[str, Any]) -> dict[str, Any]:
        fields = {"Authorization": f"Bearer {SECRET}"} if len(body) % 2 else {}
        answer = await self._said(connection, posted("/search", body, **fields))
        found: dict[str, Any] = answer.json()
        return found

    async def _text(self, connection: Connection) -> None:
        await self._search(connection, {"query": self._words(3), "top_k": self._chance.choice([1, 10, 100])})

    async def _vector(self, connection: Connection) -> None:
        vector = [self._chance.gauss(0, 1) for _ in range(self.space.dimensions)]
        await self._search(connection, {"query_vector": vector, "embedding_space": self.space.id})

    async def _filtered(self, connection: Connection) -> None:
        filter = {"price": {"gte": self._chance.randrange(20)}}
        await self._search(connection, {"query": self._words(2), "filter": filter, "return": {"text": True}})

    async def _pages(self, connection: Connection) -> None:
        body: dict[str, Any] = {"query": self._words(2), "top_k": 5, "cursor": None}
        for _ in range(4):
            cursor = (await self._search(connection, body))["meta"].get("next_cursor")
            if cursor is None:
                return
            body["cursor"] = cursor
            await asyncio.sleep(self._chance.expovariate(1 / PAUSE_SECONDS))

    async def _chunk(self, connection: Connection) -> None:
        found = await self._search(connection, {"query": self._words(2), "top_k": 1})
        for result in found["results"]:
            path = "/chunks/" + result["id"].replace("#", "%23")
            await self._said(connection, request("GET", path), 200, 404)

    async def _changes(self, connection: Connection) -> None:
        path = f"/collections/{COLLECTION}/changes?limit=50"
        for _ in range(3):
            answer = await self._said(connection, request("GET", path))
            path = f"/collections/{COLLECTION}/changes?limit=50&since={answer.json()['next']}"

    async def _nlweb(self, connection: Connection) -> None:
        streaming = self._chance.random() < 0.3
        body = {"query": {"text": self._words(2)}, "prefer": {"streaming": streaming}}
        await self._said(connection, posted("/ask", body))

    async def _rest(self, connection: Connection) -> None:
        content, expected = self._chance.choice(
            [
                (request("GET", "/metrics"), 200),
                (request("GET", "/openapi.json"), 200),
                (request("GET", "/collections"), 200),
                (request("GET", "/nothing/here"), 404),
                (posted("/search", {"query": 5}), 400),
                (posted("/search", {"query": "x"}, Authorization="Bearer wrong"), 401),
                (request("GET", "/chunks/absent"), 404),
            ]
        )
        await self._said(connection, content, expected)


def run(report: Report, rounds: int, chance: random.Random) -> None:
    """For `rounds` seconds; the last word is that of the disk."""
    folder = report.place("soak")
    configuration = folder / "aidre.toml"
    configuration.write_text(configuration_of(rounds), encoding="utf-8")
    (folder / "store").mkdir()
    with running(folder / "store", configuration, workers=2) as server:
        soak = Soak(server, folder, rounds, chance)
        try:
            asyncio.run(_prepared(soak, folder))
            asyncio.run(soak.run(report))
        finally:
            report.say(f"soak: workers {server.workers}, begun with {sorted(soak.watched)}; {server.complaints()[:20]}")
        _end(report, soak, server, folder)
        assert not server.complaints(), server.complaints()[:5]


async def _prepared(soak: Soak, folder: Path) -> None:
    for number in range(soak.files):
        soak.write_file(number)
    files = [str(path) for path in sorted(folder.glob("*.jsonl"))]
    await soak.command("ingest", *files, "--collection", COLLECTION)
    await soak.seen()
    await soak.warm_up()


def _sha256(secret: str) -> str:
    from hashlib import sha256

    return sha256(secret.encode()).hexdigest()


def _end(report: Report, soak: Soak, server: Server, folder: Path) -> None:
    warm = soak.seconds * WARM_SHARE
    middle = (warm + soak.seconds) / 2
    slopes = [watched.slope(warm) for watched in soak.watched.values()]
    assert server.workers == sorted(soak.watched), "a worker has been replaced"
    for name in ("descriptors", "threads"):
        grown = [
            watched.most(name, middle, soak.seconds) - watched.most(name, warm, middle)
            for watched in soak.watched.values()
        ]
        assert soak.seconds < LONG_SECONDS or max(grown) <= ODD_SAMPLES, f"{name} grow: {grown}"
    held, named = _disk(report, soak, server, folder)
    first = [watched.uses[np.searchsorted(watched.seconds, warm)] for watched in soak.watched.values()]
    last = [watched.uses[-1] for watched in soak.watched.values()]
    both = list(zip(first, last, strict=True))
    answers, runs = sum(soak.statuses.values()), soak.written
    report.figure(
        "soak",
        f"{soak.seconds:.0f} s, 2 workers; {answers:,} answers {dict(sorted(soak.statuses.items()))}; "
        f"{runs} runs of ingest, delete and compact, {Store(folder / 'store').current(COLLECTION)} generations; "
        f"memory after warm-up {', '.join(f'{slope:+.2f}' for slope in slopes)} MiB in 10 min "
        f"({', '.join(f'{a.memory / 1024:.1f} to {b.memory / 1024:.1f}' for a, b in both)} MiB); "
        f"descriptors {', '.join(f'{a.descriptors} to {b.descriptors}' for a, b in both)}; "
        f"threads {', '.join(f'{a.threads} to {b.threads}' for a, b in both)}; "
        f"disk at the end {held:,} bytes of {named:,} that one generation has",
    )
    assert soak.seconds < LONG_SECONDS or max(slopes) <= MIB_IN_TEN_MINUTES, f"memory grows: {slopes} MiB in 10 min"


def _disk(report: Report, soak: Soak, server: Server, folder: Path) -> tuple[int, int]:
    """Compacts, lets ten minutes pass, deletes with --purge, which keeps no older generation, and compares what is
    there with what that generation names."""
    asyncio.run(soak.command("compact", "--collection", COLLECTION))
    if soak.seconds >= LONG_SECONDS:
        deadline = time.monotonic() + KEPT_SECONDS
        while time.monotonic() < deadline:
            time.sleep(SAMPLE_SECONDS)
        asyncio.run(soak.command("compact", "--collection", COLLECTION))
    held, named = _sizes(folder / "store")
    assert soak.seconds < LONG_SECONDS or held <= 2 * named, f"{held} bytes, of which one generation has {named}"
    asyncio.run(soak.command("delete", "--purge", "--collection", COLLECTION, soak.ids[0]))
    held, named = _sizes(folder / "store")
    assert held == named, f"{held} bytes are left of which {named} belong to the newest generation"
    if soak.seconds >= LONG_SECONDS:
        time.sleep(2)
    unlinked = [unlinked_bytes(pid) for pid in server.workers]
    report.say(f"soak: after a rest workers hold {[use(pid) for pid in server.workers]}")
    report.say(f"soak: and map {unlinked} bytes of files without a name, of the generation before")
    return held, named


def _sizes(store: Path) -> tuple[int, int]:
    """Bytes of all files of segments, and of those that the newest generation names."""
    folder = store / COLLECTION
    manifest = read_manifest(folder / MANIFESTS, Store(store).current(COLLECTION), COLLECTION)
    named = sum(file.size for entry in manifest.segments for file in entry.files.values())
    return sum(path.stat().st_size for path in folder.glob("segments/*/*")), named
