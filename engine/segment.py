"""A segment opened by memory map: immutable files, shared by every generation that names it.

Files that hold truth (documents, chunks, vectors) must be sound or the segment refuses to open. Files that
are derived (ids, fields, keys, index) are rebuilt in memory or bypassed when they are not, with a warning.
"""

from __future__ import annotations

import itertools
from binascii import hexlify
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine import ids as ids_file
from aidre.engine.arrow import ArrowFile, FileProblem, Unreadable, open_file
from aidre.engine.deriving import field_rows, lexical_texts, stored_fields
from aidre.engine.errors import StorageFailed, StoreDamaged
from aidre.engine.fields import FieldRow, Fields
from aidre.engine.filters import Filter, canonical
from aidre.engine.index import Scan, open_scan, trained_rows_of
from aidre.engine.kernel import Column
from aidre.engine.lexicon import Lexicon, build_lexicon
from aidre.engine.manifest import Manifest, SegmentEntry
from aidre.engine.model import EmbeddingSpace, Json
from aidre.engine.schema import (
    BATCH_ROWS,
    CHUNKS_FILE,
    DOCUMENTS_FILE,
    ETAG_BYTES,
    FIELDS_FILE,
    IDS_FILE,
    LEXICON_FILE,
    index_among,
    keys_file,
    vectors_file,
)
from aidre.engine.table import Table
from aidre.engine.vectors import decode

T = TypeVar("T")
_MASKS = 64
_MASK_BYTES = 1 << 23
"""How many masks are kept, and of how many bytes in all; a few in any case."""


