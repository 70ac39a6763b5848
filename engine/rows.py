"""Pending documents and chunks as columns: what a commit writes, including the JSON that answers splice.

Knows no folder; `segment_writer` puts the batches on disk.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from aidre.engine.fields import FieldRow
from aidre.engine.model import Chunk, Document, Encoded, Record
from aidre.engine.schema import BATCH_ROWS, CHUNKS, DOCUMENTS, NO_KEY


class PendingRows:
    """Columns that grow by `add`; the vectors of each space stay in the blocks they came in."""

    def __init__(self) -> None:
        self._documents: dict[str, list[Any]] = {name: [] for name in DOCUMENTS.names}
        self._chunks: dict[str, list[Any]] = {name: [] for name in CHUNKS.names}
        self._fields: list[FieldRow] = []
        self.vectors: dict[str, list[Encoded]] = {}
        self.keys: dict[str, list[bytes]] = {}
        self.bytes = 0
        self._key_places: dict[str, dict[bytes, tuple[int, int]]] = {}

    @property
    def documents(self) -> int:
        return len(self._fields)

    @property
    def chunks(self) -> int:
        return len(self._chunks["id"])

    def add(
        self,
        records: Sequence[Record],
        vectors: Mapping[str, Encoded],
        keys: Mapping[str, Sequence[bytes]],
        now: str,
    ) -> None:
        """Append records; row i of every Encoded belongs to chunk i over all records in order."""
        for record in records:
            self._add_document(record, now)
        for space, values in keys.items():
            self.keys.setdefault(space, []).extend(values)
            block = len(self.vectors.get(space, ()))
            places = self._key_places.setdefault(space, {})
            places.update((key, (block, row)) for row, key in enumerate(values))
        for space, encoded in vectors.items():
            self.vectors.setdefault(space, []).append(encoded)
            self.bytes += encoded.codes.nbytes

    def find_key(self, space: str, key: bytes) -> tuple[NDArray[Any], np.float32] | None:
        """The stored form of a pending vector by its embedding key: codes (d,) and norm."""
        place = self._key_places.get(space, {}).get(key)
        if place is None or key == NO_KEY:
            return None
        encoded = self.vectors[space][place[0]]
        return encoded.codes[place[1]], encoded.norms[place[1]]

    def _add_document(self, record: Record, now: str) -> None:
        document = record.document
        updated_at = document.updated_at or now
        metadata = orjson.dumps(document.metadata) if document.metadata else None
        schema_object = orjson.dumps(document.schema_object) if document.schema_object else None
        # A schema.org object is the semantic payload unless the document brings one of its own.
        payload = orjson.dumps(document.semantic_payload) if document.semantic_payload is not None else schema_object
        columns = self._documents
        first = len(self._chunks["id"])
        for name, value in (
            ("id", document.id),
            ("url", document.url),
            ("title", document.title),
            ("type", document.type),
            ("updated_at", updated_at),
            ("canonical", document.canonical),
            ("metadata", metadata),
            ("schema_object", schema_object),
            ("payload", payload),
            ("source", document.source),
            ("origin", document.origin),
            ("fingerprint", record.fingerprint),
            ("first_chunk", first),
            ("chunks", len(record.chunks)),
        ):
            columns[name].append(value)
        row = len(self._fields)
        self._fields.append(
            FieldRow(document.id, document.url, document.type, updated_at, document.metadata, document.schema_object)
        )
        for chunk in record.chunks:
            self._add_chunk(document, chunk, row, updated_at, payload)

    def _add_chunk(self, document: Document, chunk: Chunk, row: int, updated_at: str, payload: bytes | None) -> None:
        text = chunk.text.encode()
        digest = hashlib.sha256(text)
        source = orjson.dumps(
            {
                name: value
                for name, value in (("url", document.url), ("title", document.title), ("section", chunk.section))
                if value is not None
            }
        )
        metadata = orjson.dumps(
            {
                **document.metadata,
                "updated_at": updated_at,
                "canonical": document.canonical,
                "content_hash": f"sha256:{digest.hexdigest()}",
            }
        )[1:-1]
        etag = xxhash.xxh3_64(source)
        for part in (metadata, text, payload or b""):
            etag.update(part)
        columns = self._chunks
        for name, value in (
            ("id", chunk.id),
            ("document_row", row),
            ("text", chunk.text),
            ("start", chunk.start),
            ("end", chunk.end),
            ("section", chunk.section),
            ("token_count", chunk.token_count),
            ("content_hash", digest.digest()),
            ("json_id", orjson.dumps(chunk.id)),
            ("json_source", source),
            ("json_metadata", metadata),
            ("etag", etag.digest()),
        ):
            columns[name].append(value)
        self.bytes += len(text) * 2 + len(metadata) + 512

    def document_batches(self) -> Iterator[pa.RecordBatch]:
        return _batches(self._documents, DOCUMENTS)

    def chunk_batches(self) -> Iterator[pa.RecordBatch]:
        return _batches(self._chunks, CHUNKS)

    def field_rows(self) -> Sequence[FieldRow]:
        return self._fields

    def id_columns(self) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
        """Chunk ids and document ids."""
        chunks = pa.array(self._chunks["id"], pa.large_string())
        documents = pa.array(self._documents["id"], pa.large_string())
        return pa.chunked_array([chunks]), pa.chunked_array([documents])

    def chunk_counts(self) -> NDArray[np.int32]:
        return np.array(self._documents["chunks"], dtype=np.int32)

    def hashes(self, document_row: int) -> list[tuple[str, bytes]]:
        """Id and content hash of each chunk of a pending document."""
        first = self._documents["first_chunk"][document_row]
        rows = range(first, first + self._documents["chunks"][document_row])
        return [(self._chunks["id"][row], self._chunks["content_hash"][row]) for row in rows]

    def document_value(self, name: str, document_row: int) -> Any:
        return self._documents[name][document_row]


def _batches(columns: Mapping[str, list[Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    rows = len(columns[schema.names[0]])
    for start in range(0, rows, BATCH_ROWS):
        arrays = [pa.array(columns[field.name][start : start + BATCH_ROWS], field.type) for field in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
