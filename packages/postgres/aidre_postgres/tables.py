"""The tables of a collection in PostgreSQL, and how rows are appended to them.

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
from dataclasses import replace
from typing import Any, Final, LiteralString, NamedTuple

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from aidre.engine.errors import InvalidInput
from aidre.engine.index.vectors import dtype_of
from aidre.engine.model import EmbeddingSpace
from aidre.engine.storage import precision_of
from aidre_postgres.columns import definitions, place_values, types_of, value_columns, without_whole
from aidre_postgres.connections import Connection, PostgresDatabase
from aidre_rows import ChunkRow, CollectionState, DocumentRow, FieldColumns, PendingDocument, chunk_words, digest

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

# Columns with the types in which COPY takes their values; what is `bytea` here is in the binary form of its type.
DOCUMENT_COLUMNS: Final = {
    "id": "bytea", "url": "bytea", "title": "bytea", "type": "bytea", "updated_at": "text", "canonical": "bool",
    "metadata": "bytea", "schema_object": "bytea", "payload": "bytea", "source": "bytea", "origin": "bytea",
    "state": "bytea", "fingerprint": "bytea", "chunk_ids": "bytea", "digests": "bytea", "chunk_count": "int4",
}  # fmt: skip
CHUNK_COLUMNS: Final = {
    "id": "bytea", "text": "bytea", "start": "int8", "stop": "int8", "section": "bytea", "token_count": "int4",
}  # fmt: skip
FIELD_COLUMNS: Final = {"name": "bytea", "kind": "text", "s": "bytea", "i": "int8", "r": "float8"}
VECTOR_COLUMNS: Final = {"chunk": "int8", "document": "int8", "vector": "bytea", "norm": "float4", "key": "bytea"}
_WORD_COLUMNS: Final = {"chunk": "int8", "document": "int8", "length": "int4", "language": "text", "words": "bytea"}

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
_TABLES: Final = (
    """
create table {documents} (
    document bigint primary key, digest uuid not null unique, id bytea not null, url bytea, title bytea, type bytea,
    updated_at text not null, canonical bool not null, metadata bytea, schema_object bytea, payload bytea,
    source bytea not null, origin bytea not null, state bytea, fingerprint bytea not null, chunk_ids bytea not null,
    digests bytea not null, chunk_count int not null);
create table {chunks} (
    chunk bigint primary key, document bigint not null, digest uuid not null unique, id bytea not null,
    text bytea not null, start bigint not null, stop bigint not null, section bytea, token_count int);
create index on {chunks} (document);
create table {fields} (
    document bigint not null, name uuid not null, kind "char" not null, s bytea, i bigint, r double precision);
create index on {fields} (document, name);
create index on {fields} (name, substring(s, 1, {prefix})) where s is not null;
create index on {fields} (name, i) where i is not null;
create index on {fields} (name, r) where r is not null;
create index on {fields} (name) where kind = 'o';
"""
    + _WORDS
)
_VECTORS: Final = """
create table {vectors} (
    chunk bigint primary key, document bigint not null, vector {type}({dimensions}) not null, norm real not null,
    key uuid{columns});
