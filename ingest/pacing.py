"""How much of a source is taken at once, and when a commit is due."""

from __future__ import annotations

from collections.abc import Collection
from time import monotonic

from aidre.engine.merging import LARGE
from aidre.engine.model import Document
from aidre.engine.writer import Writer

FIRST_DOCUMENTS = 1 << 15
"""The first commit is a small one: what it learns of the vectors serves those that follow."""

COMMIT_DOCUMENTS = LARGE
COMMIT_BYTES = 256 << 20
COMMIT_SECONDS = 30.0

BATCH_DOCUMENTS = 8192
BATCH_BYTES = 64 << 20
EMBEDDED_DOCUMENTS = 256
EMBEDDED_CHARACTERS = 1 << 18
"""Bounds of a batch; the lower ones are for documents that have to be embedded: the next ones are cut meanwhile, and
commits come in time."""

FIRST_EMBEDDED = 1 / 8
"""So much is embedded first, and then twice as much until it is all that may be: it begins soon."""

BATCH_SECONDS = 30.0
"""Documents that come slowly, over the net, do not wait longer for others."""


class Pace:
    """The measure of one run: `every` fixes the documents of a commit, `models` are the spaces that embed, and
    `vector_bytes` what the vectors of a document take."""

    def __init__(self, every: int | None, models: Collection[str], vector_bytes: int) -> None:
        self._every, self._models, self._vector_bytes = every, frozenset(models), vector_bytes
        self._pending = 0
        self._most = min(FIRST_DOCUMENTS, COMMIT_DOCUMENTS)
        self._committed_at = monotonic()
        self._embedded = FIRST_EMBEDDED
        self._fill, self._taken, self._room, self._began = 0.0, 0, self.room(), monotonic()

    # -- batches ---------------------------------------------------------------------------------------------

    def room(self) -> int:
        """How many documents the next batch may have, so that a commit comes exactly when it was asked for."""
        return BATCH_DOCUMENTS if self._every is None else min(BATCH_DOCUMENTS, max(1, self._every - self._pending))

    def is_full_with(self, document: Document) -> bool:
        """Whether the batch ends with this document, which it takes."""
        self._fill += self._share(document)
        self._taken += 1
        return self._fill >= 1.0 or self._taken >= self._room or monotonic() - self._began >= BATCH_SECONDS

    def next_batch(self) -> None:
        if self._taken:
            self._embedded = min(1.0, 2 * self._embedded)
        self._fill, self._taken, self._room, self._began = 0.0, 0, self.room(), monotonic()

    def _share(self, document: Document) -> float:
        """The part of a batch that a document takes."""
        characters = len(document.text)
        share = max(1 / BATCH_DOCUMENTS, (characters + self._vector_bytes) / BATCH_BYTES)
        if self._models and not (document.vectors and document.vectors.keys() >= self._models):
            share = max(share, max(1 / EMBEDDED_DOCUMENTS, characters / EMBEDDED_CHARACTERS) / self._embedded)
        return share

    # -- commits ---------------------------------------------------------------------------------------------

    def put(self, documents: int) -> None:
        """So many were handed to the writer."""
        self._pending += documents

    def is_commit_due(self, writer: Writer) -> bool:
        if not self._pending:
            return False
        if self._every is not None:
            return self._pending >= self._every or writer.is_full
        return (
            self._pending >= self._most
            or writer.pending_bytes >= COMMIT_BYTES
            or monotonic() - self._committed_at >= COMMIT_SECONDS
        )

    def committed(self) -> None:
        self._pending, self._committed_at, self._most = 0, monotonic(), COMMIT_DOCUMENTS
