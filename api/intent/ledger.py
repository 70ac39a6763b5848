"""What all workers must agree on, in one SQLite file: nonces that were used, chunks that were returned, events kept.

What is done within a transaction is in the file when that ends, and on disk when `sync` has returned: as one note,
since an answer waits for every page that is written. The tables and their indexes get it from many notes at once, when
those are struck. It holds ids and digests, no text and no name of a session. Everything here blocks.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias

from aidre.api.database import connect, transaction, with_tables
from aidre.api.intent.marks import MARKS, add_marks
from aidre.api.intent.recent import Entry, GivenBack, Piece, Recent, Spent, Taken, packed, unpacked
from aidre.engine.durable import make_folder, sync_folder
from aidre.engine.errors import StorageFailed

FILE = "intent.sqlite"
WITH_NOTES, VERSION = 2, 3
"""A release that does not read the notes would not know what was just spent and taken. 3 has checksums."""
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
    """What a transaction did. Its lines of the event log may not be in their segment yet, or not on disk."""

    id: int
    segment: int
    content: bytes
    entries: bytes

    @property
    def lines(self) -> list[bytes]:
        return self.content.splitlines(keepends=True)


def digest_of(*parts: str) -> bytes:
    """16 bytes over strings, none of which can run into the next."""
    contents = [part.encode("utf-8", "surrogatepass") for part in parts]
    framed = b"".join([len(content).to_bytes(8, "little") + content for content in contents])
    return hashlib.blake2b(framed, digest_size=16).digest()


_known_digest = lru_cache(maxsize=8_192)(digest_of)
"""The same, of what comes again and again: documents and chunks."""

REMEMBERED = 256
"""Characters of the longest name of which that may be so: an address that a caller sends may have thousands."""


def hidden(name: str) -> str:
    """How a chunk or an address is named here: a document that is purged must not go on in this file."""
    return (_known_digest if len(name) <= REMEMBERED else digest_of)(name).hex()


class Ledger:
    """One connection, for one thread at a time. StorageFailed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._swept = 0.0
        self._forget()
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

    def _forget(self) -> None:
        """Whatever is in memory is read again when it is needed."""
        self._recent = Recent()
        self._entries: list[Entry] = []
        self._lines: list[bytes] = []
        self._segment = 0
        self._oldest: int | None = None
        self._newest = 0
        self._version: int | None = None

    def sync(self) -> None:
        """Every transaction that has returned is on disk when this returns."""
        with _failures(self._path):
            os.fdatasync(self._log)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is done inside, or nothing of it; until it ends no other process writes."""
        try:
            with _failures(self._path), transaction(self._connection):
                self._catch_up()
                yield
                self._note()
        except BaseException:
            self._forget()
            raise

    def _catch_up(self) -> None:
        """Reads what other workers have noted."""
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        if version == self._version:
            return
        (oldest,) = self._connection.execute("SELECT min(id) FROM notes").fetchone()
        if oldest != self._oldest:
            self._forget()  # another one has struck notes
        for id, entries in self._connection.execute(
            "SELECT id, entries FROM notes WHERE id > ? ORDER BY id", (self._newest,)
        ):
            for entry in unpacked(entries):
                self._recent.add(entry)
            self._newest = id
        self._version, self._oldest = version, oldest

    def _add(self, entry: Entry) -> None:
        self._recent.add(entry)
        self._entries.append(entry)

    def _note(self) -> None:
        if self._entries or self._lines:
            note = self._segment, b"".join(self._lines), packed(self._entries)
            added = self._connection.execute("INSERT INTO notes (segment, lines, entries) VALUES (?, ?, ?)", note)
            self._newest = added.lastrowid or 0
            self._entries, self._lines = [], []

    def use(self, nonce: bytes, now: float, expires: float) -> bool:
        """Whether nobody has used it; from now on somebody has."""
        if self._recent.is_spent(nonce, now):
            return False
        standing = "SELECT 1 FROM nonces WHERE digest = ? AND expires > ?"
        if self._connection.execute(standing, (nonce, now)).fetchone() is not None:
            return False
        self._add(Spent(nonce, expires))
        return True

    def _sweep(self, now: float) -> None:
        """Removes what is over; where that is much, the rest with the next call."""
        if now - self._swept <= SWEEP_SECONDS:
            return
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
        taken: list[Piece] = []
        had = self._had(exchange.session, {one.document_id for one in candidates})
        for place, one in enumerate(candidates):
            if len(places) == chunks:
                break
            if one.tokens > tokens or one.most == 0:
                continue
            document, pieces = had[one.document_id]
            piece = _known_digest(one.chunk_id, one.digest.hex())
            if piece not in pieces and len(pieces) >= one.most:
                continue
            pieces.add(piece)
            taken.append(Piece(document, piece, hidden(one.chunk_id), None if one.url is None else hidden(one.url)))
            places.append(place)
            tokens -= one.tokens
        if taken:
            self._add(Taken(exchange.request, exchange.session, exchange.answer, now, tuple(taken)))
        return tuple(places)

    def _had(self, session: bytes, document_ids: Iterable[str]) -> dict[str, tuple[bytes, set[bytes]]]:
        """Documents as they are named here, and the pieces of each that a session has had."""
        names = {identifier: _known_digest(identifier) for identifier in document_ids}
        pieces: dict[bytes, set[bytes]] = {name: set() for name in names.values()}
        marks = ",".join("?" * len(names))
        for document, piece in self._connection.execute(
            f"SELECT DISTINCT document, piece FROM returned WHERE session = ? AND document IN ({marks})",
            (session, *names.values()),
        ):
            pieces[document].add(piece)
        for recent in self._recent.of_session(session):
            if recent.document in pieces:
                pieces[recent.document].add(recent.piece)
        return {identifier: (name, pieces[name]) for identifier, name in names.items()}

    def give_back(self, exchange: Exchange) -> None:
        """What was taken for an answer that did not leave."""
        self._add(GivenBack(exchange.request, exchange.answer))
        self._remove([GivenBack(exchange.request, exchange.answer)])  # it may have come to the table by now

    def _remove(self, given_back: Iterable[GivenBack]) -> None:
        self._connection.executemany(
            "DELETE FROM returned WHERE request = ? AND answer = ?", [(one.request, one.answer) for one in given_back]
        )

    def returned(self, request: bytes) -> dict[str, frozenset[str | None]]:
        """The chunks that were returned under a request, with the address of their document, both `hidden`; empty where
        none were. Older releases wrote them down as they are."""
        found = self._connection.execute("SELECT chunk, url FROM returned WHERE request = ?", (request,)).fetchall()
        chunks: dict[str, frozenset[str | None]] = {}
        for chunk, url in [*found, *((one.chunk, one.url) for one in self._recent.of_request(request))]:
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
        self._lines, self._segment = [*self._lines, *lines], segment

    def noted(self) -> list[Noted]:
        """In the order in which they were noted."""
        with _failures(self._path):
            return [
                Noted(*row)
                for row in self._connection.execute("SELECT id, segment, lines, entries FROM notes ORDER BY id")
            ]

    def take_back(self, lines: Sequence[bytes]) -> None:
        """Lines of the newest note that did not get to the log."""
        newest = self.noted()[-1]
        left = b"".join(line for line in newest.lines if line not in lines)
        self._connection.execute("UPDATE notes SET lines = ? WHERE id = ?", (left, newest.id))

    def strike(self, noted: Sequence[Noted], now: float) -> None:
        """Enters what need not be noted any more into the tables; removes there what is over."""
        entries = [entry for one in noted for entry in unpacked(one.entries)]
        spent = [(one.nonce, one.expires) for one in entries if isinstance(one, Spent)]
        self._connection.executemany("INSERT OR REPLACE INTO nonces VALUES (?, ?)", spent)
        self._connection.executemany(
            "INSERT INTO returned (request, answer, session, document, piece, chunk, url, at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (taken.request, taken.answer, taken.session, one.document, one.piece, one.chunk, one.url, taken.at)
                for taken in entries
                if isinstance(taken, Taken)
                for one in taken.pieces
            ],
        )
        self._remove(one for one in entries if isinstance(one, GivenBack))
        self._connection.executemany("DELETE FROM notes WHERE id = ?", [(one.id,) for one in noted])
        self._sweep(now)
        self._forget()

    def mark(self, folder: Path, untrusted: int) -> None:
        """What the log has got since the last mark is on disk; `untrusted` is a segment that may not be."""
        add_marks(self._connection, folder, untrusted)

    def close(self) -> None:
        self._connection.close()
        os.close(self._log)


def read_noted(path: Path) -> list[bytes]:
    """The lines of all notes, without writing anything; none where there is no ledger. StorageFailed."""
    if not path.exists():
        return []
    # Without a WAL nobody has it open: then it can be read where nothing can be written, which WAL mode forbids.
    alone = "" if path.with_name(f"{path.name}-wal").exists() else "&immutable=1"
    address = f"{path.absolute().as_uri()}?mode=ro{alone}"
    with _failures(path), closing(sqlite3.connect(address, uri=True)) as connection:
        if connection.execute("PRAGMA user_version").fetchone()[0] < WITH_NOTES:
            return []
        notes = connection.execute("SELECT lines FROM notes ORDER BY id").fetchall()
    return b"".join(lines for (lines,) in notes).splitlines(keepends=True)


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
    connection = with_tables(connect(path, synchronous="NORMAL"), TABLES + MARKS, VERSION)
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    return connection
