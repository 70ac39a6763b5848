"""A segment opened by memory map: immutable files, shared by every generation that names it; and its bounded caches.

The segment opens only if the primary files (documents, chunks, vectors) have their size and a sound frame (see
`storage.arrow`); of their bodies the offsets are checked, once (`arrival`). Derived files (ids, fields, lexicon,
words, keys, vector index) that are missing or damaged are rebuilt in memory or bypassed, with a warning.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine.errors import StorageFailed, StoreDamaged
from aidre.engine.index import ids as ids_file
from aidre.engine.index.fields import FieldIndex, Filter, filter_digest
from aidre.engine.index.text import Lexicon, Words, build_lexicon
from aidre.engine.index.vectors import VectorColumn, VectorIndex, open_index, trained_rows_of
from aidre.engine.model import EmbeddingSpace
from aidre.engine.native import native
from aidre.engine.segment.arrival import Arrivals, mark_of
from aidre.engine.segment.build import build_stored_fields, lexical_texts
from aidre.engine.storage import (
    BATCH_ROWS,
    CHUNKS_FILE,
    CHUNKS_SCHEMA,
    DOCUMENTS_FILE,
    DOCUMENTS_SCHEMA,
    FIELDS_FILE,
    IDS_FILE,
    LEXICON_FILE,
    WORDS_FILE,
    ArrowFile,
    BinaryArray,
    BytesColumn,
    FileProblem,
    FileUnreadable,
    FixedColumn,
    IntegerColumn,
    Manifest,
    SegmentEntry,
    Table,
    check_columns,
    empty_binary_array,
    find_index_file,
    keys_file,
    open_file,
    vectors_file,
)

if TYPE_CHECKING:
    from aidre.engine.native import kernel

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(OrderedDict[K, V]):
    """A mapping of bounded size that drops its oldest entries. Reads are those of a dict; write with `add`.

    Threads may share one without a lock: two that miss at once compute the same value twice and store it twice. An
    entry may be dropped by another thread at any time, so use the value that `add` returns instead of reading it back.
    """

    def __init__(self, max_entries: int) -> None:
        super().__init__()
        self._max_entries = max_entries

    def add(self, key: K, value: V) -> V:
        """Store the value in place of the oldest entry if the cache is full; return it."""
        while len(self) >= self._max_entries:
            self.popitem(last=False)  # atomic, unlike deleting the first key
        self[key] = value
        return value


def max_masks(rows: int, max_count: int, max_bytes: int) -> int:
    """The number of masks of `rows` bytes that a cache may hold; at least four, whatever their size."""
    return max(4, min(max_count, max_bytes // max(1, rows)))


T = TypeVar("T")
N = TypeVar("N", bound=np.generic)

_SCHEMAS = {DOCUMENTS_FILE: DOCUMENTS_SCHEMA, CHUNKS_FILE: CHUNKS_SCHEMA}
_YOUNGER = frozenset({"signature", "state"})
"""Columns that files of older releases lack."""
_MAX_MASKS = 64
_MAX_MASK_BYTES = 1 << 23
"""Bounds on the cached document masks of filters of one segment, in number and in bytes together; four always fit."""


class SegmentReader:
    """The opened files of one segment. `warnings` name the derived files that were rebuilt or bypassed.

    By space id: `columns` are the stored vectors, `scans` the vector indexes that could be opened, `trained_rows` the
    number of rows that each index's codebook was trained on. Files of data that `arrivals` does not know are checked.
    Raises StoreDamaged for a damaged primary file, and
    StorageFailed for one that cannot be read.
    """

    def __init__(
        self,
        folder: Path,
        entry: SegmentEntry,
        spaces: Sequence[EmbeddingSpace],
        manifest: Manifest,
        arrivals: Arrivals | None = None,
    ) -> None:
        self.id = entry.id
        self.entry = entry
        self.warnings: list[str] = []
        self._folder = folder
        self._collection = manifest.name
        self._dates = manifest.dates
        self._arrivals = arrivals
        mask_limit = max_masks(entry.documents, _MAX_MASKS, _MAX_MASK_BYTES)
        self._masks: BoundedCache[bytes, NDArray[np.bool_]] = BoundedCache(mask_limit)
        self.documents = Table(self._open_primary(DOCUMENTS_FILE, entry.documents))
        self.chunks = Table(self._open_primary(CHUNKS_FILE, entry.chunks))
        self.fragments = fragment_buffers(self.chunks)
        self.ids = self._open_derived(IDS_FILE, ids_file.IdIndex, self._rebuild_ids)
        self.fields = self._open_derived(FIELDS_FILE, partial(FieldIndex, titles=self._titles), self._rebuild_fields)
        self.lexicon = self._open_derived(LEXICON_FILE, Lexicon, self._rebuild_lexicon)
        self.words = self._open_words()
        self.columns: dict[str, VectorColumn] = {}
        self.scans: dict[str, VectorIndex] = {}
        self.trained_rows: dict[str, int] = {}
        self._vectors: dict[str, pa.RecordBatch] = {}
        self._key_lookups: dict[str, ids_file.Lookup] = {}
        for space in spaces:
            self._open_space(space)

    # -- opening -------------------------------------------------------------------------------------------

    def check_primary_files(self) -> None:
        """Verify the checksums of all primary files before their rows are copied: a copy gets a new checksum, which
        would hide the damage. Raises StoreDamaged."""
        self._open_primary(DOCUMENTS_FILE, self.entry.documents, whole=True)
        for name in (CHUNKS_FILE, *map(vectors_file, self.columns)):
            self._open_primary(name, self.entry.chunks, whole=True)

    def _open_primary(self, name: str, rows: int, *, whole: bool = False) -> ArrowFile:
        path = self._folder / name
        mark = None if self._arrivals is None else mark_of(path)
        try:
            file = open_file(path, self.entry.files[name], whole=whole)
            if name in _SCHEMAS:
                check_columns(file, _SCHEMAS[name], optional=_YOUNGER)
            if file.rows != rows:
                raise FileProblem(f"holds {file.rows} rows instead of {rows}")
            if self._arrivals is not None:
                self._arrivals.check(path, mark, file)
        except (FileProblem, KeyError) as problem:
            if isinstance(problem, FileUnreadable):
                shown = self._path(name)
                raise StorageFailed(f"{shown} {problem}", file=shown) from problem
            raise self._damaged(name, problem) from problem
        return file

    def _open_derived(self, name: str, make: Callable[[pa.RecordBatch], T], rebuild: Callable[[], pa.RecordBatch]) -> T:
        """Apply `make` to a derived file, or to a batch rebuilt from the primary files if it is missing or damaged."""
        try:
            return make(open_file(self._folder / name, self.entry.files[name], whole=True).batches[0])
        except (FileProblem, KeyError, IndexError, ValueError) as problem:
            missing = "is of an older release, which wrote none; compact the collection"
            self._warn(name, f"{missing if name not in self.entry.files else problem}; rebuilt in memory")
            return make(rebuild())

    def _open_words(self) -> Words | None:
        """None where an older release wrote no file, or it is damaged: the segment then knows no words to offer."""
        if WORDS_FILE not in self.entry.files:
            return None
        try:
            return Words(open_file(self._folder / WORDS_FILE, self.entry.files[WORDS_FILE], whole=True).batches[0])
        except (FileProblem, IndexError, ValueError) as problem:
            self._warn(WORDS_FILE, f"{problem}; searched without corrections instead")
            return None

    def _open_space(self, space: EmbeddingSpace) -> None:
        """Open the vectors of a space, and its index if there is a sound one that was built from these vectors."""
        name = vectors_file(space.id)
        batch = self._vectors_of(name, space)
        values, norms = (column.to_numpy(zero_copy_only=True) for column in (batch.column(0).values, batch.column(1)))
        self._vectors[space.id] = batch
        self.columns[space.id] = VectorColumn(space, values.reshape(-1, space.dimensions), norms)
        index = find_index_file(self.entry.files, space.id)
        if index is None:
            return
        try:
            index_batch = open_file(self._folder / index, self.entry.files[index], whole=True).batches[0]
            scan = open_index(space, index_batch, self.entry.chunks, self.entry.files[name].checksum)
            trained_rows = trained_rows_of(index_batch)
        except (FileProblem, IndexError, ValueError) as problem:
            self._warn(index, f"{problem}; searched exactly instead")
            return
        self.scans[space.id] = scan
        self.trained_rows[space.id] = trained_rows

    def _vectors_of(self, name: str, space: EmbeddingSpace) -> pa.RecordBatch:
        batches = self._open_primary(name, self.entry.chunks).batches
        kinds = [column.type for column in batches[0].columns[:2]] if batches else []
        is_sound = (
            len(batches) == 1
            and len(kinds) == 2
            and pa.types.is_fixed_size_list(kinds[0])
            and kinds[0].list_size == space.dimensions
            and pa.types.is_floating(kinds[0].value_type)
            and pa.types.is_float32(kinds[1])
            and not any(column.null_count for column in (*batches[0].columns, batches[0].column(0).values))
        )
        if not is_sound:
            raise self._damaged(name, FileProblem(f"does not hold one vector of {space.dimensions} numbers a chunk"))
        return batches[0]

    def _path(self, name: str) -> str:
        """The path of a file below the store, for messages."""
        return f"{self._collection}/segments/{self.id}/{name}"

    def _damaged(self, name: str, problem: Exception) -> StoreDamaged:
        path = self._path(name)
        return StoreDamaged(
            f"{path} {problem}: restore it from a backup",
            collection=self._collection,
            file=path,
            problem=str(problem),
        )

    def _warn(self, name: str, message: str) -> None:
        self.warnings.append(f"{self._path(name)} {message}")

    def _rebuild_ids(self) -> pa.RecordBatch:
        return ids_file.build_ids(self.chunks.chunked("id"), self.documents.chunked("id"))

    def _rebuild_fields(self) -> pa.RecordBatch:
        return build_stored_fields(self.documents.file.batches, self._dates)

    def _titles(self) -> BinaryArray:
        """The titles of all documents. Their offsets are checked first: Arrow trusts them, and a search verifies no
        content of documents.arrow."""
        titles = self.documents.chunked("title")
        try:
            titles.validate(full=True)
        except pa.ArrowInvalid as problem:
            raise self._damaged(DOCUMENTS_FILE, FileProblem(f"has titles that are damaged ({problem})")) from problem
        return pa.concat_arrays([empty_binary_array(), *titles.cast(pa.large_binary()).chunks])

    def _rebuild_lexicon(self) -> pa.RecordBatch:
        return build_lexicon(lexical_texts(self.documents.file.batches, self.chunks.file.batches))

    # -- look-up by id and by embedding key ----------------------------------------------------------------

    def find_documents(self, ids: Sequence[bytes]) -> NDArray[np.int64]:
        """The document row of each id (UTF-8), -1 where the segment does not have it."""
        stored = self.documents.bytes("id")
        return self.ids.documents.find_all(ids, lambda i, row: stored[row] == ids[i])

    def find_chunk(self, chunk_id: str) -> int | None:
        value = chunk_id.encode("utf-8", "surrogatepass")
        stored = self.chunks.bytes("id")
        return self.ids.chunks.find(value, lambda row: stored[row] == value)

    def keys(self, space_id: str) -> ids_file.Lookup:
        """The look-up of embedding keys, opened at the first use: only writers need it."""
        lookup = self._key_lookups.get(space_id)
        if lookup is None:
            chunked = pa.chunked_array([self.key_column(space_id)])
            lookup = self._open_derived(
                keys_file(space_id),
                partial(ids_file.open_keys, count=self.entry.chunks),
                lambda: ids_file.build_keys(chunked),
            )
            self._key_lookups[space_id] = lookup
        return lookup

    def find_keys(self, space_id: str, keys: Sequence[bytes]) -> NDArray[np.int64]:
        """The chunk row of each embedding key, -1 where the segment does not have it."""
        column = self.key_column(space_id)
        return self.keys(space_id).find_all(keys, lambda i, row: column[row].as_py() == keys[i])

    # -- rows ----------------------------------------------------------------------------------------------

    @cached_property
    def passage_columns(self) -> tuple[IntegerColumn, BytesColumn, BytesColumn, IntegerColumn, FixedColumn]:
        """Document row, id, text, token count and digest of each chunk, for every hit whose text is returned."""
        chunks = self.chunks
        texts = chunks.bytes("id"), chunks.bytes("text")
        return (chunks.integers("document_row"), *texts, chunks.integers("token_count"), chunks.fixed("content_hash"))

    @cached_property
    def chunk_counts(self) -> NDArray[np.int32] | None:
        """The number of chunks of each document, in order; None where each has exactly one."""
        if self.entry.documents == self.entry.chunks:
            return None
        counts = np.asarray(self.documents.numbers("chunks"))
        if counts.min() < 0 or counts.sum(dtype=np.int64) != self.entry.chunks:
            raise self._damaged(
                DOCUMENTS_FILE, FileProblem(f"has chunk counts that do not add up to {self.entry.chunks}")
            )
        return counts

    @cached_property
    def _chunk_ends(self) -> NDArray[np.int64] | None:
        """The row after the last chunk of each document; None where each has exactly one."""
        return None if self.chunk_counts is None else np.cumsum(self.chunk_counts, dtype=np.int64)

    def document_rows(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The document row of each of some chunks."""
        return rows if self._chunk_ends is None else self._chunk_ends.searchsorted(rows, side="right")

    @cached_property
    def native_texts(self) -> NativeTexts | None:
        """All that phrases are looked for in, for the kernel; None without it."""
        if native is None:
            return None
        columns = self.chunks.buffers("text"), self.chunks.buffers("section"), self.documents.buffers("title")
        return NativeTexts(*(native.Texts(batches, BATCH_ROWS) for batches in columns))

    def chunk_rows(self, document_row: int) -> range:
        first = int(self.documents.value("first_chunk", document_row))
        # A search does not verify the content of documents.arrow, so bound the range by the rows of the segment.
        return range(max(0, first), min(first + int(self.documents.value("chunks", document_row)), self.entry.chunks))

    def key_column(self, space_id: str) -> pa.Array:
        return self._vectors[space_id].column(2)

    # -- filters -------------------------------------------------------------------------------------------

    def document_mask(self, filter_: Filter) -> NDArray[np.bool_]:
        """The documents that pass a filter, deleted ones included; cached, so do not write to it."""
        key = filter_digest(filter_)
        mask = self._masks.get(key)
        return self._masks.add(key, self.fields.mask(filter_)) if mask is None else mask

    def to_chunks(self, of_documents: NDArray[N]) -> NDArray[N]:
        """A value for each chunk row, from those of document rows."""
        counts = self.chunk_counts
        return of_documents if counts is None else np.repeat(of_documents, counts)


