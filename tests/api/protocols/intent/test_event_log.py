"""The event log and the ledger by themselves: rotation, torn lines, full disks, several processes, fractions."""

from __future__ import annotations

import json
import multiprocessing
import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aidre.api.http.sqlite import register_checksum
from aidre.api.protocols.intent import ledger as ledger_module
from aidre.api.protocols.intent.event_log import EventLog, encode_line, missing_lines, newest_segment, read_events
from aidre.api.protocols.intent.ledger import (
    EXPIRY_SECONDS,
    RETENTION_SECONDS,
    Candidate,
    Exchange,
    Ledger,
    digest_of,
    pseudonym_of,
)
from aidre.engine.errors import StorageFailed


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EventLog]:
    opened = EventLog(tmp_path / "events", segment_bytes=200)
    yield opened
    opened.close()


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger(tmp_path / "intent.sqlite")
    yield opened
    opened.close()


def numbers(folder: Path) -> list[int]:
    return [event["n"] for event in read_events(folder)]


def test_lines_come_back_in_order_over_segments(log: EventLog) -> None:
    for n in range(100):
        log.append([encode_line({"n": n, "text": "ü\n\u2028"})])
    assert numbers(log.folder) == list(range(100))
    segments = sorted(log.folder.glob("*.jsonl"))
    assert len(segments) > 5
    assert newest_segment(log.folder) == len(segments)
    assert all(path.stat().st_size <= 300 for path in segments)
    assert {stat.S_IMODE(path.stat().st_mode) for path in segments[:-1]} == {0o400}
    assert stat.S_IMODE(segments[-1].stat().st_mode) == 0o600


def test_full_segments_never_change_again(log: EventLog) -> None:
    for n in range(40):
        log.append([encode_line({"n": n})])
    before = {path: path.read_bytes() for path in sorted(log.folder.glob("*.jsonl"))[:-1]}
    for n in range(40, 80):
        log.append([encode_line({"n": n})])
    assert all(path.read_bytes() == content for path, content in before.items())


def test_a_log_is_gone_on_with_after_a_restart(log: EventLog) -> None:
    log.append([encode_line({"n": 0})])
    again = EventLog(log.folder, segment_bytes=200)
    again.append([encode_line({"n": 1})])
    log.append([encode_line({"n": 2})])
    again.close()
    assert numbers(log.folder) == [0, 1, 2]


def test_a_torn_line_costs_no_other(log: EventLog) -> None:
    log.append([encode_line({"n": 0})])
    [segment] = log.folder.glob("*.jsonl")
    with segment.open("ab") as file:
        file.write(b'{"n": 1, "te')
    log.append([encode_line({"n": 2}), encode_line({"n": 3})])
    assert numbers(log.folder) == [0, 2, 3]


def test_a_full_disk_leaves_no_part_of_a_line(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.append([encode_line({"n": 0})])
    [segment] = log.folder.glob("*.jsonl")
    before, write, calls = segment.read_bytes(), os.write, [0]

    def full(descriptor: int, content: bytes) -> int:
        calls[0] += 1
        if calls[0] == 2:
            raise OSError(28, "No space left on device")
        return write(descriptor, content[:9])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StorageFailed, match="No space left"):
        log.append([encode_line({"n": 1}), encode_line({"n": 2})])
    monkeypatch.undo()
    assert segment.read_bytes() == before
    log.append([encode_line({"n": 3})])
    assert numbers(log.folder) == [0, 3]


