"""Receipts: one fsync for an answer, one turn for all who wait, and lines that come back when the machine died."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from aidre.api.http.errors import Unprocessable
from aidre.api.protocols.intent import receipts as receipts_module
from aidre.api.protocols.intent.envelope import AuthenticationFailed
from aidre.api.protocols.intent.event_log import encode_line, read_events
from aidre.api.protocols.intent.ledger import Ledger, pseudonym_of
from aidre.api.protocols.intent.messages import CitationEvent
from aidre.api.protocols.intent.receipts import CHECKPOINT_SECONDS, Nonce, Receipts
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
    def keeping(_: Ledger, lines: list[bytes]) -> None:
        lines += [encode_line({"n": n}) for n in numbers]

    await receipts._commit(keeping)


def numbers(receipts: Receipts) -> list[int]:
    return [event["n"] for event in read_events(receipts.folder)]


def noted(receipts: Receipts) -> int:
    """How many lines."""
    return asyncio.run(receipts._commit(lambda ledger, _: sum(len(one.lines) for one in ledger.journal())))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """After so many commits notes are struck."""
    monkeypatch.setattr(receipts_module, "CHECKPOINT_COMMITS", 8)
    return 8


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
        assert len(synced) == 1


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


def test_notes_are_struck_when_the_log_was_synced(opened: Receipts, synced: list[int], few: int) -> None:
    for n in range(few + 1):
        asyncio.run(keep(opened, n))
    assert noted(opened) == 1
    assert opened._log._file in synced
    assert numbers(opened) == list(range(few + 1))


def test_a_clean_end_leaves_no_notes(opened: Receipts, tmp_path: Path) -> None:
    asyncio.run(keep(opened, 1))
    opened.close()
    again = Receipts(tmp_path)
    assert noted(again) == 0
    again.close()


@pytest.mark.parametrize("left", [0, 1, 2, 3])
def test_what_a_power_cut_took_from_the_log_is_written_again(opened: Receipts, tmp_path: Path, left: int) -> None:
    for n in range(3):
        asyncio.run(keep(opened, n))
    [segment] = opened.folder.glob("*.jsonl")
    lines = segment.read_bytes().splitlines(keepends=True)
    # The log is cut, once at a line and once within the next one; the process is gone without a word.
    segment.write_bytes(b"".join(lines[:left]) + (lines[left][:4] if left < 3 else b""))
    again = Receipts(tmp_path)
    asyncio.run(again.open())
    assert sorted(numbers(again)) == [0, 1, 2]
    assert noted(again) == 0
    again.close()


def test_what_a_dying_worker_had_only_noted_is_written_by_the_next(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "intent.sqlite")
    with ledger.transaction():
        ledger.journal_lines([encode_line({"n": 7})], 1)
    ledger.close()
    receipts = Receipts(tmp_path)
    asyncio.run(receipts.open())
    asyncio.run(receipts.open())
    assert numbers(receipts) == [7]
    receipts.close()


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


def test_a_turn_that_fails_leaves_nothing(opened: Receipts, monkeypatch: pytest.MonkeyPatch) -> None:
    async def turn(nonce: Nonce) -> Sequence[Any]:
        return await asyncio.gather(keep(opened, 1), opened.spend(nonce), return_exceptions=True)

    def broken(*_: Any) -> None:
        raise StorageFailed("no space")

    asyncio.run(keep(opened, 0))
    monkeypatch.setattr(opened._log, "write", broken)
    failed = asyncio.run(turn(Nonce.of("key", "n")))
    assert isinstance(failed[0], StorageFailed)
    monkeypatch.undo()
    assert numbers(opened) == [0]
    assert noted(opened) == 1


def test_a_nonce_stays_spent_when_its_line_was_not_written(opened: Receipts, monkeypatch: pytest.MonkeyPatch) -> None:
    nonce = Nonce.of("key", "n")

    def keeping(ledger: Ledger, lines: list[bytes]) -> None:
        opened._spend(ledger, nonce)
        lines.append(encode_line({"n": 1}))

    def broken(*_: Any) -> None:
        raise StorageFailed("no space")

    monkeypatch.setattr(opened._log, "write", broken)
    with pytest.raises(StorageFailed):
        asyncio.run(opened._commit(keeping))
    monkeypatch.undo()
    assert noted(opened) == 0
    with pytest.raises(AuthenticationFailed):
        asyncio.run(opened.spend(Nonce.of("key", "n")))
    opened.close()
    again = Receipts(opened.folder.parent, Clock())
    with pytest.raises(AuthenticationFailed):
        asyncio.run(again.spend(Nonce.of("key", "n")))
    again.close()


def turn(receipts: Receipts, *numbers: int) -> int:
    """A turn and what follows it, in this thread; gives back how many lines are noted then."""
    receipts._commit_batch([lambda _, lines: lines.extend(encode_line({"n": n}) for n in numbers)])
    receipts._checkpoint_if_due()
    assert receipts._ledger is not None
    return sum(len(one.lines) for one in receipts._ledger.journal())


def test_notes_that_cannot_be_struck_harm_no_answer(
    opened: Receipts, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    def broken() -> None:
        raise StorageFailed("cannot sync")

    with monkeypatch.context() as patch:
        patch.setattr(opened._log, "sync", broken)
        assert [turn(opened, n) for n in range(few + 2)] == [*range(1, few + 3)]
    assert turn(opened, few + 2) == 0
    assert numbers(opened) == list(range(few + 3))


def test_notes_are_struck_in_time(tmp_path: Path) -> None:
    clock = Clock()
    receipts = Receipts(tmp_path, clock)
    assert turn(receipts, 1) == 1
    clock.now += CHECKPOINT_SECONDS
    assert turn(receipts, 2) == 0
    receipts.close()


def test_a_ledger_that_cannot_be_opened_fails_all_and_is_tried_again(
    opened: Receipts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Path) -> Ledger:
        raise StorageFailed("cannot use intent.sqlite")

    monkeypatch.setattr(receipts_module, "Ledger", broken)
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
