"""Commits: make pending rows the next generation, in the foreground, or in a thread while the writer continues.

Only a first bulk load commits in a thread, and only rows that delete nothing stored. Such a commit merges nothing, so
the segments in which the writer looks rows up stay in place. Where the writer has to look up a document of the commit
in flight, it waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent import futures
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine.collection.generations import Generations
from aidre.engine.collection.indexing import count_written
from aidre.engine.embedding import available_cores
from aidre.engine.model import Visibility
from aidre.engine.segment import MAX_WORKERS, PendingCommit, StagedSegments, Workers, write_pending
from aidre.engine.storage import Manifest, SegmentEntry, changelog, deletes, now
from aidre.engine.types import CommitResult

MIN_BACKGROUND_ROWS = 1_000
"""A smaller commit is not worth a thread."""

MIN_WORKER_ROWS = 20_000
"""A smaller commit is not worth worker processes."""


@dataclass(frozen=True, slots=True)
class CommitDeclaration:
    """What a commit writes to the manifest beside its rows. None, or no dates, keeps what the manifest has."""

    description: str | None
    visibility: Visibility | None
    dates: tuple[str, ...]
    source_roots: Mapping[str, str]
    source_states: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class CommittedRows:
    """What a commit adds: segments with their masks of dropped documents and numbers of chunks, the changelog, and how
    many rows were written."""

    segments: tuple[SegmentEntry, ...]
    masks: dict[str, NDArray[np.bool_]]
    chunk_counts: dict[str, NDArray[np.int32] | None]
    changes: pa.Table
    rows: int


class Committer:
    """The commits of one writer, one at a time. `in_flight` is what a thread is committing, until `take_result`."""

    def __init__(self, folder: Path, generations: Generations) -> None:
        self._folder, self._generations = folder, generations
        self._thread = futures.ThreadPoolExecutor(1, thread_name_prefix="commit")
        self._result: futures.Future[CommitResult] | None = None
        self._workers: Workers | None = None
        self.in_flight: PendingCommit | None = None

    # -- in a thread -------------------------------------------------------------------------------------------

    def can_begin(self, pending: PendingCommit) -> bool:
        """Whether `pending` may and should be committed in a thread."""
        return self._generations.is_bulk_load and not pending.deleted and pending.rows.chunks >= MIN_BACKGROUND_ROWS

    def begin(self, pending: PendingCommit, declaration: CommitDeclaration) -> None:
        """Start to commit in the thread. Rows are freed as they are written, so a failed commit cannot be repeated.

        Requires `can_begin`, and that no commit is in flight.
        """
        self.in_flight = pending
        if self._workers is None and pending.rows.chunks >= MIN_WORKER_ROWS and available_cores() > 1:
            self._workers = Workers(min(MAX_WORKERS, available_cores()))
        self._result = self._thread.submit(self.commit, pending, declaration, release=True)

    @property
    def is_done(self) -> bool:
        """Whether `wait` and `take_result` return at once."""
        return self._result is None or self._result.done()

    def wait(self) -> None:
        """Wait for the commit in flight, without taking its result."""
        if self._result is not None:
            futures.wait([self._result])

    def take_result(self) -> CommitResult | None:
        """Wait for the commit in flight, and return its result or raise its error, once; then None."""
        self.wait()
        result, self._result, self.in_flight = self._result, None, None
        return None if result is None else result.result()

    def close(self) -> None:
        """Stop the workers, by which a commit in flight may fail, and wait for the thread."""
        if self._workers is not None:
            self._workers.close()
        self._thread.shutdown()
        if self._workers is not None:
            self._workers.close_pipes()

    # -- one commit --------------------------------------------------------------------------------------------

    def commit(self, pending: PendingCommit, declaration: CommitDeclaration, *, release: bool = False) -> CommitResult:
        """Commit, durable on return; `release` frees rows as they are written. StorageFailed.

        Requires that no other commit is in flight.
        """
        with self._generations.discarding():
            return self._commit(pending, declaration, release=release)

    def _commit(self, pending: PendingCommit, declaration: CommitDeclaration, *, release: bool) -> CommitResult:
        # All that reads the pending rows comes before the segment is written, which may free them.
        changes = changelog.diff_table(pending.rows.states(pending.dropped_rows), self._states_before(pending))
        new_counts = pending.rows.chunk_counts() if pending.dropped_rows else None
        masks: dict[str, NDArray[np.bool_]] = {}
        chunk_counts: dict[str, NDArray[np.int32] | None] = {}
        segments: tuple[SegmentEntry, ...] = ()
        if pending.row_by_id:
            dates = declaration.dates or self._generations.manifest.dates
            entry = self._write_segment(pending, dates, release=release)
            segments = (entry,)
            if pending.dropped_rows:
                masks[entry.id] = _mask_of(pending.dropped_rows, entry.documents)
                chunk_counts[entry.id] = new_counts
        written = CommittedRows(segments, masks, chunk_counts, changes, pending.rows.chunks)
        return self._publish(pending, declaration, written)

    def adopt(self, staged: StagedSegments, pending: PendingCommit, declaration: CommitDeclaration) -> CommitResult:
        """Make staged segments part of the collection, in one generation with the deletions of `pending`, which has no
        rows. Can be repeated after StorageFailed."""
        changes = changelog.diff_table(staged.states(), self._states_before(pending))
        staged.move_to(self._folder)
        rows = sum(entry.chunks for entry in staged.entries)
        written = CommittedRows(staged.entries, staged.masks, staged.chunk_counts, changes, rows)
        return self._publish(pending, declaration, written)

    # -- its steps ---------------------------------------------------------------------------------------------

    def _publish(self, pending: PendingCommit, declaration: CommitDeclaration, written: CommittedRows) -> CommitResult:
        generations, manifest = self._generations, self._generations.manifest
        generation = generations.next_generation
        chunk_counts = {view.segment.id: view.segment.chunk_counts for view in generations.segments}
        masks = self._deleted_masks(pending) | written.masks
        manifest = _declared(manifest, declaration, (*manifest.segments, *written.segments), written.rows)
        manifest = deletes.write_deletes(self._folder, manifest, generation, masks, chunk_counts | written.chunk_counts)
        manifest = changelog.write_changes(self._folder, manifest, generation, written.changes)
        generations.publish(manifest)
        return CommitResult(generation, generations.manifest.documents, generations.manifest.chunks)

    def _write_segment(self, pending: PendingCommit, dates: tuple[str, ...], *, release: bool) -> SegmentEntry:
        """Write the pending rows as a segment, with the workers where there are any and the rows are many."""
        generations = self._generations
        workers = self._workers if pending.rows.chunks >= MIN_WORKER_ROWS else None
        entry = write_pending(
            self._folder,
            pending.rows,
            generations.manifest.collection.spaces,
            dates,
            executor=workers,
            codebooks=generations.codebooks() if workers is not None else {},
            release=release,
        )
        return generations.detach_indexes(entry)

    def _deleted_masks(self, pending: PendingCommit) -> dict[str, NDArray[np.bool_]]:
        """The complete tombstones of the stored segments in which this commit deletes documents, by segment id."""
        masks: dict[str, NDArray[np.bool_]] = {}
        for segment_ord, deleted in pending.deleted.items():
            view = self._generations.segments[segment_ord]
            masks[view.segment.id] = deleted if view.deleted is None else deleted | view.deleted
        return masks

    def _states_before(self, pending: PendingCommit) -> dict[str, changelog.ChunkState]:
        """The states of the stored chunks that this commit deletes or replaces, by chunk id."""
        before: dict[str, changelog.ChunkState] = {}
        for segment_ord, deleted in pending.deleted.items():
            segment = self._generations.segments[segment_ord].segment
            for document_row in np.flatnonzero(deleted).tolist():
                for row in segment.chunk_rows(document_row):
                    state = changelog.ChunkState(
                        segment.chunks.fixed("content_hash")[row], segment.chunks.fixed("etag")[row]
                    )
                    before[segment.chunks.bytes("id")[row].decode()] = state
        return before


def _mask_of(rows: set[int], size: int) -> NDArray[np.bool_]:
    mask = np.zeros(size, dtype=np.bool_)
    mask[list(rows)] = True
    return mask


def _declared(
    manifest: Manifest, declaration: CommitDeclaration, segments: tuple[SegmentEntry, ...], written_rows: int
) -> Manifest:
    """The manifest of a commit that wrote `written_rows` rows, with its segments and its declaration."""
    description, visibility = declaration.description, declaration.visibility
    return replace(
        manifest,
        segments=segments,
        spaces=count_written(manifest.spaces, written_rows),
        description=manifest.description if description is None else description,
        visibility=visibility or manifest.visibility,
        updated_at=now(),
        dates=declaration.dates or manifest.dates,
        source_roots=dict(declaration.source_roots),
        source_states=dict(declaration.source_states),
    )
