"""What all workers must agree on, in one SQLite file: nonces that were used, chunks that were returned, events kept.

A transaction is in the file when it returns and on disk when `sync` has returned, which many may wait for together.
It holds ids and digests, no text and no name of a session. Everything here blocks.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from aidre.api.database import connect, transaction
from aidre.engine.durable import make_folder, sync_folder
from aidre.engine.errors import StorageFailed

FILE = "intent.sqlite"
VERSION = 1
SWEEP_SECONDS = 60.0
RETURNED_SECONDS = 2_592_000.0
"""For how long citations of an answer are taken, and its session is remembered: 30 days."""
SWEPT_MOST = 5_000
"""Rows of a table that go at a time: nobody waits for more."""

TABLES = """
CREATE TABLE IF NOT EXISTS nonces (digest BLOB PRIMARY KEY, expires REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS nonces_by_expiry ON nonces (expires);
CREATE TABLE IF NOT EXISTS returned (
    id INTEGER PRIMARY KEY,
    request BLOB NOT NULL,
    answer BLOB NOT NULL,
    session BLOB NOT NULL,
    document BLOB NOT NULL,
    piece BLOB NOT NULL,
    chunk TEXT NOT NULL,
    url TEXT,
    at REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS returned_by_request ON returned (request);
CREATE INDEX IF NOT EXISTS returned_by_session ON returned (session, document, piece);
CREATE TABLE IF NOT EXISTS cited (
    event BLOB PRIMARY KEY,
    facts BLOB NOT NULL,
    segment INTEGER NOT NULL,
    at REAL NOT NULL,
    kept INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS cited_by_time ON cited (at);
"""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk that could be returned; `most` is how many of its document's chunks one session may have."""

    chunk_id: str
    document_id: str
    digest: bytes
    tokens: int
    most: int
    url: str | None


@dataclass(frozen=True, slots=True)
class Exchange:
    """Whose request, in which session: digests, so that no session can be read from the file. `answer` is one of it."""

    request: bytes
    session: bytes
    answer: bytes

    @classmethod
    def of(cls, key_id: str, request_id: str, session_id: str) -> Exchange:
        return cls(digest_of("request", key_id, request_id), digest_of("session", key_id, session_id), os.urandom(8))


Kept: TypeAlias = Literal["mine", "same", "other", "elsewhere"]


@dataclass(frozen=True, slots=True)
class Claim:
    """What is known of an event: "mine" to keep, kept as the "same", an "other" one, or on its way "elsewhere".

    `segment` is the one of the log in which it may stand already, where an earlier attempt did not end.
    """

    state: Kept
    segment: int | None = None


def digest_of(*parts: str) -> bytes:
    """16 bytes over strings, none of which can run into the next."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        content = part.encode("utf-8", "surrogatepass")
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.digest()


class Ledger:
    """One connection, for one thread; only `sync` may be called from another. StorageFailed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._swept = 0.0
        with _failures(path):
            make_folder(path.parent)
            self._connection = _connect(path)
            sync_folder(path.parent)
        try:
            # Not the file itself: to close one descriptor of it would drop all of SQLite's locks in this process.
            self._log = os.open(f"{path}-wal", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            self._connection.close()
            raise _failed(path, error) from error

    def sync(self) -> None:
        """Every transaction that has returned is on disk when this returns."""
        with _failures(self._path):
            os.fdatasync(self._log)

    def use(self, nonce: bytes, now: float, expires: float) -> bool:
        """Whether nobody has used it; from now on somebody has."""
        with self._transaction() as connection:
            if now - self._swept > SWEEP_SECONDS:
                self._sweep(connection, now)
            added = connection.execute("INSERT OR IGNORE INTO nonces VALUES (?, ?)", (nonce, expires)).rowcount
        return added == 1

    def _sweep(self, connection: sqlite3.Connection, now: float) -> None:
        """Removes what is over; where that is much, the rest with the next call."""
        gone = 0
        for table, key, time_of, order, before in (
            ("nonces", "digest", "expires", "expires", now),
            ("returned", "id", "at", "id", now - RETURNED_SECONDS),
            ("cited", "event", "at", "at", now - 2 * RETURNED_SECONDS),
        ):
            oldest = f"SELECT {key}, {time_of} FROM {table} ORDER BY {order} LIMIT {SWEPT_MOST}"
            over = f"SELECT {key} FROM ({oldest}) WHERE {time_of} < ?"
            gone = max(gone, connection.execute(f"DELETE FROM {table} WHERE {key} IN ({over})", (before,)).rowcount)
        if gone < SWEPT_MOST:
            self._swept = now

    def take(
        self, exchange: Exchange, candidates: Sequence[Candidate], chunks: int, tokens: int, now: float
    ) -> tuple[int, ...]:
        """Takes the first candidates that fit into all limits, at most so many chunks and tokens: their places.

        A chunk that the session has had, unchanged, may be had again; of new ones `most` bounds how many.
        """
        places: list[int] = []
        rows: list[tuple[bytes, bytes, bytes, bytes, bytes, str, str | None, float]] = []
        had: dict[str, tuple[bytes, set[bytes]]] = {}
        with self._transaction() as connection:
            for place, one in enumerate(candidates):
                if len(places) == chunks:
                    break
                if one.tokens > tokens or one.most == 0:
                    continue
                if one.document_id not in had:
                    had[one.document_id] = _had(connection, exchange.session, one.document_id)
                document, pieces = had[one.document_id]
                piece = digest_of(one.chunk_id, one.digest.hex())
                if piece not in pieces and len(pieces) >= one.most:
                    continue
                pieces.add(piece)
                rows.append(
                    (exchange.request, exchange.answer, exchange.session, document, piece, one.chunk_id, one.url, now)
                )
                places.append(place)
                tokens -= one.tokens
            connection.executemany(
                "INSERT INTO returned (request, answer, session, document, piece, chunk, url, at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                rows,
            )
        return tuple(places)

    def give_back(self, exchange: Exchange) -> None:
        """What was taken for an answer that did not leave."""
        with self._transaction() as connection:
            connection.execute(
                "DELETE FROM returned WHERE request = ? AND answer = ?", (exchange.request, exchange.answer)
            )

    def returned(self, request: bytes) -> dict[str, frozenset[str | None]]:
        """The chunks that were returned under a request, with the address of their document; empty where none were."""
        with _failures(self._path):
            found = self._connection.execute("SELECT chunk, url FROM returned WHERE request = ?", (request,)).fetchall()
        chunks: dict[str, frozenset[str | None]] = {}
        for chunk, url in found:
            chunks[chunk] = chunks.get(chunk, frozenset()) | {url}
        return chunks

    def claim(self, event: bytes, facts: bytes, segment: int, now: float, patience: float) -> Claim:
        """Who keeps an event: this caller, unless it is kept already or somebody began less than `patience` ago."""
        with self._transaction() as connection:
            row = connection.execute("SELECT facts, segment, at, kept FROM cited WHERE event = ?", (event,)).fetchone()
            if row is None:
                connection.execute("INSERT INTO cited VALUES (?, ?, ?, ?, 0)", (event, facts, segment, now))
                return Claim("mine")
            if row[0] != facts:
                return Claim("other")
            if row[3]:
                return Claim("same")
            if 0 <= now - row[2] < patience:
                return Claim("elsewhere")
            connection.execute("UPDATE cited SET at = ? WHERE event = ?", (now, event))
            return Claim("mine", row[1])

    def kept(self, event: bytes) -> None:
        with self._transaction() as connection:
            connection.execute("UPDATE cited SET kept = 1 WHERE event = ?", (event,))

    def drop(self, event: bytes) -> None:
        """An event that could not be kept: the next attempt need not wait."""
        with self._transaction() as connection:
            connection.execute("DELETE FROM cited WHERE event = ? AND kept = 0", (event,))

    def close(self) -> None:
        self._connection.close()
        os.close(self._log)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with _failures(self._path), transaction(self._connection) as connection:
            yield connection


def _had(connection: sqlite3.Connection, session: bytes, document_id: str) -> tuple[bytes, set[bytes]]:
    """A document as the ledger names it, and the pieces of it that a session has had."""
    document = digest_of(document_id)
    pieces = connection.execute(
        "SELECT DISTINCT piece FROM returned WHERE session = ? AND document = ?", (session, document)
    ).fetchall()
    return document, {piece for (piece,) in pieces}


@contextmanager
def _failures(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        raise _failed(path, error) from error


def _failed(path: Path, error: Exception) -> StorageFailed:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    return StorageFailed(f"cannot use {path.name}: {reason}", file=path.name)


def _connect(path: Path) -> sqlite3.Connection:
    # NORMAL: a commit does not wait for the disk, the one who needs that calls `sync`; a checkpoint does wait.
    connection = connect(path, synchronous="NORMAL")
    try:
        with transaction(connection):
            if connection.execute("PRAGMA user_version").fetchone()[0] not in {0, VERSION}:
                raise sqlite3.DatabaseError("it was written by a newer release: update aidre")
            for statement in TABLES.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")
    except BaseException:
        connection.close()
        raise
    return connection
