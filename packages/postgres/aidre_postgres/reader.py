"""Searches in a collection in PostgreSQL with pgvector: a `Reader` (engine/ports.py).

It describes the collection as it was when it was opened, and searches the rows that are there now: PostgreSQL
keeps no older generations. Scores are computed here from the stored vectors, so they are those of local segments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from math import isqrt
from typing import Any, Final, LiteralString

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from aidre.engine.index.fields import Filter, Kind, ValueRange, filter_digest, stored_name
from aidre.engine.model import Query
from aidre.engine.segment import BoundedCache
from aidre.engine.storage import to_utf8
from aidre.engine.types import CollectionStatus, Facet, Hit, PlainChunk, facet_of, shown_value
from aidre_postgres.catalog import read_catalog
from aidre_postgres.connections import Connection, again_if_lost, fetch
from aidre_postgres.search import PostgresSearch, matching_words
from aidre_postgres.stored import ChunkRows
from aidre_postgres.tables import FORMAT, PostgresTables, lexeme, to_uuid
from aidre_rows import DENSE, WITH_WORDS, CollectionState, QueryWords, RowsReader, StoredSpace, collection_status

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

    def __init__(self, tables: PostgresTables, state: CollectionState) -> None:
        super().__init__(state)
        if state.format < FORMAT:
            self.can = DENSE
        self.tables, self.rows = tables, ChunkRows(tables, state)
        self._server = tables.server
        self._has_few = BoundedCache[bytes, bool](_MOST_KNOWN)

    # -- search ------------------------------------------------------------------------------------------------

    def search(self, query: Query) -> list[Hit]:
        search = super().search
        return again_if_lost(lambda: search(query))

    @contextmanager
    def _searching(
        self, query: Query, stored: StoredSpace | None, vector: NDArray[np.float32] | None, words: QueryWords | None
    ) -> Iterator[PostgresSearch]:
        """All statements of a search see one state of the tables, but for those of the frequencies of words; one of
        vectors is a single statement."""
        if words is not None:  # on a connection that is given back before this search takes one
            _ = words.words, query.mode == "lexical" and words.code_weights
        filter_ = self._resolved(query.filter)
        is_one = words is None and not query.offset
        with self._server.borrowed() as connection, nullcontext() if is_one else connection.transaction():
            if query.offset:  # a later page does not fit to an earlier one where rows were written in between
                found = read_catalog(connection, self._server, "token", self.collection.name)
                if found != [(self._state.token,)]:
                    raise self._generation_missing()
            few = vector is not None and filter_ is not None and self.lets_few_pass(connection, filter_)
            yield PostgresSearch(self.rows, connection, self.chunks, filter_, few, vector, stored, words)

    def lets_few_pass(self, connection: Connection, filter_: Filter) -> bool:
        key = filter_digest(filter_)
        known = self._has_few.get(key)
        if known is None:
            conditions, few = self.rows.conditions(), _FEW_ROWS
            if conditions.finds_vectors(filter_):
                few = max(few, isqrt(_FEW_SQUARED * self.chunks))
            statement = self.tables.fill(
                "select coalesce(sum(chunk_count), 0) from "
                "(select chunk_count from {documents} d where {passes} limit {few} + 1) few",
                passes=conditions.of(filter_, "d"),
                few=few,
            )
            [(found,)] = connection.execute(statement, conditions.parameters).fetchall()
            known = self._has_few.add(key, int(found) <= few)
        return known

    def _frequencies(self, terms: Sequence[str]) -> Mapping[str, int]:
        named = {lexeme(term): term for term in terms}
        statement = self.tables.fill("select term, chunks from {terms} where term = any (%(terms)s) and chunks > 0")
        return {named[term]: chunks for term, chunks in self._fetch(statement, {"terms": list(named)})}

    def _languages_of(self, chunk_ids: Sequence[str]) -> Mapping[str, str]:
        keys = {to_uuid(to_utf8(chunk_id)): chunk_id for chunk_id in chunk_ids}
        statement = self.tables.fill(
            "select c.digest, w.language from {chunks} c join {words} w on w.chunk = c.chunk "
            "where c.digest = any (%(keys)s)"
        )
        return {keys[key]: tag for key, tag in self._fetch(statement, {"keys": list(keys)})}

    # -- chunks and documents ----------------------------------------------------------------------------------

    def count(self, filter: Filter | None = None) -> int:
        return self.chunks if filter is None else self._counted(filter)[0]

    def count_documents(self, filter: Filter | None = None) -> int:
        return self.documents if filter is None else self._counted(filter)[1]

    def _counted(self, filter_: Filter) -> tuple[int, int]:
        """Chunks and documents that pass."""
        conditions = self.rows.conditions()
        statement = self.tables.fill(
            "select coalesce(sum(chunk_count), 0)::int8, count(*) from {documents} d where {passes}",
            passes=conditions.of_any(self._resolved(filter_), "d"),
        )
        [(chunks, documents)] = self._fetch(statement, conditions.parameters)
        return int(chunks), int(documents)

    def _facet(
        self,
        field: str,
        filter: Filter | None,
        words: QueryWords | None,
        limit: int | None,
        ranges: Sequence[ValueRange],
    ) -> Facet:
        conditions = self.rows.conditions()
        passes = conditions.of_any(filter, "d")
        if words is not None:
            passes = sql.SQL("{} and d.document in {}").format(passes, matching_words(conditions, words))
        is_date = field == "updated_at" or field in map(stored_name, self.dates)
        within = [
            sql.SQL(", count(distinct document) filter (where {})").format(conditions.within(bounds))
            for bounds in ranges
        ]
        statement = self.tables.fill(
            "with passing as (select d.document from {documents} d where {passes}), "
            "f as (select f.* from {values} join passing p on p.document = f.document) "
            "select null, null::bytea, null::int8, null::float8, (select count(*) from passing), "
            "(select array[count(distinct document), min(i) filter (where {instants}), "
            "max(i) filter (where {instants}){within}] from f) union all "
            "select kind::text, s, case when kind <> 's' then i end, r, count(distinct document), null from f "
            "where kind <> 'o' group by 1, 2, 3, 4",
            passes=passes,
            values=conditions.values(field),
            instants=sql.SQL("f.kind in ('s', 'd')" if is_date else "f.kind = 'd'"),
            within=sql.SQL("").join(within),
        )
        (*_, documents, (present, first, last, *counted)), *values = self._fetch(statement, conditions.parameters)
        counts: dict[tuple[Kind, Any], int] = {}
        for kind, word, integer, real, number, _ in values:
            value: Any = integer
            if kind in "sf":
                value = real if word is None else word.decode("utf-8", "surrogatepass")
            counts[_KINDS[kind], bool(value) if kind == "b" else value] = number
        facet = facet_of(counts, documents, documents - present)
        if facet.minimum is None and first is not None:
            facet = replace(facet, minimum=shown_value("date", first), maximum=shown_value("date", last))
        return replace(facet, counts=facet.counts[:limit], ranges=tuple(counted))

    def scan(self, filter: Filter | None = None, *, start: int = 0) -> Iterator[PlainChunk]:
        """Of the rows at the time of the call."""
        conditions = self.rows.conditions()
        rest = sql.SQL(" where {} order by c.document, c.chunk offset {}").format(
            conditions.of_any(self._resolved(filter), "d"), start
        )
        return map(self.rows.chunk, self._streamed(rest, conditions.parameters))

    def get(self, chunk_id: str) -> PlainChunk | None:
        return next(iter(self._named("c.digest = %(key)s", chunk_id)), None)

    def document(self, document_id: str) -> list[PlainChunk]:
        return self._named("d.digest = %(key)s order by c.chunk", document_id)

    def _named(self, condition: LiteralString, name: str) -> list[PlainChunk]:
        statement = self.rows.select + sql.SQL(" where ") + sql.SQL(condition)
        return [self.rows.chunk(row) for row in self._fetch(statement, {"key": to_uuid(to_utf8(name))})]

    def chunk_counts(self) -> Mapping[int, int]:
        statement = self.tables.fill("select chunk_count, count(*) from {documents} group by 1")
        return {int(chunks): int(number) for chunks, number in self._fetch(statement, {})}

    def status(self) -> CollectionStatus:
        return collection_status(self._state, *self.tables.sizes(self._state))

    def numbered(self) -> Iterator[tuple[int, PlainChunk]]:
        """All chunks with their numbers, for a writer that embeds them again."""
        return ((row[-1], self.rows.chunk(row)) for row in self._streamed(sql.SQL(" order by c.chunk"), {}))

    # -- inside ------------------------------------------------------------------------------------------------

    def _find_field(self, name: str) -> bool:
        conditions = self.rows.conditions()
        # Each of the first three has an index over the names, as the last has in collections that this release made.
        kinds = ("s is not null", "i is not null", "r is not null", "kind = 'o'")
        values = conditions.values(name)
        found = [sql.SQL("exists (select from {} where f.{})").format(values, sql.SQL(kind)) for kind in kinds]
        statement = sql.SQL("select {}").format(sql.SQL(" or ").join(found))
        [(exists,)] = self._fetch(statement, conditions.parameters)
        return bool(exists)

    def _fetch(self, statement: sql.Composable, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        return self._server.read(lambda connection: fetch(connection, statement, parameters))

    def _streamed(self, rest: sql.Composable, parameters: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
        """Whole rows that are fetched as they are asked for, of the state at the time of the call."""

        def rows() -> Iterator[tuple[Any, ...]]:
            with (
                self._server.borrowed() as connection,
                connection.transaction(),
                connection.cursor(name="rows", binary=True) as cursor,
            ):
                cursor.itersize = _SCAN_ROWS
                cursor.execute(self.rows.select + rest, parameters)
                yield ()
                yield from cursor

        def begun() -> Iterator[tuple[Any, ...]]:
            made = rows()
            next(made)
            return made

        return again_if_lost(begun)


_KINDS: Final[Mapping[str, Kind]] = {"s": "string", "i": "int", "f": "float", "b": "bool", "d": "date"}
