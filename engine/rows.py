"""Pending documents and chunks as columns: what a commit writes, including the JSON that answers splice.

Knows no folder; `segment_writer` puts the batches on disk.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, repeat
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from aidre.engine.changes import STATES
from aidre.engine.model import Encoded
from aidre.engine.records import Chunks, Records
from aidre.engine.schema import CHUNKS, DOCUMENTS, NO_KEY

_HEX = 64


class PendingRows:
    """Rows that grow by `add`, an Arrow batch each; the vectors of each space stay in the blocks they came in."""

    def __init__(self) -> None:
        self.document_batches: list[pa.RecordBatch] = []
        self.chunk_batches: list[pa.RecordBatch] = []
        self._ends: list[int] = []
        self.documents = self.chunks = self.bytes = 0
        self.vectors: dict[str, list[Encoded]] = {}
        self.keys: dict[str, list[bytes]] = {}
        self._key_rows: dict[str, dict[bytes, int]] = {}

    def add(
        self,
        records: Records,
        vectors: Mapping[str, Encoded],
        keys: Mapping[str, Sequence[bytes]],
        now: str,
    ) -> None:
        """Append records; row i of every Encoded belongs to chunk i over all records in order."""
        documents, abouts, sources, payloads = self._documents_of(records, now)
        counts = records.chunks.counts
        rows: Sequence[int] = range(self.documents, self.documents + len(counts))
        if len(records.chunks.ids) != len(counts):
            rows, abouts, sources, payloads = (_repeated(each, counts) for each in (rows, abouts, sources, payloads))
        chunks = _chunks_of(records.chunks, rows, abouts, sources, payloads)
        self.document_batches.append(documents)
        self.chunk_batches.append(chunks)
        self.documents += documents.num_rows
        self.chunks += chunks.num_rows
        self._ends.append(self.documents)
        self.bytes += documents.nbytes + chunks.nbytes
        for space, encoded in vectors.items():
            self._add_vectors(space, encoded, keys.get(space))

    def _add_vectors(self, space: str, encoded: Encoded, keys: Sequence[bytes] | None) -> None:
        known = self.keys.setdefault(space, [])
        if keys and any(key != NO_KEY for key in keys):
            self._key_rows.setdefault(space, {}).update(
                zip(keys, range(len(known), len(known) + len(keys)), strict=True)
            )
        known.extend(keys or repeat(NO_KEY, len(encoded.codes)))
        self.vectors.setdefault(space, []).append(encoded)
        self.bytes += encoded.codes.nbytes

    def find_key(self, space: str, key: bytes) -> tuple[NDArray[Any], np.float32] | None:
        """The stored form of a pending vector by its embedding key: codes (d,) and norm."""
        row = self._key_rows.get(space, {}).get(key)
        if row is None or key == NO_KEY:
            return None
        for encoded in self.vectors[space]:
            if row < len(encoded.codes):
                return encoded.codes[row], encoded.norms[row]
            row -= len(encoded.codes)
        return None

    def joined(self, space: str) -> Encoded:
        """All vectors of a space as one block, which they then are."""
        # What may be looked up meanwhile stays; else each block is let go of when it is copied, to hold nothing twice.
        blocks = list(self.vectors[space]) if space in self._key_rows else self.vectors[space]
        if len(blocks) > 1:
            end = sum(len(block.codes) for block in blocks)
            codes = np.empty((end, *blocks[0].codes.shape[1:]), blocks[0].codes.dtype)
            norms = np.empty(end, np.float32)
            while blocks:
                block = blocks.pop()
                start = end - len(block.codes)
                codes[start:end], norms[start:end] = block.codes, block.norms
                end = start
            self.vectors[space] = blocks = [Encoded(codes, norms)]
        return blocks[0]

    def release(self) -> None:
        """Let go of what is written and of what nobody looks up any more."""
        self.document_batches, self.chunk_batches = [], []
        for space in self.vectors.keys() - self._key_rows.keys():
            self.vectors[space], self.keys[space] = [], []

    def _documents_of(
        self, records: Records, now: str
    ) -> tuple[pa.RecordBatch, Sequence[bytes], Sequence[bytes], Sequence[bytes]]:
        """The documents, and what all chunks of each share, without braces: of `metadata`, of `source`; its payload."""
        updated_at = [moment or now for moment in records.updated_at]
        metadata = [orjson.dumps(each) if each else None for each in records.metadata]
        objects = [orjson.dumps(each) if each else None for each in records.schema_objects]
        # A schema.org object is the semantic payload unless the document brings one of its own.
        payloads = [
            each if payload is None else orjson.dumps(payload)
            for payload, each in zip(records.payloads, objects, strict=True)
        ]
        counts = records.chunks.counts
        firsts = accumulate(counts, initial=self.chunks)
        columns = (
            records.ids,
            records.urls,
            records.titles,
            records.types,
            updated_at,
            records.canonical,
            metadata,
            objects,
            payloads,
            records.sources,
            records.origins,
            [orjson.dumps(state) if state else None for state in records.states],
            records.fingerprints,
            [first for first, _ in zip(firsts, counts, strict=False)],
            counts,
        )
        common = {
            pair: orjson.dumps({"updated_at": pair[0], "canonical": pair[1]})[1:-1]
            for pair in set(zip(updated_at, records.canonical, strict=True))
        }
        abouts = [
            common[pair] + b"," + own[1:-1] if own else common[pair]
            for pair, own in zip(zip(updated_at, records.canonical, strict=True), metadata, strict=True)
        ]
        sources = [_named(url, title) for url, title in zip(records.urls, records.titles, strict=True)]
        return _batch(columns, DOCUMENTS), abouts, sources, [payload or b"" for payload in payloads]

    def id_columns(self) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
        """Chunk ids and document ids."""
        chunks = pa.chunked_array([batch.column("id") for batch in self.chunk_batches], pa.large_string())
        documents = pa.chunked_array([batch.column("id") for batch in self.document_batches], pa.large_string())
        return chunks, documents

    def chunk_counts(self) -> NDArray[np.int32]:
        counts = [batch.column("chunks").to_numpy() for batch in self.document_batches]
        return np.concatenate([np.empty(0, np.int32), *counts])

    def states(self, dropped: Iterable[int]) -> pa.Table:
        """STATES of every pending chunk, but of those of some documents."""
        table = pa.Table.from_batches(self.chunk_batches, CHUNKS)
        gone = np.zeros(self.documents, dtype=np.bool_)
        gone[list(dropped)] = True
        if gone.any():
            table = table.filter(pa.array(~gone[table.column("document_row").to_numpy()]))
        return table.select(STATES.names)

    def document_value(self, name: str, document_row: int) -> Any:
        place = bisect_right(self._ends, document_row)
        batch = self.document_batches[place]
        return batch.column(name)[document_row - self._ends[place] + batch.num_rows].as_py()


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

    def put(self, ids: Sequence[str]) -> None:
        """Documents that are about to be added to the rows: of two with one id the later stays."""
        first = self.rows.documents
        fresh = dict(zip(ids, range(first, first + len(ids)), strict=True))
        if len(fresh) < len(ids):
            self.dropped.update(row for row, one in enumerate(ids, first) if fresh[one] != row)
        self.dropped.update(self.rows_of[one] for one in self.rows_of.keys() & fresh.keys())
        self.rows_of |= fresh

    @property
    def is_empty(self) -> bool:
        return not (self.rows_of or self.deleted or self.changed)


def _chunks_of(
    chunks: Chunks,
    rows: Sequence[int],
    abouts: Sequence[bytes],
    sources: Sequence[bytes],
    payloads: Sequence[bytes],
) -> pa.RecordBatch:
    """`abouts` and `sources` are what `metadata` and `source` of all chunks of a document share, without braces."""
    texts = [text.encode() for text in chunks.texts]
    digests = [hashlib.sha256(text).digest() for text in texts]
    hexed = b"".join(digests).hex().encode()
    metadata = [
        b'%b,"content_hash":"sha256:%b"' % (about, hexed[at : at + _HEX])
        for about, at in zip(abouts, range(0, len(hexed), _HEX), strict=True)
    ]
    whole = [
        b"{%b}" % source if section is None else _with_section(source, section)
        for source, section in zip(sources, chunks.sections, strict=True)
    ]
    parts = zip(whole, metadata, texts, payloads, strict=True)
    etags = list(map(xxhash.xxh3_64_digest, map(b"\0".join, parts)))
    columns = (
        chunks.ids,
        rows,
        texts,
        chunks.starts,
        chunks.ends,
        chunks.sections,
        chunks.token_counts,
        digests,
        whole,
        metadata,
        etags,
    )
    return _batch(columns, CHUNKS)


def _named(url: str | None, title: str | None) -> bytes:
    return orjson.dumps({name: value for name, value in (("url", url), ("title", title)) if value is not None})[1:-1]


def _with_section(source: bytes, section: str) -> bytes:
    return b'{%b%b"section":%b}' % (source, b"," if source else b"", orjson.dumps(section))


def _repeated(values: Sequence[Any], counts: Sequence[int]) -> list[Any]:
    return list(chain.from_iterable(map(repeat, values, counts)))


def _batch(columns: Iterable[Iterable[Any]], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(_arrays(columns, schema)), schema=schema)


def _arrays(columns: Iterable[Iterable[Any]], schema: pa.Schema) -> Iterator[pa.Array]:
    for column, schema_field in zip(columns, schema, strict=True):
        yield pa.array(column, schema_field.type)
