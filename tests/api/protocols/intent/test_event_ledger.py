"""The ledger: events, spent nonces, what keys and sessions received, citations, several workers, damage."""

from __future__ import annotations

import gc
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from aidre.api.http import digest_of
from aidre.api.protocols.intent import event_ledger as ledger_module
from aidre.api.protocols.intent.event_ledger import (
    EXPIRY_SECONDS,
    RETENTION_SECONDS,
    SETTLE_ROWS,
    TRIM_SECONDS,
    EventLedger,
    PassageCandidate,
    RecordedExchange,
    piece_of,
    pseudonym_of,
    read_events,
    trim_given,
)
from aidre.engine.errors import StorageFailed


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[EventLedger]:
    opened = EventLedger(tmp_path / "intent.sqlite")
    yield opened
    opened.close()


def test_a_nonce_is_used_once_and_forgotten_after_its_time(ledger: EventLedger) -> None:
    nonce = digest_of("key", "nonce")
    assert ledger.spend(nonce, 1_000.0, 1_900.0)
    assert not ledger.spend(nonce, 1_000.0 + EXPIRY_SECONDS + 1, 3_000.0)
    assert ledger.spend(nonce, 2_600.0, 3_500.0)
    assert not ledger.spend(nonce, 2_700.0, 3_600.0)


def test_nonces_that_are_over_are_swept(ledger: EventLedger, tmp_path: Path) -> None:
    for n, now in enumerate((1_000.0, 2_000.0)):
        with ledger.transaction():
            assert ledger.spend(bytes([n]), now, now + 900.0)
        settled(ledger, now)
    with sqlite3.connect(tmp_path / "intent.sqlite") as beside:
        assert beside.execute("SELECT nonce FROM spent_nonces").fetchall() == [(b"\x01",)]
    beside.close()


def test_parts_of_a_digest_do_not_run_into_each_other() -> None:
    assert digest_of("a", "bc") != digest_of("ab", "c")
    assert digest_of("a") != digest_of("a", "")


def a_candidate(n: int, document: str = "d", **members: Any) -> PassageCandidate:
    known: dict[str, Any] = {
        "digest": bytes([n]),
        "tokens": 10,
        "chunk_limit": 2,
        "url": "https://example.com/d",
        **members,
    }
    return PassageCandidate(f"{document}#chunk_{n}", document, **known)


def pieces_of(*numbers: int) -> Callable[[], frozenset[bytes]]:
    """The chunks that the document of `a_candidate` has now."""
    return lambda: frozenset(piece_of(f"d#chunk_{n}", bytes([n])) for n in numbers)


ONE = RecordedExchange.of("key", "r1", "s")


def settled(ledger: EventLedger, now: float = 0.0) -> None:
    """What follows a commit, when it is due."""
    ledger._settled_changes -= SETTLE_ROWS
    ledger._expired_at = now - EXPIRY_SECONDS - 1
    ledger.maintain(now)
    assert ledger._connection.execute("SELECT count(*) FROM new_chunks").fetchone() == (0,)


def test_the_first_that_fit_are_taken(ledger: EventLedger) -> None:
    candidates = [a_candidate(1, tokens=50), *(a_candidate(n) for n in (2, 3, 4)), a_candidate(5, "e")]
    assert ledger.reserve(ONE, candidates, 10, 45, 0.0) == (1, 2, 4)
    assert ledger.reserve(RecordedExchange.of("other", "r2", "t"), candidates, 2, 45, 0.0) == (1, 2)
    assert ledger.reserve(RecordedExchange.of("third", "r3", "u"), candidates, 10, 9, 0.0) == ()


def test_what_is_given_back_was_never_returned(ledger: EventLedger) -> None:
    ledger.reserve(ONE, [a_candidate(1), a_candidate(2)], 10, 100, 0.0)
    assert set(ledger.returned_chunks(ONE.request)) == {pseudonym_of("d#chunk_1"), pseudonym_of("d#chunk_2")}
    ledger.release(ONE)
    assert ledger.returned_chunks(ONE.request) == {}
    assert ledger.reserve(ONE, [a_candidate(3), a_candidate(4)], 10, 100, 0.0) == (0, 1)


