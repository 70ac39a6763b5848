"""Backfill: gives a space that was added to a collection a vector for every stored chunk.

The vectors are written as files beside the others of each segment. Until the last segment has them, the state of the
space is "building": searches do not see it, merges and ingest leave it out, and the next run fills the segments that
they write. Then one generation makes it "live", indexed and calibrated.

The log of a backfill: vectors by embedding key, appended as they are made, so that an interrupted run loses none.

One file of fixed-size records, each with its own checksum: a record torn by a power cut is skipped, at any position.
No manifest names the file; it is removed when its space is complete.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

import numpy as np
import xxhash
from numpy.typing import NDArray

from aidre.engine.collection.generations import Generations
from aidre.engine.errors import AidreError, InvalidVector, SpaceConflict, SpaceMissing
from aidre.engine.index.vectors import dtype_of, encode
from aidre.engine.model import EmbeddingSpace, EncodedVectors
from aidre.engine.segment import KeyedVectors, SegmentView, StoredChunk, add_vectors, key_array
from aidre.engine.storage import (
    BACKFILLS,
    KEY_BYTES,
    MANIFESTS,
    NO_KEY,
    SEGMENTS,
    FileEntry,
    FileProblem,
    Manifest,
    SegmentEntry,
    SpaceState,
    check_file,
    durable,
    manifest_numbers,
    max_segment_rows,
    read_manifest,
    space_file_name,
    space_files,
    vectors_file,
)

_MAX_UNSORTED_KEYS = 1 << 16
"""Appended keys are looked up in a dictionary; above this number they are merged into the sorted array."""


class VectorLog:
    """The log of one space in the collection at `folder`. Requires the writer's lock."""

    def __init__(self, folder: Path, space: EmbeddingSpace) -> None:
        self._path = log_path(folder, space.id)
        self._dtype = np.dtype(
            [
                ("key", f"S{KEY_BYTES}"),
                ("norm", np.float32),
                ("codes", dtype_of(space), (space.dimensions,)),
                ("checksum", np.uint64),
            ]
        )
        self._records: NDArray[Any] = np.empty(0, self._dtype)
        self._sorted_keys: NDArray[Any] = np.empty(0, self._dtype["key"])
        self._sorted_rows = np.empty(0, dtype=np.int64)
        self._unsorted_rows: dict[bytes, int] = {}
        self._open()

    def find(self, keys: Sequence[bytes]) -> NDArray[np.int64]:
        """The row of each key in the log, for `take`; -1 where the log lacks it."""
        searched = _key_array(keys)
        rows = np.full(len(searched), -1, dtype=np.int64)
        if len(self._sorted_keys):
            positions = np.minimum(np.searchsorted(self._sorted_keys, searched), len(self._sorted_keys) - 1)
            is_stored = self._sorted_keys[positions] == searched
            rows[is_stored] = self._sorted_rows[positions[is_stored]]
        for number in np.flatnonzero(rows < 0).tolist():
            rows[number] = self._unsorted_rows.get(keys[number], -1)
        return rows

    def take(self, rows: NDArray[np.int64]) -> EncodedVectors:
        records = self._records[rows]
        return EncodedVectors(np.ascontiguousarray(records["codes"]), np.ascontiguousarray(records["norm"]))

    def add(self, keys: Sequence[bytes], vectors: EncodedVectors) -> None:
        """Append vectors under keys that the log lacks; durable on return. StorageFailed."""
        records = np.zeros(len(keys), self._dtype)
        records["key"] = _key_array(keys)
        records["norm"], records["codes"] = vectors.norms, vectors.codes
        records["checksum"] = _checksums(records)
        first = len(self._records)
        with durable.write_errors(self._path), self._path.open("r+b") as file:
            file.seek(first * self._dtype.itemsize)
            file.write(records.tobytes())
            file.flush()
            os.fsync(file.fileno())
        self._map()
        self._unsorted_rows.update((key, first + number) for number, key in enumerate(keys))
        if len(self._unsorted_rows) > _MAX_UNSORTED_KEYS:
            unsorted = np.fromiter(self._unsorted_rows.values(), dtype=np.int64)
            self._sort(np.concatenate([self._sorted_rows, unsorted]))

    def _open(self) -> None:
        durable.make_folder(self._path.parent)
        with durable.write_errors(self._path):
            self._path.touch()
            durable.sync_folder(self._path.parent)
        self._map()
        self._sort(np.flatnonzero(_checksums(self._records) == self._records["checksum"]))

    def _map(self) -> None:
        """Map the complete records; an incomplete one at the end is overwritten by the next append."""
        count = self._path.stat().st_size // self._dtype.itemsize
        if count:
            self._records = np.memmap(self._path, dtype=self._dtype, mode="r", shape=(count,))

    def _sort(self, rows: NDArray[np.int64]) -> None:
        keys = self._records["key"][rows]
        order = np.argsort(keys, kind="stable")
        self._sorted_keys, self._sorted_rows, self._unsorted_rows = keys[order], rows[order], {}


