"""Whole rows of chunks, with their documents and their vectors in all spaces, and the chunks that are made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import sql

from aidre.engine.types import PlainChunk
from aidre_postgres.sql_filters import SqlConditions
from aidre_postgres.tables import CHUNK_COLUMNS, DOCUMENT_COLUMNS, PostgresTables, unpack_vector
from aidre_rows import ChunkRow, CollectionState, DocumentRow, PendingVector, StoredSpace, plain_chunk

_CHUNK: slice = slice(1 + len(DOCUMENT_COLUMNS), 1 + len(DOCUMENT_COLUMNS) + len(CHUNK_COLUMNS))
"""Of a row: before it are the number and the columns of the document, after it vectors and the number of the chunk."""


class ChunkRows:
    """`select` is a statement that finds whole rows: of the chunk c, its document d and its vectors."""

    def __init__(self, tables: PostgresTables, state: CollectionState) -> None:
        self.tables, self._spaces = tables, state.spaces
        self._columns = {column.name: column for column in state.columns}
        names = ["d.document", *(f"d.{name}" for name in DOCUMENT_COLUMNS), *(f"c.{name}" for name in CHUNK_COLUMNS)]
        names += [f"v{stored.table}.{name}" for stored in state.spaces for name in ("vector", "norm")]
        joins = [
            sql.SQL(" join {vectors} {v} on {v}.chunk = c.chunk").format(
                vectors=tables.vectors(stored.table), v=sql.Identifier(f"v{stored.table}")
            )
            for stored in state.spaces
        ]
        made = tables.fill(
            "select {names}, c.chunk from {chunks} c join {documents} d on d.document = c.document{joins}",
            names=sql.SQL(", ".join(names)),
            joins=sql.SQL("").join(joins),
        )
        self.select = sql.SQL(made.as_string())  # made text once, not in each search

    def conditions(self) -> SqlConditions:
        return SqlConditions(self.tables, self._columns)

    def packed_vector(self, row: Sequence[Any], stored: StoredSpace) -> bytes:
        packed: bytes = row[_CHUNK.stop + 2 * self._spaces.index(stored)]
        return packed

    def chunk(self, row: Sequence[Any]) -> PlainChunk:
        values = iter(row[_CHUNK.stop : -1])
        vectors = {
            stored.space.id: PendingVector(unpack_vector(stored.space, next(values)), next(values), None)
            for stored in self._spaces
        }
        return plain_chunk(row[0], DocumentRow(*row[1 : _CHUNK.start]), ChunkRow(*row[_CHUNK]), vectors)
