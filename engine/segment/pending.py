"""Documents and chunks that wait for a commit, as columns, with the JSON fragments that answers will splice.

Knows no folder; `segment_writer.py` writes the batches to disk.
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

from aidre.engine.index import signatures
from aidre.engine.model import EncodedVectors
from aidre.engine.segment.records import ChunkColumns, RecordColumns
from aidre.engine.storage import (
    CHUNK_STATE_SCHEMA,
    CHUNKS_SCHEMA,
    DOCUMENTS_SCHEMA,
    ETAG_BYTES,
    NO_KEY,
    SIGNATURE_BYTES,
    Column,
    add_braces,
    encode_scalars,
    encode_strings,
    fixed_binary,
    join_columns,
    join_members,
    join_present,
    split_binary,
    strip_braces,
)

_ARENA_ROWS = 7 << 14
_ARENA_BYTES = 320 << 20
"""Size of the memory that is reserved for the vectors of one commit of a bulk load. The system provides a page of it
when a vector is written there, so reserving it costs nothing."""

_MIN_ARENA_ROWS = 1_024
"""Smaller blocks of vectors get memory of their own: copying them takes hardly any time."""

_HASH_HEX_CHARACTERS = 64
_BEFORE_HASH: Final[Any] = pa.scalar(b'"content_hash":"sha256:', pa.large_binary())
_AFTER_HASH: Final[Any] = pa.scalar(b'"', pa.large_binary())


class VectorBlocks:
    """The vectors of one space in the blocks in which they were added.

    A caller may encode a block straight into memory from `reserve`. Blocks that were reserved and added in the same
    order lie next to each other, and `join` then copies nothing.
    """

    def __init__(self) -> None:
        self.blocks: list[EncodedVectors] = []
        self._arena: NDArray[Any] | None = None
        self._reserved = 0  # rows of the arena that `reserve` returned
        self._added = 0  # rows of the arena that were added, while the blocks are contiguous
        self._is_contiguous = True  # the blocks are the first rows of the arena, in order

    def reserve(self, rows: int, dimensions: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Uninitialised memory of shape (rows, dimensions) for the vectors that will be added next."""
        if rows < _MIN_ARENA_ROWS:
            return np.empty((rows, dimensions), dtype)
        if self._arena is None or self._reserved + rows > len(self._arena):
            size = max(rows, min(_ARENA_ROWS, _ARENA_BYTES // (dimensions * dtype.itemsize)))
            self._is_contiguous = not self.blocks
            self._arena, self._reserved = np.empty((size, dimensions), dtype), 0
        self._reserved += rows
        return self._arena[self._reserved - rows : self._reserved]

    def add(self, encoded: EncodedVectors) -> None:
        self.blocks.append(encoded)
        if self._is_contiguous:
            end = self._added + len(encoded.codes)
            self._is_contiguous = self._arena is not None and _is_same_memory(
                encoded.codes, self._arena[self._added : end]
            )
            self._added = end

    def __getitem__(self, row: int) -> tuple[NDArray[Any], np.float32]:
        """Codes (d,) and norm of a vector."""
        for block in self.blocks:
            if row < len(block.codes):
                return block.codes[row], block.norms[row]
            row -= len(block.codes)
        raise IndexError(row)

    def join(self, *, keep: bool) -> EncodedVectors:
        """Make all blocks one and return it.

        With `keep` the old blocks stay readable by other threads meanwhile; without it each is freed as soon as it is
        copied.
        """
        blocks = list(self.blocks) if keep else self.blocks
        if len(blocks) > 1:
            end = sum(len(block.codes) for block in blocks)
            norms = np.concatenate([block.norms for block in blocks])
            if self._is_contiguous and self._arena is not None:
                codes = self._arena[:end]
            else:
                codes = np.empty((end, *blocks[0].codes.shape[1:]), blocks[0].codes.dtype)
                while blocks:
                    block = blocks.pop()
                    codes[end - len(block.codes) : end] = block.codes
                    end -= len(block.codes)
            self.blocks = [EncodedVectors(codes, norms)]
        return self.blocks[0]


def _is_same_memory(array: NDArray[Any], other: NDArray[Any]) -> bool:
    first, second = array.__array_interface__, other.__array_interface__
    return all(first[name] == second[name] for name in ("data", "shape", "strides", "typestr"))


class PendingRows:
    """Rows that wait for a commit. Each `add` appends an Arrow batch of documents, one of chunks, and for each space a
    block of vectors. `bytes` is the memory they hold."""

    def __init__(self) -> None:
        self.document_batches: list[pa.RecordBatch] = []
        self.chunk_batches: list[pa.RecordBatch] = []
        self._batch_ends: list[int] = []
        self.documents = self.chunks = self.bytes = 0
        self.vectors: dict[str, VectorBlocks] = {}
        self.keys: dict[str, list[bytes]] = {}
        self._key_rows: dict[str, dict[bytes, int]] = {}

    def add(
        self,
        records: RecordColumns,
        vectors: Mapping[str, EncodedVectors],
        keys: Mapping[str, Sequence[bytes]],
        now: str,
    ) -> None:
        """Append records; row i of every EncodedVectors belongs to chunk i over all records in order.

        `keys` are the embedding keys of the spaces that have a model; `now` is the `updated_at` of documents without.
        """
        documents, shared = _document_batch(records, self.documents, self.chunks, now)
        counts = records.chunks.counts
        chunks = _chunk_batch(records.chunks, shared if set(counts) == {1} else shared.repeated(counts))
        self.document_batches.append(documents)
        self.chunk_batches.append(chunks)
        self.documents += documents.num_rows
        self.chunks += chunks.num_rows
        self._batch_ends.append(self.documents)
        self.bytes += documents.nbytes + chunks.nbytes
        for space, encoded in vectors.items():
            self._add_vectors(space, encoded, keys.get(space))

    def _add_vectors(self, space: str, encoded: EncodedVectors, keys: Sequence[bytes] | None) -> None:
        stored = self.keys.setdefault(space, [])
        if keys and any(key != NO_KEY for key in keys):
            self._key_rows.setdefault(space, {}).update(
                zip(keys, range(len(stored), len(stored) + len(keys)), strict=True)
            )
        stored.extend(keys or repeat(NO_KEY, len(encoded.codes)))
        self._blocks(space).add(encoded)
        self.bytes += encoded.codes.nbytes

    def find_key(self, space: str, key: bytes) -> tuple[NDArray[Any], np.float32] | None:
        """The stored form of the pending vector with this embedding key: codes (d,) and norm."""
        row = self._key_rows.get(space, {}).get(key)
        if row is None or key == NO_KEY:
            return None
        return self.vectors[space][row]

    def reserve_vectors(self, space: str, rows: int, dimensions: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Uninitialised memory of shape (rows, dimensions) for the vectors of a space that will be added next."""
        return self._blocks(space).reserve(rows, dimensions, dtype)

    def _blocks(self, space: str) -> VectorBlocks:
        return self.vectors.setdefault(space, VectorBlocks())

    def join_vectors(self, space: str) -> EncodedVectors:
        """Make all vectors of a space one block and return it."""
        return self.vectors[space].join(keep=space in self._key_rows)  # another thread may call `find_key` meanwhile

    def release(self) -> None:
        """Free the rows, which are written, and the vectors of all spaces in which `find_key` finds nothing."""
        self.document_batches, self.chunk_batches = [], []
        for space in self.vectors.keys() - self._key_rows.keys():
            self.vectors[space], self.keys[space] = VectorBlocks(), []

    def chunk_counts(self) -> NDArray[np.int32]:
        counts = [batch.column("chunks").to_numpy() for batch in self.document_batches]
        return np.concatenate([np.empty(0, np.int32), *counts])

    def states(self, dropped: Iterable[int]) -> pa.Table:
        """The columns of CHUNK_STATE_SCHEMA for all pending chunks but those of the `dropped` document rows."""
        table = pa.Table.from_batches(self.chunk_batches, CHUNKS_SCHEMA)
        is_dropped = np.zeros(self.documents, dtype=np.bool_)
        is_dropped[list(dropped)] = True
        if is_dropped.any():
            table = table.filter(pa.array(~is_dropped[table.column("document_row").to_numpy()]))
        return table.select(CHUNK_STATE_SCHEMA.names)

    def document_value(self, name: str, document_row: int) -> Any:
        i = bisect_right(self._batch_ends, document_row)
        batch = self.document_batches[i]
        return batch.column(name)[document_row - self._batch_ends[i] + batch.num_rows].as_py()


@dataclass(slots=True)
class PendingCommit:
    """The content of the next commit.

    `row_by_id` maps a document id to its row in `rows`; `dropped_rows` are rows that a later one replaced or that were
    withdrawn; `deleted` marks the stored documents to delete, by segment_ord; `changed` says that the commit changes
    something else in the manifest.
    """

    rows: PendingRows = field(default_factory=PendingRows)
    row_by_id: dict[str, int] = field(default_factory=dict)
    dropped_rows: set[int] = field(default_factory=set)
    deleted: dict[int, NDArray[np.bool_]] = field(default_factory=dict)
    changed: bool = False

    def register(self, ids: Sequence[str]) -> None:
        """Record the ids of documents that are about to be added to `rows`; of two with one id the later stays."""
        first = self.rows.documents
        new_rows = dict(zip(ids, range(first, first + len(ids)), strict=True))
        if len(new_rows) < len(ids):
            self.dropped_rows.update(row for row, id_ in enumerate(ids, first) if new_rows[id_] != row)
        self.dropped_rows.update(self.row_by_id[id_] for id_ in self.row_by_id.keys() & new_rows.keys())
        self.row_by_id |= new_rows

    def withdraw(self, document_id: str) -> bool:
        """Drop the row of a document, and all rows with the last one; False if it is not pending."""
        row = self.row_by_id.pop(document_id, None)
        if row is None:
            return False
        self.dropped_rows.add(row)
        if not self.row_by_id:
            self.rows, self.dropped_rows = PendingRows(), set()
        return True

    @property
    def is_empty(self) -> bool:
        return not (self.row_by_id or self.deleted or self.changed)


# -- from columns of records to batches ------------------------------------------------------------------------


class _DocumentColumns(NamedTuple):
    """Columns that all chunks of a document share: its row, JSON members of `metadata` and of `source`, its payload.

    One entry a document; after `repeated` one entry a chunk.
    """

    rows: NDArray[np.int64]
    metadata: Mapping[str, Column]
    own_metadata: Column
    source: Mapping[str, Column]
    payloads: Column

    def repeated(self, counts: Sequence[int]) -> _DocumentColumns:
        """Entry n `counts[n]` times."""
        positions = np.repeat(np.arange(len(self.rows)), counts)
        indices = pa.array(positions)

        def take(columns: Mapping[str, Column]) -> Mapping[str, Column]:
            return {name: column.take(indices) for name, column in columns.items()}

        return _DocumentColumns(
            self.rows[positions],
            take(self.metadata),
            self.own_metadata.take(indices),
            take(self.source),
            self.payloads.take(indices),
        )


def _document_batch(
    records: RecordColumns, first_row: int, first_chunk: int, now: str
) -> tuple[pa.RecordBatch, _DocumentColumns]:
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
    shared = _DocumentColumns(
        np.arange(first_row, first_row + len(counts)),
        {"updated_at": encode_strings(updated_at), "canonical": encode_scalars(records.canonical)},
        strip_braces(records.metadata),
        {"url": encode_strings(records.urls), "title": encode_strings(records.titles)},
        records.payloads,
    )
    return pa.RecordBatch.from_arrays(columns, schema=DOCUMENTS_SCHEMA), shared


def _chunk_batch(chunks: ChunkColumns, documents: _DocumentColumns) -> pa.RecordBatch:
    """The rows of the chunks file. An etag is a hash of everything that an answer shows of the chunk."""
    texts = chunks.texts.cast(pa.large_binary())
    digests = b"".join([hashlib.sha256(text).digest() for text in texts.to_pylist()])
    hashes = join_columns([_BEFORE_HASH, split_binary(digests.hex().encode(), _HASH_HEX_CHARACTERS), _AFTER_HASH])
    source = add_braces(join_members({**documents.source, "section": encode_strings(chunks.sections)}))
    metadata = join_present([join_members(documents.metadata), documents.own_metadata, hashes])
    content = join_columns([source, metadata, texts, documents.payloads], b"\0", null=b"")
    etags = b"".join(map(xxhash.xxh3_64_digest, content.to_pylist()))
    columns = [
        chunks.ids,
        pa.array(documents.rows),
        chunks.texts,
        chunks.starts,
        chunks.ends,
        chunks.sections,
        chunks.token_counts,
        fixed_binary(digests, len(hashlib.sha256().digest())),
        source,
        metadata,
        fixed_binary(etags, ETAG_BYTES),
        fixed_binary(signatures(chunks.texts), SIGNATURE_BYTES),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=CHUNKS_SCHEMA)
