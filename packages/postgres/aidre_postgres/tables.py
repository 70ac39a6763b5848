"""The tables of a collection in PostgreSQL, and rows in the binary form in which COPY takes them.

    collections           one row a collection: number, name, format, lineage, generation, state as JSON
    cN_documents          one row a document; `chunk_ids` and `digests` list its chunks
    cN_chunks             one row a chunk
    cN_fields             one row a value of a field of a document, for filters
    cN_vectors_M          the vectors of the space with table M: `halfvec` or `vector`, as its precision says

Strings are UTF-8 in `bytea`; `convert_from(text, 'UTF8')` shows them.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from aidre.engine.errors import InvalidInput
from aidre.engine.model import EmbeddingSpace
from aidre.engine.storage import precision_of
from aidre_postgres.connections import Connection, Server
from aidre_postgres.sql_filters import PREFIX_BYTES
from aidre_rows import ChunkRow, CollectionState, DocumentRow, FieldRow, PendingDocument, PendingVector, digest

MOST_DIMENSIONS: Final = 16_000
"""Of the types of pgvector."""
_MOST_INDEXED: Final = {"halfvec": 4_000, "vector": 2_000}
"""Dimensions that its graph takes."""
_MOST_INLINE_BYTES: Final = 6_000
"""Of a vector that is kept in its row, where it is read at once; a row has at most 8,160."""
_NEIGHBOURS: Final = 16
_CONSTRUCTION: Final = 128
_HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER: Final = b"\xff\xff"
_BLOCK_BYTES: Final = 1 << 20

DOCUMENT_COLUMNS: Final = (
    "id", "url", "title", "type", "updated_at", "canonical", "metadata", "schema_object", "payload", "source", "origin",
    "state", "fingerprint", "chunk_ids", "digests", "chunk_count",
)  # fmt: skip
CHUNK_COLUMNS: Final = ("id", "text", "start", "stop", "section", "token_count")

_DOCUMENTS: Final = """
create table {documents} (
    document bigint primary key, digest uuid not null unique, id bytea not null, url bytea, title bytea, type bytea,
    updated_at text not null, canonical bool not null, metadata bytea, schema_object bytea, payload bytea,
    source bytea not null, origin bytea not null, state bytea, fingerprint bytea not null, chunk_ids bytea not null,
    digests bytea not null, chunk_count int not null)
"""
_CHUNKS: Final = """
create table {chunks} (
    chunk bigint primary key, document bigint not null, digest uuid not null unique, id bytea not null,
    text bytea not null, start bigint not null, stop bigint not null, section bytea, token_count int);
create index on {chunks} (document)
"""
_FIELDS: Final = """
create table {fields} (
    document bigint not null, name uuid not null, kind "char" not null, s bytea, i bigint, r double precision);
create index on {fields} (document, name);
create index on {fields} (name, substring(s, 1, {prefix})) where s is not null;
create index on {fields} (name, i) where i is not null;
create index on {fields} (name, r) where r is not null;
create index on {fields} (name) where kind = 'o'
"""
_VECTORS: Final = """
create table {vectors} (
    chunk bigint primary key, document bigint not null, vector {type}({dimensions}) not null, norm real not null,
    key uuid);
