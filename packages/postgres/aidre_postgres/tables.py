"""The tables of a collection in PostgreSQL, and rows in the binary form in which COPY takes them.

    collections           one row a collection: number, name, format, lineage, generation, state as JSON
    cN_documents          one row a document; `chunk_ids` and `digests` list its chunks
    cN_chunks             one row a chunk
    cN_fields             one row a value of a field of a document, for filters, where the field has no columns
    cN_vectors_M          the vectors of the space with table M: `halfvec` or `vector`, as its precision says
    cN_words              the terms of each chunk as a `tsvector`, whose positions count them, its length and language
    cN_terms              for each term the number of chunks that have it

Strings are UTF-8 in `bytea`; `convert_from(text, 'UTF8')` shows them. Documents, vectors and words have the columns of
fields (`columns`).
"""

from __future__ import annotations

import struct
import uuid
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import tee
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from aidre.engine.errors import InvalidInput
from aidre.engine.model import EmbeddingSpace
from aidre.engine.storage import precision_of
from aidre_postgres.columns import Placed, definitions, names_of, place_values, without_whole
from aidre_postgres.connections import Connection, Server
from aidre_rows import (
    ChunkRow,
    ChunkWords,
    CollectionState,
    DocumentRow,
    FieldColumns,
    FieldRow,
    PendingDocument,
    PendingVector,
    chunk_words,
    digest,
)

FORMAT: Final = 2
"""Of the tables: 1 had no words, and no columns of fields."""
PREFIX_BYTES: Final = 64
"""Of a string that the index of values holds: an entry of an index has at most 2,704 bytes."""
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
    key uuid{columns});
alter table {vectors} alter column vector set storage {storage};
create index on {vectors} (document);
create index on {vectors} (key) where key is not null
"""

# Terms that are read from another place than the row would take as long as all the rest of a search.
_WORDS: Final = """
create table {words} (
    chunk bigint primary key, document bigint not null, length int not null, language text not null,
    words tsvector not null) with (toast_tuple_target = 8160);
