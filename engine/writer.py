"""The one writer of a collection: upsert, delete, commit, merge. Holds the lock for its whole run.

A commit appends one small segment, marks replaced documents as deleted, and becomes durable by the order of
its steps: segment, list of deletes, list of changes, manifest, CURRENT, each synced before the next.
Merging follows as a generation of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine import changes, deletes, durable, sweep
from aidre.engine.errors import InvalidDocument
from aidre.engine.indexing import GROWTH, counted, index_generation
from aidre.engine.lock import WriterLock
from aidre.engine.manifest import Manifest, SegmentEntry, SpaceState, first_manifest, now, to_bytes
from aidre.engine.merging import MOST_SEGMENTS, Size, groups, to_merge
from aidre.engine.model import Encoded, Record, Visibility
from aidre.engine.rows import Pending
from aidre.engine.schema import CURRENT, MANIFESTS, manifest_name, segment_rows
from aidre.engine.search import Part
from aidre.engine.segment_writer import Recompute, survivors, write_merged, write_pending
from aidre.engine.snapshot import Snapshot
from aidre.engine.vectors import dtype_of, encode

RECALL_TARGET = 0.99
_NOWHERE = np.empty((0, 2), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class CommitResult:
    """A durable generation: its number and the live counts of the collection in it."""

    generation: int
    documents: int
    chunks: int


class Writer:
    """Use as a context manager. `snapshot` is the newest generation, None until the first commit."""

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
    ) -> None:
        self._folder = folder
        self._lock = lock
        self._manifest = manifest or first_manifest(name, spaces)
        self._settings = (description, visibility, tuple(sorted(dates)))
        self._bulk = manifest is None
        self._named = self._manifest.generation
        self._source_roots = dict(self._manifest.source_roots)
        self._pending = Pending()
        self._looked_up: tuple[dict[str, int], NDArray[np.int64]] = ({}, _NOWHERE)
        self._stale = {state.space.id: state for state in stale}
        self.snapshot = Snapshot(folder, manifest) if manifest else None
        self.spaces = {state.space.id: state.space for state in self._manifest.spaces}
        sweep.remove_unfinished(folder)

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock.__exit__(kind, error, traceback)

    # -- another revision of a model -------------------------------------------------------------------------

    @property
    def stale(self) -> tuple[str, ...]:
        """Spaces whose stored vectors come from another revision than was asked for: `reembed` them first."""
        return tuple(self._stale)

    def reembed(self, anew: Mapping[str, Recompute]) -> None:
        """Compute the vectors of every stale space from the stored chunks, in one generation, nothing else changed.

        Until it is durable the old vectors answer; vectors of two revisions never stand in one space, also where
        this fails.
        """
        before = self._manifest, self.spaces, self._stale
        states = [self._stale.get(state.space.id, state) for state in self._manifest.spaces]
        self._manifest = replace(self._manifest, spaces=tuple(states))
        self.spaces = {state.space.id: state.space for state in states}
        self._stale = {}
        lives = [entry.live_chunks for entry in self._manifest.segments]
        try:
            if lives:
                self._merge(groups(lives, self._most_rows()), calibrate_anew=True, anew=anew)
        except BaseException:
            self._manifest, self.spaces, self._stale = before
            raise

    # -- what is stored already ----------------------------------------------------------------------------

    def fingerprints(self, document_ids: Sequence[str]) -> list[bytes | None]:
        """The fingerprint of each live or pending document, None for the others."""
        return self._stored("fingerprint", document_ids)

    def updated_at(self, document_ids: Sequence[str]) -> list[str | None]:
        return self._stored("updated_at", document_ids)

    def _stored(self, column: str, document_ids: Sequence[str]) -> list[Any]:
        values: list[Any] = [None] * len(document_ids)
        places = self._places(document_ids)
        if (places[:, 0] < 0).all() and self._pending.rows_of.keys().isdisjoint(document_ids):
            return values
        for number, document_id in enumerate(document_ids):
            row = self._pending.rows_of.get(document_id)
            part, stored = places[number]
            if row is not None:
                values[number] = self._pending.rows.document_value(column, row)
            elif part >= 0 and (part, stored) not in self._pending.deleted:
                values[number] = self._parts[part].segment.documents.value(column, stored)
        return values

    def documents_of(self, source: str) -> Iterator[tuple[str, str]]:
        """Id and origin of each live document that a source brought; call it with nothing pending."""
        for part in self._parts:
            row = 0
            for batch in part.segment.documents.file.batches:
                columns = (batch.column(name).to_pylist() for name in ("id", "origin", "source"))
                for document_id, origin, name in zip(*columns, strict=True):
                    if name == source and part.is_live(row):
                        yield document_id, origin
                    row += 1

    def source_roots(self) -> Mapping[str, str]:
        """Where each source name was read from, so that two folders do not share a name by accident."""
        return dict(self._source_roots)

    def set_source_root(self, source: str, root: str) -> None:
        if self._source_roots.get(source) != root:
            self._source_roots[source] = root
            self._pending.changed = True

    def reuse(self, space_id: str, keys: Sequence[bytes]) -> tuple[NDArray[np.bool_], Encoded]:
        """Which embedding keys the store has vectors for, and those vectors in stored form (other rows zero)."""
        space = self.spaces[space_id]
        found = np.zeros(len(keys), dtype=np.bool_)
        codes = np.zeros((len(keys), space.dimensions), dtype=dtype_of(space))
        norms = np.ones(len(keys), dtype=np.float32)
        for number, key in enumerate(keys):
            pending = self._pending.rows.find_key(space_id, key)
            if pending is not None:
                codes[number], norms[number] = pending
                found[number] = True
        for part in reversed(self._parts):
            missing = np.flatnonzero(~found)
            if not len(missing):
                break
            rows = part.segment.find_keys(space_id, [keys[number] for number in missing.tolist()])
            hits = rows >= 0
            codes[missing[hits]] = part.segment.columns[space_id].take(rows[hits])
            norms[missing[hits]] = part.segment.norms(space_id)[rows[hits]]
            found[missing[hits]] = True
        return found, Encoded(codes, norms)

    def encode(self, space_id: str, vectors: NDArray[np.float32]) -> Encoded:
        """Vectors (n, dimensions) in stored form. DimensionMismatch, InvalidVector with `details["row"]`."""
        return encode(self.spaces[space_id], vectors)

    # -- what is to be stored ------------------------------------------------------------------------------

    @property
    def pending_bytes(self) -> int:
        return self._pending.rows.bytes

    @property
    def is_full(self) -> bool:
        """Whether the next commit should come before more documents: a segment holds only so many rows."""
        return self._pending.rows.chunks >= self._most_rows() // 2

    def upsert(
        self,
        records: Sequence[Record],
        vectors: Mapping[str, Encoded],
        keys: Mapping[str, Sequence[bytes]],
    ) -> None:
        """Add or replace documents. Row i of each Encoded is chunk i over all records in order.

        Every space of the collection must be in `vectors`; `keys` holds 16-byte embedding keys for the
        spaces that have a model. Of two documents with one id the later wins. InvalidDocument for one without chunks.
        """
        empty = next((record.document.id for record in records if not record.chunks), None)
        if empty is not None:
            raise InvalidDocument(f"document {empty!r} has no chunks: leave it out or delete it", document_id=empty)
        if self._nothing_pending():
            self.merge()
        pending = self._pending
        places = self._places([record.document.id for record in records])
        for number in np.flatnonzero(places[:, 0] >= 0).tolist():
            part, row = places[number].tolist()
            pending.deleted[part, row] = records[number].document.id
        first = pending.rows.documents
        for number, record in enumerate(records):
            before = pending.rows_of.get(record.document.id)
            if before is not None:
                pending.dropped.add(before)
            pending.rows_of[record.document.id] = first + number
        pending.rows.add(records, vectors, keys, now())

    def delete(self, document_ids: Sequence[str]) -> int:
        """Delete documents; returns how many there were."""
        deleted = 0
        for document_id, (part, row) in zip(document_ids, self._places(document_ids), strict=True):
            pending = self._pending.rows_of.pop(document_id, None)
            if pending is not None:
                self._pending.dropped.add(pending)
            stored = part >= 0 and (int(part), int(row)) not in self._pending.deleted
            if stored:
                self._pending.deleted[int(part), int(row)] = document_id
            deleted += int(stored or pending is not None)
        return deleted

    # -- generations ---------------------------------------------------------------------------------------

    def commit(self) -> CommitResult | None:
        """Make everything pending a new generation, durable when this returns. None when nothing is pending."""
        if self._nothing_pending():
            return None
        pending, manifest = self._pending, self._manifest
        description, visibility, dates = self._settings
        generation = self._named + 1
        segments = list(manifest.segments)
        deleted = self._deleted_masks(pending)
        if pending.rows_of:
            entry = write_pending(
                self._folder, pending.rows, [state.space for state in manifest.spaces], dates or manifest.dates
            )
            segments.append(entry)
            if pending.dropped:
                mask = np.zeros(entry.documents, dtype=np.bool_)
                mask[list(pending.dropped)] = True
                deleted[entry.id] = mask
        counts = {part.segment.id: part.segment.chunk_counts for part in self._parts}
        if pending.dropped and pending.rows_of:
            counts[segments[-1].id] = pending.rows.chunk_counts()
        manifest = replace(
            manifest,
            segments=tuple(segments),
            spaces=counted(manifest.spaces, pending.rows.chunks),
            description=manifest.description if description is None else description,
            visibility=visibility or manifest.visibility,
            updated_at=now(),
            dates=dates or manifest.dates,
            source_roots=dict(self._source_roots),
        )
        manifest = deletes.with_deletes(self._folder, manifest, generation, deleted, counts)
        manifest = changes.with_changes(self._folder, manifest, generation, self._changes(pending))
        self._publish(manifest, generation, anew=False)
        return CommitResult(generation, self._manifest.documents, self._manifest.chunks)

    def merge(self) -> None:
        """Merge segments where their sizes ask for it; each merge is a generation of its own.

        Called with nothing pending, by the first `upsert` after a commit and by `finish`. During a first bulk
        load it waits for `finish`, unless the segments become too many.
        """
        while True:
            sizes = [Size(entry.live_chunks, entry.chunks) for entry in self._manifest.segments]
            if self._bulk and len(sizes) <= MOST_SEGMENTS:
                return
            chosen = to_merge(sizes, self._most_rows())
            if not chosen:
                return
            self._merge([chosen])

    def finish(self) -> None:
        """End of a run, what is pending committed: full compaction after a first bulk load, merging otherwise."""
        self.commit()
        bulk, self._bulk = self._bulk, False
        if bulk and self._manifest.generation > 1:
            self.compact()
        self.merge()

    def compact(self) -> None:
        """Commit, then rewrite all live rows into as few segments as they fit, with freshly trained indexes."""
        self.commit()
        lives = [entry.live_chunks for entry in self._manifest.segments]
        if lives:
            self._merge(groups(lives, self._most_rows()), calibrate_anew=True)

    def purge(self) -> None:
        """Remove deleted documents from the disk now: rewrite the segments that hold any, keep no older generation
        and no list of changes, where the hashes of short texts could be guessed.

        Readers that have an older generation open keep it until they move on; its files lose their names.
        """
        self.commit()
        doomed = [[place] for place, entry in enumerate(self._manifest.segments) if entry.deletes]
        if doomed or self._manifest.changes is not None:
            self._merge(doomed)
        sweep.sweep(self._folder, self._manifest, keep_seconds=0, keep_generations=1, keep_changes_seconds=0)

    # -- inside --------------------------------------------------------------------------------------------

    def _nothing_pending(self) -> bool:
        return not (self._pending.rows_of or self._pending.deleted or self._pending.changed)

    @property
    def _parts(self) -> Sequence[Part]:
        return self.snapshot.parts if self.snapshot else []

    def _places(self, document_ids: Sequence[str]) -> NDArray[np.int64]:
        """Where each document lives: (part, row) or (-1, -1). Remembers the last answer: an upsert follows a look."""
        if self.snapshot is None:
            return np.full((len(document_ids), 2), -1, dtype=np.int64)
        known, places = self._looked_up
        if all(document_id in known for document_id in document_ids):
            return places[[known[document_id] for document_id in document_ids]]
        places = self.snapshot.find_documents(document_ids)
        self._looked_up = {document_id: number for number, document_id in enumerate(document_ids)}, places
        return places

    def _most_rows(self) -> int:
        return min(segment_rows(space.dimensions) for space in self.spaces.values())

    def _deleted_masks(self, pending: Pending) -> dict[str, NDArray[np.bool_]]:
        """The complete masks of the segments in which this commit deletes documents."""
        masks: dict[str, NDArray[np.bool_]] = {}
        for place, row in pending.deleted:
            part = self._parts[place]
            mask = masks.get(part.segment.id)
            if mask is None:
                empty = np.zeros(part.segment.entry.documents, dtype=np.bool_)
                mask = masks[part.segment.id] = empty if part.deleted is None else part.deleted.copy()
            mask[row] = True
        return masks

    def _changes(self, pending: Pending) -> pa.RecordBatch:
        """What this commit does to each chunk: added, changed (its content or its metadata) or deleted."""
        before: dict[str, bytes] = {}
        for place, row in pending.deleted:
            chunks = self._parts[place].segment.chunks
            for chunk in self._parts[place].segment.chunk_rows(row):
                before[chunks.bytes("id")[chunk].decode()] = chunks.value("content_hash", chunk)
        return changes.batch_of(*pending.rows.hashes(pending.rows_of.values()), before)

    def _merge(
        self,
        chosen: Sequence[Sequence[int]],
        *,
        calibrate_anew: bool = False,
        anew: Mapping[str, Recompute] | None = None,
    ) -> None:
        """Replace each chosen group of segments by one, the rest kept; a generation without changes."""
        spaces = [state.space for state in self._manifest.spaces]
        entries: list[SegmentEntry | None] = list(self._manifest.segments)
        merged = []
        for group in chosen:
            parts = [survivors(self._parts[place].segment, self._parts[place].deleted) for place in group]
            merged.append(write_merged(self._folder, [part for part in parts if len(part.chunks)], spaces, anew))
            for place in group:
                entries[place] = None
        kept = tuple(entry for entry in entries if entry is not None)
        manifest = deletes.referenced(replace(self._manifest, segments=kept + tuple(merged), changes=None))
        self._publish(manifest, self._named + 1, anew=calibrate_anew)

    def _publish(self, manifest: Manifest, generation: int, *, anew: bool) -> None:
        """Index, calibrate and make durable; afterwards this generation is the newest for every reader."""
        manifest = replace(manifest, generation=generation, parent=self._manifest.generation, created_at=now())
        snapshot, indexed = Snapshot(self._folder, manifest, self.snapshot), manifest
        # A bulk load indexes its first commit, for it may be the only one, and the rest at once when it ends.
        if not self._bulk or manifest.parent == 0:
            growth = 0 if anew else GROWTH
            indexed = index_generation(self._folder, manifest, snapshot.parts, RECALL_TARGET, growth)
        if indexed is not manifest:
            snapshot = Snapshot(self._folder, indexed, snapshot)
        durable.make_folder(self._folder / MANIFESTS)
        durable.replace_file(self._folder / MANIFESTS / manifest_name(generation), to_bytes(indexed))
        # From here on readers may know the number, even if this fails: another try takes the next one.
        self._named = generation
        durable.replace_file(self._folder / CURRENT, f"{generation:06d}\n".encode())
        self._manifest, self.snapshot = indexed, snapshot
        self._pending, self._looked_up = Pending(), ({}, _NOWHERE)
        with suppress(OSError):  # the commit stands; what cannot be removed now is tried again after the next one
            sweep.sweep(self._folder, indexed)
