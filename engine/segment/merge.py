"""Merging: the live rows of several segments, in order, written as one new segment.

Derived files are merged rather than rebuilt where that is cheaper (fields, lexicon). Columns pass through in batches,
and vectors and postings through mapped scratch files, so no whole column is held in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine.index import build_ids, signatures
from aidre.engine.index.fields import merge_fields
from aidre.engine.index.text import WordCounts, merge_lexicons
from aidre.engine.index.vectors import row_blocks
from aidre.engine.model import EmbeddingSpace, EncodedVectors
from aidre.engine.segment.build import lexical_texts
from aidre.engine.segment.segment_reader import SegmentReader
from aidre.engine.segment.segment_writer import KeyedVectors, key_array, publish_segment, rebatch, write_vector_blocks
from aidre.engine.segment.stored_chunk import StoredChunk
from aidre.engine.storage import (
    BATCH_ROWS,
    CHUNKS_FILE,
    CHUNKS_SCHEMA,
    DOCUMENTS_FILE,
    DOCUMENTS_SCHEMA,
    FIELDS_FILE,
    IDS_FILE,
    LEXICON_FILE,
    SIGNATURE_BYTES,
    WORDS_FILE,
    FileEntry,
    SegmentEntry,
    durable,
    fixed_binary,
    write_file,
)

Recompute = Callable[[Sequence[StoredChunk]], tuple[EncodedVectors, Sequence[bytes]]]
"""Computes the vectors and embedding keys of some chunks again, in their order."""

_RECOMPUTED_CHUNKS = 1024
"""Chunks in one call of Recompute."""


@dataclass(frozen=True, slots=True)
class LiveRows:
    """Rows of a segment that a merge copies: documents and all chunks of these, both ascending."""

    segment: SegmentReader
    document_rows: NDArray[np.int64]
    chunk_rows: NDArray[np.int64]


def live_rows(segment: SegmentReader, deleted: NDArray[np.bool_] | None) -> LiveRows:
    """The rows of a segment that are live under a mask of deleted documents (None: all)."""
    if deleted is None:
        documents = np.arange(segment.entry.documents)
        return LiveRows(segment, documents, np.arange(segment.entry.chunks))
    live = ~deleted
    return LiveRows(segment, np.flatnonzero(live), np.flatnonzero(segment.to_chunks(live)))


def split_live_rows(rows: LiveRows, max_chunks: int) -> list[LiveRows]:
    """The same rows in order, split between documents into pieces of at most `max_chunks` chunks.

    A document with more chunks than that becomes a piece of its own.
    """
    counts = rows.segment.chunk_counts
    ends = np.cumsum(np.ones(len(rows.document_rows), np.int64) if counts is None else counts[rows.document_rows])
    pieces, document, chunk = [], 0, 0
    while document < len(ends):
        end = max(document + 1, int(np.searchsorted(ends, chunk + max_chunks, side="right")))
        chunk_end = int(ends[end - 1])
        pieces.append(LiveRows(rows.segment, rows.document_rows[document:end], rows.chunk_rows[chunk:chunk_end]))
        document, chunk = end, chunk_end
    return pieces


def write_merged(
    folder: Path,
    sources: Sequence[LiveRows],
    spaces: Sequence[EmbeddingSpace],
    recompute: Mapping[str, Recompute] | None = None,
) -> SegmentEntry:
    """Write the live rows of several segments, in order, as a new segment of the collection in `folder`.

    The vectors of the spaces in `recompute` are computed from the chunks, those of other spaces are copied. Raises
    StoreDamaged if a file to be copied is damaged.
    """
    for source in sources:
        source.segment.check_primary_files()
    documents = sum(len(source.document_rows) for source in sources)
    chunks = sum(len(source.chunk_rows) for source in sources)

    def write(segment_folder: Path) -> dict[str, FileEntry]:
        files = _write_merged_rows(segment_folder, sources)
        for space in spaces:
            compute = (recompute or {}).get(space.id)
            blocks = (
                _copied_vectors(source, space) if compute is None else _recomputed_vectors(source, compute)
                for source in sources
            )
            files |= write_vector_blocks(segment_folder, space, chain.from_iterable(blocks), chunks)
        return files

    return publish_segment(folder, documents, chunks, write)


def _write_merged_rows(segment_folder: Path, sources: Sequence[LiveRows]) -> dict[str, FileEntry]:
    """Documents and chunks, and the derived files that need no vectors."""
    documents, chunks = rebatch(_merged_documents(sources)), rebatch(_merged_chunks(sources))
    fields = merge_fields([(source.segment.fields, source.document_rows) for source in sources])
    files = {
        DOCUMENTS_FILE: write_file(segment_folder / DOCUMENTS_FILE, documents, DOCUMENTS_SCHEMA),
        CHUNKS_FILE: write_file(segment_folder / CHUNKS_FILE, chunks, CHUNKS_SCHEMA),
        FIELDS_FILE: write_file(segment_folder / FIELDS_FILE, [fields], fields.schema),
        LEXICON_FILE: _write_merged_lexicon(segment_folder, sources),
        WORDS_FILE: _write_merged_words(segment_folder, sources),
    }
    chunk_ids = [_taken_column(source.segment.chunks.chunked("id"), source.chunk_rows) for source in sources]
    document_ids = [_taken_column(source.segment.documents.chunked("id"), source.document_rows) for source in sources]
    ids = build_ids(_concatenated(chunk_ids), _concatenated(document_ids))
    return files | {IDS_FILE: write_file(segment_folder / IDS_FILE, [ids], ids.schema)}


# -- documents and chunks --------------------------------------------------------------------------------------


def _merged_documents(sources: Sequence[LiveRows]) -> Iterator[pa.RecordBatch]:
    first = 0
    for source in sources:
        for taken in _taken_batches(source.segment.documents.file.batches, source.document_rows):
            batch = _in_current_schema(taken, DOCUMENTS_SCHEMA)
            counts = np.asarray(batch.column("chunks").to_numpy()).astype(np.int64)
            ends = first + np.cumsum(counts)
            yield _with_column(batch, "first_chunk", ends - counts, pa.int64())
            first = int(ends[-1]) if len(ends) else first


def _merged_chunks(sources: Sequence[LiveRows]) -> Iterator[pa.RecordBatch]:
    first = 0
    for source in sources:
        for taken in _taken_batches(source.segment.chunks.file.batches, source.chunk_rows):
            batch = _in_current_schema(taken, CHUNKS_SCHEMA)
            if "signature" not in taken.schema.names:
                signed = fixed_binary(signatures(taken.column("text")), SIGNATURE_BYTES)
                batch = batch.set_column(CHUNKS_SCHEMA.get_field_index("signature"), "signature", signed)
            old = np.asarray(batch.column("document_row").to_numpy())
            new = first + np.searchsorted(source.document_rows, old)
            yield _with_column(batch, "document_row", new, pa.int64())
        first += len(source.document_rows)


def _taken_batches(batches: Sequence[pa.RecordBatch], rows: NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
    """The given ascending rows of a table in batches of BATCH_ROWS, batch by batch."""
    for i, batch in enumerate(batches):
        first = i * BATCH_ROWS
        low, high = np.searchsorted(rows, (first, first + batch.num_rows))
        if high - low == batch.num_rows:
            yield batch
        elif high > low:
            yield batch.take(pa.array(rows[low:high] - first))


def _in_current_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same rows in today's schema: null in columns that an older release did not write."""
    if batch.schema.names == schema.names:
        return batch
    stored = set(batch.schema.names)
    columns = [
        batch.column(field.name) if field.name in stored else pa.nulls(len(batch), field.type) for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _with_column(batch: pa.RecordBatch, name: str, values: NDArray[Any], type_: pa.DataType) -> pa.RecordBatch:
    return batch.set_column(batch.schema.get_field_index(name), pa.field(name, type_), pa.array(values, type_))


# -- derived files ---------------------------------------------------------------------------------------------


def _write_merged_lexicon(segment_folder: Path, sources: Sequence[LiveRows]) -> FileEntry:
    scratch = segment_folder / ".lexicon.tmp"  # a name that the next writer removes, should it be left behind
    with durable.write_errors(scratch):
        scratch.mkdir(durable.FOLDER_MODE)
    lexicon = merge_lexicons([(source.segment.lexicon, source.chunk_rows) for source in sources], scratch)
    entry = write_file(segment_folder / LEXICON_FILE, [lexicon], lexicon.schema)
    del lexicon  # its columns are mapped from the scratch folder
    durable.remove_folder(scratch)
    return entry


def _write_merged_words(segment_folder: Path, sources: Sequence[LiveRows]) -> FileEntry:
    counts = WordCounts()
    for source in sources:
        _add_words(counts, source)
    batch = counts.to_batch()
    return write_file(segment_folder / WORDS_FILE, [batch], batch.schema)


def _add_words(counts: WordCounts, source: LiveRows) -> None:
    """Add the words of the rows: those of the segment without those of its other rows, or by reading the texts."""
    segment, rows = source.segment, source.chunk_rows
    if segment.words is None or 2 * len(rows) < segment.entry.chunks:
        counts.add_texts(_texts_of(segment, rows))
        return
    counts.add_words(segment.words)
    if len(rows) < segment.entry.chunks:
        dropped = WordCounts()
        dropped.add_texts(_texts_of(segment, np.setdiff1d(np.arange(segment.entry.chunks), rows, assume_unique=True)))
        counts.subtract(dropped)


def _texts_of(segment: SegmentReader, rows: NDArray[np.int64]) -> Iterator[str]:
    """The text that the lexicon indexes of each chunk row."""
    taken = _taken_batches(segment.chunks.file.batches, rows)
    return (text for text, _ in lexical_texts(segment.documents.file.batches, taken))


def _taken_column(column: pa.ChunkedArray, rows: NDArray[np.int64]) -> pa.ChunkedArray:
    return column if len(rows) == len(column) else column.take(pa.array(rows))


def _concatenated(columns: Iterable[pa.ChunkedArray]) -> pa.ChunkedArray:
    chunks = [chunk for column in columns for chunk in column.chunks]
    return pa.chunked_array([pa.concat_arrays(chunks)]) if chunks else pa.chunked_array([], pa.large_string())


# -- vectors ---------------------------------------------------------------------------------------------------


def _copied_vectors(source: LiveRows, space: EmbeddingSpace) -> Iterator[KeyedVectors]:
    """Stored vectors and keys of the live rows, block by block; a contiguous block is not copied."""
    column = source.segment.columns[space.id]
    keys = source.segment.key_column(space.id)
    for rows in row_blocks(source.chunk_rows):
        first, end = int(rows[0]), int(rows[-1]) + 1
        if end - first == len(rows):
            yield EncodedVectors(column.codes[first:end], column.norms[first:end]), keys.slice(first, len(rows))
        else:
            yield EncodedVectors(column.take(rows), column.norms[rows]), keys.take(pa.array(rows))


def _recomputed_vectors(source: LiveRows, compute: Recompute) -> Iterator[KeyedVectors]:
    for start in range(0, len(source.chunk_rows), _RECOMPUTED_CHUNKS):
        rows = source.chunk_rows[start : start + _RECOMPUTED_CHUNKS].tolist()
        encoded, keys = compute([StoredChunk(source.segment, row) for row in rows])
        yield encoded, key_array(keys, len(rows))
