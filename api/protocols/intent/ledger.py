"""The ledger: one SQLite file that all workers share, with spent nonces, returned chunks and recorded citations.

A transaction appends its effects to the journal (the table `notes`) as one entry, since a commit waits for every page
that it writes; `sync` brings the entry to disk. A checkpoint moves many entries into the other tables and their indexes
at once. Until then their records are looked up in memory (`JournalIndex`). Receipts are forgotten in time; what a key
was given of a document is not (`records/given.py`).

The file holds ids and digests, but no text and no session id. Every function here blocks.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias

from aidre.api.http import connect, create_tables, transaction
from aidre.api.protocols.intent.event_log import CHECKSUM_TABLE, record_checksums
from aidre.api.protocols.intent.records import (
    GIVEN_TABLE,
    JournalIndex,
    Record,
    Release,
    Reservation,
    ReturnedChunk,
    SpentNonce,
    add_given,
    decode_records,
    encode_records,
    forget_pieces,
    given_pieces,
    release_given,
    trim_given,
)
from aidre.engine.errors import StorageFailed
from aidre.engine.storage import make_folder, sync_folder

LEDGER_FILE = "intent.sqlite"
JOURNAL_VERSION, SCHEMA_VERSION = 2, 4
"""Version 2 added the journal, without which an older release would miss the latest nonces and reservations. Version 3
added checksums, version 4 what each key was given."""
EXPIRY_SECONDS = 60.0
"""Between two deletions of expired rows."""
RETENTION_SECONDS = 2_592_000.0
"""30 days: how long a returned chunk can be cited and counts towards its session, whatever became of its document."""
TRIM_SECONDS = 86_400.0
"""Between two looks whether `given` is full."""
PAGE_CACHE_KIB = 16_384
"""Digests are spread over all pages of a table, so a small cache would miss often."""
MAX_EXPIRED_ROWS = 5_000
"""Rows deleted from a table at once, so that answers need not wait for long."""

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
CREATE INDEX IF NOT EXISTS nonces_checked ON nonces (digest, checksum(expires));
CREATE INDEX IF NOT EXISTS returned_checked
    ON returned (id, checksum(request, answer, session, document, piece, chunk, url, at));
CREATE INDEX IF NOT EXISTS cited_checked ON cited (event, checksum(facts, segment, at, kept));
CREATE TABLE IF NOT EXISTS notes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    segment INTEGER NOT NULL,
    lines BLOB NOT NULL,
    entries BLOB NOT NULL
);
"""


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


@dataclass(frozen=True, slots=True)
class Exchange:
    """One answer to a request in a session. The ids are digests, so the file reveals none; `answer` is random.

    `account` is the key in one collection.
    """

    request: bytes
    session: bytes
    answer: bytes
    account: bytes

    @classmethod
    def of(cls, key_id: str, request_id: str, session_id: str, collection: str = "") -> Exchange:
        return cls(
            digest_of("request", key_id, request_id),
            digest_of("session", key_id, session_id),
            os.urandom(8),
            digest_of("account", key_id, collection),
        )


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


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """The effects of one transaction. Its event-log lines may be missing from their segment, or not be on disk."""

    id: int
    segment: int
    content: bytes
    records: bytes

    @property
    def lines(self) -> list[bytes]:
        return self.content.splitlines(keepends=True)


def digest_of(*parts: str) -> bytes:
    """16 bytes over strings; a length before each keeps ("a", "bc") from equalling ("ab", "c")."""
    contents = [part.encode("utf-8", "surrogatepass") for part in parts]
    framed = b"".join([len(content).to_bytes(8, "little") + content for content in contents])
    return hashlib.blake2b(framed, digest_size=16).digest()


_cached_digest = lru_cache(maxsize=8_192)(digest_of)
"""`digest_of` for document and chunk ids, which repeat."""

MAX_CACHED_NAME_CHARS = 256
"""A longer name is not cached: callers can send URLs of thousands of characters."""


def piece_of(chunk_id: str, digest: bytes) -> bytes:
    """The digest of a chunk with its content, which has the SHA-256 `digest`."""
    return _cached_digest(chunk_id, digest.hex())


def pseudonym_of(name: str) -> str:
    """The digest that replaces a chunk id or URL in the ledger, so that a purged document leaves no trace in it."""
    return (_cached_digest if len(name) <= MAX_CACHED_NAME_CHARS else digest_of)(name).hex()