alter table {vectors} alter column vector set storage {storage};
create index on {vectors} (document);
create index on {vectors} (key) where key is not null
"""


@dataclass(frozen=True, slots=True)
class Tables:
    """The names of the tables of a collection with a number."""

    server: Server
    number: int

    @property
    def documents(self) -> sql.Identifier:
        return self.server.name(f"c{self.number}_documents")

    @property
    def chunks(self) -> sql.Identifier:
        return self.server.name(f"c{self.number}_chunks")

    @property
    def fields(self) -> sql.Identifier:
        return self.server.name(f"c{self.number}_fields")

    def vectors(self, table: int) -> sql.Identifier:
        return self.server.name(f"c{self.number}_vectors_{table}")

    def index(self, table: int) -> sql.Identifier:
        return sql.Identifier(f"c{self.number}_vectors_{table}_graph")

    def make(self, connection: Connection, state: CollectionState) -> None:
        statement = sql.SQL(_DOCUMENTS + ";" + _CHUNKS + ";" + _FIELDS).format(
            documents=self.documents, chunks=self.chunks, fields=self.fields, prefix=sql.Literal(PREFIX_BYTES)
        )
        connection.execute(statement)
        for stored in state.spaces:
            self.make_vectors(connection, stored.space, stored.table)

    def make_vectors(self, connection: Connection, space: EmbeddingSpace, table: int) -> None:
        if space.dimensions > MOST_DIMENSIONS:
            raise InvalidInput(
                f"embedding space {space.id!r} has {space.dimensions} dimensions, pgvector stores {MOST_DIMENSIONS}: "
                "keep it in local segments"
            )
        statement = sql.SQL(_VECTORS).format(
            vectors=self.vectors(table),
            type=sql.SQL(type_of(space)),
            dimensions=sql.Literal(space.dimensions),
            storage=sql.SQL("plain" if vector_bytes(space) <= _MOST_INLINE_BYTES else "external"),
        )
        connection.execute(statement)

    def has_index(self, connection: Connection, table: int) -> bool:
        name = f"c{self.number}_vectors_{table}_graph"
        statement = "select to_regclass(format('%%I.%%I', %s::text, %s::text)) is not null"
        [(found,)] = connection.execute(statement, (self.server.schema, name)).fetchall()
        return bool(found)

    def make_index(self, connection: Connection, space: EmbeddingSpace, table: int) -> bool:
        """Build the graph of a space unless it exists; False where pgvector has none for so many dimensions."""
        if space.dimensions > _MOST_INDEXED[type_of(space)]:
            return False
        operators = f"{type_of(space)}_{'l2' if space.distance == 'euclidean' else 'ip'}_ops"
        statement = sql.SQL(
            "create index if not exists {} on {} using hnsw (vector {}) with (m = {}, ef_construction = {})"
        )
        made = statement.format(self.index(table), self.vectors(table), sql.SQL(operators), _NEIGHBOURS, _CONSTRUCTION)
        connection.execute(made)
        return True

    def counted_chunks(self, connection: Connection) -> int:
        """The chunks of which PostgreSQL knows, which its plans depend on; -1 where it never counted."""
        statement = (
            "select reltuples::int8 from pg_class where oid = to_regclass(format('%%I.%%I', %s::text, %s::text))"
        )
        [(found,)] = connection.execute(statement, (self.server.schema, f"c{self.number}_chunks")).fetchall()
        return int(found)

    def sizes(self, server: Server, state: CollectionState) -> tuple[dict[int, Mapping[str, int]], int]:
        """The bytes of each space by its table, and those of documents and chunks."""
        statement = (
            "select name, coalesce(pg_total_relation_size(to_regclass(format('%%I.%%I', %(schema)s::text, name))), 0) "
            "from unnest(%(names)s::text[]) name"
        )
        stem = f"c{self.number}"
        names = [f"{stem}_documents", f"{stem}_chunks", f"{stem}_fields"]
        for stored in state.spaces:
            names += [f"{stem}_vectors_{stored.table}", f"{stem}_vectors_{stored.table}_graph"]
        asked = {"schema": server.schema, "names": names}
        found = dict(server.read(lambda connection: connection.execute(statement, asked).fetchall()))
        spaces: dict[int, Mapping[str, int]] = {}
        for stored in state.spaces:
            whole, graph = found[f"{stem}_vectors_{stored.table}"], found[f"{stem}_vectors_{stored.table}_graph"]
            spaces[stored.table] = {"vectors": whole - graph, "index": graph, "keys": 0}
        return spaces, sum(found[name] for name in names[:3])

    def drop(self, connection: Connection, state: CollectionState) -> None:
        names = [self.documents, self.chunks, self.fields, *(self.vectors(one.table) for one in state.spaces)]
        connection.execute(sql.SQL("drop table if exists {}").format(sql.SQL(", ").join(names)))


# -- vectors -----------------------------------------------------------------------------------------------------


def type_of(space: EmbeddingSpace) -> str:
    return "halfvec" if precision_of(space) == "float16" else "vector"


def vector_bytes(space: EmbeddingSpace) -> int:
    return space.dimensions * (2 if type_of(space) == "halfvec" else 4)


def to_uuid(name: bytes) -> uuid.UUID:
    """The digest of a name, as parameters have it."""
    return uuid.UUID(bytes=digest(name))


def pack_vector(codes: NDArray[Any]) -> bytes:
    return struct.pack(">hh", len(codes), 0) + codes.astype(codes.dtype.newbyteorder(">")).tobytes()


def unpack_vector(space: EmbeddingSpace, packed: bytes) -> NDArray[Any]:
    stored = np.dtype(np.float16 if precision_of(space) == "float16" else np.float32)
    return np.frombuffer(packed, stored.newbyteorder(">"), offset=4).astype(stored)


# -- COPY --------------------------------------------------------------------------------------------------------


def copy_rows(
    connection: Connection, table: sql.Composable, columns: Sequence[str], rows: Iterable[Sequence[bytes | None]]
) -> None:
    """Append rows, whose values are in the binary form of their types."""
    statement = sql.SQL("copy {} ({}) from stdin (format binary)").format(
        table, sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    start = struct.pack(">h", len(columns))
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        block = bytearray(_HEADER)
        for row in rows:
            block += start
            for value in row:
                block += b"\xff\xff\xff\xff" if value is None else len(value).to_bytes(4, "big") + value
            if len(block) >= _BLOCK_BYTES:
                copy.write(bytes(block))
                block = bytearray()
        copy.write(bytes(block + _TRAILER))


def _long(value: int | None) -> bytes | None:
    return None if value is None else value.to_bytes(8, "big", signed=True)


def _int(value: int | None) -> bytes | None:
    return None if value is None else value.to_bytes(4, "big", signed=True)


def document_values(number: int, row: DocumentRow) -> list[bytes | None]:
    """Number, digest and the columns of a document."""
    packed = row._replace(
        updated_at=row.updated_at.encode(),  # type: ignore[arg-type]
        canonical=b"\x01" if row.canonical else b"\x00",  # type: ignore[arg-type]
        chunk_count=_int(row.chunk_count),  # type: ignore[arg-type]
    )
    return [_long(number), digest(row.id), *packed]  # type: ignore[list-item]


def chunk_values(number: int, document: int, row: ChunkRow) -> list[bytes | None]:
    own = [row.id, row.text, _long(row.start), _long(row.end), row.section, _int(row.token_count)]
    return [_long(number), _long(document), digest(row.id), *own]


def field_values(document: int, row: FieldRow) -> list[bytes | None]:
    real = None if row.real is None else struct.pack(">d", row.real)
    return [_long(document), row.name, row.code.encode(), row.text, _long(row.integer), real]


def vector_values(chunk: int, document: int, vector: PendingVector) -> list[bytes | None]:
    return [_long(chunk), _long(document), pack_vector(vector.codes), struct.pack(">f", vector.norm), vector.key]


def copy_documents(
    connection: Connection, tables: Tables, state: CollectionState, documents: Sequence[PendingDocument]
) -> int:
    """Append documents with their chunks, fields and vectors; returns the first number that is free after them."""
    first_chunk: list[int] = []
    free = state.next_row
    numbers = range(free, free + len(documents))
    free += len(documents)
    for one in documents:
        first_chunk.append(free)
        free += len(one.rows.chunks)
    placed = list(zip(numbers, first_chunk, documents, strict=True))
    rows: Iterator[list[bytes | None]] = (document_values(number, one.rows.document) for number, _, one in placed)
    copy_rows(connection, tables.documents, ("document", "digest", *DOCUMENT_COLUMNS), rows)
    rows = (
        chunk_values(first + place, number, chunk)
        for number, first, one in placed
        for place, chunk in enumerate(one.rows.chunks)
    )
    copy_rows(connection, tables.chunks, ("chunk", "document", "digest", *CHUNK_COLUMNS), rows)
    rows = (field_values(number, value) for number, _, one in placed for value in one.rows.fields)
    copy_rows(connection, tables.fields, ("document", "name", "kind", "s", "i", "r"), rows)
    for stored in state.spaces:
        rows = (
            vector_values(first + place, number, vector)
            for number, first, one in placed
            for place, vector in enumerate(one.vectors[stored.space.id])
        )
        copy_rows(connection, tables.vectors(stored.table), VECTOR_COLUMNS, rows)
    return free


VECTOR_COLUMNS: Final = ("chunk", "document", "vector", "norm", "key")
