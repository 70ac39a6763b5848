"""Receipts: one commit for an answer, one for all who wait, and nothing of a commit that fails."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from aidre.api.http.http_errors import Unprocessable
from aidre.api.protocols.intent import event_ledger as ledger_module, receipts as receipts_module
from aidre.api.protocols.intent.event_ledger import (
    EXPIRY_SECONDS,
    RETENTION_SECONDS,
    EventLedger,
    PassageCandidate,
    RecordedExchange,
    pseudonym_of,
    read_events,
)
from aidre.api.protocols.intent.intent_messages import CitationEvent
from aidre.api.protocols.intent.receipts import NONCE_LIFETIME_SECONDS, Nonce, Receipts
from aidre.api.protocols.intent.signed_envelope import AuthenticationFailed
from aidre.engine.errors import StorageFailed
from tests.support.clients import Client
from tests.support.clocks import WAIT_SECONDS, Clock
from tests.support.intent_platform import Platform
from tests.support.publishers import fill_news, log_of, publishing


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Receipts]:
    receipts = Receipts(tmp_path, Clock())
    yield receipts
    receipts.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Client, Platform]]:
    fill_news(tmp_path)
    with publishing(tmp_path) as both:
        yield both


async def keep(receipts: Receipts, *numbers: int) -> None:
    def keeping(ledger: EventLedger) -> None:
        for n in numbers:
            ledger.add_event({"n": n})

    await receipts._commit(keeping)


def numbers(receipts: Receipts) -> list[int]:
    return [event["n"] for event in read_events(receipts.path)]


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The descriptors that were synced."""
    calls: list[int] = []
    original = os.fdatasync

    def counting(descriptor: int) -> None:
        calls.append(descriptor)
        original(descriptor)

    monkeypatch.setattr(os, "fdatasync", counting)
    return calls


