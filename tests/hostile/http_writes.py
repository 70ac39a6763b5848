"""SIGKILLs of a server that documents are written to over HTTP: what was answered with 200 is there.

Clients write, change and delete, each documents of its own. In each round the whole server is killed, or one of its
workers, or a writer process. What was not answered is there as a whole or not at all, request by request.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import orjson

from aidre.engine.collection.store import Store
from aidre.engine.maintenance.verify import verify
from tests.hostile.report import Report
from tests.hostile.server import Server, running
from tests.support.clocks import WAIT_SECONDS, until

CLIENTS, IDS, WORKERS = 6, 12, 2
SECRET = "the secret of the clients"
NAME = "rows"
CONFIGURATION = f"""
[server]
writes = true
[[spaces]]
id = "mine"
dimensions = 4
distance = "cosine"
[collections.{NAME}]
spaces = ["mine"]
[[keys]]
name = "client"
sha256 = "{hashlib.sha256(SECRET.encode()).hexdigest()}"
scopes = ["search", "write"]
"""
MOST_ANSWERS = 24
"""Requests that are answered in a round before the kill, at most; how long they take is the machine's affair."""
LONGEST_PAUSE = 0.5
"""Seconds between that and a kill."""

Versions = dict[str, int]
"""The version of each document; absent ones are deleted."""


@dataclass(slots=True)
class Client:
    """One thread: what was acknowledged of its documents, and its last request while it is not answered."""

    number: int
    stored: Versions = field(default_factory=dict)
    asked: Versions | None = None
    version: int = 0
    acknowledged: int = 0
    faults: list[str] = field(default_factory=list)

    def write(self, port: int, stop: threading.Event, seed: int) -> None:
        """Until a request is not answered with 200, or for some time."""
        chance = random.Random(seed)
        headers = {"authorization": f"Bearer {SECRET}"}
        base = f"http://127.0.0.1:{port}/collections/{NAME}/documents"
        with httpx.Client(headers=headers, timeout=WAIT_SECONDS) as http, suppress(httpx.TransportError):
            while not stop.is_set():
                method, url, body, self.asked = self._next(chance, base)
                answer = http.request(method, url, content=body, headers={"content-type": "application/json"})
                if answer.status_code != 200:
                    if answer.status_code != 503:
                        self.faults.append(f"{answer.status_code}: {answer.text}")
                    return
                self.stored, self.asked = self.asked, None
                self.acknowledged += 1

    def _next(self, chance: random.Random, base: str) -> tuple[str, str, bytes | None, Versions]:
        """A request, and what is stored when it has been done."""
        if self.stored and chance.random() < 0.2:
            one = chance.choice(sorted(self.stored))
            return "DELETE", f"{base}/{one}", None, {each: at for each, at in self.stored.items() if each != one}
        self.version += 1
        if self.stored and chance.random() < 0.2:
            one = chance.choice(sorted(self.stored))
            return "PATCH", f"{base}/{one}", orjson.dumps({"touched": self.version}), dict(self.stored)
        chosen = [f"{self.number}-{one}" for one in chance.sample(range(IDS), chance.randint(1, 4))]
        rows = [row(one, self.version) for one in chosen]
        return "PUT", base, orjson.dumps(rows), {**self.stored, **dict.fromkeys(chosen, self.version)}

    def settle(self, found: Versions) -> bool:
        """Compare with what is stored; whether a request that was not answered had been done. AssertionError."""
        allowed = [self.stored] if self.asked is None else [self.stored, self.asked]
        assert found in allowed, f"client {self.number}: {found} is none of {allowed}"
        was_done = self.asked is not None and found == self.asked
        self.stored, self.asked = found, None
        return was_done


def row(document_id: str, version: int) -> dict[str, Any]:
    text = f"version {version} of {document_id}"
    return {"id": document_id, "text": text, "version": version, "vectors": {"mine": [1, version, 2, 3]}}


