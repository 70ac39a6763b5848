"""Receipts of older releases: how they are read, and taken over into the tables of the ledger.

Up to version 4 of the ledger the events were lines of JSON in numbered segments of a folder beside it. A commit was an
entry of the table `notes`: its lines, which the log could lack, and its records, which later moved into other tables.
`marks` has checksums of the log. Versions 1 to 3 lack some of these tables.

All is taken over in the transaction that creates the new tables, so a process that is killed leaves the old state or
the new one. The folder is renamed afterwards; its files are not read again.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

import orjson
import xxhash

from aidre.api.http import insertion
from aidre.api.protocols.intent.chunks import COLUMNS, Exchange, ReturnedChunk, add_chunks, release_chunks

logger = logging.getLogger("aidre")

EVENTS_FOLDER = "events"
LOCK_FILE = "LOCK"
MOVES = {
    "nonces": "INSERT INTO spent_nonces SELECT digest, expires, checksum(digest, expires) FROM nonces",
    "returned": f"INSERT INTO returned_chunks SELECT id, {COLUMNS}, checksum({COLUMNS})"
    " FROM (SELECT *, x'' AS account FROM returned) ORDER BY id",
    "cited": "INSERT INTO citations SELECT event, facts, at, checksum(event, facts, at) FROM cited WHERE kept",
    "given": "INSERT INTO given_chunks SELECT account, document, piece, answer, at,"
    " checksum(account, document, piece, answer, at) FROM given",
}
"""By table. A citation that is not `kept` was only begun."""


@contextmanager
def without_older_writers(folder: Path) -> Iterator[None]:
    """Keep workers of older releases, and others that take over, from writing. Raises OSError."""
    with ExitStack() as stack:
        with suppress(FileNotFoundError, NotADirectoryError):  # there is no older log
            lock = os.open(folder / EVENTS_FOLDER / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            stack.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def take_over(folder: Path, connection: sqlite3.Connection) -> None:
    """Move what older releases wrote into the new tables, within a transaction. Raises OSError and sqlite3.Error."""
    for name in altered_segments(folder, connection):
        logger.warning("%s of the event log was altered, or cut off, before it was taken over", name)
    torn: list[int] = []
    with open_log(folder) as log:
        lines = event_lines(log, journaled_lines(connection), torn.append)
        connection.executemany(insertion("events", "event"), ((line.decode(),) for line in lines))
    if torn:
        logger.warning("%d lines of the event log are no events and were not taken over", len(torn))
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for table in MOVES.keys() & tables:
        connection.execute(MOVES[table])
    if "notes" in tables:
        for (records,) in connection.execute("SELECT entries FROM notes ORDER BY id").fetchall():
            _replay(connection, records)
    for table in {*MOVES, "notes", "marks"} & tables:
        connection.execute(f"DROP TABLE {table}")


def _replay(connection: sqlite3.Connection, records: bytes) -> None:
    """Apply the records of a journal entry. Those of the oldest releases have no account."""
    digest = bytes.fromhex
    try:
        for record in orjson.loads(records):
            match record:
                case ["spent", nonce, expires]:
                    statement = "INSERT OR REPLACE INTO spent_nonces VALUES (?1, ?2, checksum(?1, ?2))"
                    connection.execute(statement, (digest(nonce), float(expires)))
                case ["taken", request, session, answer, at, rows, *account]:
                    exchange = Exchange(digest(request), digest(session), digest(answer), digest("".join(account)))
                    chunks = [ReturnedChunk(digest(row[0]), digest(row[1]), row[2], row[3]) for row in rows]
                    add_chunks(connection, exchange, chunks, float(at))
                case ["given back", request, answer, *account]:
                    exchange = Exchange(digest(request), b"", digest(answer), digest("".join(account)))
                    release_chunks(connection, exchange)
                case _:
                    raise ValueError("a record of unknown kind")
    except (ValueError, TypeError, IndexError) as error:
        raise sqlite3.DatabaseError(f"its journal is damaged: {error}") from error


def put_aside(folder: Path) -> None:
    """Rename the folder of an event log that was taken over. Raises OSError."""
    if (folder / EVENTS_FOLDER).is_dir():
        names = (folder / f"{EVENTS_FOLDER}.{number}.old" for number in count(1))
        target = next(name for name in names if not name.exists())
        (folder / EVENTS_FOLDER).rename(target)
        logger.info("the event log of an older release is in the ledger; its files are now in %s", target.name)


# -- reading ---------------------------------------------------------------------------------------------------------


def older_events(log: Iterable[BinaryIO], connection: sqlite3.Connection | None) -> Iterator[dict[str, Any]]:
    """The events of a log, followed by the journaled ones that it lacks. Raises sqlite3.Error before the first one."""
    journaled = [] if connection is None else journaled_lines(connection)
    return (orjson.loads(line) for line in event_lines(log, journaled))


def journaled_lines(connection: sqlite3.Connection) -> list[bytes]:
    """The lines of all journal entries."""
    if not _has_table(connection, "notes"):
        return []
    rows = connection.execute("SELECT lines FROM notes ORDER BY id").fetchall()
    return b"".join(lines for (lines,) in rows).splitlines()


def event_lines(
    log: Iterable[BinaryIO], journaled: Iterable[bytes] = (), report: Callable[[int], object] = lambda _: None
) -> Iterator[bytes]:
    """The lines of a log that are events, then the journaled ones that it lacks.

    Other lines are left out; `report` receives the numbers, from 1, of those that are complete.
    """
    missing = dict.fromkeys(journaled)
    for segment in log:
        for number, content in enumerate(segment, 1):
            line = content.rstrip(b"\n")
            missing.pop(line, None)
            if is_event(line):
                yield line
            elif line != content:
                report(number)
    yield from filter(is_event, missing)


def is_event(line: bytes) -> bool:
    try:
        return type(orjson.loads(line)) is dict
    except orjson.JSONDecodeError:
        return False


@contextmanager
def open_log(folder: Path) -> Iterator[list[BinaryIO]]:
    """The segments of an event log, in order; none where there is no log. Raises OSError."""
    with ExitStack() as stack:
        yield [stack.enter_context(path.open("rb")) for path in log_segments(folder)]


def log_segments(folder: Path) -> list[Path]:
    paths = (folder / EVENTS_FOLDER).glob("*.jsonl")
    return sorted((path for path in paths if path.stem.isdecimal()), key=lambda path: int(path.stem))


def altered_segments(folder: Path, connection: sqlite3.Connection) -> list[str]:
    """Names of the segments whose content differs from its checksums. Raises OSError and sqlite3.Error."""
    if not _has_table(connection, "marks"):
        return []
    segments, altered = {int(path.stem): path for path in log_segments(folder)}, set[str]()
    for segment, first, last, checksum in connection.execute("SELECT segment, first, last, content FROM marks"):
        if segment in segments:
            with segments[segment].open("rb") as file:
                file.seek(first)
                if xxhash.xxh3_128_digest(file.read(last - first)) != checksum:
                    altered.add(segments[segment].name)
    return sorted(altered)


def _has_table(connection: sqlite3.Connection, name: str) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone() is not None
