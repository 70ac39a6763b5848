"""SQLite files that the workers share: opened in one way, written in transactions. Knows no table.

They lie in a folder of the store that is for its owner alone.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

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
            if connection.execute("PRAGMA user_version").fetchone()[0] > version:
                raise sqlite3.DatabaseError("it was written by a newer release of aidre: install that")
            for statement in tables.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {version}")
    except BaseException:
        connection.close()
        raise
    return connection


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