class Ledger:
    """One connection, for one thread at a time. Every method may raise StorageFailed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._expired_at = self._trimmed_at = 0.0
        self._reset()
        with _storage_errors(path):
            make_folder(path.parent)
            self._connection = _connect(path)
            sync_folder(path.parent)
        try:
            # Not the database file itself: closing a descriptor of it would drop SQLite's locks in this process.
            self._wal = os.open(f"{path}-wal", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            self._connection.close()
            raise _storage_failed(path, error) from error

    def _reset(self) -> None:
        """Discard the in-memory state; the next transaction reads the journal again."""
        self._index = JournalIndex()
        self._records: list[Record] = []
        self._lines: list[bytes] = []
        self._segment = 0
        self._oldest_id: int | None = None
        self._newest_id = 0
        self._data_version: int | None = None

    def sync(self) -> None:
        """Return once every committed transaction is on disk."""
        with _storage_errors(self._path):
            os.fdatasync(self._wal)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit everything done inside, or nothing on an error; no other process writes meanwhile."""
        try:
            with _storage_errors(self._path), transaction(self._connection):
                self._catch_up()
                yield
                self._append_entry()
        except BaseException:
            self._reset()
            raise

    def _catch_up(self) -> None:
        """Read the journal entries of other workers."""
        (data_version,) = self._connection.execute("PRAGMA data_version").fetchone()
        if data_version == self._data_version:
            return
        (oldest_id,) = self._connection.execute("SELECT min(id) FROM notes").fetchone()
        if oldest_id != self._oldest_id:
            self._reset()  # another worker made a checkpoint
        for id, records in self._connection.execute(
            "SELECT id, entries FROM notes WHERE id > ? ORDER BY id", (self._newest_id,)
        ):
            for record in decode_records(records):
                self._index.add(record)
            self._newest_id = id
        self._data_version, self._oldest_id = data_version, oldest_id

    def _add(self, record: Record) -> None:
        self._index.add(record)
        self._records.append(record)

    def _append_entry(self) -> None:
        if self._records or self._lines:
            entry = self._segment, b"".join(self._lines), encode_records(self._records)
            added = self._connection.execute("INSERT INTO notes (segment, lines, entries) VALUES (?, ?, ?)", entry)
            self._newest_id = added.lastrowid or 0
            self._records, self._lines = [], []

    def spend(self, nonce: bytes, now: float, expires: float) -> bool:
        """Spend a nonce until `expires`; False if it is spent already."""
        if self._index.is_spent(nonce, now):
            return False
        query = "SELECT 1 FROM nonces WHERE digest = ? AND expires > ?"
        if self._connection.execute(query, (nonce, now)).fetchone() is not None:
            return False
        self._add(SpentNonce(nonce, expires))
        return True

    def _delete_expired(self, now: float) -> None:
        """Delete up to MAX_EXPIRED_ROWS expired rows of each table; the next call continues where more are left."""
        if now - self._expired_at <= EXPIRY_SECONDS:
            return
        deleted = 0
        for table, key, time_column, order, before in (
            ("nonces", "digest", "expires", "expires", now),
            ("returned", "id", "at", "id", now - RETENTION_SECONDS),
            ("cited", "event", "at", "at", now - 2 * RETENTION_SECONDS),
        ):
            oldest = f"SELECT {key}, {time_column} FROM {table} ORDER BY {order} LIMIT {MAX_EXPIRED_ROWS}"
            expired = f"SELECT {key} FROM ({oldest}) WHERE {time_column} < ?"
            statement = f"DELETE FROM {table} WHERE {key} IN ({expired})"
            deleted = max(deleted, self._connection.execute(statement, (before,)).rowcount)
        if deleted < MAX_EXPIRED_ROWS:
            self._expired_at = now

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
        if reserved:
            answer, chunks = exchange.answer, tuple(reserved)
            self._add(Reservation(exchange.request, exchange.session, answer, now, chunks, exchange.account))
        return tuple(indices)

    def _received(self, exchange: Exchange, document_ids: Iterable[str]) -> dict[str, _Received]:
        """By document id: what the session and the account of an exchange have received of it."""
        digests = {document_id: _cached_digest(document_id) for document_id in document_ids}
        by_session: dict[bytes, set[bytes]] = {digest: set() for digest in digests.values()}
        by_account = given_pieces(self._connection, exchange.account, by_session)
        parameters = ",".join("?" * len(digests))
        for document, piece in self._connection.execute(
            f"SELECT DISTINCT document, piece FROM returned WHERE session = ? AND document IN ({parameters})",
            (exchange.session, *by_session),
        ):
            by_session[document].add(piece)
        for chunk in self._index.session_chunks(exchange.session):
            if chunk.document in by_session:
                by_session[chunk.document].add(chunk.piece)
        for document, pieces in by_account.items():
            pieces.update(self._index.given_pieces(exchange.account, document))
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
        release = Release(exchange.request, exchange.answer, exchange.account)
        self._add(release)
        self._delete_returned([release])  # a checkpoint may have moved the reservation into the tables

    def _delete_returned(self, releases: Sequence[Release]) -> None:
        release_given(self._connection, releases)
        self._connection.executemany(
            "DELETE FROM returned WHERE request = ? AND answer = ?",
            [(release.request, release.answer) for release in releases],
        )

    def returned_chunks(self, request: bytes) -> dict[str, frozenset[str | None]]:
        """The URLs of each chunk that was returned under a request, all as pseudonyms; empty for an unknown request.

        Older releases stored plain chunk ids and URLs.
        """
        rows = self._connection.execute("SELECT chunk, url FROM returned WHERE request = ?", (request,)).fetchall()
        chunks: dict[str, frozenset[str | None]] = {}
        for chunk, url in [*rows, *((chunk.chunk, chunk.url) for chunk in self._index.request_chunks(request))]:
            chunks[chunk] = chunks.get(chunk, frozenset()) | {url}
        return chunks

    def record_citation(self, event: bytes, facts: bytes, now: float) -> CitationStatus:
        """Record a citation by the digests of its event id and of its facts, if the event id is new."""
        row = self._connection.execute("SELECT facts FROM cited WHERE event = ? AND kept", (event,)).fetchone()
        if row is not None:
            return "same" if row[0] == facts else "other"
        self._connection.execute("INSERT OR REPLACE INTO cited VALUES (?, ?, 0, ?, 1)", (event, facts, now))
        return "new"

    def delete_citation(self, event: bytes) -> None:
        self._connection.execute("DELETE FROM cited WHERE event = ?", (event,))

    def journal_lines(self, lines: Sequence[bytes], segment: int) -> None:
        """Add event-log lines, to be written to `segment` next, to the entry of this transaction."""
        self._lines, self._segment = [*self._lines, *lines], segment

    def journal(self) -> list[JournalEntry]:
        """All entries, oldest first."""
        with _storage_errors(self._path):
            rows = self._connection.execute("SELECT id, segment, lines, entries FROM notes ORDER BY id")
            return [JournalEntry(*row) for row in rows]

    def remove_lines(self, lines: Sequence[bytes]) -> None:
        """Remove lines that could not be written to the event log from the newest entry."""
        newest = self.journal()[-1]
        remaining = b"".join(line for line in newest.lines if line not in lines)
        self._connection.execute("UPDATE notes SET lines = ? WHERE id = ?", (remaining, newest.id))

    def checkpoint(self, entries: Sequence[JournalEntry], now: float) -> None:
        """Move the records of entries whose lines are on disk into the tables, and delete expired rows."""
        records = [record for entry in entries for record in decode_records(entry.records)]
        releases = [record for record in records if isinstance(record, Release)]
        released = {release.answer for release in releases}
        pages = [record for record in records if isinstance(record, Reservation) and record.answer not in released]
        nonces = [(record.nonce, record.expires) for record in records if isinstance(record, SpentNonce)]
        self._connection.executemany("INSERT OR REPLACE INTO nonces VALUES (?, ?)", nonces)
        self._connection.executemany(
            "INSERT INTO returned (request, answer, session, document, piece, chunk, url, at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (page.request, page.answer, page.session, chunk.document, chunk.piece, chunk.chunk, chunk.url, page.at)
                for page in pages
                for chunk in page.chunks
            ],
        )
        self._delete_returned(releases)
        add_given(self._connection, pages)
        self._connection.executemany("DELETE FROM notes WHERE id = ?", [(entry.id,) for entry in entries])
        self._delete_expired(now)
        if now - self._trimmed_at > TRIM_SECONDS and trim_given(self._connection):
            self._trimmed_at = now
        self._reset()

    def record_checksums(self, folder: Path, unsynced_segment: int) -> None:
        """Record checksums of the event log's content since the last call, except that of `unsynced_segment`."""
        record_checksums(self._connection, folder, unsynced_segment)

    def close(self) -> None:
        self._connection.close()
        os.close(self._wal)