alter table {words} alter column words set storage external;
create index on {words} (document);
create index {index} on {words} using gin (words);
create table {terms} (term text collate "C" primary key, chunks int not null)
"""
_MOST_COUNT: Final = 255
"""Of a term in a chunk: a `tsvector` has no more positions of one."""
_MOST_WORDS_BYTES: Final = 1_000_000
"""Of a `tsvector`, which has less than 1 MiB: of a chunk with more different terms, those are left out that are last in
the order of their texts."""


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

    @property
    def words(self) -> sql.Identifier:
        return self.server.name(f"c{self.number}_words")

    @property
    def terms(self) -> sql.Identifier:
        return self.server.name(f"c{self.number}_terms")

    def vectors(self, table: int) -> sql.Identifier:
        return self.server.name(f"c{self.number}_vectors_{table}")

    def index(self, table: int) -> sql.Identifier:
        return sql.Identifier(f"c{self.number}_vectors_{table}_graph")

    def make(self, connection: Connection, state: CollectionState) -> None:
        statement = sql.SQL(_DOCUMENTS + ";" + _CHUNKS + ";" + _FIELDS).format(
            documents=self.documents, chunks=self.chunks, fields=self.fields, prefix=sql.Literal(PREFIX_BYTES)
        )
        connection.execute(statement)
        self.make_words(connection)
        for stored in state.spaces:
            self.make_vectors(connection, stored.space, stored.table)

    def make_words(self, connection: Connection) -> None:
        index = sql.Identifier(f"c{self.number}_words_index")
        connection.execute(sql.SQL(_WORDS).format(words=self.words, terms=self.terms, index=index))

    def add_columns(self, connection: Connection, state: CollectionState, columns: Sequence[FieldColumns]) -> None:
        """Give rows of a collection the columns of some fields; documents and vectors are found by these."""
        added = sql.SQL(", ").join(sql.SQL("add column {}").format(one) for one in definitions(columns))
        for name in (self.documents, self.words, *(self.vectors(stored.table) for stored in state.spaces)):
            connection.execute(sql.SQL("alter table {} {}").format(name, added))
        for column in names_of(columns):
            if column.startswith("f"):
                made = sql.SQL("create index on {} ({})").format(self.documents, sql.Identifier(column))
                connection.execute(made)
        self.index_fields(connection, state, columns)

    def index_fields(self, connection: Connection, state: CollectionState, columns: Sequence[FieldColumns]) -> None:
        """Let the rows of vectors be found by the columns of some fields; writers wait meanwhile, searches do not."""
        statement = sql.SQL("create index if not exists {} on {} ({column}) where {column} is not null")
        for stored in state.spaces:
            for column in names_of(columns):
                if column.startswith("f"):
                    index = sql.Identifier(f"c{self.number}_vectors_{stored.table}_{column}")
                    vectors = self.vectors(stored.table)
                    connection.execute(statement.format(index, vectors, column=sql.Identifier(column)))

    def make_vectors(
        self, connection: Connection, space: EmbeddingSpace, table: int, columns: Sequence[FieldColumns] = ()
    ) -> None:
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
            columns=sql.SQL("").join(sql.SQL(", {}").format(one) for one in definitions(columns)),
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
        names = [f"{stem}_{kind}" for kind in ("documents", "chunks", "fields", "words", "terms")]
        for stored in state.spaces:
            names += [f"{stem}_vectors_{stored.table}", f"{stem}_vectors_{stored.table}_graph"]
        asked = {"schema": server.schema, "names": names}
        found = dict(server.read(lambda connection: connection.execute(statement, asked).fetchall()))
        spaces: dict[int, Mapping[str, int]] = {}
        for stored in state.spaces:
            whole, graph = found[f"{stem}_vectors_{stored.table}"], found[f"{stem}_vectors_{stored.table}_graph"]
            spaces[stored.table] = {"vectors": whole - graph, "index": graph, "keys": 0}
        return spaces, sum(found[name] for name in names[:5])

    def all(self, state: CollectionState) -> list[sql.Identifier]:
        words = [self.words, self.terms] if state.format >= FORMAT else []
        vectors = [self.vectors(stored.table) for stored in state.spaces]
        return [self.documents, self.chunks, self.fields, *words, *vectors]

    def drop(self, connection: Connection, state: CollectionState) -> None:
        connection.execute(sql.SQL("drop table if exists {}").format(sql.SQL(", ").join(self.all(state))))


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


def document_values(number: int, row: DocumentRow, columns: Sequence[bytes | None] = ()) -> list[bytes | None]:
    """Number, digest and the columns of a document."""
    packed = row._replace(
        updated_at=row.updated_at.encode(),  # type: ignore[arg-type]
        canonical=b"\x01" if row.canonical else b"\x00",  # type: ignore[arg-type]
        chunk_count=_int(row.chunk_count),  # type: ignore[arg-type]
    )
    return [_long(number), digest(row.id), *packed, *columns]  # type: ignore[list-item]


def chunk_values(number: int, document: int, row: ChunkRow) -> list[bytes | None]:
    own = [row.id, row.text, _long(row.start), _long(row.end), row.section, _int(row.token_count)]
    return [_long(number), _long(document), digest(row.id), *own]


def field_values(document: int, row: FieldRow) -> list[bytes | None]:
    real = None if row.real is None else struct.pack(">d", row.real)
    return [_long(document), row.name, row.code.encode(), row.text, _long(row.integer), real]


def vector_values(chunk: int, document: int, vector: PendingVector) -> list[bytes | None]:
    return [_long(chunk), _long(document), pack_vector(vector.codes), struct.pack(">f", vector.norm), vector.key]


def word_values(chunk: int, document: int, words: ChunkWords) -> list[bytes | None]:
    """Of words with `_stored_terms`."""
    return [_long(chunk), _long(document), _int(words.length), words.language.encode(), _pack_terms(words.terms)]


def _stored_terms(terms: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """The terms with their counts that a `tsvector` holds, as it has them."""
    kept, size = [], 0
    for name, count in sorted((lexeme(term), min(count, _MOST_COUNT)) for term, count in terms):
        size += len(name) + 2 * count + 11
        if size > _MOST_WORDS_BYTES:
            break
        kept.append((name, count))
    return kept


def _pack_terms(terms: Sequence[tuple[str, int]]) -> bytes:
    packed = [
        name.encode() + b"\0" + struct.pack(f">{count + 1}H", count, *range(1, count + 1)) for name, count in terms
    ]
    return len(packed).to_bytes(4, "big") + b"".join(packed)


def lexeme(term: str) -> str:
    """A term as PostgreSQL has it, in whatever encoding the database is."""
    return term if term.isascii() else "=" + urlsafe_b64encode(term.encode()).decode()


def copy_documents(
    connection: Connection, tables: Tables, state: CollectionState, documents: Sequence[PendingDocument]
) -> CollectionState:
    """Append documents with their chunks, fields, words and vectors; returns the state with the next free number, the
    words, and what became of the columns."""
    first_chunk: list[int] = []
    free = state.next_row
    numbers = range(free, free + len(documents))
    free += len(documents)
    for one in documents:
        first_chunk.append(free)
        free += len(one.rows.chunks)
    homes = [place_values(one.rows.fields, state.columns) for one in documents]
    placed = list(zip(numbers, first_chunk, documents, homes, strict=True))
    own = names_of(state.columns)
    rows: Iterator[list[bytes | None]] = (
        document_values(number, one.rows.document, home.columns) for number, _, one, home in placed
    )
    copy_rows(connection, tables.documents, ("document", "digest", *DOCUMENT_COLUMNS, *own), rows)
    rows = (
        chunk_values(first + place, number, chunk)
        for number, first, one, _ in placed
        for place, chunk in enumerate(one.rows.chunks)
    )
    copy_rows(connection, tables.chunks, ("chunk", "document", "digest", *CHUNK_COLUMNS), rows)
    rows = (field_values(number, value) for number, _, _, home in placed for value in home.rows)
    copy_rows(connection, tables.fields, ("document", "name", "kind", "s", "i", "r"), rows)
    for stored in state.spaces:
        rows = (
            vector_values(first + place, number, vector) + home.columns
            for number, first, one, home in placed
            for place, vector in enumerate(one.vectors[stored.space.id])
        )
        copy_rows(connection, tables.vectors(stored.table), (*VECTOR_COLUMNS, *own), rows)
    state = replace(
        state, next_row=free, columns=without_whole(state.columns, set().union(*(home.rest for home in homes)))
    )
    return copy_words(connection, tables, state, _chunks_of(placed), own)


def _chunks_of(placed: Sequence[tuple[int, int, PendingDocument, Placed]]) -> Iterator[NumberedChunk]:
    for number, first, one, home in placed:
        for place, chunk in enumerate(one.rows.chunks):
            yield first + place, number, one.rows.document, chunk, home.columns


def copy_words(
    connection: Connection,
    tables: Tables,
    state: CollectionState,
    chunks: Iterable[NumberedChunk],
    columns: Sequence[str],
) -> CollectionState:
    """Append the words of chunks; returns the state with these counted. `columns` names those of fields."""
    frequencies, languages, length = Counter[str](), Counter(state.languages), state.terms
    numbered, analysed = tee(chunks)

    def rows() -> Iterator[list[bytes | None]]:
        nonlocal length
        for (chunk, number, _, _, own), words in zip(
            numbered, chunk_words((one[2], one[3]) for one in analysed), strict=True
        ):
            terms = _stored_terms(words.terms)
            frequencies.update(term for term, _ in terms)
            languages[words.language] += 1
            length += words.length
            yield word_values(chunk, number, words._replace(terms=terms)) + list(own)

    copy_rows(connection, tables.words, (*WORD_COLUMNS, *columns), rows())
    statement = sql.SQL(
        "insert into {} as old select * from unnest(%s::text[], %s::int[]) "
        "on conflict (term) do update set chunks = old.chunks + excluded.chunks"
    )
    names = sorted(frequencies)
    connection.execute(statement.format(tables.terms), (names, [frequencies[name] for name in names]))
    return replace(state, languages=dict(languages), terms=length)


NumberedChunk: TypeAlias = tuple[int, int, DocumentRow, ChunkRow, Sequence[bytes | None]]
"""A chunk with its number and that of its document before it, and the values of the columns of fields after it."""
VECTOR_COLUMNS: Final = ("chunk", "document", "vector", "norm", "key")
WORD_COLUMNS: Final = ("chunk", "document", "length", "language", "words")
