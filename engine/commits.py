"""Makes what is pending the next generation: at once, or in a thread while the writer goes on.

Only a first bulk load goes on meanwhile: it deletes nothing and merges nothing, so that what the writer looks up
stays where it is. What the writer must look up in a commit that is under way, it waits for.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent import futures
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine import changes, deletes
from aidre.engine.generations import Generations
from aidre.engine.indexing import counted
from aidre.engine.manifest import now
from aidre.engine.model import Visibility
from aidre.engine.rows import Pending
from aidre.engine.segment_writer import write_pending
from aidre.engine.workers import MOST, Workers, processors

AHEAD_ROWS = 1_000
"""A commit of fewer chunks is made at once."""

SHARED_ROWS = 20_000
"""A commit of so many chunks is worth processes of its own."""


@dataclass(frozen=True, slots=True)
class CommitResult:
    """A durable generation: its number and the live counts of the collection in it."""

    generation: int
    documents: int
    chunks: int


@dataclass(frozen=True, slots=True)
class Stated:
    """What a commit says beside its rows; None leaves what the manifest has."""

    description: str | None
    visibility: Visibility | None
    dates: tuple[str, ...]
    source_roots: Mapping[str, str]
    source_states: Mapping[str, Mapping[str, str]]


class Commits:
    """The commits of one writer, one after the other."""

    def __init__(self, folder: Path, generations: Generations) -> None:
        self._folder, self._generations = folder, generations
        self._thread = futures.ThreadPoolExecutor(1, thread_name_prefix="commit")
        self._result: futures.Future[CommitResult] | None = None
        self._workers: Workers | None = None
        self.under_way: Pending | None = None

    def make(self, pending: Pending, stated: Stated) -> CommitResult:
        """Commit and wait for it. Call it with nothing under way."""
        return self._make(pending, stated)

    def begin(self, pending: Pending, stated: Stated) -> None:
        """Commit in another thread; `settle` says what came of it, and there is no second try.

        Call it with nothing under way, and only where `may_go_ahead`.
        """
        self.under_way = pending
        if self._workers is None and pending.rows.chunks >= SHARED_ROWS and processors() > 1:
            self._workers = Workers(min(MOST, processors()))
        self._result = self._thread.submit(self._make, pending, stated, release=True)

    def may_go_ahead(self, pending: Pending) -> bool:
        return self._generations.bulk and not pending.deleted and pending.rows.chunks >= AHEAD_ROWS

    @property
    def is_settled(self) -> bool:
        """Whether `settle` need not wait."""
        return self._result is None or self._result.done()

    def settle(self) -> CommitResult | None:
        """What came of the last `begin`, None where that was told already; raises what went wrong."""
        self.wait()
        result, self._result, self.under_way = self._result, None, None
        return None if result is None else result.result()

    def wait(self) -> None:
        """Wait until nothing is under way; `settle` tells what came of it."""
        if self._result is not None:
            futures.wait([self._result])

    def close(self) -> None:
        """Wait for what is under way, or make it fail where it still can; end what was started."""
        if self._workers is not None:
            self._workers.close()
        self._thread.shutdown()
        if self._workers is not None:
            self._workers.let_go()

    # -- inside --------------------------------------------------------------------------------------------

    def _make(self, pending: Pending, stated: Stated, *, release: bool = False) -> CommitResult:
        generations, manifest = self._generations, self._generations.manifest
        is_shared = self._workers is not None and pending.rows.chunks >= SHARED_ROWS
        listed = self._changes(pending)
        generation = generations.next
        dates = stated.dates or manifest.dates
        segments = list(manifest.segments)
        deleted = self._deleted_masks(pending)
        own_counts = pending.rows.chunk_counts() if pending.dropped else None
        if pending.rows_of:
            entry = write_pending(
                self._folder,
                pending.rows,
                manifest.collection.spaces,
                dates,
                derivation=self._workers if is_shared else None,
                codebooks=generations.codebooks() if is_shared else {},
                release=release,
            )
            entry = generations.set_aside(entry)
            segments.append(entry)
            if pending.dropped:
                mask = np.zeros(entry.documents, dtype=np.bool_)
                mask[list(pending.dropped)] = True
                deleted[entry.id] = mask
        counts = {part.segment.id: part.segment.chunk_counts for part in generations.parts}
        if pending.dropped and pending.rows_of:
            counts[segments[-1].id] = own_counts
        manifest = replace(
            manifest,
            segments=tuple(segments),
            spaces=counted(manifest.spaces, pending.rows.chunks),
            description=manifest.description if stated.description is None else stated.description,
            visibility=stated.visibility or manifest.visibility,
            updated_at=now(),
            dates=dates,
            source_roots=dict(stated.source_roots),
            source_states=dict(stated.source_states),
        )
        manifest = deletes.with_deletes(self._folder, manifest, generation, deleted, counts)
        manifest = changes.with_changes(self._folder, manifest, generation, listed)
        generations.publish(manifest)
        return CommitResult(generation, generations.manifest.documents, generations.manifest.chunks)

    def _deleted_masks(self, pending: Pending) -> dict[str, NDArray[np.bool_]]:
        """The complete masks of the segments in which this commit deletes documents."""
        masks: dict[str, NDArray[np.bool_]] = {}
        for place, row in pending.deleted:
            part = self._generations.parts[place]
            mask = masks.get(part.segment.id)
            if mask is None:
                empty = np.zeros(part.segment.entry.documents, dtype=np.bool_)
                mask = masks[part.segment.id] = empty if part.deleted is None else part.deleted.copy()
            mask[row] = True
        return masks

    def _changes(self, pending: Pending) -> pa.RecordBatch:
        """What this commit does to each chunk: added, changed (its content or its metadata) or deleted."""
        before: dict[str, changes.State] = {}
        for place, row in pending.deleted:
            segment = self._generations.parts[place].segment
            for chunk in segment.chunk_rows(row):
                state = changes.State(segment.chunks.fixed("content_hash")[chunk], segment.chunks.fixed("etag")[chunk])
                before[segment.chunks.bytes("id")[chunk].decode()] = state
        return changes.listed(pending.rows.states(pending.dropped), before)
