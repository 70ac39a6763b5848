"""The ledger: one SQLite file that all workers share, with the events, spent nonces, returned chunks and citations.

A commit is on disk after `sync`. Events stay; nonces, returned chunks and citations are forgotten in time. Beside
the events the file holds ids and digests, but no text and no session id. Every function here blocks.

`returned_chunks` has each chunk of each answer; the latest are in `new_chunks`, without an index, since a commit waits
for every page that it writes. `given_chunks` outlives both: a row is a piece that a key has received, which is a chunk
with the content that it had; `account` is a digest of key id and collection. A row is forgotten if its answer is
released, if its document no longer has the piece (30 days after it was given), or if the table is full: then the
accounts with the most rows lose their oldest. No row of a key is forgotten for the sake of a key that was given more,
and only partners have keys, so nobody unknown can fill the table.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import orjson

from aidre.api.http import connect, connect_read_only, create_tables, digest_of, insertion, transaction
from aidre.api.protocols.intent import older_receipts
from aidre.engine.errors import StorageFailed
from aidre.engine.storage import make_folder, sync_folder

LEDGER_FILE, LOCK_FILE = "intent.sqlite", "LOCK.intent"
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
MAX_EXPIRED_ROWS, MAX_TRIMMED_ROWS = 5_000, 50_000
"""Rows deleted from a table at once, so that answers need not wait for long."""
SETTLE_ROWS = 128
"""Rows written before new chunks get their indexes: looking through more would be slow."""
MAX_GIVEN_ROWS = 4_194_304
"""About half a gigabyte, and four keys that each have received a million chunks."""
ACCOUNT_SHARE = 4
"""An account holds at most this part (a quarter) of the rows."""

COLUMNS = "request, answer, session, account, document, piece, chunk, url, at"
GIVEN = "account, document, piece, answer, at"
CHUNK = """
    request BLOB NOT NULL, answer BLOB NOT NULL, session BLOB NOT NULL, account BLOB NOT NULL, document BLOB NOT NULL,
    piece BLOB NOT NULL, chunk TEXT NOT NULL, url TEXT, at REAL NOT NULL, checksum INTEGER NOT NULL
