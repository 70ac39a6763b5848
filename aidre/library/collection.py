"""A collection of a store, as programs write it; what reads it is a view (collection_view.py) of its newest state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aidre.engine.errors import Closed, CollectionMissing
from aidre.engine.listing import MAX_LIMIT
from aidre.engine.model import Json
from aidre.engine.retrieve import Policy
from aidre.engine.storage import check_collection_name
from aidre.library.arguments import to_ingest_options
from aidre.library.collection_view import CollectionView, view_at
from aidre.library.collection_writer import CollectionWriter
from aidre.library.conversion import Rows
from aidre.library.foreign import own_words
from aidre.library.spaces import Spaces
from aidre_client.values import check_range

if TYPE_CHECKING:
    from aidre.engine.ports import Reader, Source
    from aidre.ingest import Summary

WAIT_SECONDS = 30.0
"""How long a writer waits for another one."""


class Collection(CollectionView):
    """A collection of a store; it is made by the first commit. Each call reads the newest state, and each write is
    durable when it returns. Safe to use from several threads; of several writers, in whatever process, one writes while
    the others wait up to `wait` seconds.

    Examples:
        >>> docs["soup"].title, "cake" in docs, len(docs)
        ('Soup', False, 3)
    """

    def __init__(
        self,
        source: Source,
        name: str,
        spaces: Spaces,
        is_open: Callable[[], bool],
        wait: float,
        *,
        policy: Policy,
        dates: Sequence[str] = (),
    ) -> None:
        super().__init__(source, name, spaces, policy=policy)
        self._is_open = is_open
        self._wait, self._dates = wait, dates
        self._mark: object = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Sent to another process, it opens the newest state there."""
        make = partial(Collection, policy=self._policy, dates=self._dates)
        return make, (self._source, self.name, self._spaces, self._is_open, self._wait)

    @property
    def reader(self) -> Reader | None:
        """Opened again if another state was committed, by whatever process. SpaceConflict where the declared spaces
        contradict the stored ones."""
        self._check_open()
        mark = self._source.mark(self.name)
        if mark != self._mark:
            try:
                reader = self._source.open(self.name, previous=self._reader)
            except CollectionMissing:
                reader = None
            if reader is not None:
                self._spaces.check_stored(self.name, reader.collection.spaces)
            self._reader, self._mark = reader, mark
        return self._reader

    def at(self, generation: int) -> CollectionView:
        """An older state, read-only. GenerationMissing where it was removed.

        Parameters:
            generation: The number of the state, as `generation` tells it.

        Examples:
            >>> before = docs.generation
            >>> docs.delete(["soup"])
            1
            >>> "soup" in docs.at(before), "soup" in docs
            (True, False)
        """
        self._check_open()
        check_range("generation", generation, 0, MAX_LIMIT)
        return view_at(self._source, self.name, self._spaces, generation, self._policy)

    def copy(self, name: str) -> Collection:
        """Another collection with the same documents and vectors, under a name that is free. Local segments share their
        files. InvalidInput, CollectionMissing, Conflict, StoreLocked, Unsupported.

        Parameters:
            name: Small letters, digits and `._-`.

        Examples:
            >>> trial = docs.copy("trial")
            >>> trial.add(["Rice is plain."])[0] in docs
            False
        """
        self._copy(name, move=False)
        return Collection(
            self._source, name, self._spaces, self._is_open, self._wait, policy=self._policy, dates=self._dates
        )

    def rename(self, name: str) -> None:
        """Give the collection another name, which has to be free; clients of the old name are told that it was dropped.
        The errors of `copy`.

        Parameters:
            name: Small letters, digits and `._-`.

        Examples:
            >>> notes = db.collection("draft")
            >>> notes.add([{"id": "rice", "text": "Rice is plain."}])
            ['rice']
            >>> notes.rename("final")
            >>> len(db.collection("final"))
            1
        """
        self._copy(name, move=True)
        self.name, self._reader, self._mark = name, None, None

    def _copy(self, name: str, *, move: bool) -> None:
        from aidre.engine.collection import local_store
        from aidre.engine.maintenance import copy_collection

        self._check_open()
        store = local_store(self._source, "read it by scan, and add what that gives to another collection")
        copy_collection(store, self.name, check_collection_name(name), wait=self._wait, move=move)

    # -- write -------------------------------------------------------------------------------------------------

    def writer(self) -> CollectionWriter:
        """A context manager for many writes that share the lock and the commits. StoreLocked.

        Examples:
            >>> with docs.writer() as writer:
            ...     writer.add([{"id": f"note-{number}", "text": f"Note {number}."} for number in range(3)])
            ['note-0', 'note-1', 'note-2']
        """
        self._check_open()
        return CollectionWriter(self._source, self.name, self._spaces, self.reader, self._wait, dates=self._dates)

    @own_words
    def add(self, rows: Rows, *, vectors: Any = None) -> list[str]:
        """Store documents, in one commit, and return their ids; a document replaces that with the same id.

        `rows` are a text, a mapping, a Document, an iterable of them, or a table (Arrow, pandas, polars) with a column
        text. A row without an id gets one of its content. What is no member of a document becomes metadata. `vectors`
        holds one for each row, shape (rows, dimensions), or such matrices by space; a document with vectors is one
        chunk. Nothing is stored where any row is refused. InvalidDocument, InvalidInput, InvalidVector,
        DimensionMismatch, SpaceConflict, StoreLocked, StorageFailed.

        Parameters:
            rows: A text, a mapping, a `Document`, an iterable of them, or a table with a column `text`.
            vectors: Vectors of the rows, shape (rows, dimensions), or such matrices by space.

        Examples:
            >>> docs.add({"id": "tea", "text": "Green tea draws two minutes.", "minutes": 2})
            ['tea']
            >>> docs["tea"].metadata
            {'minutes': 2}
        """
        with self.writer() as writer:
            return writer.add_all(rows, vectors=vectors)

    def adopt(self, source: str | Path) -> list[str]:
        """Take the segments that `aidre.segments.write` wrote into a folder or a bucket, in one commit, each once;
        return the names of those that were new. Of documents with one id that of the later partition is
        kept, and within a partition what was written last.
        SpaceConflict, Missing, StoreLocked, StorageFailed, BucketFailed.

        Parameters:
            source: The folder or the bucket, whose credentials and endpoint are in the environment.

        Examples:
            >>> aidre.segments.write([{"id": "tea", "text": "Green tea."}], files / "parts")
            ['000000-0000-...']
            >>> len(docs.adopt(files / "parts"))
            1
        """
        from aidre.engine.maintenance import adopt

        return adopt(self._source, self.name, source, dates=self._dates, wait=self._wait, previous=self.reader)

    @own_words
    def upsert(self, rows: Rows, *, vectors: Any = None) -> list[str]:
        """Store documents that are new and replace those that are stored, by id, in one commit; return their ids.

        It is `add`, under the name that other stores have for it.

        Parameters:
            rows: A text, a mapping, a `Document`, an iterable of them, or a table with a column `text`.
            vectors: Vectors of the rows, shape (rows, dimensions), or such matrices by space.

        Examples:
            >>> docs.upsert([{"id": "soup", "text": "Tomato soup."}, {"id": "tea", "text": "Green tea."}])
            ['soup', 'tea']
            >>> docs["soup"].text, len(docs)
            ('Tomato soup.', 4)
        """
        return self.add(rows, vectors=vectors)

    @own_words
    def delete(
        self, ids: Iterable[str] | None = None, *, filter: Json | None = None, allow_unknown: bool = False
    ) -> int:
        """Delete documents by id, or all that pass a filter; returns how many existed.

        A filter that names a field which no document has is refused unless `allow_unknown`: its negation would delete
        everything. So is `id` or `title` where metadata have that name, too. InvalidInput, InvalidFilter.

        Parameters:
            ids: Ids of documents; those that are not stored are not counted.
            filter: Which documents, as [filters](../guide.md#for-programs) say it; None: all of them.
            allow_unknown: Delete also where the filter names a field that no document has.

        Examples:
            >>> docs.delete(["soup", "none"])
            1
            >>> docs.delete(filter={"minutes": {"lt": 20}})
            1
            >>> len(docs)
            1
        """
        with self.writer() as writer:
            return writer.delete(ids, filter=filter, allow_unknown=allow_unknown)

    @own_words
    def patch(self, changes: Mapping[str, Mapping[str, Any]]) -> int:
        """Change metadata, `title`, `url`, `type`, `updated_at`, `text` and `vectors` of documents, by id; None removes
        a name, and what is not named stays.

        Only a new text and a new title, which is a part of the string, have chunks embedded again, of documents that a
        model embedded; where vectors come with the rows, a new text needs new `vectors`. One commit; returns how many
        documents changed. Missing and InvalidDocument name the document, and nothing is changed.

        Parameters:
            changes: By id, the members and metadata to set; None removes one.

        Examples:
            >>> docs.patch({"soup": {"minutes": 40, "vegan": None}})
            1
            >>> docs["soup"].metadata
            {'minutes': 40}
        """
        with self.writer() as writer:
            return writer.patch(changes)

    def ingest(self, *sources: str | Path, mirror: bool = False, **options: Any) -> Summary:
        """Read files, folders, feeds and pages, as `aidre ingest` does; with `mirror` documents go whose source went.

        `options` are those of IngestOptions. ConfigurationError for a source that cannot be read, StoreLocked.

        Parameters:
            mirror: Whether documents go whose source went.
            *sources: Paths of files and folders, addresses of feeds and pages.
            **options: Those of `IngestOptions`.

        Examples:
            >>> _ = (files / "tea.md").write_text("Green tea draws two minutes.")
            >>> docs.ingest(files / "tea.md").new
            1
            >>> docs.search("how long does tea draw", k=1)[0].text
            'Green tea draws two minutes.'
        """
        from aidre.ingest import ingest

        self._check_open()
        checked = to_ingest_options(sources, {"mirror": mirror, "wait": self._wait, **options})
        reader = self.reader
        spaces = self._spaces.for_writing(None if reader is None else reader.collection.spaces)
        return ingest(
            self._source,
            self.name,
            sources,
            spaces=spaces,
            embedders={space.id: self._spaces.embedder(space) for space in spaces if space.model is not None},
            options=checked,
            report=lambda event: None,
        )

    def _check_open(self) -> None:
        if not self._is_open():
            raise Closed("the database is closed: open it again by aidre.open")
