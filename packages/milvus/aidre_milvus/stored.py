"""The rows of a collection in Milvus that a commit makes visible: documents, chunks and vectors, by expressions, by
names and by numbers. What was deleted since may be gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, TypeAlias, cast

from aidre.engine.storage import to_utf8
from aidre.engine.types import PlainChunk
from aidre_milvus.catalog import Commit
from aidre_milvus.expressions import literal
from aidre_milvus.server import MilvusDatabase, Row, blocks
from aidre_milvus.tables import (
    CHUNK,
    DOCUMENT,
    MilvusTables,
    RowExtent,
    name_of,
    unpacked_blob,
    unpacked_rows,
    vector_of,
)
from aidre_rows import ChunkRow, DocumentRow, PendingDocument, PendingVector, Rows, StoredSpace, plain_chunk

_LOOKED_UP: Final = 1_000
"""Names that one request looks up."""
BLOCK_ROWS: Final = 1_000
_SPAN: Final = 100_000
"""Numbers of rows in which documents are looked for at once."""
_ROW_COLUMNS: Final = ("row", "document", "kind", "pieces", "blob")
_HEAD_COLUMNS: Final = ("row", "document", "extent", "chunks", "has_url", "digest", "fingerprint")

Value: TypeAlias = DocumentRow | ChunkRow


class MilvusRows:
    """What readers and writers look up."""

    def __init__(self, server: MilvusDatabase, commit: Commit) -> None:
        self.server, self.commit, self._state = server, commit, commit.state
        self.tables = MilvusTables(server, commit.state.name, commit.state.lineage)
        self.documents_visible = f"kind == {DOCUMENT} and {commit.visible}"

    # -- by expressions ----------------------------------------------------------------------------------------

    def spans(self, table: str, where: str, columns: Sequence[str]) -> Iterator[Row]:
        """Rows of a table in parts: an answer of Milvus has a greatest size."""
        for first in range(1, self._state.next_row, _SPAN):
            span = f"row >= {literal(first)} and row < {literal(first + _SPAN)} and {where}"
            yield from self.server.rows(table, span, columns)

    def extents(self, where: str) -> list[RowExtent]:
        """The documents of an expression, in order."""
        found = self.spans(self.tables.rows, where, ["document", "extent"])
        return sorted(RowExtent(row["document"], row["extent"]) for row in found)

    # -- by numbers --------------------------------------------------------------------------------------------

    def by_number(self, table: str, numbers: Sequence[int], columns: Sequence[str]) -> Iterator[Row]:
        for block in blocks(numbers, BLOCK_ROWS):
            yield from self.server.rows(table, f"row in {literal(block)}", columns)

    def whole(self, numbers: Sequence[int]) -> Iterator[tuple[Row, Value]]:
        """Documents and chunks by their numbers, with what goes on in the rows after them."""
        for block in blocks(numbers, BLOCK_ROWS):
            rows = self._rows_of(RowExtent(number, 1) for number in block)
            longer = [RowExtent(row["row"] + 1, row["pieces"] - 1) for row in rows if row["pieces"] > 1]
            for more in _extent_blocks(longer):
                rows += self._rows_of(more)
            yield from unpacked_rows(sorted(rows, key=itemgetter("row")))

    def numbered(self, extents: Iterable[RowExtent]) -> Iterator[tuple[int, PlainChunk]]:
        """The chunks of documents with their numbers, in order."""
        for block in _extent_blocks(extents):
            found = list(unpacked_rows(self._rows_of(block)))
            documents = {row["row"]: row["document"] for row, _ in found if row["kind"] == CHUNK}
            values = {row["row"]: value for row, value in found}
            yield from sorted(self._plain_chunks(documents, values, {}).items())

    def chunks(
        self, documents: Mapping[int, int], vector_rows: Mapping[int, Mapping[int, Row]]
    ) -> dict[int, PlainChunk]:
        """Chunks by their numbers, of which the numbers of their documents are given; `vector_rows` are rows of spaces
        by table and number."""
        values: dict[int, Value] = {}
        for row, number in ((of_space[number], number) for of_space in vector_rows.values() for number in documents):
            if row.get("blob"):
                values[documents[number]], values[number] = unpacked_blob(row["blob"])
        missing = sorted({*documents, *documents.values()} - values.keys())
        values |= {row["row"]: value for row, value in self.whole(missing)}
        return self._plain_chunks(documents, values, vector_rows)

    def _plain_chunks(
        self, documents: Mapping[int, int], values: Mapping[int, Value], vector_rows: Mapping[int, Mapping[int, Row]]
    ) -> dict[int, PlainChunk]:
        """Without those whose document was deleted meanwhile: it may have gone between two requests."""
        vectors = {}
        for stored in self._state.spaces:
            rows = vector_rows.get(stored.table)
            if rows is None:
                vectors[stored.space.id] = self._vectors_of(stored, list(documents))
            else:
                vectors[stored.space.id] = {number: vector_of(stored.space, rows[number]) for number in documents}
        return {
            number: plain_chunk(
                document,
                cast(DocumentRow, values[document]),
                cast(ChunkRow, values[number]),
                {space: of_space[number] for space, of_space in vectors.items()},
            )
            for number, document in documents.items()
            if number in values and document in values and all(number in of_space for of_space in vectors.values())
        }

    def _vectors_of(self, stored: StoredSpace, numbers: Sequence[int]) -> dict[int, PendingVector]:
        rows = self.by_number(self.tables.space(stored.table), numbers, ("row", "norm", "key", "vector"))
        return {row["row"]: vector_of(stored.space, row) for row in rows}

    def _rows_of(self, extents: Iterable[RowExtent]) -> list[Row]:
        numbers = [number for extent in extents for number in range(extent.document, extent.document + extent.rows)]
        rows = self.server.rows(self.tables.rows, f"row in {literal(numbers)}", _ROW_COLUMNS)
        return sorted(rows, key=itemgetter("row"))

    # -- by names: a `Stored` of aidre_rows --------------------------------------------------------------------

    def named(self, kind: int, names: Sequence[str]) -> list[Row]:
        """The first rows of documents or chunks with these digests of ids."""
        return self._found(self.tables.rows, f"kind == {literal(kind)} and digest", names, _HEAD_COLUMNS)

    def heads(self, document_ids: Sequence[str]) -> dict[str, Row]:
        """The first rows of the documents that are stored, by id."""
        names = {name_of(to_utf8(document_id)): document_id for document_id in document_ids}
        return {names[row["digest"]]: row for row in self.named(DOCUMENT, list(names))}

    def values(self, column: str, document_ids: Sequence[str]) -> Mapping[str, Any]:
        heads = self.heads(document_ids)
        if column == "fingerprint":
            return {name: bytes.fromhex(row["fingerprint"]) for name, row in heads.items()}
        if column == "chunk_count":
            return {name: row["chunks"] for name, row in heads.items()}
        found = {row["row"]: value for row, value in self.whole([row["document"] for row in heads.values()])}
        return {name: getattr(found[row["document"]], column) for name, row in heads.items()}

    def of_source(self, source: str) -> list[tuple[bytes, bytes, bytes | None]]:
        where = f"{self.documents_visible} and source == {literal(name_of(to_utf8(source)))}"
        rows = [
            cast(DocumentRow, value) for _, value in self.whole([extent.document for extent in self.extents(where)])
        ]
        return [(row.id, row.origin, row.state) for row in rows]

    def vectors(self, keys: Sequence[bytes], stored: StoredSpace) -> dict[bytes, PendingVector]:
        table, columns = self.tables.space(stored.table), ("key", "norm", "vector")
        rows = self._found(table, "key", [key.hex() for key in keys], columns)
        return {bytes.fromhex(row["key"]): vector_of(stored.space, row) for row in rows}

    def documents(self, document_ids: Sequence[str]) -> dict[str, PendingDocument]:
        extents = [RowExtent(row["document"], row["extent"]) for row in self.heads(document_ids).values()]
        found: list[tuple[DocumentRow, dict[int, ChunkRow]]] = []
        for block in _extent_blocks(sorted(extents)):
            for row, value in unpacked_rows(self._rows_of(block)):
                if isinstance(value, DocumentRow):
                    found.append((value, {}))
                else:
                    found[-1][1][row["row"]] = value
        numbers = [number for _, chunks in found for number in chunks]
        vectors = {stored.space.id: self._vectors_of(stored, numbers) for stored in self._state.spaces}
        return {
            document.id.decode(): PendingDocument(
                Rows(document, list(chunks.values()), []),
                {space: [of_space[number] for number in chunks] for space, of_space in vectors.items()},
            )
            for document, chunks in found
        }

    def _found(self, table: str, column: str, names: Sequence[str], columns: Sequence[str]) -> list[Row]:
        """Visible rows by names."""
        rows: list[Row] = []
        for block in blocks(names, _LOOKED_UP):
            rows += self.server.rows(table, f"{column} in {literal(block)} and {self.commit.visible}", columns)
        return rows


def _extent_blocks(extents: Iterable[RowExtent]) -> Iterator[list[RowExtent]]:
    """In order, so many that one request answers them; a document of more rows has a block of its own."""
    block: list[RowExtent] = []
    size = 0
    for extent in extents:
        if block and size + extent.rows > BLOCK_ROWS:
            yield block
            block, size = [], 0
        block.append(extent)
        size += extent.rows
    if block:
        yield block
