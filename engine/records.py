"""Records column by column: what an upsert stores, whether it came as objects or as the columns of a table.

Entry n of a column of documents belongs to document n; its chunks follow one another in the columns of chunks.
Metadata, objects, payloads and states are JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa

from aidre.engine.json_columns import Column
from aidre.engine.model import Document, Record
from aidre.engine.schema import CHUNKS, DOCUMENTS


@dataclass(frozen=True, slots=True)
class Chunks:
    """`counts` says how many chunks each document has."""

    counts: Sequence[int]
    ids: Column
    texts: Column
    starts: Column
    ends: Column
    sections: Column
    token_counts: Column


@dataclass(frozen=True, slots=True)
class Records:
    """Documents and their chunks. What is empty is null; `updated_at` too where the document does not say it."""

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
    chunks: Chunks


def columns_of(records: Sequence[Record]) -> Records:
    documents = [record.document for record in records]
    chunks = [chunk for record in records for chunk in record.chunks]

    def of(name: str, values: Iterable[Any]) -> Column:
        return pa.array(list(values), DOCUMENTS.field(name).type)

    def of_chunks(name: str, values: Iterable[Any]) -> Column:
        return pa.array(list(values), CHUNKS.field(name).type)

    objects = [_json(each.schema_object or None) for each in documents]
    # A schema.org object is the semantic payload unless the document brings one of its own.
    payloads = [_payload(each, known) for each, known in zip(documents, objects, strict=True)]
    return Records(
        [each.id for each in documents],
        of("url", (each.url for each in documents)),
        of("title", (each.title for each in documents)),
        of("type", (each.type for each in documents)),
        of("updated_at", (each.updated_at or None for each in documents)),
        of("canonical", (each.canonical for each in documents)),
        of("metadata", (_json(each.metadata or None) for each in documents)),
        of("schema_object", objects),
        of("payload", payloads),
        of("source", (each.source for each in documents)),
        of("origin", (each.origin for each in documents)),
        of("state", (_json(each.state or None) for each in documents)),
        of("fingerprint", (record.fingerprint for record in records)),
        Chunks(
            [len(record.chunks) for record in records],
            of_chunks("id", (chunk.id for chunk in chunks)),
            of_chunks("text", (chunk.text for chunk in chunks)),
            of_chunks("start", (chunk.start for chunk in chunks)),
            of_chunks("end", (chunk.end for chunk in chunks)),
            of_chunks("section", (chunk.section for chunk in chunks)),
            of_chunks("token_count", (chunk.token_count for chunk in chunks)),
        ),
    )


def _payload(document: Document, schema_object: bytes | None) -> bytes | None:
    payload = document.semantic_payload
    is_object = payload is None or (schema_object is not None and payload is document.schema_object)
    return schema_object if is_object else orjson.dumps(payload)


def _json(value: Any) -> bytes | None:
    return None if value is None else orjson.dumps(value)
