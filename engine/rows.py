"""Pending documents and chunks as columns: what a commit writes, including the JSON that answers splice.

Knows no folder; `segment_writer` puts the batches on disk.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from aidre.engine.changes import State
from aidre.engine.fields import FieldRow
from aidre.engine.languages import declared_language
from aidre.engine.lexicon import LexicalText, lexical_text
from aidre.engine.model import Chunk, Encoded, Json, Record
from aidre.engine.schema import BATCH_ROWS, CHUNKS, DOCUMENTS, NO_KEY


class PendingRows:
    """Rows that grow by `add`, a tuple each; the vectors of each space stay in the blocks they came in."""

    def __init__(self) -> None:
        self._documents: list[tuple[Any, ...]] = []
        self._chunks: list[tuple[Any, ...]] = []
        self._fields: list[FieldRow] = []
        self.vectors: dict[str, list[Encoded]] = {}
        self.keys: dict[str, list[bytes]] = {}
        self.bytes = 0
        self._key_places: dict[str, dict[bytes, tuple[int, int]]] = {}

    @property
    def documents(self) -> int:
        return len(self._documents)

    @property
    def chunks(self) -> int:
        return len(self._chunks)

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
        for space, encoded in vectors.items():
            values = keys.get(space) or [NO_KEY] * len(encoded.codes)
            blocks = self.vectors.setdefault(space, [])
            places = self._key_places.setdefault(space, {})
            places.update((key, (len(blocks), row)) for row, key in enumerate(values))
            self.keys.setdefault(space, []).extend(values)
            blocks.append(encoded)
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
        metadata = _json(document.metadata) if document.metadata else None
        schema_object = _json(document.schema_object) if document.schema_object else None
        # A schema.org object is the semantic payload unless the document brings one of its own.
        payload = _json(document.semantic_payload) if document.semantic_payload is not None else schema_object
        row = len(self._documents)
        # In the order of schema.DOCUMENTS.
        self._documents.append(
            (
                document.id,
                document.url,
                document.title,
                document.type,
                updated_at,
                document.canonical,
                metadata,
                schema_object,
                payload,
                document.source,
                document.origin,
                _json(document.state) if document.state else None,
                record.fingerprint,
                len(self._chunks),
                len(record.chunks),
            )
        )
        self._fields.append(
            FieldRow(document.id, document.url, document.type, updated_at, document.metadata, document.schema_object)
        )
        about = orjson.dumps({"updated_at": updated_at, "canonical": document.canonical})[1:-1]
        about += b"," + metadata[1:-1] if metadata else b""
        named = {name: value for name, value in (("url", document.url), ("title", document.title)) if value is not None}
        origin = orjson.dumps(named)[1:-1]
        for chunk in record.chunks:
            self._add_chunk(chunk, row, origin, about, payload or b"")

    def _add_chunk(self, chunk: Chunk, row: int, origin: bytes, about: bytes, payload: bytes) -> None:
        """`origin` and `about` are what `source` and `metadata` of all chunks of a document share, without braces."""
        text = chunk.text.encode()
        digest = hashlib.sha256(text)
        section = b"" if chunk.section is None else b'"section":' + orjson.dumps(chunk.section)
        source = b"{%b%b%b}" % (origin, b"," if origin and section else b"", section)
        metadata = b'%b,"content_hash":"sha256:%b"' % (about, digest.hexdigest().encode())
        etag = xxhash.xxh3_64_digest(b"\0".join((source, metadata, text, payload)))
        # In the order of schema.CHUNKS.
        self._chunks.append(
            (
                chunk.id,
                row,
                chunk.text,
                chunk.start,
                chunk.end,
                chunk.section,
                chunk.token_count,
                digest.digest(),
                source,
                metadata,
                etag,
            )
        )
        self.bytes += len(text) * 2 + len(metadata) + 512

    def document_batches(self) -> Iterator[pa.RecordBatch]:
        return _batches(self._documents, DOCUMENTS)

    def chunk_batches(self) -> Iterator[pa.RecordBatch]:
        return _batches(self._chunks, CHUNKS)

    def field_rows(self) -> Sequence[FieldRow]:
        return self._fields

    def lexical_texts(self) -> Iterator[LexicalText]:
        """What the lexicon indexes of each chunk, in order."""
        languages = [declared_language(row.metadata, row.schema_object) for row in self._fields]
        for chunk in self._chunks:
            document = chunk[_DOCUMENT_ROW]
            text = lexical_text(self._documents[document][_TITLE], chunk[_SECTION], chunk[_TEXT])
            yield LexicalText(text, languages[document])

    def id_columns(self) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
        """Chunk ids and document ids."""
        chunks = pa.array([row[_CHUNK_ID] for row in self._chunks], pa.large_string())
        documents = pa.array([row[_DOCUMENT_ID] for row in self._documents], pa.large_string())
        return pa.chunked_array([chunks]), pa.chunked_array([documents])

    def chunk_counts(self) -> NDArray[np.int32]:
        return np.array([row[_COUNT] for row in self._documents], dtype=np.int32)

    def states(self, document_rows: Iterable[int]) -> Iterator[tuple[str, State]]:
        """Id and state of each chunk of some pending documents."""
        for document_row in document_rows:
            first = self._documents[document_row][_FIRST]
            for row in self._chunks[first : first + self._documents[document_row][_COUNT]]:
                yield row[_CHUNK_ID], State(row[_HASH], row[_ETAG])

    def document_value(self, name: str, document_row: int) -> Any:
        return self._documents[document_row][DOCUMENTS.get_field_index(name)]


@dataclass(slots=True)
class Pending:
    """What the next commit will hold.

    `rows_of` maps a document id to its row in `rows`, `dropped` are rows that a later one replaced, `deleted`
    the stored documents that go, as (part, row); `changed` says that something else in the manifest does.
    """

    rows: PendingRows = field(default_factory=PendingRows)
    rows_of: dict[str, int] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)
    deleted: dict[tuple[int, int], str] = field(default_factory=dict)
    changed: bool = False


def _json(value: Json) -> bytes:
    """Compact JSON in memory of its own size: orjson's result keeps the kilobyte it was begun with, and a bulk
    load holds very many."""
    return memoryview(orjson.dumps(value)).tobytes()


_DOCUMENT_ID = DOCUMENTS.get_field_index("id")
_FIRST = DOCUMENTS.get_field_index("first_chunk")
_COUNT = DOCUMENTS.get_field_index("chunks")
_TITLE = DOCUMENTS.get_field_index("title")
_DOCUMENT_ROW = CHUNKS.get_field_index("document_row")
_SECTION = CHUNKS.get_field_index("section")
_TEXT = CHUNKS.get_field_index("text")
_CHUNK_ID = CHUNKS.get_field_index("id")
_HASH = CHUNKS.get_field_index("content_hash")
_ETAG = CHUNKS.get_field_index("etag")


def _batches(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(rows), BATCH_ROWS):
        columns = zip(*rows[start : start + BATCH_ROWS], strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
