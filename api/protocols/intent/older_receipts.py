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
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

import orjson
import xxhash

from aidre.api.http import insertion

logger = logging.getLogger("aidre")

EVENTS_FOLDER = "events"
MOVES = {
    "nonces": "INSERT INTO spent_nonces SELECT digest, expires, checksum(digest, expires) FROM nonces",
    "returned": "INSERT INTO returned_chunks SELECT id, request, answer, session, x'', document, piece, chunk, url, at,"
    " checksum(request, answer, session, x'', document, piece, chunk, url, at) FROM returned ORDER BY id",
    "cited": "INSERT INTO citations SELECT event, facts, at, checksum(event, facts, at) FROM cited WHERE kept",
    "given": "INSERT INTO given_chunks SELECT account, document, piece, answer, at,"
    " checksum(account, document, piece, answer, at) FROM given",
    "notes": "SELECT 1",
    "marks": "SELECT 1",
}
"""By table. A citation that is not `kept` was only begun; notes and marks are read."""


@contextmanager
def without_writers(folder: Path) -> Iterator[None]:
    """Keep workers of older releases, and others that take over, from writing. Raises OSError."""
    with ExitStack() as stack:
        with suppress(FileNotFoundError, NotADirectoryError):  # there is no older log
            lock = os.open(folder / EVENTS_FOLDER / "LOCK", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            stack.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def take_over(folder: Path, connection: sqlite3.Connection) -> list[list[Any]]:
    """Move what older releases wrote into the tables of the ledger, within the transaction that creates them.

    Returns the records of the journal, which are left to do. Raises OSError and sqlite3.Error.
    """
    for path, fault, _ in log_faults(folder, connection):
        logger.warning("%s of the event log %s; what is not an event is not taken over", path.name, fault)
    with open_log(folder) as log:
        lines = _event_lines(log, _journaled(connection, "lines"))
        connection.executemany(insertion("events", "event"), ((line.decode(),) for line in lines))
    records = [record for entry in _journaled(connection, "entries") for record in orjson.loads(entry)]
    for table, statement in MOVES.items():
        if _has_table(connection, table):
            connection.execute(statement)
            connection.execute(f"DROP TABLE {table}")
    return records


def put_aside(folder: Path) -> None:
    """Rename the folder of an event log that was taken over. Raises OSError."""
    if (folder / EVENTS_FOLDER).is_dir():
        names = (folder / f"{EVENTS_FOLDER}.{number}.old" for number in count(1))
        target = next(name for name in names if not name.exists())
        (folder / EVENTS_FOLDER).rename(target)
        logger.info("the event log of an older release is in the ledger; its files are now in %s", target.name)


# -- reading ---------------------------------------------------------------------------------------------------------


def events(log: Iterable[BinaryIO], connection: sqlite3.Connection | None) -> Iterator[dict[str, Any]]:
    """The events of a log, followed by the journaled ones that it lacks. Raises sqlite3.Error before the first one."""
    journaled = [] if connection is None else _journaled(connection, "lines")
    return (orjson.loads(line) for line in _event_lines(log, journaled))


def _journaled(connection: sqlite3.Connection, column: str) -> list[bytes]:
    """The lines of a column of all journal entries; `entries` have one each."""
    query = f"SELECT {column} FROM notes ORDER BY id"
    rows = connection.execute(query).fetchall() if _has_table(connection, "notes") else []
    return [line for (content,) in rows for line in content.splitlines()]


def _event_lines(log: Iterable[BinaryIO], journaled: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a log that are events, then the journaled ones that it lacks."""
    missing = dict.fromkeys(journaled)
    for segment in log:
        for content in segment:
            line = content.rstrip(b"\n")
            missing.pop(line, None)
            if is_event(line):
                yield line
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


def log_faults(folder: Path, connection: sqlite3.Connection | None) -> Iterator[tuple[Path, str, bool]]:
    """Damaged segments of a log: the fault, as a predicate, and whether it is in no event. Raises OSError."""
    marks: list[tuple[int, int, int, bytes]] = []
    if connection is not None and _has_table(connection, "marks"):
        marks = connection.execute("SELECT segment, first, last, content FROM marks").fetchall()
    for path in log_segments(folder):
        content = path.read_bytes()
        if any(
            segment == int(path.stem) and xxhash.xxh3_128_digest(content[first:last]) != checksum
            for segment, first, last, checksum in marks
        ):
            yield path, "was altered, or cut off", False
            continue
        lines = enumerate(content.split(b"\n")[:-1], 1)
        torn = next((number for number, line in lines if not is_event(line)), None)
        if torn is not None:
            yield path, f"has no event in line {torn}: damage, or the remains of a writer that was killed", True


def _has_table(connection: sqlite3.Connection, name: str) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone() is not None
