"""What each key was ever given: the table `given` of the ledger, which outlives the receipts.

A row is a piece that a key has received: a chunk with the content that it had. `account` is a digest of key id and
collection. A row is forgotten if its answer is released, if its document no longer has the piece (30 days after it was
given), or if the table is full: then the accounts with the most rows lose their oldest. No row of a key is forgotten
for the sake of a key that was given more, and only partners have keys, so nobody unknown can fill the table.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence

from aidre.api.protocols.intent.records.journal import Release, Reservation

GIVEN_TABLE = """
CREATE TABLE IF NOT EXISTS given (
    account BLOB NOT NULL,
    document BLOB NOT NULL,
    piece BLOB NOT NULL,
    answer BLOB NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (account, document, piece)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS given_checked ON given (account, document, piece, checksum(answer, at));
"""
MAX_GIVEN_ROWS = 4_194_304
"""About half a gigabyte, and four keys that each have received a million chunks."""
ACCOUNT_SHARE = 4
"""An account holds at most this part (a quarter) of the rows."""
MAX_TRIMMED_ROWS = 50_000
"""Rows deleted at once, so that answers need not wait for long."""
SHARED = b""
"""In place of the answer, where several answers returned the piece: the release of one then changes nothing."""


def given_pieces(
    connection: sqlite3.Connection, account: bytes, documents: Collection[bytes]
) -> dict[bytes, set[bytes]]:
    """By document: the pieces that an account was given."""
    pieces: dict[bytes, set[bytes]] = {document: set() for document in documents}
    parameters = ",".join("?" * len(pieces))
    query = f"SELECT document, piece FROM given WHERE account = ? AND document IN ({parameters})"
    for document, piece in connection.execute(query, (account, *pieces)):
        pieces[document].add(piece)
    return pieces


def add_given(connection: sqlite3.Connection, reservations: Iterable[Reservation]) -> None:
    """Add the chunks of reservations; those of older releases name no account and are left out."""
    connection.executemany(
        "INSERT INTO given (account, document, piece, answer, at) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET answer = ? WHERE answer NOT IN (excluded.answer, ?)",
        [
            (page.account, chunk.document, chunk.piece, page.answer, page.at, SHARED, SHARED)
            for page in reservations
            if page.account
            for chunk in page.chunks
        ],
    )


def release_given(connection: sqlite3.Connection, releases: Iterable[Release]) -> None:
    """Remove what only the released answers returned, while the table `returned` still has their chunks."""
    connection.executemany(
        "DELETE FROM given WHERE account = ? AND answer = ?"
        " AND (document, piece) IN (SELECT document, piece FROM returned WHERE request = ? AND answer = ?)",
        [(release.account, release.answer, release.request, release.answer) for release in releases],
    )


def forget_pieces(
    connection: sqlite3.Connection, account: bytes, document: bytes, pieces: Iterable[bytes], before: float
) -> None:
    """Delete those of the pieces that were given before a time."""
    connection.executemany(
        "DELETE FROM given WHERE account = ? AND document = ? AND piece = ? AND at < ?",
        [(account, document, piece, before) for piece in pieces],
    )


def trim_given(connection: sqlite3.Connection, max_rows: int = MAX_GIVEN_ROWS) -> bool:
    """Delete the oldest rows of the accounts that hold more than their share; False if rows are left to delete.

    It counts the whole table, which takes half a second at MAX_GIVEN_ROWS.
    """
    counts = dict(connection.execute("SELECT account, count(*) FROM given GROUP BY account").fetchall())
    share = fair_share(list(counts.values()), max_rows)
    surplus = {account: count - share for account, count in counts.items() if count > share}
    for account, rows in surplus.items():
        oldest = "SELECT document, piece FROM given WHERE account = ? ORDER BY at LIMIT ?"
        connection.execute(
            f"DELETE FROM given WHERE account = ? AND (document, piece) IN ({oldest})",
            (account, account, min(rows, MAX_TRIMMED_ROWS)),
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