def test_a_document_without_any_chunk_to_give_gives_none(ledger: EventLedger) -> None:
    assert ledger.reserve(ONE, [a_candidate(1, chunk_limit=0)], 10, 100, 0.0) == ()
    assert ledger.reserve(ONE, [a_candidate(1, chunk_limit=1), a_candidate(2, chunk_limit=1)], 10, 100, 0.0) == (0,)
    assert ledger.reserve(ONE, [a_candidate(1, chunk_limit=0)], 10, 100, 0.0) == ()


def test_sessions_are_forgotten_in_the_end(ledger: EventLedger) -> None:
    """The document changed meanwhile, so that what its session received counts for the session alone."""
    with ledger.transaction():
        ledger.reserve(ONE, [a_candidate(1), a_candidate(2)], 10, 100, 0.0)
    settled(ledger, 1.0)
    changed = [a_candidate(3, present_pieces=pieces_of(3, 4))]
    assert ledger.reserve(ONE, changed, 10, 100, 1.0) == ()
    settled(ledger, RETENTION_SECONDS + 2)
    assert ledger.reserve(ONE, changed, 10, 100, RETENTION_SECONDS + 2) == (0,)


def asks(
    ledger: EventLedger, numbers: Sequence[int], now: float = 0.0, key: str = "key", **members: Any
) -> tuple[int, ...]:
    """The chunks of `numbers` that a key receives in a session of its own, of a document with two to give."""
    candidates = [a_candidate(n, **members) for n in numbers]
    with ledger.transaction():
        taken = ledger.reserve(
            RecordedExchange.of(key, os.urandom(4).hex(), os.urandom(4).hex()), candidates, 10, 100, now
        )
    return tuple(numbers[index] for index in taken)


def test_what_a_key_received_counts_in_every_session_and_beyond_the_retention(ledger: EventLedger) -> None:
    assert asks(ledger, [1, 2, 3]) == (1, 2)
    for now in (1.0, 86_400.0, RETENTION_SECONDS + 2, 100 * RETENTION_SECONDS):
        settled(ledger, now)
        assert asks(ledger, [3, 4, 2, 1], now) == (2, 1)
    assert asks(ledger, [3, 4], now, key="other") == (3, 4)


def test_of_a_changed_document_what_it_still_has_goes_on_counting(ledger: EventLedger) -> None:
    assert asks(ledger, [1, 2, 3]) == (1, 2)
    settled(ledger)
    assert asks(ledger, [3, 4, 5], present_pieces=pieces_of(2, 3, 4, 5)) == (3,)
    assert asks(ledger, [6, 7], present_pieces=pieces_of(6, 7, 8)) == (6, 7)
    assert asks(ledger, [4, 5, 1], present_pieces=pieces_of(1, 2, 4, 5)) == (1,), "the first content came back"
    assert asks(ledger, [4, 5], present_pieces=lambda: None) == (), "unreadable content"


def test_content_that_a_document_lost_is_forgotten_after_the_retention(ledger: EventLedger) -> None:
    assert asks(ledger, [1, 2]) == (1, 2)
    now = RETENTION_SECONDS + 1
    settled(ledger, now)
    assert asks(ledger, [3, 4], now, present_pieces=pieces_of(3, 4)) == (3, 4)
    assert asks(ledger, [5], now, present_pieces=pieces_of(1, 2, 5)) == (5,)


def test_a_checkpoint_keeps_the_table_of_what_was_given_within_its_bounds_once_a_day(
    ledger: EventLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "trim_given", partial(trim_given, max_rows=8))
    now = TRIM_SECONDS + 1
    for day in (1, 2):
        for document in ("d", "e"):
            assert asks(ledger, [2 * day, 2 * day + 1], now, document=document, chunk_limit=9) != ()
            now += 1.0
        settled(ledger, now)
    assert asks(ledger, [4, 5, 8], now, document="d", chunk_limit=2) == (4, 5), "the table is not counted twice a day"
    now += TRIM_SECONDS + 1
    settled(ledger, now)
    assert asks(ledger, [8, 9], now, document="d", chunk_limit=2) == (8, 9), "the oldest are forgotten"
    assert asks(ledger, [8, 9], now, document="e", chunk_limit=2) == ()