def log_path(folder: Path, space_id: str) -> Path:
    return folder / BACKFILLS / space_file_name(space_id, "vectors").replace(".arrow", ".log")


def remove_log(folder: Path, space_id: str) -> None:
    """Remove the log of a space that is complete or removed."""
    log_path(folder, space_id).unlink(missing_ok=True)


def _key_array(keys: Sequence[bytes]) -> NDArray[Any]:
    # numpy strips trailing zero bytes of such strings on both sides of a comparison; keys all have one length.
    return np.frombuffer(b"".join(keys), dtype=f"S{KEY_BYTES}")


def _checksums(records: NDArray[Any]) -> NDArray[np.uint64]:
    ends = records.dtype.itemsize - 8
    return np.fromiter(
        (xxhash.xxh3_64_intdigest(record.tobytes()[:ends]) for record in records), np.uint64, len(records)
    )


COMMIT_SECONDS = 30.0
"""Finished segments are committed at this interval."""
BATCH_CHUNKS = 512
"""Chunks that are embedded at a time."""


class ChunkEmbedding(Protocol):
    """The model of the space, applied to stored chunks."""

    def keys(self, chunks: Sequence[StoredChunk]) -> Sequence[bytes]:
        """The embedding key of each chunk. Chunks with equal keys have equal vectors and are embedded once."""

    def vectors(self, chunks: Sequence[StoredChunk]) -> NDArray[np.float32]:
        """Vectors of shape (chunks, dimensions), in order."""


@dataclass(frozen=True, slots=True)
class BackfillProgress:
    """How many documents and chunks have a vector; `generation` is set where a commit made them durable."""

    documents: int
    chunks: int
    generation: int | None = None


def fill_space(
    generations: Generations,
    state: SpaceState,
    embedding: ChunkEmbedding,
    report: Callable[[BackfillProgress], None],
) -> None:
    """Make a space live; vectors that an interrupted run embedded are not embedded again.

    SpaceConflict where it is live already, InvalidVector that names a chunk without a valid vector, StorageFailed.
    """
    if any(space.id == state.space.id for space in generations.manifest.collection.spaces):
        raise SpaceConflict(
            f"embedding space {state.space.id!r} is complete already", embedding_space=state.space.id, member="id"
        )
    _declare_space(generations, replace(state, state="building"))
    _make_room(generations, state.space)
    _Backfill(generations, state.space, embedding, report).run()
    manifest = generations.manifest
    generations.publish(manifest.with_space(replace(state, state="live")))
    remove_log(generations.folder, state.space.id)
    report(BackfillProgress(manifest.documents, manifest.chunks, generations.manifest.generation))


def remove_space(generations: Generations, space_id: str) -> None:
    """Publish a generation without a space, live or not. SpaceMissing; SpaceConflict for the only live space."""
    manifest = generations.manifest
    if all(state.space.id != space_id for state in manifest.spaces):
        raise SpaceMissing(
            f"collection {manifest.name!r} has no embedding space {space_id!r}", embedding_space=space_id
        )
    if not any(space.id != space_id for space in manifest.collection.spaces):
        raise SpaceConflict(
            f"embedding space {space_id!r} is the only one of collection {manifest.name!r}: fill another one first",
            embedding_space=space_id,
            member="id",
        )
    remaining = tuple(state for state in manifest.spaces if state.space.id != space_id)
    generations.publish(replace(_without_files(manifest, space_id), spaces=remaining))
    remove_log(generations.folder, space_id)


# -- preparation -------------------------------------------------------------------------------------------------


def _declare_space(generations: Generations, state: SpaceState) -> None:
    """Add the space to the manifest, or keep it there where an interrupted run of the same declaration added it."""
    space = state.space
    manifest = generations.manifest
    declared = next((old for old in manifest.spaces if old.space.id == space.id), None)
    if declared is not None and declared.space != space:  # another model or shape than in the interrupted run
        manifest, declared = _without_files(manifest, space.id), None
        remove_log(generations.folder, space.id)
    if declared is None:
        others = tuple(old for old in manifest.spaces if old.space.id != space.id)
        generations.publish(replace(manifest, spaces=(*others, state)))


def _make_room(generations: Generations, space: EmbeddingSpace) -> None:
    """Split segments too large for the space, and rewrite those whose folder cannot take its files."""
    generations.split(max_segment_rows(space.dimensions))
    named = _segments_named_with(generations, space.id)
    entries = generations.manifest.segments
    rewritten = [[i] for i, entry in enumerate(entries) if _must_rewrite(generations, entry, space, named)]
    if rewritten:
        generations.merge(rewritten)


def _must_rewrite(generations: Generations, entry: SegmentEntry, space: EmbeddingSpace, named: Container[str]) -> bool:
    """Whether a segment needs a new folder for the files of the space.

    A file that an older generation names is never replaced: neither one of an earlier run nor a damaged one.
    """
    names = space_files(entry.files, space.id)
    if not names:
        return entry.id in named
    try:
        for name in names:
            check_file(generations.folder / SEGMENTS / entry.id / name, entry.files[name], whole=True)
    except FileProblem:
        return True
    return False