def stored(store: Path, number: int) -> Versions:
    """The documents of one client, as their columns have them."""
    if NAME not in Store(store).collections():
        return {}
    chunks = [chunk for chunk in Store(store).open(NAME).scan() if chunk.document_id.startswith(f"{number}-")]
    found = {chunk.document_id: int(chunk.metadata["version"]) for chunk in chunks}
    assert len(found) == len(chunks), "a document is there twice"
    for chunk in chunks:
        assert chunk.text == f"version {found[chunk.document_id]} of {chunk.document_id}"
    return found


def writers_of(server: Server) -> list[int]:
    """The writer processes: children of the processes that answer, whichever of their threads started them."""
    children: list[str] = []
    for worker in server.workers:
        for listed in Path(f"/proc/{worker}/task").glob("*/children"):
            with suppress(OSError):
                children += listed.read_text().split()
    return [int(child) for child in children if _is_writer(child)]


def _is_writer(pid: str) -> bool:
    with suppress(OSError):
        return b"writer_process" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def kill(server: Server, victim: str, chance: random.Random) -> list[int]:
    """`victim`: "writer", "worker" or "server", which is every process. Returns the writers that there were."""
    writers, workers = writers_of(server), server.workers
    chosen = {
        "writer": writers and [chance.choice(writers)],
        "worker": [chance.choice(workers)],
        "server": [server.process.pid, *workers, *writers],
    }[victim]
    kill_all(chosen)
    return writers


def kill_all(pids: Sequence[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def wait_for_end(pids: Sequence[int]) -> None:
    """A writer whose server was killed still commits what it has received."""
    until(lambda: not any(map(_is_running, pids)), "a writer does not end")


def _is_running(pid: int) -> bool:
    with suppress(OSError):
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    return False


def acknowledged(clients: Iterable[Client]) -> int:
    return sum(client.acknowledged for client in clients)


def wait_for_answers(clients: Sequence[Client], threads: Sequence[threading.Thread], count: int) -> None:
    """Returns when so many more requests have been acknowledged, or no client goes on."""
    enough = acknowledged(clients) + count
    until(
        lambda: acknowledged(clients) >= enough or not any(thread.is_alive() for thread in threads),
        "the writes are not answered",
    )


def run(report: Report, rounds: int, chance: random.Random) -> None:
    place = report.place("writes")
    store = place / "store"
    store.mkdir()
    (place / "aidre.toml").write_text(CONFIGURATION, "utf-8")
    clients = [Client(number) for number in range(CLIENTS)]
    victims: Counter[str] = Counter()
    done = 0
    for number in range(rounds):
        victim = chance.choice(("server", "worker", "writer"))
        victims[victim] += 1
        live_through(store, place / "aidre.toml", clients, victim, chance)
        done += sum(client.settle(stored(store, client.number)) for client in clients)
        problems = [problem for one in verify(Store(store)) for problem in one.problems]
        assert not problems, problems
        if number % 20 == 19:
            report.say(f"{number + 1} kills")
    kinds = ", ".join(f"{kind} {count}" for kind, count in victims.most_common())
    assert acknowledged(clients) >= rounds, "hardly anything was written"
    files = sum(one.is_file() for one in (store / NAME).rglob("*"))
    report.figure(
        "http writes",
        f"{sum(victims.values())} kills (of {kinds}), {acknowledged(clients):,} requests acknowledged, lost 0; "
        f"{done} that were not answered had been done; {files} files",
    )


def live_through(store: Path, configuration: Path, clients: list[Client], victim: str, chance: random.Random) -> None:
    """One kill while all clients write, and then of all that is left."""
    stop = threading.Event()
    with running(store, configuration, WORKERS) as server:
        threads = [
            threading.Thread(target=client.write, args=(server.port, stop, chance.getrandbits(40)))
            for client in clients
        ]
        for thread in threads:
            thread.start()
        wait_for_answers(clients, threads, chance.randint(0, MOST_ANSWERS))
        time.sleep(chance.random() * LONGEST_PAUSE)
        writers = kill(server, victim, chance)
        if victim != "server":
            time.sleep(chance.random() * LONGEST_PAUSE)
        stop.set()
        writers += kill(server, "server", chance)
        for thread in threads:
            thread.join()
        wait_for_end(writers)
    faults = [fault for client in clients for fault in client.faults]
    assert not faults, faults[:3]
