"""The ledger of offers and binds: one SQLite file that all workers share; every commit is on disk when it returns.

The data of a bind are stored encrypted, until a webhook has accepted them or their retention has ended. The data of a
submission are not stored. Every function here blocks.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import orjson

from aidre.api.config import IntakeSettings
from aidre.api.http import connect, create_tables, rfc3339, transaction, truncate_wal
from aidre.api.protocols.intake.bind_key import existing_bind_key
from aidre.engine.errors import ConfigurationError, StorageFailed
from aidre.engine.storage import sync_folder

SCHEMA_VERSION = 3
"""Version 2 added checksums, version 3 the accounts of offers."""
ACCOUNT_SHARE = 4
"""One account has at most `max_offers / ACCOUNT_SHARE` unexpired offers."""
EXPIRED_OFFER_SECONDS = 3_600.0
"""How long an expired offer is answered with OFFER_EXPIRED instead of OFFER_NOT_FOUND, if new offers leave room."""
LEDGER_FILE = "intake.sqlite"

TABLES = """
CREATE TABLE IF NOT EXISTS offers (
    id TEXT PRIMARY KEY,
    session TEXT NOT NULL,
    intake TEXT NOT NULL,
    requires TEXT NOT NULL,
    expires REAL NOT NULL,
    retention REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS offerers (offer TEXT PRIMARY KEY, account BLOB NOT NULL, expires REAL NOT NULL);
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
CREATE INDEX IF NOT EXISTS offerers_by_account ON offerers (account, expires);
CREATE INDEX IF NOT EXISTS offerers_expire ON offerers (expires);
CREATE INDEX IF NOT EXISTS binds_due ON binds (due) WHERE due IS NOT NULL;
CREATE INDEX IF NOT EXISTS binds_forget ON binds (forget) WHERE sealed IS NOT NULL;
CREATE INDEX IF NOT EXISTS offers_checked ON offers (id, checksum(session, intake, requires, expires, retention));
CREATE INDEX IF NOT EXISTS offerers_checked ON offerers (offer, checksum(account, expires));
CREATE INDEX IF NOT EXISTS binds_checked
    ON binds (offer, checksum(session, intake, bound, answer, key, digest, sealed, forget, due, attempts));
"""


@dataclass(frozen=True, slots=True)
class StoredOffer:
    """An offer that can be bound. `session` is in lower case, `expires` in Unix time, `retention` in seconds."""

    id: str
    session: str
    intake: str
    requires: tuple[str, ...]
    expires: float
    retention: float


@dataclass(frozen=True, slots=True)
class StoredBind:
    """A bind. `sealed` is its encrypted data, None once they were delivered or have expired; `key` is the id of the key
    that sealed them; `digest` compares repeated binds. `bound` and `forget` are in Unix time."""

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


OfferStatus: TypeAlias = Literal["added", "full", "share used"]

OFFER_COLUMNS = "id, session, intake, requires, expires, retention"
BIND_COLUMNS = "offer, session, intake, bound, answer, key, digest, sealed, forget, attempts"


class OfferLedger:
    """One connection, for one thread at a time. Every method may raise StorageFailed."""

    def __init__(self, folder: Path) -> None:
        with _storage_errors():
            folder.mkdir(exist_ok=True)
            connection = connect(folder / LEDGER_FILE, synchronous="FULL")
            self._connection = create_tables(connection, TABLES, SCHEMA_VERSION)
            for parent in (folder, folder.parent):  # a file survives a power cut only if its folder entry does
                sync_folder(parent)

    def add_offer(self, offer: StoredOffer, account: bytes, max_offers: int, now: float) -> OfferStatus:
        """Store an offer of an account, which is a digest, unless `max_offers` unexpired ones are stored or the account
        has its share of them. Expired offers are deleted to make room."""
        with _storage_errors(), transaction(self._connection) as connection:
            if self._offer_count() >= max_offers:
                connection.execute("DELETE FROM offers WHERE expires <= ?", (now,))
                if self._offer_count() >= max_offers:
                    return "full"
            connection.execute("DELETE FROM offerers WHERE expires <= ?", (now,))
            own: int = connection.execute("SELECT count(*) FROM offerers WHERE account = ?", (account,)).fetchone()[0]
            if own >= max(1, max_offers // ACCOUNT_SHARE):
                return "share used"
            connection.execute("INSERT INTO offerers VALUES (?, ?, ?)", (offer.id, account, offer.expires))
            requires = orjson.dumps(offer.requires).decode()
            row = (offer.id, offer.session, offer.intake, requires, offer.expires, offer.retention)
            connection.execute(f"INSERT INTO offers ({OFFER_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)", row)
        return "added"

    def _offer_count(self) -> int:
        count: int = self._connection.execute("SELECT count(*) FROM offers").fetchone()[0]
        return count

    def offer(self, id: str) -> StoredOffer | None:
        with _storage_errors():
            row = self._connection.execute(f"SELECT {OFFER_COLUMNS} FROM offers WHERE id = ?", (id,)).fetchone()
        if row is None:
            return None
        offer_id, session, intake, requires, expires, retention = row
        return StoredOffer(offer_id, session, intake, tuple(orjson.loads(requires)), expires, retention)

    def bind(self, offer: str) -> StoredBind | None:
        """The bind of an offer; None if the offer is not bound."""
        with _storage_errors():
            row = self._connection.execute(f"SELECT {BIND_COLUMNS} FROM binds WHERE offer = ?", (offer,)).fetchone()
        return None if row is None else StoredBind(*row)

    def add_bind(self, bind: StoredBind, *, deliver: bool) -> StoredBind:
        """Bind an offer; returns the bind in force, which is an earlier one if there is one."""
        with _storage_errors(), transaction(self._connection) as connection:
            due = bind.bound if deliver else None
            connection.execute(
                f"INSERT INTO binds ({BIND_COLUMNS}, due) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (offer) DO NOTHING",
                (*astuple(bind), due),
            )
            row = connection.execute(f"SELECT {BIND_COLUMNS} FROM binds WHERE offer = ?", (bind.offer,)).fetchone()
        return StoredBind(*row)

    def claim(self, now: float, lease: float) -> StoredBind | None:
        """Claim a bind that is due for delivery; after `lease` seconds it is due again."""
        with _storage_errors(), transaction(self._connection) as connection:
            row = connection.execute(
                f"SELECT {BIND_COLUMNS} FROM binds WHERE due <= ? AND sealed IS NOT NULL ORDER BY due LIMIT 1", (now,)
            ).fetchone()
            if row is None:
                return None
            bind = StoredBind(*row)
            connection.execute("UPDATE binds SET due = ? WHERE offer = ?", (now + lease, bind.offer))
        return bind

    def mark_delivered(self, offer: str) -> None:
        """Erase the data of a bind that the webhook has accepted."""
        with _storage_errors(), transaction(self._connection) as connection:
            connection.execute("UPDATE binds SET sealed = NULL, due = NULL WHERE offer = ?", (offer,))
        truncate_wal(self._connection)

    def postpone(self, offer: str, due: float) -> None:
        """Count a failed attempt, and make the bind due again at `due`."""
        with _storage_errors(), transaction(self._connection) as connection:
            connection.execute(
                "UPDATE binds SET due = ?, attempts = attempts + 1 WHERE offer = ? AND due IS NOT NULL", (due, offer)
            )

    def delete_expired(self, now: float) -> list[str]:
        """Erase the data of expired binds, and old offers; returns the offers whose binds no webhook accepted."""
        with _storage_errors(), transaction(self._connection) as connection:
            undelivered = connection.execute(
                "SELECT offer FROM binds WHERE forget <= ? AND sealed IS NOT NULL AND due IS NOT NULL", (now,)
            ).fetchall()
            erased = connection.execute(
                "UPDATE binds SET sealed = NULL, due = NULL WHERE forget <= ? AND sealed IS NOT NULL", (now,)
            ).rowcount
            connection.execute("DELETE FROM offers WHERE expires <= ?", (now - EXPIRED_OFFER_SECONDS,))
        if erased:
            truncate_wal(self._connection)
        return [offer for (offer,) in undelivered]

    def binds(self) -> Iterator[StoredBind]:
        """All binds, oldest first."""
        with _storage_errors():
            for row in self._connection.execute(f"SELECT {BIND_COLUMNS} FROM binds ORDER BY bound, rowid"):
                yield StoredBind(*row)

    def close(self) -> None:
        self._connection.close()


@contextmanager
def _storage_errors() -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        raise StorageFailed(f"offers and binds cannot be stored: {error}") from error


def decrypted_binds(store: Path, settings: IntakeSettings, folder: Path) -> Iterator[dict[str, Any]]:
    """All binds in the folder of receipts, oldest first; no server has to run. `bind_data` is None after
    delivery to a webhook or the end of the retention period.

    Raises ConfigurationError after the last one if some were sealed with a key other than the configured one.
    """
    if not (folder / LEDGER_FILE).exists():
        return
    ledger = OfferLedger(folder)
    try:
        key = existing_bind_key(settings, store)
        undecryptable: list[str] = []
        for bind in ledger.binds():
            data: Any = None
            if bind.sealed is not None and bind.forget > time.time():
                plaintext = None if key is None or key.id != bind.key else key.open(bind.sealed, bind.offer)
                if plaintext is None:
                    undecryptable.append(bind.offer)
                    continue
                data = orjson.loads(plaintext)["bind_data"]
            yield {"offer_id": bind.offer, "bound_at": rfc3339(bind.bound), "bind_data": data}
        if undecryptable:
            raise ConfigurationError(
                f"{len(undecryptable)} binds were sealed with another bind key, the first of offer {undecryptable[0]}: "
                "name the configuration that was served, with --config"
            )
    finally:
        ledger.close()
