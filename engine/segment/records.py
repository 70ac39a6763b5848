"""Records as columns, the form in which an upsert takes documents: from objects, or from the columns of a table.

Entry n of a column of documents belongs to document n; the columns of chunks hold the chunks of document 0, then those
of document 1, and so on. Metadata, schema.org objects, payloads and states are JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa

from aidre.engine.model import Chunk, Document, Record
from aidre.engine.storage import CHUNKS_SCHEMA, DOCUMENTS_SCHEMA, Column


@dataclass(frozen=True, slots=True)
class ChunkColumns:
    """Chunks of several documents; `counts` holds the number of chunks of each document."""

    counts: Sequence[int]
    ids: Column
    texts: Column
    starts: Column
    ends: Column
    sections: Column
    token_counts: Column


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """Documents and their chunks. Absent values are null; the commit fills in a null `updated_at`."""

    ids: Sequence[str]
    urls: Column
    titles: Column
    types: Column
    updated_at: Column
    canonical: Column
    metadata: Column
    schema_objects: Column
    payloads: Column
    sources: Column
    origins: Column
    states: Column
    fingerprints: Column
    chunks: ChunkColumns


def to_columns(records: Sequence[Record]) -> RecordColumns:
    documents = [record.document for record in records]
    chunks = [chunk for record in records for chunk in record.chunks]

    def document_column(name: str, values: Iterable[Any]) -> Column:
        return pa.array(list(values), DOCUMENTS_SCHEMA.field(name).type)

    def chunk_column(name: str, values: Iterable[Any]) -> Column:
        return pa.array(list(values), CHUNKS_SCHEMA.field(name).type)

    objects = [_json(document.schema_object or None) for document in documents]
    payloads = [_payload(document, object_) for document, object_ in zip(documents, objects, strict=True)]
    return RecordColumns(
        [document.id for document in documents],
        document_column("url", (document.url for document in documents)),
        document_column("title", (document.title for document in documents)),
        document_column("type", (document.type for document in documents)),
        document_column("updated_at", (document.updated_at or None for document in documents)),
        document_column("canonical", (document.canonical for document in documents)),
        document_column("metadata", (_json(document.metadata or None) for document in documents)),
        document_column("schema_object", objects),
        document_column("payload", payloads),
        document_column("source", (document.source for document in documents)),
        document_column("origin", (document.origin for document in documents)),
        document_column("state", (_json(document.state or None) for document in documents)),
        document_column("fingerprint", (record.fingerprint for record in records)),
        ChunkColumns(
            [len(record.chunks) for record in records],
            chunk_column("id", (chunk.id for chunk in chunks)),
            chunk_column("text", (chunk.text for chunk in chunks)),
            chunk_column("start", (chunk.start for chunk in chunks)),
            chunk_column("end", (chunk.end for chunk in chunks)),
            chunk_column("section", (chunk.section for chunk in chunks)),
            chunk_column("token_count", (chunk.token_count for chunk in chunks)),
        ),
    )


def to_record(values: Mapping[str, Any], chunks: Iterable[tuple[Any, ...]]) -> Record:
    """A stored document as an upsert takes it, without text beside that of its chunks: from its values by the names of
    `DOCUMENTS_SCHEMA`, and of each chunk id, text, start, end, section and token count."""
    schema_object, payload, state = values["schema_object"], values["payload"], values["state"]
    document = Document(
        values["id"],
        "",
        title=values["title"],
        url=values["url"],
        updated_at=values["updated_at"],
        type=values["type"],
        canonical=values["canonical"],
        metadata=orjson.loads(values["metadata"] or b"{}"),
        semantic_payload=None if payload == schema_object else orjson.loads(payload or b"null"),
        schema_object=None if schema_object is None else orjson.loads(schema_object),
        source=values["source"],
        origin=values["origin"],
        state=None if state is None else orjson.loads(state),
    )
    found = tuple(Chunk(id_, number, *rest) for number, (id_, *rest) in enumerate(chunks, 1))
    return Record(document, found, values["fingerprint"])


def _payload(document: Document, schema_object: bytes | None) -> bytes | None:
    """The semantic payload: the document's own, else its schema.org object, which is not serialised twice."""
    payload = document.semantic_payload
    is_object = payload is None or (schema_object is not None and payload is document.schema_object)
    return schema_object if is_object else orjson.dumps(payload)


def _json(value: Any) -> bytes | None:
    return None if value is None else orjson.dumps(value)