@pytest.mark.parametrize("settle_first", [False, True])
def test_a_document_of_another_collection_is_another(ledger: EventLedger, settle_first: bool) -> None:
    for collection in ("a", "b"):
        exchange = RecordedExchange.of("key", collection, collection, collection)
        with ledger.transaction():
            assert ledger.reserve(exchange, [a_candidate(n) for n in range(3)], 10, 100, 0.0) == (0, 1)
        if settle_first:
            settled(ledger)


@pytest.mark.parametrize("settle_first", [False, True])
def test_two_pages_of_one_answer_are_counted_cited_and_given_back_together(
    ledger: EventLedger, settle_first: bool
) -> None:
    with ledger.transaction():
        assert ledger.reserve(ONE, [a_candidate(1)], 10, 100, 0.0) == (0,)
        assert ledger.reserve(ONE, [a_candidate(2), a_candidate(3)], 10, 100, 0.0) == (0,)
    if settle_first:
        settled(ledger)
    assert set(ledger.returned_chunks(ONE.request)) == {pseudonym_of("d#chunk_1"), pseudonym_of("d#chunk_2")}
    assert asks(ledger, [4, 1, 2]) == (1, 2)
    with ledger.transaction():
        ledger.release(ONE)
    assert ledger.returned_chunks(ONE.request) == {}


@pytest.mark.parametrize("settle_first", [False, True])
@pytest.mark.parametrize("settle_last", [False, True])
def test_what_another_answer_delivered_stays_given(ledger: EventLedger, settle_first: bool, settle_last: bool) -> None:
    with ledger.transaction():
        assert ledger.reserve(ONE, [a_candidate(1), a_candidate(2)], 10, 100, 0.0) == (0, 1)
    if settle_first:
        settled(ledger)
    assert asks(ledger, [1]) == (1,)
    with ledger.transaction():
        ledger.release(ONE)
    if settle_last:
        settled(ledger)
    assert asks(ledger, [3, 4, 5]) == (3,)


def test_an_event_is_known_by_its_id_and_its_facts(ledger: EventLedger) -> None:
    assert ledger.record_citation(b"e", b"f", 100.0) == "new"
    assert ledger.record_citation(b"e", b"f", 101.0) == "same"
    assert ledger.record_citation(b"e", b"x", 101.0) == "other"
    settled(ledger, 100.0 + 2 * RETENTION_SECONDS)
    assert ledger.record_citation(b"e", b"x", 102.0) == "other"
    settled(ledger, 101.0 + 2 * RETENTION_SECONDS)
    assert ledger.record_citation(b"e", b"x", 102.0) == "new"


def test_events_come_back_in_order_whoever_wrote_them(ledger: EventLedger, tmp_path: Path) -> None:
    path = tmp_path / "intent.sqlite"
    beside = EventLedger(path)
    events = [{"n": number, "text": "ü\n\u2028"} for number in range(20)]
    for event in events:
        one = beside if event["n"] in {3, 4, 9} else ledger
        with one.transaction():
            one.add_event(event)
    beside.close()
    assert list(read_events(path)) == events
    assert list(read_events(tmp_path / "absent" / "intent.sqlite")) == []


def test_an_event_that_was_altered_is_left_out(ledger: EventLedger, tmp_path: Path) -> None:
    for number in range(3):
        ledger.add_event({"n": number})
    for value in ("{", "5", b"\xff\xfe"):
        ledger._connection.execute("UPDATE events SET event = CAST(? AS TEXT) WHERE id = 2", (value,))
        assert [event["n"] for event in read_events(tmp_path / "intent.sqlite")] == [0, 2]


