"""Tables of chunks: how much of them an account may fill, what is forgotten then, and what settling leaves alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

import pytest

from aidre.api.http.sqlite import register_checksum
from aidre.api.protocols.intent import chunks as chunks_module
from aidre.api.protocols.intent.chunks import (
    CHUNK_TABLES,
    Exchange,
    ReturnedChunk,
    add_chunks,
    fair_share,
    given_pieces,
    release_chunks,
    request_chunks,
    session_pieces,
    settle,
    trim_given,
)


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    opened = sqlite3.connect(":memory:", isolation_level=None)
    register_checksum(opened)
    opened.executescript(CHUNK_TABLES)
    yield opened
    opened.close()


def give(connection: sqlite3.Connection, account: bytes, pieces: int) -> None:
    """Pieces 1, 2, 3 ... of a document, one a second."""
    for n in range(1, pieces + 1):
        exchange = Exchange(b"r", b"s", n.to_bytes(2), account)
        add_chunks(connection, exchange, [ReturnedChunk(b"d", n.to_bytes(2), "c", None)], float(n))
    settle(connection)


def held(connection: sqlite3.Connection, account: bytes) -> list[int]:
    return sorted(int.from_bytes(piece) for piece in given_pieces(connection, account, [b"d"])[b"d"])


def test_an_account_keeps_its_newest_rows_up_to_a_quarter(connection: sqlite3.Connection) -> None:
    give(connection, b"a", 10)
    give(connection, b"b", 3)
    assert trim_given(connection, 20)
    assert held(connection, b"a") == [6, 7, 8, 9, 10]
    assert held(connection, b"b") == [1, 2, 3]


def test_rows_beyond_those_deleted_at_once_are_left_for_the_next_time(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks_module, "MAX_TRIMMED_ROWS", 3)
    give(connection, b"a", 9)
    assert [trim_given(connection, 20), trim_given(connection, 20)] == [False, True]
    assert held(connection, b"a") == [5, 6, 7, 8, 9]


@pytest.mark.parametrize(
    ("counts", "share"),
    [((), 25), ((100,), 25), ((10, 10), 25), ((25, 25, 25, 25, 25), 20), ((1, 100, 100, 100, 100, 100), 19)],
)
def test_the_share_is_a_quarter_and_less_where_the_table_would_overflow(counts: Sequence[int], share: int) -> None:
    assert fair_share(counts, 100) == share
    assert sum(min(count, share) for count in counts) <= 100


def test_rows_of_an_older_release_without_an_account_are_not_counted(connection: sqlite3.Connection) -> None:
    give(connection, b"", 3)
    assert connection.execute("SELECT count(*) FROM given_chunks").fetchone() == (0,)


@pytest.mark.parametrize("settled", [(), (0,), (0, 1), (1,), (0, 1, 2)])
def test_the_pages_of_an_answer_add_up_until_it_is_given_back(
    connection: sqlite3.Connection, settled: Sequence[int]
) -> None:
    """Whichever of them have their indexes already."""
    mine, other = Exchange(b"r", b"s", b"a", b"k"), Exchange(b"r", b"s", b"b", b"k")
    for number, (exchange, piece) in enumerate(((mine, b"1"), (mine, b"2"), (other, b"2"))):
        add_chunks(connection, exchange, [ReturnedChunk(b"d", piece, piece.hex(), None)], 1.0)
        if number in settled:
            settle(connection)
    assert session_pieces(connection, b"s", [b"d", b"e"]) == {b"d": {b"1", b"2"}, b"e": set()}
    assert given_pieces(connection, b"k", [b"d"]) == {b"d": {b"1", b"2"}}
    assert {chunk for chunk, _ in request_chunks(connection, b"r")} == {"31", "32"}
    release_chunks(connection, mine)
    for _ in range(2):
        assert session_pieces(connection, b"s", [b"d"]) == given_pieces(connection, b"k", [b"d"]) == {b"d": {b"2"}}
        assert request_chunks(connection, b"r") == [("32", None)]
        settle(connection)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
