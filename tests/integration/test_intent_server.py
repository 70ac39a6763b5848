"""Agentic Intent on real connections: receipts through kill -9, replays over workers, a store that is not writable."""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from aidre.api.protocols.intent.event_ledger import LEDGER_FILE, read_events
from tests.support import publishers
from tests.support.clocks import WAIT_SECONDS, until
from tests.support.intent_platform import Platform, Sent
from tests.support.intent_schemas import EVENT, valid
from tests.support.processes import Running, running
from tests.support.publishers import CONFIGURATION
from tests.support.servers import served

store = publishers.own_store

CONNECTIONS = 4
RETRIEVALS = 60
"""Answers after which the server is killed, and again as many from the one after it."""


def platform_at(url: str, client: httpx.Client) -> Platform:
    def send(method: str, path: str, body: bytes, headers: dict[str, str]) -> Sent:
        response = client.request(method, url + path, content=body, headers=headers)
        return response.status_code, dict(response.headers), response.content

    return Platform(send)


def events_of(store: Path) -> list[dict[str, Any]]:
    events = list(read_events(store / ".log" / LEDGER_FILE))
    for event in events:
        valid(EVENT, event)
    return events


class Platforms:
    """Platforms that ask a server at the same time, on connections of their own, and go on when it is another one."""

    def __init__(self) -> None:
        self.server: Running | None = None
        self.answered: Counter[str] = Counter()
        """Requests that were answered, and how many chunks were in the answer."""
        self.asked: set[str] = set()
        self.denied: set[str] = set()
        self.enough = threading.Event()
        self._lock = threading.Lock()

    def ask(self, seed: int) -> None:
        chance = random.Random(seed)
        with httpx.Client(timeout=WAIT_SECONDS) as client:
            while not self.enough.is_set():
                if self.server is None:
                    time.sleep(0.01)
                    continue
                self._ask_once(platform_at(self.server.url, client), chance)

    def _ask_once(self, platform: Platform, chance: random.Random) -> None:
        outside = chance.random() < 0.2
        domain = "sports" if outside else "finance.markets"
        request = platform.request(f"part {chance.randrange(6)}", domain=domain)
        with self._lock:
            (self.denied if outside else self.asked).add(request["request_id"])
        try:
            answer = platform.retrieve(request)
        except httpx.TransportError:
            return
        if answer["status"] == "ok":
            with self._lock:
                self.answered[answer["request_id"]] = len(answer["content"]["chunks"])


@pytest.mark.process
def test_each_answer_that_arrived_has_one_event_whenever_the_server_is_killed(store: Path) -> None:
    platforms, settings = Platforms(), store.parent / "aidre.toml"
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        working = [pool.submit(platforms.ask, seed) for seed in range(CONNECTIONS)]
        try:
            for number in (1, 2):
                with running(store, settings=settings) as server:
                    platforms.server = server
                    until(lambda: len(platforms.answered) >= number * RETRIEVALS)  # noqa: B023 - called here alone
                    server.process.send_signal(signal.SIGKILL)
                    server.process.wait()
                    platforms.server = None
        finally:
            platforms.enough.set()
        for each in working:
            each.result()
    kept = Counter(event["request_id"] for event in events_of(store))
    chunks = {event["request_id"]: event["access"]["chunks_returned"] for event in events_of(store)}
    assert len(platforms.answered) >= 2 * RETRIEVALS
    assert platforms.denied
    assert {identifier: kept[identifier] for identifier in platforms.answered} == dict.fromkeys(platforms.answered, 1)
    assert set(kept) <= platforms.asked
    assert not set(kept) & platforms.denied
    assert {identifier: chunks[identifier] for identifier in platforms.answered} == platforms.answered


@pytest.mark.process
def test_over_several_workers_one_replay_is_answered_and_a_session_gets_its_fraction_once(store: Path) -> None:
    with running(store, workers=2, settings=store.parent / "aidre.toml") as server, ExitStack() as stack:
        # Connections of their own: the workers share the port.
        clients = [stack.enter_context(httpx.Client(timeout=WAIT_SECONDS)) for _ in range(CONNECTIONS)]
        platforms = [platform_at(server.url, client) for client in clients]
        body = json.dumps(platforms[0].request(id="replayed")).encode()
        headers = platforms[0].headers("POST", "/aip/retrieve", body)

        def replay(number: int) -> int:
            return platforms[number % CONNECTIONS].send("POST", "/aip/retrieve", body, headers)[0]

        def turn(number: int) -> list[str]:
            platform = platforms[number % CONNECTIONS]
            answer = platform.retrieve(platform.request(f"part {number % 6}", domain="archive", session="shared"))
            return [chunk["id"] for chunk in answer.get("content", {}).get("chunks", [])]

        with ThreadPoolExecutor(CONNECTIONS) as pool:
            statuses = Counter(pool.map(replay, range(60)))
            got = {chunk for chunks in pool.map(turn, range(24)) for chunk in chunks}
    assert statuses == {200: 1, 401: 59}
    assert len(got) == 2
    assert sum(event["request_id"] == "replayed" for event in events_of(store)) == 1


@pytest.mark.process
def test_over_two_workers_sessions_at_the_same_time_get_six_of_twelve_chunks(store: Path) -> None:
    publishers.fill_chunks(store, "vault", {"long": publishers.an_article("long", 12, "vault")}, visibility="private")
    with running(store, workers=2, settings=store.parent / "aidre.toml") as server, ExitStack() as stack:
        clients = [stack.enter_context(httpx.Client(timeout=WAIT_SECONDS)) for _ in range(CONNECTIONS)]
        platforms = [platform_at(server.url, client) for client in clients]

        def turn(number: int) -> list[str]:
            platform, part = platforms[number % CONNECTIONS], number % 12 + 1
            asked = platform.request(f"long part {part} " + "word " * part, domain="archive", session=f"s{number}")
            return [chunk["id"] for chunk in platform.retrieve(asked).get("content", {}).get("chunks", [])]

        with ThreadPoolExecutor(CONNECTIONS) as pool:
            received = {chunk for chunks in pool.map(turn, range(36)) for chunk in chunks}
    assert sum(chunk.startswith("long#") for chunk in received) == 6


@pytest.mark.slow
def test_a_store_that_cannot_be_written_fails_here_alone(store: Path) -> None:
    (store / ".log").mkdir(exist_ok=True)
    (store / ".log" / "intent.sqlite").mkdir()
    with served(store, CONFIGURATION) as (_, client):
        platform = platform_at("", client)
        status, answer = platform.verified("/aip/retrieve", platform.post("/aip/retrieve", platform.request()))
        assert (status, answer["error"]["code"]) == (503, "service_unavailable")
        assert platform.declaration()["publisher"]["id"] == "example"
        headers = {"content-type": "application/json"}
        found = client.post("/search", json={"query": "alpha", "collection": "open"}, headers=headers)
        assert found.status_code == 200


@pytest.mark.slow
def test_the_query_string_is_signed_as_it_arrives(store: Path) -> None:
    with served(store, CONFIGURATION) as (_, client):
        platform, path = platform_at("", client), "/aip/retrieve?x=%2F%20"
        sent = platform.post(path, platform.request())
        assert sent[0] == 400
        assert platform.verified(path, sent)[1]["error"]["code"] == "invalid_request"