def test_after_a_failed_fsync_another_segment_is_begun(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", broken)
    with pytest.raises(StorageFailed):
        log.append([encode_line({"n": 0})])
    monkeypatch.undo()
    log.append([encode_line({"n": 1})])
    assert newest_segment(log.folder) == 2
    assert numbers(log.folder) == [0, 1]


def _append(folder: Path, writer: int) -> None:
    log = EventLog(folder, segment_bytes=500)
    for n in range(100):
        log.append([encode_line({"writer": writer, "n": n})])
    log.close()


def test_several_processes_share_a_log(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_append, args=(tmp_path, writer)) for writer in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    events = list(read_events(tmp_path))
    for writer in range(3):
        assert [event["n"] for event in events if event["writer"] == writer] == list(range(100))


def test_lines_that_are_no_objects_are_no_events(tmp_path: Path) -> None:
    (tmp_path / "000001.jsonl").write_bytes(b'5\n"x"\n\n\xff\n{"n": 1}\n')
    (tmp_path / "notes.jsonl").write_bytes(b'{"n": 2}\n')
    assert numbers(tmp_path) == [1]
    assert list(read_events(tmp_path / "absent")) == []


def test_a_nonce_is_used_once_and_forgotten_after_its_time(ledger: Ledger) -> None:
    nonce = digest_of("key", "nonce")
    assert ledger.spend(nonce, 1_000.0, 1_900.0)
    assert not ledger.spend(nonce, 1_000.0 + EXPIRY_SECONDS + 1, 3_000.0)
    assert ledger.spend(nonce, 2_600.0, 3_500.0)
    assert not ledger.spend(nonce, 2_700.0, 3_600.0)


def test_nonces_that_are_over_are_swept(ledger: Ledger, tmp_path: Path) -> None:
    for n, now in enumerate((1_000.0, 2_000.0)):
        with ledger.transaction():
            assert ledger.spend(bytes([n]), now, now + 900.0)
        struck(ledger, now)
    with sqlite3.connect(tmp_path / "intent.sqlite") as beside:
        assert beside.execute("SELECT digest FROM nonces").fetchall() == [(b"\x01",)]
    beside.close()


def test_parts_of_a_digest_do_not_run_into_each_other() -> None:
    assert digest_of("a", "bc") != digest_of("ab", "c")
    assert digest_of("a") != digest_of("a", "")


def a_candidate(n: int, document: str = "d", **members: Any) -> Candidate:
    known: dict[str, Any] = {
        "digest": bytes([n]),
        "tokens": 10,
        "session_limit": 2,
        "url": "https://example.com/d",
        **members,
    }
    return Candidate(f"{document}#chunk_{n}", document, **known)


ONE = Exchange.of("key", "r1", "s")


def struck(ledger: Ledger, now: float = 0.0) -> None:
    with ledger.transaction():
        ledger.checkpoint(ledger.journal(), now)


def test_the_first_that_fit_are_taken(ledger: Ledger) -> None:
    candidates = [a_candidate(1, tokens=50), *(a_candidate(n) for n in (2, 3, 4)), a_candidate(5, "e")]
    assert ledger.reserve(ONE, candidates, 10, 45, 0.0) == (1, 2, 4)
    assert ledger.reserve(Exchange.of("key", "r2", "t"), candidates, 2, 45, 0.0) == (1, 2)
    assert ledger.reserve(Exchange.of("key", "r3", "u"), candidates, 10, 9, 0.0) == ()


def test_what_is_given_back_was_never_returned(ledger: Ledger) -> None:
    ledger.reserve(ONE, [a_candidate(1), a_candidate(2)], 10, 100, 0.0)
    assert set(ledger.returned_chunks(ONE.request)) == {pseudonym_of("d#chunk_1"), pseudonym_of("d#chunk_2")}
    ledger.release(ONE)
    assert ledger.returned_chunks(ONE.request) == {}
    assert ledger.reserve(ONE, [a_candidate(3), a_candidate(4)], 10, 100, 0.0) == (0, 1)


def test_a_document_without_any_chunk_to_give_gives_none(ledger: Ledger) -> None:
    assert ledger.reserve(ONE, [a_candidate(1, session_limit=0)], 10, 100, 0.0) == ()
    assert ledger.reserve(ONE, [a_candidate(1, session_limit=1), a_candidate(2, session_limit=1)], 10, 100, 0.0) == (0,)
    assert ledger.reserve(ONE, [a_candidate(1, session_limit=0)], 10, 100, 0.0) == ()


def test_sessions_are_forgotten_in_the_end(ledger: Ledger) -> None:
    with ledger.transaction():
        ledger.reserve(ONE, [a_candidate(1), a_candidate(2)], 10, 100, 0.0)
    struck(ledger, 1.0)
    assert ledger.reserve(ONE, [a_candidate(3)], 10, 100, 1.0) == ()
    struck(ledger, RETENTION_SECONDS + 2)
    assert ledger.reserve(ONE, [a_candidate(3)], 10, 100, RETENTION_SECONDS + 2) == (0,)


def test_an_event_is_known_by_its_id_and_its_facts(ledger: Ledger) -> None:
    assert ledger.record_citation(b"e", b"f", 100.0) == "new"
    assert ledger.record_citation(b"e", b"f", 101.0) == "same"
    assert ledger.record_citation(b"e", b"x", 101.0) == "other"
    ledger.delete_citation(b"e")
    assert ledger.record_citation(b"e", b"x", 102.0) == "new"


def test_an_event_that_an_older_release_began_to_keep_is_new(ledger: Ledger, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "intent.sqlite") as beside:
        register_checksum(beside)
        beside.execute("INSERT INTO cited VALUES (?, ?, 1, 5.0, 0)", (b"e", b"f"))
    beside.close()
    assert ledger.record_citation(b"e", b"f", 100.0) == "new"
    assert ledger.record_citation(b"e", b"f", 101.0) == "same"


def test_lines_are_noted_in_order_until_they_are_struck(ledger: Ledger) -> None:
    for segment, lines in (1, [b"a\n", b"b\n"]), (2, [b"c\n"]):
        with ledger.transaction():
            ledger.journal_lines(lines, segment)
    assert [(one.segment, one.lines) for one in ledger.journal()] == [(1, [b"a\n", b"b\n"]), (2, [b"c\n"])]
    with ledger.transaction():
        ledger.checkpoint(ledger.journal()[:1], 0.0)
    with ledger.transaction():
        ledger.remove_lines([b"c\n"])
    assert [one.lines for one in ledger.journal()] == [[]]


def test_workers_know_what_each_other_did_before_and_after_it_is_struck(ledger: Ledger, tmp_path: Path) -> None:
    beside = Ledger(tmp_path / "intent.sqlite")
    numbers = iter(range(100))

    def takes(one: Ledger, session: str) -> bool:
        """Whether a chunk of a document with one to give, by a nonce of its own that the other then refuses."""
        n = next(numbers)
        with one.transaction():
            assert one.spend(bytes([n]), 1.0, 900.0)
            took = one.reserve(Exchange.of("key", f"r{n}", session), [a_candidate(n, session_limit=1)], 10, 100, 1.0)
        other = beside if one is ledger else ledger
        with other.transaction():
            assert not other.spend(bytes([n]), 1.0, 900.0)
            returned = other.returned_chunks(Exchange.of("key", f"r{n}", session).request)
        assert set(returned) == ({pseudonym_of(f"d#chunk_{n}")} if took else set())
        return took == (0,)

    assert takes(ledger, "a")
    assert not takes(beside, "a")
    assert takes(beside, "b")
    assert not takes(ledger, "b")
    struck(beside)
    assert not takes(ledger, "a")
    assert not takes(ledger, "b")
    assert takes(beside, "c")
    struck(ledger)
    assert takes(beside, "d")
    for one in (ledger, beside):
        for session in "abcd":
            assert not takes(one, session)
    beside.close()


@pytest.mark.parametrize("strike_first", [False, True])
def test_what_is_given_back_is_so_for_all(ledger: Ledger, tmp_path: Path, strike_first: bool) -> None:
    beside = Ledger(tmp_path / "intent.sqlite")
    again = Exchange.of("key", "r1", "s")
    with ledger.transaction():
        ledger.reserve(ONE, [a_candidate(1), a_candidate(2)], 10, 100, 0.0)
    if strike_first:
        struck(beside)
    with ledger.transaction():
        ledger.release(ONE)
    for one in (beside, ledger):
        with one.transaction():
            assert one.returned_chunks(ONE.request) == {}
    struck(beside)
    with ledger.transaction():
        assert ledger.reserve(again, [a_candidate(3), a_candidate(4), a_candidate(5)], 10, 100, 0.0) == (0, 1)
    beside.close()


def test_a_transaction_that_fails_leaves_nothing_in_memory(ledger: Ledger) -> None:
    def fails() -> None:
        with ledger.transaction():
            assert ledger.spend(b"n", 1.0, 900.0)
            assert ledger.reserve(ONE, [a_candidate(1, session_limit=1)], 10, 100, 1.0) == (0,)
            ledger.journal_lines([b"a\n"], 1)
            raise StorageFailed("no space")

    with pytest.raises(StorageFailed):
        fails()
    with ledger.transaction():
        assert ledger.spend(b"n", 1.0, 900.0)
        assert ledger.reserve(ONE, [a_candidate(2, session_limit=1)], 10, 100, 1.0) == (0,)
    assert [one.lines for one in ledger.journal()] == [[]]


def test_a_ledger_of_the_release_before_is_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "intent.sqlite"
    Ledger(path).close()
    with sqlite3.connect(path) as older:
        register_checksum(older)
        older.execute("DROP TABLE notes")
        older.execute("INSERT INTO nonces VALUES (?, 900.0)", (b"n",))
        older.execute(
            "INSERT INTO returned (request, answer, session, document, piece, chunk, url, at)"
            " VALUES (?, x'00', ?, ?, x'00', 'd#chunk_1', NULL, 1.0)",
            (ONE.request, ONE.session, digest_of("d")),
        )
        older.execute("PRAGMA user_version = 1")
    older.close()
    ledger = Ledger(path)
    with ledger.transaction():
        assert not ledger.spend(b"n", 1.0, 900.0)
        assert ledger.returned_chunks(ONE.request) == {"d#chunk_1": {None}}
        assert ledger.reserve(ONE, [a_candidate(2, session_limit=1)], 10, 100, 1.0) == ()
    ledger.close()


def test_what_is_missing_in_a_log_is_found_over_its_segments(log: EventLog) -> None:
    lines = [encode_line({"n": n}) for n in range(60)]
    for line in lines[:50]:
        log.append([line])
    assert newest_segment(log.folder) > 2
    assert missing_lines(log.folder, lines, 1) == lines[50:]
    assert missing_lines(log.folder, [lines[0], lines[59]], 2) == [lines[0], lines[59]]


def test_a_ledger_is_private_and_shared(ledger: Ledger, tmp_path: Path) -> None:
    beside = Ledger(tmp_path / "intent.sqlite")
    with beside.transaction():
        assert beside.spend(b"n", 1.0, 2.0)
    with ledger.transaction():
        assert not ledger.spend(b"n", 1.0, 2.0)
    beside.sync()
    beside.close()
    ledger.sync()
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("intent.sqlite*")} == {0o600}


def test_a_damaged_ledger_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "intent.sqlite"
    path.write_bytes(b"not a database " * 100)
    with pytest.raises(StorageFailed, match=r"intent\.sqlite"):
        Ledger(path)
    assert path.read_bytes() == b"not a database " * 100


def test_a_ledger_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "intent.sqlite"
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {ledger_module.SCHEMA_VERSION + 1}")
    connection.close()
    with pytest.raises(StorageFailed, match="newer release"):
        Ledger(path)


def test_a_line_is_one_line_of_json() -> None:
    line = encode_line({"a": "x\ny\u2028z"})
    assert line.count(b"\n") == 1
    assert json.loads(line) == {"a": "x\ny\u2028z"}
