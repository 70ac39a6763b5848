"""Fills a space that was added to a collection: vectors for every stored chunk, as files beside those of each segment.

Until the last segment has them the space is "building": nobody searches it, merging and ingest leave it out, and
what they write is filled by the next run. Then one generation makes it "live", indexed and calibrated.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from aidre.engine.arrow import FileEntry, FileProblem, check
from aidre.engine.errors import AidreError, InvalidVector, SpaceConflict, SpaceMissing
from aidre.engine.generations import Generations
from aidre.engine.manifest import Manifest, SegmentEntry, SpaceState, read_manifest
from aidre.engine.model import EmbeddingSpace, Encoded
from aidre.engine.parts import Part
from aidre.engine.schema import MANIFESTS, NO_KEY, SEGMENTS, segment_rows, space_files, vectors_file
from aidre.engine.segment import StoredChunk
from aidre.engine.segment_writer import Block, add_vectors, key_array
from aidre.engine.vector_log import VectorLog, remove_log
from aidre.engine.vectors import dtype_of, encode

COMMIT_SECONDS = 30.0
BATCH_CHUNKS = 512


class ChunkEmbedding(Protocol):
    """What a model makes of stored chunks."""

    def keys(self, chunks: Sequence[StoredChunk]) -> Sequence[bytes]:
        """The embedding key of each chunk: equal keys are embedded once."""

    def vectors(self, chunks: Sequence[StoredChunk]) -> NDArray[np.float32]:
        """One row a chunk, in order."""


@dataclass(frozen=True, slots=True)
class Filled:
    """How many documents and chunks have a vector so far; `generation` where a commit made them durable."""

    documents: int
    chunks: int
    generation: int | None = None


def fill(
    generations: Generations, state: SpaceState, embedding: ChunkEmbedding, report: Callable[[Filled], None]
) -> None:
    """Make a space live. What an earlier run embedded is used again. SpaceConflict where it is live already;
    InvalidVector names a chunk that has none.
    """
    if any(space.id == state.space.id for space in generations.manifest.collection.spaces):
        raise SpaceConflict(
            f"embedding space {state.space.id!r} is complete already", embedding_space=state.space.id, member="id"
        )
    _begin(generations, replace(state, state="building"))
    _Filling(generations, state.space, embedding, report).run()
    manifest = generations.manifest
    generations.publish(manifest.with_space(replace(state, state="live")))
    remove_log(generations.folder, state.space.id)
    report(Filled(manifest.documents, manifest.chunks, generations.manifest.generation))


def drop(generations: Generations, space_id: str) -> None:
    """A generation without a space, live or not. SpaceMissing; SpaceConflict where none would be left to answer."""
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
    rest = tuple(state for state in manifest.spaces if state.space.id != space_id)
    generations.publish(replace(_without_files(manifest, space_id), spaces=rest))
    remove_log(generations.folder, space_id)


def _begin(generations: Generations, wanted: SpaceState) -> None:
    """Declare the space as building, and make room for its files in every segment."""
    space = wanted.space
    manifest = generations.manifest
    known = next((state for state in manifest.spaces if state.space.id == space.id), None)
    if known is not None and known.space != space:  # another model or shape than the run that was interrupted
        manifest, known = _without_files(manifest, space.id), None
        remove_log(generations.folder, space.id)
    if known is None:
        others = tuple(state for state in manifest.spaces if state.space.id != space.id)
        generations.publish(replace(manifest, spaces=(*others, wanted)))
    generations.split(segment_rows(space.dimensions))
    older = _named_before(generations, space.id)
    entries = generations.manifest.segments
    taken = [[place] for place, entry in enumerate(entries) if _must_move(generations, entry, space, older)]
    if taken:
        generations.merge(taken)


def _must_move(generations: Generations, entry: SegmentEntry, space: EmbeddingSpace, older: Container[str]) -> bool:
    """Whether a segment needs a folder of its own for the files of the space.

    A file under a name that an older generation knows is never replaced: not one of another run, nor a damaged one.
    """
    names = space_files(entry.files, space.id)
    if not names:
        return entry.id in older
    try:
        for name in names:
            check(generations.folder / SEGMENTS / entry.id / name, entry.files[name], whole=True)
    except FileProblem:
        return True
    return False


def _named_before(generations: Generations, space_id: str) -> set[str]:
    """The segments for which generations on disk name files of a space."""
    named: set[str] = set()
    for path in (generations.folder / MANIFESTS).glob("*.json"):
        try:
            manifest = read_manifest(path.parent, int(path.stem), generations.manifest.name)
        except (AidreError, FileNotFoundError, ValueError):
            continue  # what cannot be read names nothing that anybody could open
        named |= {entry.id for entry in manifest.segments if space_files(entry.files, space_id)}
    return named


def _without_files(manifest: Manifest, space_id: str) -> Manifest:
    def bare(entry: SegmentEntry) -> SegmentEntry:
        gone = space_files(entry.files, space_id)
        return replace(entry, files={name: file for name, file in entry.files.items() if name not in gone})

    return replace(manifest, segments=tuple(map(bare, manifest.segments)))


class _Filling:
    """One run over the segments that lack the space."""

    def __init__(
        self,
        generations: Generations,
        space: EmbeddingSpace,
        embedding: ChunkEmbedding,
        report: Callable[[Filled], None],
    ) -> None:
        self._generations, self._space, self._embedding, self._report = generations, space, embedding, report
        self._log = VectorLog(generations.folder, space)
        self._files: dict[str, Mapping[str, FileEntry]] = {}
        self._documents = self._chunks = 0
        self._committed_at = monotonic()

    def run(self) -> None:
        for entry, part in zip(self._generations.manifest.segments, self._generations.parts, strict=True):
            if vectors_file(self._space.id) in entry.files:
                self._chunks += entry.live_chunks
            else:
                blocks = self._blocks(part)
                self._files[entry.id] = add_vectors(self._generations.folder, entry, self._space, blocks)
            self._documents += entry.documents - entry.deleted_documents
            if self._files and monotonic() - self._committed_at >= COMMIT_SECONDS:
                self._commit()
        if self._files:
            self._commit()

    def _commit(self) -> None:
        def filled(entry: SegmentEntry) -> SegmentEntry:
            return replace(entry, files={**entry.files, **self._files.get(entry.id, {})})

        manifest = self._generations.manifest
        self._generations.publish(replace(manifest, segments=tuple(map(filled, manifest.segments))))
        self._files, self._committed_at = {}, monotonic()
        self._report(Filled(self._documents, self._chunks, self._generations.manifest.generation))

    def _blocks(self, part: Part) -> Iterator[Block]:
        """Vectors and keys of all rows of a segment; deleted rows are zero and have no key."""
        rows, live = part.segment.entry.chunks, part.live.mask
        for start in range(0, rows, BATCH_CHUNKS):
            count = min(BATCH_CHUNKS, rows - start)
            alive = np.arange(count) if live is None else np.flatnonzero(live[start : start + count])
            codes = np.zeros((count, self._space.dimensions), dtype=dtype_of(self._space))
            norms = np.ones(count, dtype=np.float32)
            keys = [NO_KEY] * count
            chunks = [StoredChunk(part.segment, start + row) for row in alive.tolist()]
            if chunks:
                own, encoded = self._embedded(chunks)
                codes[alive], norms[alive] = encoded.codes, encoded.norms
                for row, key in zip(alive.tolist(), own, strict=True):
                    keys[row] = key
            yield Encoded(codes, norms), key_array(keys, count)
            self._chunks += len(chunks)
            self._report(Filled(self._documents, self._chunks))

    def _embedded(self, chunks: Sequence[StoredChunk]) -> tuple[Sequence[bytes], Encoded]:
        keys = self._embedding.keys(chunks)
        places = self._log.find(keys)
        lacking: dict[bytes, StoredChunk] = {}
        for number in np.flatnonzero(places < 0).tolist():
            lacking.setdefault(keys[number], chunks[number])
        if lacking:
            self._log.add(list(lacking), self._encoded(list(lacking.values())))
            places = self._log.find(keys)
        return keys, self._log.take(places)

    def _encoded(self, chunks: Sequence[StoredChunk]) -> Encoded:
        try:
            return encode(self._space, self._embedding.vectors(chunks))
        except InvalidVector as error:
            chunk = chunks[int(error.details["row"])]
            raise InvalidVector(
                f"chunk {chunk.id!r}: {error.message}: change or delete document {chunk.document_id!r}",
                **error.details,
            ) from error
