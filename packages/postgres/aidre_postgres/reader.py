"""Searches in a collection in PostgreSQL with pgvector: a `Reader` (engine/ports.py).

It describes the collection as it was when it was opened, and searches the rows that are there now: PostgreSQL
keeps no older generations. Scores are computed here from the stored vectors, so they are those of local segments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from aidre.engine.errors import BackendUnavailable
from aidre.engine.index.fields import Filter, Kind, filter_digest
from aidre.engine.index.vectors import VectorColumn, decode, score_rows
from aidre.engine.model import Query
from aidre.engine.storage import to_utf8
from aidre.engine.types import CollectionStatus, Hit, PlainChunk
from aidre_postgres.catalog import read_catalog
from aidre_postgres.connections import EF_SEARCH, Connection
from aidre_postgres.sql_filters import Conditions
from aidre_postgres.tables import (
    CHUNK_COLUMNS,
    DOCUMENT_COLUMNS,
    Tables,
    to_uuid,
    type_of,
    unpack_vector,
)
from aidre_rows import ChunkRow, CollectionState, DenseReader, DocumentRow, StoredSpace, collection_status, plain_chunk

_SLACK: Final = 16
"""Rows fetched beyond those that are asked for: distances of pgvector are rounded otherwise."""

_LATE: Final = 64
"""Rows that the graph finds beyond those that are asked for: where a filter is far from the query, nearer ones come
later."""

_FEW_ROWS: Final = 5_000
"""A filter that lets no more pass is answered by comparing these: exactly, and sooner than through the graph."""

_MOST_EF: Final = 1_000
_MOST_FLOAT16: Final = 65_504.0
_MOST_KNOWN: Final = 256
"""Filters of which a reader remembers whether few rows pass."""

_SCAN_ROWS: Final = 500


class PostgresReader(DenseReader):
    """A `Reader` of a collection in PostgreSQL."""

    engine = "postgres"

    def __init__(self, tables: Tables, state: CollectionState) -> None:
        super().__init__(state)
        self._server, self._tables = tables.server, tables
        self._has_few: dict[bytes, bool] = {}
        names = [sql.SQL("d.document")]
        names += [sql.SQL("d.{}").format(sql.Identifier(name)) for name in DOCUMENT_COLUMNS]
        names += [sql.SQL("c.{}").format(sql.Identifier(name)) for name in CHUNK_COLUMNS]
        joins = sql.SQL("{} c join {} d on d.document = c.document").format(tables.chunks, tables.documents)
        for stored in state.spaces:
            alias = sql.Identifier(f"v{stored.table}")
            names += [sql.SQL("{0}.vector, {0}.norm").format(alias)]
            joins += sql.SQL(" join {} {} on {}.chunk = c.chunk").format(tables.vectors(stored.table), alias, alias)
        self._columns, self._joins = sql.SQL(", ").join(names), joins

    # -- search ------------------------------------------------------------------------------------------------

    def search(self, query: Query) -> list[Hit]:
        stored, vector, k = self._asked(query)
        filter_ = self._resolved(query.filter)

        def best(connection: Connection) -> list[Hit]:
            if query.offset:
                self._check_unchanged(connection)
            is_exact = filter_ is not None and self._lets_few_pass(connection, filter_)
            hits = self._nearest(connection, stored, vector, k, filter_, is_exact=is_exact)
            if not is_exact and len(hits) < min(k, self.chunks):
                hits = self._nearest(connection, stored, vector, k, filter_, is_exact=True)
            return hits

        return self._server.read(best)[query.offset : k]

    def _check_unchanged(self, connection: Connection) -> None:
        """A later page does not fit to an earlier one where rows were written in between."""
        found = read_catalog(connection, self._server, sql.SQL("token"), self.collection.name)
        if found != [(self._state.token,)]:
            raise self._generation_missing()

    def _nearest(
        self,
        connection: Connection,
        stored: StoredSpace,
        vector: NDArray[np.float32],
        k: int,
        filter_: Filter | None,
        *,
        is_exact: bool,
    ) -> list[Hit]:
        """The best k hits, by way of the graph, or by comparing all rows that pass."""
        conditions, space = self._conditions(), stored.space
        passes = sql.SQL("true") if filter_ is None else conditions.of(filter_, sql.SQL("n.document"))
        operator = sql.SQL("<->" if space.distance == "euclidean" else "<#>")
        is_exact = is_exact or bool(np.abs(vector).max() > _MOST_FLOAT16)
        # A sum cannot be answered by the graph, and the wider type does not round the query.
        form = "(n.vector::vector {} {}) + 0" if is_exact else "n.vector {} {}"
        compared = conditions.parameter(str(vector[0].tolist()), "vector" if is_exact else type_of(space))
        statement = sql.SQL(
            "with best as materialized (select n.chunk, {} distance from {} n where {} order by distance limit {}), "
            "kept as materialized (select chunk from best order by distance limit {}) "
            "select {} from {} join kept on kept.chunk = c.chunk"
        ).format(
            sql.SQL(form).format(operator, compared),
            self._tables.vectors(stored.table),
            passes,
            sql.Literal(k + (_SLACK if is_exact or filter_ is None else _LATE)),
            sql.Literal(k + _SLACK),
            self._columns,
            self._joins,
        )
        _set_candidates(connection, k)
        rows = connection.cursor(binary=True).execute(statement, conditions.parameters).fetchall()
        return self._scored(rows, stored, vector)[:k]

    def _scored(self, rows: list[tuple[Any, ...]], stored: StoredSpace, vector: NDArray[np.float32]) -> list[Hit]:
        """Hits of rows with the scores of their stored vectors, best first."""
        if not rows:
            return []
        place = 1 + len(DOCUMENT_COLUMNS) + len(CHUNK_COLUMNS) + 2 * self._state.spaces.index(stored)
        codes = np.stack([unpack_vector(stored.space, row[place]) for row in rows])
        column = VectorColumn(stored.space, codes)
        positions, scores = score_rows([(column, np.arange(len(rows)))], vector)
        hits = [
            Hit(self._chunk(rows[position]), score)
            for position, score in zip(positions.tolist(), scores.tolist(), strict=True)
        ]
        return sorted(hits, key=lambda hit: (-hit.score, hit.chunk.id))

    def _lets_few_pass(self, connection: Connection, filter_: Filter) -> bool:
        key = filter_digest(filter_)
        known = self._has_few.get(key)
        if known is None:
            conditions = self._conditions()
            statement = sql.SQL("select count(*) from (select from {} c where {} limit {}) few").format(
                self._tables.chunks, conditions.of(filter_, sql.SQL("c.document")), sql.Literal(_FEW_ROWS + 1)
            )
            [(found,)] = connection.execute(statement, conditions.parameters).fetchall()
            known = int(found) <= _FEW_ROWS
            if len(self._has_few) >= _MOST_KNOWN:
                self._has_few.clear()
            self._has_few[key] = known
        return known

    # -- chunks and documents ----------------------------------------------------------------------------------

    def count(self, filter: Filter | None = None) -> int:
        return self.chunks if filter is None else self._counted(filter)[0]

    def count_documents(self, filter: Filter | None = None) -> int:
        return self.documents if filter is None else self._counted(filter)[1]

    def _counted(self, filter_: Filter) -> tuple[int, int]:
        """Chunks and documents that pass."""
        conditions, where = self._where(self._resolved(filter_))
        statement = sql.SQL("select coalesce(sum(chunk_count), 0)::int8, count(*) from {} d where {}")
        [(chunks, documents)] = self._rows(statement.format(self._tables.documents, where), conditions.parameters)
        return int(chunks), int(documents)

    def _counts(self, field: str, filter: Filter | None) -> tuple[dict[tuple[Kind, Any], int], int, int]:
        conditions, where = self._where(filter)
        own = conditions.values(field)
        statement = sql.SQL(
            "with passing as (select d.document from {} d where {}), own as (select f.* from {} join passing p "
            "on p.document = f.document) "
            "select null, null::bytea, null::int8, null::float8, (select count(*) from passing) union all "
            "select 'n', null, null, null, count(distinct document) from own union all "
            "select kind::text, s, i, r, count(distinct document) from own where kind <> 'o' group by kind, s, i, r"
        ).format(self._tables.documents, where, own)
        first, second, *values = self._rows(statement, conditions.parameters)
        counts: dict[tuple[Kind, Any], int] = {}
        for kind, word, integer, real, number in values:
            value: Any = integer
            if kind in "sf":
                value = real if word is None else word.decode("utf-8", "surrogatepass")
            counts[_KINDS[kind], bool(value) if kind == "b" else value] = number
        return counts, first[4], first[4] - second[4]

    def scan(self, filter: Filter | None = None, *, start: int = 0) -> Iterator[PlainChunk]:
        """Of the rows at the time of the call."""
        conditions, where = self._where(self._resolved(filter))
        statement = sql.SQL("select {} from {} where {} order by c.document, c.chunk offset {}")
        whole = statement.format(self._columns, self._joins, where, sql.Literal(start))
        rows = self._streamed(whole, conditions.parameters)
        return map(self._chunk, rows)

    def get(self, chunk_id: str) -> PlainChunk | None:
        rows = self._found(sql.SQL("c.digest = %(key)s"), chunk_id)
        return next((self._chunk(row) for row in rows), None)

    def document(self, document_id: str) -> list[PlainChunk]:
        condition = sql.SQL("d.digest = %(key)s order by c.chunk")
        return [self._chunk(row) for row in self._found(condition, document_id)]

    def chunk_counts(self) -> Mapping[int, int]:
        statement = sql.SQL("select chunk_count, count(*) from {} group by 1").format(self._tables.documents)
        return {int(chunks): int(number) for chunks, number in self._rows(statement, {})}

    def status(self) -> CollectionStatus:
        sizes = self._tables.sizes(self._server, self._state)
        return collection_status(self._state, *sizes)

    def numbered(self) -> Iterator[tuple[int, PlainChunk]]:
        """All chunks with their numbers, for a writer that embeds them again."""
        statement = sql.SQL("select {}, c.chunk from {} order by c.chunk").format(self._columns, self._joins)
        return ((row[-1], self._chunk(row)) for row in self._streamed(statement, {}))

    # -- inside ------------------------------------------------------------------------------------------------

    def _where(self, filter_: Filter | None) -> tuple[Conditions, sql.Composable]:
        """The condition of a filter of `_resolved` on the document d."""
        conditions = self._conditions()
        return conditions, sql.SQL("true") if filter_ is None else conditions.of(filter_, sql.SQL("d.document"))

    def _conditions(self) -> Conditions:
        return Conditions(self._tables.fields, self._tables.documents)

    def _find_field(self, name: str) -> bool:
        conditions = self._conditions()
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

        def rows(*, fresh: bool) -> Iterator[tuple[Any, ...]]:
            with (
                self._server.borrowed(fresh=fresh) as connection,
                connection.transaction(),
                connection.cursor(name="rows", binary=True) as cursor,
            ):
                cursor.itersize = _SCAN_ROWS
                cursor.execute(statement, parameters)
                yield ()
                yield from cursor

        begun = rows(fresh=False)
        try:
            next(begun)
        except BackendUnavailable as error:
            if error.details["reason"] != "lost":
                raise
            begun = rows(fresh=True)
            next(begun)
        return begun

    def _found(self, condition: sql.Composable, name: str) -> list[tuple[Any, ...]]:
        statement = sql.SQL("select {} from {} where {}").format(self._columns, self._joins, condition)
        return self._rows(statement, {"key": to_uuid(to_utf8(name))})

    def _chunk(self, row: Sequence[Any]) -> PlainChunk:
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


def _set_candidates(connection: Connection, k: int) -> None:
    """Let the graph keep more candidates for many results, for this connection until it is asked for others."""
    wanted = min(max(EF_SEARCH, 2 * k), _MOST_EF)
    if _candidates.get(connection, EF_SEARCH) != wanted:
        connection.execute("select set_config('hnsw.ef_search', %s, false)", (str(wanted),))
        _candidates[connection] = wanted


_candidates: Final[MutableMapping[Connection, int]] = WeakKeyDictionary()
"""What the graph keeps in the sessions of connections, where that is not EF_SEARCH."""
