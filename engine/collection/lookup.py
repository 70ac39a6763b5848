"""Look-ups of a writer: stored documents by id or source, and vectors by embedding key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.index.vectors import dtype_of
from aidre.engine.model import EmbeddingSpace, EncodedVectors, Record
from aidre.engine.segment import PendingCommit, SegmentReader, SegmentView, to_record

_DOCUMENT_COLUMNS: Final = (
    *("id", "url", "title", "type", "updated_at", "canonical", "metadata", "schema_object", "payload", "source"),
    *("origin", "state", "fingerprint"),
)
_CHUNK_COLUMNS: Final = ("id", "text", "start", "end", "section", "token_count")


class DocumentLocator:
    """Locates stored documents. Caches the last answer, since an upsert follows a look-up of the same ids."""

    def __init__(self) -> None:
        self._snapshot: Snapshot | None = None
        self._index_by_id: dict[str, int] = {}
        self._locations = np.empty((0, 2), dtype=np.int64)

    def locate(self, snapshot: Snapshot | None, document_ids: Sequence[str]) -> NDArray[np.int64]:
        """(segment_ord, document row) of each live document, shape (n, 2); (-1, -1) where the snapshot lacks it."""
        if snapshot is None:
            return np.full((len(document_ids), 2), -1, dtype=np.int64)
        indexes = self._index_by_id
        if snapshot is self._snapshot and all(document_id in indexes for document_id in document_ids):
            return self._locations[[indexes[document_id] for document_id in document_ids]]
        self._snapshot, self._locations = snapshot, snapshot.find_documents(document_ids)
        self._index_by_id = {document_id: index for index, document_id in enumerate(document_ids)}
        return self._locations


def live_documents(segments: Sequence[SegmentView], source: str, *names: str) -> Iterator[tuple[Any, ...]]:
    """Columns of the live documents of a source; None for a column that the file's older format lacks."""
    for view in segments:
        row = 0
        for batch in view.segment.documents.file.batches:
            stored = batch.schema.names
            columns = [batch.column(name) if name in stored else pa.nulls(len(batch)) for name in ("source", *names)]
            for name, *values in zip(*(column.to_pylist() for column in columns), strict=True):
                if name == source and view.is_live(row):
                    yield tuple(values)
                row += 1


def find_vectors(
    space: EmbeddingSpace, keys: Sequence[bytes], unpublished: Sequence[PendingCommit], segments: Sequence[SegmentView]
) -> tuple[NDArray[np.bool_], EncodedVectors]:
    """Which embedding keys have a vector in unpublished rows or in segments, shape (n,), and the vectors; the others
    are zero. Newer segments come first."""
    is_found = np.zeros(len(keys), dtype=np.bool_)
    codes = np.zeros((len(keys), space.dimensions), dtype=dtype_of(space))
    norms = np.ones(len(keys), dtype=np.float32)
    for pending in unpublished:
        for number, key in enumerate(keys):
            if not is_found[number] and (vector := pending.rows.find_key(space.id, key)) is not None:
                codes[number], norms[number] = vector
                is_found[number] = True
    for view in reversed(segments):
        missing = np.flatnonzero(~is_found)
        if not len(missing):
            break
        rows = view.segment.find_keys(space.id, [keys[number] for number in missing.tolist()])
        hits = rows >= 0
        codes[missing[hits]] = view.segment.columns[space.id].take(rows[hits])
        norms[missing[hits]] = view.segment.columns[space.id].norms[rows[hits]]
        is_found[missing[hits]] = True
    return is_found, EncodedVectors(codes, norms)


def stored_records(
    segments: Sequence[SegmentView], locations: NDArray[np.int64], spaces: Sequence[EmbeddingSpace]
) -> tuple[list[Record], dict[str, EncodedVectors], dict[str, list[bytes]]]:
    """Stored documents as an upsert takes them, with their vectors and embedding keys as they are.

    `locations` are those of `DocumentLocator`. The documents have no text: their chunks have it.
    """
    records = []
    codes: dict[str, list[NDArray[Any]]] = {space.id: [] for space in spaces}
    norms: dict[str, list[NDArray[np.float32]]] = {space.id: [] for space in spaces}
    keys: dict[str, list[bytes]] = {space.id: [] for space in spaces if space.model is not None}
    for segment_ord, row in locations.tolist():
        segment = segments[segment_ord].segment
        chunk_rows = segment.chunk_rows(row)
        records.append(_stored_record(segment, row, chunk_rows))
        for space in spaces:
            rows = np.arange(chunk_rows.start, chunk_rows.stop)
            codes[space.id].append(segment.columns[space.id].take(rows))
            norms[space.id].append(segment.columns[space.id].norms[rows])
            if space.id in keys:
                keys[space.id] += segment.key_column(space.id).take(pa.array(rows)).to_pylist()
    vectors = {
        space_id: EncodedVectors(np.concatenate(codes[space_id]), np.concatenate(norms[space_id])) for space_id in codes
    }
    return records, vectors, keys


def _stored_record(segment: SegmentReader, row: int, chunk_rows: range) -> Record:
    documents, chunks = segment.documents, segment.chunks
    values = {name: documents.value(name, row) for name in _DOCUMENT_COLUMNS}
    return to_record(values, (tuple(chunks.value(name, row) for name in _CHUNK_COLUMNS) for row in chunk_rows))
