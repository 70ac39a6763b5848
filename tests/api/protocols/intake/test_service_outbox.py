"""Binds on their way to a webhook: until it takes them, once at a time, and gone from the store afterwards."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from aidre.api.app import create_app
from aidre.api.config.settings import parse_settings
from aidre.api.protocols.intake import service
from aidre.api.protocols.intake.bind_key import BindKey
from aidre.api.protocols.intake.offer_ledger import OfferLedger, StoredBind
from aidre.api.protocols.intake.service import Delivery, decrypt_delivery, deliver, retry_seconds
from aidre.engine.collection.store import Store
from tests.support.clients import BASE
from tests.support.clocks import WAIT_SECONDS, until_in_loop
from tests.support.intake_agent import JSON
from tests.support.intakes import CONFIGURATION, PERSON, SESSION, a_bind, a_stored_bind, a_submission


class Hook:
    """A webhook on loopback: `statuses` are its answers in turn, then 204 for ever."""

    def __init__(self, statuses: list[int], work: Callable[[], None]) -> None:
        self.statuses = statuses
        self.work = work
        self.taken: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.paths: list[str] = []
        self.running = 0
        self.most_running = 0
        self.lock = threading.Lock()
        self.url = ""

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        with self.lock:
            self.running += 1
            self.most_running = max(self.most_running, self.running)
        body = handler.rfile.read(int(handler.headers["content-length"]))
        self.work()
        with self.lock:
            self.running -= 1
            self.taken.append(json.loads(body))
            self.keys.append(handler.headers["idempotency-key"])
            self.paths.append(handler.path)
            status = self.statuses.pop(0) if self.statuses else 204
        handler.send_response(status)
        if status == 302:
            handler.send_header("location", "/elsewhere")
        handler.end_headers()


@contextmanager
def hooked(*statuses: int, work: Callable[[], None] = lambda: None) -> Iterator[Hook]:
    hook = Hook(list(statuses), work)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            hook.answer(self)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        hook.url = f"http://127.0.0.1:{server.server_address[1]}/hook?token=t"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield hook
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MIN_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(service, "POLL_SECONDS", 0.02)


def configured(webhook: str) -> str:
    return CONFIGURATION.replace("[intake]", f'[intake]\nwebhook = "{webhook}"')


async def bound(http: httpx.AsyncClient) -> str:
    """The id of an offer that is bound now."""
    headers = {"content-type": JSON}
    answer = await http.post("/intakes/find-a-plumber", json=a_submission(), headers=headers)
    offer: str = answer.json()["offer"]["id"]
    assert (await http.post("/intakes/bind", json=a_bind(offer), headers=headers)).status_code == 200
    return offer


async def while_serving(store: Path, webhook: str, workers: int, offers: int, done: Callable[[], bool]) -> list[str]:
    """Binds so many offers with applications that run beside each other, until `done`; gives back the offers."""
    apps = [create_app(Store(store), parse_settings(configured(webhook))) for _ in range(workers)]
    contexts = [app.router.lifespan_context(app) for app in apps]
    for context in contexts:
        await context.__aenter__()
    try:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(apps[0]), base_url=BASE) as http:
            made = [await bound(http) for _ in range(offers)]
        await until_in_loop(done)
    finally:
        for context in contexts:
            await context.__aexit__(None, None, None)
    return made


def kept(store: Path) -> list[StoredBind]:
    with closing(OfferLedger(store / ".log")) as ledger:
        return list(ledger.binds())


def test_a_bind_is_handed_over_and_its_data_leave_the_store(store: Path) -> None:
    with hooked() as hook:
        [offer] = asyncio.run(while_serving(store, hook.url, 1, 1, lambda: bool(hook.taken)))
        [told] = hook.taken
        assert (told["offer_id"], told["session_id"], told["intake"]) == (offer, SESSION, "find-a-plumber")
        assert told["bind_data"] == PERSON
        assert told["agent"] == {"id": "agent-1", "consent_scope": ["bind"]}
        assert hook.keys == [offer]
        assert hook.paths == ["/hook?token=t"]
    assert [bind.sealed for bind in kept(store)] == [None]


@pytest.mark.slow
def test_a_webhook_that_refuses_is_asked_until_it_takes(store: Path) -> None:
    with hooked(500, 302, 404, 429) as hook:
        [offer] = asyncio.run(while_serving(store, hook.url, 1, 1, lambda: len(hook.taken) == 5))
        assert hook.keys == [offer] * 5
        assert set(hook.paths) == {"/hook?token=t"}  # redirects are not followed
    assert [bind.sealed for bind in kept(store)] == [None]


def test_what_no_webhook_took_is_delivered_by_the_next_server(store: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{unused.getsockname()[1]}/"
        made = asyncio.run(while_serving(store, dead, 1, 3, lambda: all(bind.attempts for bind in kept(store))))
    assert all(bind.sealed is not None for bind in kept(store))
    with hooked() as hook:
        asyncio.run(while_serving(store, hook.url, 1, 0, lambda: len(hook.taken) == 3))
        assert sorted(hook.keys) == sorted(made)
    assert all(bind.sealed is None for bind in kept(store))


@pytest.mark.slow
def test_several_workers_deliver_each_bind_once(store: Path) -> None:
    both = threading.Barrier(2)
    begun = itertools.count()

    def work() -> None:
        if next(begun) < 2:
            both.wait(WAIT_SECONDS)  # the first delivery lasts until another worker has begun one

    with hooked(work=work) as hook:
        made = asyncio.run(while_serving(store, hook.url, 3, 12, lambda: len(hook.taken) >= 12))
        assert sorted(hook.keys) == sorted(made)
        assert hook.most_running > 1, "the workers did not work beside each other"


def test_a_name_server_that_does_not_answer_does_not_outlast_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    def hang(*_: object, **__: object) -> list[object]:
        released.wait(WAIT_SECONDS)
        return []

    monkeypatch.setattr(service, "DELIVERY_SECONDS", 0.05)
    monkeypatch.setattr(socket, "getaddrinfo", hang)
    try:
        assert deliver("https://hooks.example/", Delivery("offer", b"{}")) is False
        assert not released.is_set()
    finally:
        released.set()


def test_retries_come_ever_later_and_never_end() -> None:
    waits = [retry_seconds(attempts) for attempts in (0, 1, 2, 50, 10**9)]
    assert waits == sorted(waits)
    assert waits[0] < waits[2]
    assert waits[-1] == service.MAX_RETRY_SECONDS
    assert service.DELIVERY_SECONDS < service.LEASE_SECONDS


def test_a_bind_of_another_key_is_not_delivered() -> None:
    assert decrypt_delivery(a_stored_bind(), BindKey("another secret")) is None


@pytest.mark.parametrize(
    ("begin", "part"),
    [(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), (b"HTTP/1.1 204 No Content\r\n", b"X-Part: 1\r\n")],
    ids=["before its status", "after its status"],
)
def test_a_webhook_that_drips_does_not_outlast_the_lease(
    begin: bytes, part: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part of its answer comes in time, and the last one does not: what was cut off is not an acceptance."""
    monkeypatch.setattr(service, "DELIVERY_SECONDS", 0.1)

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        deadline = time.monotonic() + WAIT_SECONDS
        with connection, suppress(OSError):
            connection.sendall(begin)
            while time.monotonic() < deadline:
                connection.sendall(part)
                time.sleep(0.01)
            connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        dripping = threading.Thread(target=drip, args=(listener,))
        dripping.start()
        try:
            assert deliver(f"http://127.0.0.1:{listener.getsockname()[1]}/", Delivery("offer", b"{}")) is False
        finally:
            dripping.join()


def test_a_log_line_about_a_delivery_names_no_address(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        with hooked(500) as hook:
            assert deliver(hook.url, Delivery("offer", b'{"email":"canary"}')) is False
        assert deliver("https://127.0.0.1:1/secret-path", Delivery("offer", b'{"email":"canary"}')) is False
    assert [record.getMessage().rpartition("offer: ")[2] for record in caplog.records] == [
        "status 500",
        "ConnectionRefusedError",
    ]
    assert not any(word in caplog.text for word in ("canary", "token", "secret-path", "127.0.0.1"))
