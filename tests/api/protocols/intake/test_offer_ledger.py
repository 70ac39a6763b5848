"""The ledger of offers and binds: what survives, what is deleted, and whose a claim on a delivery is."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from aidre.api.protocols.intake.offer_ledger import (
    EXPIRED_OFFER_SECONDS,
    LEDGER_FILE,
    OfferLedger,
    StoredBind,
    StoredOffer,
)
from aidre.engine.errors import StorageFailed
from tests.support.intakes import SESSION, a_stored_bind


def an_offer(id: str, expires: float) -> StoredOffer:
    return StoredOffer(id, SESSION, "i", ("email",), expires, 5.0)


def test_every_commit_is_written_through(tmp_path: Path) -> None:
    with closing(OfferLedger(tmp_path)) as ledger:
        pragmas = [
            ledger._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")
        ]
        assert pragmas == ["wal", 2]
    assert stat.S_IMODE((tmp_path / LEDGER_FILE).stat().st_mode) == 0o600


PROGRAM = """
import sys
from pathlib import Path
from aidre.api.protocols.intake.offer_ledger import OfferLedger, StoredOffer
ledger = OfferLedger(Path(sys.argv[1]))
for number in range(100_000):
    ledger.add_offer(StoredOffer(f"offer-{number}", "s", "i", ("email",), 2e9, 1.0), b"me", 1_000_000, 0.0)
    print(number, flush=True)
"""


@pytest.mark.process
def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        said = [writer.stdout.readline() for _ in range(50)]
        writer.kill()
        said += writer.stdout.readlines()
    whole = [line for line in said if line.endswith("\n")]
    assert len(whole) >= 50
    with closing(OfferLedger(tmp_path)) as ledger:
        for line in whole:
            assert ledger.offer(f"offer-{int(line)}") is not None


def test_deleted_data_leave_the_files_of_the_store(tmp_path: Path) -> None:
    with closing(OfferLedger(tmp_path)) as ledger:
        _bound(ledger, b"x" * 50 + b"SEALEDMARK" + b"x" * 50, forget=100.0)
        assert any(b"SEALEDMARK" in path.read_bytes() for path in tmp_path.iterdir())
        assert ledger.delete_expired(101.0) == []
        assert not any(b"SEALEDMARK" in path.read_bytes() for path in tmp_path.iterdir())


def _bound(ledger: OfferLedger, sealed: bytes, forget: float) -> None:
    bound = StoredBind("offer", SESSION, "i", 1.0, b"{}", b"key", b"digest", sealed, forget)
    assert ledger.add_bind(bound, deliver=False) == bound


def test_an_offer_that_nobody_bound_is_forgotten_in_the_end(tmp_path: Path) -> None:
    with closing(OfferLedger(tmp_path)) as ledger:
        assert ledger.add_offer(an_offer("a", 100.0), b"me", 10, 50.0) == "added"
        ledger.delete_expired(100.0 + EXPIRED_OFFER_SECONDS - 1)
        assert ledger.offer("a") is not None
        ledger.delete_expired(100.0 + EXPIRED_OFFER_SECONDS)
        assert ledger.offer("a") is None


def test_of_offers_there_are_only_so_many(tmp_path: Path) -> None:
    with closing(OfferLedger(tmp_path)) as ledger:
        assert ledger.add_offer(an_offer("early", 100.0), b"me", 2, 50.0) == "added"
        assert ledger.add_offer(an_offer("late", 900.0), b"you", 2, 50.0) == "added"
        assert ledger.add_offer(an_offer("more", 900.0), b"me", 2, 99.0) == "full"
        assert ledger.offer("early") is not None
        # What expired makes room before its time.
        assert ledger.add_offer(an_offer("more", 900.0), b"me", 2, 100.0) == "added"
        assert [ledger.offer(name) is None for name in ("early", "late", "more")] == [True, False, False]


def test_files_of_a_newer_release_are_left_alone(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / LEDGER_FILE)) as newer:
        newer.execute("PRAGMA user_version = 99")
    with pytest.raises(StorageFailed, match="newer release"):
        OfferLedger(tmp_path)


def test_a_claim_is_nobody_elses_until_its_lease_is_over(tmp_path: Path) -> None:
    """A worker that died with it left no other trace."""
    with closing(OfferLedger(tmp_path)) as one, closing(OfferLedger(tmp_path)) as other:
        one.add_bind(a_stored_bind(), deliver=True)
        claimed = one.claim(10.0, lease=60.0)
        assert claimed is not None
        assert claimed.offer == "offer"
        assert other.claim(69.9, lease=60.0) is None
        again = other.claim(70.0, lease=60.0)
        assert again is not None
        other.mark_delivered("offer")
        one.postpone("offer", 80.0)  # the first one was only slow
        assert one.claim(1e9, lease=60.0) is None


def test_what_is_not_delivered_in_its_time_is_deleted_and_told(tmp_path: Path) -> None:
    with closing(OfferLedger(tmp_path)) as ledger:
        ledger.add_bind(a_stored_bind(forget=100.0), deliver=True)
        ledger.add_bind(a_stored_bind("kept", forget=100.0), deliver=False)
        assert ledger.delete_expired(99.0) == []
        assert ledger.delete_expired(100.0) == ["offer"]
        assert ledger.claim(1e9, lease=60.0) is None
