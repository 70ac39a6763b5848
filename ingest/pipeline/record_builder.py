"""Builds the records of changed documents: chunks and fingerprint, within the limits of a collection.

Chunks come with a document that was split ahead of their use, as all are that are new to a collection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import closing
from dataclasses import replace
from time import monotonic
from typing import Final

from aidre.engine.errors import printable_name
from aidre.engine.index.fields import field_names
from aidre.engine.model import Chunk, Document, Record
from aidre.ingest.chunking import find_repetition_fault
from aidre.ingest.pipeline.batching import Checked, Located
from aidre.ingest.pipeline.change_detection import ChangeCandidate
from aidre.ingest.prefetch import prefetch
from aidre.ingest.records import RowBatch, find_integer_fault

MAX_FIELDS: Final = 10_000
"""Different metadata fields of a collection, as many as a Parquet table may have columns. A field costs a row in every
segment that has it, and a read for every client that lists the fields."""

_QUEUED_SLABS = 16
_SLAB_DOCUMENTS = 32
_SLAB_CHARACTERS = 1 << 15
_SLAB_SECONDS = 1.0
"""Queue depth and slab limits: a slab is about 1/8 of an embedding batch, or a second's work."""


def split_ahead(items: Iterable[Checked], split: Callable[[Document], tuple[Chunk, ...]]) -> Iterator[Checked]:
    """The same items in order; another thread reads them and splits their documents, while a batch is embedded."""
    with closing(prefetch(_slabs(items, split), _QUEUED_SLABS)) as slabs:
        for slab in slabs:
            yield from slab


def _slabs(items: Iterable[Checked], split: Callable[[Document], tuple[Chunk, ...]]) -> Iterator[list[Checked]]:
    slab: list[Checked] = []
    characters, started = 0, monotonic()
    for item in items:
        if isinstance(item, Located):
            where, document, _ = item
            characters += len(document.text)
            slab.append(item if document.vectors else Located(where, document, split(document)))
        else:
            slab.append(item)
        if len(slab) >= _SLAB_DOCUMENTS or characters >= _SLAB_CHARACTERS or monotonic() - started >= _SLAB_SECONDS:
            yield slab
            slab, characters, started = [], 0, monotonic()
    yield slab


class FieldLimit:
    """Counts the field names of a collection: those of its newest generation, and those that the run adds.

    `stored_names` is called once, before the first document.
    """

    def __init__(self, stored_names: Callable[[], Set[str]]) -> None:
        self._stored_names = stored_names
        self._names: set[str] | None = None

    def admit(self, names: Set[str]) -> str | None:
        """Count the fields of a document, or return the reason why they exceed the limit and count none of them."""
        if self._names is None:
            self._names = set(self._stored_names())
        new_names = names - self._names
        if new_names and len(self._names) + len(new_names) > MAX_FIELDS:
            excess = sorted(new_names)[max(0, MAX_FIELDS - len(self._names))]
            return (
                f"field {printable_name(excess)} is one more than the {MAX_FIELDS:,} different fields that a "
                'collection can have: make the name a value ({"name": ..., "value": ...}), '
                "or move fields that no filter needs into semantic_payload"
            )
        self._names |= new_names
        return None


class RecordBuilder:
    """`split` returns the chunks of a document; `stored_fields` the field names of the collection."""

    def __init__(self, split: Callable[[Document], tuple[Chunk, ...]], stored_fields: Callable[[], Set[str]]) -> None:
        self._split = split
        self._fields = FieldLimit(stored_fields)

    def build(self, candidates: Sequence[ChangeCandidate]) -> list[Record | str]:
        """The record of each document, counted towards the limits, or the reason why it cannot be stored."""
        records = (self._record(candidate) for candidate in candidates)
        return [self.admit(record) or record for record in records]

    def _record(self, candidate: ChangeCandidate) -> Record:
        """A document with vectors of its own is one chunk, unsplit; a blank text counts as missing."""
        document, chunks = candidate.document, candidate.chunks
        if not document.vectors:
            return Record(document, self._split(document) if chunks is None else chunks, candidate.fingerprint)
        if document.text.isspace():
            document = replace(document, text="")
        chunk = Chunk(f"{document.id}#chunk_1", 1, document.text, 0, len(document.text), document.section)
        return Record(document, (chunk,), candidate.fingerprint)

    def admit(self, record: Record) -> str | None:
        """Count the record towards the limits, or return the reason why it cannot be stored."""
        document = record.document
        return (
            find_repetition_fault(record)
            or find_integer_fault(document.metadata, "metadata")
            or self._fields.admit(field_names((document.metadata, document.schema_object)))
        )

    def admit_rows(self, rows: RowBatch) -> str | None:
        """Count rows towards the limits, all or none of them; returns the reason why they cannot be stored."""
        return self._fields.admit(rows.metadata_fields())
