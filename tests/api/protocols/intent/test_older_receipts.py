"""Receipts of older releases: read where they lie, and taken over once, whatever state they were left in."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from aidre.api.http.sqlite import find_damage, register_checksum
from aidre.api.protocols.intent import event_ledger as ledger_module
from aidre.api.protocols.intent.event_ledger import LEDGER_FILE, EventLedger, read_events
from aidre.api.protocols.intent.receipts import Receipts
from aidre.engine.errors import StorageFailed
from tests.hostile import receipts
from tests.hostile.older_receipts import lines_of, older_receipts
from tests.hostile.receipts import LOG, Kept

NAMES = [f"turn {number}" for number in range(10)]


def kept() -> Kept:
    said = Kept()
    said.hear([f"{kind} {name}" for name in NAMES for kind in ("access", "citation")])
    return said


def ids_in(log: Path) -> list[str]:
    return [event["event_id"] for event in read_events(log / LEDGER_FILE)]


def check(store: Path) -> None:
    """Everything that was acknowledged is there once, nonces are spent, and citations are known."""
    asyncio.run(receipts._check(store, kept()))


def contents(log: Path) -> dict[str, bytes]:
    files = (path for path in log.rglob("*") if path.is_file() and not path.name.endswith(("-shm", "-wal", ".intent")))
    return {path.relative_to(log).as_posix(): path.read_bytes() for path in files}


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(ledger_module, "SETTLE_ROWS", receipts.SETTLED_ROWS)  # `receipts_in` leaves it so
    return tmp_path / LOG


@pytest.mark.parametrize("version", [1, 2, 3, 4])
@pytest.mark.parametrize("torn", [False, True])
def test_every_version_is_read_and_taken_over_once(tmp_path: Path, log: Path, version: int, torn: bool) -> None:
    expected = older_receipts(log, NAMES, version, torn=torn)
    before = contents(log)
    assert ids_in(log) == expected, "in the order of the log, then of the journal"
    assert contents(log) == before
    check(tmp_path)
    assert ids_in(log)[: len(expected)] == expected
    assert find_damage(log / LEDGER_FILE) is None
    assert not (log / "events").exists()
    set_aside = {name: content for name, content in contents(log).items() if name.startswith("events.1.old/")}
    assert {name.replace("events.1.old", "events") for name in set_aside} == before.keys() - {LEDGER_FILE}
    assert [before[name.replace("events.1.old", "events")] for name in set_aside] == list(set_aside.values())
    EventLedger(log / LEDGER_FILE).close()
    assert ids_in(log)[: len(expected)] == expected


@pytest.mark.parametrize("version", [1, 4])
def test_what_keys_and_sessions_received_goes_on_counting(log: Path, version: int) -> None:
    older_receipts(log, NAMES, version)
    with closing(EventLedger(log / LEDGER_FILE)) as ledger:
        for name in (NAMES[0], NAMES[-1]):  # from a table, and from the journal
            wanted = ledger_module.PassageCandidate("another", name, b"digest", 10, 1, None)
            for session, counts in ((f"session {name}", True), ("another", version == 4)):
                exchange = ledger_module.RecordedExchange.of(receipts.KEY, "r", session)
                assert ledger.reserve(exchange, [wanted], 5, 100, receipts.NOW) == (() if counts else (0,))
                ledger.release(exchange)


def test_an_answer_that_was_given_back_is_not_taken_over(log: Path) -> None:
    older_receipts(log, NAMES)
    with closing(EventLedger(log / LEDGER_FILE)) as ledger:
        returned = ledger.returned_chunks(ledger_module.RecordedExchange.of(receipts.KEY, NAMES[-1], "").request)
    assert returned.keys() == {ledger_module.pseudonym_of(f"{NAMES[-1]}#chunk_1")}


def test_a_citation_that_an_older_release_only_began_is_new(log: Path) -> None:
    older_receipts(log, NAMES)
    with closing(sqlite3.connect(log / LEDGER_FILE)) as connection, connection:
        register_checksum(connection)
        connection.execute("INSERT INTO cited VALUES (?, ?, 1, 5.0, 0)", (b"e", b"f"))
    with closing(EventLedger(log / LEDGER_FILE)) as ledger:
        assert ledger.record_citation(b"e", b"g", receipts.NOW) == "new"


@pytest.mark.parametrize("damage", [b"{", b'{"event_id": "ac', b"5", b"\xff\xfe", b""])
def test_a_damaged_line_costs_no_other_and_is_mentioned(
    tmp_path: Path, log: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    expected = older_receipts(log, NAMES)
    path = log / "events" / "000002.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.chmod(0o600)
    path.write_bytes(b"".join([*lines[:2], damage + b"\n", *lines[2:]]))
    assert ids_in(log) == expected
    with caplog.at_level(logging.WARNING, "aidre"):
        check(tmp_path)
    assert ids_in(log)[: len(expected)] == expected
    assert any("000002.jsonl of the event log was altered" in message for message in caplog.messages)


def test_a_line_that_no_checksum_covers_is_mentioned(log: Path, caplog: pytest.LogCaptureFixture) -> None:
    older_receipts(log, NAMES)
    with sorted((log / "events").glob("*.jsonl"))[-1].open("ab") as file:
        file.write(b"\n")
    EventLedger(log / LEDGER_FILE).close()
    assert any("of the event log has no event in line" in message for message in caplog.messages)


@pytest.mark.parametrize("cut", [0, 1, 25])
def test_journaled_lines_that_a_power_cut_took_from_the_log_come_back(log: Path, cut: int) -> None:
    """The last segment ends within or right behind a line of the journal, or before its newline."""
    expected = older_receipts(log, NAMES, torn=False)
    last = sorted((log / "events").glob("*.jsonl"))[-1]
    content = last.read_bytes()
    last.write_bytes(content[: len(content) - cut])
    assert sorted(ids_in(log)) == sorted(expected)
    EventLedger(log / LEDGER_FILE).close()
    assert sorted(ids_in(log)) == sorted(expected)


def test_a_log_without_its_ledger_is_taken_over(log: Path) -> None:
    expected = older_receipts(log, NAMES, 1)
    (log / LEDGER_FILE).unlink()
    assert ids_in(log) == expected
    receipts_of = Receipts(log)
    asyncio.run(receipts_of.open())
    receipts_of.close()
    assert ids_in(log) == expected
    assert not (log / "events").exists()


def test_a_log_whose_first_segments_were_removed_is_taken_over(tmp_path: Path, log: Path) -> None:
    expected = older_receipts(log, NAMES)
    (log / "events" / "000001.jsonl").unlink()
    (log / "events" / "notes.jsonl").write_bytes(b'{"event_id": "other"}\n')
    EventLedger(log / LEDGER_FILE).close()
    assert ids_in(log) == expected[6:]
    opened = receipts.receipts_in(tmp_path)
    assert asyncio.run(receipts.cite(opened, NAMES[0], "again")) == "same", "its citation stays known"
    opened.close()


def test_a_second_log_is_put_beside_the_first(log: Path) -> None:
    older_receipts(log, NAMES)
    EventLedger(log / LEDGER_FILE).close()
    (log / "events").mkdir()
    EventLedger(log / LEDGER_FILE).close()
    assert sorted(path.name for path in log.glob("events*")) == ["events.1.old", "events.2.old"]


def test_a_damaged_journal_is_refused_and_nothing_is_changed(log: Path) -> None:
    older_receipts(log, NAMES)
    with closing(sqlite3.connect(log / LEDGER_FILE)) as connection, connection:
        connection.execute("UPDATE notes SET entries = ? WHERE id = 2", (b'[["other"]]',))
    before = contents(log)
    with pytest.raises(StorageFailed, match="its journal is damaged"):
        EventLedger(log / LEDGER_FILE)
    assert contents(log) == before


def test_a_server_of_an_older_release_that_goes_on_is_refused(log: Path) -> None:
    """Its next commit fails, so that no receipt is written where nobody reads it."""
    older_receipts(log, NAMES)
    with closing(sqlite3.connect(log / LEDGER_FILE, isolation_level=None)) as older:
        assert older.execute("SELECT count(*) FROM notes").fetchone() == (3,)
        EventLedger(log / LEDGER_FILE).close()
        with pytest.raises(sqlite3.OperationalError, match="no such table: notes"):
            older.execute("INSERT INTO notes (segment, lines, entries) VALUES (1, x'', x'5b5d')")


class Died(BaseException):
    """In place of a kill."""


@pytest.mark.parametrize("name", ["EventLedger.release", "sync_folder", "older_receipts.put_aside"])
def test_a_take_over_that_ends_before_or_after_its_commit_is_completed_by_the_next(
    log: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    expected = older_receipts(log, NAMES)

    def dies(*_: Any) -> None:
        raise Died

    before = contents(log)
    with monkeypatch.context() as patch:
        patch.setattr(f"aidre.api.protocols.intent.event_ledger.{name}", dies)
        with pytest.raises(Died):
            EventLedger(log / LEDGER_FILE)
    assert {path: content for path, content in contents(log).items() if path != LEDGER_FILE} == {
        path: content for path, content in before.items() if path != LEDGER_FILE
    }
    assert ids_in(log) == expected
    EventLedger(log / LEDGER_FILE).close()
    assert ids_in(log) == expected
    assert not (log / "events").exists()


def test_workers_that_start_together_take_over_once(tmp_path: Path, log: Path) -> None:
    expected = older_receipts(log, NAMES)

    async def open_all() -> None:
        workers = [receipts.receipts_in(tmp_path) for _ in range(4)]
        await asyncio.gather(*(worker.open() for worker in workers))
        for worker in workers:
            worker.close()

    asyncio.run(open_all())
    assert ids_in(log) == expected
    assert sorted(path.name for path in log.glob("events*")) == ["events.1.old"]


def test_a_reader_that_began_before_a_take_over_reads_on(log: Path) -> None:
    expected = older_receipts(log, NAMES)
    reading = read_events(log / LEDGER_FILE)
    found = [next(reading)["event_id"]]
    EventLedger(log / LEDGER_FILE).close()
    assert found + [event["event_id"] for event in reading] == expected


def test_lines_are_one_line_each() -> None:
    assert [line.count(b"\n") for line in lines_of("a\nb")] == [1, 1]