def _segments_named_with(generations: Generations, space_id: str) -> set[str]:
    """The segments for which any generation on disk names files of the space."""
    named: set[str] = set()
    for number in manifest_numbers(generations.folder):
        try:
            manifest = read_manifest(generations.folder / MANIFESTS, number, generations.manifest.name)
        except (AidreError, FileNotFoundError):
            continue  # an unreadable generation cannot be opened, so the files that it names are not needed
        named |= {entry.id for entry in manifest.segments if space_files(entry.files, space_id)}
    return named


def _without_files(manifest: Manifest, space_id: str) -> Manifest:
    """The manifest whose segments name no file of the space."""

    def without(entry: SegmentEntry) -> SegmentEntry:
        removed = space_files(entry.files, space_id)
        return replace(entry, files={name: file for name, file in entry.files.items() if name not in removed})

    return replace(manifest, segments=tuple(map(without, manifest.segments)))


# -- one run -----------------------------------------------------------------------------------------------------


class _Backfill:
    """One run over the segments that lack the space."""

    def __init__(
        self,
        generations: Generations,
        space: EmbeddingSpace,
        embedding: ChunkEmbedding,
        report: Callable[[BackfillProgress], None],
    ) -> None:
        self._generations, self._space, self._embedding, self._report = generations, space, embedding, report
        self._log = VectorLog(generations.folder, space)
        self._uncommitted: dict[str, Mapping[str, FileEntry]] = {}
        self._documents = self._chunks = 0
        self._committed_at = monotonic()

    def run(self) -> None:
        for entry, view in zip(self._generations.manifest.segments, self._generations.segments, strict=True):
            if vectors_file(self._space.id) in entry.files:
                self._chunks += entry.live_chunks
            else:
                blocks = self._embed_segment(view)
                self._uncommitted[entry.id] = add_vectors(self._generations.folder, entry, self._space, blocks)
            self._documents += entry.documents - entry.deleted_documents
            if self._uncommitted and monotonic() - self._committed_at >= COMMIT_SECONDS:
                self._commit()
        if self._uncommitted:
            self._commit()

    def _commit(self) -> None:
        def with_vectors(entry: SegmentEntry) -> SegmentEntry:
            return replace(entry, files={**entry.files, **self._uncommitted.get(entry.id, {})})

        manifest = self._generations.manifest
        self._generations.publish(replace(manifest, segments=tuple(map(with_vectors, manifest.segments))))
        self._uncommitted, self._committed_at = {}, monotonic()
        self._report(BackfillProgress(self._documents, self._chunks, self._generations.manifest.generation))

    def _embed_segment(self, view: SegmentView) -> Iterator[KeyedVectors]:
        """Vectors and keys of all rows of a segment, in batches; deleted rows are zero and have no key."""
        rows, live = view.segment.entry.chunks, view.live.mask
        for start in range(0, rows, BATCH_CHUNKS):
            count = min(BATCH_CHUNKS, rows - start)
            live_rows = np.arange(count) if live is None else np.flatnonzero(live[start : start + count])
            codes = np.zeros((count, self._space.dimensions), dtype=dtype_of(self._space))
            norms = np.ones(count, dtype=np.float32)
            keys = [NO_KEY] * count
            chunks = [StoredChunk(view.segment, start + row) for row in live_rows.tolist()]
            if chunks:
                live_keys, vectors = self._embed(chunks)
                codes[live_rows], norms[live_rows] = vectors.codes, vectors.norms
                for row, key in zip(live_rows.tolist(), live_keys, strict=True):
                    keys[row] = key
            yield EncodedVectors(codes, norms), key_array(keys, count)
            self._chunks += len(chunks)
            self._report(BackfillProgress(self._documents, self._chunks))

    def _embed(self, chunks: Sequence[StoredChunk]) -> tuple[Sequence[bytes], EncodedVectors]:
        """Keys and vectors of the chunks, from the log where it has them."""
        keys = self._embedding.keys(chunks)
        rows = self._log.find(keys)
        missing: dict[bytes, StoredChunk] = {}
        for number in np.flatnonzero(rows < 0).tolist():
            missing.setdefault(keys[number], chunks[number])
        if missing:
            self._log.add(list(missing), self._encode(list(missing.values())))
            rows = self._log.find(keys)
        return keys, self._log.take(rows)

    def _encode(self, chunks: Sequence[StoredChunk]) -> EncodedVectors:
        try:
            return encode(self._space, self._embedding.vectors(chunks))
        except InvalidVector as error:
            chunk = chunks[int(error.details["row"])]
            raise InvalidVector(
                f"chunk {chunk.id!r}: {error.message}: change or delete document {chunk.document_id!r}",
                **error.details,
            ) from error
