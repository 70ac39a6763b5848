"""Look-ups of a writer in PostgreSQL: stored documents by id or source, and vectors by embedding key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from psycopg import sql

from aidre.engine.errors import DocumentMissing
from aidre.engine.model import EncodedVectors, Record
from aidre.engine.storage import to_utf8
from aidre_postgres.tables import CHUNK_COLUMNS, DOCUMENT_COLUMNS, Tables, to_uuid, unpack_vector
from aidre_rows import ChunkRow, DocumentRow, PendingVector, StoredSpace, stored_record, with_keys

_LOOKED_UP: Final = 5_000
"""Names that one statement looks up."""

Ask: TypeAlias = Callable[[sql.Composable, Sequence[Any]], list[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class StoredRows:
    """The rows of a collection; `tables` is None before its first commit. `ask` runs a statement."""

    tables: Tables | None
    ask: Ask

    def values(self, column: str, document_ids: Sequence[str]) -> dict[str, Any]:
        """A column of the documents that are stored, by id."""
        if self.tables is None:
            return {}
        names = {to_uuid(to_utf8(one)): one for one in document_ids}
        statement = sql.SQL("select digest, {} from {} where digest = any (%s)").format(
            sql.Identifier(column), self.tables.documents
        )
        return {names[key]: value for block in _blocks(list(names)) for key, value in self.ask(statement, (block,))}

    def of_source(self, source: str) -> list[tuple[Any, ...]]:
        """Id, origin and state of the documents of a source."""
        if self.tables is None:
            return []
        statement = sql.SQL("select id, origin, state from {} where source = %s order by document")
        return self.ask(statement.format(self.tables.documents), (to_utf8(source),))

    def vectors(self, keys: Sequence[bytes], stored: StoredSpace) -> dict[bytes, PendingVector]:
        """The vectors with these embedding keys in a space."""
        if self.tables is None:
            return {}
        statement = sql.SQL("select distinct on (key) key, vector, norm from {} where key = any (%s::uuid[])")
        made = statement.format(self.tables.vectors(stored.table))
        rows = [row for block in _blocks(keys) for row in self.ask(made, ([key.hex() for key in block],))]
        return {
            key.bytes: PendingVector(unpack_vector(stored.space, packed), norm, key.bytes) for key, packed, norm in rows
        }

    def records(
        self, document_ids: Sequence[str], spaces: Sequence[StoredSpace]
    ) -> tuple[list[Record], Mapping[str, EncodedVectors], Mapping[str, Sequence[bytes]]]:
        """Documents as an upsert takes them, with their vectors and embedding keys. DocumentMissing."""
        found = [self._record(document_id) for document_id in document_ids]
        vectors, keys = with_keys(
            spaces, lambda stored: [vector for number, _ in found for vector in self._vectors_of(number, stored)]
        )
        return [record for _, record in found], vectors, keys

    def _record(self, document_id: str) -> tuple[int, Record]:
        names = sql.SQL(", ").join(map(sql.Identifier, ("document", *DOCUMENT_COLUMNS)))
        statement = sql.SQL("select {} from {} where digest = %s")
        found: list[tuple[Any, ...]] = []
        if self.tables is not None:
            found = self.ask(statement.format(names, self.tables.documents), (to_uuid(to_utf8(document_id)),))
        if self.tables is None or not found:
            raise DocumentMissing(f"there is no document {document_id!r}", document_id=document_id)
        [(number, *columns)] = found
        names = sql.SQL(", ").join(map(sql.Identifier, CHUNK_COLUMNS))
        statement = sql.SQL("select {} from {} where document = %s order by chunk").format(names, self.tables.chunks)
        chunks = [ChunkRow(*row) for row in self.ask(statement, (number,))]
        return number, stored_record(DocumentRow(*columns), chunks)

    def _vectors_of(self, number: int, stored: StoredSpace) -> list[PendingVector]:
        if self.tables is None:
            return []
        statement = sql.SQL("select vector, norm, key from {} where document = %s order by chunk")
        rows = self.ask(statement.format(self.tables.vectors(stored.table)), (number,))
        return [
            PendingVector(unpack_vector(stored.space, packed), norm, None if key is None else key.bytes)
            for packed, norm, key in rows
        ]


def _blocks(names: Sequence[Any]) -> Iterator[list[Any]]:
    return (list(names[first : first + _LOOKED_UP]) for first in range(0, len(names), _LOOKED_UP))