def read_journaled_lines(path: Path) -> list[bytes]:
    """The event-log lines of all journal entries, without writing; empty without a ledger. Raises StorageFailed."""
    if not path.exists():
        return []
    # Without a WAL no process has the database open: `immutable` then reads it on a read-only disk, as WAL mode cannot.
    mode = "" if path.with_name(f"{path.name}-wal").exists() else "&immutable=1"
    uri = f"{path.absolute().as_uri()}?mode=ro{mode}"
    with _storage_errors(path), closing(sqlite3.connect(uri, uri=True)) as connection:
        if connection.execute("PRAGMA user_version").fetchone()[0] < JOURNAL_VERSION:
            return []
        rows = connection.execute("SELECT lines FROM notes ORDER BY id").fetchall()
    return b"".join(lines for (lines,) in rows).splitlines(keepends=True)


@contextmanager
def _storage_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        raise _storage_failed(path, error) from error


def _storage_failed(path: Path, error: Exception) -> StorageFailed:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    return StorageFailed(f"cannot use {path.name}: {reason}", file=path.name)


def _connect(path: Path) -> sqlite3.Connection:
    # NORMAL: a commit does not wait for the disk, `sync` does; a checkpoint of SQLite waits as well.
    connection = create_tables(
        connect(path, synchronous="NORMAL"), TABLES + GIVEN_TABLE + CHECKSUM_TABLE, SCHEMA_VERSION
    )
    connection.execute(f"PRAGMA cache_size = -{PAGE_CACHE_KIB}")
    return connection
