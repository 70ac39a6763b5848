"""SQLite files that the workers of a server share: how they are opened, created, checked and written.

It knows no table. The files are in a folder that only its owner can read. A table has a column `checksum` over its
others but `id`, or an index over `checksum(...)` of them, by which `find_damage` detects an altered value.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Literal

import xxhash

LOCKED_SECONDS = 10.0
"""Busy time-out: how long one worker waits for another's lock."""

MAX_WAL_ATTEMPTS = 20


def make_private_folder(folder: Path) -> None:
    """Creates a folder with mode 0700, or takes the other rights from an existing one. Raises OSError."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)


def connect(path: Path, *, synchronous: Literal["FULL", "NORMAL", "OFF"]) -> sqlite3.Connection:
    """A connection in WAL mode and autocommit, for one thread at a time. Raises OSError and sqlite3.Error.

    `synchronous` is SQLite's pragma: FULL waits for the disk in every commit. Deleted content is overwritten.
    """
    # An existing file must not be opened and closed here: closing drops the POSIX locks that this process holds on it.
    with suppress(FileExistsError):  # SQLite creates its other files with the same mode
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, timeout=LOCKED_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        register_checksum(connection)
        _use_wal(connection)
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute("PRAGMA secure_delete = ON").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def connect_read_only(path: Path) -> sqlite3.Connection:
    """A connection that only reads, from a read-only disk too. Raises sqlite3.Error."""
    # WAL mode needs files beside the database. Where none can be created, no process writes to it either.
    can_create = path.with_name(f"{path.name}-wal").exists() or os.access(path.parent, os.W_OK)
    mode = "mode=ro" if can_create else "mode=ro&immutable=1"
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True)
    register_checksum(connection)
    return connection


def create_tables(
    connection: sqlite3.Connection,
    tables: str,
    version: int,
    upgrade: Callable[[sqlite3.Connection], None] = lambda _: None,
) -> sqlite3.Connection:
    """Creates missing tables and returns the connection; `upgrade` changes a new or older file in the same transaction.

    Raises sqlite3.Error, and closes the connection, if a newer release wrote the file or its schema was altered."""
    try:
        with transaction(connection):
            stored = connection.execute("PRAGMA user_version").fetchone()[0]
            if stored > version:
                raise sqlite3.DatabaseError("it was written by a newer release of aidre: install that")
            if stored == version and _is_schema_altered(connection):
                raise sqlite3.DatabaseError("its tables were altered")
            for statement in tables.split(";"):
                connection.execute(statement)
            if stored < version:
                upgrade(connection)
            connection.execute(f"PRAGMA user_version = {version}")
            connection.execute(f"PRAGMA application_id = {_schema_checksum(connection)}")
    except BaseException:
        connection.close()
        raise
    return connection


def find_damage(path: Path) -> str | None:
    """The damage of a database as a predicate ("is damaged: ..."); None if it is intact."""
    try:
        with closing(connect_read_only(path)) as connection:
            (result,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            if result == "ok" and _is_schema_altered(connection):
                return "has altered tables"
            table = _altered_table(connection) if result == "ok" else None
            if table is not None:
                return f"is damaged: a row of {table} was altered"
    except (sqlite3.Error, UnicodeDecodeError) as error:
        return f"cannot be read: {' '.join(str(error).split())}"
    return None if result == "ok" else f"is damaged: {' '.join(str(result).split())}"


def _altered_table(connection: sqlite3.Connection) -> str | None:
    """The name of a table with a row that differs from its column `checksum`."""
    for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        columns = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]
        others = ", ".join(name for name in columns if name not in {"id", "checksum"})
        query = f"SELECT 1 FROM {table} WHERE checksum != checksum({others}) LIMIT 1"
        if "checksum" in columns and connection.execute(query).fetchone() is not None:
            return str(table)
    return None


def insertion(table: str, columns: str) -> str:
    """The INSERT of a row, by its columns, into a table that has a column `checksum` over them."""
    values = ", ".join(f"?{number}" for number in range(1, columns.count(",") + 2))
    return f"INSERT INTO {table} ({columns}, checksum) VALUES ({values}, checksum({values}))"


def digest_of(*parts: str) -> bytes:
    """16 bytes over strings; a length before each keeps ("a", "bc") from equalling ("ab", "c")."""
    contents = [part.encode("utf-8", "surrogatepass") for part in parts]
    framed = b"".join([len(content).to_bytes(8, "little") + content for content in contents])
    return hashlib.blake2b(framed, digest_size=16).digest()


def register_checksum(connection: sqlite3.Connection) -> None:
    """Defines the SQL function `checksum`, which every writer to a table with a checksum index needs."""
    connection.create_function("checksum", -1, _checksum, deterministic=True)


def _is_schema_altered(connection: sqlite3.Connection) -> bool:
    """Whether the schema differs from its stored checksum; False if none was stored."""
    stored = connection.execute("PRAGMA application_id").fetchone()[0]
    return stored not in (0, _schema_checksum(connection))


def _schema_checksum(connection: sqlite3.Connection) -> int:
    """A positive odd number of 31 bits over the SQL of all tables and indexes."""
    schema = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name").fetchall()
    return (xxhash.xxh3_64_intdigest(repr(schema).encode()) & 0x7FFFFFFE) | 1


def _checksum(*values: bytes | str | float | None) -> int:
    """64 signed bits over the values of a row; `repr` separates values and types."""
    return xxhash.xxh3_64_intdigest(repr(values).encode("utf-8", "surrogatepass")) - (1 << 63)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """A write transaction, exclusive among the workers. Raises sqlite3.Error."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")  # fails on a full disk
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def truncate_wal(connection: sqlite3.Connection) -> None:
    """Erase deleted data from the write-ahead log too; while another connection reads it, this does nothing."""
    with suppress(sqlite3.OperationalError):
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _use_wal(connection: sqlite3.Connection) -> None:
    for attempt in range(MAX_WAL_ATTEMPTS):
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
            return
        except sqlite3.OperationalError as error:
            # The busy time-out does not apply to a change of mode: two workers may start at the same moment.
            if "locked" not in str(error) or attempt == MAX_WAL_ATTEMPTS - 1:
                raise
            time.sleep(LOCKED_SECONDS / MAX_WAL_ATTEMPTS)
