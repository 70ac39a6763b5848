"""Pending documents and chunks as columns: what a commit writes, including the JSON that answers splice.

Knows no folder; `segment_writer` puts the batches on disk.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from aidre.engine.changes import STATES
from aidre.engine.json_columns import Column, braced, cut, fixed, inner, joined, listed, members, quoted, written
from aidre.engine.model import Encoded
from aidre.engine.records import Chunks, Records
from aidre.engine.schema import CHUNKS, DOCUMENTS, ETAG_BYTES, NO_KEY
from aidre.engine.vector_blocks import VectorBlocks

_HEX = 64
_BEFORE_HASH: Final[Any] = pa.scalar(b'"content_hash":"sha256:', pa.large_binary())
_AFTER_HASH: Final[Any] = pa.scalar(b'"', pa.large_binary())


class PendingRows:
    """Rows that grow by `add`, an Arrow batch each; the vectors of each space stay in the blocks they came in."""

    def __init__(self) -> None:
        self.document_batches: list[pa.RecordBatch] = []
        self.chunk_batches: list[pa.RecordBatch] = []
        self._ends: list[int] = []
        self.documents = self.chunks = self.bytes = 0
        self.vectors: dict[str, VectorBlocks] = {}
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
        documents, shared = _documents_of(records, self.documents, self.chunks, now)
        counts = records.chunks.counts
        chunks = _chunks_of(records.chunks, shared if set(counts) == {1} else shared.repeated(counts))
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
        self._blocks(space).add(encoded)
        self.bytes += encoded.codes.nbytes

    def find_key(self, space: str, key: bytes) -> tuple[NDArray[Any], np.float32] | None:
        """The stored form of a pending vector by its embedding key: codes (d,) and norm."""
        row = self._key_rows.get(space, {}).get(key)
        if row is None or key == NO_KEY:
            return None
        return self.vectors[space][row]

    def space_for(self, space: str, rows: int, dimensions: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Memory for vectors that may be added next."""
        return self._blocks(space).space_for(rows, dimensions, dtype)

    def _blocks(self, space: str) -> VectorBlocks:
        return self.vectors.setdefault(space, VectorBlocks())

    def joined(self, space: str) -> Encoded:
        """All vectors of a space as one block, which they then are."""
        return self.vectors[space].joined(keep=space in self._key_rows)  # what may be looked up meanwhile

    def release(self) -> None:
        """Let go of what is written and of what nobody looks up any more."""
        self.document_batches, self.chunk_batches = [], []
        for space in self.vectors.keys() - self._key_rows.keys():
            self.vectors[space], self.keys[space] = VectorBlocks(), []

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

    def take_back(self, document_id: str) -> bool:
        """Drop the row of a document, and all rows with the last one. Whether there was one."""
        row = self.rows_of.pop(document_id, None)
        if row is None:
            return False
        self.dropped.add(row)
        if not self.rows_of:
            self.rows, self.dropped = PendingRows(), set()
        return True

    @property
    def is_empty(self) -> bool:
        return not (self.rows_of or self.deleted or self.changed)


class _Shared(NamedTuple):
    """What all chunks of a document have in common: its place, and in JSON members of `metadata` and of `source`."""

    rows: NDArray[np.int64]
    metadata: Mapping[str, Column]
    own_metadata: Column
    source: Mapping[str, Column]
    payloads: Column

    def repeated(self, counts: Sequence[int]) -> _Shared:
        """The same for each chunk."""
        places = np.repeat(np.arange(len(self.rows)), counts)
        rows = pa.array(places)

        def of(columns: Mapping[str, Column]) -> Mapping[str, Column]:
            return {name: column.take(rows) for name, column in columns.items()}

        return _Shared(
            self.rows[places],
            of(self.metadata),
            self.own_metadata.take(rows),
            of(self.source),
            self.payloads.take(rows),
        )


def _documents_of(records: Records, first_row: int, first_chunk: int, now: str) -> tuple[pa.RecordBatch, _Shared]:
    counts = np.array(records.chunks.counts, np.int32)
    updated_at = records.updated_at.fill_null(now)
    columns = [
        pa.array(records.ids, pa.large_string()),
        records.urls,
        records.titles,
        records.types,
        updated_at,
        records.canonical,
        records.metadata,
        records.schema_objects,
        records.payloads,
        records.sources,
        records.origins,
        records.states,
        records.fingerprints,
        pa.array(first_chunk + np.cumsum(counts, dtype=np.int64) - counts),
        pa.array(counts),
    ]
    shared = _Shared(
        np.arange(first_row, first_row + len(counts)),
        {"updated_at": quoted(updated_at), "canonical": written(records.canonical)},
        inner(records.metadata),
        {"url": quoted(records.urls), "title": quoted(records.titles)},
        records.payloads,
    )
    return pa.RecordBatch.from_arrays(columns, schema=DOCUMENTS), shared


def _chunks_of(chunks: Chunks, shared: _Shared) -> pa.RecordBatch:
    texts = chunks.texts.cast(pa.large_binary())
    digests = b"".join([hashlib.sha256(text).digest() for text in texts.to_pylist()])
    hashes = joined([_BEFORE_HASH, cut(digests.hex().encode(), _HEX), _AFTER_HASH])
    source = braced(members({**shared.source, "section": quoted(chunks.sections)}))
    metadata = listed([members(shared.metadata), shared.own_metadata, hashes])
    whole = joined([source, metadata, texts, shared.payloads], b"\0", null=b"")
    etags = b"".join(map(xxhash.xxh3_64_digest, whole.to_pylist()))
    columns = [
        chunks.ids,
        pa.array(shared.rows),
        chunks.texts,
        chunks.starts,
        chunks.ends,
        chunks.sections,
        chunks.token_counts,
        fixed(digests, len(hashlib.sha256().digest())),
        source,
        metadata,
        fixed(etags, ETAG_BYTES),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=CHUNKS)
