"""A second engine behind the seam: documents in a dict, compared one by one, without any capability."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from aidre.engine.embedding import load_embedder
from aidre.engine.errors import CollectionMissing, Unsupported
from aidre.engine.index.fields import Compare, Filter, unknown_fields
from aidre.engine.index.fields.filters import And, Not, Wording
from aidre.engine.model import Alias, Collection, Document, EmbeddingSpace, Highlight, HighlightLimits, Query, Record
from aidre.engine.ports import Capabilities, Reader, Sink, TextDictionary
from aidre.engine.types import (
    ChangeCursor,
    ChangesPage,
    CollectionStatus,
    Facet,
    Hit,
    PlainChunk,
    ResultLayout,
    RetrievedChunk,
)
from tests.support.stores import TIME


def unsupported(capability: str) -> Unsupported:
    return Unsupported(f"the engine of dicts lacks {capability}", capability=capability)


def plain_chunk(record: Record, position: int, vectors: Mapping[str, NDArray[np.float32]]) -> PlainChunk:
    """A chunk of a record as an engine without stored fragments gives it back."""
    document, chunk = record.document, record.chunks[position]
    schema_object = orjson.dumps(document.schema_object) if document.schema_object else None
    payload = document.semantic_payload
    return PlainChunk(
        id=chunk.id,
        text=chunk.text,
        span=(chunk.start, chunk.end),
        section=chunk.section,
        token_count=chunk.token_count,
        embeddings=vectors,
        document_key=document.id,
        document_id=document.id,
        document_digests=[(one.id, hashlib.sha256(one.text.encode()).digest()) for one in record.chunks],
        url=document.url,
        title=document.title,
        type=document.type,
        updated_at=document.updated_at or TIME,
        canonical=document.canonical,
        metadata=document.metadata,
        json_payload=schema_object if payload is None else orjson.dumps(payload),
        schema_object=schema_object,
    )


class DictReader:
    """A collection of records in one space, whose vectors it computes."""

    can = Capabilities()
    generation = 1
    lineage = "dicts"
    dates: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    waits = False

    def __init__(self, name: str, records: Sequence[Record], space: EmbeddingSpace) -> None:
        self.collection = Collection(name, f"About {name}", "public", TIME, (space,))
        self._space = space
        self._records = {record.document.id: record for record in records}
        rows = [(record, position) for record in records for position in range(len(record.chunks))]
        self._vectors = load_embedder(space).embed_documents([record.chunks[at].text for record, at in rows])
        self._chunks = {
            chunk.id: chunk
            for (record, position), vector in zip(rows, self._vectors, strict=True)
            for chunk in [plain_chunk(record, position, {space.id: vector})]
        }
        self.documents, self.chunks = len(records), len(rows)

    def search(self, query: Query) -> list[Hit]:
        if query.mode != "dense" or query.vector is None:
            raise unsupported("lexical")
        scores = self._vectors @ np.asarray(query.vector, np.float32)
        hits: list[Hit] = [
            Hit(chunk, float(score))
            for chunk, score in zip(self._chunks.values(), scores, strict=True)
            if self._passes(chunk, query.filter)
        ]
        return sorted(hits, key=lambda hit: (-hit.score, hit.chunk.id))[query.offset : query.offset + query.top_k]

    def search_all(self, queries: Sequence[Query]) -> list[list[Hit]]:
        return [self.search(query) for query in queries]

    def splice(self, hits: Sequence[Hit], scores: Sequence[bytes], layout: ResultLayout) -> bytes | None:
        return None

    def estimated_seconds(self, query: Query) -> float:
        return self.chunks * 1e-6

    def count(self, filter: Filter | None = None) -> int:
        return sum(self._passes(chunk, filter) for chunk in self._chunks.values())

    def count_documents(self, filter: Filter | None = None) -> int:
        return len({chunk.document_id for chunk in self.scan(filter)})

    def facet(self, field: str, filter: Filter | None = None, **_: Any) -> Facet:
        raise unsupported("facets")

    def highlight(self, text: str, hits: Sequence[Hit], limits: HighlightLimits) -> list[Highlight]:
        raise unsupported("highlight")

    def corrected(self, text: str) -> str | None:
        raise unsupported("words")

    def completions(self, text: str, limit: int) -> list[str]:
        raise unsupported("words")

    def word_shares(self, text: str, hits: Sequence[Hit]) -> tuple[int, list[float]]:
        raise unsupported("words")

    def question_language(self, text: str) -> str | None:
        return None

    @property
    def languages(self) -> Mapping[str, int]:
        return {}

    def knows_question(self, space_id: str, text: str) -> bool:
        return True

    def cosines(self, space_id: str, vector: NDArray[np.float32], hits: Sequence[Hit]) -> None:
        return None

    def centroid(self, space_id: str) -> NDArray[np.float32] | None:
        return None

    def scan(self, filter: Filter | None = None, *, start: int = 0) -> Iterator[RetrievedChunk]:
        return islice((chunk for chunk in self._chunks.values() if self._passes(chunk, filter)), start, None)

    def get(self, chunk_id: str) -> RetrievedChunk | None:
        return self._chunks.get(chunk_id)

    def document(self, document_id: str) -> Sequence[RetrievedChunk]:
        record = self._records.get(document_id)
        return [] if record is None else [self._chunks[chunk.id] for chunk in record.chunks]

    def chunk_counts(self) -> Mapping[int, int]:
        return Counter(len(record.chunks) for record in self._records.values())

    def unknown_fields(self, filter: Filter) -> tuple[str, ...]:
        return unknown_fields(filter, self.has_field)

    def has_field(self, name: str) -> bool:
        return any(name in record.document.metadata for record in self._records.values())

    def changes(self, cursor: ChangeCursor | None, limit: int) -> ChangesPage:
        raise unsupported("changes")

    def fields(self) -> frozenset[str]:
        raise unsupported("vocabulary")

    def dictionaries(self, name: str) -> Sequence[TextDictionary]:
        raise unsupported("vocabulary")

    def is_object_field(self, name: str) -> bool:
        raise unsupported("vocabulary")

    def status(self) -> CollectionStatus:
        return {
            "collection": self.collection.name,
            "description": self.collection.description,
            "visibility": self.collection.visibility,
            "generation": self.generation,
            "created_at": TIME,
            "updated_at": TIME,
            "documents": self.documents,
            "documents_without_url": sum(record.document.url is None for record in self._records.values()),
            "chunks": self.chunks,
            "deleted_chunks": 0,
            "segments": 0,
            "bytes": 0,
            "kernel": None,
            "spaces": [
                {
                    **asdict(self._space),  # type: ignore[typeddict-item]
                    "state": "live",
                    "chunks": self.chunks,
                    "runtime": None,
                    "calibration": {"kind": "hnsw", "reason": None, "depths": ()},
                    "bytes": {},
                }
            ],
            "languages": {},
            "warnings": [],
        }

    def _passes(self, chunk: RetrievedChunk, filter: Filter | None) -> bool:
        if filter is None:
            return True
        passes = partial(self._passes, chunk)
        if isinstance(filter, Compare):
            document: Document = self._records[chunk.document_id].document
            value = {"type": document.type, **document.metadata}.get(filter.field)
            wanted: Any = filter.value if isinstance(filter.value, tuple) else (filter.value,)
            return value in wanted if filter.op in {"eq", "in"} else (value is not None) == filter.value
        if isinstance(filter, Not):
            return not passes(filter.operand)
        assert not isinstance(filter, Wording), "it knows no words"
        return (all if isinstance(filter, And) else any)(map(passes, filter.operands))


class DictSource:
    """A store of such collections; `path` is where the application keeps its own files."""

    def __init__(self, path: Path, readers: Sequence[DictReader]) -> None:
        self.path = path
        self.readers = {reader.collection.name: reader for reader in readers}

    def collections(self) -> list[str]:
        return sorted(self.readers)

    def aliases(self) -> Mapping[str, Alias]:
        return {}

    def point_alias(self, name: str, collection: str) -> None:
        raise unsupported("aliases")

    def remove_alias(self, name: str) -> None:
        raise unsupported("aliases")

    def mark(self, collection: str) -> int:
        return id(self.readers[collection])

    def open(self, collection: str, *, previous: Reader | None = None, generation: int | None = None) -> Reader:
        if generation is not None:
            raise unsupported("generations")
        if collection not in self.readers:
            raise CollectionMissing(f"there is no collection {collection!r}", collection=collection)
        return self.readers[collection]

    def pin(self, collection: str, generation: int) -> None:
        pass

    def writer(self, collection: str, **_: Any) -> AbstractContextManager[Sink]:
        raise unsupported("writing")

    def drop(self, collection: str, *, wait: float = 0.0, purge: bool = False) -> None:
        raise unsupported("writing")
