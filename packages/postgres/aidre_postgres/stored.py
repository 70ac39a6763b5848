"""What is read back from the tables of a collection in PostgreSQL: whole rows of chunks, and look-ups of a writer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg import sql

from aidre.engine.storage import to_utf8
from aidre.engine.types import PlainChunk
from aidre_postgres.sql_filters import SqlConditions
from aidre_postgres.tables import CHUNK_COLUMNS, DOCUMENT_COLUMNS, PostgresTables, to_uuid, unpack_vector
from aidre_rows import (
    ChunkRow,
    CollectionState,
    DocumentRow,
    PendingDocument,
    PendingVector,
    Rows,
    StoredSpace,
    plain_chunk,
)

_LOOKED_UP: Final = 5_000
"""Names that one statement looks up."""
_CHUNK: Final = slice(1 + len(DOCUMENT_COLUMNS), 1 + len(DOCUMENT_COLUMNS) + len(CHUNK_COLUMNS))
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
        vectors = {stored.space.id: _vector(stored, next(values), next(values), None) for stored in self._spaces}
        return plain_chunk(row[0], DocumentRow(*row[1 : _CHUNK.start]), ChunkRow(*row[_CHUNK]), vectors)


@dataclass(frozen=True, slots=True)
class PostgresRows:
    """The rows of a collection. `ask` runs a statement."""

    tables: PostgresTables
    spaces: Sequence[StoredSpace]
    ask: Callable[[sql.Composable, Sequence[Any]], list[tuple[Any, ...]]]

    def values(self, column: str, document_ids: Sequence[str]) -> Mapping[str, Any]:
        names = {to_uuid(to_utf8(document_id)): document_id for document_id in document_ids}
        statement = self.tables.fill(
            "select digest, {column} from {documents} where digest = any (%s)", column=sql.Identifier(column)
        )
        return {names[key]: value for block in _blocks(list(names)) for key, value in self.ask(statement, (block,))}

    def of_source(self, source: str) -> list[tuple[Any, ...]]:
        statement = self.tables.fill("select id, origin, state from {documents} where source = %s order by document")
        return self.ask(statement, (to_utf8(source),))

    def vectors(self, keys: Sequence[bytes], stored: StoredSpace) -> Mapping[bytes, PendingVector]:
        statement = self.tables.fill(
            "select distinct on (key) vector, norm, key from {vectors} where key = any (%s::uuid[])",
            vectors=self.tables.vectors(stored.table),
        )
        rows = [row for block in _blocks(keys) for row in self.ask(statement, ([key.hex() for key in block],))]
        return {key.bytes: _vector(stored, packed, norm, key) for packed, norm, key in rows}

    def documents(self, document_ids: Sequence[str]) -> Mapping[str, PendingDocument]:
        digests = [to_uuid(to_utf8(document_id)) for document_id in document_ids]
        found = self.whole("digest = any (%s)", digests)
        return {document.rows.document.id.decode(): document for document in found.values()}

    def whole(self, condition: LiteralString, *parameters: Any) -> dict[int, PendingDocument]:
        """Documents with their vectors and without their fields, in the order of their numbers."""
        statement = self.tables.fill(
            "select document, {columns} from {documents} where {condition}",
            columns=sql.SQL(", ".join(DOCUMENT_COLUMNS)),
            condition=sql.SQL(condition),
        )
        documents = {
            number: DocumentRow(*row) for number, *row in sorted(self.ask(statement, parameters), key=itemgetter(0))
        }
        chunks = self.grouped(self.tables.name("chunks"), CHUNK_COLUMNS, "chunk", documents)
        vectors = {
            stored: self.grouped(self.tables.vectors(stored.table), ("vector", "norm", "key"), "chunk", documents)
            for stored in self.spaces
        }
        return {
            number: PendingDocument(
                Rows(document, [ChunkRow(*row) for row in chunks.get(number, ())], []),
                {
                    stored.space.id: [_vector(stored, *row) for row in of_space.get(number, ())]
                    for stored, of_space in vectors.items()
                },
            )
            for number, document in documents.items()
        }

    def grouped(
        self, table: sql.Identifier, columns: Iterable[str], order: str, numbers: Iterable[int]
    ) -> Mapping[int, list[Sequence[Any]]]:
        """Rows of some documents, by the numbers of these."""
        statement = sql.SQL("select document, {} from {} where document = any (%s) order by {}").format(
            sql.SQL(", ".join(columns)), table, sql.Identifier(order)
        )
        found: dict[int, list[Sequence[Any]]] = {}
        for number, *row in self.ask(statement, (list(numbers),)):
            found.setdefault(number, []).append(row)
        return found


def _vector(stored: StoredSpace, packed: bytes, norm: float, key: UUID | None) -> PendingVector:
    return PendingVector(unpack_vector(stored.space, packed), norm, None if key is None else key.bytes)


def _blocks(names: Sequence[Any]) -> Iterator[list[Any]]:
    return (list(names[first : first + _LOOKED_UP]) for first in range(0, len(names), _LOOKED_UP))
