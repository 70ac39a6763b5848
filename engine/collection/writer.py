"""The one writer of a collection: upsert, delete, commit. It holds the collection's lock for its whole life.

A commit appends one small segment and marks replaced and deleted documents as deleted in the others. It becomes
durable by the order of its steps: segment, tombstones, changelog, manifest, CURRENT, each synced before the next. A
merge follows as a generation of its own; where it fails, that is logged, and no error of the write that it follows.

The state of a writer is spread over three objects, each the only one to change its part:

    part            owner                          true while
    pending         Writer._pending, ._spill       a change was made and not committed
    in flight       Committer.in_flight            a thread commits (`begin_commit`), until `wait_for_commit`
    unacknowledged  Generations.is_unacknowledged  a manifest was written and CURRENT was not
    idle            -                              none of these

    idle ── upsert, delete ──▶ pending ── begin_commit ──▶ in flight
     ▲                          │    ▲                      │      │
     ├──────── commit ──────────┘    └─── upsert, delete ───┘      │
     ├───────────────────── wait_for_commit ───────────────────────┘
     │
     └── commit ── unacknowledged ◀── a commit failed between manifest and CURRENT

* idle, or when the commit in flight has ended: only now may segments be merged, spaces filled, and documents of a
  source listed.
* pending: a commit that fails leaves the rows pending, and can be repeated. Rows that are many are spilled to segments
  of the same commit (`Spill`), so that the memory of a commit does not grow with it.
* in flight: only during a first bulk load. New rows become pending meanwhile (both parts then are true); a look-up of a
  document that is in flight waits for the commit. A failed commit cannot be repeated: its rows must be upserted again.
* unacknowledged: readers may have seen the number of the generation, so `commit` makes another one, with or without
  pending rows.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidre.engine.collection import garbage
from aidre.engine.collection.commit import CommitDeclaration, Committer
from aidre.engine.collection.generations import LARGE_SEGMENT_ROWS, Generations
from aidre.engine.collection.lookup import DocumentLocator, find_vectors, live_documents, stored_records
from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.errors import DocumentMissing, InvalidDocument, InvalidInput, SpaceConflict
from aidre.engine.index.vectors import dtype_of, encode
from aidre.engine.model import EmbeddingSpace, EncodedVectors, Record, Visibility
from aidre.engine.ports import EmbedQueries
from aidre.engine.segment import SPILL_BYTES, PendingCommit, Recompute, RecordColumns, Spill, open_staged, to_columns
from aidre.engine.storage import (
    SEGMENTS,
    Manifest,
    SegmentEntry,
    SpaceState,
    WriterLock,
    durable,
    first_manifest,
    now,
    upkeep,
)
from aidre.engine.types import CommitResult


class Writer:
    """A `Sink` (engine/ports.py) and context manager, made by `Store.writer`.

    `generations` is for operations on whole segments while the writer is idle, such as filling or removing a space.
    """

    def __init__(
        self,
        folder: Path,
        manifest: Manifest | None,
        *,
        name: str,
        spaces: Sequence[SpaceState],
        description: str | None,
        visibility: Visibility | None,
        dates: Collection[str],
        stale: Sequence[SpaceState],
        lock: WriterLock,
        began_at: int = 0,
        models: Mapping[str, EmbedQueries] | None = None,
        previous: Snapshot | None = None,
    ) -> None:
        self._lock = lock
        snapshot = Snapshot(folder, manifest, previous) if manifest else None
        self.generations = Generations(folder, manifest or first_manifest(name, spaces, began_at), snapshot, models)
        self._committer = Committer(folder, self.generations)
        self._pending = PendingCommit()
        self._spill: Spill | None = None
        self._staging: list[Path] = []
        self._locator = DocumentLocator()
        self._declared = (description, visibility, tuple(sorted(dates)))
        self._sources = SourceStates(dict(self._manifest.source_roots), dict(self._manifest.source_states))
        self._stale = {state.space.id: state for state in stale}
        newest = self._manifest
        garbage.remove_adopted(folder, newest)
        garbage.remove_unfinished(folder, newest.changes)

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._committer.take_result()  # raises the error of a commit that nobody waited for
        finally:
            try:
                self._committer.close()
                # What a commit that failed has moved here. The staging folders are the mark by which the next writer
                # finds it, so that they go last.
                is_clean = (kind is None and self._spill is None) or self.generations.discard()
                if kind is None:
                    self.generations.collect_garbage()
                for staging in self._staging if is_clean else ():
                    durable.remove_folder(staging)
            finally:
                self._lock.__exit__(kind, error, traceback)

    # -- write -------------------------------------------------------------------------------------------------

    def upsert(
        self,
        records: Sequence[Record] | RecordColumns,
        vectors: Mapping[str, EncodedVectors],
        keys: Mapping[str, Sequence[bytes]],
    ) -> None:
        """Add or replace documents. Row i of each EncodedVectors belongs to chunk i, over all records in order.

        `vectors` has every live space, `keys` the 16-byte embedding keys of the spaces with a model. Of two documents
        with one id the later is kept. InvalidDocument for a document without chunks, InvalidInput for a missing vector,
        SpaceConflict while a space is stale. StorageFailed where pending rows cannot be spilled: they stay pending, and
        these records are not taken.
        """
        records = records if isinstance(records, RecordColumns) else to_columns(records)
        check_upsert(records, vectors, self.spaces, self._stale)
        self._wait_for(records.ids)
        if not self._has_pending:
            self._merge_due()
        # Not at the end of the upsert that made them many: the caller may commit, which writes them with workers.
        if self._pending.rows.bytes >= SPILL_BYTES or self._pending.rows.chunks >= self._max_pending_rows:
            self._spill_pending()
        pending = self._pending
        self._delete_stored(self._locate(records.ids))
        if self._spill is not None:
            self._spill.drop(records.ids)
        pending.register(records.ids)
        pending.rows.add(records, vectors, keys, now())

    def delete(self, document_ids: Sequence[str]) -> int:
        """Delete documents; returns how many of them existed."""
        self._wait_for(document_ids)
        document_ids = list(dict.fromkeys(document_ids))
        locations = self._locate(document_ids)
        was_there = (locations[:, 0] >= 0) & ~self._is_deleted(locations)
        was_there |= np.array([self._pending.withdraw(document_id) for document_id in document_ids], np.bool_)
        if self._spill is not None:
            was_there |= self._spill.drop(document_ids)
        self._delete_stored(locations)
        return int(was_there.sum())

    def commit(self) -> CommitResult | None:
        """Make all pending changes a new generation, durable on return. None where nothing is pending.

        StorageFailed leaves them pending.
        """
        self.wait_for_commit()
        if not self._has_pending and not self.generations.is_unacknowledged:
            return None
        if self._spill is None:
            result = self._committer.commit(self._pending, self._declaration())
        else:
            self._spill_pending()
            result = self._committer.adopt(self._spill.staged(), self._pending, self._declaration())
            self._spill.remove()
        self._pending, self._spill = PendingCommit(), None
        return result

    def finish(self) -> None:
        """End a run: commit, index a first bulk load and merge its small segments, then merge what is due.

        StorageFailed is that of the commit. What follows it is `upkeep`, whose errors are logged.
        """
        self.commit()
        with upkeep(self.generations.folder, "the first load was not merged and calibrated"):
            self.generations.end_bulk_load()
        self._merge_due()

    @property
    def snapshot(self) -> Snapshot | None:
        return self.generations.snapshot

    @property
    def spaces(self) -> Mapping[str, EmbeddingSpace]:
        return {state.space.id: state.space for state in self._manifest.spaces if state.state == "live"}

    @property
    def pending_bytes(self) -> int:
        return self._pending.rows.bytes

    @property
    def is_full(self) -> bool:
        """Never: rows that are many are spilled."""
        return False

    # -- vectors -----------------------------------------------------------------------------------------------

    def encode(self, space_id: str, vectors: NDArray[np.float32], *, for_upsert: bool = False) -> EncodedVectors:
        """Vectors of shape (n, dimensions) in stored form. DimensionMismatch, InvalidVector with `details["row"]`.

        `for_upsert` promises that the next `upsert` has all of them: they are written where it would copy them to.
        """
        space = self.spaces[space_id]
        rows = self._pending.rows
        into = rows.reserve_vectors(space_id, len(vectors), space.dimensions, dtype_of(space)) if for_upsert else None
        return encode(space, vectors, into)

    def reuse(self, space_id: str, keys: Sequence[bytes]) -> tuple[NDArray[np.bool_], EncodedVectors]:
        in_flight = self._committer.in_flight
        unpublished = [self._pending] if in_flight is None else [self._pending, in_flight]
        spilled = [] if self._spill is None else self._spill.views
        return find_vectors(self.spaces[space_id], keys, unpublished, [*self.generations.segments, *spilled])

    # -- documents ---------------------------------------------------------------------------------------------

    def fingerprints(self, document_ids: Sequence[str]) -> list[bytes | None]:
        return self._values("fingerprint", document_ids)

    def stored_records(
        self, document_ids: Sequence[str]
    ) -> tuple[list[Record], Mapping[str, EncodedVectors], Mapping[str, Sequence[bytes]]]:
        """Stored documents as `upsert` takes them, without text beside that of their chunks. Requires that nothing is
        pending. DocumentMissing names the first that is not stored."""
        locations = self._locate(document_ids)
        absent = np.flatnonzero(locations[:, 0] < 0)
        if len(absent):
            document_id = document_ids[int(absent[0])]
            raise DocumentMissing(f"there is no document {document_id!r}", document_id=document_id)
        return stored_records(self.generations.segments, locations, list(self.spaces.values()))

    def updated_at(self, document_ids: Sequence[str]) -> list[str | None]:
        return self._values("updated_at", document_ids)

    def documents_of(self, source: str) -> Iterator[tuple[str, str]]:
        """Id and origin of each live document of a source. Requires that nothing is pending."""
        return live_documents(self.generations.segments, source, "id", "origin")

    def states_of(self, source: str) -> Iterator[tuple[str, bytes | None]]:
        """Origin and state (JSON) of each live document of a source. Requires that nothing is pending."""
        return live_documents(self.generations.segments, source, "origin", "state")

    # -- sources -----------------------------------------------------------------------------------------------

    def source_roots(self) -> Mapping[str, str]:
        """The folder or URL that each source was read from, so that two do not share a name by accident."""
        return dict(self._sources.roots)

    def set_source_root(self, source: str, root: str) -> None:
        self._pending.changed |= self._sources.set_root(source, root)

    def source_states(self) -> Mapping[str, Mapping[str, str]]:
        """HTTP validators and the like of each fetched listing (feed, sitemap), by URL, for conditional requests."""
        return dict(self._sources.states)

    def set_source_state(self, url: str, state: Mapping[str, str]) -> None:
        """Set the state of a listing; call it after all of its documents were upserted."""
        self._pending.changed |= self._sources.set_state(url, state)

    def forget_source(self, source: str) -> None:
        """Remove the root of a source, and the states of listings whose default source name it is."""
        self._pending.changed |= self._sources.forget(source)

    # -- commits in a thread -----------------------------------------------------------------------------------

    def begin_commit(self) -> CommitResult | None:
        """Commit in a thread during a first bulk load (returns None), else at once (returns as `commit`).

        Take the result of an earlier commit with `wait_for_commit` before. If this one fails, its rows are lost to the
        writer and must be upserted again.
        """
        if self._spill is not None or not self._committer.can_begin(self._pending):
            return self.commit()
        pending, self._pending = self._pending, PendingCommit()
        self._committer.begin(pending, self._declaration())
        return None

    @property
    def is_commit_done(self) -> bool:
        """Whether `wait_for_commit` returns at once."""
        return self._committer.is_done

    def wait_for_commit(self) -> CommitResult | None:
        """Wait for the commit in flight; return its result or raise its error (StorageFailed) once, then None."""
        return self._committer.take_result()

    # -- segments of other processes ---------------------------------------------------------------------------

    def stage(self) -> Path:
        """A new folder for segments that other processes write and `adopt` takes. It goes with this writer; where that
        is killed, the next one removes it, and what was moved out of it and not adopted."""
        staging = self.generations.folder / SEGMENTS / f".{secrets.token_hex(8)}.tmp"
        self._staging.append(staging)
        durable.make_folder(staging)
        return staging

    def staged_rows(self) -> tuple[Path, list[SegmentEntry]]:
        """All pending rows as segments in a staging folder, for a writer of another store to adopt. They stay pending
        here, and the folder goes with this writer. Documents that were replaced are in them; the later one is last.
        StorageFailed."""
        self._spill_pending()
        if self._spill is None:
            return self.stage(), []
        return self._spill.staging, [view.segment.entry for view in self._spill.views]

    def adopt(
        self,
        staging: Path,
        segments: Sequence[SegmentEntry],
        withdrawn: Collection[str] = (),
        *,
        cures: Mapping[str, str] | None = None,
    ) -> CommitResult | None:
        """Make the segments in a folder of `stage` one generation, durable on return. None where that changes nothing.

        Of two documents with one id the later is kept; documents of the collection with these ids are replaced. Those
        in `withdrawn` are not: their stored version stays. Requires that no upsert is pending; deletions and sources
        are part of the generation. StorageFailed for a file that does not have its checksum, or where the disk fails:
        then it can be called again; `cures` say by segment what helps against a damaged one. SpaceConflict while a
        space is stale, InvalidInput for pending rows.
        """
        self.wait_for_commit()
        if not segments:
            return self.commit()
        if self._pending.row_by_id or self._spill is not None:
            raise InvalidInput("segments cannot be adopted while documents are pending: commit them first")
        if {entry.id for entry in self._manifest.segments} & {entry.id for entry in segments}:
            raise InvalidInput("these segments are part of the collection already: adopt each once")
        check_not_stale(self._stale)
        staged = open_staged(staging, segments, withdrawn, self._manifest, cures or {})
        self._delete_stored(self._locate(staged.live_ids()))
        result = self._committer.adopt(staged, self._pending, self._declaration())
        self._pending = PendingCommit()
        return result

    # -- whole segments ----------------------------------------------------------------------------------------

    def compact(self) -> None:
        """Commit, then rewrite all live rows into as few segments as possible, with newly trained indexes."""
        self.commit()
        self.generations.merge_all()

    def purge(self) -> None:
        """Commit, then erase deleted documents and all older generations from the disk.

        Readers that have an older generation open keep its files, which have no name any more, until they close it.
        StorageFailed names a file that cannot be removed.
        """
        self.commit()
        self.generations.purge()

    # -- spaces that cannot be written -------------------------------------------------------------------------

    @property
    def stale_spaces(self) -> tuple[str, ...]:
        """Spaces stored with another model, revision of it or precision than configured: `reembed` them first."""
        return tuple(self._stale)

    @property
    def unfinished_spaces(self) -> tuple[str, ...]:
        """Spaces of a backfill that is not complete: an upsert brings no vectors for them."""
        return tuple(state.space.id for state in self._manifest.spaces if state.state != "live")

    def reembed(self, recompute: Mapping[str, Recompute]) -> None:
        """Compute the vectors of every stale space from the stored chunks, in one generation that changes nothing else.

        Until it is durable the old vectors answer. Vectors of two revisions are never mixed in a space, even if this
        fails.
        """
        self.commit()
        before, stale = self._manifest, self._stale
        states = [stale.get(state.space.id, state) for state in before.spaces]
        self.generations.manifest = replace(before, spaces=tuple(states))
        self._stale = {}
        try:
            self.generations.merge_all(recompute)
        except BaseException:
            self.generations.manifest, self._stale = before, stale
            raise

    # -- inside ------------------------------------------------------------------------------------------------

    def _merge_due(self) -> None:
        """Merge segments as the merge policy asks for; each merge is a generation of its own.

        Runs while nothing is pending: `finish` and the first `upsert` after a commit call it. A first bulk load
        postpones it to `finish`, unless the segments become too many.
        """
        if self.generations.may_merge:
            self._committer.wait()
            with upkeep(self.generations.folder, "segments were not merged"):
                self.generations.merge_due()

    @property
    def _manifest(self) -> Manifest:
        return self.generations.manifest

    def _declaration(self) -> CommitDeclaration:
        return CommitDeclaration(*self._declared, dict(self._sources.roots), dict(self._sources.states))

    @property
    def _has_pending(self) -> bool:
        return self._spill is not None or not self._pending.is_empty

    @property
    def _max_pending_rows(self) -> int:
        return min(LARGE_SEGMENT_ROWS, self.generations.max_segment_rows // 2)

    def _spill_pending(self) -> None:
        """Write the pending rows as a segment of the next commit. StorageFailed leaves them pending."""
        pending = self._pending
        if not pending.row_by_id:
            return
        self._committer.wait()  # what is in flight becomes stored, so that later segments have the later ords
        spill = self._spill or Spill(self.stage())
        dates = self._declaration().dates or self._manifest.dates
        spill.write(self.generations.folder, pending, replace(self._manifest, dates=dates))
        self._spill, self._pending = spill, PendingCommit(deleted=pending.deleted, changed=pending.changed)

    def _wait_for(self, document_ids: Sequence[str]) -> None:
        """Wait for the commit in flight if it holds any of these documents."""
        in_flight = self._committer.in_flight
        if in_flight is not None and not in_flight.row_by_id.keys().isdisjoint(document_ids):
            self._committer.wait()

    def _locate(self, document_ids: Sequence[str]) -> NDArray[np.int64]:
        return self._locator.locate(self.snapshot, document_ids)

    def _values(self, column: str, document_ids: Sequence[str]) -> list[Any]:
        """A column of each document: of its pending row, else of its stored row unless that is pending deletion."""
        values: list[Any] = [None] * len(document_ids)
        self._wait_for(document_ids)
        locations = self._locate(document_ids)
        spilled = None if self._spill is None else self._spill.locate(document_ids)
        pending = self._pending
        is_stored = (locations[:, 0] >= 0) & ~self._is_deleted(locations)
        is_spilled = np.zeros(len(locations), np.bool_) if spilled is None else spilled[:, 0] >= 0
        if not (is_stored | is_spilled).any() and pending.row_by_id.keys().isdisjoint(document_ids):
            return values
        segments = self.generations.segments
        for number, document_id in enumerate(document_ids):
            pending_row = pending.row_by_id.get(document_id)
            if pending_row is not None:
                values[number] = pending.rows.document_value(column, pending_row)
            elif self._spill is not None and spilled is not None and is_spilled[number]:
                values[number] = self._spill.value(column, *spilled[number].tolist())
            elif is_stored[number]:
                segment_ord, row = locations[number].tolist()
                values[number] = segments[segment_ord].segment.documents.value(column, row)
        return values

    def _delete_stored(self, locations: NDArray[np.int64]) -> None:
        """Mark stored documents, by their location, to be deleted with the next commit."""
        for segment_ord in np.unique(locations[locations[:, 0] >= 0, 0]).tolist():
            documents = self.generations.segments[segment_ord].segment.entry.documents
            mask = self._pending.deleted.setdefault(segment_ord, np.zeros(documents, np.bool_))
            mask[locations[locations[:, 0] == segment_ord, 1]] = True

    def _is_deleted(self, locations: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each document, by its location, is marked so."""
        is_deleted = np.zeros(len(locations), np.bool_)
        for segment_ord, mask in self._pending.deleted.items():
            here = locations[:, 0] == segment_ord
            is_deleted[here] = mask[locations[here, 1]]
        return is_deleted