"""
TABLES = f"""
CREATE TABLE IF NOT EXISTS events (id INTEGER PRIMARY KEY, event TEXT NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS spent_nonces (nonce BLOB PRIMARY KEY, expires REAL NOT NULL, checksum INTEGER NOT NULL)
    WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS spent_by_expiry ON spent_nonces (expires);
CREATE TABLE IF NOT EXISTS new_chunks ({CHUNK});
CREATE TABLE IF NOT EXISTS returned_chunks (id INTEGER PRIMARY KEY, {CHUNK});
CREATE INDEX IF NOT EXISTS returned_by_request ON returned_chunks (request);
CREATE INDEX IF NOT EXISTS returned_by_session ON returned_chunks (session, document, piece);
CREATE TABLE IF NOT EXISTS given_chunks (
    account BLOB NOT NULL, document BLOB NOT NULL, piece BLOB NOT NULL, answer BLOB NOT NULL, at REAL NOT NULL,
    checksum INTEGER NOT NULL, PRIMARY KEY (account, document, piece)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS citations (
    event BLOB PRIMARY KEY, facts BLOB NOT NULL, at REAL NOT NULL, checksum INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS citations_by_time ON citations (at);
"""
ADD_EVENT = insertion("events", "event")
SPEND = (
    insertion("spent_nonces", "nonce, expires")
    + " ON CONFLICT DO UPDATE SET expires = excluded.expires, checksum = excluded.checksum WHERE expires <= ?3"
)
CITE = insertion("citations", "event, facts, at") + " ON CONFLICT DO NOTHING"
ADD_CHUNK = insertion("new_chunks", COLUMNS)
SHARED = "x''"
"""Stored as the answer of a piece that several answers returned: releasing one of them then changes nothing."""
SETTLE = (
    f"INSERT INTO returned_chunks ({COLUMNS}, checksum) SELECT {COLUMNS}, checksum FROM new_chunks ORDER BY rowid",
    f"INSERT INTO given_chunks SELECT {GIVEN}, checksum({GIVEN}) FROM new_chunks WHERE account != x'' ORDER BY rowid"
    f" ON CONFLICT DO UPDATE SET answer = {SHARED}, checksum = checksum(account, document, piece, {SHARED}, at)"
    f" WHERE answer NOT IN (excluded.answer, {SHARED})",
    "DELETE FROM new_chunks",
)
"""Moves the new chunks into the tables that have indexes. Those of the oldest releases have no account."""

Chunk: TypeAlias = "tuple[bytes, bytes, str, str | None]"
"""A returned chunk: digests of its document id and of chunk id with content, pseudonyms of chunk id and URL."""


@dataclass(frozen=True, slots=True)
class PassageCandidate:
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
class RecordedExchange:
    """One answer to a request in a session. The ids are digests, so the file reveals none; `answer` is random.

    `account` is the key in one collection.
    """

    request: bytes
    session: bytes
    answer: bytes
    account: bytes

    @classmethod
    def of(cls, key_id: str, request_id: str, session_id: str, collection: str = "") -> RecordedExchange:
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


class EventLedger:
    """One connection, for one thread at a time. Every method may raise StorageFailed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._expired_at = self._trimmed_at = 0.0
        self._settled_changes = 0
        folder = path.parent
        with _storage_errors(path), ExitStack() as opened:
            make_folder(folder)
            with older_receipts.without_writers(folder):
                # NORMAL: a commit does not wait for the disk while others wait for the commit; `sync` does.
                self._connection = opened.enter_context(closing(connect(path, synchronous="NORMAL")))
                create_tables(self._connection, TABLES, SCHEMA_VERSION, lambda _: self._take_over(folder))
                # Not the database file itself: closing a descriptor of it would drop SQLite's locks in this process.
                self._wal = os.open(f"{path}-wal", os.O_RDONLY | os.O_CLOEXEC)
                opened.callback(os.close, self._wal)
                self.sync()
                sync_folder(folder)
                older_receipts.put_aside(folder)
            self._lock = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            opened.callback(os.close, self._lock)
            self._connection.execute(f"PRAGMA cache_size = -{PAGE_CACHE_KIB}")
            self.close = opened.pop_all().close

    def _take_over(self, folder: Path) -> None:
        """Within the transaction that creates the tables. Records of the oldest releases have no account."""
        digest = bytes.fromhex
        try:
            for record in older_receipts.take_over(folder, self._connection):
                match record:
                    case ["spent", nonce, expires]:
                        self.spend(digest(nonce), float(expires), float(expires))
                    case ["taken", request, session, answer, at, rows, *account]:
                        exchange = RecordedExchange(
                            digest(request), digest(session), digest(answer), digest("".join(account))
                        )
                        self.add_chunks(
                            exchange, [(digest(row[0]), digest(row[1]), *row[2:]) for row in rows], float(at)
                        )
                    case ["given back", request, answer, *account]:
                        self.release(RecordedExchange(digest(request), b"", digest(answer), digest("".join(account))))
                    case _:
                        raise ValueError("an unknown kind of record")
        except (ValueError, TypeError, LookupError) as error:
            raise sqlite3.DatabaseError(f"its journal is damaged: {error}") from error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit everything done inside, or nothing on an error; no other process writes meanwhile."""
        with _storage_errors(self._path):
            fcntl.flock(self._lock, fcntl.LOCK_EX)  # wakes the next worker at once; SQLite lets it sleep and try again
            try:
                with transaction(self._connection):
                    yield
            finally:
                fcntl.flock(self._lock, fcntl.LOCK_UN)

    def sync(self) -> None:
        """Return once every committed transaction is on disk; other workers commit meanwhile."""
        with _storage_errors(self._path):
            try:
                os.fdatasync(self._wal)
            except OSError:
                # A later sync does not repair what this one lost: all goes into the database, and is synced there.
                self._connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
                raise

    def add_event(self, event: Mapping[str, Any]) -> None:
        self._connection.execute(ADD_EVENT, (orjson.dumps(event).decode(),))

    def spend(self, nonce: bytes, now: float, expires: float) -> bool:
        """Spend a nonce until `expires`; False if it is spent already."""
        return self._connection.execute(SPEND, (nonce, expires, now)).rowcount == 1

    def reserve(
        self,
        exchange: RecordedExchange,
        candidates: Sequence[PassageCandidate],
        max_chunks: int,
        max_tokens: int,
        now: float,
    ) -> tuple[int, ...]:
        """Reserve the first candidates that fit all limits, and return their indices.

        A chunk that the key, or the session, received before, unchanged, does not count towards `chunk_limit` again.
        For the key only pieces that the document has now count, for the session all of RETENTION_SECONDS.
        """
        indices: list[int] = []
        reserved: list[Chunk] = []
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
            reserved.append((document.document, piece, pseudonym_of(candidate.chunk_id), url))
            indices.append(index)
            max_tokens -= candidate.tokens
        self.add_chunks(exchange, reserved, now)
        return tuple(indices)

    def _received(self, exchange: RecordedExchange, document_ids: Iterable[str]) -> dict[str, _Received]:
        """By document id: what the session and the account of an exchange have received of it."""
        digests = {document_id: _cached_digest(document_id) for document_id in document_ids}
        by_session = self._pieces("returned_chunks", "session", exchange.session, digests.values())
        by_account = self._pieces("given_chunks", "account", exchange.account, digests.values())
        return {id: _Received(digest, by_session[digest], by_account[digest]) for id, digest in digests.items()}

    def _compare_with_present(
        self, account: bytes, received: _Received, candidate: PassageCandidate, now: float
    ) -> None:
        """Let what the document no longer has stop counting for the account, and forget it if it is old."""
        present = None if received.compared else candidate.present_pieces()
        received.compared = True
        if present is not None:
            former = received.by_account - present
            received.by_account -= former
            self._connection.executemany(
                "DELETE FROM given_chunks WHERE account = ? AND document = ? AND piece = ? AND at < ?",
                [(account, received.document, piece, now - RETENTION_SECONDS) for piece in former],
            )

    def _pieces(self, table: str, column: str, owner: bytes, documents: Collection[bytes]) -> dict[bytes, set[bytes]]:
        """By document: the pieces that a table, or the new chunks, have of an owner."""
        pieces: dict[bytes, set[bytes]] = {document: set() for document in documents}
        numbers = ",".join(f"?{number}" for number in range(2, len(pieces) + 2))
        condition = f"WHERE {column} = ?1 AND document IN ({numbers})"
        query = f"SELECT document, piece FROM {table} {condition} UNION ALL SELECT document, piece FROM new_chunks "
        for document, piece in self._connection.execute(query + condition, (owner, *pieces)):
            pieces[document].add(piece)
        return pieces

    def add_chunks(self, exchange: RecordedExchange, chunks: Iterable[Chunk], at: float) -> None:
        ids = exchange.request, exchange.answer, exchange.session, exchange.account
        self._connection.executemany(ADD_CHUNK, [(*ids, *chunk, at) for chunk in chunks])

    def release(self, exchange: RecordedExchange) -> None:
        """Undo the reservations of an answer that was not sent; what another answer returned as well stays given."""
        ids = exchange.request, exchange.answer, exchange.account
        self._connection.execute(
            "DELETE FROM given_chunks WHERE account = ?3 AND answer = ?2 AND (document, piece)"
            " IN (SELECT document, piece FROM returned_chunks WHERE request = ?1 AND answer = ?2)",
            ids,
        )
        for table in ("returned_chunks", "new_chunks"):
            self._connection.execute(f"DELETE FROM {table} WHERE request = ? AND answer = ?", ids[:2])

    def returned_chunks(self, request: bytes) -> dict[str, frozenset[str | None]]:
        """The URLs of each chunk that was returned under a request, all as pseudonyms; empty for an unknown request.

        Older releases stored plain chunk ids and URLs.
        """
        chunks: dict[str, frozenset[str | None]] = {}
        query = "SELECT chunk, url FROM returned_chunks WHERE request = ?1"
        query += " UNION SELECT chunk, url FROM new_chunks WHERE request = ?1"
        for chunk, url in self._connection.execute(query, (request,)):
            chunks[chunk] = chunks.get(chunk, frozenset()) | {url}
        return chunks

    def record_citation(self, event: bytes, facts: bytes, now: float) -> Literal["new", "same", "other"]:
        """Record a citation by the digests of its event id and of its facts, if the event id is new; else say whether
        it was recorded with the same facts, or with others."""
        if self._connection.execute(CITE, (event, facts, now)).rowcount == 1:
            return "new"
        (recorded,) = self._connection.execute("SELECT facts FROM citations WHERE event = ?", (event,)).fetchone()
        return "same" if recorded == facts else "other"

    def maintain(self, now: float) -> None:
        """To be called after a commit: settle new chunks, and delete expired rows."""
        if self._connection.total_changes - self._settled_changes >= SETTLE_ROWS:
            with self.transaction():
                self.settle()
            self._settled_changes = self._connection.total_changes
        if now - self._expired_at > EXPIRY_SECONDS:
            with self.transaction():
                self._delete_expired(now)
                if now - self._trimmed_at > TRIM_SECONDS and trim_given(self._connection):
                    self._trimmed_at = now

    def settle(self) -> None:
        for statement in SETTLE:
            self._connection.execute(statement)

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


def read_events(path: Path) -> Iterator[dict[str, Any]]:
    """The events in the order in which they were written, also those of an older release; writes nothing.

    Raises StorageFailed; if the ledger of an older release cannot be read, after the events of its log.
    """
    # The log is opened before the version is read: a server that takes it over renames it afterwards.
    with _storage_errors(path), older_receipts.open_log(path.parent) as log, ExitStack() as stack:
        try:
            connection = stack.enter_context(closing(connect_read_only(path))) if path.exists() else None
            if connection is None or connection.execute("PRAGMA user_version").fetchone()[0] < SCHEMA_VERSION:
                yield from older_receipts.events(log, connection)
                return
            rows = connection.execute("SELECT CAST(event AS BLOB) FROM events ORDER BY id")
            yield from (orjson.loads(event) for (event,) in rows if older_receipts.is_event(event))  # without damage
        except sqlite3.Error:
            yield from older_receipts.events(log, None)
            raise


def trim_given(connection: sqlite3.Connection, max_rows: int = MAX_GIVEN_ROWS) -> bool:
    """Delete the oldest rows of the accounts that hold more than their share; False if rows are left to delete.

    It counts the whole table, which takes half a second at MAX_GIVEN_ROWS.
    """
    counts = dict(connection.execute("SELECT account, count(*) FROM given_chunks GROUP BY account").fetchall())
    share = fair_share(list(counts.values()), max_rows)
    surplus = {account: count - share for account, count in counts.items() if count > share}
    for account, rows in surplus.items():
        oldest = "SELECT document, piece FROM given_chunks WHERE account = ?1 ORDER BY at LIMIT ?2"
        connection.execute(
            f"DELETE FROM given_chunks WHERE account = ?1 AND (document, piece) IN ({oldest})",
            (account, min(rows, MAX_TRIMMED_ROWS)),
        )
    return all(rows <= MAX_TRIMMED_ROWS for rows in surplus.values())


def fair_share(counts: Sequence[int], max_rows: int) -> int:
    """The most rows that each account may keep: at most a quarter, and less if all together would exceed `max_rows`."""
    left = max_rows
    for number, count in enumerate(sorted(counts)):
        equal = left // (len(counts) - number)
        if count > equal:
            return min(equal, max_rows // ACCOUNT_SHARE)
        left -= count
    return max_rows // ACCOUNT_SHARE


@contextmanager
def _storage_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise StorageFailed(f"cannot use {path.name}: {reason}", file=path.name) from error
