"""Searches in a collection in PostgreSQL with pgvector: a `Reader` (engine/ports.py).

It describes the collection as it was when it was opened, and searches the rows that are there now: PostgreSQL
keeps no older generations. Scores are computed here from the stored vectors, so they are those of local segments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from math import isqrt
from typing import Any, Final

import numpy as np
from psycopg import sql

from aidre.engine.errors import BackendUnavailable
from aidre.engine.index.fields import Filter, Kind, ValueRange, filter_digest
from aidre.engine.index.vectors import decode, encode_query
from aidre.engine.model import Query
from aidre.engine.storage import to_utf8
from aidre.engine.types import CollectionStatus, Hit, PlainChunk
from aidre_postgres.catalog import read_catalog
from aidre_postgres.connections import Connection
from aidre_postgres.search import PostgresSearch, matching_words
from aidre_postgres.sql_filters import Conditions
from aidre_postgres.tables import (
    CHUNK_COLUMNS,
    DOCUMENT_COLUMNS,
    FORMAT,
    Tables,
    lexeme,
    to_uuid,
    unpack_vector,
)
from aidre_rows import (
    DENSE,
    WITH_WORDS,
    ChunkRow,
    CollectionState,
    Counted,
    DocumentRow,
    QueryWords,
    RowsReader,
    StoredSpace,
    collection_status,
    plain_chunk,
)

_FEW_ROWS: Final = 2_000
"""A filter that lets no more pass is answered by comparing these: exactly, and sooner than through the graph."""
_FEW_SQUARED: Final = 1_000
"""Times the chunks: the square of what is few where indexes find the vectors. The graph looks at the more rows, the
smaller the share that passes."""

_MOST_KNOWN: Final = 256
"""Filters of which a reader remembers whether few rows pass."""

_SCAN_ROWS: Final = 500


class PostgresReader(RowsReader):
    """A `Reader` of a collection in PostgreSQL."""

    engine = "postgres"
    can = WITH_WORDS

    def __init__(self, tables: Tables, state: CollectionState) -> None:
        super().__init__(state)
        if state.format < FORMAT:
            self.can = DENSE
        self._server, self.tables = tables.server, tables
        self._field_columns = {one.name: one for one in state.columns}
        self._has_few: dict[bytes, bool] = {}
        names = [sql.SQL("d.document")]
        names += [sql.SQL("d.{}").format(sql.Identifier(name)) for name in DOCUMENT_COLUMNS]
        names += [sql.SQL("c.{}").format(sql.Identifier(name)) for name in CHUNK_COLUMNS]
        joins = sql.SQL("{} c join {} d on d.document = c.document").format(tables.chunks, tables.documents)
        for stored in state.spaces:
            alias = sql.Identifier(f"v{stored.table}")
            names += [sql.SQL("{0}.vector, {0}.norm").format(alias)]
            joins += sql.SQL(" join {} {} on {}.chunk = c.chunk").format(tables.vectors(stored.table), alias, alias)
        whole = sql.SQL("{} from {}").format(sql.SQL(", ").join([*names, sql.SQL("c.chunk")]), joins)
        self.columns_from = sql.SQL(whole.as_string())  # made text once, not in each search

    # -- search ------------------------------------------------------------------------------------------------

    def search(self, query: Query) -> list[Hit]:
        try:
            return super().search(query)
        except BackendUnavailable as error:
            if error.details["reason"] != "lost":
                raise
        return super().search(query)  # on a new connection: the idle one was lost

    @contextmanager
    def _searching(
        self, query: Query, stored: StoredSpace | None, words: QueryWords | None
    ) -> Iterator[PostgresSearch]:
        """All statements of a search see one state of the tables, but for those of the frequencies of words; one of
        vectors is a single statement."""
        if words is not None:  # on a connection that is given back before this search takes one
            _ = words.words, query.mode == "lexical" and words.code_weights
        vector = None if stored is None or query.vector is None else encode_query(stored.space, query.vector)
        filter_ = self._resolved(query.filter)
        is_one = words is None and not query.offset
        with self._server.borrowed() as connection, nullcontext() if is_one else connection.transaction():
            if query.offset:
                self._check_unchanged(connection)
            yield PostgresSearch(self, connection, filter_, vector, stored, words)

    def _check_unchanged(self, connection: Connection) -> None:
        """A later page does not fit to an earlier one where rows were written in between."""
        found = read_catalog(connection, self._server, sql.SQL("token"), self.collection.name)
        if found != [(self._state.token,)]:
            raise self._generation_missing()

    def lets_few_pass(self, connection: Connection, filter_: Filter) -> bool:
        key = filter_digest(filter_)
        known = self._has_few.get(key)
        if known is None:
            conditions, few = self.conditions(), _FEW_ROWS
            if conditions.finds_vectors(filter_):
                few = max(few, isqrt(_FEW_SQUARED * self.chunks))
            statement = sql.SQL(
                "select coalesce(sum(chunk_count), 0) from (select chunk_count from {} d where {} limit {}) few"
            ).format(self.tables.documents, conditions.of(filter_, "d"), sql.Literal(few + 1))
            [(found,)] = connection.execute(statement, conditions.parameters).fetchall()
            known = int(found) <= few
            if len(self._has_few) >= _MOST_KNOWN:
                self._has_few.clear()
            self._has_few[key] = known
        return known

    def _frequencies(self, terms: Sequence[str]) -> Mapping[str, int]:
        named = {lexeme(term): term for term in terms}
        statement = sql.SQL("select term, chunks from {} where term = any (%(terms)s) and chunks > 0")
        found = self._rows(statement.format(self.tables.terms), {"terms": list(named)})
        return {named[term]: chunks for term, chunks in found}

    def _languages_of(self, chunk_ids: Sequence[str]) -> Mapping[str, str]:
        keys = {to_uuid(to_utf8(one)): one for one in chunk_ids}
        statement = sql.SQL(
            "select c.digest, w.language from {} c join {} w on w.chunk = c.chunk where c.digest = any (%(keys)s)"
        ).format(self.tables.chunks, self.tables.words)
        return {keys[key]: tag for key, tag in self._rows(statement, {"keys": list(keys)})}

    # -- chunks and documents ----------------------------------------------------------------------------------

    def count(self, filter: Filter | None = None) -> int:
        return self.chunks if filter is None else self._counted(filter)[0]

    def count_documents(self, filter: Filter | None = None) -> int:
        return self.documents if filter is None else self._counted(filter)[1]

    def _counted(self, filter_: Filter) -> tuple[int, int]:
        """Chunks and documents that pass."""
        conditions, where = self._where(self._resolved(filter_))
        statement = sql.SQL("select coalesce(sum(chunk_count), 0)::int8, count(*) from {} d where {}")
        [(chunks, documents)] = self._rows(statement.format(self.tables.documents, where), conditions.parameters)
        return int(chunks), int(documents)

    def _counts(
        self, field: str, filter: Filter | None, words: QueryWords | None, ranges: Sequence[ValueRange]
    ) -> Counted:
        conditions, where = self._where(filter)
        if words is not None:
            where = sql.SQL("{} and d.document in {}").format(where, matching_words(conditions, words))
        within = [
            sql.SQL("count(distinct document) filter (where {})").format(conditions.within(one)) for one in ranges
        ]
        instants = sql.SQL("f.kind = 'd'" if not self._is_date(field) else "f.kind in ('s', 'd')")
        statement = sql.SQL(
            "with passing as (select d.document from {} d where {}), "
            "f as (select f.* from {} join passing p on p.document = f.document) "
            "select null, null::bytea, null::int8, null::float8, (select count(*) from passing), "
            "(select array[count(distinct document), min(i) filter (where {instants}), "
            "max(i) filter (where {instants}){within}] from f) union all "
            "select kind::text, s, case when kind <> 's' then i end, r, count(distinct document), null from f "
            "where kind <> 'o' group by 1, 2, 3, 4"
        ).format(
            self.tables.documents,
            where,
            conditions.values(field),
            instants=instants,
            within=sql.SQL("").join(sql.SQL(", {}").format(one) for one in within),
        )
        (*_, documents, (present, first, last, *counted)), *values = self._rows(statement, conditions.parameters)
        counts: dict[tuple[Kind, Any], int] = {}
        for kind, word, integer, real, number, _ in values:
            value: Any = integer
            if kind in "sf":
                value = real if word is None else word.decode("utf-8", "surrogatepass")
            counts[_KINDS[kind], bool(value) if kind == "b" else value] = number
        return Counted(counts, documents, documents - present, tuple(counted), (first, last))

    def scan(self, filter: Filter | None = None, *, start: int = 0) -> Iterator[PlainChunk]:
        """Of the rows at the time of the call."""
        conditions, where = self._where(self._resolved(filter))
        statement = sql.SQL("select {} where {} order by c.document, c.chunk offset {}")
        whole = statement.format(self.columns_from, where, sql.Literal(start))
        rows = self._streamed(whole, conditions.parameters)
        return map(self.chunk, rows)

    def get(self, chunk_id: str) -> PlainChunk | None:
        rows = self._found(sql.SQL("c.digest = %(key)s"), chunk_id)
        return next((self.chunk(row) for row in rows), None)

    def document(self, document_id: str) -> list[PlainChunk]:
        condition = sql.SQL("d.digest = %(key)s order by c.chunk")
        return [self.chunk(row) for row in self._found(condition, document_id)]

    def chunk_counts(self) -> Mapping[int, int]:
        statement = sql.SQL("select chunk_count, count(*) from {} group by 1").format(self.tables.documents)
        return {int(chunks): int(number) for chunks, number in self._rows(statement, {})}

    def status(self) -> CollectionStatus:
        sizes = self.tables.sizes(self._server, self._state)
        return collection_status(self._state, *sizes)

    def numbered(self) -> Iterator[tuple[int, PlainChunk]]:
        """All chunks with their numbers, for a writer that embeds them again."""
        statement = sql.SQL("select {} order by c.chunk").format(self.columns_from)
        return ((row[-1], self.chunk(row)) for row in self._streamed(statement, {}))

    # -- inside ------------------------------------------------------------------------------------------------

    def _where(self, filter_: Filter | None) -> tuple[Conditions, sql.Composable]:
        """The condition of a filter of `_resolved` on the document d."""
        conditions = self.conditions()
        return conditions, sql.SQL("true") if filter_ is None else conditions.of(filter_, "d")

    def conditions(self) -> Conditions:
        return Conditions(self.tables, self._field_columns)

    def _find_field(self, name: str) -> bool:
        conditions = self.conditions()
        # Each of the first three has an index over the names, as the last has in collections that this release made.
        kinds = ["s is not null", "i is not null", "r is not null", "kind = 'o'"]
        values = conditions.values(name)
        found = [sql.SQL("exists (select from {} where f.{})").format(values, sql.SQL(kind)) for kind in kinds]
        [(exists,)] = self._rows(sql.SQL("select {}").format(sql.SQL(" or ").join(found)), conditions.parameters)
        return bool(exists)

    def _rows(self, statement: sql.Composable, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        def rows(connection: Connection) -> list[tuple[Any, ...]]:
            found: list[tuple[Any, ...]] = connection.cursor(binary=True).execute(statement, parameters).fetchall()
            return found

        return self._server.read(rows)

    def _streamed(self, statement: sql.Composable, parameters: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
        """Rows that are fetched as they are asked for, of the state at the time of the call."""

        def rows() -> Iterator[tuple[Any, ...]]:
            with (
                self._server.borrowed() as connection,
                connection.transaction(),
                connection.cursor(name="rows", binary=True) as cursor,
            ):
                cursor.itersize = _SCAN_ROWS
                cursor.execute(statement, parameters)
                yield ()
                yield from cursor

        begun = rows()
        try:
            next(begun)
        except BackendUnavailable as error:
            if error.details["reason"] != "lost":
                raise
            begun = rows()
            next(begun)
        return begun

    def _found(self, condition: sql.Composable, name: str) -> list[tuple[Any, ...]]:
        statement = sql.SQL("select {} where {}").format(self.columns_from, condition)
        return self._rows(statement, {"key": to_uuid(to_utf8(name))})

    def vector_place(self, stored: StoredSpace) -> int:
        """Where a row of `columns_from` has the vector of a space."""
        return 1 + len(DOCUMENT_COLUMNS) + len(CHUNK_COLUMNS) + 2 * self._state.spaces.index(stored)

    def chunk(self, row: Sequence[Any]) -> PlainChunk:
        after = 1 + len(DOCUMENT_COLUMNS)
        document, chunk = DocumentRow(*row[1:after]), ChunkRow(*row[after : after + len(CHUNK_COLUMNS)])
        first = after + len(CHUNK_COLUMNS)
        vectors = {}
        for place, stored in enumerate(self._state.spaces):
            packed, norm = row[first + 2 * place], row[first + 2 * place + 1]
            codes = unpack_vector(stored.space, packed)[np.newaxis]
            vectors[stored.space.id] = decode(codes, np.array([norm], np.float32))[0]
        return plain_chunk(row[0], document, chunk, vectors)


_KINDS: Final[Mapping[str, Kind]] = {"s": "string", "i": "int", "f": "float", "b": "bool", "d": "date"}
