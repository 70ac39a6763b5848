"""What the writers of engines elsewhere share: changes wait in memory, and a commit sends them all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from aidre.engine.collection import SourceStates, check_upsert, stale_spaces
from aidre.engine.errors import BackendUnavailable, CollectionMissing, DocumentMissing, StoreLocked
from aidre.engine.index.vectors import encode
from aidre.engine.model import EmbeddingSpace, EncodedVectors, Record, Visibility
from aidre.engine.ports import Recompute
from aidre.engine.segment import RecordColumns, to_columns
from aidre.engine.storage import NO_KEY, now, with_precision
from aidre.engine.types import CommitResult
from aidre_rows.pending import Pending, PendingDocument, chosen
from aidre_rows.rows import PendingVector, stored_record
from aidre_rows.state import FORMAT, CollectionState, StoredSpace, first_state


@dataclass(frozen=True, slots=True)
class Declared:
    """What a writer declares of its collection. None, or no dates, keeps what is stored."""

    description: str | None
    visibility: Visibility | None
    dates: tuple[str, ...]
    runtimes: Mapping[str, str]


class Stored(Protocol):
    """Look-ups among the rows that are committed."""

    def values(self, column: str, document_ids: Sequence[str]) -> Mapping[str, Any]:
        """A column of the documents that are stored, by id."""

    def of_source(self, source: str) -> Sequence[tuple[bytes, bytes, bytes | None]]:
        """Id, origin and state of the documents of a source."""

    def vectors(self, keys: Sequence[bytes], stored: StoredSpace) -> Mapping[bytes, PendingVector]:
        """The vectors with these embedding keys in a space."""

    def documents(self, document_ids: Sequence[str]) -> Mapping[str, PendingDocument]:
        """The documents that are stored, by id, with their vectors in all spaces and without their fields."""


class _Nothing:
    """What is stored before the first commit."""

    def values(self, *_: object) -> Mapping[Any, Any]:
        return {}

    def of_source(self, *_: object) -> Sequence[tuple[bytes, bytes, bytes | None]]:
        return []

    vectors = documents = values


class PendingSink(ABC):
    """The members of a `Sink` that do not depend on the engine. `_state` is the newest one that is committed, `format`
    that of new collections."""

    format = FORMAT

    def __init__(
        self,
        collection: str,
        state: CollectionState | None,
        spaces: Sequence[EmbeddingSpace] | None,
        declared: Declared,
    ) -> None:
        """`state` is None where nothing is stored. SpaceConflict; CollectionMissing without a state and spaces."""
        configured = None if spaces is None else [with_precision(space) for space in spaces]
        if state is None and configured is None:
            raise collection_missing(collection)
        self._name, self._declared = collection, declared
        self._stale: list[EmbeddingSpace] = []
        if state is None:
            state = first_state(collection, configured or (), declared.runtimes, self.format)
        elif configured is not None:
            self._stale = stale_spaces(collection, state.collection.spaces, configured)
        self._state = state
        self._pending = Pending()
        self._sources = SourceStates(dict(state.source_roots), dict(state.source_states))
        self._replaced: Mapping[str, EmbeddingSpace] = {}
        self._sent: CollectionState | None = None
        """The state whose commit was sent, until it is known to have taken place."""
        self._sent_changes = 0

    def __enter__(self) -> Self:
        return self

    @property
    @abstractmethod
    def _committed(self) -> Stored | None:
        """None before the first commit."""

    @abstractmethod
    def _write(self) -> None:
        """Commit all that is pending. BackendUnavailable."""

    @abstractmethod
    def _reembed(self, recompute: Mapping[str, Recompute]) -> None:
        """Commit the state of `_renewed`, with the vectors of its new spaces. BackendUnavailable."""

    @abstractmethod
    def _keep_up(self) -> None:
        """What makes searches fast after many changes. Errors are logged: what was written is stored."""

    @abstractmethod
    def _was_committed(self) -> bool:
        """Whether the commit that failed took place: the connection may have been lost before its answer came."""

    # -- what is stored ------------------------------------------------------------------------------------------

    @property
    def _stored(self) -> Stored:
        return self._committed or _Nothing()

    @property
    def spaces(self) -> Mapping[str, EmbeddingSpace]:
        return {stored.space.id: stored.space for stored in self._state.spaces}

    @property
    def stale_spaces(self) -> tuple[str, ...]:
        return tuple(space.id for space in self._stale)

    @property
    def unfinished_spaces(self) -> tuple[str, ...]:
        return ()

    def fingerprints(self, document_ids: Sequence[str]) -> list[bytes | None]:
        return self._values("fingerprint", document_ids)

    def updated_at(self, document_ids: Sequence[str]) -> list[str | None]:
        return self._values("updated_at", document_ids)

    def documents_of(self, source: str) -> Iterator[tuple[str, str]]:
        return ((key.decode(), origin.decode()) for key, origin, _ in self._stored.of_source(source))

    def states_of(self, source: str) -> Iterator[tuple[str, bytes | None]]:
        return ((origin.decode(), state) for _, origin, state in self._stored.of_source(source))

    def stored_records(
        self, document_ids: Sequence[str]
    ) -> tuple[list[Record], Mapping[str, EncodedVectors], Mapping[str, Sequence[bytes]]]:
        found = self._stored.documents(document_ids)
        for document_id in document_ids:
            if document_id not in found:
                raise DocumentMissing(f"there is no document {document_id!r}", document_id=document_id)
        documents = [found[document_id] for document_id in document_ids]
        vectors, keys = {}, {}
        for name, space in self.spaces.items():
            own = [vector for document in documents for vector in document.vectors[name]]
            vectors[name] = chosen(own, space)[1]
            if space.model is not None:
                keys[name] = [vector.key or NO_KEY for vector in own]
        return [stored_record(document.rows.document, document.rows.chunks) for document in documents], vectors, keys

    def reuse(self, space_id: str, keys: Sequence[bytes]) -> tuple[NDArray[np.bool_], EncodedVectors]:
        if space_id in self._replaced:  # what is stored are vectors of another revision
            return chosen([None] * len(keys), self._replaced[space_id])
        stored = next(space for space in self._state.spaces if space.space.id == space_id)
        found = self._stored.vectors([key for key in keys if key != NO_KEY], stored)
        vectors = [self._pending.vector(space_id, key) or found.get(key) for key in keys]
        return chosen(vectors, stored.space)

    def _values(self, column: str, document_ids: Sequence[str]) -> list[Any]:
        """A column of each document: of the pending one, else of the stored one unless that is pending deletion."""
        pending = self._pending
        stored = self._stored.values(
            column, [document_id for document_id in document_ids if document_id not in pending.deleted]
        )
        return [
            getattr(pending.documents[document_id].rows.document, column)
            if document_id in pending.documents
            else stored.get(document_id)
            for document_id in document_ids
        ]

    # -- changes -------------------------------------------------------------------------------------------------

    def encode(self, space_id: str, vectors: NDArray[np.float32], *, for_upsert: bool = False) -> EncodedVectors:
        return encode(self._replaced.get(space_id) or self.spaces[space_id], vectors)

    def upsert(
        self,
        records: Sequence[Record] | RecordColumns,
        vectors: Mapping[str, EncodedVectors],
        keys: Mapping[str, Sequence[bytes]],
    ) -> None:
        columns = records if isinstance(records, RecordColumns) else to_columns(records)
        check_upsert(columns, vectors, self.spaces, self.stale_spaces)
        self._pending.add(columns, {name: vectors[name] for name in self.spaces}, keys, now())

    def delete(self, document_ids: Sequence[str]) -> int:
        stored = self._stored.values("chunk_count", document_ids)
        return sum(self._pending.delete(document_id, is_stored=document_id in stored) for document_id in document_ids)

    def source_roots(self) -> Mapping[str, str]:
        return dict(self._sources.roots)

    def set_source_root(self, source: str, root: str) -> None:
        self._pending.note(self._sources.set_root(source, root))

    def source_states(self) -> Mapping[str, Mapping[str, str]]:
        return dict(self._sources.states)

    def set_source_state(self, url: str, state: Mapping[str, str]) -> None:
        self._pending.note(self._sources.set_state(url, state))

    def forget_source(self, source: str) -> None:
        self._pending.note(self._sources.forget(source))

    # -- commits -------------------------------------------------------------------------------------------------

    @property
    def pending_bytes(self) -> int:
        return self._pending.size

    @property
    def is_full(self) -> bool:
        return self._pending.is_full

    @property
    def is_commit_done(self) -> bool:
        return True

    def commit(self) -> CommitResult | None:
        """Make all pending changes durable and visible at once; None where nothing is pending. BackendUnavailable
        leaves them pending."""
        if self._pending.is_empty:
            return None
        if not self._was_committed() or self._pending.changes != self._sent_changes:
            self._sent, self._sent_changes = None, self._pending.changes
            try:
                self._write()
            except BackendUnavailable as error:
                if not self._took_place(error):
                    raise
        self._pending, self._sent = Pending(), None
        return CommitResult(self._state.generation, self._state.documents, self._state.chunks)

    def finish(self) -> None:
        self.commit()
        self._keep_up()

    def reembed(self, recompute: Mapping[str, Recompute]) -> None:
        """Compute the vectors of every stale space from the stored chunks, in one generation that changes nothing
        else."""
        self.commit()
        self._replaced = {space.id: space for space in self._stale}
        try:
            self._reembed(recompute)
        finally:
            self._replaced = {}
        self._stale = []
        self._keep_up()

    def _renewed(self) -> tuple[list[tuple[StoredSpace, StoredSpace]], CollectionState]:
        """Each stored space that is stale with the one that takes its place, in a table of its own; the next state."""
        table, spaces, renewed = self._state.next_table, [], []
        for stored in self._state.spaces:
            space = self._replaced.get(stored.space.id)
            spaces.append(stored)
            if space is not None:
                spaces[-1] = StoredSpace(space, table, self._declared.runtimes.get(space.id, stored.runtime))
                renewed.append((stored, spaces[-1]))
                table += 1
        return renewed, self._state.succeeded_by(spaces=tuple(spaces), next_table=table)

    def begin_commit(self) -> CommitResult | None:
        return self.commit()

    def wait_for_commit(self) -> CommitResult | None:
        return None

    def _took_place(self, error: BackendUnavailable) -> bool:
        """Whether a commit took place that failed by this error. BackendUnavailable with `unconfirmed` in its details
        where the engine does not say."""
        try:
            return self._was_committed()
        except (BackendUnavailable, StoreLocked) as unanswered:
            raise BackendUnavailable(
                f"{error.message}; whether the commit took place is not known: write again, it is written once",
                **error.details,
                unconfirmed=self._state.generation + 1,
            ) from unanswered

    def _succeeded_by_pending(self, state: CollectionState, next_row: int) -> CollectionState:
        """The state of the next generation: `state`, without what was deleted, and all that is pending."""
        rows = [document.rows.document for document in self._pending.documents.values()]
        declared = self._declared
        spaces = [
            replace(space, runtime=declared.runtimes.get(space.space.id, space.runtime)) for space in state.spaces
        ]
        return state.succeeded_by(
            spaces=tuple(spaces),
            description=state.description if declared.description is None else declared.description,
            visibility=declared.visibility or state.visibility,
            dates=declared.dates or state.dates,
            source_roots=dict(self._sources.roots),
            source_states=dict(self._sources.states),
            documents=state.documents + len(rows),
            documents_without_url=state.documents_without_url + sum(row.url is None for row in rows),
            chunks=state.chunks + sum(row.chunk_count for row in rows),
            next_row=next_row,
        )


def collection_missing(collection: str) -> CollectionMissing:
    return CollectionMissing(f"there is no collection {collection!r} in this store", collection=collection)
