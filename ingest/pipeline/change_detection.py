"""Change detection: the documents whose fingerprint differs from the stored one, or that are not stored at all.

Everything else of a batch is stored already: it is neither chunked nor embedded nor written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Chunk, Document
from aidre.engine.ports import Sink
from aidre.ingest.pipeline.batching import Located
from aidre.ingest.pipeline.fingerprint import columnar_fingerprints, fingerprints, same_text
from aidre.ingest.records import RowBatch


@dataclass(slots=True)
class ChangeCandidate:
    """A document that may have to be written, see `Located`."""

    where: str
    document: Document
    chunks: tuple[Chunk, ...] | None
    fingerprint: bytes
    stored_fingerprint: bytes | None = None
    """The fingerprint of the stored document; None if it is new."""


@dataclass(frozen=True, slots=True)
class RowChanges:
    """A columnar batch compared with the collection: one fingerprint per row, stored ones None for new documents."""

    fingerprints: Sequence[bytes]
    stored_fingerprints: Sequence[bytes | None]
    changed: Sequence[int]
    """Rows that are new or differ from the stored document."""

    @property
    def new(self) -> int:
        return sum(self.stored_fingerprints[row] is None for row in self.changed)


class ChangeDetector:
    """Compares documents with those of a collection. Without a `writer` there is no collection: all are new.

    `settings` is the digest of the settings that stored chunks and vectors depend on.
    """

    def __init__(self, writer: Sink | None, settings: bytes) -> None:
        self._writer, self._settings = writer, settings

    def candidates(self, batch: Sequence[Located]) -> list[ChangeCandidate | InvalidDocument]:
        """One for each document, or the error of one that cannot be written as JSON."""
        found = fingerprints([located.document for located in batch], self._settings)
        return [
            made if isinstance(made, InvalidDocument) else ChangeCandidate(*located, made)
            for located, made in zip(batch, found, strict=True)
        ]

    def changed_documents(self, candidates: Sequence[ChangeCandidate]) -> list[ChangeCandidate]:
        """The candidates that have to be written, in order; ids must be distinct."""
        if self._writer is None:
            return list(candidates)
        changed, undated = [], []
        stored = self._writer.fingerprints([candidate.document.id for candidate in candidates])
        for candidate, stored_fingerprint in zip(candidates, stored, strict=True):
            if candidate.fingerprint == stored_fingerprint:
                continue
            candidate.stored_fingerprint = stored_fingerprint
            changed.append(candidate)
            if _keeps_first_date(candidate.document.updated_at is None, candidate.fingerprint, stored_fingerprint):
                undated.append(candidate)
        if undated:
            dates = self._writer.updated_at([candidate.document.id for candidate in undated])
            for candidate, date in zip(undated, dates, strict=True):
                candidate.document = replace(candidate.document, updated_at=date)
        return changed

    def compare_rows(self, rows: RowBatch) -> RowChanges:
        """Ids must be distinct."""
        fingerprints = columnar_fingerprints(rows, self._settings)
        stored = [None] * len(rows) if self._writer is None else self._writer.fingerprints(rows.ids)
        pairs = enumerate(zip(fingerprints, stored, strict=True))
        return RowChanges(fingerprints, stored, [row for row, (current, former) in pairs if current != former])

    def with_first_dates(self, rows: RowBatch, changes: RowChanges) -> RowBatch:
        """The rows, with the stored `updated_at` for those that keep it."""
        undated = [
            row
            for row in changes.changed
            if _keeps_first_date(
                not rows.updated_at[row].is_valid, changes.fingerprints[row], changes.stored_fingerprints[row]
            )
        ]
        if not undated or self._writer is None:
            return rows
        return rows.with_dates(undated, self._writer.updated_at([rows.ids[row] for row in undated]))


def _keeps_first_date(is_undated: bool, current: bytes, stored: bytes | None) -> bool:
    """A text without a date keeps the time of its first ingest while only what surrounds the text changes."""
    return stored is not None and is_undated and same_text(current, stored)