# -- what every hit of an answer reads ---------------------------------------------------------------------------
# Arrow would make a scalar for each value. A slice of a buffer is bytes in one step, and never reads beyond the end of
# the file, even if an offset is damaged.


class NativeTexts(NamedTuple):
    """The texts and sections of all chunks, and the titles of all documents, for the kernel."""

    texts: kernel.Texts
    sections: kernel.Texts
    titles: kernel.Texts


class FragmentBuffers(NamedTuple):
    """The columns behind `StoredChunk.fragments`, in one batch of BATCH_ROWS chunks.

    Value i of a column of strings is `values[offsets[i] : offsets[i + 1]]`; etags have a fixed width and no offsets.
    The buffers do not keep the mapped file alive: keep the Table as long as them.
    """

    id_offsets: Any
    ids: Any
    source_offsets: Any
    sources: Any
    metadata_offsets: Any
    metadata: Any
    etag_offsets: None
    etags: Any


def fragment_buffers(chunks: Table) -> list[FragmentBuffers]:
    """The buffers of each batch of a chunks file."""
    columns = [chunks.raw(name) for name in ("id", "json_source", "json_metadata", "etag")]
    return [FragmentBuffers(*itertools.chain(*views)) for views in zip(*columns, strict=True)]


def fragment_arrays(chunks: Table) -> list[tuple[Any, ...]]:
    """The same for the kernel: (offsets, bytes) of ids, of sources and of metadata, and the etags, batch by batch."""
    strings = [chunks.buffers(name) for name in ("id", "json_source", "json_metadata")]
    return list(zip(*strings, chunks.arrays("etag"), strict=True))
