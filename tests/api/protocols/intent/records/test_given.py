"""The table of what keys were given: how much of it an account may fill, and what is forgotten then."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

import pytest

from aidre.api.http.sqlite import register_checksum
from aidre.api.protocols.intent.records import given as given_module
from aidre.api.protocols.intent.records.given import GIVEN_TABLE, add_given, fair_share, given_pieces, trim_given
from aidre.api.protocols.intent.records.journal import Reservation, ReturnedChunk


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    opened = sqlite3.connect(":memory:", isolation_level=None)
    register_checksum(opened)
    opened.executescript(GIVEN_TABLE)
    yield opened
    opened.close()


def give(connection: sqlite3.Connection, account: bytes, pieces: int) -> None:
    """Pieces 1, 2, 3 ... of a document, one a second."""
    add_given(
        connection,
        [
            Reservation(b"r", b"s", n.to_bytes(2), float(n), (ReturnedChunk(b"d", n.to_bytes(2), "c", None),), account)
            for n in range(1, pieces + 1)
        ],
    )


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
    monkeypatch.setattr(given_module, "MAX_TRIMMED_ROWS", 3)
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
    assert connection.execute("SELECT count(*) FROM given").fetchone() == (0,)
