"""Many writes to a collection under one lock, as programs make them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from aidre.engine.errors import Closed, InvalidInput
from aidre.engine.model import Document, Json
from aidre.library.arguments import to_filter
from aidre.library.conversion import Rows, to_changes, to_columns, to_documents, to_matrices
from aidre.library.spaces import Spaces
from aidre_client.values import to_ids

if TYPE_CHECKING:
    from pathlib import Path

    from aidre.engine.collection import Writer
    from aidre.engine.ports import Reader, Sink, Source
    from aidre.engine.storage import SegmentEntry
    from aidre.ingest.pipeline import DocumentWriter
    from aidre.ingest.records import RowBatch

BATCH_DOCUMENTS = 1_000
"""Documents of a writer that are chunked and embedded together."""


class CollectionWriter:
    """Writes to a collection under one lock. What was added is durable after `commit`, and at the end of the context;
    an error inside the context discards what is not committed. Of what waits for the commit some 160 MB are in memory,
    the rest in files of the store.

    Examples:
        >>> with docs.writer() as writer:
        ...     writer.add({"id": "tea", "text": "Green tea."})
        ...     writer.delete(["soup"])
        ['tea']
        1
        >>> len(docs)
        3
    """

    def __init__(
        self,
        source: Source,
        name: str,
        spaces: Spaces,
        reader: Reader | None,
        wait: float,
        *,
        dates: Sequence[str] = (),
    ) -> None:
        self._open = (source, name, spaces, reader, wait)
        self._dates = dates
        self._waiting: list[Document] = []
        self._is_entered = False

    def __enter__(self) -> CollectionWriter:
        from aidre.ingest.pipeline import DocumentWriter

        source, name, spaces, previous, wait = self._open
        declared = spaces.for_writing(None if previous is None else previous.collection.spaces)
        embedders = {space.id: spaces.embedder(space) for space in declared if space.model is not None}
        self._context = source.writer(
            name,
            spaces=[embedders[space.id].space if space.id in embedders else space for space in declared],
            runtimes={space: embedder.runtime for space, embedder in embedders.items()},
            dates=self._dates,
            models={space: embedder.embed_queries for space, embedder in embedders.items()},
            previous=previous,
            wait=wait,
        )
        self._sink: Sink = self._context.__enter__()
        try:
            self._documents: DocumentWriter = DocumentWriter(self._sink, embedders)
        except BaseException as error:
            self._context.__exit__(type(error), error, error.__traceback__)
            raise
        self._is_entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._flush()
                self._sink.finish()
        except BaseException as failure:
            self._context.__exit__(type(failure), failure, failure.__traceback__)
            raise
        finally:
            self._is_entered = False
        self._context.__exit__(kind, error, traceback)

    def _check_entered(self) -> None:
        if not self._is_entered:
            raise Closed("the writer is not open: use it by `with collection.writer() as writer`")

    def add(self, rows: Rows, *, vectors: Any = None) -> list[str]:
        """As `Collection.add`, without the commit. Single documents are chunked and embedded with those that follow:
        one whose text or vectors are refused is named by the call that completes its batch, and nothing of the batch is
        kept then.

        Parameters:
            rows: A text, a mapping, a `Document`, an iterable of them, or a table with a column `text`.
            vectors: Vectors of the rows, shape (rows, dimensions), or such matrices by space.

        Examples:
            >>> with docs.writer() as writer:
            ...     writer.add({"id": "tea", "text": "Green tea."})
            ...     writer.add([{"id": "jam", "text": "Plum jam."}, {"id": "rice", "text": "Rice for two."}])
            ['tea']
            ['jam', 'rice']
            >>> "tea" in docs
            True
        """
        self._check_entered()
        if vectors is not None or not isinstance(rows, str | Mapping | Document):
            self._flush()
            return self._write(rows, vectors)
        (document,) = to_documents(rows, {})
        self._waiting.append(document)
        if len(self._waiting) >= BATCH_DOCUMENTS:
            self._flush()
        return [document.id]

    def add_all(self, rows: Rows, *, vectors: Any = None) -> list[str]:
        """`add`, at once also for a single document.

        Parameters:
            rows: A text, a mapping, a `Document`, an iterable of them, or a table with a column `text`.
            vectors: Vectors of the rows, shape (rows, dimensions), or such matrices by space.

        Examples:
            >>> with docs.writer() as writer:
            ...     writer.add_all([{"id": "tea", "text": "Green tea."}, {"id": "jam", "text": "Plum jam."}])
            ['tea', 'jam']
        """
        self._check_entered()
        self._flush()
        return self._write(rows, vectors)

    def delete(
        self, ids: Iterable[str] | None = None, *, filter: Json | None = None, allow_unknown: bool = False
    ) -> int:
        """As `Collection.delete`, without the commit; a filter selects among all that was committed.

        Parameters:
            ids: Ids of documents.
            filter: Which documents, as [filters](../guide.md#for-programs) say it; None: all of them.
            allow_unknown: Delete also where the filter names a field that no document has.

        Examples:
            >>> with docs.writer() as writer:
            ...     writer.delete(filter={"vegan": True})
            1
        """
        if (ids is None) == (filter is None):
            raise InvalidInput("delete needs ids or filter=, and not both")
        from aidre.ingest.pipeline import delete_passing

        listed = None if ids is None else to_ids(ids, "delete")
        passing = to_filter(filter)
        self._check_entered()
        self._flush()
        if passing is not None:
            return delete_passing(self._sink, passing, allow_unknown=allow_unknown)
        return self._sink.delete(listed or [])

    def patch(self, changes: Mapping[str, Mapping[str, Any]]) -> int:
        """As `Collection.patch`; what was added before is committed first.

        Parameters:
            changes: By id, the members and metadata to set; None removes one.

        Examples:
            >>> with docs.writer() as writer:
            ...     writer.patch({"toast": {"minutes": 12}})
            1
        """
        to_change = to_changes(changes)
        self.commit()
        return self._documents.patch(to_change) if to_change else 0

    def commit(self) -> None:
        """Make everything so far durable.

        Examples:
            >>> with docs.writer() as writer:
            ...     writer.add({"id": "tea", "text": "Green tea."})
            ...     writer.commit()
            ...     "tea" in docs
            ['tea']
            True
        """
        self._check_entered()
        self._flush()
        self._sink.commit()

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._write(waiting, None)

    def _write(self, rows: Rows, vectors: Any) -> list[str]:
        matrices = to_matrices(vectors, list(self._sink.spaces))
        rows = list(rows) if isinstance(rows, Iterator) else rows
        batches = to_columns(rows, matrices)
        if batches is not None and all(map(self._documents.accepts_columns, batches)):
            return self._write_columns(batches)
        documents = list(to_documents(rows, matrices))
        self._documents.check(documents)
        for first in range(0, len(documents), BATCH_DOCUMENTS):
            if self._sink.is_full:
                self._sink.commit()
            self._documents.write(documents[first : first + BATCH_DOCUMENTS])
        return [document.id for document in documents]

    def _write_columns(self, batches: Sequence[RowBatch]) -> list[str]:
        for batch in batches:
            if self._sink.is_full:
                self._sink.commit()
            self._documents.write_columns(batch)
        return [document_id for batch in batches for document_id in batch.ids]


@contextmanager
def staged(writer: CollectionWriter, rows: Rows, vectors: Any) -> Iterator[tuple[Writer, Path, list[SegmentEntry]]]:
    """Rows as segments in a folder, and the writer of the engine. Nothing is committed, and at the end they go."""
    from aidre.engine.collection import Writer

    with ExitStack() as stack:
        writer.__enter__()
        stack.push(writer._context)
        writer.add_all(rows, vectors=vectors)
        sink = writer._sink
        assert isinstance(sink, Writer)
        yield sink, *sink.staged_rows()
