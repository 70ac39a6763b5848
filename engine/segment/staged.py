"""Segments in a staging folder, on their way into a collection: verified, compared with each other, and moved.

Their documents are those of one run, in the order of the segments: of two with one id the later one is kept. They wait
in a temporary folder below `segments`, which belongs to the holder of the lock; a later writer removes it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine.errors import StorageFailed, StoreDamaged
from aidre.engine.segment.segment_reader import SegmentReader
from aidre.engine.storage import (
    CHUNK_STATE_SCHEMA,
    CHUNKS_FILE,
    DOCUMENTS_FILE,
    SEGMENTS,
    FileProblem,
    Manifest,
    SegmentEntry,
    durable,
    has_own_names,
    open_file,
    vectors_file,
)

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class StagedSegments:
    """Verified segments in the folder `staging`. `masks` are the documents of a segment that are not kept, where there
    are any; `ids` and `chunks` are those of each segment's documents, and the columns of its chunks."""

    staging: Path
    entries: tuple[SegmentEntry, ...]
    masks: dict[str, Mask]
    chunk_counts: dict[str, NDArray[np.int32] | None]
    chunks: Sequence[pa.Table]
    ids: Sequence[Sequence[str]] = ()

    def live_ids(self) -> list[str]:
        """The ids of all documents that are kept."""
        return [
            document_id
            for entry, ids in zip(self.entries, self.ids, strict=True)
            for row, document_id in enumerate(ids)
            if entry.id not in self.masks or not self.masks[entry.id][row]
        ]

    def states(self) -> pa.Table:
        """The columns of CHUNK_STATE_SCHEMA of all chunks whose documents are kept."""
        tables = []
        for entry, chunks in zip(self.entries, self.chunks, strict=True):
            mask = self.masks.get(entry.id)
            rows = None if mask is None else pa.array(~mask[chunks.column("document_row").to_numpy()])
            of_documents = chunks if rows is None else chunks.filter(rows)
            tables.append(of_documents.select(CHUNK_STATE_SCHEMA.names))
        return pa.concat_tables([pa.Table.from_batches([], CHUNK_STATE_SCHEMA), *tables])

    def move_to(self, folder: Path) -> None:
        """Move the segments to their place in the collection, durably; those that were moved already stay."""
        segments = folder / SEGMENTS
        with durable.write_errors(segments):
            for entry in self.entries:
                if not (segments / entry.id).exists():
                    (self.staging / entry.id).rename(segments / entry.id)
            durable.sync_folder(segments)


def open_staged(
    staging: Path,
    entries: Sequence[SegmentEntry],
    withdrawn: Collection[str],
    manifest: Manifest,
    cures: Mapping[str, str],
) -> StagedSegments:
    """Verify every byte of some segments of a collection, and find the documents that are not kept. StorageFailed, with
    what `cures` says of the segment.

    Who wrote them is not trusted: their names stay in the folder, their rows in the segment, and each opens as a stored
    one before it is moved.
    """
    ids: list[list[str]] = []
    chunks: list[pa.Table] = []
    counts: dict[str, NDArray[np.int32] | None] = {}
    if len({entry.id for entry in entries}) < len(entries):
        raise StorageFailed("a worker named a segment twice: run the ingest again")
    for entry in entries:
        cure = cures.get(entry.id, "run the ingest again")
        _check(entry, cure)
        batches = _open(staging, entry, manifest, cure)
        documents = pa.Table.from_batches(batches[DOCUMENTS_FILE])
        ids.append(documents.column("id").to_pylist())
        counts[entry.id] = documents.column("chunks").to_numpy()
        of_segment = pa.Table.from_batches(batches[CHUNKS_FILE])
        _check_rows(entry, documents, of_segment, cure)
        chunks.append(of_segment.select(["document_row", *CHUNK_STATE_SCHEMA.names]))
    masks = _superseded(entries, ids, frozenset(withdrawn))
    return StagedSegments(staging, tuple(entries), masks, counts, chunks, ids)


def _check(entry: SegmentEntry, cure: str) -> None:
    if not has_own_names(entry) or entry.deletes is not None or entry.deleted_documents or entry.deleted_chunks:
        raise StorageFailed(f"a worker named a segment that is not its own: {cure}")


def _check_rows(entry: SegmentEntry, documents: pa.Table, chunks: pa.Table, cure: str) -> None:
    """The chunks are those of the documents, in their order."""
    counts, rows = documents.column("chunks").to_numpy(), chunks.column("document_row").to_numpy()
    if (counts < 0).any() or not np.array_equal(np.repeat(np.arange(len(counts)), counts), rows):
        where = f"{SEGMENTS}/{entry.id}/{CHUNKS_FILE}"
        raise StorageFailed(f"{where} has chunks of other documents: {cure}", file=where)


def _open(staging: Path, entry: SegmentEntry, manifest: Manifest, cure: str) -> Mapping[str, Sequence[pa.RecordBatch]]:
    """The batches of each file of a segment, all of whose bytes are as they were written."""
    # A repeated adoption finds segments that the first attempt has moved.
    folder = next((place / entry.id for place in (staging, staging.parent) if (place / entry.id).exists()), staging)
    batches = {}
    for name, file in entry.files.items():
        try:
            batches[name] = open_file(folder / name, file, whole=True).batches
        except FileProblem as problem:
            where = f"{SEGMENTS}/{entry.id}/{name}"
            raise StorageFailed(f"{where} {problem}: {cure}", file=where) from problem
    spaces = manifest.collection.spaces
    for name in (DOCUMENTS_FILE, CHUNKS_FILE, *(vectors_file(space.id) for space in spaces)):
        if name not in entry.files:
            where = f"{SEGMENTS}/{entry.id}/{name}"
            raise StorageFailed(f"{where} is missing: {cure}", file=where)
    try:
        SegmentReader(folder, entry, spaces, manifest)
    except StoreDamaged as damaged:
        where = f"{SEGMENTS}/{entry.id}/{Path(damaged.details['file']).name}"
        raise StorageFailed(f"{where} {damaged.details['problem']}: {cure}", file=where) from damaged
    return batches


def _superseded(
    entries: Sequence[SegmentEntry], ids: Sequence[Sequence[str]], withdrawn: frozenset[str]
) -> dict[str, Mask]:
    """By segment, the documents that a later one replaces or that are withdrawn; segments without any are left out."""
    last = {document_id: (number, row) for number, rows in enumerate(ids) for row, document_id in enumerate(rows)}
    masks = {}
    for number, (entry, rows) in enumerate(zip(entries, ids, strict=True)):
        mask = np.array(
            [document_id in withdrawn or last[document_id] != (number, row) for row, document_id in enumerate(rows)],
            dtype=np.bool_,
        )
        if mask.any():
            masks[entry.id] = mask
    return masks
