"""Agentic Intent on a real server: receipts through kill -9, replays over workers, a store that cannot be written."""

from __future__ import annotations

import json
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.support import publishers
from tests.support.intent_platform import Platform, Sent
from tests.support.intent_schemas import EVENT, valid

store = publishers.own_store

START_SECONDS = 60
CONNECTIONS = 8
RETRIEVALS = 240
KILLS = 3


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def start(store: Path, port: int, workers: int = 1) -> subprocess.Popen[bytes]:
    config = store.parent / "aidre.toml"
    words = ["serve", "--store", str(store), "--config", str(config), "--port", str(port), "--workers", str(workers)]
    process = subprocess.Popen([sys.executable, "-m", "aidre.api.cli.main", *words], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            if httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200:
                return process
        except httpx.TransportError:
            time.sleep(0.05)
    process.kill()
    raise AssertionError("the server does not become ready")


@contextmanager
def running(store: Path, workers: int = 1) -> Iterator[str]:
    port = free_port()
    process = start(store, port, workers)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(START_SECONDS)


def platform_at(url: str, client: httpx.Client) -> Platform:
    def send(method: str, path: str, body: bytes, headers: dict[str, str]) -> Sent:
        response = client.request(method, url + path, content=body, headers=headers)
        return response.status_code, dict(response.headers), response.content

    return Platform(send)


def events_of(store: Path) -> list[dict[str, Any]]:
    lines = b"".join(path.read_bytes() for path in sorted((store / ".log" / "events").glob("*.jsonl"))).splitlines()
    events = [json.loads(line) for line in lines if line.startswith(b"{") and line.endswith(b"}")]
    for event in events:
        valid(EVENT, event)
    return events


def test_each_answer_that_arrived_has_one_event_whenever_the_server_is_killed(store: Path) -> None:
    port, answered, asked, denied = free_port(), Counter[str](), set[str](), set[str]()
    lock, process = threading.Lock(), [start(store, port)]

    def work(seed: int) -> None:
        chance = random.Random(seed)
        with httpx.Client(timeout=10) as client:
            platform = platform_at(f"http://127.0.0.1:{port}", client)
            while len(answered) < RETRIEVALS:
                outside = chance.random() < 0.2
                domain = "sports" if outside else "finance.markets"
                request = platform.request(f"part {chance.randrange(6)}", domain=domain)
                with lock:
                    (denied if outside else asked).add(request["request_id"])
                try:
                    answer = platform.retrieve(request)
                except httpx.TransportError:
                    time.sleep(0.05)
                    continue
                if answer["status"] == "ok":
                    with lock:
                        answered[answer["request_id"]] = len(answer["content"]["chunks"])

    chance = random.Random(7)
    try:
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            workers = [pool.submit(work, seed) for seed in range(CONNECTIONS)]
            for kill in range(1, KILLS + 1):
                while len(answered) < kill * RETRIEVALS // (KILLS + 1):
                    time.sleep(0.005)
                time.sleep(chance.random() / 20)
                process[0].send_signal(signal.SIGKILL)
                process[0].wait()
                process[0] = start(store, port)
            for worker in workers:
                worker.result()
    finally:
        process[0].terminate()
        process[0].wait(START_SECONDS)
    events = events_of(store)
    kept = Counter(event["request_id"] for event in events)
    assert len(answered) >= RETRIEVALS
    assert denied
    assert all(kept[identifier] == 1 for identifier in answered)
    assert set(kept) <= asked
    assert not set(kept) & denied
    chunks = {event["request_id"]: event["access"]["chunks_returned"] for event in events}
    assert all(chunks[identifier] == count for identifier, count in answered.items())


def test_over_several_workers_one_replay_is_answered_and_a_session_gets_its_fraction_once(store: Path) -> None:
    with running(store, workers=2) as url, ExitStack() as stack:
        # Connections of their own: the workers share the port.
        clients = [stack.enter_context(httpx.Client(timeout=30)) for _ in range(CONNECTIONS)]
        platforms = [platform_at(url, client) for client in clients]
        body = json.dumps(platforms[0].request(id="replayed")).encode()
        headers = platforms[0].headers("POST", "/aip/retrieve", body)

        def replay(number: int) -> int:
            return platforms[number % CONNECTIONS].send("POST", "/aip/retrieve", body, headers)[0]

        def turn(number: int) -> list[str]:
            platform = platforms[number % CONNECTIONS]
            answer = platform.retrieve(platform.request(f"part {number % 6}", domain="archive", session="shared"))
            return [chunk["id"] for chunk in answer.get("content", {}).get("chunks", [])]

        with ThreadPoolExecutor(CONNECTIONS) as pool:
            statuses = Counter(pool.map(replay, range(200)))
            got = {chunk for chunks in pool.map(turn, range(60)) for chunk in chunks}
    assert statuses == {200: 1, 401: 199}
    assert len(got) == 2
    assert sum(event["request_id"] == "replayed" for event in events_of(store)) == 1


def test_a_store_that_cannot_be_written_fails_here_alone(store: Path) -> None:
    (store / ".log").mkdir(exist_ok=True)
    (store / ".log" / "events").write_text("in the way", encoding="utf-8")
    (store / ".log" / "intent.sqlite").mkdir()
    with running(store) as url, httpx.Client(timeout=30) as client:
        platform = platform_at(url, client)
        status, answer = platform.verified("/aip/retrieve", platform.post("/aip/retrieve", platform.request()))
        assert (status, answer["error"]["code"]) == (503, "service_unavailable")
        assert platform.declaration()["publisher"]["id"] == "example"
        headers = {"content-type": "application/json"}
        found = client.post(f"{url}/search", json={"query": "alpha", "collection": "open"}, headers=headers)
        assert found.status_code == 200


def test_the_query_string_is_signed_as_it_arrives(store: Path) -> None:
    with running(store) as url, httpx.Client(timeout=30) as client:
        platform, path = platform_at(url, client), "/aip/retrieve?x=%2F%20"
        sent = platform.post(path, platform.request())
        assert sent[0] == 400
        assert platform.verified(path, sent)[1]["error"]["code"] == "invalid_request"
