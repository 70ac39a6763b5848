"""Replicas under load: a store is published again and again, and three servers that pull it answer every request.

A search that begins at one replica is continued at the next one, which may not have opened that generation.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

from aidre.engine.collection.store import Store
from aidre.engine.maintenance.publisher import StorePublisher
from aidre.engine.maintenance.verify import verify
from tests.hostile.client import Answer, Connection, posted, request
from tests.hostile.report import Report
from tests.hostile.server import Server, running
from tests.support.buckets import CREDENTIALS, S3, S3Place, proxy_of
from tests.support.clients import a_document, delete, fill

COLLECTION = "docs"
REPLICAS = 3
REQUESTS = 400
"""Answered for each publication."""
DOCUMENTS = 300
NEW = 40
"""Documents of each commit; every third one also deletes as many."""
ASKERS = 4
VISIBLE_SECONDS = 2.0
TOLERATED_SECONDS = 0.75
"""What a busy machine adds to the longest."""
LONG = 20
"""From so many publications on the times mean something."""
CONFIGURATION = """
[server]
cursor_secret = "the secret that all replicas share"
[limits]
rate = "none"
[store]
endpoint = "%s"
region = "us-east-1"
poll = "1s"
"""


def run(report: Report, rounds: int, chance: random.Random) -> None:
    """`rounds` publications."""
    folder = report.place("replicas")
    s3 = S3()
    try:
        with mock.patch.dict(os.environ, CREDENTIALS):
            place = s3.place()
            publish(folder / "store", s3, place, 0)
            with replicas(folder, place) as servers:
                follow(report, folder, s3, place, servers, rounds, chance)
                for server in servers:
                    assert not server.complaints(), server.complaints()[:5]
            for number in range(REPLICAS):
                reports = verify(Store(folder / f"replica{number}" / "cache"))
                assert not any(one.problems for one in reports), reports
    finally:
        s3.stop()


@contextmanager
def replicas(folder: Path, place: S3Place) -> Iterator[list[Server]]:
    """Servers with caches of their own."""
    with ExitStack() as started:
        beginning = []
        for number in range(REPLICAS):
            (own := folder / f"replica{number}").mkdir()
            (own / "aidre.toml").write_text(CONFIGURATION % place.address.endpoint, encoding="utf-8")
            beginning.append(running(own / "cache", own / "aidre.toml", replica_of=place.address.url))
        with ThreadPoolExecutor(REPLICAS) as threads:
            servers = list(threads.map(started.enter_context, beginning))
        yield servers


def follow(
    report: Report,
    folder: Path,
    s3: S3,
    place: S3Place,
    servers: Sequence[Server],
    rounds: int,
    chance: random.Random,
) -> None:
    ports = [server.port for server in servers]
    times, sent, new = list[float](), 0, 0
    with Asking(ports, chance) as asking:
        for number in range(1, rounds + 1):
            wire, files = publish(folder / "store", s3, place, number)
            sent, new = sent + wire, new + files
            times += asyncio.run(visible(ports, f"{number}-0"))
            asking.wait_for(number * (REQUESTS if rounds >= LONG else REQUESTS // 4))
            if number % 10 == 0:
                report.say(f"{number} publications, {sum(asking.statuses.values()):,} requests")
    total, failed = sum(asking.statuses.values()), sum(asking.statuses.values()) - asking.statuses[200]
    ordered = sorted(times)
    report.figure(
        "replicas",
        f"{rounds} publications, {REPLICAS} replicas; {total:,} requests, of them {asking.continued:,} continued on "
        f"another replica, failed {failed}; visible on a replica after {ordered[len(ordered) // 2]:.2f} s (median), "
        f"{ordered[-1]:.2f} s (longest); {sent / new:.3f} bytes sent for each byte of new files",
    )
    assert not failed, f"{asking.statuses}: {asking.problems[:3]}"
    assert asking.continued > rounds, "no search was continued on another replica"
    assert sent <= 1.2 * new, f"{sent:,} bytes were sent for {new:,}"
    if rounds >= LONG:
        assert ordered[-1] <= VISIBLE_SECONDS + TOLERATED_SECONDS, f"visible after {ordered[-1]:.2f} s: {ordered[-5:]}"


def publish(store: Path, s3: S3, place: S3Place, number: int) -> tuple[int, int]:
    """Commits and publishes; the bytes that went over the wire, and those of the new files."""
    count = DOCUMENTS if number == 0 else NEW
    documents = [a_document(f"{number}-{one}", f"alpha word{one} of publication {number}") for one in range(count)]
    fill(store, COLLECTION, documents)
    if number % 3 == 2:
        delete(store, COLLECTION, [f"{number - 1}-{one}" for one in range(1, NEW)])
    with proxy_of(s3) as proxy:
        [published] = StorePublisher(Store(store), place.through(proxy).bucket).publish([COLLECTION])
        sent = sum(len(asked.head) + len(asked.body) for asked in proxy.asked if asked.method in ("PUT", "POST"))
    return sent, published.bytes


async def visible(ports: Sequence[int], document_id: str) -> list[float]:
    """The seconds from now until each replica has a document."""
    began = time.monotonic()

    async def wait(port: int) -> float:
        connection = Connection(port)
        asked = request("GET", f"/chunks/{document_id}%23chunk_1")
        while (await connection.ask(asked)).status != 200:
            assert time.monotonic() - began < 120, f"{document_id} does not become visible"
            await asyncio.sleep(0.02)
        connection.close()
        return time.monotonic() - began

    return await asyncio.gather(*(wait(port) for port in ports))


class Asking:
    """Clients that search all the while, in a thread, and continue half of their searches at another replica."""

    def __init__(self, ports: Sequence[int], chance: random.Random) -> None:
        self.statuses: Counter[int] = Counter()
        self.problems: list[bytes] = []
        self.continued = 0
        self._ports, self._chance = ports, chance
        self._over = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Asking:
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._over.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def wait_for(self, count: int) -> None:
        """Until so many requests were answered."""
        while sum(self.statuses.values()) < count and self._thread.is_alive():
            time.sleep(0.01)

    def _run(self) -> None:
        try:
            asyncio.run(self._ask_all())
        except BaseException as error:
            self._failure = error

    async def _ask_all(self) -> None:
        await asyncio.gather(*(self._ask() for _ in range(ASKERS)))

    async def _ask(self) -> None:
        connections = [Connection(port) for port in self._ports]
        while not self._over.is_set():
            first = self._chance.randrange(len(connections))
            body = {"query": f"word{self._chance.randrange(NEW)} alpha", "top_k": 5}
            answer = await self._asked(connections[first], body)
            if answer.status == 200 and self._chance.random() < 0.5:
                cursor = answer.json()["meta"]["next_cursor"]
                following = connections[(first + 1) % len(connections)]
                await self._asked(following, {**body, "cursor": cursor})
                self.continued += 1
        for connection in connections:
            connection.close()

    async def _asked(self, connection: Connection, body: dict[str, object]) -> Answer:
        answer = await connection.ask(posted("/search", body, Content_Type="application/aidre+json"))
        self.statuses[answer.status] += 1
        if answer.status != 200:
            self.problems.append(answer.body[:300])
        return answer
