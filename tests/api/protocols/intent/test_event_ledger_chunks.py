"""Tables of chunks: how much of them an account may fill, what is forgotten then, and what settling leaves alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from aidre.api.http.sqlite import find_damage
from aidre.api.protocols.intent import event_ledger as ledger_module
from aidre.api.protocols.intent.event_ledger import EventLedger, RecordedExchange, fair_share, trim_given


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[EventLedger]:
    opened = EventLedger(tmp_path / "intent.sqlite")
    yield opened
    opened.close()


def give(ledger: EventLedger, account: bytes, pieces: int) -> None:
    """Pieces 1, 2, 3 ... of a document, one a second."""
    for n in range(1, pieces + 1):
        exchange = RecordedExchange(b"r", b"s", n.to_bytes(2), account)
        ledger.add_chunks(exchange, [(b"d", n.to_bytes(2), "c", None)], float(n))
    ledger.settle()


def given(ledger: EventLedger, account: bytes) -> set[bytes]:
    return ledger._pieces("given_chunks", "account", account, [b"d"])[b"d"]


def held(ledger: EventLedger, account: bytes) -> list[int]:
    return sorted(int.from_bytes(piece) for piece in given(ledger, account))


def test_an_account_keeps_its_newest_rows_up_to_a_quarter(ledger: EventLedger) -> None:
    give(ledger, b"a", 10)
    give(ledger, b"b", 3)
    assert trim_given(ledger._connection, 20)
    assert held(ledger, b"a") == [6, 7, 8, 9, 10]
    assert held(ledger, b"b") == [1, 2, 3]


def test_rows_beyond_those_deleted_at_once_are_left_for_the_next_time(
    ledger: EventLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "MAX_TRIMMED_ROWS", 3)
    give(ledger, b"a", 9)
    assert [trim_given(ledger._connection, 20), trim_given(ledger._connection, 20)] == [False, True]
    assert held(ledger, b"a") == [5, 6, 7, 8, 9]


@pytest.mark.parametrize(
    ("counts", "share"),
    [((), 25), ((100,), 25), ((10, 10), 25), ((25, 25, 25, 25, 25), 20), ((1, 100, 100, 100, 100, 100), 19)],
)
def test_the_share_is_a_quarter_and_less_where_the_table_would_overflow(counts: Sequence[int], share: int) -> None:
    assert fair_share(counts, 100) == share
    assert sum(min(count, share) for count in counts) <= 100


def test_rows_of_an_older_release_without_an_account_are_not_counted(ledger: EventLedger) -> None:
    give(ledger, b"", 3)
    assert ledger._connection.execute("SELECT count(*) FROM given_chunks").fetchone() == (0,)


@pytest.mark.parametrize("settled", [(), (0,), (0, 1), (1,), (0, 1, 2)])
def test_the_pages_of_an_answer_add_up_until_it_is_given_back(
    ledger: EventLedger, tmp_path: Path, settled: Sequence[int]
) -> None:
    """Whichever of them have their indexes already."""
    mine, other = RecordedExchange(b"r", b"s", b"a", b"k"), RecordedExchange(b"r", b"s", b"b", b"k")
    for number, (exchange, piece) in enumerate(((mine, b"1"), (mine, b"2"), (other, b"2"))):
        ledger.add_chunks(exchange, [(b"d", piece, piece.hex(), None)], 1.0)
        if number in settled:
            ledger.settle()

    def session() -> dict[bytes, set[bytes]]:
        return ledger._pieces("returned_chunks", "session", b"s", [b"d", b"e"])

    assert session() == {b"d": {b"1", b"2"}, b"e": set()}
    assert given(ledger, b"k") == {b"1", b"2"}
    assert set(ledger.returned_chunks(b"r")) == {"31", "32"}
    ledger.release(mine)
    for _ in range(2):
        assert session()[b"d"] == given(ledger, b"k") == {b"2"}
        assert ledger.returned_chunks(b"r") == {"32": {None}}
        ledger.settle()
    assert find_damage(tmp_path / "intent.sqlite") is None
