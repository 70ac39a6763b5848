"""The table of promises: whose they are, how far, what came of them; one SQLite file that all workers of a store share.

It holds no token, only a digest of each, and no result beyond its time. Everything here blocks.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from aidre.api.database import connect, transaction, with_checksum
from aidre.engine.errors import StorageFailed

State: TypeAlias = Literal["running", "kept", "failed", "cancelled"]

MOST = 1_000
"""Promises that can be out at a time."""
SHARE = 4
"""One owner can have one part of so many."""
MOST_BYTES = 268_435_456
"""Of all results that are kept at a time."""
VERSION = 1
FORGETTING_TRIES, FORGETTING_SECONDS = 100, 0.05
"""Readers are in the way for a moment only."""

SCHEMA = (
    """
CREATE TABLE IF NOT EXISTS promises (
    digest BLOB PRIMARY KEY,
    owner BLOB NOT NULL,
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
    # What is asked of all rows is answered by this, without a look at their documents.
    "CREATE INDEX IF NOT EXISTS promises_expire ON promises (expires, size)",
    "CREATE INDEX IF NOT EXISTS promises_owned ON promises (owner)",
    "CREATE INDEX IF NOT EXISTS promises_checked ON promises (digest, checksum(owner, state, progress, message, began,"
    " seen, expires, document, size, code, reason))",
)


@dataclass(frozen=True, slots=True)
class Row:
    """A promise as it stands. `seen` is when its worker last showed that it lives; times are Unix time."""

    state: State
    progress: float
    message: str | None
    began: float
    seen: float
    document: bytes | None
    code: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of a promise: a document, or the code and the reason of a failure."""

    state: Literal["kept", "failed", "cancelled"]
    document: bytes | None = None
    code: str | None = None
    reason: str | None = None


class PromiseTable:
    """One connection, for one thread. Without a path the table is in memory and no other process sees it."""

    def __init__(self, path: Path | None, most: int = MOST) -> None:
        self.most = most
        self._connection = _memory() if path is None else _open(path)

    def add(self, digest: bytes, owner: bytes, now: float, expires: float) -> bool:
        """Whether there was room."""
        with transaction(self._connection) as connection:
            connection.execute("DELETE FROM promises WHERE expires <= ?", (now,))
            count, size = connection.execute("SELECT COUNT(*), COALESCE(SUM(size), 0) FROM promises").fetchone()
            own = connection.execute("SELECT COUNT(*) FROM promises WHERE owner = ?", (owner,)).fetchone()[0]
            if count >= self.most or SHARE * own >= self.most or size >= MOST_BYTES:
                return False
            connection.execute(
                "INSERT INTO promises (digest, owner, state, progress, began, seen, expires)"
                " VALUES (?, ?, 'running', 0, ?, ?, ?)",
                (digest, owner, now, now, expires),
            )
            return True

    def beat(self, progress: Mapping[bytes, tuple[float, str | None]], now: float) -> list[bytes]:
        """Says that the work on these goes on, and how far it is; gives back those that are not wanted any more."""
        ended: list[bytes] = []
        with transaction(self._connection) as connection:
            for digest, (reached, message) in progress.items():
                changed = connection.execute(
                    "UPDATE promises SET seen = ?, progress = MAX(progress, ?), message = ?"
                    " WHERE digest = ? AND state = 'running'",
                    (now, reached, message, digest),
                ).rowcount
                if changed == 0:
                    ended.append(digest)
        return ended

    def end(self, digest: bytes, ended: Ended, expires: float) -> None:
        """Only what runs can end: what was cancelled meanwhile stays cancelled."""
        with transaction(self._connection) as connection:
            connection.execute(
                "UPDATE promises SET state = ?, progress = 1, document = ?, size = ?, code = ?, reason = ?, expires = ?"
                " WHERE digest = ? AND state = 'running'",
                (ended.state, ended.document, len(ended.document or b""), ended.code, ended.reason, expires, digest),
            )

    def cancel(self, digest: bytes, owner: bytes, now: float) -> bool:
        """Whether there is such a promise, whatever it has come to; its result is gone."""
        with transaction(self._connection) as connection:
            changed = connection.execute(
                "UPDATE promises SET state = 'cancelled', document = NULL, size = 0, code = NULL, reason = NULL"
                " WHERE digest = ? AND owner = ? AND expires > ?",
                (digest, owner, now),
            ).rowcount
        if changed:
            self._forget()
        return changed > 0

    def read(self, digest: bytes, owner: bytes, now: float) -> Row | None:
        found = self._connection.execute(
            "SELECT state, progress, message, began, seen, document, code, reason FROM promises"
            " WHERE digest = ? AND owner = ? AND expires > ?",
            (digest, owner, now),
        ).fetchone()
        return None if found is None else Row(*found)

    def sweep(self, now: float) -> float | None:
        """Removes what has expired, for good; gives back when the next one will, None where there is none."""
        with transaction(self._connection) as connection:
            removed = connection.execute("DELETE FROM promises WHERE expires <= ?", (now,)).rowcount
            following: float | None = connection.execute("SELECT MIN(expires) FROM promises").fetchone()[0]
        if removed:
            self._forget()
        return following

    def forget_results(self) -> None:
        """Removes all that is kept, for good; their promises are unknown from then on."""
        with transaction(self._connection) as connection:
            connection.execute("DELETE FROM promises WHERE document IS NOT NULL")
        for _ in range(FORGETTING_TRIES):
            busy, *_ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if not busy:
                return
            time.sleep(FORGETTING_SECONDS)
        raise sqlite3.OperationalError("the log of the promises is in use")

    def close(self) -> None:
        self._connection.close()

    def _forget(self) -> None:
        """Empties the log of SQLite, which still holds what was overwritten in the table itself."""
        with suppress(sqlite3.OperationalError):  # another worker reads just now: it is emptied the next time
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _memory() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    with_checksum(connection)
    for statement in SCHEMA:
        connection.execute(statement)
    return connection


def _open(path: Path) -> sqlite3.Connection:
    """Raises OSError or sqlite3.Error where the table cannot be shared through this file."""
    path.parent.mkdir(exist_ok=True)
    try:
        return _connect(path)
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        for damaged in _files(path):  # promises last for minutes: a new table is a small loss
            damaged.unlink(missing_ok=True)
        return _connect(path)


def _files(path: Path) -> Iterable[Path]:
    return (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm"))


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


def forget_results(path: Path) -> None:
    """Removes what promises have come to, where there is a table; StorageFailed."""
    if not path.exists():
        return
    try:
        table = PromiseTable(path)
        try:
            table.forget_results()
        finally:
            table.close()
    except (OSError, sqlite3.Error) as error:
        raise StorageFailed(f"cannot remove the results in {path.name}: {error}; try again", file=path.name) from error
