"""Writes segments: from pending rows, and from the live rows of other segments (merging).

A segment is written into a folder of its own, synced, then given its name; no manifest names it before. Rows
of vectors pass through a raw file that is mapped, so that merging holds no column in memory.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine import durable
from aidre.engine.arrow import FileEntry, write_file
from aidre.engine.codebook import blocks_of
from aidre.engine.deriving import ROW_FILES, Codebook, Task
from aidre.engine.fields import concat_fields
from aidre.engine.ids import build_ids, build_keys
from aidre.engine.lexicon import merge_lexicons
from aidre.engine.manifest import SegmentEntry
from aidre.engine.model import EmbeddingSpace, Encoded
from aidre.engine.rows import PendingRows
from aidre.engine.schema import (
    BATCH_ROWS,
    CHUNKS,
    CHUNKS_FILE,
    DOCUMENTS,
    DOCUMENTS_FILE,
    FIELDS_FILE,
    IDS_FILE,
    KEY_BYTES,
    LEXICON_FILE,
    NO_KEY,
    SEGMENTS,
    keys_file,
    vectors_file,
    vectors_schema,
)
from aidre.engine.segment import Segment, StoredChunk
from aidre.engine.vectors import dtype_of
from aidre.engine.workers import Derivation, Here

Recompute = Callable[[Sequence[StoredChunk]], tuple[Encoded, Sequence[bytes]]]
"""Vectors and embedding keys anew for some chunks, in their order."""

Block = tuple[Encoded, pa.Array]
"""Vectors and embedding keys of some rows, in order."""

_RECOMPUTED = 1024


@dataclass(frozen=True, slots=True)
class Survivors:
    """What merging takes of a segment: its live document rows and their chunk rows, both ascending."""

    segment: Segment
    documents: NDArray[np.int64]
    chunks: NDArray[np.int64]


def write_pending(
    folder: Path,
    pending: PendingRows,
    spaces: Sequence[EmbeddingSpace],
    dates: Sequence[str],
    *,
    derivation: Derivation | None = None,
    codebooks: Mapping[str, tuple[str, int]] | None = None,
    release: bool = False,
) -> SegmentEntry:
    """Write pending rows as a new segment of the collection in `folder`; `derivation` makes what is derived.

    With `codebooks` (and the rows that each learned from) by space the segment gets index codes too. `release` lets
    go of the rows as soon as they are written: there is no second try then.
    """
    derivation = derivation or Here()

    def write(place: Path) -> dict[str, FileEntry]:
        batches = {DOCUMENTS_FILE: (pending.document_batches, DOCUMENTS), CHUNKS_FILE: (pending.chunk_batches, CHUNKS)}
        files = {
            name: write_file(place / name, _rebatched(iter(rows)), schema) for name, (rows, schema) in batches.items()
        }
        for what in ROW_FILES:
            derivation.submit(Task(str(place), what, dates=tuple(dates)))
        for space in spaces:
            keys = pending.keys.get(space.id)
            name = vectors_file(space.id)
            encoded = pending.joined(space.id)
            files[name] = _write_vectors(place, space, encoded, key_array(keys, len(encoded.codes)))
            if space.model is not None:
                derivation.submit(Task(str(place), "keys", space.id))
            if codebooks and space.id in codebooks:
                data, trained = codebooks[space.id]
                derivation.submit(
                    Task(str(place), "index", space.id, codebook=Codebook(data, files[name].checksum, trained))
                )
            del encoded
        if release:
            pending.release()
        return files | derivation.results([place / name for name in files])

    return _publish(folder, pending.documents, pending.chunks, write)


def write_merged(
    folder: Path,
    parts: Sequence[Survivors],
    spaces: Sequence[EmbeddingSpace],
    anew: Mapping[str, Recompute] | None = None,
) -> SegmentEntry:
    """Write the survivors of several segments, in order, as one new segment.

    The vectors of the spaces in `anew` are computed from the chunks instead of copied. StoreDamaged where what
    is to be copied has been altered.
    """
    for part in parts:
        part.segment.check_truth()
    documents = sum(len(part.documents) for part in parts)
    chunks = sum(len(part.chunks) for part in parts)

    def write(place: Path) -> dict[str, FileEntry]:
        fields = concat_fields([(part.segment.fields, part.documents) for part in parts])
        files = {
            DOCUMENTS_FILE: write_file(place / DOCUMENTS_FILE, _rebatched(_merged_documents(parts)), DOCUMENTS),
            CHUNKS_FILE: write_file(place / CHUNKS_FILE, _rebatched(_merged_chunks(parts)), CHUNKS),
            FIELDS_FILE: write_file(place / FIELDS_FILE, [fields], fields.schema),
        }
        chunk_ids = [_kept(part.segment.chunks.chunked("id"), part.chunks) for part in parts]
        document_ids = [_kept(part.segment.documents.chunked("id"), part.documents) for part in parts]
        _merge_lexicons(place, files, parts)
        _write_ids(place, files, _one(chunk_ids), _one(document_ids))
        for space in spaces:
            recompute = (anew or {}).get(space.id)
            sources = [_copied(part, space) if recompute is None else _recomputed(part, recompute) for part in parts]
            _merge_vectors(place, files, space, sources, chunks)
        return files

    return _publish(folder, documents, chunks, write)


def add_file(folder: Path, segment_id: str, name: str, batch: pa.RecordBatch) -> FileEntry:
    """Add one derived file to a segment durably, under a name that no generation knows."""
    return _add_files(folder, segment_id, lambda place: {name: write_file(place / name, [batch], batch.schema)})[name]


def add_vectors(
    folder: Path, entry: SegmentEntry, space: EmbeddingSpace, blocks: Iterable[Block]
) -> Mapping[str, FileEntry]:
    """Add the files of a space to a segment durably; `blocks` hold a vector for every row, in order."""

    def write(place: Path) -> dict[str, FileEntry]:
        files: dict[str, FileEntry] = {}
        _merge_vectors(place, files, space, [iter(blocks)], entry.chunks)
        return files

    return _add_files(folder, entry.id, write)


def _add_files(
    folder: Path, segment_id: str, write: Callable[[Path], Mapping[str, FileEntry]]
) -> Mapping[str, FileEntry]:
    """Let files be written into a folder that the next writer would sweep, then move them into the segment."""
    place = folder / SEGMENTS / segment_id
    scratch = folder / SEGMENTS / f".{secrets.token_hex(8)}.tmp"
    try:
        with durable.storage_errors(place):
            scratch.mkdir()
            files = write(scratch)
        for name in files:
            durable.publish_file(scratch / name, place / name)
        return files
    finally:
        durable.remove_folder(scratch)


def _publish(folder: Path, documents: int, chunks: int, write: Callable[[Path], dict[str, FileEntry]]) -> SegmentEntry:
    segment_id = secrets.token_hex(8)
    segments = folder / SEGMENTS
    durable.make_folder(segments)
    place = segments / f".{segment_id}.tmp"
    with durable.storage_errors(place):
        place.mkdir()
    try:
        with durable.storage_errors(segments / segment_id):
            files = write(place)
        durable.publish_folder(place, segments / segment_id)
    except BaseException:
        durable.remove_folder(place)
        raise
    return SegmentEntry(segment_id, documents, chunks, files)


def _merge_lexicons(place: Path, files: dict[str, FileEntry], parts: Sequence[Survivors]) -> None:
    scratch = place / ".lexicon.tmp"  # a name that the next writer removes, should it be left behind
    with durable.storage_errors(scratch):
        scratch.mkdir()
    lexicon = merge_lexicons([(part.segment.lexicon, part.chunks) for part in parts], scratch)
    files[LEXICON_FILE] = write_file(place / LEXICON_FILE, [lexicon], lexicon.schema)
    del lexicon
    durable.remove_folder(scratch)


def _write_ids(
    place: Path, files: dict[str, FileEntry], chunk_ids: pa.ChunkedArray, document_ids: pa.ChunkedArray
) -> None:
    batch = build_ids(chunk_ids, document_ids)
    files[IDS_FILE] = write_file(place / IDS_FILE, [batch], batch.schema)


def key_array(keys: Sequence[bytes] | None, rows: int) -> pa.Array:
    joined = b"".join(keys) if keys else NO_KEY * rows
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(KEY_BYTES), rows, [None, pa.py_buffer(joined)])


def _write_vectors(place: Path, space: EmbeddingSpace, encoded: Encoded, keys: pa.Array) -> FileEntry:
    schema = vectors_schema(space)
    # One batch: the index views the whole column as one array.
    values = pa.FixedSizeListArray.from_arrays(pa.array(encoded.codes.reshape(-1)), type=schema.field("vector").type)
    batch = pa.RecordBatch.from_arrays([values, pa.array(encoded.norms), keys], schema=schema)
    return write_file(place / vectors_file(space.id), [batch], schema)


def _with_keys(place: Path, files: dict[str, FileEntry], space: EmbeddingSpace, keys: pa.Array) -> None:
    """Write the look-up of the keys of a space that has a model."""
    if space.model is not None:
        lookup = build_keys(pa.chunked_array([keys]))
        files[keys_file(space.id)] = write_file(place / keys_file(space.id), [lookup], lookup.schema)


def _copied(part: Survivors, space: EmbeddingSpace) -> Iterator[Block]:
    """Stored vectors and keys of the surviving rows, block by block."""
    column, norms = part.segment.columns[space.id], part.segment.norms(space.id)
    keys = part.segment.key_column(space.id)
    for rows in blocks_of(part.chunks):
        first, last = int(rows[0]), int(rows[-1]) + 1
        if last - first == len(rows):
            yield Encoded(column.codes[first:last], norms[first:last]), keys.slice(first, len(rows))
        else:
            yield Encoded(column.take(rows), norms[rows]), keys.take(pa.array(rows))


def _recomputed(part: Survivors, recompute: Recompute) -> Iterator[Block]:
    for start in range(0, len(part.chunks), _RECOMPUTED):
        rows = part.chunks[start : start + _RECOMPUTED].tolist()
        encoded, keys = recompute([StoredChunk(part.segment, row) for row in rows])
        yield encoded, key_array(keys, len(rows))


def _merge_vectors(
    place: Path, files: dict[str, FileEntry], space: EmbeddingSpace, sources: Iterable[Iterator[Block]], rows: int
) -> None:
    raw = place / ".raw"
    dtype = dtype_of(space)
    durable.reserve_file(raw, rows * space.dimensions * dtype.itemsize)
    codes = np.memmap(raw, dtype=dtype, mode="r+", shape=(rows, space.dimensions))
    norms, keys, start = [], [], 0
    for encoded, block_keys in chain.from_iterable(sources):
        codes[start : start + len(encoded.codes)] = encoded.codes
        start += len(encoded.codes)
        norms.append(encoded.norms)
        keys.append(block_keys)
    all_keys = pa.concat_arrays(keys)
    whole = Encoded(codes, np.concatenate(norms))
    files[vectors_file(space.id)] = _write_vectors(place, space, whole, all_keys)
    _with_keys(place, files, space, all_keys)
    del codes, whole
    raw.unlink()


def _kept(column: pa.ChunkedArray, rows: NDArray[np.int64]) -> pa.ChunkedArray:
    return column if len(rows) == len(column) else column.take(pa.array(rows))


def _one(parts: Iterable[pa.ChunkedArray]) -> pa.ChunkedArray:
    chunks = [chunk for part in parts for chunk in part.chunks]
    return pa.chunked_array([pa.concat_arrays(chunks)]) if chunks else pa.chunked_array([], pa.large_string())


def _taken(batches: Sequence[pa.RecordBatch], rows: NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
    """The given ascending rows of a table of BATCH_ROWS batches, batch by batch."""
    for number, batch in enumerate(batches):
        first = number * BATCH_ROWS
        low, high = np.searchsorted(rows, (first, first + batch.num_rows))
        if high - low == batch.num_rows:
            yield batch
        elif high > low:
            yield batch.take(pa.array(rows[low:high] - first))


def _of_today(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same rows in a schema that may have columns which an older release did not write."""
    if batch.schema.names == schema.names:
        return batch
    known = set(batch.schema.names)
    columns = [
        batch.column(field.name) if field.name in known else pa.nulls(len(batch), field.type) for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _replaced(batch: pa.RecordBatch, name: str, values: NDArray[Any], type_: pa.DataType) -> pa.RecordBatch:
    return batch.set_column(batch.schema.get_field_index(name), pa.field(name, type_), pa.array(values, type_))


def _merged_documents(parts: Sequence[Survivors]) -> Iterator[pa.RecordBatch]:
    first = 0
    for part in parts:
        for taken in _taken(part.segment.documents.file.batches, part.documents):
            batch = _of_today(taken, DOCUMENTS)
            counts = np.asarray(batch.column("chunks").to_numpy()).astype(np.int64)
            ends = first + np.cumsum(counts)
            yield _replaced(batch, "first_chunk", ends - counts, pa.int64())
            first = int(ends[-1]) if len(ends) else first


def _merged_chunks(parts: Sequence[Survivors]) -> Iterator[pa.RecordBatch]:
    first = 0
    for part in parts:
        for taken in _taken(part.segment.chunks.file.batches, part.chunks):
            batch = _of_today(taken, CHUNKS)
            old = np.asarray(batch.column("document_row").to_numpy())
            yield _replaced(batch, "document_row", first + np.searchsorted(part.documents, old), pa.int64())
        first += len(part.documents)


def _rebatched(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of exactly BATCH_ROWS, the last one shorter."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        while rows >= BATCH_ROWS:
            joined = pa.concat_batches(waiting)
            yield joined.slice(0, BATCH_ROWS)
            rest = joined.slice(BATCH_ROWS)
            waiting, rows = [rest], rest.num_rows
    if rows:
        yield pa.concat_batches(waiting)


def survivors(segment: Segment, deleted: NDArray[np.bool_] | None) -> Survivors:
    """The live rows of a segment under a mask of deleted documents."""
    if deleted is None:
        documents = np.arange(segment.entry.documents)
        return Survivors(segment, documents, np.arange(segment.entry.chunks))
    live = ~deleted
    return Survivors(segment, np.flatnonzero(live), np.flatnonzero(segment.to_chunks(live)))


def pieces_of(whole: Survivors, most_rows: int) -> list[Survivors]:
    """The same rows in order, cut between documents into pieces of at most `most_rows` chunks."""
    counts = whole.segment.chunk_counts
    ends = np.cumsum(np.ones(len(whole.documents), np.int64) if counts is None else counts[whole.documents])
    pieces, first, row = [], 0, 0
    while first < len(ends):
        last = max(first + 1, int(np.searchsorted(ends, row + most_rows, side="right")))
        end = int(ends[last - 1])
        pieces.append(Survivors(whole.segment, whole.documents[first:last], whole.chunks[row:end]))
        first, row = last, end
    return pieces
