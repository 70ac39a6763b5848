"""The ledger: one SQLite file that all workers share, with the events, spent nonces, returned chunks and citations.

A commit is on disk when it returns. Events stay; nonces, returned chunks and citations are forgotten in time; what a
key was given of a document is not (`chunks.py`). Beside the events the file holds ids and digests, but no text and no
session id. Every function here blocks.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import orjson

from aidre.api.http import connect, connect_read_only, create_tables, insertion, transaction
from aidre.api.protocols.intent.chunks import (
    CHUNK_TABLES,
    Exchange,
    ReturnedChunk,
    add_chunks,
    cached_digest,
    forget_pieces,
    given_pieces,
    piece_of,
    pseudonym_of,
    release_chunks,
    request_chunks,
    session_pieces,
    settle,
    trim_given,
)
from aidre.api.protocols.intent.older_receipts import (
    is_event,
    older_events,
    open_log,
    put_aside,
    take_over,
    without_older_writers,
)
from aidre.engine.errors import StorageFailed
from aidre.engine.storage import make_folder, sync_folder

LEDGER_FILE = "intent.sqlite"
SCHEMA_VERSION = 5
"""Up to version 4 the events were files beside the ledger (`older_receipts.py`)."""
EXPIRY_SECONDS = 60.0
"""Between two deletions of expired rows."""
RETENTION_SECONDS = 2_592_000.0
"""30 days: how long a returned chunk can be cited and counts towards its session, whatever became of its document."""
TRIM_SECONDS = 86_400.0
"""Between two looks whether `given_chunks` is full."""
PAGE_CACHE_KIB = 16_384
"""Digests are spread over all pages of a table, so a small cache would miss often."""
MAX_EXPIRED_ROWS = 5_000
"""Rows deleted from a table at once, so that answers need not wait for long."""
SETTLE_ROWS = 128
"""Rows written before new chunks get their indexes: looking through more would be slow."""

TABLES = f"""
CREATE TABLE IF NOT EXISTS events (
    id INTEGER PRIMARY KEY,
    event TEXT NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS spent_nonces (
    nonce BLOB PRIMARY KEY,
    expires REAL NOT NULL,
    checksum INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS spent_by_expiry ON spent_nonces (expires);
{CHUNK_TABLES}
CREATE TABLE IF NOT EXISTS citations (
    event BLOB PRIMARY KEY,
    facts BLOB NOT NULL,
    at REAL NOT NULL,
    checksum INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS citations_by_time ON citations (at);
"""
ADD_EVENT = insertion("events", "event")
SPEND = (
    insertion("spent_nonces", "nonce, expires")
    + " ON CONFLICT DO UPDATE SET expires = excluded.expires, checksum = excluded.checksum WHERE expires <= ?3"
)
CITE = insertion("citations", "event, facts, at") + " ON CONFLICT DO NOTHING"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk that may be returned; `chunk_limit` bounds how many chunks of its document one key may ever receive.

    `present_pieces` returns `piece_of` every chunk that the document has now, or None if they cannot be read.
    """

    chunk_id: str
    document_id: str
    digest: bytes
    tokens: int
    chunk_limit: int
    url: str | None
    present_pieces: Callable[[], frozenset[bytes] | None] = lambda: None


@dataclass(slots=True)
class _Received:
    """The pieces of a document that a session received, and those that its account did in any session."""

    document: bytes
    by_session: set[bytes]
    by_account: set[bytes]
    compared: bool = False

    def admits(self, piece: bytes, limit: int) -> bool:
        """Whether the piece exceeds no limit; what was received before, unchanged, does not count again."""
        return all(piece in pieces or len(pieces) < limit for pieces in (self.by_session, self.by_account))

    def add(self, piece: bytes) -> None:
        self.by_session.add(piece)
        self.by_account.add(piece)


CitationStatus: TypeAlias = Literal["new", "same", "other"]
"""Whether an event id is unused, was recorded with the same facts, or with others."""


class Ledger:
    """One connection, for one thread at a time. Every method may raise StorageFailed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._expired_at = self._trimmed_at = 0.0
        self._settled_changes = 0
        folder = path.parent
        with _storage_errors(path):
            make_folder(folder)
            with without_older_writers(folder):
                connection = connect(path, synchronous="FULL")
                self._connection = create_tables(connection, TABLES, SCHEMA_VERSION, partial(take_over, folder))
                sync_folder(folder)
                put_aside(folder)
            self._connection.execute(f"PRAGMA cache_size = -{PAGE_CACHE_KIB}")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit everything done inside, or nothing on an error; no other process writes meanwhile."""
        with _storage_errors(self._path), transaction(self._connection):
            yield

    def add_event(self, event: Mapping[str, Any]) -> None:
        self._connection.execute(ADD_EVENT, (orjson.dumps(event).decode(),))

    def spend(self, nonce: bytes, now: float, expires: float) -> bool:
        """Spend a nonce until `expires`; False if it is spent already."""
        return self._connection.execute(SPEND, (nonce, expires, now)).rowcount == 1

    def reserve(
        self, exchange: Exchange, candidates: Sequence[Candidate], max_chunks: int, max_tokens: int, now: float
    ) -> tuple[int, ...]:
        """Reserve the first candidates that fit all limits, and return their indices.

        A chunk that the key, or the session, received before, unchanged, does not count towards `chunk_limit` again.
        For the key only pieces that the document has now count, for the session all of RETENTION_SECONDS.
        """
        indices: list[int] = []
        reserved: list[ReturnedChunk] = []
        received = self._received(exchange, {candidate.document_id for candidate in candidates})
        for index, candidate in enumerate(candidates):
            if len(indices) == max_chunks:
                break
            if candidate.tokens > max_tokens or candidate.chunk_limit == 0:
                continue
            document = received[candidate.document_id]
            piece = piece_of(candidate.chunk_id, candidate.digest)
            if not document.admits(piece, candidate.chunk_limit):
                self._compare_with_present(exchange.account, document, candidate, now)
                if not document.admits(piece, candidate.chunk_limit):
                    continue
            document.add(piece)
            url = None if candidate.url is None else pseudonym_of(candidate.url)
            reserved.append(ReturnedChunk(document.document, piece, pseudonym_of(candidate.chunk_id), url))
            indices.append(index)
            max_tokens -= candidate.tokens
        add_chunks(self._connection, exchange, reserved, now)
        return tuple(indices)

    def _received(self, exchange: Exchange, document_ids: Iterable[str]) -> dict[str, _Received]:
        """By document id: what the session and the account of an exchange have received of it."""
        digests = {document_id: cached_digest(document_id) for document_id in document_ids}
        by_session = session_pieces(self._connection, exchange.session, digests.values())
        by_account = given_pieces(self._connection, exchange.account, digests.values())
        return {id: _Received(digest, by_session[digest], by_account[digest]) for id, digest in digests.items()}

    def _compare_with_present(self, account: bytes, received: _Received, candidate: Candidate, now: float) -> None:
        """Let what the document no longer has stop counting for the account, and forget it if it is old."""
        present = None if received.compared else candidate.present_pieces()
        received.compared = True
        if present is not None:
            former = received.by_account - present
            received.by_account -= former
            forget_pieces(self._connection, account, received.document, former, now - RETENTION_SECONDS)

    def release(self, exchange: Exchange) -> None:
        """Undo the reservations of an answer that was not sent."""
        release_chunks(self._connection, exchange)

    def returned_chunks(self, request: bytes) -> dict[str, frozenset[str | None]]:
        """The URLs of each chunk that was returned under a request, all as pseudonyms; empty for an unknown request.

        Older releases stored plain chunk ids and URLs.
        """
        chunks: dict[str, frozenset[str | None]] = {}
        for chunk, url in request_chunks(self._connection, request):
            chunks[chunk] = chunks.get(chunk, frozenset()) | {url}
        return chunks

    def record_citation(self, event: bytes, facts: bytes, now: float) -> CitationStatus:
        """Record a citation by the digests of its event id and of its facts, if the event id is new."""
        if self._connection.execute(CITE, (event, facts, now)).rowcount == 1:
            return "new"
        (recorded,) = self._connection.execute("SELECT facts FROM citations WHERE event = ?", (event,)).fetchone()
        return "same" if recorded == facts else "other"

    def maintain(self, now: float) -> None:
        """For after a commit, while nobody waits: settle new chunks, and delete expired rows."""
        if self._connection.total_changes - self._settled_changes >= SETTLE_ROWS:
            with self.transaction():
                settle(self._connection)
            self._settled_changes = self._connection.total_changes
        if now - self._expired_at > EXPIRY_SECONDS:
            with self.transaction():
                self._delete_expired(now)
                if now - self._trimmed_at > TRIM_SECONDS and trim_given(self._connection):
                    self._trimmed_at = now

    def _delete_expired(self, now: float) -> None:
        """Delete up to MAX_EXPIRED_ROWS expired rows of each table; the next call continues where more are left."""
        deleted = 0
        for table, key, time_column, order, before in (
            ("spent_nonces", "nonce", "expires", "expires", now),
            ("returned_chunks", "id", "at", "id", now - RETENTION_SECONDS),
            ("citations", "event", "at", "at", now - 2 * RETENTION_SECONDS),
        ):
            oldest = f"SELECT {key}, {time_column} FROM {table} ORDER BY {order} LIMIT {MAX_EXPIRED_ROWS}"
            expired = f"SELECT {key} FROM ({oldest}) WHERE {time_column} < ?"
            statement = f"DELETE FROM {table} WHERE {key} IN ({expired})"
            deleted = max(deleted, self._connection.execute(statement, (before,)).rowcount)
        if deleted < MAX_EXPIRED_ROWS:
            self._expired_at = now

    def close(self) -> None:
        self._connection.close()


def read_events(path: Path) -> Iterator[dict[str, Any]]:
    """The events in the order in which they were written, also those of an older release; writes nothing.

    Raises StorageFailed; if the ledger of an older release cannot be read, after the events of its log.
    """
    # The log is opened before the version is read: a server that takes it over renames it afterwards.
    with _storage_errors(path), open_log(path.parent) as log, ExitStack() as stack:
        if not path.exists():
            yield from older_events(log, None)
            return
        try:
            connection = stack.enter_context(closing(connect_read_only(path)))
            if connection.execute("PRAGMA user_version").fetchone()[0] < SCHEMA_VERSION:
                yield from older_events(log, connection)
                return
            rows = connection.execute("SELECT CAST(event AS BLOB) FROM events ORDER BY id")
            yield from (orjson.loads(event) for (event,) in rows if is_event(event))  # damage is left out
        except sqlite3.Error:
            yield from older_events(log, None)
            raise


@contextmanager
def _storage_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise StorageFailed(f"cannot use {path.name}: {reason}", file=path.name) from error
