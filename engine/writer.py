"""The one writer of a collection: upsert, delete, commit, merge. Holds the lock for its whole run.

A commit appends one small segment, marks replaced documents as deleted, and becomes durable by the order of
its steps: segment, list of deletes, list of changes, manifest, CURRENT, each synced before the next.
Merging follows as a generation of its own; both are made by `generations`.

A writer is in one of four states:

    idle            nothing is pending: only now are segments merged, spaces filled, documents of a source listed
    pending         upsert and delete were called: `commit` makes it durable; what cannot be written stays pending
    under way       a first bulk load goes on while a thread commits (`begin_commit`); what looks up a document of that
                    commit waits for it, and `settle` tells what came of it
    unacknowledged  a manifest was written and CURRENT was not: readers may know its number, so the next `commit` makes
                    another generation, whether anything is pending or not
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine import sweep
from aidre.engine.commits import CommitResult, Commits, Stated
from aidre.engine.errors import InvalidDocument, InvalidInput, SpaceConflict
from aidre.engine.generations import Generations
from aidre.engine.lock import WriterLock
from aidre.engine.manifest import Manifest, SpaceState, first_manifest, now
from aidre.engine.model import EmbeddingSpace, Encoded, Record, Visibility
from aidre.engine.parts import Part
from aidre.engine.records import Records, columns_of
from aidre.engine.rows import Pending
from aidre.engine.segment_writer import Recompute
from aidre.engine.snapshot import Snapshot
from aidre.engine.vectors import dtype_of, encode

_NOWHERE = np.empty((0, 2), dtype=np.int64)


class Writer:
    """Use as a context manager. `snapshot` is the newest generation, None until the first commit.

    `generations` is for what changes whole segments with nothing pending: filling a space, taking one away.
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
    ) -> None:
        self._folder = folder
        self._lock = lock
        snapshot = Snapshot(folder, manifest) if manifest else None
        self.generations = Generations(folder, manifest or first_manifest(name, spaces), snapshot)
        self._settings = (description, visibility, tuple(sorted(dates)))
        self._source_roots = dict(self._manifest.source_roots)
        self._source_states = dict(self._manifest.source_states)
        self._pending = Pending()
        self._commits = Commits(folder, self.generations)
        self._looked_up: tuple[Snapshot | None, dict[str, int], NDArray[np.int64]] = (None, {}, _NOWHERE)
        self._stale = {state.space.id: state for state in stale}
        sweep.remove_unfinished(folder, self._manifest.changes)

    @property
    def snapshot(self) -> Snapshot | None:
        return self.generations.snapshot

    @property
    def spaces(self) -> Mapping[str, EmbeddingSpace]:
        """The spaces that answer, by id: what is put in brings a vector for each."""
        return {space.id: space for space in self._manifest.collection.spaces}

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._commits.settle()  # what was begun and failed must not go by unheard
        finally:
            try:
                self._commits.close()
            finally:
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
        self.commit()
        before, stale = self._manifest, self._stale
        states = [stale.get(state.space.id, state) for state in before.spaces]
        self.generations.manifest = replace(before, spaces=tuple(states))
        self._stale = {}
        try:
            self.generations.merge_all(anew)
        except BaseException:
            self.generations.manifest, self._stale = before, stale
            raise

    @property
    def building(self) -> tuple[str, ...]:
        """Spaces that `filling` has begun and not completed: nothing is put into them meanwhile."""
        return tuple(state.space.id for state in self._manifest.spaces if state.state != "live")

    # -- what is stored already ----------------------------------------------------------------------------

    def fingerprints(self, document_ids: Sequence[str]) -> list[bytes | None]:
        """The fingerprint of each live or pending document, None for the others."""
        return self._stored("fingerprint", document_ids)

    def updated_at(self, document_ids: Sequence[str]) -> list[str | None]:
        return self._stored("updated_at", document_ids)

    def _stored(self, column: str, document_ids: Sequence[str]) -> list[Any]:
        values: list[Any] = [None] * len(document_ids)
        self._wait_for(document_ids)
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
        return self._live(source, "id", "origin")

    def states_of(self, source: str) -> Iterator[tuple[str, bytes | None]]:
        """Origin and state (JSON) of each of these documents; call it with nothing pending."""
        return self._live(source, "origin", "state")

    def _live(self, source: str, *names: str) -> Iterator[tuple[Any, ...]]:
        """Some columns of the live documents of a source; nulls for one that an older format had not."""
        for part in self._parts:
            row = 0
            for batch in part.segment.documents.file.batches:
                known = batch.schema.names
                columns = [batch.column(name) if name in known else pa.nulls(len(batch)) for name in ("source", *names)]
                for name, *values in zip(*(column.to_pylist() for column in columns), strict=True):
                    if name == source and part.is_live(row):
                        yield tuple(values)
                    row += 1

    def source_roots(self) -> Mapping[str, str]:
        """Where each source name was read from, so that two folders do not share a name by accident."""
        return dict(self._source_roots)

    def set_source_root(self, source: str, root: str) -> None:
        if self._source_roots.get(source) != root:
            self._source_roots[source] = root
            self._pending.changed = True

    def source_states(self) -> Mapping[str, Mapping[str, str]]:
        """What a fetched listing (a feed, a sitemap) answered with, by its URL, so that it can be asked what is new."""
        return dict(self._source_states)

    def set_source_state(self, url: str, state: Mapping[str, str]) -> None:
        """Remember the state of a listing whose documents are all handed over."""
        if self._source_states.get(url) != state:
            self._source_states[url] = dict(state)
            self._pending.changed = True

    def forget_source(self, source: str) -> None:
        """As if nothing had ever been read from it."""
        states = {url: state for url, state in self._source_states.items() if _named_by(url) != source}
        if self._source_roots.pop(source, None) is not None or len(states) < len(self._source_states):
            self._source_states = states
            self._pending.changed = True

    def reuse(self, space_id: str, keys: Sequence[bytes]) -> tuple[NDArray[np.bool_], Encoded]:
        """Which embedding keys the store has vectors for, and those vectors in stored form (other rows zero)."""
        space = self.spaces[space_id]
        found = np.zeros(len(keys), dtype=np.bool_)
        codes = np.zeros((len(keys), space.dimensions), dtype=dtype_of(space))
        norms = np.ones(len(keys), dtype=np.float32)
        under_way = self._commits.under_way
        for rows in (self._pending.rows, *([under_way.rows] if under_way else ())):
            for number, key in enumerate(keys):
                if not found[number] and (pending := rows.find_key(space_id, key)) is not None:
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

    def encode(self, space_id: str, vectors: NDArray[np.float32], *, kept: bool = False) -> Encoded:
        """Vectors (n, dimensions) in stored form. DimensionMismatch, InvalidVector with `details["row"]`.

        `kept` says that the next `upsert` has all of them: then they are made where it would copy them to.
        """
        space = self.spaces[space_id]
        into = self._pending.rows.space_for(space_id, len(vectors), space.dimensions, dtype_of(space)) if kept else None
        return encode(space, vectors, into)

    # -- what is to be stored ------------------------------------------------------------------------------

    @property
    def pending_bytes(self) -> int:
        return self._pending.rows.bytes

    @property
    def is_full(self) -> bool:
        """Whether the next commit should come before more documents: a segment holds only so many rows."""
        return self._pending.rows.chunks >= self.generations.most_rows // 2

    def upsert(
        self,
        records: Sequence[Record] | Records,
        vectors: Mapping[str, Encoded],
        keys: Mapping[str, Sequence[bytes]],
    ) -> None:
        """Add or replace documents. Row i of each Encoded is chunk i over all records in order.

        Every space of the collection must be in `vectors`; `keys` holds 16-byte embedding keys for the
        spaces that have a model. Of two documents with one id the later wins. InvalidDocument for one without chunks,
        InvalidInput where a chunk lacks a vector.
        """
        records = records if isinstance(records, Records) else columns_of(records)
        if 0 in records.chunks.counts:
            empty = records.ids[records.chunks.counts.index(0)]
            raise InvalidDocument(f"document {empty!r} has no chunks: leave it out or delete it", document_id=empty)
        if self._stale:
            raise SpaceConflict(
                f"embedding space {self.stale[0]!r} holds vectors of another revision: compute them anew first",
                embedding_space=self.stale[0],
                member="revision",
            )
        chunks = sum(records.chunks.counts)
        for space_id in self.spaces:
            given = len(vectors[space_id].codes) if space_id in vectors else 0
            if given != chunks:
                raise InvalidInput(f"embedding space {space_id!r} got {given} vectors: bring {chunks}, one a chunk")
        self._wait_for(records.ids)
        if self._pending.is_empty:
            self.merge()
        pending = self._pending
        places = self._places(records.ids)
        for number in np.flatnonzero(places[:, 0] >= 0).tolist():
            part, row = places[number].tolist()
            pending.deleted[part, row] = records.ids[number]
        pending.put(records.ids)
        pending.rows.add(records, vectors, keys, now())

    def delete(self, document_ids: Sequence[str]) -> int:
        """Delete documents; returns how many there were."""
        self._wait_for(document_ids)
        deleted = 0
        for document_id, (part, row) in zip(document_ids, self._places(document_ids), strict=True):
            was_pending = self._pending.take_back(document_id)
            stored = part >= 0 and (int(part), int(row)) not in self._pending.deleted
            if stored:
                self._pending.deleted[int(part), int(row)] = document_id
            deleted += int(stored or was_pending)
        return deleted

    # -- generations ---------------------------------------------------------------------------------------

    def commit(self) -> CommitResult | None:
        """Make everything pending a new generation, durable when this returns. None when nothing is pending.

        What cannot be written (StorageFailed) is still pending afterwards.
        """
        self.settle()
        if self._pending.is_empty and not self.generations.unacknowledged:
            return None
        result = self._commits.make(self._pending, self._stated())
        self._pending = Pending()
        return result

    def begin_commit(self) -> CommitResult | None:
        """The same, but a first bulk load goes on meanwhile: then this is None, and `settle` tells of the commit.

        What was begun and cannot be written has to be put again. Call it with nothing begun that was not settled.
        """
        if not self._commits.may_go_ahead(self._pending):
            return self.commit()
        pending, self._pending = self._pending, Pending()
        self._commits.begin(pending, self._stated())
        return None

    @property
    def is_settled(self) -> bool:
        """Whether `settle` need not wait."""
        return self._commits.is_settled

    def settle(self) -> CommitResult | None:
        """Wait until what was begun is durable; what it came to, None where that was told already. StorageFailed."""
        return self._commits.settle()

    def _stated(self) -> Stated:
        return Stated(*self._settings, dict(self._source_roots), dict(self._source_states))

    def merge(self) -> None:
        """Merge segments where their sizes ask for it; each merge is a generation of its own.

        Called with nothing pending, by the first `upsert` after a commit and by `finish`. During a first bulk
        load it waits for `finish`, unless the segments become too many.
        """
        if self.generations.is_merge_due:
            self._commits.wait()
            self.generations.merge_due()

    def finish(self) -> None:
        """End of a run, what is pending committed: a first bulk load is merged where it is in small segments, and
        indexed; what comes later is merged as its sizes ask for it."""
        self.commit()
        self.generations.end_bulk()
        self.merge()

    def compact(self) -> None:
        """Commit, then rewrite all live rows into as few segments as they fit, with freshly trained indexes."""
        self.commit()
        self.generations.merge_all()

    def purge(self) -> None:
        """Remove deleted documents from the disk now, with every older generation.

        Readers that have an older generation open keep it until they move on; its files lose their names.
        StorageFailed names a file that the disk does not let go.
        """
        self.commit()
        self.generations.purge()

    # -- inside --------------------------------------------------------------------------------------------

    def _wait_for(self, document_ids: Sequence[str]) -> None:
        """Let a commit settle that is under way with any of these documents."""
        under_way = self._commits.under_way
        if under_way is not None and not under_way.rows_of.keys().isdisjoint(document_ids):
            self._commits.wait()

    @property
    def _manifest(self) -> Manifest:
        return self.generations.manifest

    @property
    def _parts(self) -> Sequence[Part]:
        return self.generations.parts

    def _places(self, document_ids: Sequence[str]) -> NDArray[np.int64]:
        """Where each document lives: (part, row) or (-1, -1). Remembers the last answer: an upsert follows a look."""
        if self.snapshot is None:
            return np.full((len(document_ids), 2), -1, dtype=np.int64)
        snapshot, known, places = self._looked_up
        if snapshot is self.snapshot and all(document_id in known for document_id in document_ids):
            return places[[known[document_id] for document_id in document_ids]]
        places = self.snapshot.find_documents(document_ids)
        numbers = {document_id: number for number, document_id in enumerate(document_ids)}
        self._looked_up = self.snapshot, numbers, places
        return places


def _named_by(url: str) -> str:
    """The name of a source that is an address and was given no other."""
    return url.partition("://")[2].rstrip("/")
