"""Collections of older formats become new ones when they are next written, and old ones again by `downgrade`.

    python -m aidre_postgres.migrations URI COLLECTION        for a release that knows format 1 alone

Each is one transaction: a server or a process that dies in the middle leaves the collection as it was. Readers of this
release read both formats.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from psycopg import sql

from aidre.engine.errors import CollectionMissing
from aidre_postgres.catalog import read_state, writer_lock
from aidre_postgres.columns import with_new_columns
from aidre_postgres.connections import Connection, Server
from aidre_postgres.sql_filters import Conditions
from aidre_postgres.tables import CHUNK_COLUMNS, DOCUMENT_COLUMNS, FORMAT, Tables, copy_documents, unpack_vector
from aidre_rows import ChunkRow, CollectionState, DocumentRow, FieldRow, PendingDocument, PendingVector, Rows

_BLOCK: Final = 1_000
"""Documents that are read at once; those of the first block decide which fields get columns."""


def upgrade(connection: Connection, tables: Tables, state: CollectionState) -> tuple[int, CollectionState]:
    """Write a collection of format 1 anew, with words and columns; the number of its new tables and its state, which is
    a new generation: readers of the one before have lost their tables. Graphs are built when the run ends, as after a
    first ingest."""
    made = state.succeeded_by(format=FORMAT, columns=(), terms=0, languages={}, documents=0)
    with connection.transaction():
        number = _renumber(connection, tables)
        anew = Tables(tables.server, number)
        anew.make(connection, made)
        for block in _blocks(connection, tables, state):
            if not made.columns:
                made = replace(made, columns=with_new_columns(made, [one.rows.fields for one in block]))
                anew.add_columns(connection, made, made.columns)
            made = copy_documents(connection, anew, made, block)
        made = replace(made, documents=state.documents)
        _publish(connection, anew, made)
        tables.drop(connection, state)
    return number, made


def index_fields(connection: Connection, tables: Tables, state: CollectionState) -> CollectionState:
    """Give the vectors of a collection of an earlier release the indexes of fields; its state, which is a new
    generation where there was something to do. The format stays: that release reads and writes it as before."""
    if all(one.is_indexed for one in state.columns):
        return state
    made = state.succeeded_by(columns=tuple(replace(one, is_indexed=True) for one in state.columns))
    with connection.transaction():
        tables.index_fields(connection, state, state.columns)
        _publish(connection, tables, made)
    return made


def downgrade(uri: str, collection: str) -> None:
    """Make a collection one of format 1, which loses its words: it is searched by vectors alone. CollectionMissing."""
    server = Server(uri)
    with writer_lock(server, collection, 0.0) as connection, server.faults():
        number, state = read_state(connection, server, collection)
        if number is None or state is None:
            raise CollectionMissing(f"there is no collection {collection!r} in this store", collection=collection)
        if state.format < FORMAT:
            return
        tables = Tables(server, number)
        with connection.transaction():
            _columns_to_rows(connection, tables, state)
            connection.execute(sql.SQL("drop table {}, {}").format(tables.words, tables.terms))
            old = state.succeeded_by(format=1, columns=(), terms=0, languages={})
            _publish(connection, tables, old)


def _columns_to_rows(connection: Connection, tables: Tables, state: CollectionState) -> None:
    for columns in state.columns:
        conditions = Conditions(tables, {columns.name: replace(columns, is_whole=True)})
        statement = sql.SQL("insert into {} (document, name, kind, s, i, r) select document, {}, kind, s, i, r from {}")
        name = sql.SQL("{}::uuid").format(sql.Literal(columns.name))
        connection.execute(statement.format(tables.fields, name, conditions.column_values(columns)))
    dropped = [
        name for one in state.columns for name in (*(f"f{one.number}_{kind}" for kind in one.kinds), f"r{one.number}")
    ]
    parts = sql.SQL(", ").join(sql.SQL("drop column {}").format(sql.Identifier(name)) for name in dropped)
    for table in (tables.documents, *(tables.vectors(stored.table) for stored in state.spaces)) if dropped else ():
        connection.execute(sql.SQL("alter table {} {}").format(table, parts))


def _renumber(connection: Connection, tables: Tables) -> int:
    """Give a collection the next number, and so the names of new tables."""
    statement = sql.SQL("update {} set number = default where number = %s returning number")
    [(number,)] = connection.execute(statement.format(tables.server.name("collections")), (tables.number,)).fetchall()
    return int(number)


def _publish(connection: Connection, tables: Tables, state: CollectionState) -> None:
    statement = sql.SQL(
        "update {} set format = %s, generation = %s, updated_at = %s, token = %s, state = %s where number = %s"
    )
    values = [state.format, state.generation, state.updated_at, state.token, state.encode(), tables.number]
    connection.execute(statement.format(tables.server.name("collections")), values)


def _blocks(connection: Connection, tables: Tables, state: CollectionState) -> Iterator[list[PendingDocument]]:
    """The documents of a collection of format 1, in order."""
    last = 0
    while found := _rows(
        connection,
        sql.SQL("select document, {} from {} where document > %s order by document limit {}").format(
            sql.SQL(", ").join(map(sql.Identifier, DOCUMENT_COLUMNS)), tables.documents, sql.Literal(_BLOCK)
        ),
        last,
    ):
        numbers = [row[0] for row in found]
        last = numbers[-1]
        chunks = _grouped(connection, tables.chunks, CHUNK_COLUMNS, "chunk", numbers)
        fields = _grouped(connection, tables.fields, ("name", "kind", "s", "i", "r"), "document", numbers)
        vectors = {
            stored: _grouped(connection, tables.vectors(stored.table), ("vector", "norm", "key"), "chunk", numbers)
            for stored in state.spaces
        }
        yield [
            PendingDocument(
                Rows(
                    DocumentRow(*document),
                    [ChunkRow(*row) for row in chunks[number]],
                    [FieldRow(name.bytes, _text(kind), s, i, r) for name, kind, s, i, r in fields.get(number, ())],
                ),
                {
                    stored.space.id: [
                        PendingVector(unpack_vector(stored.space, packed), norm, None if key is None else key.bytes)
                        for packed, norm, key in of_space[number]
                    ]
                    for stored, of_space in vectors.items()
                },
            )
            for number, *document in found
        ]


def _grouped(
    connection: Connection, table: sql.Identifier, columns: Sequence[str], order: str, numbers: Sequence[int]
) -> Mapping[int, list[Any]]:
    """Rows of some documents, by the numbers of these."""
    statement = sql.SQL("select document, {} from {} where document = any (%s) order by {}").format(
        sql.SQL(", ").join(map(sql.Identifier, columns)), table, sql.Identifier(order)
    )
    found: dict[int, list[Any]] = {}
    for number, *row in _rows(connection, statement, list(numbers)):
        found.setdefault(number, []).append(row)
    return found


def _rows(connection: Connection, statement: sql.Composable, parameter: Any) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = connection.cursor(binary=True).execute(statement, (parameter,)).fetchall()
    return rows


def _text(kind: Any) -> str:
    return kind.decode() if isinstance(kind, bytes) else str(kind)


if __name__ == "__main__":
    downgrade(*sys.argv[1:3])