def test_an_answer_and_a_denial_cost_one_fsync_each(
    served: tuple[Client, Platform], synced: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, platform = served
    monkeypatch.setattr(client.app.state.intent.receipts, "_clock", Clock(time.time()))
    answer = platform.retrieve()
    for ask in (
        platform.retrieve,
        lambda: platform.retrieve(platform.request(domain="sports")),
        lambda: platform.report(platform.citation(answer)),
        lambda: platform.post("/aip/retrieve", {}),
    ):
        synced.clear()
        ask()
        assert synced == [client.app.state.intent.receipts._ledger._wal]


def test_those_who_wait_are_synced_together(opened: Receipts, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk takes its time for the first of them, until all have come."""
    all_came, synced, sync = threading.Event(), list[int](), os.fdatasync

    def slow(descriptor: int) -> None:
        assert all_came.wait(WAIT_SECONDS)
        synced.append(descriptor)
        sync(descriptor)

    async def many() -> None:
        tasks = [asyncio.create_task(keep(opened, n)) for n in range(100)]
        await asyncio.sleep(0)
        all_came.set()
        await asyncio.gather(*tasks)

    monkeypatch.setattr(os, "fdatasync", slow)
    asyncio.run(many())
    assert numbers(opened) == list(range(100))
    assert len(synced) <= 2, "one for those who came first, one for all the others"


def test_after_a_sync_that_failed_all_is_in_the_database(
    opened: Receipts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the kernel has lost of SQLite's log is not needed any more."""

    def fails(_: int) -> None:
        raise OSError(5, "Input/output error")

    nonce = Nonce.of("key", "n")
    asyncio.run(keep(opened, 1))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fails)
        with pytest.raises(StorageFailed, match="Input/output error"):
            asyncio.run(opened.spend(nonce))
        with pytest.raises(StorageFailed):
            asyncio.run(keep(opened, 2))
    assert nonce.spent, "other workers refuse it already"
    copy = tmp_path / "copy" / "intent.sqlite"
    copy.parent.mkdir()
    copy.write_bytes(opened.path.read_bytes())
    assert [event["n"] for event in read_events(copy)] == [1, 2]
    asyncio.run(keep(opened, 3))
    assert numbers(opened) == [1, 2, 3]


def test_a_store_without_receipts_gets_no_files_by_opening(opened: Receipts, tmp_path: Path) -> None:
    asyncio.run(opened.open())
    assert list(tmp_path.iterdir()) == []


def test_one_refusal_harms_nobody_beside_it(opened: Receipts) -> None:
    spent = Nonce.of("key", "spent")

    async def turn() -> Sequence[Any]:
        await opened.spend(spent)
        replay = Nonce.of("key", "spent")
        return await asyncio.gather(
            keep(opened, 1), opened.spend(replay), opened.spend(spent), keep(opened, 2), return_exceptions=True
        )

    results = asyncio.run(turn())
    assert [type(result) for result in results] == [type(None), AuthenticationFailed, type(None), type(None)]
    assert numbers(opened) == [1, 2]


def broken(*_: Any) -> None:
    raise StorageFailed("no space")


def test_a_turn_that_fails_leaves_nothing(opened: Receipts, monkeypatch: pytest.MonkeyPatch) -> None:
    async def turn(nonce: Nonce) -> Sequence[Any]:
        return await asyncio.gather(opened.spend(nonce), keep(opened, 1), return_exceptions=True)

    nonce = Nonce.of("key", "n")
    asyncio.run(keep(opened, 0))
    monkeypatch.setattr(EventLedger, "add_event", broken)
    failed = asyncio.run(turn(nonce))
    assert [type(each) for each in failed] == [StorageFailed, StorageFailed]
    monkeypatch.undo()
    assert numbers(opened) == [0]
    assert not nonce.spent
    asyncio.run(opened.spend(nonce))
    with pytest.raises(AuthenticationFailed):
        asyncio.run(opened.spend(Nonce.of("key", "n")))


def test_a_nonce_is_spent_behind_an_answer_whose_event_was_not_written(
    served: tuple[Client, Platform], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, platform = served
    asked, nonce = platform.request(), "n" * 22
    with monkeypatch.context() as patch:
        patch.setattr(EventLedger, "add_event", broken)
        assert platform.post("/aip/retrieve", asked, nonce=nonce)[0] == 503
    assert platform.post("/aip/retrieve", asked, nonce=nonce)[0] == 401


def test_a_nonce_is_spent_once_for_all_commits_of_its_request(
    opened: Receipts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange, nonce = RecordedExchange.of("key", "request", "session"), Nonce.of("key", "nonce")

    async def ask(receipts: Receipts, nonce: Nonce) -> None:
        await receipts.reserve(nonce, exchange, [], (5, 500), lambda _: None)

    asyncio.run(ask(opened, nonce))
    with monkeypatch.context() as patch:
        patch.setattr(EventLedger, "reserve", broken)
        with pytest.raises(StorageFailed):
            asyncio.run(ask(opened, nonce))
    assert nonce.spent, "by the first page"
    asyncio.run(ask(opened, nonce))
    asyncio.run(opened.spend(nonce))
    beside = Receipts(tmp_path, opened._clock)
    for receipts in (opened, beside):
        with pytest.raises(AuthenticationFailed):
            asyncio.run(ask(receipts, Nonce.of("key", "nonce")))
    beside.close()


def test_work_after_a_commit_that_fails_harms_no_answer(
    opened: Receipts, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(EventLedger, "maintain", broken)
    for n in range(3):
        asyncio.run(keep(opened, n))
    opened.close()
    assert numbers(opened) == [0, 1, 2]
    assert caplog.messages == ["expired receipts could not be deleted, the next commit tries again: no space"] * 3


def test_receipts_expire_while_a_server_runs(tmp_path: Path) -> None:
    clock = Clock()
    receipts = Receipts(tmp_path, clock)
    exchange = RecordedExchange.of("key", "request", "session")
    chunk = PassageCandidate("d#1", "d", b"digest", 1, 5, None)
    asyncio.run(receipts.reserve(Nonce.of("key", "n"), exchange, [chunk], (5, 500), lambda _: {"n": 1}))

    def rows() -> list[int]:
        async def count() -> list[int]:
            tables = ("spent_nonces", "returned_chunks", "given_chunks", "events")
            query = "SELECT count(*) FROM "
            return await receipts._commit(
                lambda ledger: [ledger._connection.execute(query + table).fetchone()[0] for table in tables]
            )

        return asyncio.run(count())

    assert receipts._ledger is not None
    receipts._ledger._settled_changes -= ledger_module.SETTLE_ROWS
    rows()
    assert rows() == [1, 1, 1, 1]
    for seconds, left in ((NONCE_LIFETIME_SECONDS + 1, [0, 1, 1, 1]), (RETENTION_SECONDS + 1, [0, 0, 1, 1])):
        clock.now += max(seconds, EXPIRY_SECONDS + 1)
        rows()
        assert rows() == left
    receipts.close()


def test_a_ledger_that_cannot_be_opened_fails_all_and_is_tried_again(
    opened: Receipts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Path) -> EventLedger:
        raise StorageFailed("cannot use intent.sqlite")

    monkeypatch.setattr(receipts_module, "EventLedger", broken)
    with pytest.raises(StorageFailed):
        asyncio.run(keep(opened, 1))
    monkeypatch.undo()
    asyncio.run(keep(opened, 2))
    assert numbers(opened) == [2]


def test_a_replay_is_told_nothing_of_what_it_asked(served: tuple[Client, Platform]) -> None:
    client, platform = served
    for asked in (platform.request(), platform.request(domain="sports"), {"request_id": "x"}):
        nonce = f"once-{asked['request_id']}-{'n' * 22}"
        platform.post("/aip/retrieve", asked, nonce=nonce)
        before = len(log_of(client))
        status, headers, body = platform.post("/aip/retrieve", asked, nonce=nonce)
        assert status == 401
        assert "x-aip-signature" not in {name.lower() for name in headers}
        assert b"alpha" not in body
        assert b"out_of_scope" not in body
        assert len(log_of(client)) == before


@pytest.mark.parametrize("named", [str, pseudonym_of])
def test_what_an_older_release_returned_can_still_be_cited(named: Callable[[str], str]) -> None:
    returned = {named("d#chunk_1"): frozenset({named("https://x.example/d")})}

    def cited(url: str, *chunks: str) -> CitationEvent:
        return CitationEvent("cite_1", "req_1", url, chunks, "answer", {})

    receipts_module._check_citation(cited("https://x.example/d", "d#chunk_1"), returned)
    for wrong in (cited("https://x.example/other", "d#chunk_1"), cited("https://x.example/d", "d#chunk_2")):
        with pytest.raises(Unprocessable):
            receipts_module._check_citation(wrong, returned)
