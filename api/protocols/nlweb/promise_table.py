"""The table of promises with owner, progress and result; one SQLite file that all workers of a store share.

It stores a digest of each token, never the token, and deletes results when they expire. Every call blocks.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from aidre.api.http import connect, register_checksum, transaction, truncate_wal
from aidre.engine.errors import StorageFailed

State: TypeAlias = Literal["running", "kept", "failed", "cancelled"]

PromiseResult: TypeAlias = bytes | tuple[str, str]
"""The end of a promise: a document, or the code and the message of a failure."""

MAX_PROMISES = 1_000
"""Unexpired promises of all owners."""
ACCOUNT_SHARE = 4
"""One account has at most `max_promises / ACCOUNT_SHARE` promises."""
MAX_RESULT_BYTES = 268_435_456
"""Bytes of all stored results; beyond it no new promise is added."""
VERSION = 2
"""Version 2 added accounts."""
CHECKPOINT_TRIES, CHECKPOINT_SECONDS = 100, 0.05
"""Tries, and the pause between them, to truncate the write-ahead log; readers block it for a moment only."""

SCHEMA = (
    """
CREATE TABLE IF NOT EXISTS promises (
    digest BLOB PRIMARY KEY,
    owner BLOB NOT NULL,
    account BLOB NOT NULL,
    state TEXT NOT NULL,
    progress REAL NOT NULL,
    message TEXT,
    began REAL NOT NULL,
    seen REAL NOT NULL,
    expires REAL NOT NULL,
    document BLOB,
    size INTEGER NOT NULL DEFAULT 0,
    code TEXT,
    reason TEXT
)
""",
    # Covers the queries over all rows, so that they do not read documents.
    "CREATE INDEX IF NOT EXISTS promises_expire ON promises (expires, size)",
    "CREATE INDEX IF NOT EXISTS promises_by_account ON promises (account)",
    "CREATE INDEX IF NOT EXISTS promises_checked ON promises (digest, checksum(owner, account, state, progress,"
    " message, began, seen, expires, document, size, code, reason))",
)


@dataclass(frozen=True, slots=True)
class PromiseRow:
    """A stored promise. `began` and `seen` (the last heartbeat of its worker) are Unix times in seconds."""

    state: State
    progress: float
    message: str | None
    began: float
    seen: float
    document: bytes | None
    code: str | None
    reason: str | None


class PromiseTable:
    """One connection, for one thread. Without a path the table is in memory, invisible to other processes."""

    def __init__(self, path: Path | None, max_promises: int = MAX_PROMISES) -> None:
        self.max_promises = max_promises
        self._connection = _memory() if path is None else _open(path)

    def add(self, digest: bytes, owner: bytes, account: bytes, now: float, expires: float) -> bool:
        """Adds a running promise; False if there is no room. Times are Unix times in seconds.

        `owner` may read it; `account` is the one whose share it counts towards.
        """
        with transaction(self._connection) as connection:
            connection.execute("DELETE FROM promises WHERE expires <= ?", (now,))
            count, size = connection.execute("SELECT COUNT(*), COALESCE(SUM(size), 0) FROM promises").fetchone()
            own = connection.execute("SELECT COUNT(*) FROM promises WHERE account = ?", (account,)).fetchone()[0]
            if count >= self.max_promises or ACCOUNT_SHARE * own >= self.max_promises or size >= MAX_RESULT_BYTES:
                return False
            connection.execute(
                "INSERT INTO promises (digest, owner, account, state, progress, began, seen, expires)"
                " VALUES (?, ?, ?, 'running', 0, ?, ?, ?)",
                (digest, owner, account, now, now, expires),
            )
            return True

    def record_heartbeats(self, progress: Mapping[bytes, tuple[float, str | None]], now: float) -> list[bytes]:
        """Stores the progress of running promises; returns the digests of those that were cancelled or are gone."""
        stopped: list[bytes] = []
        with transaction(self._connection) as connection:
            for digest, (fraction, message) in progress.items():
                changed = connection.execute(
                    "UPDATE promises SET seen = ?, progress = MAX(progress, ?), message = ?"
                    " WHERE digest = ? AND state = 'running'",
                    (now, fraction, message, digest),
                ).rowcount
                if changed == 0:
                    stopped.append(digest)
        return stopped

    def finish(self, digest: bytes, result: PromiseResult, expires: float) -> None:
        """Stores the result of a running promise; one that was cancelled meanwhile stays cancelled."""
        document, failure = (result, (None, None)) if isinstance(result, bytes) else (None, result)
        state = "failed" if document is None else "kept"
        with transaction(self._connection) as connection:
            connection.execute(
                "UPDATE promises SET state = ?, progress = 1, document = ?, size = ?, code = ?, reason = ?, expires = ?"
                " WHERE digest = ? AND state = 'running'",
                (state, document, len(document or b""), *failure, expires, digest),
            )

    def cancel(self, digest: bytes, owner: bytes, now: float) -> bool:
        """Cancels a promise in any state and deletes its result; False if there is no such promise."""
        with transaction(self._connection) as connection:
            changed = connection.execute(
                "UPDATE promises SET state = 'cancelled', document = NULL, size = 0, code = NULL, reason = NULL"
                " WHERE digest = ? AND owner = ? AND expires > ?",
                (digest, owner, now),
            ).rowcount
        if changed:
            truncate_wal(self._connection)
        return changed > 0

    def read(self, digest: bytes, owner: bytes, now: float) -> PromiseRow | None:
        row = self._connection.execute(
            "SELECT state, progress, message, began, seen, document, code, reason FROM promises"
            " WHERE digest = ? AND owner = ? AND expires > ?",
            (digest, owner, now),
        ).fetchone()
        return None if row is None else PromiseRow(*row)

    def delete_expired(self, now: float) -> float | None:
        """Deletes expired promises, also from the log; returns the next time of expiry, None for an empty table."""
        with transaction(self._connection) as connection:
            removed = connection.execute("DELETE FROM promises WHERE expires <= ?", (now,)).rowcount
            next_expiry: float | None = connection.execute("SELECT MIN(expires) FROM promises").fetchone()[0]
        if removed:
            truncate_wal(self._connection)
        return next_expiry

    def delete_results(self) -> None:
        """Deletes all results, also from the log; their promises become unknown."""
        with transaction(self._connection) as connection:
            connection.execute("DELETE FROM promises WHERE document IS NOT NULL")
        for _ in range(CHECKPOINT_TRIES):
            busy, *_ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if not busy:
                return
            time.sleep(CHECKPOINT_SECONDS)
        raise sqlite3.OperationalError("the log of the promises is in use")

    def close(self) -> None:
        self._connection.close()


def _memory() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    register_checksum(connection)
    for statement in SCHEMA:
        connection.execute(statement)
    return connection


def _open(path: Path) -> sqlite3.Connection:
    """Opens or creates the table, and replaces a damaged file; raises OSError or sqlite3.Error if it cannot."""
    path.parent.mkdir(exist_ok=True)
    try:
        return _connect(path)
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        for suffix in ("", "-wal", "-shm"):  # promises live for minutes: a new table loses little
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        return _connect(path)


def _connect(path: Path) -> sqlite3.Connection:
    connection = connect(path, synchronous="NORMAL")
    try:
        with transaction(connection):
            if connection.execute("PRAGMA user_version").fetchone()[0] != VERSION:
                connection.execute("DROP TABLE IF EXISTS promises")
                connection.execute(f"PRAGMA user_version = {VERSION}")
            for statement in SCHEMA:
                connection.execute(statement)
    except BaseException:
        connection.close()
        raise
    return connection


def delete_results(path: Path) -> None:
    """Deletes the results in the table at this path, if it exists; raises StorageFailed."""
    if not path.exists():
        return
    try:
        with closing(PromiseTable(path)) as table:
            table.delete_results()
    except (OSError, sqlite3.Error) as error:
        raise StorageFailed(f"cannot remove the results in {path.name}: {error}; try again", file=path.name) from error
