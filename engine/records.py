"""Records column by column: what an upsert stores, whether it came as objects or as the columns of a table.

Entry n of a column of documents belongs to document n; its chunks follow one another in the columns of chunks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aidre.engine.model import Json, Record


@dataclass(frozen=True, slots=True)
class Chunks:
    """`counts` says how many chunks each document has."""

    counts: Sequence[int]
    ids: Sequence[str]
    texts: Sequence[str]
    starts: Sequence[int]
    ends: Sequence[int]
    sections: Sequence[str | None]
    token_counts: Sequence[int | None]


@dataclass(frozen=True, slots=True)
class Records:
    """Documents and their chunks. A semantic payload of None stands for the schema.org object."""

    ids: Sequence[str]
    urls: Sequence[str | None]
    titles: Sequence[str | None]
    types: Sequence[str | None]
    updated_at: Sequence[str | None]
    canonical: Sequence[bool]
    metadata: Sequence[Mapping[str, Json]]
    schema_objects: Sequence[Mapping[str, Json] | None]
    payloads: Sequence[Json]
    sources: Sequence[str]
    origins: Sequence[str]
    states: Sequence[Mapping[str, str] | None]
    fingerprints: Sequence[bytes]
    chunks: Chunks


def columns_of(records: Sequence[Record]) -> Records:
    documents = [record.document for record in records]
    chunks = [chunk for record in records for chunk in record.chunks]
    return Records(
        [each.id for each in documents],
        [each.url for each in documents],
        [each.title for each in documents],
        [each.type for each in documents],
        [each.updated_at for each in documents],
        [each.canonical for each in documents],
        [each.metadata for each in documents],
        [each.schema_object for each in documents],
        [each.semantic_payload for each in documents],
        [each.source for each in documents],
        [each.origin for each in documents],
        [each.state for each in documents],
        [record.fingerprint for record in records],
        Chunks(
            [len(record.chunks) for record in records],
            [chunk.id for chunk in chunks],
            [chunk.text for chunk in chunks],
            [chunk.start for chunk in chunks],
            [chunk.end for chunk in chunks],
            [chunk.section for chunk in chunks],
            [chunk.token_count for chunk in chunks],
        ),
    )
