"""The rows of a commit that no longer fit in memory: segments that the writer wrote before it, in a staging folder.

They are part of no generation until the commit moves them to their place. Until then the writer looks documents and
vectors up in them as in stored segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine.segment.pending import PendingCommit
from aidre.engine.segment.segment_reader import SegmentReader
from aidre.engine.segment.segment_writer import Staging, write_pending
from aidre.engine.segment.staged import Mask, StagedSegments
from aidre.engine.segment.view import SegmentView
from aidre.engine.storage import CHUNK_STATE_SCHEMA, Manifest, durable

SPILL_BYTES = 160 << 20
"""Pending rows of this size are spilled. Writing their segment takes about as much memory again."""


class Spill:
    """The spilled segments of one commit. `dropped` marks by segment the documents that a later one replaced or that
    were deleted; `views` show the segments without regard to that, for look-ups of embedding keys."""

    def __init__(self, staging: Path) -> None:
        self.staging = staging
        self.views: list[SegmentView] = []
        self.dropped: list[Mask] = []

    def write(self, folder: Path, pending: PendingCommit, manifest: Manifest) -> None:
        """Write the pending rows of the collection in `folder` as one more segment, durably. StorageFailed."""
        spaces, dates = manifest.collection.spaces, manifest.dates
        staging = Staging(self.staging, str(len(self.views)))
        entry = write_pending(folder, pending.rows, spaces, dates, staging=staging)
        segment = SegmentReader(self.staging / entry.id, entry, spaces, manifest)
        mask = np.zeros(entry.documents, np.bool_)
        mask[list(pending.dropped_rows)] = True
        self.views.append(SegmentView(segment, None))
        self.dropped.append(mask)
        pa.default_memory_pool().release_unused()

    # -- look-ups ----------------------------------------------------------------------------------------------

    def locate(self, document_ids: Sequence[str]) -> NDArray[np.int64]:
        """(number of the segment, document row) of each document, shape (n, 2); (-1, -1) where it was not spilled, or
        dropped since."""
        locations = np.full((len(document_ids), 2), -1, np.int64)
        keys = [document_id.encode("utf-8", "surrogatepass") for document_id in document_ids]
        for number, (view, dropped) in enumerate(zip(self.views, self.dropped, strict=True)):
            rows = view.segment.find_documents(keys)
            hits = np.flatnonzero(rows >= 0)
            hits = hits[~dropped[rows[hits]]]
            locations[hits, 0], locations[hits, 1] = number, rows[hits]
        return locations

    def drop(self, document_ids: Sequence[str]) -> NDArray[np.bool_]:
        """Drop documents; whether each was there."""
        locations = self.locate(document_ids)
        is_there = locations[:, 0] >= 0
        for number in np.unique(locations[is_there, 0]).tolist():
            self.dropped[number][locations[locations[:, 0] == number, 1]] = True
        return is_there

    def value(self, column: str, number: int, row: int) -> Any:
        return self.views[number].segment.documents.value(column, row)

    # -- the commit --------------------------------------------------------------------------------------------

    def staged(self) -> StagedSegments:
        """The segments as a commit takes them, without those that have no document left."""
        numbers = [number for number, mask in enumerate(self.dropped) if not mask.all()]
        segments = [self.views[number].segment for number in numbers]
        masks = {
            self.views[number].segment.id: self.dropped[number] for number in numbers if self.dropped[number].any()
        }
        return StagedSegments(
            self.staging,
            tuple(segment.entry for segment in segments),
            masks,
            {segment.id: segment.chunk_counts for segment in segments},
            [pa.Table.from_batches(segment.chunks.file.batches).select(_STATES) for segment in segments],
        )

    def remove(self) -> None:
        """Remove what was not moved to its place."""
        durable.remove_folder(self.staging)


_STATES = ["document_row", *CHUNK_STATE_SCHEMA.names]
