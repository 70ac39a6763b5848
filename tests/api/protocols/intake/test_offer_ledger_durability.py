"""The ledger of offers and binds: its files are named durably, and data that are not needed any more leave them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from aidre.api.protocols.intake.offer_ledger import EXPIRED_OFFER_SECONDS, OfferLedger, StoredBind, StoredOffer

SEALED = b"x" * 50 + b"SEALEDMARK" + b"x" * 50


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[OfferLedger]:
    with closing(OfferLedger(tmp_path / "log")) as ledger:
        yield ledger


def an_offer(name: str, expires: float) -> StoredOffer:
    return StoredOffer(name, "session", "intake", ("email",), expires, 5.0)


def a_bind(offer: str, forget: float = 100.0) -> StoredBind:
    return StoredBind(offer, "session", "intake", 1.0, b"{}", b"key", b"digest", SEALED, forget)


def holds_data(folder: Path) -> bool:
    return any(b"SEALEDMARK" in path.read_bytes() for path in folder.iterdir())


def test_a_new_ledger_is_named_on_disk_and_so_is_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    fsync = os.fsync

    def recorded(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", recorded)
    OfferLedger(tmp_path / "log").close()
    assert synced == [tmp_path / "log", tmp_path]


def test_an_expired_offer_stays_known_where_there_is_room(ledger: OfferLedger) -> None:
    assert ledger.add_offer(an_offer("early", 100.0), b"early", 3, 50.0) == "added"
    assert ledger.add_offer(an_offer("late", 900.0), b"late", 3, 500.0) == "added"
    assert ledger.offer("early") is not None
    assert ledger.add_offer(an_offer("later", 900.0), b"later", 3, 500.0) == "added"
    assert ledger.add_offer(an_offer("last", 900.0), b"last", 3, 500.0) == "added"
    assert ledger.offer("early") is None, "it made room"
    assert ledger.add_offer(an_offer("more", 900.0), b"more", 3, 500.0) == "full"


def test_delivered_data_leave_the_files(ledger: OfferLedger, tmp_path: Path) -> None:
    ledger.add_bind(a_bind("offer"), deliver=True)
    assert holds_data(tmp_path / "log")
    ledger.mark_delivered("offer")
    assert not holds_data(tmp_path / "log")
    bind = ledger.bind("offer")
    assert bind is not None and bind.sealed is None
    assert ledger.claim(10.0, 5.0) is None
    assert ledger.delete_expired(1_000.0) == []


def test_binds_that_nobody_took_are_told_when_their_data_are_erased(ledger: OfferLedger, tmp_path: Path) -> None:
    for name, deliver in (("taken", True), ("lost", True), ("kept here", False)):
        ledger.add_bind(a_bind(name), deliver=deliver)
    ledger.add_bind(a_bind("later", forget=101.0), deliver=True)
    ledger.mark_delivered("taken")
    assert ledger.delete_expired(99.0) == []
    assert ledger.delete_expired(100.0) == ["lost"]
    assert [bind.offer for bind in ledger.binds() if bind.sealed is not None] == ["later"]
    assert ledger.delete_expired(101.0) == ["later"]
    assert not holds_data(tmp_path / "log")


def test_an_expired_offer_is_forgotten_after_its_time(ledger: OfferLedger) -> None:
    ledger.add_offer(an_offer("a", 100.0), b"me", 3, 50.0)
    for now, is_known in ((99.0 + EXPIRED_OFFER_SECONDS, True), (100.0 + EXPIRED_OFFER_SECONDS, False)):
        ledger.delete_expired(now)
        assert (ledger.offer("a") is not None) is is_known
