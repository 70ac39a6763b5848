"""What waits for the commit of a writer: the newest rows of each document with their vectors, and deletions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aidre.engine.index.vectors import dtype_of
from aidre.engine.model import EmbeddingSpace, EncodedVectors
from aidre.engine.segment import RecordColumns
from aidre.engine.storage import NO_KEY
from aidre_rows.rows import PendingVector, Rows, rows_of

MOST_CHUNKS = 100_000
"""Pending chunks from which a commit is due."""

MOST_BYTES = 256 << 20
"""Pending bytes from which a commit is due: they are in memory."""


class PendingDocument(NamedTuple):
    """A document, and by space the vectors of its chunks."""

    rows: Rows
    vectors: Mapping[str, list[PendingVector]]


@dataclass(slots=True)
class Pending:
    """`documents` by id; `deleted` are ids that a commit removes first, replaced ones included. `size` is in bytes.
    `changed` says that something else has to be committed; `changes` grows with every change."""

    documents: dict[str, PendingDocument] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    size: int = 0
    chunks: int = 0
    changes: int = 0
    changed: bool = False
    _by_key: dict[tuple[str, bytes], PendingVector] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not (self.documents or self.deleted or self.changed)

    @property
    def is_full(self) -> bool:
        return self.chunks >= MOST_CHUNKS or self.size >= MOST_BYTES

    def add(
        self,
        records: RecordColumns,
        vectors: Mapping[str, EncodedVectors],
        keys: Mapping[str, Sequence[bytes]],
        moment: str,
    ) -> None:
        """Take documents, of two with one id the later; row i of the vectors belongs to chunk i over all documents."""
        self.changes += 1
        first = 0
        for document_id, rows in zip(records.ids, rows_of(records, moment), strict=True):
            last = first + len(rows.chunks)
            own = {
                space: pending_vectors(encoded, keys.get(space) or (), first, last)
                for space, encoded in vectors.items()
            }
            self.withdraw(document_id)
            self.documents[document_id] = PendingDocument(rows, own)
            self.deleted.add(document_id)
            self._count(self.documents[document_id], 1)
            for space, of_space in own.items():
                self._by_key |= {(space, vector.key): vector for vector in of_space if vector.key is not None}
            first = last

    def note(self, changed: bool) -> None:
        """Notes a change of what is neither a document nor a deletion, if it is one."""
        self.changed, self.changes = self.changed or changed, self.changes + changed

    def delete(self, document_id: str, *, is_stored: bool) -> bool:
        """Delete a document; False if it is neither pending nor stored, or deleted already."""
        self.changes += 1
        was_pending, was_deleted = self.withdraw(document_id), document_id in self.deleted
        if is_stored:
            self.deleted.add(document_id)
        else:
            self.deleted.discard(document_id)
        return was_pending or (is_stored and not was_deleted)

    def withdraw(self, document_id: str) -> bool:
        """Drop a document that was not committed; False if it is not pending."""
        dropped = self.documents.pop(document_id, None)
        if dropped is not None:
            self._count(dropped, -1)
        return dropped is not None

    def vector(self, space: str, key: bytes) -> PendingVector | None:
        return self._by_key.get((space, key))

    def _count(self, document: PendingDocument, sign: int) -> None:
        vectors = sum(vector.codes.nbytes for of_space in document.vectors.values() for vector in of_space)
        texts = sum(len(chunk.text) for chunk in document.rows.chunks) + len(document.rows.document.metadata or b"")
        self.chunks += sign * len(document.rows.chunks)
        self.size += sign * (vectors + texts)


def pending_vectors(
    encoded: EncodedVectors, keys: Sequence[bytes], first: int = 0, last: int | None = None
) -> list[PendingVector]:
    """Some of the encoded vectors, each with its norm and its key; without `keys` they have none."""
    codes, own = encoded.codes[first:last], keys[first:last]
    rows = zip(codes, encoded.norms[first:last].tolist(), own or [NO_KEY] * len(codes), strict=True)
    return [PendingVector(codes, norm, None if key == NO_KEY else key) for codes, norm, key in rows]


def chosen(vectors: Sequence[PendingVector | None], space: EmbeddingSpace) -> tuple[NDArray[np.bool_], EncodedVectors]:
    """Which vectors there are, and the vectors; the others are zero."""
    is_found = np.array([vector is not None for vector in vectors], np.bool_)
    codes, norms = np.zeros((len(vectors), space.dimensions), dtype_of(space)), np.ones(len(vectors), np.float32)
    for place, vector in enumerate(vectors):
        if vector is not None:
            codes[place], norms[place] = vector.codes, vector.norm
    return is_found, EncodedVectors(codes, norms)