class Segment:
    """Opened files of one segment. `warnings` name the derived files that were bypassed."""

    def __init__(self, folder: Path, entry: SegmentEntry, spaces: Sequence[EmbeddingSpace], manifest: Manifest) -> None:
        self.id = entry.id
        self.entry = entry
        self.warnings: list[str] = []
        self._folder = folder
        self._collection = manifest.name
        self._dates = manifest.dates
        self._masks: OrderedDict[bytes, NDArray[np.bool_]] = OrderedDict()
        self._most_masks = max(4, min(_MASKS, _MASK_BYTES // max(1, entry.documents)))
        self.documents = Table(self._truth(DOCUMENTS_FILE, entry.documents))
        self.chunks = Table(self._truth(CHUNKS_FILE, entry.chunks))
        columns = [self.chunks.plain(name) for name in ("id", "json_source", "json_metadata", "etag")]
        self.fragments = [tuple(itertools.chain(*views)) for views in zip(*columns, strict=True)]
        self.ids = self._derived(IDS_FILE, ids_file.Ids, self._rebuilt_ids)
        self.fields = self._derived(FIELDS_FILE, Fields, self._rebuilt_fields)
        self.lexicon = self._derived(LEXICON_FILE, Lexicon, self._rebuilt_lexicon)
        self.columns: dict[str, Column] = {}
        self.scans: dict[str, Scan] = {}
        self.trained_rows: dict[str, int] = {}
        self._vectors: dict[str, pa.RecordBatch] = {}
        for space in spaces:
            self._open_space(space)

    # -- opening -------------------------------------------------------------------------------------------

    def check_truth(self) -> None:
        """Read the whole of what holds truth: a copy under a new checksum would hide its damage. StoreDamaged."""
        self._truth(DOCUMENTS_FILE, self.entry.documents, whole=True)
        for name in (CHUNKS_FILE, *map(vectors_file, self.columns)):
            self._truth(name, self.entry.chunks, whole=True)

    def _truth(self, name: str, rows: int, *, whole: bool = False) -> ArrowFile:
        try:
            file = open_file(self._folder / name, self.entry.files[name], whole=whole)
            if file.rows != rows:
                raise FileProblem(f"holds {file.rows} rows instead of {rows}")
        except (FileProblem, KeyError) as problem:
            if isinstance(problem, Unreadable):
                where = f"{self._collection}/segments/{self.id}/{name}"
                raise StorageFailed(f"{where} {problem}", file=where) from problem
            raise self._damaged(name, problem) from problem
        return file

    def _damaged(self, name: str, problem: Exception) -> StoreDamaged:
        where = f"{self._collection}/segments/{self.id}/{name}"
        return StoreDamaged(
            f"{where} {problem}: restore it from a backup",
            collection=self._collection,
            file=where,
            problem=str(problem),
        )

    def _derived(self, name: str, make: Callable[[pa.RecordBatch], T], rebuild: Callable[[], pa.RecordBatch]) -> T:
        try:
            return make(open_file(self._folder / name, self.entry.files[name], whole=True).batches[0])
        except (FileProblem, KeyError, IndexError, ValueError) as problem:
            older = "is of an older release, which wrote none; compact the collection"
            self._warn(name, f"{older if name not in self.entry.files else problem}; rebuilt in memory")
            return make(rebuild())

    def _warn(self, name: str, what: str) -> None:
        self.warnings.append(f"{self._collection}/segments/{self.id}/{name} {what}")

    def _open_space(self, space: EmbeddingSpace) -> None:
        name = vectors_file(space.id)
        batch = self._truth(name, self.entry.chunks).batches[0]
        values = batch.column(0).values.to_numpy(zero_copy_only=True)
        self._vectors[space.id] = batch
        self.columns[space.id] = Column(space, values.reshape(-1, space.dimensions))
        index = index_among(self.entry.files, space.id)
        if index is None:
            return
        try:
            opened = open_file(self._folder / index, self.entry.files[index], whole=True).batches[0]
            scan = open_scan(space, opened, self.entry.chunks, self.entry.files[name].checksum)
        except (FileProblem, IndexError) as problem:
            self._warn(index, f"{problem}; searched exactly instead")
            return
        self.scans[space.id] = scan
        self.trained_rows[space.id] = trained_rows_of(opened)

    def _rebuilt_ids(self) -> pa.RecordBatch:
        return ids_file.build_ids(self.chunks.chunked("id"), self.documents.chunked("id"))

    def _rebuilt_fields(self) -> pa.RecordBatch:
        return stored_fields(self.documents.file.batches, self._dates)

    def _rebuilt_lexicon(self) -> pa.RecordBatch:
        return build_lexicon(lexical_texts(self.documents.file.batches, self.chunks.file.batches))

    def field_rows(self) -> Iterator[FieldRow]:
        """What each document offers to filters, parsed from its stored JSON."""
        return field_rows(self.documents.file.batches)

    # -- reading -------------------------------------------------------------------------------------------

    def find_documents(self, values: Sequence[bytes]) -> NDArray[np.int64]:
        """The document row of each id (UTF-8), -1 where the segment does not have it."""
        ids = self.documents.bytes("id")
        return self.ids.documents.find_all(values, lambda number, row: ids[row] == values[number])

    def find_chunk(self, chunk_id: str) -> int | None:
        value = chunk_id.encode("utf-8", "surrogatepass")
        ids = self.chunks.bytes("id")
        return self.ids.chunks.find(value, lambda row: ids[row] == value)

    def document_mask(self, wanted: Filter) -> NDArray[np.bool_]:
        """Documents that pass a filter, whether deleted or not; cached by the filter's canonical form."""
        key = canonical(wanted)
        mask = self._masks.get(key)
        if mask is None:
            mask = self.fields.mask(wanted)
            while len(self._masks) >= self._most_masks:
                self._masks.popitem(last=False)  # in one step: another thread may be here too
            self._masks[key] = mask
        return mask

    @cached_property
    def passages(self) -> Passages:
        return Passages(self.id, self.chunks)

    @cached_property
    def chunk_counts(self) -> NDArray[np.int32] | None:
        """Chunks of each document in order, None where each has exactly one."""
        if self.entry.documents == self.entry.chunks:
            return None
        counts = np.asarray(self.documents.numbers("chunks"))
        if counts.min() < 0 or counts.sum(dtype=np.int64) != self.entry.chunks:
            raise self._damaged(DOCUMENTS_FILE, FileProblem("counts other chunks than there are"))
        return counts

    def to_chunks(self, document_mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The mask over chunk rows that a mask over document rows means."""
        counts = self.chunk_counts
        return document_mask if counts is None else np.repeat(document_mask, counts)

    def chunk_rows(self, document_row: int) -> range:
        first = int(self.documents.value("first_chunk", document_row))
        # What is stored of a document is verified on request alone: its chunks end where those of the segment do.
        return range(max(0, first), min(first + int(self.documents.value("chunks", document_row)), self.entry.chunks))

    def norms(self, space_id: str) -> NDArray[np.float32]:
        return np.asarray(self._vectors[space_id].column(1).to_numpy(zero_copy_only=True))

    def key_column(self, space_id: str) -> pa.Array:
        return self._vectors[space_id].column(2)

    @cached_property
    def _key_lookups(self) -> dict[str, ids_file.Lookup]:
        return {}

    def keys(self, space_id: str) -> ids_file.Lookup:
        """The look-up of embedding keys, opened when a writer first asks."""
        lookup = self._key_lookups.get(space_id)
        if lookup is None:
            chunked = pa.chunked_array([self.key_column(space_id)])
            lookup = self._derived(keys_file(space_id), ids_file.open_keys, lambda: ids_file.build_keys(chunked))
            self._key_lookups[space_id] = lookup
        return lookup

    def find_keys(self, space_id: str, keys: Sequence[bytes]) -> NDArray[np.int64]:
        column = self.key_column(space_id)
        return self.keys(space_id).find_all(keys, lambda number, row: column[row].as_py() == keys[number])


class Passages:
    """What is read of every chunk whose text may be returned, a row at a time: asked for at once."""

    def __init__(self, segment_id: str, chunks: Table) -> None:
        self._segment_id = segment_id
        self._documents, self._tokens = chunks.integers("document_row"), chunks.integers("token_count")
        self._ids, self._texts, self._digests = chunks.bytes("id"), chunks.bytes("text"), chunks.fixed("content_hash")

    def __getitem__(self, row: int) -> tuple[tuple[str, int], str, str, int | None, bytes]:
        return (
            (self._segment_id, self._documents.get(row) or 0),
            self._ids[row].decode(),
            self._texts[row].decode(),
            self._tokens.get(row),
            self._digests[row],
        )


class StoredChunk:
    """One row of a segment, read from the map when asked. `json_*` are fragments ready to splice."""

    __slots__ = ("_row", "_segment")

    def __init__(self, segment: Segment, row: int) -> None:
        self._segment = segment
        self._row = row

    @property
    def fragments(self) -> tuple[bytes, bytes, bytes, bytes]:
        """Its id, its source and its metadata as JSON, and its etag: in one go, as every hit of an answer needs."""
        row = self._row
        ids, id, sources, source, stored, metadata, _, etags = self._segment.fragments[row // BATCH_ROWS]
        row %= BATCH_ROWS
        end = row + 1
        etag = row * ETAG_BYTES
        return (
            orjson.dumps(id[ids[row] : ids[end]].decode()),
            source[sources[row] : sources[end]],
            metadata[stored[row] : stored[end]],
            hexlify(etags[etag : etag + ETAG_BYTES]),
        )

    @property
    def passage(self) -> tuple[tuple[str, int], str, str, int | None, bytes]:
        """The place of its document, its id, its text, its tokens where they were counted, the SHA-256 of the text."""
        return self._segment.passages[self._row]

    def _bytes(self, name: str) -> bytes:
        return self._segment.chunks.bytes(name)[self._row]

    def _document(self, name: str) -> Any:
        return self._segment.documents.value(name, self.document_row)

    @property
    def document_row(self) -> int:
        return int(self._segment.chunks.value("document_row", self._row))

    @property
    def id(self) -> str:
        return self._bytes("id").decode()

    @property
    def document_place(self) -> tuple[str, int]:
        """The document's segment and row: what is stored there never changes."""
        return self._segment.id, self.document_row

    @property
    def document_chunks(self) -> int:
        """How many chunks its document has."""
        return int(self._document("chunks"))

    @property
    def document_id(self) -> str:
        return str(self._document("id"))

    @property
    def json_id(self) -> bytes:
        return orjson.dumps(self.id)

    @property
    def json_source(self) -> bytes:
        return self._bytes("json_source")

    @property
    def json_metadata(self) -> bytes:
        return self._bytes("json_metadata")

    @property
    def json_payload(self) -> bytes | None:
        payload: bytes | None = self._document("payload")
        return payload

    @property
    def etag(self) -> str:
        return self._segment.chunks.fixed("etag")[self._row].hex()

    @property
    def text(self) -> str:
        return self._bytes("text").decode()

    @property
    def span(self) -> tuple[int, int]:
        """Where the text stands in the document, in characters."""
        chunks = self._segment.chunks
        return int(chunks.value("start", self._row)), int(chunks.value("end", self._row))

    @property
    def section(self) -> str | None:
        section: str | None = self._segment.chunks.value("section", self._row)
        return section

    @property
    def token_count(self) -> int | None:
        count: int | None = self._segment.chunks.value("token_count", self._row)
        return count

    @property
    def digest(self) -> bytes:
        """The SHA-256 of the text's UTF-8 bytes."""
        return self._segment.chunks.fixed("content_hash")[self._row]

    @property
    def content_hash(self) -> str:
        return "sha256:" + self.digest.hex()

    @property
    def url(self) -> str | None:
        url: str | None = self._document("url")
        return url

    @property
    def title(self) -> str | None:
        title: str | None = self._document("title")
        return title

    @property
    def type(self) -> str | None:
        type_: str | None = self._document("type")
        return type_

    @property
    def updated_at(self) -> str:
        return str(self._document("updated_at"))

    @property
    def metadata(self) -> Mapping[str, Json]:
        """The document's own metadata as ingested."""
        stored = self._document("metadata")
        metadata: Mapping[str, Json] = orjson.loads(stored) if stored else {}
        return metadata

    @property
    def schema_object(self) -> bytes | None:
        """The schema.org object as JSON, None where the document has none."""
        value: bytes | None = self._document("schema_object")
        return value

    def vectors(self) -> dict[str, NDArray[np.float32]]:
        """The chunk's vector in each space, float32 of shape (dimensions,), with the norm it was given with."""
        row = np.array([self._row], dtype=np.int64)
        return {
            space: decode(column.take(row), self._segment.norms(space)[self._row : self._row + 1])[0]
            for space, column in self._segment.columns.items()
        }
