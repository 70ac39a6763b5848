"""Collections of older formats become new ones when they are next written, and old ones again by `downgrade`.

    python -m aidre_postgres.migrations URI COLLECTION        for a release that knows format 1 alone

Each is one transaction: a server or a process that dies in the middle leaves the collection as it was. Readers of this
release read both formats.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from psycopg import sql

from aidre_postgres.catalog import publish, read_state, writer_lock
from aidre_postgres.columns import types_of, with_new_columns
from aidre_postgres.connections import Connection, PostgresDatabase, fetch
from aidre_postgres.sql_filters import SqlConditions
from aidre_postgres.stored import PostgresRows
from aidre_postgres.tables import FIELD_COLUMNS, FORMAT, PostgresTables, copy_documents
from aidre_rows import CollectionState, FieldRow, PendingDocument, collection_missing

_BLOCK: Final = 1_000
"""Documents that are read at once; those of the first block decide which fields get columns."""


def migrated(
    connection: Connection, server: PostgresDatabase, number: int, state: CollectionState
) -> tuple[int, CollectionState]:
    """The number of the tables and the state of a collection that this release may write."""
    if state.format < FORMAT:
        return _upgraded(connection, PostgresTables(server, number), state)
    if not all(column.is_indexed for column in state.columns):
        state = _with_indexes(connection, PostgresTables(server, number), state)
    return number, state


def _upgraded(connection: Connection, tables: PostgresTables, state: CollectionState) -> tuple[int, CollectionState]:
    """Rewrite a collection of format 1, with words and columns, as a new generation: readers of the one before have
    lost their tables. Graphs are built when the run ends, as after a first ingest."""
    made = state.succeeded_by(format=FORMAT, columns=(), terms=0, languages={}, documents=0)
    with connection.transaction():
        statement = sql.SQL("update {} set number = default where number = %s returning number")
        renumber = statement.format(tables.server.name("collections"))
        [(number,)] = connection.execute(renumber, (tables.number,)).fetchall()
        rewritten = PostgresTables(tables.server, int(number))
        rewritten.make(connection, made)
        for block in _blocks(connection, tables, state):
            if not made.columns:
                made = replace(made, columns=with_new_columns(made, [document.rows.fields for document in block]))
                rewritten.add_columns(connection, made, made.columns)
            made = copy_documents(connection, rewritten, made, block)
        made = replace(made, documents=state.documents)
        publish(connection, tables.server, rewritten.number, made)
        tables.drop(connection, state)
    return rewritten.number, made


def _with_indexes(connection: Connection, tables: PostgresTables, state: CollectionState) -> CollectionState:
    """Give the vectors of a collection of an earlier release the indexes of fields, as a new generation. The format
    stays: that release reads and writes it as before."""
    made = state.succeeded_by(columns=tuple(replace(column, is_indexed=True) for column in state.columns))
    with connection.transaction():
        tables.index_fields(connection, state, state.columns)
        publish(connection, tables.server, tables.number, made)
    return made


def downgrade(uri: str, collection: str) -> None:
    """Make a collection one of format 1, which loses its words: it is searched by vectors alone. CollectionMissing."""
    server = PostgresDatabase(uri)
    with writer_lock(server, collection, 0.0) as connection, server.faults():
        found = read_state(connection, server, collection)
        if found is None:
            raise collection_missing(collection)
        number, state = found
        if state.format < FORMAT:
            return
        tables = PostgresTables(server, number)
        with connection.transaction():
            _columns_to_rows(connection, tables, state)
            connection.execute(tables.fill("drop table {words}, {terms}"))
            publish(connection, server, number, state.succeeded_by(format=1, columns=(), terms=0, languages={}))


def _columns_to_rows(connection: Connection, tables: PostgresTables, state: CollectionState) -> None:
    for columns in state.columns:
        conditions = SqlConditions(tables, {columns.name: replace(columns, is_whole=True)})
        statement = tables.fill(
            "insert into {fields} (document, name, kind, s, i, r) "
            "select document, {name}::uuid, kind, s, i, r from {values}",
            name=columns.name,
            values=conditions.column_values(columns),
        )
        connection.execute(statement)
    parts = sql.SQL(", ".join(f"drop column {name}" for name in types_of(state.columns)))
    changed = (tables.name("documents"), *(tables.vectors(stored.table) for stored in state.spaces))
    for table in changed if state.columns else ():
        connection.execute(sql.SQL("alter table {} {}").format(table, parts))


def _blocks(connection: Connection, tables: PostgresTables, state: CollectionState) -> Iterator[list[PendingDocument]]:
    """The documents of a collection of format 1, in order."""
    rows, last = PostgresRows(tables, state.spaces, partial(fetch, connection)), 0
    while found := rows.whole("document > %s order by document limit %s", last, _BLOCK):
        fields = rows.grouped(tables.name("fields"), FIELD_COLUMNS, "document", found)
        yield [
            document._replace(rows=document.rows._replace(fields=list(map(_field, fields.get(number, ())))))
            for number, document in found.items()
        ]
        last = max(found)


def _field(row: Sequence[Any]) -> FieldRow:
    name, kind, *values = row
    return FieldRow(name.bytes, kind.decode() if isinstance(kind, bytes) else str(kind), *values)


if __name__ == "__main__":
    downgrade(*sys.argv[1:3])
