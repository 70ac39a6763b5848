"""The catalog of a store in PostgreSQL: the table of collections, and the lock of a collection's one writer."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, LiteralString

from psycopg import errors, sql

from aidre.engine.errors import StoreLocked
from aidre_postgres.connections import Connection, PostgresDatabase
from aidre_postgres.tables import FORMAT
from aidre_rows import CollectionState, decode_state, digest

_RETRY_SECONDS: Final = 0.05
"""Between two attempts of a writer that waits for another one."""

_COLLECTIONS: Final = """
create table if not exists {collections} (
    number int generated always as identity primary key, name text not null unique, format int not null,
    lineage text not null, generation bigint not null, updated_at text not null, token text not null,
    state bytea not null)
"""
_KEEP_COMMITS: Final = (
    "select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') = 'off'"
)


def make_catalog(connection: Connection, server: PostgresDatabase) -> None:
    """The extension, the schema and the table of collections, where they are missing: to make what exists needs rights
    that a writer does without."""
    name = server.name("collections").as_string(connection)
    if connection.execute("select to_regclass(%s) is not null", (name,)).fetchall() == [(True,)]:
        return
    with connection.transaction():
        # `if not exists` does not keep two of them apart.
        connection.execute("select pg_advisory_xact_lock(%s)", (_lock_key(server.schema, ""),))
        connection.execute("create extension if not exists vector")
        connection.execute(sql.SQL("create schema if not exists {}").format(sql.Identifier(server.schema)))
        connection.execute(sql.SQL(_COLLECTIONS).format(collections=server.name("collections")))
    server.set_up(connection)  # the extension is new


@contextmanager
def writer_lock(server: PostgresDatabase, collection: str, wait: float) -> Iterator[Connection]:
    """A connection that holds the lock of a collection until the end. StoreLocked names the holder; a holder is waited
    for up to `wait` seconds."""
    connection, deadline = server.connect(), time.monotonic() + wait
    try:
        with server.faults():
            connection.execute(_KEEP_COMMITS)
            key = _lock_key(server.schema, collection)
            while connection.execute("select pg_try_advisory_lock(%s::int8)", (key,)).fetchall() != [(True,)]:
                if time.monotonic() >= deadline:
                    raise _locked(connection, collection, key)
                time.sleep(_RETRY_SECONDS)
        yield connection
        with suppress(errors.Error):  # the server frees the lock of a session that is closed a moment later
            connection.execute("select pg_advisory_unlock(%s::int8)", (key,))
    finally:
        connection.close()


def _locked(connection: Connection, collection: str, key: int) -> StoreLocked:
    statement = (
        "select a.application_name from pg_locks l join pg_stat_activity a on a.pid = l.pid where l.locktype = "
        "'advisory' and l.granted and l.classid::int8 = %s and l.objid::int8 = %s and l.database = "
        "(select oid from pg_database where datname = current_database())"
    )
    found = connection.execute(statement, ((key >> 32) & 0xFFFFFFFF, key & 0xFFFFFFFF)).fetchall()
    words = str(found[0][0] or "").split(" ") if found else []
    pid, host = (int(words[1]), words[2]) if len(words) == 3 and words[1].isdigit() else (None, None)
    holder = "another process" if pid is None else f"process {pid} on {host}"
    message = f"collection {collection!r} is being written by {holder}: wait until it ends or stop it"
    return StoreLocked(message, collection=collection, pid=pid, host=host)


def read_catalog(
    connection: Connection, server: PostgresDatabase, columns: LiteralString, collection: str | None = None
) -> list[tuple[Any, ...]]:
    """Columns of one collection or of all, by name; none where nothing was ever written."""
    statement = sql.SQL('select {} from {} where %(name)s::text is null or name = %(name)s order by name collate "C"')
    made = statement.format(sql.SQL(columns), server.name("collections"))
    try:
        rows: list[tuple[Any, ...]] = connection.execute(made, {"name": collection}).fetchall()
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        return []
    return rows


def read_state(connection: Connection, server: PostgresDatabase, collection: str) -> tuple[int, CollectionState] | None:
    """The number and the newest state of a collection. FormatTooNew."""
    for number, encoded in read_catalog(connection, server, "number, state", collection):
        return number, decode_state(collection, encoded, FORMAT)
    return None


def publish(connection: Connection, server: PostgresDatabase, number: int, state: CollectionState) -> None:
    """Write the state of the next generation, last in a transaction."""
    statement = sql.SQL(
        "update {} set format = %s, lineage = %s, generation = %s, updated_at = %s, token = %s, state = %s "
        "where number = %s"
    ).format(server.name("collections"))
    values = [state.format, state.lineage, state.generation, state.updated_at, state.token, state.encode()]
    connection.execute(statement, [*values, number])


def _lock_key(schema: str, collection: str) -> int:
    """The number of the advisory lock of a collection's writer."""
    (key,) = struct.unpack(">q", digest(f"{schema}\0{collection}".encode())[:8])
    return int(key)
