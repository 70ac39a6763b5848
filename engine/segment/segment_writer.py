"""Writes segments, and adds files to segments that are stored already.

A segment is written into a folder of its own, synced, and then renamed; no manifest names it before. Merging lies in
`merge.py`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import xxhash

from aidre.engine.errors import StorageFailed
from aidre.engine.index import build_keys
from aidre.engine.index.vectors import dtype_of
from aidre.engine.model import EmbeddingSpace, EncodedVectors
from aidre.engine.segment.build import ROW_FILES, EncodedCodebook, Task
from aidre.engine.segment.pending import PendingRows
from aidre.engine.segment.workers import BuildExecutor, InProcessBuilder
from aidre.engine.storage import (
    BATCH_ROWS,
    CHUNKS_FILE,
    CHUNKS_SCHEMA,
    DOCUMENTS_FILE,
    DOCUMENTS_SCHEMA,
    KEY_BYTES,
    NO_KEY,
    SEGMENTS,
    FileEntry,
    SegmentEntry,
    durable,
    keys_file,
    vectors_file,
    vectors_schema,
    write_file,
)

KeyedVectors = tuple[EncodedVectors, pa.Array]
"""Vectors of consecutive rows, and their embedding keys."""


@dataclass(frozen=True, slots=True)
class Staging:
    """Where segments wait for their adoption: a temporary folder below `segments`, which the next writer removes.

    A segment is named by a hash of its files, of `mark` and of the folder's own name: writing the same rows again gives
    the same name, another folder gives another, so that no stored segment has it.
    """

    folder: Path
    mark: str

    def name(self, files: Mapping[str, FileEntry]) -> str:
        checksums = sorted((name, file.checksum) for name, file in files.items())
        return xxhash.xxh3_128_hexdigest(repr((self.folder.name, self.mark, checksums)).encode())


def write_pending(
    folder: Path,
    pending: PendingRows,
    spaces: Sequence[EmbeddingSpace],
    dates: Sequence[str],
    *,
    executor: BuildExecutor | None = None,
    codebooks: Mapping[str, tuple[str, int]] | None = None,
    release: bool = False,
    staging: Staging | None = None,
) -> SegmentEntry:
    """Write pending rows as a new segment of the collection in `folder`; `executor` builds its derived files.

    With `staging` the segment waits there for `Writer.adopt`.

    `codebooks` (trained codebook and number of training rows, by space) gives the segment a vector index too.
    `release` frees the rows as soon as they are written, so a failed write cannot be tried again.
    """
    executor = executor or InProcessBuilder()

    def write(segment_folder: Path) -> dict[str, FileEntry]:
        files = _write_rows(segment_folder, pending)
        for kind in ROW_FILES:
            executor.submit(Task(str(segment_folder), kind, dates=tuple(dates)))
        for space in spaces:
            encoded = pending.join_vectors(space.id)
            keys = key_array(pending.keys.get(space.id), len(encoded.codes))
            vectors = files[vectors_file(space.id)] = _write_vectors(segment_folder, space, encoded, keys)
            if space.model is not None:
                executor.submit(Task(str(segment_folder), "keys", space.id))
            if codebooks and space.id in codebooks:
                data, trained_rows = codebooks[space.id]
                codebook = EncodedCodebook(data, vectors.checksum, trained_rows)
                executor.submit(Task(str(segment_folder), "index", space.id, codebook=codebook))
            del encoded, keys
        if release:
            pending.release()
        return files | executor.results([segment_folder / name for name in files])

    return publish_segment(folder, pending.documents, pending.chunks, write, staging)


def _write_rows(segment_folder: Path, pending: PendingRows) -> dict[str, FileEntry]:
    tables = {
        DOCUMENTS_FILE: (pending.document_batches, DOCUMENTS_SCHEMA),
        CHUNKS_FILE: (pending.chunk_batches, CHUNKS_SCHEMA),
    }
    return {
        name: write_file(segment_folder / name, rebatch(iter(batches)), schema)
        for name, (batches, schema) in tables.items()
    }


def rebatch(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
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


# -- publishing ------------------------------------------------------------------------------------------------


def publish_segment(
    folder: Path,
    documents: int,
    chunks: int,
    write: Callable[[Path], dict[str, FileEntry]],
    staging: Staging | None = None,
) -> SegmentEntry:
    """Let `write` fill the folder of a new segment, then make the segment durable under its name."""
    segment_id = secrets.token_hex(8)
    segments = folder / SEGMENTS if staging is None else staging.folder
    if staging is None:
        durable.make_folder(segments)
    temporary = segments / f".{segment_id}.tmp"
    with durable.write_errors(temporary):
        temporary.mkdir(durable.FOLDER_MODE)
    try:
        with durable.write_errors(segments / segment_id):
            files = write(temporary)
        if staging is None:
            durable.publish_folder(temporary, segments / segment_id)
        else:
            segment_id = staging.name(files)
            _publish_once(temporary, segments / segment_id)
    except BaseException:
        durable.remove_folder(temporary)
        raise
    return SegmentEntry(segment_id, documents, chunks, files)


def _publish_once(temporary: Path, final: Path) -> None:
    """Publish a folder unless another process has published the same content. The adoption makes the name durable."""
    try:
        durable.publish_folder(temporary, final)
    except StorageFailed:
        if not (temporary.exists() and final.exists()):
            raise
        durable.remove_folder(temporary)


def add_file(folder: Path, segment_id: str, name: str, batch: pa.RecordBatch) -> FileEntry:
    """Add one derived file to a stored segment durably, under a name that no generation refers to."""
    files = _add_files(folder, segment_id, lambda scratch: {name: write_file(scratch / name, [batch], batch.schema)})
    return files[name]


def add_vectors(
    folder: Path, entry: SegmentEntry, space: EmbeddingSpace, blocks: Iterable[KeyedVectors]
) -> Mapping[str, FileEntry]:
    """Add the files of a space to a stored segment durably; `blocks` hold a vector for every chunk row, in order."""
    return _add_files(folder, entry.id, lambda scratch: write_vector_blocks(scratch, space, blocks, entry.chunks))


def _add_files(
    folder: Path, segment_id: str, write: Callable[[Path], Mapping[str, FileEntry]]
) -> Mapping[str, FileEntry]:
    """Let `write` fill a temporary folder, which the next writer removes if left behind, then move the files."""
    segment_folder = folder / SEGMENTS / segment_id
    scratch = folder / SEGMENTS / f".{secrets.token_hex(8)}.tmp"
    try:
        with durable.write_errors(segment_folder):
            scratch.mkdir(durable.FOLDER_MODE)
            files = write(scratch)
        for name in files:
            durable.publish_file(scratch / name, segment_folder / name)
        return files
    finally:
        durable.remove_folder(scratch)


# -- vectors ---------------------------------------------------------------------------------------------------


def key_array(keys: Sequence[bytes] | None, rows: int) -> pa.Array:
    """Embedding keys as an Arrow column; NO_KEY for each of the `rows` if there are none."""
    joined = b"".join(keys) if keys else NO_KEY * rows
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(KEY_BYTES), rows, [None, pa.py_buffer(joined)])


def write_vector_blocks(
    segment_folder: Path, space: EmbeddingSpace, blocks: Iterable[KeyedVectors], rows: int
) -> dict[str, FileEntry]:
    """Write the vectors of `rows` rows, and the look-up of their keys if the space has a model.

    The codes are collected in a mapped scratch file, so that no whole column is held in memory.
    """
    raw = segment_folder / ".raw"
    dtype = dtype_of(space)
    durable.reserve_file(raw, rows * space.dimensions * dtype.itemsize)
    codes = np.memmap(raw, dtype=dtype, mode="r+", shape=(rows, space.dimensions))
    norms, keys, start = [], [], 0
    for encoded, block_keys in blocks:
        codes[start : start + len(encoded.codes)] = encoded.codes
        start += len(encoded.codes)
        norms.append(encoded.norms)
        keys.append(block_keys)
    all_keys = pa.concat_arrays(keys)
    whole = EncodedVectors(codes, np.concatenate(norms))
    files = {vectors_file(space.id): _write_vectors(segment_folder, space, whole, all_keys)}
    if space.model is not None:
        lookup = build_keys(pa.chunked_array([all_keys]))
        files[keys_file(space.id)] = write_file(segment_folder / keys_file(space.id), [lookup], lookup.schema)
    del codes, whole
    raw.unlink()
    return files


def _write_vectors(segment_folder: Path, space: EmbeddingSpace, encoded: EncodedVectors, keys: pa.Array) -> FileEntry:
    schema = vectors_schema(space)
    # In a single batch, since the index views the whole column as one array.
    values = pa.FixedSizeListArray.from_arrays(pa.array(encoded.codes.reshape(-1)), type=schema.field("vector").type)
    batch = pa.RecordBatch.from_arrays([values, pa.array(encoded.norms), keys], schema=schema)
    return write_file(segment_folder / vectors_file(space.id), [batch], schema)