alter table {vectors} alter column vector set storage {storage};
create index on {vectors} (document);
create index on {vectors} (key) where key is not null
"""
_MOST_COUNT: Final = 255
"""Of a term in a chunk: a `tsvector` has no more positions of one."""
_MOST_WORDS_BYTES: Final = 1_000_000
"""Of a `tsvector`, which has less than 1 MiB: of a chunk with more different terms, those are left out that are last in
the order of their texts."""


class PostgresTables:
    """The tables of a collection with a number."""

    KINDS: Final = ("documents", "chunks", "fields", "words", "terms")

    def __init__(self, server: PostgresDatabase, number: int) -> None:
        self.server, self.number = server, number
        self._names = {kind: self.name(kind) for kind in self.KINDS}

    def name(self, kind: str) -> sql.Identifier:
        return self.server.name(f"c{self.number}_{kind}")

    def vectors(self, table: int) -> sql.Identifier:
        return self.name(f"vectors_{table}")

    def fill(self, template: LiteralString, **parts: Any) -> sql.Composed:
        """A statement or a part of one: `{documents}` and so on are the tables, `parts` what else is in braces."""
        return sql.SQL(template).format(**self._names, **parts)

    def all(self, state: CollectionState) -> sql.Composed:
        kinds = self.KINDS if state.format >= FORMAT else self.KINDS[:3]
        return sql.SQL(", ").join([*map(self.name, kinds), *(self.vectors(stored.table) for stored in state.spaces)])

    def make(self, connection: Connection, state: CollectionState) -> None:
        index = sql.Identifier(f"c{self.number}_words_index")
        connection.execute(self.fill(_TABLES, prefix=PREFIX_BYTES, index=index))
        for stored in state.spaces:
            self.make_vectors(connection, stored.space, stored.table)

    def add_columns(self, connection: Connection, state: CollectionState, columns: Sequence[FieldColumns]) -> None:
        """Give rows of a collection the columns of some fields; documents and vectors are found by these."""
        added = sql.SQL(", ").join(sql.SQL("add column {}").format(definition) for definition in definitions(columns))
        vectors = [self.vectors(stored.table) for stored in state.spaces]
        for name in (self.name("documents"), self.name("words"), *vectors):
            connection.execute(sql.SQL("alter table {} {}").format(name, added))
        for column in value_columns(columns):
            connection.execute(self.fill("create index on {documents} ({column})", column=sql.Identifier(column)))
        self.index_fields(connection, state, columns)

    def index_fields(self, connection: Connection, state: CollectionState, columns: Sequence[FieldColumns]) -> None:
        """Let the rows of vectors be found by the columns of some fields; writers wait meanwhile, searches do not."""
        for stored in state.spaces:
            for column in value_columns(columns):
                made = self.fill(
                    "create index if not exists {index} on {vectors} ({column}) where {column} is not null",
                    index=sql.Identifier(f"c{self.number}_vectors_{stored.table}_{column}"),
                    vectors=self.vectors(stored.table),
                    column=sql.Identifier(column),
                )
                connection.execute(made)

    def make_vectors(
        self, connection: Connection, space: EmbeddingSpace, table: int, columns: Sequence[FieldColumns] = ()
    ) -> None:
        if space.dimensions > MOST_DIMENSIONS:
            raise InvalidInput(
                f"embedding space {space.id!r} has {space.dimensions} dimensions, pgvector stores {MOST_DIMENSIONS}: "
                "keep it in local segments"
            )
        is_inline = space.dimensions * dtype_of(space).itemsize <= _MOST_INLINE_BYTES
        made = self.fill(
            _VECTORS,
            vectors=self.vectors(table),
            type=sql.SQL(type_of(space)),
            dimensions=space.dimensions,
            storage=sql.SQL("plain" if is_inline else "external"),
            columns=sql.SQL("").join(sql.SQL(", {}").format(definition) for definition in definitions(columns)),
        )
        connection.execute(made)

    def make_index(self, connection: Connection, space: EmbeddingSpace, table: int) -> bool:
        """Build the graph of a space unless it exists; False where pgvector has none for so many dimensions."""
        if space.dimensions > _MOST_INDEXED[type_of(space)]:
            return False
        graph = self.name(f"vectors_{table}_graph").as_string(connection)
        if connection.execute("select to_regclass(%s) is null", (graph,)).fetchall() == [(False,)]:
            return True  # to make what exists needs rights that a writer does without
        made = self.fill(
            "create index if not exists {graph} on {vectors} using hnsw (vector {operators}) "
            "with (m = {neighbours}, ef_construction = {construction})",
            graph=sql.Identifier(f"c{self.number}_vectors_{table}_graph"),
            vectors=self.vectors(table),
            operators=sql.SQL(f"{type_of(space)}_{'l2' if space.distance == 'euclidean' else 'ip'}_ops"),
            neighbours=_NEIGHBOURS,
            construction=_CONSTRUCTION,
        )
        connection.execute(made)
        return True

    def counted_chunks(self, connection: Connection) -> int:
        """The chunks of which PostgreSQL knows, which its plans depend on; -1 where it never counted."""
        statement = "select reltuples::int8 from pg_class where oid = to_regclass(%s)"
        [(found,)] = connection.execute(statement, (self.name("chunks").as_string(connection),)).fetchall()
        return int(found)

    def sizes(self, state: CollectionState) -> tuple[dict[int, Mapping[str, int]], int]:
        """The bytes of each space by its table, and those of documents and chunks."""
        statement = (
            "select kind, coalesce(pg_total_relation_size(to_regclass(name)), 0) "
            "from unnest(%s::text[], %s::text[]) tables (kind, name)"
        )
        vectors = [f"vectors_{stored.table}{part}" for stored in state.spaces for part in ("", "_graph")]
        kinds = [*self.KINDS, *vectors]
        parameters = kinds, [self.name(kind).as_string() for kind in kinds]
        found = dict(self.server.read(lambda connection: connection.execute(statement, parameters).fetchall()))
        spaces: dict[int, Mapping[str, int]] = {}
        for stored in state.spaces:
            whole, graph = found[f"vectors_{stored.table}"], found[f"vectors_{stored.table}_graph"]
            spaces[stored.table] = {"vectors": whole - graph, "index": graph, "keys": 0}
        return spaces, sum(found[kind] for kind in self.KINDS)

    def drop(self, connection: Connection, state: CollectionState) -> None:
        connection.execute(sql.SQL("drop table if exists {}").format(self.all(state)))


# -- values ------------------------------------------------------------------------------------------------------


def type_of(space: EmbeddingSpace) -> str:
    return "halfvec" if precision_of(space) == "float16" else "vector"


def to_uuid(name: bytes) -> uuid.UUID:
    """The digest of a name, as parameters have it."""
    return uuid.UUID(bytes=digest(name))


def pack_vector(codes: NDArray[Any]) -> bytes:
    return struct.pack(">hh", len(codes), 0) + codes.astype(codes.dtype.newbyteorder(">")).tobytes()


def unpack_vector(space: EmbeddingSpace, packed: bytes) -> NDArray[Any]:
    stored = dtype_of(space)
    return np.frombuffer(packed, stored.newbyteorder(">"), offset=4).astype(stored)


def lexeme(term: str) -> str:
    """A term as PostgreSQL has it, in whatever encoding the database is."""
    return term if term.isascii() else "=" + urlsafe_b64encode(term.encode()).decode()


def _stored_terms(terms: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """The terms with their counts that a `tsvector` holds, as it has them."""
    stored, size = [], 0
    for name, count in sorted((lexeme(term), min(count, _MOST_COUNT)) for term, count in terms):
        size += len(name) + 2 * count + 11
        if size > _MOST_WORDS_BYTES:
            break
        stored.append((name, count))
    return stored


def _pack_terms(terms: Sequence[tuple[str, int]]) -> bytes:
    packed = [
        name.encode() + b"\0" + struct.pack(f">{count + 1}H", count, *range(1, count + 1)) for name, count in terms
    ]
    return len(packed).to_bytes(4, "big") + b"".join(packed)


# -- COPY --------------------------------------------------------------------------------------------------------


class NumberedChunk(NamedTuple):
    """A chunk with its number, that of its document, and the values of the columns of fields."""

    number: int
    document_number: int
    document: DocumentRow
    chunk: ChunkRow
    columns: Sequence[Any]


def copy_rows(
    connection: Connection, table: sql.Composable, columns: Mapping[str, str], rows: Iterable[Sequence[Any]]
) -> None:
    """Append rows with these columns; `columns` says the types of their values."""
    statement = sql.SQL("copy {} ({}) from stdin (format binary)").format(table, sql.SQL(", ".join(columns)))
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.set_types(list(columns.values()))
        for row in rows:
            copy.write_row(row)


def copy_documents(
    connection: Connection, tables: PostgresTables, state: CollectionState, documents: Sequence[PendingDocument]
) -> CollectionState:
    """Append documents with their chunks, fields, words and vectors; returns the state with the next free number, the
    words, and the resulting columns."""
    numbers, own = range(state.next_row, state.next_row + len(documents)), types_of(state.columns)
    homes = [place_values(document.rows.fields, state.columns) for document in documents]
    placed = list(zip(numbers, documents, homes, strict=True))
    pairs = [(number, document, home, chunk) for number, document, home in placed for chunk in document.rows.chunks]
    chunks = [
        NumberedChunk(place, number, document.rows.document, chunk, home.columns)
        for place, (number, document, home, chunk) in enumerate(pairs, numbers.stop)
    ]
    rows: Iterable[Sequence[Any]] = (
        (number, digest(document.rows.document.id), *document.rows.document, *home.columns)
        for number, document, home in placed
    )
    columns = {"document": "int8", "digest": "bytea", **DOCUMENT_COLUMNS, **own}
    copy_rows(connection, tables.name("documents"), columns, rows)
    rows = ((chunk.number, chunk.document_number, digest(chunk.chunk.id), *chunk.chunk) for chunk in chunks)
    columns = {"chunk": "int8", "document": "int8", "digest": "bytea", **CHUNK_COLUMNS}
    copy_rows(connection, tables.name("chunks"), columns, rows)
    rows = ((number, *value) for number, _, home in placed for value in home.rows)
    copy_rows(connection, tables.name("fields"), {"document": "int8", **FIELD_COLUMNS}, rows)
    for stored in state.spaces:
        vectors = [vector for document in documents for vector in document.vectors[stored.space.id]]
        rows = (
            (chunk.number, chunk.document_number, pack_vector(vector.codes), vector.norm, vector.key, *chunk.columns)
            for chunk, vector in zip(chunks, vectors, strict=True)
        )
        copy_rows(connection, tables.vectors(stored.table), {**VECTOR_COLUMNS, **own}, rows)
    rest = set[int]().union(*(home.rest for home in homes))
    state = replace(state, next_row=numbers.stop + len(chunks), columns=without_whole(state.columns, rest))
    return copy_words(connection, tables, state, chunks)


def copy_words(
    connection: Connection, tables: PostgresTables, state: CollectionState, chunks: Sequence[NumberedChunk]
) -> CollectionState:
    """Append the words of chunks; returns the state with these counted."""
    frequencies, languages, length = Counter[str](), Counter(state.languages), state.terms

    def rows() -> Iterator[Sequence[Any]]:
        nonlocal length
        analysed = chunk_words((chunk.document, chunk.chunk) for chunk in chunks)
        for chunk, words in zip(chunks, analysed, strict=True):
            terms = _stored_terms(words.terms)
            frequencies.update(term for term, _ in terms)
            languages[words.language] += 1
            length += words.length
            stored = _pack_terms(terms)
            yield chunk.number, chunk.document_number, words.length, words.language, stored, *chunk.columns

    copy_rows(connection, tables.name("words"), {**_WORD_COLUMNS, **types_of(state.columns)}, rows())
    statement = tables.fill(
        "insert into {terms} as old select * from unnest(%s::text[], %s::int[]) "
        "on conflict (term) do update set chunks = old.chunks + excluded.chunks"
    )
    names = sorted(frequencies)
    connection.execute(statement, (names, [frequencies[name] for name in names]))
    return replace(state, languages=dict(languages), terms=length)
