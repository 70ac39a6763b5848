"""Tombstones: which documents of which segments are deleted.

Segments are immutable. A commit that deletes documents writes one small file with a bitmap for each segment in which it
deleted any, and the manifest names the newest such file of each segment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine.errors import StorageFailed, StoreDamaged
from aidre.engine.storage import durable
from aidre.engine.storage.arrow import FileEntry, FileProblem, FileUnreadable, check_columns, open_file, write_file
from aidre.engine.storage.format import DELETES, DELETES_SCHEMA
from aidre.engine.storage.manifest import Manifest, SegmentEntry

Mask = NDArray[np.bool_]
"""True where a document, by its row in the segment, is deleted; shape (documents,)."""


def write_deletes(
    folder: Path,
    manifest: Manifest,
    generation: int,
    masks: Mapping[str, Mask],
    chunk_counts: Mapping[str, NDArray[np.int32] | None],
) -> Manifest:
    """Write the complete masks of the segments that changed, and return the manifest that names them. StorageFailed.

    `chunk_counts` has the number of chunks of each document by segment, None where every document has one. A segment
    without live chunks is dropped from the manifest.
    """
    if not masks:
        return manifest
    path = folder / DELETES / f"{generation:06d}.arrow"
    bitmaps = [np.packbits(mask, bitorder="little").tobytes() for mask in masks.values()]
    batch = pa.RecordBatch.from_pydict({"segment": list(masks), "documents": bitmaps}, schema=DELETES_SCHEMA)
    durable.make_folder(path.parent)
    file = write_file(path, [batch], DELETES_SCHEMA)
    durable.finalize_file(path)

    def with_mask(entry: SegmentEntry) -> SegmentEntry:
        mask = masks.get(entry.id)
        if mask is None:
            return entry
        counts = chunk_counts.get(entry.id)
        deleted_chunks = int(mask.sum() if counts is None else counts[mask].sum())
        return replace(entry, deletes=path.name, deleted_documents=int(mask.sum()), deleted_chunks=deleted_chunks)

    segments = tuple(entry for entry in map(with_mask, manifest.segments) if entry.live_chunks)
    return prune_deletes(replace(manifest, segments=segments, deletes={**manifest.deletes, path.name: file}))


def prune_deletes(manifest: Manifest) -> Manifest:
    """The manifest without the tombstone files that no segment names any more."""
    named = {entry.deletes for entry in manifest.segments}
    return replace(manifest, deletes={name: file for name, file in manifest.deletes.items() if name in named})


def read_deletes(folder: Path, manifest: Manifest) -> Mapping[str, Mask]:
    """The masks of the segments that have deleted documents, by segment id. StoreDamaged, StorageFailed."""
    entries = {entry.id: entry for entry in manifest.segments}
    masks: dict[str, Mask] = {}
    for name, file in manifest.deletes.items():
        batch = _read_batch(folder, name, file, manifest.name)
        for segment_id, bitmap in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            entry = entries.get(segment_id)
            if entry is not None and entry.deletes == name:
                packed = np.frombuffer(bitmap, dtype=np.uint8)
                masks[segment_id] = np.unpackbits(packed, count=entry.documents, bitorder="little").astype(bool)
    return masks


def _read_batch(folder: Path, name: str, file: FileEntry, collection: str) -> pa.RecordBatch:
    try:
        opened = open_file(folder / DELETES / name, file, whole=True)
        check_columns(opened, DELETES_SCHEMA)
        if len(opened.batches) != 1 or any(column.null_count for column in opened.batches[0].columns):
            raise FileProblem("does not hold one list of deleted documents")
        return opened.batches[0]
    except FileProblem as problem:
        where = f"{collection}/{DELETES}/{name}"
        if isinstance(problem, FileUnreadable):
            raise StorageFailed(f"{where} {problem}", file=where) from problem
        raise StoreDamaged(
            f"{where} {problem}: restore it from a backup", collection=collection, file=where, problem=str(problem)
        ) from problem
