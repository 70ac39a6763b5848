"""The one writer of a collection in Milvus: a `Sink` (engine/ports.py). How a commit is atomic without transactions:

Rows are never changed. Each was `born` in a numbered commit, and a reader asks only for rows that were born in the
commit whose record it has read, or before. So a commit

1. inserts its rows, born in the next number, which no reader asks for,
2. counts them in every collection of Milvus, in one Strong read each: all arrived once, and later reads will find them,
3. inserts the commit record (`catalog`), by which they are visible at once. It also names the documents that the commit
   deletes or replaces: their rows are still there, and readers of the record leave them out,
4. reads the records, Strong: then every reader finds this one, and nobody else has written another.

If it ends before step 3, no reader sees anything of it, and nothing was lost: no row was deleted or replaced. The next
attempt, or the next writer, deletes the rows that were born after the newest record. An insert that was lost on the way
and comes later still is born in a number that the next record lists as `aborted`. If it ends in step 3 and the answer
is lost, the next attempt looks whether the record is there.

Rows of deleted documents are removed by the next commit, so that readers of the state before find what they began with;
where they are many, at once, because searches get slower by a long list of what to leave out.

A lock of a file keeps writers apart that share the folder of the store, thus those of one machine. Milvus has no lock
and no compare-and-set. A writer with another folder is noticed before the first step, by its record, mostly in step 2,
by its rows, and in step 4, and the later one gives up; but between step 2 of one and step 4 of the other, rows of both
can become visible. So one machine writes a collection; nothing but that rule ensures it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final

from aidre.engine.errors import BackendUnavailable, StoreLocked
from aidre.engine.model import EmbeddingSpace
from aidre.engine.ports import Recompute
from aidre.engine.storage import WriterLock, make_folder, upkeep
from aidre.engine.types import CommitResult
from aidre_milvus.catalog import Commit, MilvusCatalog
from aidre_milvus.expressions import ALL, NONE, WIDE, literal
from aidre_milvus.reader import MilvusReader
from aidre_milvus.server import MilvusDatabase, Row, blocks
from aidre_milvus.stored import MilvusRows
from aidre_milvus.tables import FORMAT, WITH_BLOBS, MilvusTables, RowExtent, blob_of, document_rows, vector_values
from aidre_milvus.words import count_rows, counts_of, word_rows
from aidre_rows import (
    ChunkRow,
    CollectionState,
    Declared,
    DocumentRow,
    PendingDocument,
    PendingSink,
    StoredSpace,
    pending_vectors,
)

LOCKS: Final = ".locks"
"""Of the folder of a store: a folder with the lock of each collection."""
_MOST_LISTED: Final = 1_000
"""Deleted documents that a record may list until the next commit."""
_MIN_GRAPH_ROWS: Final = 4_000
"""New chunks from which a run ends by asking for graphs. Fewer are compared one by one; of 5,000 and more without a
graph, Milvus compares the nearest 16 of 128 lists, which lost a tenth of the hits."""
_GRAPH_SECONDS: Final = 300.0
"""Until a run ends without them."""
_POLL_SECONDS: Final = 0.2
_FLUSH_SECONDS: Final = 120.0
_KEPT_ABORTED: Final = 16
"""Numbers of failed commits that a record lists: an insert that was lost on the way does not come hours later."""
_REEMBED_DOCUMENTS: Final = 256


def writer_lock(path: Path, collection: str, wait: float) -> WriterLock:
    folder = path / LOCKS / collection
    make_folder(folder)
    return WriterLock(folder, collection, wait)


class MilvusWriter(PendingSink):
    """A `Sink` and context manager, made by `MilvusSource.writer`."""

    format = FORMAT

    def __init__(
        self,
        server: MilvusDatabase,
        lock: WriterLock,
        collection: str,
        spaces: Sequence[EmbeddingSpace] | None,
        declared: Declared,
    ) -> None:
        self._server, self._catalog = server, MilvusCatalog(server)
        with ExitStack() as stack:
            stack.enter_context(lock)
            found = self._catalog.newest(collection, strong=True)
            if found is None and not server.has_words:
                self.format = WITH_BLOBS
            super().__init__(collection, None if found is None else found.state, spaces, declared)
            self._lock = stack.pop_all()
        self._stored_commit = found
        self._next_born = 1 if found is None else found.born + 1
        self._next_row = self._state.next_row
        self._aborted: tuple[int, ...] = () if found is None else found.aborted
        self._is_swept = False
        self._growing = 0 if found is None else found.growing
        self._reader: MilvusReader | None = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._lock:
            if kind is None:
                self._keep_up()

    @property
    def snapshot(self) -> MilvusReader | None:
        commit = self._stored_commit
        if commit is not None and (self._reader is None or self._reader.generation != commit.state.generation):
            self._reader = MilvusReader(self._server, commit)
        return self._reader

    @property
    def _tables(self) -> MilvusTables:
        return MilvusTables(self._server, self._name, self._state.lineage)

    @property
    def _committed(self) -> MilvusRows | None:
        return None if self.snapshot is None else self.snapshot.rows

    # -- commits -------------------------------------------------------------------------------------------------

    def commit(self) -> CommitResult | None:
        result = super().commit()
        if result is not None and self._stored_commit is not None and len(self._stored_commit.dead) > _MOST_LISTED:
            with self._upkeep("rows of deleted documents were not removed"):
                self._remove_dead(self._stored_commit)
        return result

    def compact(self) -> None:
        """Commit, remove the rows of deleted documents, and let Milvus use their room again."""
        self.commit()
        if self._stored_commit is None:
            return
        self._remove_dead(self._stored_commit)
        for name in self._names:
            self._server.call("flush", name, seconds=_FLUSH_SECONDS)
            self._server.call("compact", name)

    def purge(self) -> None:
        """The same as `compact`; Milvus removes the old files later by itself."""
        self.compact()

    def _reembed(self, recompute: Mapping[str, Recompute]) -> None:
        commit = self._stored_commit
        if commit is None:
            return
        self._begin()
        renewed, state = self._renewed()
        for old, new in renewed:
            self._fill(old, new, recompute[new.space.id])
        self._publish(replace(commit, state=state, serial=commit.serial + 1, dead=(), growing=state.chunks))
        self._stale = []
        for old, _ in renewed:
            self._server.call("drop_collection", self._tables.space(old.table))

    def _fill(self, old: StoredSpace, new: StoredSpace, recompute: Recompute) -> None:
        """The vectors of all chunks in a new space, in batches."""
        source, made = self._tables.space(old.table), self._tables.space(new.table)
        self._tables.make_space(new.space, new.table, self._state.format)
        self._server.wait_for([made])
        stored = self._committed
        if stored is None:
            return
        columns = ["row", "document", "born", "tokens", "bounds", *(["blob"] if self._has_blobs else [])]
        for extents in blocks(stored.extents(stored.documents_visible), _REEMBED_DOCUMENTS):
            block = list(stored.numbered(extents))
            numbers = [number for number, _ in block]
            encoded, keys = recompute([chunk for _, chunk in block])
            heads = {row["row"]: row for row in self._server.rows(source, f"row in {literal(numbers)}", columns)}
            rows = [
                {**heads[number], "tokens": list(heads[number]["tokens"]), **vector_values(vector)}
                for number, vector in zip(numbers, pending_vectors(encoded, keys), strict=True)
            ]
            self._server.insert(made, rows)
        self._check_count(made, ALL, self._state.chunks)

    # -- inside --------------------------------------------------------------------------------------------------

    @property
    def _names(self) -> list[str]:
        """Of the collections of Milvus that hold the newest state."""
        return [*self._numbered, self._tables.terms] if self._has_words else self._numbered

    @property
    def _numbered(self) -> list[str]:
        """Those whose rows have the numbers of documents and chunks."""
        words = [self._tables.words] if self._has_words else []
        return [self._tables.rows, *self._spaces, *words]

    @property
    def _spaces(self) -> list[str]:
        return [self._tables.space(stored.table) for stored in self._state.spaces]

    @property
    def _has_words(self) -> bool:
        return self._state.format >= FORMAT

    @property
    def _has_blobs(self) -> bool:
        return self._state.format >= WITH_BLOBS

    def _was_committed(self) -> bool:
        if self._sent is None:
            return False
        found = self._catalog.newest(self._name, strong=True)
        if found is None or found.state.token != self._sent.token:
            return False
        self._take(found)
        return True

    def _begin(self) -> None:
        """See that nobody else has written, and remove what failed commits have left, and what is dead."""
        newest, commit = self._catalog.newest(self._name), self._stored_commit
        if (newest and newest.state.token) != (commit and commit.state.token):
            raise self._overtaken()
        if not self._is_swept:
            # Where somebody has dropped the catalog, all the rest is kept: it may be wanted back.
            for name in () if self._catalog.make() else self._tables.all():
                if commit is None or name not in self._names:
                    self._server.call("drop_collection", name)
            if commit is None:
                self._tables.make([(stored.space, stored.table) for stored in self._state.spaces], self._state.format)
            else:
                left_over = f"born > {literal(commit.born)}"
                for name in self._names:
                    self._server.call("delete", name, filter=left_over, seconds=_FLUSH_SECONDS)
            self._is_swept = True
        if commit is not None:
            self._delete(commit.dead)

    def _write(self) -> None:
        self._begin()
        before, pending = self._stored_commit or Commit(self._state), self._pending
        gone = list(self._committed.heads(sorted(pending.deleted)).values()) if self._committed else []
        born, self._next_born = self._next_born, self._next_born + 1
        rows, heads, texts = list[Row](), list[Row](), list[tuple[DocumentRow, ChunkRow]]()
        documents = list(pending.documents.values())
        for document in documents:
            own, of_chunks = document_rows(self._next_row, born, document)
            self._next_row += len(own)
            rows += own
            heads += of_chunks
            texts += [(document.rows.document, chunk) for chunk in document.rows.chunks]
        has_wide = before.has_wide or any(row["tokens"] == [WIDE] for row in rows)
        sent, state = [rows, *self._vector_rows(documents, heads, texts)], self._state
        self._is_swept = False  # whatever becomes of it; a failed commit leaves rows
        aborted, self._aborted = self._aborted, (*self._aborted, born)[-_KEPT_ABORTED:]
        if self._has_words:
            words = word_rows(heads, texts)
            counts, state = self._counted(before, born, words, [row["document"] for row in gone])
            sent += [words, counts]
        for name, inserted in zip(self._names, sent, strict=True):
            send = self._server.replace if name == self._tables.terms else self._server.insert
            send(name, inserted)
            if inserted or before.dead:
                self._check_count(name, f"born == {literal(born)}", len(inserted))
        state = state.less(
            documents=len(gone),
            chunks=sum(row["chunks"] for row in gone),
            documents_without_url=sum(not row["has_url"] for row in gone),
        )
        dead = tuple(RowExtent(row["document"], row["extent"]) for row in gone)
        state = self._succeeded_by_pending(state, self._next_row)
        growing = before.growing + len(heads)
        self._publish(Commit(state, before.serial + 1, born, aborted, dead, has_wide, growing))
        self._is_swept = True

    def _counted(
        self, before: Commit, born: int, words: Sequence[Row], gone: Sequence[int]
    ) -> tuple[list[Row], CollectionState]:
        """The rows that count the chunks of each term, and the state with their languages and length, where words come
        and those of some documents go."""
        table, state, removed = self._tables.words, self._state, list[Row]()
        for block in blocks(gone, _REEMBED_DOCUMENTS):
            where = f"document in {literal(block)}"
            removed += self._server.rows(table, where, ["words", "length", "language"])
        added, old, languages = counts_of(words), counts_of(removed), Counter(state.languages)
        added.codes.subtract(old.codes)
        languages.update(added.languages)
        languages.subtract(old.languages)
        changed = {code: number for code, number in added.codes.items() if number}
        rows = count_rows(self._server, self._tables.terms, before, born, changed)
        left = {tag: number for tag, number in languages.items() if number}
        return rows, replace(state, languages=left, terms=state.terms + added.length - old.length)

    def _vector_rows(
        self, documents: Sequence[PendingDocument], heads: Sequence[Row], texts: Sequence[tuple[DocumentRow, ChunkRow]]
    ) -> Iterator[list[Row]]:
        """The rows of all chunks in each space."""
        blobs: list[Row] = [{"blob": blob_of(*pair)} if self._has_blobs else {} for pair in texts]
        for stored in self._state.spaces:
            vectors = [vector for document in documents for vector in document.vectors[stored.space.id]]
            rows = zip(heads, blobs, vectors, strict=True)
            yield [{**head, **blob, **vector_values(vector)} for head, blob, vector in rows]

    def _publish(self, commit: Commit) -> None:
        self._sent = commit.state
        self._catalog.publish(self._name, commit)
        if not self._catalog.settle(self._name, commit):
            self._sent = None
            raise self._overtaken()
        self._take(commit)

    def _take(self, commit: Commit) -> None:
        """A commit is there: what follows begins with it."""
        self._stored_commit, self._state, self._sent, self._reader = commit, commit.state, None, None
        self._aborted, self._growing = commit.aborted, commit.growing

    def _check_count(self, name: str, where: str, expected: int) -> None:
        """That the rows are there, once each, and that every later read finds them. BackendUnavailable."""
        found = self._server.count(name, where, strong=True)
        if found != expected:
            message = f"Milvus at {self._server.address} has {found} of {expected} rows that were sent"
            raise BackendUnavailable(message, backend="milvus", address=self._server.address, reason="lost")

    def _remove_dead(self, commit: Commit) -> None:
        """Remove the rows of the documents that the newest commit deleted, and say so in a record of the same state."""
        if commit.dead:
            self._delete(commit.dead)
            for name in self._names:
                self._server.count(name, NONE, strong=True)  # so that every later read knows of the deletion
            self._publish(commit.again(dead=()))

    def _delete(self, dead: Sequence[RowExtent]) -> None:
        numbers = [number for extent in dead for number in range(extent.document, extent.document + extent.rows)]
        for name in self._numbered if numbers else ():
            self._server.delete(name, numbers)

    def _upkeep(self, undone: str) -> AbstractContextManager[None]:
        return upkeep(f"{self._name} at {self._server.address}", undone)

    def _overtaken(self) -> StoreLocked:
        return StoreLocked(
            f"collection {self._name!r} was written by another process meanwhile: start again", collection=self._name
        )

    def _keep_up(self) -> None:
        """Have the graphs built of what was written since they were, where that is so much that Milvus approximates.
        Errors are logged: what was written is stored."""
        if self._growing >= _MIN_GRAPH_ROWS:
            with self._upkeep("graphs were not built"):
                self._build_graphs()

    def _build_graphs(self) -> None:
        for name in self._names:
            self._server.call("flush", name, seconds=_FLUSH_SECONDS)
        deadline, waiting = time.monotonic() + _GRAPH_SECONDS, self._spaces
        while waiting and time.monotonic() < deadline:
            waiting = [name for name in waiting if not self._server.has_graphs(name, self._state.chunks)]
            time.sleep(_POLL_SECONDS if waiting else 0)
        self._growing = 0  # this writer waits once
        if self._stored_commit is not None and not waiting:  # so that no later writer waits for what is built
            self._publish(self._stored_commit.again(growing=0))
