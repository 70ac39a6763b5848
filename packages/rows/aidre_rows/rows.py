"""Documents and chunks as rows, as engines of tables store them, and the chunks that are made of rows again.

Strings and JSON are UTF-8 bytes: columns of text refuse the character U+0000, and columns of JSON forget the order of
members. A document, a chunk and the name of a field are found by a digest of 16 bytes, because the names are of any
length and indexes are not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine.index.fields import FieldIndex, ReservedColumns, build_fields, parse_instant
from aidre.engine.index.vectors import decode
from aidre.engine.model import Record
from aidre.engine.segment import RecordColumns, to_record
from aidre.engine.storage import to_utf8
from aidre.engine.types import PlainChunk

Code: TypeAlias = str
"""The kind of a stored value: `s`tring, `i`nteger, `f`loat, `b`ool, `d`ate, or `o`, which exists and compares with
nothing."""

_CODES: Mapping[str, Code] = {"string": "s", "int": "i", "float": "f", "bool": "b", "date": "d", "other": "o"}
DIGEST_BYTES = 32
"""Bytes of the SHA-256 of a text."""


class DocumentRow(NamedTuple):
    """A document without its chunks. `chunk_ids` is a JSON list, `digests` are the SHA-256 of its chunks, joined."""

    id: bytes
    url: bytes | None
    title: bytes | None
    type: bytes | None
    updated_at: str
    canonical: bool
    metadata: bytes | None
    schema_object: bytes | None
    payload: bytes | None
    source: bytes
    origin: bytes
    state: bytes | None
    fingerprint: bytes
    chunk_ids: bytes
    digests: bytes
    chunk_count: int


class ChunkRow(NamedTuple):
    id: bytes
    text: bytes
    start: int
    end: int
    section: bytes | None
    token_count: int | None


class FieldRow(NamedTuple):
    """One value of a field of a document. `integer` holds integers, 0 or 1, and the microseconds of dates; that of a
    string is the instant that it denotes, if any."""

    name: bytes
    code: Code
    text: bytes | None
    integer: int | None
    real: float | None


class Rows(NamedTuple):
    """A document with its chunks and its fields."""

    document: DocumentRow
    chunks: list[ChunkRow]
    fields: list[FieldRow]


class PendingVector(NamedTuple):
    """Stored form, norm and embedding key of one vector."""

    codes: NDArray[Any]
    norm: float
    key: bytes | None


def digest(name: bytes) -> bytes:
    """The 16 bytes by which a name of any length is found."""
    return hashlib.blake2b(name, digest_size=16).digest()


# -- from records ------------------------------------------------------------------------------------------------


def rows_of(records: RecordColumns, moment: str) -> list[Rows]:
    """The rows of some documents; `moment` is the `updated_at` of those without."""
    chunks = iter(_chunk_rows(records))
    columns = [
        [document_id.encode() for document_id in records.ids],
        *(_bytes(column) for column in (records.urls, records.titles, records.types)),
        records.updated_at.fill_null(moment).to_pylist(),
        *(column.to_pylist() for column in (records.canonical, records.metadata, records.schema_objects)),
        records.payloads.to_pylist(),
        *(_bytes(column) for column in (records.sources, records.origins)),
        *(column.to_pylist() for column in (records.states, records.fingerprints)),
    ]
    documents, of_documents = [], []
    for values, count in zip(zip(*columns, strict=True), records.chunks.counts, strict=True):
        own = [next(chunks) for _ in range(count)]
        ids = orjson.dumps([chunk.id.decode() for chunk in own])
        digests = b"".join([hashlib.sha256(chunk.text).digest() for chunk in own])
        documents.append(DocumentRow._make((*values, ids, digests, count)))
        of_documents.append(own)
    return list(map(Rows, documents, of_documents, _field_rows(documents)))


def _bytes(column: Any) -> list[bytes | None]:
    values: list[bytes | None] = column.cast(pa.large_binary()).to_pylist()
    return values


def _chunk_rows(records: RecordColumns) -> Iterator[ChunkRow]:
    chunks = records.chunks
    starts, ends, counts = (column.to_pylist() for column in (chunks.starts, chunks.ends, chunks.token_counts))
    columns = _bytes(chunks.ids), _bytes(chunks.texts), starts, ends, _bytes(chunks.sections), counts
    return map(ChunkRow._make, zip(*columns, strict=True))


def _field_rows(documents: Sequence[DocumentRow]) -> list[list[FieldRow]]:
    """The values of the fields of each document, as the field index of local segments finds them."""
    index = index_fields(documents, ())
    found: list[list[FieldRow]] = [[] for _ in documents]
    for name, kind in index.stored():
        if kind == "date" and name != "updated_at":
            continue  # read from its string again: which fields are dates may be declared later
        column, key = index.column(name, kind), digest(to_utf8(name))
        rows, values = column.pairs()
        made: dict[Any, FieldRow] = {}
        for row, value in zip(rows.tolist(), values.tolist(), strict=True):
            if value not in made:
                made[value] = _field_row(key, _CODES[kind], value, column.dictionary)
            found[row].append(made[value])
    return found


def index_fields(documents: Sequence[DocumentRow], dates: Collection[str]) -> FieldIndex:
    """The field index of some documents, with a row for each."""

    def column(values: Iterable[bytes | None]) -> Any:
        return pa.array(list(values), pa.large_binary())

    def sparse(values: Sequence[bytes | None]) -> Any:
        present = [place for place, value in enumerate(values) if value is not None]
        return np.array(present, np.int32), column(values[place] for place in present)

    reserved = ReservedColumns(
        column(document.id for document in documents),
        column(document.updated_at.encode() for document in documents),
        sparse([document.url for document in documents]),
        sparse([document.type for document in documents]),
    )
    loaded = (
        (
            orjson.loads(document.metadata or b"{}"),
            None if document.schema_object is None else orjson.loads(document.schema_object),
        )
        for document in documents
    )
    return FieldIndex(build_fields(reserved, loaded, dates), lambda: column(document.title for document in documents))


def _field_row(name: bytes, code: Code, value: Any, dictionary: Any) -> FieldRow:
    if code == "s":
        text: bytes = dictionary[value]
        return FieldRow(name, code, text, parse_instant(text.decode("utf-8", "surrogatepass")), None)
    if code == "f":
        return FieldRow(name, code, None, None, value)
    return FieldRow(name, code, None, None if code == "o" else int(value), None)


# -- back again --------------------------------------------------------------------------------------------------


def plain_chunk(key: int, document: DocumentRow, chunk: ChunkRow, vectors: Mapping[str, PendingVector]) -> PlainChunk:
    """The chunk as readers give it back; `key` is the number of its document."""
    digests = document.digests
    return PlainChunk(
        id=chunk.id.decode(),
        text=chunk.text.decode(),
        span=(chunk.start, chunk.end),
        section=_text(chunk.section),
        token_count=chunk.token_count,
        embeddings={
            space: decode(vector.codes[np.newaxis], np.array([vector.norm], np.float32))[0]
            for space, vector in vectors.items()
        },
        document_key=key,
        document_id=document.id.decode(),
        document_digests=[
            (chunk_id, digests[place * DIGEST_BYTES : (place + 1) * DIGEST_BYTES])
            for place, chunk_id in enumerate(orjson.loads(document.chunk_ids))
        ],
        url=_text(document.url),
        title=_text(document.title),
        type=_text(document.type),
        updated_at=document.updated_at,
        canonical=document.canonical,
        metadata=orjson.loads(document.metadata or b"{}"),
        json_payload=document.payload,
        schema_object=document.schema_object,
    )


def stored_record(document: DocumentRow, chunks: Sequence[ChunkRow]) -> Record:
    """A document as an upsert takes it, without text beside that of its chunks."""
    names = ("id", "url", "title", "type", "source", "origin")
    values = document._asdict() | {name: _text(getattr(document, name)) for name in names}
    return to_record(
        values,
        (
            (chunk.id.decode(), chunk.text.decode(), chunk.start, chunk.end, _text(chunk.section), chunk.token_count)
            for chunk in chunks
        ),
    )


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()
