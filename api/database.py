"""SQLite files that the workers share: opened in one way, written in transactions. Knows no table.

They lie in a folder of the store that is for its owner alone. A table has an index over `checksum(...)` of its columns,
by which SQLite's own check (`fault_in`) finds a value that was altered.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Literal

import xxhash

LOCKED_SECONDS = 10.0
"""How long one worker waits for another."""

ATTEMPTS = 20


def make_private(folder: Path) -> None:
    """Makes the folder of what the protocols write down, for its owner alone, also where it was there; OSError."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)


def connect(path: Path, *, synchronous: Literal["FULL", "NORMAL", "OFF"]) -> sqlite3.Connection:
    """A connection in WAL mode for one thread at a time, in autocommit; OSError, sqlite3.Error.

    `synchronous` is SQLite's own word: FULL waits for the disk in every commit. What is deleted is overwritten.
    """
    # A file that is there already is not opened here: to close it would drop the locks this process holds on it.
    with suppress(FileExistsError):  # SQLite gives its other files the same mode
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, timeout=LOCKED_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        with_checksum(connection)
        _use_wal(connection)
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute("PRAGMA secure_delete = ON").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def with_tables(connection: sqlite3.Connection, tables: str, version: int) -> sqlite3.Connection:
    """The same connection, to a file that has these tables; sqlite3.Error where a newer release wrote the file."""
    try:
        with transaction(connection):
            found = connection.execute("PRAGMA user_version").fetchone()[0]
            if found > version:
                raise sqlite3.DatabaseError("it was written by a newer release of aidre: install that")
            if found == version and _has_other_tables(connection):
                raise sqlite3.DatabaseError("its tables are not as they were made")
            for statement in tables.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {version}")
            connection.execute(f"PRAGMA application_id = {_tables_mark(connection)}")
    except BaseException:
        connection.close()
        raise
    return connection


def fault_in(path: Path) -> str | None:
    """What is damaged in a database, None where nothing is."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            with_checksum(connection)
            (said,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            if said == "ok" and _has_other_tables(connection):
                return "has tables that are not as they were made"
    except (sqlite3.Error, UnicodeDecodeError) as error:
        return f"cannot be read: {' '.join(str(error).split())}"
    return None if said == "ok" else f"is damaged: {' '.join(str(said).split())}"


def with_checksum(connection: sqlite3.Connection) -> None:
    """Whoever writes to a table whose rows are checked needs this."""
    connection.create_function("checksum", -1, _checksum, deterministic=True)


def _has_other_tables(connection: sqlite3.Connection) -> bool:
    """Whether a bit of the words that made the tables was altered; never where nothing was noted of them."""
    noted = connection.execute("PRAGMA application_id").fetchone()[0]
    return noted not in (0, _tables_mark(connection))


def _tables_mark(connection: sqlite3.Connection) -> int:
    """A positive number of 31 bits over all that makes tables and indexes."""
    made = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name").fetchall()
    return (xxhash.xxh3_64_intdigest(repr(made).encode()) & 0x7FFFFFFE) | 1


def _checksum(*values: bytes | str | float | None) -> int:
    """64 bits over the values of a row, each told from the next and from one of another kind."""
    return xxhash.xxh3_64_intdigest(repr(values).encode("utf-8", "surrogatepass")) - (1 << 63)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """All of it or nothing, alone among the workers; sqlite3.Error."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")  # may fail itself, on a full disk
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _use_wal(connection: sqlite3.Connection) -> None:
    for attempt in range(ATTEMPTS):
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
            return
        except sqlite3.OperationalError as error:
            # SQLite does not wait for its lock while the mode changes: two workers begin at the same moment.
            if "locked" not in str(error) or attempt == ATTEMPTS - 1:
                raise
            time.sleep(LOCKED_SECONDS / ATTEMPTS)