# -- what every writer remembers and checks, also of other engines --------------------------------------------


@dataclass(slots=True)
class SourceStates:
    """The roots of sources, and the states of fetched listings by URL. A method tells whether it changed anything."""

    roots: dict[str, str]
    states: dict[str, Mapping[str, str]]

    def set_root(self, source: str, root: str) -> bool:
        is_new = self.roots.get(source) != root
        self.roots[source] = root
        return is_new

    def set_state(self, url: str, state: Mapping[str, str]) -> bool:
        is_new = self.states.get(url) != state
        self.states[url] = dict(state)
        return is_new

    def forget(self, source: str) -> bool:
        """Remove the root of a source, and the states of listings whose default source name it is."""
        remaining = {url: state for url, state in self.states.items() if _default_source_name(url) != source}
        is_known = self.roots.pop(source, None) is not None or len(remaining) < len(self.states)
        self.states = remaining
        return is_known


def _default_source_name(url: str) -> str:
    """The name of a source that is a URL and was given no other name."""
    return url.partition("://")[2].rstrip("/")


def check_upsert(
    records: RecordColumns, vectors: Mapping[str, EncodedVectors], spaces: Iterable[str], stale: Iterable[str]
) -> None:
    """InvalidDocument for a document without chunks, InvalidInput for a missing vector, SpaceConflict while a space is
    stale."""
    if 0 in records.chunks.counts:
        empty = records.ids[records.chunks.counts.index(0)]
        raise InvalidDocument(f"document {empty!r} has no chunks: leave it out or delete it", document_id=empty)
    check_not_stale(stale)
    chunks = sum(records.chunks.counts)
    for space_id in spaces:
        rows = len(vectors[space_id].codes) if space_id in vectors else 0
        if rows != chunks:
            raise InvalidInput(f"embedding space {space_id!r} got {rows} vectors: bring {chunks}, one a chunk")


def check_not_stale(stale: Iterable[str]) -> None:
    for space_id in stale:
        raise SpaceConflict(
            f"embedding space {space_id!r} holds vectors of another revision: compute them anew first",
            embedding_space=space_id,
            member="revision",
        )
