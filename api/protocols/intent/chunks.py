"""The chunks that left: tables of the ledger with what each request returned, and what each key was ever given.

`new_chunks` has the latest of them without an index, since a commit waits for every page that it writes; `settle` moves
many at once. `returned_chunks` has a row for each chunk of each answer. `given_chunks` outlives it: a row is a piece
that a key has received, which is a chunk with the content that it had. `account` is a digest of key id and collection.
A row is forgotten if its answer is released, if its document no longer has the piece (30 days after it was given), or
if the table is full: then the accounts with the most rows lose their oldest. No row of a key is forgotten for the sake
of a key that was given more, and only partners have keys, so nobody unknown can fill the table.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from aidre.api.http import insertion

COLUMNS = "request, answer, session, account, document, piece, chunk, url, at"
GIVEN_COLUMNS = "account, document, piece, answer, at"
_DECLARED = """
    request BLOB NOT NULL,
    answer BLOB NOT NULL,
    session BLOB NOT NULL,
    account BLOB NOT NULL,
    document BLOB NOT NULL,
    piece BLOB NOT NULL,
    chunk TEXT NOT NULL,
    url TEXT,
    at REAL NOT NULL,
    checksum INTEGER NOT NULL
"""
CHUNK_TABLES = f"""
CREATE TABLE IF NOT EXISTS new_chunks ({_DECLARED});
CREATE TABLE IF NOT EXISTS returned_chunks (id INTEGER PRIMARY KEY, {_DECLARED});
CREATE INDEX IF NOT EXISTS returned_by_request ON returned_chunks (request);
CREATE INDEX IF NOT EXISTS returned_by_session ON returned_chunks (session, document, piece);
CREATE TABLE IF NOT EXISTS given_chunks (
    account BLOB NOT NULL,
    document BLOB NOT NULL,
    piece BLOB NOT NULL,
    answer BLOB NOT NULL,
    at REAL NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (account, document, piece)
) WITHOUT ROWID;
"""
MAX_GIVEN_ROWS = 4_194_304
"""About half a gigabyte, and four keys that each have received a million chunks."""
ACCOUNT_SHARE = 4
"""An account holds at most this part (a quarter) of the rows."""
MAX_TRIMMED_ROWS = 50_000
"""Rows deleted at once, so that answers need not wait for long."""
SHARED = "x''"
"""In place of the answer, where several answers returned the piece: the release of one then changes nothing."""
ADD = insertion("new_chunks", COLUMNS)
SETTLE = (
    f"INSERT INTO returned_chunks ({COLUMNS}, checksum) SELECT {COLUMNS}, checksum FROM new_chunks ORDER BY rowid",
    f"INSERT INTO given_chunks SELECT {GIVEN_COLUMNS}, checksum({GIVEN_COLUMNS})"
    " FROM new_chunks WHERE account != x'' ORDER BY rowid"
    f" ON CONFLICT DO UPDATE SET answer = {SHARED}, checksum = checksum(account, document, piece, {SHARED}, at)"
    f" WHERE answer NOT IN (excluded.answer, {SHARED})",
    "DELETE FROM new_chunks",
)


def digest_of(*parts: str) -> bytes:
    """16 bytes over strings; a length before each keeps ("a", "bc") from equalling ("ab", "c")."""
    contents = [part.encode("utf-8", "surrogatepass") for part in parts]
    framed = b"".join([len(content).to_bytes(8, "little") + content for content in contents])
    return hashlib.blake2b(framed, digest_size=16).digest()


cached_digest = lru_cache(maxsize=8_192)(digest_of)
"""`digest_of` for document and chunk ids, which repeat."""

MAX_CACHED_NAME_CHARS = 256
"""A longer name is not cached: callers can send URLs of thousands of characters."""


def piece_of(chunk_id: str, digest: bytes) -> bytes:
    """The digest of a chunk with its content, which has the SHA-256 `digest`."""
    return cached_digest(chunk_id, digest.hex())


def pseudonym_of(name: str) -> str:
    """The digest that replaces a chunk id or URL in the ledger, so that a purged document leaves no trace in it."""
    return (cached_digest if len(name) <= MAX_CACHED_NAME_CHARS else digest_of)(name).hex()


@dataclass(frozen=True, slots=True)
class ReturnedChunk:
    """A chunk of an answer. `document` and `piece` are digests of the document id and of chunk id with content; `chunk`
    and `url` are pseudonyms."""

    document: bytes
    piece: bytes
    chunk: str
    url: str | None


@dataclass(frozen=True, slots=True)
class Exchange:
    """One answer to a request in a session. The ids are digests, so the file reveals none; `answer` is random.

    `account` is the key in one collection; those of the oldest releases are empty and count nothing.
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


