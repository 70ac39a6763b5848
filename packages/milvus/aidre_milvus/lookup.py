"""Look-ups of a writer in Milvus: stored documents by id or source, and vectors by embedding key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aidre.engine.errors import DocumentMissing
from aidre.engine.model import EncodedVectors, Record
from aidre.engine.storage import to_utf8
from aidre_milvus.expressions import literal
from aidre_milvus.reader import MilvusReader
from aidre_milvus.server import Row
from aidre_milvus.tables import DOCUMENT, Extent, name_of, vector_of
from aidre_rows import DocumentRow, PendingVector, StoredSpace, stored_record, with_keys

_LOOKED_UP: Final = 1_000
"""Names that one request looks up."""


@dataclass(frozen=True, slots=True)
class StoredRows:
    """The rows of a collection, as its newest reader sees them; None before the first commit."""

    reader: MilvusReader | None

    def heads(self, document_ids: Sequence[str]) -> dict[str, Row]:
        """The first rows of the documents that are stored, by id."""
        if self.reader is None:
            return {}
        names = {name_of(to_utf8(one)): one for one in document_ids}
        columns = ["document", "extent", "chunks", "has_url", "digest", "fingerprint"]
        return {
            names[row["digest"]]: row for row in self._found(self.reader.tables.rows, "digest", list(names), columns)
        }

    def values(self, column: str, document_ids: Sequence[str]) -> dict[str, Any]:
        heads = self.heads(document_ids)
        if column == "fingerprint":
            return {name: bytes.fromhex(row["fingerprint"]) for name, row in heads.items()}
        if column == "chunk_count":
            return {name: row["chunks"] for name, row in heads.items()}
        found = self._documents([row["document"] for row in heads.values()])
        return {name: getattr(found[row["document"]], column) for name, row in heads.items()}

    def of_source(self, source: str) -> list[tuple[bytes, bytes, bytes | None]]:
        if self.reader is None:
            return []
        where = f"kind == {DOCUMENT} and source == {literal(name_of(to_utf8(source)))} and {self.reader.commit.visible}"
        found = self._documents([extent.document for extent in self.reader.extents(where)])
        return [(row.id, row.origin, row.state) for _, row in sorted(found.items())]

    def vectors(self, keys: Sequence[bytes], stored: StoredSpace) -> dict[bytes, PendingVector]:
        if self.reader is None:
            return {}
        table = self.reader.tables.space(stored.table)
        rows = self._found(table, "key", [key.hex() for key in keys], ["key", "norm", "vector"])
        return {bytes.fromhex(row["key"]): vector_of(stored.space, row) for row in rows}

    def records(
        self, document_ids: Sequence[str], spaces: Sequence[StoredSpace]
    ) -> tuple[list[Record], Mapping[str, EncodedVectors], Mapping[str, Sequence[bytes]]]:
        heads, reader = self.heads(document_ids), self.reader
        for document_id in document_ids:
            if document_id not in heads:
                raise DocumentMissing(f"there is no document {document_id!r}", document_id=document_id)
        if reader is None:
            return [], {}, {}
        extents = [Extent(heads[one]["document"], heads[one]["extent"]) for one in document_ids]
        found = list(reader.records(extents))
        numbers = [number for _, _, chunks in found for number, _ in chunks]
        vectors, keys = with_keys(
            spaces, lambda stored: list(map(reader.vectors(stored, numbers).__getitem__, numbers))
        )
        return [stored_record(row, [chunk for _, chunk in chunks]) for _, row, chunks in found], vectors, keys

    def _documents(self, numbers: Sequence[int]) -> dict[int, DocumentRow]:
        if self.reader is None:
            return {}
        return {row["row"]: value for row, value in self.reader.whole(numbers) if isinstance(value, DocumentRow)}

    def _found(self, table: str, column: str, names: list[str], columns: list[str]) -> list[Row]:
        """Visible rows by names; of documents and chunks, those of documents."""
        if self.reader is None:
            return []
        of_documents = f" and kind == {DOCUMENT}" if table == self.reader.tables.rows else ""
        rows: list[Row] = []
        for first in range(0, len(names), _LOOKED_UP):
            listed = f"{column} in {literal(names[first : first + _LOOKED_UP])}{of_documents}"
            rows += self.reader.server.rows(table, f"{listed} and {self.reader.commit.visible}", columns)
        return rows
