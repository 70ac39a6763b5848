"""Offers and binds on disk: one SQLite file that all workers of a store share, written through before anyone is told.

What a person handed over stands here encrypted, until a webhook has taken it or its time is over; of an intake's data
nothing stands here. Everything here blocks.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import orjson

from aidre.api.database import connect, transaction, with_tables
from aidre.engine.durable import sync_folder
from aidre.engine.errors import StorageFailed

VERSION = 2
"""2 has checksums."""
REMEMBERED_SECONDS = 3_600.0
"""For how long an offer that expired is still told from one that never was."""
LEDGER = "intake.sqlite"

TABLES = """
CREATE TABLE IF NOT EXISTS offers (
    id TEXT PRIMARY KEY,
    session TEXT NOT NULL,
    intake TEXT NOT NULL,
    requires TEXT NOT NULL,
    expires REAL NOT NULL,
    retention REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS binds (
    offer TEXT PRIMARY KEY,
    session TEXT NOT NULL,
    intake TEXT NOT NULL,
    bound REAL NOT NULL,
    answer BLOB NOT NULL,
    key BLOB NOT NULL,
    digest BLOB NOT NULL,
    sealed BLOB,
    forget REAL NOT NULL,
    due REAL,
    attempts INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS offers_expire ON offers (expires);
CREATE INDEX IF NOT EXISTS binds_due ON binds (due) WHERE due IS NOT NULL;
CREATE INDEX IF NOT EXISTS binds_forget ON binds (forget) WHERE sealed IS NOT NULL;
CREATE INDEX IF NOT EXISTS offers_checked ON offers (id, checksum(session, intake, requires, expires, retention));
CREATE INDEX IF NOT EXISTS binds_checked
    ON binds (offer, checksum(session, intake, bound, answer, key, digest, sealed, forget, due, attempts));
"""


@dataclass(frozen=True, slots=True)
class StoredOffer:
    """An offer as it is remembered; `session` in lower case, times in Unix time, `retention` in seconds."""

    id: str
    session: str
    intake: str
    requires: tuple[str, ...]
    expires: float
    retention: float


@dataclass(frozen=True, slots=True)
class StoredBind:
    """A bind as it is remembered. `sealed` is None when its data were taken or their time was over; `key` names the
    key that sealed them."""

    offer: str
    session: str
    intake: str
    bound: float
    answer: bytes
    key: bytes
    digest: bytes
    sealed: bytes | None
    forget: float
    attempts: int = 0


BIND_COLUMNS = "offer, session, intake, bound, answer, key, digest, sealed, forget, attempts"


class Ledger:
    """One connection, for one thread at a time; raises StorageFailed where the disk refuses."""

    def __init__(self, folder: Path) -> None:
        with _storing():
            folder.mkdir(exist_ok=True)
            connection = connect(folder / LEDGER, synchronous="FULL")
            self._connection = with_tables(connection, TABLES, VERSION)
            for made in (folder, folder.parent):  # a file is safe when its name is, too
                sync_folder(made)

    def add_offer(self, offer: StoredOffer, most: int, now: float) -> bool:
        """Whether there was room: at most so many are remembered, and none that expired where it gets narrow."""
        with _storing(), transaction(self._connection) as connection:
            if self._offers() >= most:
                connection.execute("DELETE FROM offers WHERE expires <= ?", (now,))
                if self._offers() >= most:
                    return False
            connection.execute(
                "INSERT INTO offers (id, session, intake, requires, expires, retention) VALUES (?, ?, ?, ?, ?, ?)",
                (
                    offer.id,
                    offer.session,
                    offer.intake,
                    orjson.dumps(offer.requires).decode(),
                    offer.expires,
                    offer.retention,
                ),
            )
        return True

    def _offers(self) -> int:
        count: int = self._connection.execute("SELECT count(*) FROM offers").fetchone()[0]
        return count

    def offer(self, id: str) -> StoredOffer | None:
        with _storing():
            row = self._connection.execute(
                "SELECT id, session, intake, requires, expires, retention FROM offers WHERE id = ?", (id,)
            ).fetchone()
        if row is None:
            return None
        found, session, intake, requires, expires, retention = row
        return StoredOffer(found, session, intake, tuple(orjson.loads(requires)), expires, retention)

    def bind(self, offer: str) -> StoredBind | None:
        """The bind of an offer, if it is bound."""
        with _storing():
            row = self._connection.execute(f"SELECT {BIND_COLUMNS} FROM binds WHERE offer = ?", (offer,)).fetchone()
        return None if row is None else StoredBind(*row)

    def add_bind(self, bind: StoredBind, *, deliver: bool) -> StoredBind:
        """The bind that the offer has from now on: this one, or the one that came first."""
        with _storing(), transaction(self._connection) as connection:
            due = bind.bound if deliver else None
            connection.execute(
                f"INSERT INTO binds ({BIND_COLUMNS}, due) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (offer) DO NOTHING",
                (
                    bind.offer,
                    bind.session,
                    bind.intake,
                    bind.bound,
                    bind.answer,
                    bind.key,
                    bind.digest,
                    bind.sealed,
                    bind.forget,
                    bind.attempts,
                    due,
                ),
            )
            row = connection.execute(f"SELECT {BIND_COLUMNS} FROM binds WHERE offer = ?", (bind.offer,)).fetchone()
        return StoredBind(*row)

    def claim(self, now: float, lease: float) -> StoredBind | None:
        """A bind that has to be delivered now. For `lease` seconds it is nobody else's, then due again."""
        with _storing(), transaction(self._connection) as connection:
            row = connection.execute(
                f"SELECT {BIND_COLUMNS} FROM binds WHERE due <= ? AND sealed IS NOT NULL ORDER BY due LIMIT 1", (now,)
            ).fetchone()
            if row is None:
                return None
            found = StoredBind(*row)
            connection.execute("UPDATE binds SET due = ? WHERE offer = ?", (now + lease, found.offer))
        return found

    def renew(self, offer: str, due: float) -> None:
        """The claim of one that is still being delivered holds until then."""
        with _storing(), transaction(self._connection) as connection:
            connection.execute("UPDATE binds SET due = ? WHERE offer = ? AND due IS NOT NULL", (due, offer))

    def delivered(self, offer: str) -> None:
        """Its data are in other hands and leave this file."""
        with _storing(), transaction(self._connection) as connection:
            connection.execute("UPDATE binds SET sealed = NULL, due = NULL WHERE offer = ?", (offer,))
        self._forget_log()

    def postpone(self, offer: str, due: float) -> None:
        with _storing(), transaction(self._connection) as connection:
            connection.execute(
                "UPDATE binds SET due = ?, attempts = attempts + 1 WHERE offer = ? AND due IS NOT NULL", (due, offer)
            )

    def sweep(self, now: float) -> list[str]:
        """Removes what is over; gives back the offers whose binds no webhook took in time."""
        with _storing(), transaction(self._connection) as connection:
            undelivered = connection.execute(
                "SELECT offer FROM binds WHERE forget <= ? AND sealed IS NOT NULL AND due IS NOT NULL", (now,)
            ).fetchall()
            forgotten = connection.execute(
                "UPDATE binds SET sealed = NULL, due = NULL WHERE forget <= ? AND sealed IS NOT NULL", (now,)
            ).rowcount
            connection.execute("DELETE FROM offers WHERE expires <= ?", (now - REMEMBERED_SECONDS,))
        if forgotten:
            self._forget_log()
        return [offer for (offer,) in undelivered]

    def binds(self) -> Iterator[StoredBind]:
        """All binds, the oldest first."""
        with _storing():
            for row in self._connection.execute(f"SELECT {BIND_COLUMNS} FROM binds ORDER BY bound, rowid"):
                yield StoredBind(*row)

    def close(self) -> None:
        self._connection.close()

    def _forget_log(self) -> None:
        """SQLite's log still holds what was overwritten in the table; an own reader or another worker may keep it."""
        with suppress(sqlite3.OperationalError):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


@contextmanager
def _storing() -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        raise StorageFailed(f"offers and binds cannot be stored: {error}") from error