def test_workers_know_what_each_other_did_before_and_after_it_is_settled(ledger: EventLedger, tmp_path: Path) -> None:
    beside = EventLedger(tmp_path / "intent.sqlite")
    numbers = iter(range(100))

    def takes(one: EventLedger, key: str) -> bool:
        """Whether a chunk of a document with one to give, by a nonce of its own that the other then refuses."""
        n = next(numbers)
        with one.transaction():
            assert one.spend(bytes([n]), 1.0, 900.0)
            took = one.reserve(
                RecordedExchange.of(key, f"r{n}", f"s{n}"), [a_candidate(n, chunk_limit=1)], 10, 100, 1.0
            )
        other = beside if one is ledger else ledger
        with other.transaction():
            assert not other.spend(bytes([n]), 1.0, 900.0)
            returned = other.returned_chunks(RecordedExchange.of(key, f"r{n}", "").request)
        assert set(returned) == ({pseudonym_of(f"d#chunk_{n}")} if took else set())
        return took == (0,)

    assert takes(ledger, "a")
    assert not takes(beside, "a")
    assert takes(beside, "b")
    assert not takes(ledger, "b")
    settled(beside)
    assert not takes(ledger, "a")
    assert not takes(ledger, "b")
    assert takes(beside, "c")
    settled(ledger)
    assert takes(beside, "d")
    for one in (ledger, beside):
        for key in "abcd":
            assert not takes(one, key)
    beside.close()


@pytest.mark.parametrize("settle_first", [False, True])
def test_what_is_given_back_is_so_for_all(ledger: EventLedger, tmp_path: Path, settle_first: bool) -> None:
    beside = EventLedger(tmp_path / "intent.sqlite")
    again = RecordedExchange.of("key", "r1", "s")
    with ledger.transaction():
        ledger.reserve(ONE, [a_candidate(1), a_candidate(2)], 10, 100, 0.0)
    if settle_first:
        settled(beside)
    with ledger.transaction():
        ledger.release(ONE)
    for one in (beside, ledger):
        with one.transaction():
            assert one.returned_chunks(ONE.request) == {}
    settled(beside)
    with ledger.transaction():
        assert ledger.reserve(again, [a_candidate(3), a_candidate(4), a_candidate(5)], 10, 100, 0.0) == (0, 1)
    beside.close()


def test_a_transaction_that_fails_leaves_nothing(ledger: EventLedger, tmp_path: Path) -> None:
    def fails() -> None:
        with ledger.transaction():
            assert ledger.spend(b"n", 1.0, 900.0)
            assert ledger.reserve(ONE, [a_candidate(1, chunk_limit=1)], 10, 100, 1.0) == (0,)
            ledger.add_event({})
            raise StorageFailed("no space")

    with pytest.raises(StorageFailed):
        fails()
    with ledger.transaction():
        assert ledger.spend(b"n", 1.0, 900.0)
        assert ledger.reserve(ONE, [a_candidate(2, chunk_limit=1)], 10, 100, 1.0) == (0,)
    assert list(read_events(tmp_path / "intent.sqlite")) == []


def test_a_ledger_is_private_and_shared(ledger: EventLedger, tmp_path: Path) -> None:
    beside = EventLedger(tmp_path / "intent.sqlite")
    with beside.transaction():
        assert beside.spend(b"n", 1.0, 2.0)
    with ledger.transaction():
        assert not ledger.spend(b"n", 1.0, 2.0)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("intent.sqlite*")} == {0o600}
    beside.close()


def test_a_damaged_ledger_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "intent.sqlite"
    path.write_bytes(b"not a database " * 100)
    with pytest.raises(StorageFailed, match=r"intent\.sqlite"):
        EventLedger(path)
    assert path.read_bytes() == b"not a database " * 100


def test_a_ledger_leaves_no_file_open_whether_it_could_be_opened_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gc.collect()  # what other tests have left to it would be closed meanwhile

    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    def fails(_: Path) -> None:
        raise OSError(5, "Input/output error")

    before = open_files()
    EventLedger(tmp_path / "intent.sqlite").close()
    assert open_files() == before
    for name in ("sync_folder", "older_receipts.put_aside"):
        with monkeypatch.context() as patch:
            patch.setattr(f"aidre.api.protocols.intent.event_ledger.{name}", fails)
            with pytest.raises(StorageFailed):
                EventLedger(tmp_path / "intent.sqlite")
        assert open_files() == before


def test_a_ledger_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "intent.sqlite"
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {ledger_module.SCHEMA_VERSION + 1}")
    connection.close()
    with pytest.raises(StorageFailed, match="newer release"):
        EventLedger(path)
