"""Documents of a program: the same detection of changes, chunking and embedding as for those of a source.

A program hands documents to `DocumentWriter`, and filters to `delete_passing`, where a run of an ingest reads them from
files. What cannot be stored is an error for its caller, not a line in a report.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

import orjson

from aidre.engine.embedding import Embedder
from aidre.engine.errors import DimensionMismatch, InvalidDocument, InvalidVector
from aidre.engine.index.fields import Filter, check_deletion
from aidre.engine.model import Document, EncodedVectors, Json, Record
from aidre.engine.ports import Sink
from aidre.engine.storage import FINGERPRINT_BYTES, NO_KEY
from aidre.ingest.pipeline.batching import Located
from aidre.ingest.pipeline.change_detection import ChangeDetector
from aidre.ingest.pipeline.embedding import VectorStage
from aidre.ingest.pipeline.fingerprint import settings_digest
from aidre.ingest.pipeline.ingest import chunker_for
from aidre.ingest.pipeline.record_builder import RecordBuilder
from aidre.ingest.records import RESERVED_METADATA, RowBatch, normalize_timestamp, read_string

T = TypeVar("T")

_TEXT_BYTES: Final = 4
"""Bytes at the end of a fingerprint that depend on the text alone, see `fingerprint`."""
_FIXED: Final = frozenset({"id", "section", "headings"})
"""What is of a whole document: a change of it is another document."""
_REBUILT: Final = frozenset({"text", "vectors"})
"""What chunks and vectors are made of."""


def delete_passing(writer: Sink, filter: Filter, *, allow_unknown: bool = False) -> int:
    """Delete what passes of all that was committed; returns how many documents. The caller commits.

    InvalidFilter for a filter that could remove what it seems to spare, see `check_deletion`; where no document is
    stored, only for one that no collection can answer.
    """
    snapshot = writer.snapshot
    if snapshot is None:
        return 0
    check_deletion(filter, snapshot.has_field, allow_unknown=allow_unknown or not snapshot.documents)
    return writer.delete(list(dict.fromkeys(chunk.document_id for chunk in snapshot.scan(filter))))


class DocumentWriter:
    """Writes documents with `writer`; the caller commits. `embedders` are those of the spaces with a model."""

    def __init__(self, writer: Sink, embedders: Mapping[str, Embedder]) -> None:
        spaces = [embedders[name].space if name in embedders else space for name, space in writer.spaces.items()]
        chunker = chunker_for(spaces, embedders)
        snapshot = writer.snapshot
        known = snapshot.fields if snapshot is not None and snapshot.can.vocabulary else frozenset
        self._writer = writer
        self._brought = [space for space in spaces if space.id not in embedders]
        self._stage = VectorStage(writer, spaces, embedders, chunker)
        self._changes = ChangeDetector(writer, settings_digest(spaces, chunker))
        self._builder = RecordBuilder(chunker.chunks, known)

    def check(self, documents: Iterable[Document]) -> None:
        """Refuse what can be refused without chunks. A document without text needs a vector for each space.
        InvalidDocument and DimensionMismatch name the document."""
        for document in documents:
            has_text = bool(document.text.strip())
            if not has_text and not document.vectors:
                raise InvalidDocument(f"document {document.id!r} has no text", document_id=document.id)
            self._check_vectors(document)
            missing = set() if has_text else self._writer.spaces.keys() - (document.vectors or {}).keys()
            if missing:
                raise InvalidDocument(
                    f"document {document.id!r} has no text to embed in the space {min(missing)!r}: "
                    "bring a vector for each space",
                    document_id=document.id,
                )

    def write(self, documents: Iterable[Document]) -> int:
        """Upsert checked documents that are new or changed, of two with one id the later; returns how many these are.

        InvalidDocument and InvalidVector name the document; nothing of the call is kept then.
        """
        by_id = {document.id: document for document in documents}
        candidates = self._changes.candidates([Located(document.id, document) for document in by_id.values()])
        changed = self._changes.changed_documents([_sound(candidate) for candidate in candidates])
        records = [
            _sound(result if isinstance(result, Record) else _refusal(candidate.document.id, result))
            for candidate, result in zip(changed, self._builder.build(changed), strict=True)
        ]
        if records:
            self._upsert(records)
        return len(records)

    def accepts_columns(self, rows: RowBatch) -> bool:
        """Whether `write_columns` can write rows: they bring a vector for each space."""
        spaces = self._writer.spaces
        return rows.vectors.keys() == spaces.keys() and all(
            matrix.shape[1] == spaces[name].dimensions for name, matrix in rows.vectors.items()
        )

    def write_columns(self, rows: RowBatch) -> int:
        """As `write`, without an object for each document; requires `accepts_columns`."""
        last = list({document_id: row for row, document_id in enumerate(rows.ids)}.values())
        distinct = rows.take(last)
        changes = self._changes.compare_rows(distinct)
        changed = self._changes.with_first_dates(distinct, changes).take(changes.changed)
        if not len(changed):
            return 0
        vectors = None if self._builder.admit_rows(changed) else self._stage.encode_columns(changed.vectors)
        if vectors is None:
            return self.write(document for _, document in distinct.documents())
        fingerprints = [changes.fingerprints[row] for row in changes.changed]
        self._writer.upsert(changed.to_records(fingerprints), vectors.encoded, vectors.keys)
        return len(changed)

    def patch(self, changes: Mapping[str, Mapping[str, Json]]) -> int:
        """Change members of stored documents, by id; returns how many differ then. Nothing may be pending.

        `title`, `url`, `type`, `updated_at`, `text` and `vectors` are the document's; all other names are metadata, and
        None removes one. A new text is chunked and embedded, where a model does that; it needs vectors for the spaces
        without one. Else chunks stay as they are, and vectors too, but that a model embeds chunks again whose title
        changed. An ingest of the unchanged source restores what it reads there. Missing, InvalidDocument,
        InvalidVector, DimensionMismatch; then nothing is changed.
        """
        rebuilt = {key for key, members in changes.items() if not _REBUILT.isdisjoint(members)}
        unchanged_texts = [key for key in changes if key not in rebuilt]
        records, vectors, keys = self._writer.stored_records(unchanged_texts) if unchanged_texts else ([], {}, {})
        patched = [_patched(record, changes[record.document.id]) for record in records]
        for record in patched:
            self._check(record)
        count = sum(record.document != other.document for record, other in zip(patched, records, strict=True))
        renewed = self._retitled(records, patched, vectors, keys) if count else None
        documents = self._rewritten([key for key in changes if key in rebuilt], changes)
        count += self.write(documents)
        if renewed is not None:
            self._writer.upsert(patched, *renewed)
        return count

    def _rewritten(self, ids: Sequence[str], changes: Mapping[str, Mapping[str, Any]]) -> list[Document]:
        """Stored documents with another text or other vectors, which are checked."""
        documents = []
        for record in self._writer.stored_records(ids)[0] if ids else ():
            own = changes[record.document.id]
            others = {name: value for name, value in own.items() if name not in _REBUILT}
            text = own.get("text", record.chunks[0].text if len(record.chunks) == 1 else None)
            if type(text) is not str:
                cure = "must be a string" if "text" in own else "is in several chunks: patch it, too"
                raise InvalidDocument(f"document {record.document.id!r}: text {cure}", document_id=record.document.id)
            document = _patched(record, others).document
            document = replace(document, text=text, vectors=own.get("vectors"), headings=(), verbatim=())
            documents.append(document)
        self.check(documents)
        return documents

    def _retitled(
        self,
        records: Sequence[Record],
        patched: Sequence[Record],
        vectors: Mapping[str, EncodedVectors],
        keys: Mapping[str, Sequence[bytes]],
    ) -> tuple[Mapping[str, EncodedVectors], Mapping[str, Sequence[bytes]]]:
        """The vectors and keys, with those of new titles where a model makes them."""
        differ = (record.document.title != other.document.title for record, other in zip(records, patched, strict=True))
        is_retitled = [here for here, record in zip(differ, patched, strict=True) for _ in record.chunks]
        if not any(is_retitled):
            return vectors, keys
        chunks = [(record.document, chunk) for record in patched for chunk in record.chunks]
        renewed, new_keys = dict(vectors), dict(keys)
        for space, own in keys.items():
            rows = [row for row, here in enumerate(is_retitled) if here and own[row] != NO_KEY]
            if rows:
                made, made_keys = self._stage.embed_chunks(space, [chunks[row] for row in rows])
                codes, norms, all_keys = vectors[space].codes.copy(), vectors[space].norms.copy(), list(own)
                codes[rows], norms[rows] = made.codes, made.norms
                for row, key in zip(rows, made_keys, strict=True):
                    all_keys[row] = key
                renewed[space], new_keys[space] = EncodedVectors(codes, norms), all_keys
        return renewed, new_keys

    def _check_vectors(self, document: Document) -> None:
        """A document brings a vector for each space without a model, and none for a space that does not exist."""
        brought = document.vectors or {}
        for needed in self._brought:
            if needed.id not in brought:
                raise InvalidDocument(
                    f"document {document.id!r} has no vector for the space {needed.id!r}, which has no model: "
                    "bring one",
                    document_id=document.id,
                )
        for name, vector in brought.items():
            space = self._writer.spaces.get(name)
            if space is None:
                raise InvalidDocument(
                    f"document {document.id!r} has a vector for {name!r}, which is not a space of this collection",
                    document_id=document.id,
                )
            if vector.shape != (space.dimensions,):
                raise DimensionMismatch(
                    f"document {document.id!r} has a vector of shape {vector.shape}: the space {name!r} has "
                    f"{space.dimensions} dimensions",
                    document_id=document.id,
                    embedding_space=name,
                )

    def _check(self, record: Record) -> None:
        fault = self._builder.admit(record)
        if fault is not None:
            raise _refusal(record.document.id, fault)

    def _upsert(self, records: Sequence[Record]) -> None:
        vectors = self._stage.encode_records(records)
        for position, fault in vectors.faults.items():
            document_id = records[position].document.id
            raise InvalidVector(f"document {document_id!r}: {fault}", document_id=document_id)
        self._writer.upsert(records, vectors.encoded, vectors.keys)


def _refusal(document_id: str, fault: str) -> InvalidDocument:
    return InvalidDocument(f"document {document_id!r}: {fault}", document_id=document_id)


def _sound(made: T | InvalidDocument) -> T:
    """What was made of a document; the error of one that has none is raised."""
    if isinstance(made, InvalidDocument):
        raise made
    return made


def _patched(record: Record, changes: Mapping[str, Json]) -> Record:
    """The record with some members changed, and a fingerprint that no content has."""
    document = record.document
    members: dict[str, Any] = {}
    metadata = dict(document.metadata)
    for name, value in changes.items():
        if name in _FIXED:
            raise InvalidDocument(
                f"document {document.id!r}: {name} cannot be patched: add the document again",
                document_id=document.id,
            )
        if name in RESERVED_METADATA - {"updated_at"}:
            raise InvalidDocument(
                f"document {document.id!r}: {name} is a reserved name: choose another", document_id=document.id
            )
        if name == "updated_at":
            members[name] = normalize_timestamp(value)
        elif name in {"title", "url", "type"}:
            members[name] = None if value is None else read_string(changes, name)
        elif value is None:
            metadata.pop(name, None)
        else:
            metadata[name] = value
    changed = replace(document, metadata=metadata, **members)
    digest = hashlib.blake2b(record.fingerprint + orjson.dumps(changes, option=orjson.OPT_SORT_KEYS))
    mark = digest.digest()[: FINGERPRINT_BYTES - _TEXT_BYTES] + record.fingerprint[-_TEXT_BYTES:]
    return Record(changed, record.chunks, mark if changed != document else record.fingerprint)
