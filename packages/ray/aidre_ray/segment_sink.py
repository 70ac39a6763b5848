"""The sink of a worker: it looks documents up in one generation, and writes segments that the driver adopts.

It holds no lock and publishes nothing. Of `Sink` it has what a run of an ingest needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from aidre.engine.collection import DocumentLocator, Snapshot, find_vectors
from aidre.engine.errors import Unsupported
from aidre.engine.index.vectors import dtype_of, encode
from aidre.engine.model import EmbeddingSpace, EncodedVectors, Record
from aidre.engine.ports import Recompute
from aidre.engine.segment import PendingCommit, RecordColumns, Staging, to_columns, write_pending
from aidre.engine.storage import SegmentEntry
from aidre.engine.types import CommitResult
from aidre_ray.job import Job, WrittenDocument

SEGMENT_BYTES = 256 << 20
"""A block whose rows hold more memory becomes several segments."""


class SegmentSink:
    """`segments` are those written so far, `source_names` the sources of their documents."""

    stale_spaces: Sequence[str] = ()
    unfinished_spaces: Sequence[str] = ()
    is_commit_done = True

    def __init__(self, job: Job, snapshot: Snapshot | None, block: int) -> None:
        self.snapshot = snapshot
        self.spaces: Mapping[str, EmbeddingSpace] = {space.id: space for space in job.spaces}
        self.segments: list[SegmentEntry] = []
        self.source_names: list[str] = []
        self.written: dict[str, WrittenDocument] = {}
        self._fingerprints: dict[str, bytes] = {}
        self._upserts, self._upserted_chunks = Counter[str](), Counter[str]()
        self._dates: dict[str, str | None] = {}
        self._job, self._block = job, block
        self._pending = PendingCommit()
        self._locator = DocumentLocator()

    # -- what is stored ----------------------------------------------------------------------------------------

    def fingerprints(self, document_ids: Sequence[str]) -> list[bytes | None]:
        stored = self._stored("fingerprint", document_ids)
        return [
            self._fingerprints.get(document_id, value) for document_id, value in zip(document_ids, stored, strict=True)
        ]

    def updated_at(self, document_ids: Sequence[str]) -> list[str | None]:
        stored = self._stored("updated_at", document_ids)
        return [self._dates.get(document_id, value) for document_id, value in zip(document_ids, stored, strict=True)]

    def reuse(self, space_id: str, keys: Sequence[bytes]) -> tuple[NDArray[np.bool_], EncodedVectors]:
        segments = self.snapshot.segments if self.snapshot is not None else ()
        return find_vectors(self.spaces[space_id], keys, [self._pending], segments)

    def _stored(self, column: str, document_ids: Sequence[str]) -> list[Any]:
        if self.snapshot is None:
            return [None] * len(document_ids)
        locations = self._locator.locate(self.snapshot, document_ids).tolist()
        segments = self.snapshot.segments
        return [
            None if segment_ord < 0 else segments[segment_ord].segment.documents.value(column, row)
            for segment_ord, row in locations
        ]

    # -- write -------------------------------------------------------------------------------------------------

    def encode(self, space_id: str, vectors: NDArray[np.float32], *, for_upsert: bool = False) -> EncodedVectors:
        space = self.spaces[space_id]
        rows = self._pending.rows
        into = rows.reserve_vectors(space_id, len(vectors), space.dimensions, dtype_of(space)) if for_upsert else None
        return encode(space, vectors, into)

    def upsert(
        self,
        records: Sequence[Record] | RecordColumns,
        vectors: Mapping[str, EncodedVectors],
        keys: Mapping[str, Sequence[bytes]],
    ) -> None:
        records = records if isinstance(records, RecordColumns) else to_columns(records)
        self._pending.register(records.ids)
        self._pending.rows.add(records, vectors, keys, self._job.now)
        stored = self._stored("fingerprint", records.ids)
        for document_id, chunks, former in zip(records.ids, records.chunks.counts, stored, strict=True):
            self.written[document_id] = WrittenDocument(chunks, former is None)
            self._upserts[document_id] += 1
            self._upserted_chunks[document_id] += chunks
        self._fingerprints.update(zip(records.ids, records.fingerprints.to_pylist(), strict=True))
        dates = records.updated_at.fill_null(self._job.now).to_pylist()
        self._dates.update(zip(records.ids, dates, strict=True))

    def set_source_root(self, source: str, root: str) -> None:
        if source not in self.source_names:
            self.source_names.append(source)

    def source_roots(self) -> Mapping[str, str]:
        return {}

    def source_states(self) -> Mapping[str, Mapping[str, str]]:
        return {}

    @property
    def pending_bytes(self) -> int:
        return self._pending.rows.bytes

    @property
    def is_full(self) -> bool:
        return self._pending.rows.chunks >= self._job.max_segment_rows // 2 or self.pending_bytes >= SEGMENT_BYTES

    def begin_commit(self) -> CommitResult | None:
        """Write a segment where the rows are many. Time alone is no reason: a block that is done again would be cut
        elsewhere."""
        return self.commit() if self.is_full else None

    def wait_for_commit(self) -> CommitResult | None:
        return None

    def commit(self) -> CommitResult | None:
        """Write the pending rows as a segment; it is durable on return, and part of no generation. StorageFailed."""
        if self._pending.row_by_id:
            job = self._job
            staging = Staging(job.staging, f"{self._block} {len(self.segments)}")
            spaces = list(self.spaces.values())
            self.segments.append(
                write_pending(job.staging, self._pending.rows, spaces, job.dates, staging=staging, release=True)
            )
        self._pending = PendingCommit()
        return None

    def finish(self) -> None:
        self.commit()

    def withdraw_stored(self) -> dict[str, tuple[int, int]]:
        """Drop the pending documents whose last version is the stored one again, after another version before it.

        Returns by id how often each was written, and with how many chunks altogether. An ingest of the same files then
        changes nothing.
        """
        pending = list(self._pending.row_by_id)
        stored = self._stored("fingerprint", pending)
        same = [
            document_id
            for document_id, former in zip(pending, stored, strict=True)
            if self._fingerprints[document_id] == former
        ]
        earlier = len(self.segments) > 0  # a segment of this block may hold another version of it
        for document_id in () if earlier else same:
            self._pending.withdraw(document_id)
            del self.written[document_id]
        return (
            {}
            if earlier
            else {document_id: (self._upserts[document_id], self._upserted_chunks[document_id]) for document_id in same}
        )

    # -- what a worker has no use for --------------------------------------------------------------------------

    def reembed(self, recompute: Mapping[str, Recompute]) -> None:
        _refuse()

    def documents_of(self, source: str) -> Iterator[tuple[str, str]]:
        _refuse()

    def states_of(self, source: str) -> Iterator[tuple[str, bytes | None]]:
        _refuse()

    def stored_records(
        self, document_ids: Sequence[str]
    ) -> tuple[list[Record], Mapping[str, EncodedVectors], Mapping[str, Sequence[bytes]]]:
        _refuse()

    def delete(self, document_ids: Sequence[str]) -> int:
        _refuse()

    def set_source_state(self, url: str, state: Mapping[str, str]) -> None:
        _refuse()

    def forget_source(self, source: str) -> None:
        _refuse()

    def compact(self) -> None:
        _refuse()

    def purge(self) -> None:
        _refuse()


def _refuse() -> NoReturn:
    raise Unsupported("a worker writes segments alone: the driver does this", capability="worker")