def add_chunks(connection: sqlite3.Connection, exchange: Exchange, chunks: Iterable[ReturnedChunk], at: float) -> None:
    """Add chunks of an answer; `at` is Unix time."""
    ids = exchange.request, exchange.answer, exchange.session, exchange.account
    connection.executemany(ADD, [(*ids, each.document, each.piece, each.chunk, each.url, at) for each in chunks])


def settle(connection: sqlite3.Connection) -> None:
    """Move the new chunks into the tables that have indexes."""
    for statement in SETTLE:
        connection.execute(statement)


def release_chunks(connection: sqlite3.Connection, exchange: Exchange) -> None:
    """Remove an answer that was not sent, on every page; what another answer returned as well stays given."""
    connection.execute(
        "DELETE FROM given_chunks WHERE account = ?1 AND answer = ?2 AND (document, piece)"
        " IN (SELECT document, piece FROM returned_chunks WHERE request = ?3 AND answer = ?2)",
        (exchange.account, exchange.answer, exchange.request),
    )
    for table in ("returned_chunks", "new_chunks"):
        connection.execute(f"DELETE FROM {table} WHERE request = ? AND answer = ?", (exchange.request, exchange.answer))


def request_chunks(connection: sqlite3.Connection, request: bytes) -> list[tuple[str, str | None]]:
    """Chunk and URL of all that was returned under a request."""
    query = "SELECT chunk, url FROM returned_chunks WHERE request = ?1"
    query += " UNION SELECT chunk, url FROM new_chunks WHERE request = ?1"
    return connection.execute(query, (request,)).fetchall()


def session_pieces(
    connection: sqlite3.Connection, session: bytes, documents: Collection[bytes]
) -> dict[bytes, set[bytes]]:
    """By document: the pieces that a session received."""
    return _pieces(connection, "returned_chunks", "session", session, documents)


def given_pieces(
    connection: sqlite3.Connection, account: bytes, documents: Collection[bytes]
) -> dict[bytes, set[bytes]]:
    """By document: the pieces that an account was given."""
    return _pieces(connection, "given_chunks", "account", account, documents)


def _pieces(
    connection: sqlite3.Connection, settled: str, column: str, owner: bytes, documents: Collection[bytes]
) -> dict[bytes, set[bytes]]:
    pieces: dict[bytes, set[bytes]] = {document: set() for document in documents}
    numbers = ",".join(f"?{number}" for number in range(2, len(pieces) + 2))
    queries = [
        f"SELECT document, piece FROM {table} WHERE {column} = ?1 AND document IN ({numbers})"
        for table in (settled, "new_chunks")
    ]
    for document, piece in connection.execute(" UNION ALL ".join(queries), (owner, *pieces)):
        pieces[document].add(piece)
    return pieces


def forget_pieces(
    connection: sqlite3.Connection, account: bytes, document: bytes, pieces: Iterable[bytes], before: float
) -> None:
    """Delete those of the pieces that were given before a time."""
    connection.executemany(
        "DELETE FROM given_chunks WHERE account = ? AND document = ? AND piece = ? AND at < ?",
        [(account, document, piece, before) for piece in pieces],
    )


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
