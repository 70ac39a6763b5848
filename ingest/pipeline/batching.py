"""Sizes of batches and commits: how many documents are processed together, and when pending ones are committed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from time import monotonic
from typing import NamedTuple, TypeAlias

from aidre.engine.collection import LARGE_SEGMENT_ROWS
from aidre.engine.model import Chunk, Document
from aidre.engine.ports import Sink
from aidre.ingest.records import ListingEnd, Noted, Rejected, RowBatch, Unchanged, Unpublished

FIRST_COMMIT_DOCUMENTS = 1 << 15
"""The first commit of a run is a small one: a bulk load trains its codebook on it, and later commits reuse that."""

COMMIT_DOCUMENTS = LARGE_SEGMENT_ROWS
COMMIT_BYTES = 160 << 20
COMMIT_SECONDS = 30.0
"""A commit is due when the first of these bounds is reached. With as many bytes a writer spills at its next batch."""

BATCH_DOCUMENTS = 8192
BATCH_BYTES = 64 << 20
EMBEDDED_BATCH_DOCUMENTS = 256
EMBEDDED_BATCH_CHARACTERS = 1 << 18
"""Bounds of a batch. The lower ones hold for documents that have to be embedded: the next batch is chunked meanwhile,
and commits come in time."""

FIRST_BATCH_FRACTION = 1 / 8
"""First batch to embed as a fraction of the maximum; doubled after every batch, so that progress shows early."""

BATCH_SECONDS = 30.0
"""A batch older than this ends with the next document: documents from the network may arrive slowly."""


class Located(NamedTuple):
    """A document that was read. `where` is its "file" or "file:line", for messages; `chunks` are its own where they
    were made ahead of their use."""

    where: str
    document: Document
    chunks: tuple[Chunk, ...] | None = None


@dataclass(frozen=True, slots=True)
class Textless:
    """A document without text, which is skipped; `hint` says what would read one."""

    where: str
    hint: str


PassedOver: TypeAlias = Textless | Rejected | Unchanged | Unpublished | Noted
"""What is reported and not written."""
Checked: TypeAlias = Located | RowBatch | ListingEnd | PassedOver


class CommitPolicy:
    """When a commit is due. `every` fixes the documents of a commit, unless the writer is full before; without it size
    and time decide."""

    def __init__(self, every: int | None) -> None:
        self._every = every
        self._pending = 0
        self._max_documents = min(FIRST_COMMIT_DOCUMENTS, COMMIT_DOCUMENTS)
        self._committed_at = monotonic()

    @property
    def remaining(self) -> int | None:
        """Documents until the next commit, at least 1; None where their number is not fixed."""
        return None if self._every is None else max(1, self._every - self._pending)

    def add(self, documents: int) -> None:
        """Count documents that were handed to the writer."""
        self._pending += documents

    def is_due(self, writer: Sink) -> bool:
        if not self._pending:
            return False
        if self._every is not None:
            return self._pending >= self._every or writer.is_full
        return (
            self._pending >= self._max_documents
            or writer.pending_bytes >= COMMIT_BYTES
            or monotonic() - self._committed_at >= COMMIT_SECONDS
        )

    def committed(self) -> None:
        self._pending, self._committed_at, self._max_documents = 0, monotonic(), COMMIT_DOCUMENTS


class BatchPolicy:
    """How many documents make a batch. `models` are the spaces that embed; `vector_bytes` is the size of the vectors of
    a document."""

    def __init__(self, commits: CommitPolicy, models: Collection[str], vector_bytes: int) -> None:
        self._commits, self._models, self._vector_bytes = commits, frozenset(models), vector_bytes
        self._embedded_fraction = FIRST_BATCH_FRACTION
        self._start()

    def batches(self, items: Iterable[Checked]) -> Iterator[list[Located] | RowBatch | ListingEnd | PassedOver]:
        """Documents come in batches, other items one by one and at once. Rows and the end of a listing end the batch
        before them, as the end of the items does; the next begins when the caller asks for more, and has processed it.
        """
        batch: list[Located] = []
        for item in items:
            if isinstance(item, Located):
                batch.append(item)
                if not self.is_full_with(item.document):
                    continue
            elif not isinstance(item, ListingEnd | RowBatch):
                yield item
                continue
            yield batch
            self.next_batch()
            batch = []
            if not isinstance(item, Located):
                yield item
                self._start()
        yield batch
        self.next_batch()

    def room(self) -> int:
        """Documents that the next batch may have, so that `every` documents make exactly one commit."""
        remaining = self._commits.remaining
        return BATCH_DOCUMENTS if remaining is None else min(BATCH_DOCUMENTS, remaining)

    def is_full_with(self, document: Document) -> bool:
        """Add a document to the batch; returns whether the batch ends with it."""
        self._fill += self._share(document)
        self._documents += 1
        return self._fill >= 1.0 or self._documents >= self._room or monotonic() - self._started >= BATCH_SECONDS

    def next_batch(self) -> None:
        if self._documents:
            self._embedded_fraction = min(1.0, 2 * self._embedded_fraction)
        self._start()

    def _start(self) -> None:
        self._fill, self._documents, self._room, self._started = 0.0, 0, self.room(), monotonic()

    def _share(self, document: Document) -> float:
        """The fraction of a batch that a document fills."""
        characters = len(document.text)
        share = max(1 / BATCH_DOCUMENTS, (characters + self._vector_bytes) / BATCH_BYTES)
        if self._models and not (document.vectors and document.vectors.keys() >= self._models):
            embedded = max(1 / EMBEDDED_BATCH_DOCUMENTS, characters / EMBEDDED_BATCH_CHARACTERS)
            share = max(share, embedded / self._embedded_fraction)
        return share
