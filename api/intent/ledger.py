"""What all workers must agree on, in one SQLite file: nonces that were used, chunks that were returned, events kept.

What is done within a transaction is in the file when that ends, and on disk when `sync` has returned. It holds ids
and digests, no text and no name of a session. Everything here blocks.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from aidre.api.database import connect, transaction, with_tables
from aidre.engine.durable import make_folder, sync_folder
from aidre.engine.errors import StorageFailed

FILE = "intent.sqlite"
VERSION = 1
SWEEP_SECONDS = 60.0
RETURNED_SECONDS = 2_592_000.0
"""For how long citations of an answer are taken, and its session is remembered: 30 days."""
CACHE_KIB = 16_384
"""Of pages: digests are spread over all of a table."""
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
CREATE TABLE IF NOT EXISTS noted (id INTEGER PRIMARY KEY, segment INTEGER NOT NULL, line BLOB NOT NULL);
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


Cited: TypeAlias = Literal["new", "same", "other"]
"""What is known of an event: nothing until now, the same, or another one under this id."""


@dataclass(frozen=True, slots=True)
class Noted:
    """A line of the event log that may not be in its segment yet, or not on disk."""

    id: int
    segment: int
    line: bytes


def digest_of(*parts: str) -> bytes:
    """16 bytes over strings, none of which can run into the next."""
    contents = [part.encode("utf-8", "surrogatepass") for part in parts]
    framed = b"".join([len(content).to_bytes(8, "little") + content for content in contents])
    return hashlib.blake2b(framed, digest_size=16).digest()


class Ledger:
    """One connection, for one thread at a time. StorageFailed."""

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

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is done inside, or nothing of it; until it ends no other process writes."""
        with _failures(self._path), transaction(self._connection):
            yield

    def use(self, nonce: bytes, now: float, expires: float) -> bool:
        """Whether nobody has used it; from now on somebody has."""
        if now - self._swept > SWEEP_SECONDS:
            self._sweep(now)
        return self._connection.execute("INSERT OR IGNORE INTO nonces VALUES (?, ?)", (nonce, expires)).rowcount == 1

    def _sweep(self, now: float) -> None:
        """Removes what is over; where that is much, the rest with the next call."""
        gone = 0
        for table, key, time_of, order, before in (
            ("nonces", "digest", "expires", "expires", now),
            ("returned", "id", "at", "id", now - RETURNED_SECONDS),
            ("cited", "event", "at", "at", now - 2 * RETURNED_SECONDS),
        ):
            oldest = f"SELECT {key}, {time_of} FROM {table} ORDER BY {order} LIMIT {SWEPT_MOST}"
            over = f"SELECT {key} FROM ({oldest}) WHERE {time_of} < ?"
            gone = max(
                gone, self._connection.execute(f"DELETE FROM {table} WHERE {key} IN ({over})", (before,)).rowcount
            )
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
        had = self._had(exchange.session, {one.document_id for one in candidates})
        for place, one in enumerate(candidates):
            if len(places) == chunks:
                break
            if one.tokens > tokens or one.most == 0:
                continue
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
        self._connection.executemany(
            "INSERT INTO returned (request, answer, session, document, piece, chunk, url, at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
        return tuple(places)

    def _had(self, session: bytes, document_ids: Iterable[str]) -> dict[str, tuple[bytes, set[bytes]]]:
        """Documents as they are named here, and the pieces of each that a session has had."""
        names = {identifier: digest_of(identifier) for identifier in document_ids}
        pieces: dict[bytes, set[bytes]] = {name: set() for name in names.values()}
        marks = ",".join("?" * len(names))
        for document, piece in self._connection.execute(
            f"SELECT DISTINCT document, piece FROM returned WHERE session = ? AND document IN ({marks})",
            (session, *names.values()),
        ):
            pieces[document].add(piece)
        return {identifier: (name, pieces[name]) for identifier, name in names.items()}

    def give_back(self, exchange: Exchange) -> None:
        """What was taken for an answer that did not leave."""
        self._connection.execute(
            "DELETE FROM returned WHERE request = ? AND answer = ?", (exchange.request, exchange.answer)
        )

    def returned(self, request: bytes) -> dict[str, frozenset[str | None]]:
        """The chunks that were returned under a request, with the address of their document; empty where none were."""
        found = self._connection.execute("SELECT chunk, url FROM returned WHERE request = ?", (request,)).fetchall()
        chunks: dict[str, frozenset[str | None]] = {}
        for chunk, url in found:
            chunks[chunk] = chunks.get(chunk, frozenset()) | {url}
        return chunks

    def cite(self, event: bytes, facts: bytes, now: float) -> Cited:
        """Keeps in mind that an event is kept, where it is new."""
        row = self._connection.execute("SELECT facts FROM cited WHERE event = ? AND kept", (event,)).fetchone()
        if row is not None:
            return "same" if row[0] == facts else "other"
        self._connection.execute("INSERT OR REPLACE INTO cited VALUES (?, ?, 0, ?, 1)", (event, facts, now))
        return "new"

    def forget_cited(self, event: bytes) -> None:
        self._connection.execute("DELETE FROM cited WHERE event = ?", (event,))

    def note(self, lines: Sequence[bytes], segment: int) -> None:
        """Lines that go to the log next, into a segment; they stand here until that is on disk."""
        self._connection.executemany(
            "INSERT INTO noted (segment, line) VALUES (?, ?)", [(segment, line) for line in lines]
        )

    def noted(self) -> list[Noted]:
        """In the order in which they were noted."""
        with _failures(self._path):
            return [Noted(*row) for row in self._connection.execute("SELECT id, segment, line FROM noted ORDER BY id")]

    def strike(self, noted: Iterable[Noted]) -> None:
        """What need not be noted any more."""
        self._connection.executemany("DELETE FROM noted WHERE id = ?", [(one.id,) for one in noted])

    def close(self) -> None:
        self._connection.close()
        os.close(self._log)


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
    connection = with_tables(connect(path, synchronous="NORMAL"), TABLES, VERSION)
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    return connection
