"""Checkpoints of receipts: what they sync and strike, what stays in the journal, and nonces of one request."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from aidre.api.http.sqlite import register_checksum
from aidre.api.protocols.intent.envelope import AuthenticationFailed
from aidre.api.protocols.intent.event_log import altered_segments, encode_line, read_events
from aidre.api.protocols.intent.ledger import LEDGER_FILE, Exchange, Ledger
from aidre.api.protocols.intent.receipts import Nonce, Receipts
from aidre.engine.errors import StorageFailed


@pytest.fixture
def receipts(tmp_path: Path) -> Iterator[Receipts]:
    receipts = Receipts(tmp_path)
    yield receipts
    receipts.close()


def keep(receipts: Receipts, number: int) -> None:
    asyncio.run(receipts._commit(lambda _, lines: lines.append(encode_line({"n": number}))))


def ledger_of(receipts: Receipts) -> Ledger:
    assert receipts._ledger is not None
    return receipts._ledger


def journaled(receipts: Receipts) -> list[bytes]:
    return [line for entry in ledger_of(receipts).journal() for line in entry.lines]


def test_lines_of_a_segment_that_could_not_be_synced_stay_in_the_journal(
    receipts: Receipts, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(receipts, 1)
    real = os.fdatasync

    def broken(descriptor: int) -> None:
        if descriptor == receipts._log._file:
            raise OSError(5, "Input/output error")
        real(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", broken)
        with pytest.raises(StorageFailed):
            receipts._checkpoint(ledger_of(receipts))
    keep(receipts, 2)
    receipts._checkpoint(ledger_of(receipts))
    assert journaled(receipts) == [encode_line({"n": 1})], "no later sync repairs what a failed one has lost"
    assert [event["n"] for event in read_events(receipts.folder)] == [1, 2]


def test_a_checkpoint_records_checksums_of_what_it_synced(receipts: Receipts, tmp_path: Path) -> None:
    keep(receipts, 1)
    receipts._checkpoint(ledger_of(receipts))
    assert journaled(receipts) == []
    [segment] = receipts.folder.glob("*.jsonl")
    with closing(sqlite3.connect(tmp_path / LEDGER_FILE)) as connection:
        register_checksum(connection)
        assert connection.execute("SELECT segment, first, last FROM marks").fetchall() == [
            (1, 0, segment.stat().st_size)
        ]
    assert list(altered_segments(tmp_path / LEDGER_FILE, receipts.folder)) == []
    segment.write_bytes(segment.read_bytes().replace(b"1", b"2"))
    assert list(altered_segments(tmp_path / LEDGER_FILE, receipts.folder)) == [1]


def test_a_nonce_is_spent_once_for_all_commits_of_its_request(receipts: Receipts) -> None:
    exchange, nonce = Exchange.of("key", "request", "session"), Nonce.of("key", "nonce")

    async def ask(nonce: Nonce) -> None:
        await receipts.reserve(nonce, exchange, [], (5, 500), lambda _: None)

    asyncio.run(ask(nonce))
    assert nonce.spent
    asyncio.run(ask(nonce))
    asyncio.run(receipts.spend(nonce))
    with pytest.raises(AuthenticationFailed):
        asyncio.run(ask(Nonce.of("key", "nonce")))
