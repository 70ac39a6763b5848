"""Segments without a collection: written from records, opened, and viewed with some documents deleted."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from aidre.engine.index.vectors.encoding import encode
from aidre.engine.model import EmbeddingSpace, Record
from aidre.engine.segment.pending import PendingRows
from aidre.engine.segment.records import to_columns
from aidre.engine.segment.segment_reader import SegmentReader
from aidre.engine.segment.segment_writer import write_pending
from aidre.engine.segment.view import SegmentView
from aidre.engine.storage.format import SEGMENTS
from aidre.engine.storage.manifest import SegmentEntry, SpaceState, first_manifest
from tests.support.stores import NAME, SPACE, TIME, Vectors, normal


def pending_rows(
    records: Sequence[Record],
    vectors: Vectors,
    space: EmbeddingSpace = SPACE,
    keys: Mapping[str, Sequence[bytes]] | None = None,
) -> PendingRows:
    """What an upsert of the records leaves to be committed; row i of `vectors` belongs to chunk i."""
    rows = PendingRows()
    rows.add(to_columns(records), {space.id: encode(space, vectors)}, keys or {}, TIME)
    return rows


def write_segment(
    folder: Path,
    records: Sequence[Record],
    vectors: Vectors | None = None,
    *,
    space: EmbeddingSpace = SPACE,
    keys: Sequence[bytes] | None = None,
    dates: Collection[str] = (),
) -> SegmentReader:
    """A new segment below `folder`, opened."""
    if vectors is None:
        vectors = normal(sum(len(record.chunks) for record in records), space.dimensions)
    rows = pending_rows(records, vectors, space, {space.id: keys} if keys else None)
    return open_segment(folder, write_pending(folder, rows, [space], list(dates)), space, dates)


def open_segment(
    folder: Path, entry: SegmentEntry, space: EmbeddingSpace = SPACE, dates: Collection[str] = ()
) -> SegmentReader:
    manifest = replace(first_manifest(NAME, [SpaceState(space)]), dates=tuple(dates))
    return SegmentReader(folder / SEGMENTS / entry.id, entry, [space], manifest)


def without(segment: SegmentReader, document_rows: Sequence[int]) -> SegmentView:
    """The segment as a generation sees it in which these documents are deleted."""
    deleted = np.zeros(segment.entry.documents, np.bool_)
    deleted[list(document_rows)] = True
    return SegmentView(segment, deleted)
