"""The vectors of a batch of records: brought by the row, reused from the store, or computed by an Embedder, in that
order."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from aidre.engine.embedding import Embedder, embedding_keys
from aidre.engine.errors import InvalidVector
from aidre.engine.model import Chunk, Document, EmbeddingSpace, EncodedVectors, Record
from aidre.engine.ports import Sink
from aidre.engine.storage import NO_KEY
from aidre.engine.types import RetrievedChunk
from aidre.ingest.chunking import Chunker


@dataclass(slots=True)
class ChunkVectors:
    """The arguments of `Sink.upsert` beside the records: one row per chunk and space, over all records in order.

    `embedded` texts went through an Embedder. `faults` has the reason for each record whose vectors cannot be stored,
    by its position.
    """

    encoded: dict[str, EncodedVectors] = field(default_factory=dict)
    keys: dict[str, list[bytes]] = field(default_factory=dict)
    embedded: int = 0
    faults: dict[int, str] = field(default_factory=dict)

    def take(self, rows: Sequence[int]) -> ChunkVectors:
        """Some rows of columnar vectors, which have no faults and no keys."""
        encoded = {
            space: vectors
            if len(rows) == len(vectors.codes)
            else EncodedVectors(vectors.codes[list(rows)], vectors.norms[list(rows)])
            for space, vectors in self.encoded.items()
        }
        return ChunkVectors(encoded, {space: [NO_KEY] * len(rows) for space in self.keys})


class VectorStage:
    """Provides the vectors of every space for the chunks of some records."""

    def __init__(
        self,
        writer: Sink,
        spaces: Sequence[EmbeddingSpace],
        embedders: Mapping[str, Embedder],
        chunker: Chunker,
    ) -> None:
        self._writer, self._spaces, self._embedders, self._chunker = writer, spaces, embedders, chunker

    def is_covered_by(self, space_ids: Collection[str]) -> bool:
        """Whether vectors in these spaces leave nothing to embed."""
        return all(space.id in space_ids for space in self._spaces)

    def encode_columns(self, vectors: Mapping[str, NDArray[np.float32]]) -> ChunkVectors | None:
        """Stored form of a matrix (rows, dimensions) per space; None if a row cannot be stored."""
        result = ChunkVectors()
        try:
            for space in self._spaces:
                result.encoded[space.id] = self._writer.encode(space.id, vectors[space.id], for_upsert=True)
                if space.id in self._embedders:
                    result.keys[space.id] = [NO_KEY] * len(vectors[space.id])
        except InvalidVector:
            return None
        return result

    def embed_chunks(
        self, space_id: str, chunks: Sequence[tuple[Document, Chunk]]
    ) -> tuple[EncodedVectors, list[bytes]]:
        """Vectors and embedding keys of chunks in a space with a model. ModelUnavailable."""
        space = next(space for space in self._spaces if space.id == space_id)
        texts = [self._chunker.embedding_input(document, chunk) for document, chunk in chunks]
        keys = embedding_keys(space, texts)
        return self._embed(space, list(zip(keys, texts, range(len(texts)), strict=True)), ChunkVectors()), keys

    def encode_records(self, records: Sequence[Record]) -> ChunkVectors:
        result = ChunkVectors()
        owners = [position for position, record in enumerate(records) for _ in record.chunks]
        texts: list[str] | None = None
        for space in self._spaces:
            brought = [record.document.vectors or {} for record in records]
            if all(space.id in vectors for vectors in brought):
                matrix = np.concatenate([vectors[space.id] for vectors in brought]).reshape(len(records), -1)
                result.encoded[space.id] = self._encode(space, matrix, owners, result)
                if space.id in self._embedders:
                    result.keys[space.id] = [NO_KEY] * len(records)
                continue
            texts = texts or [
                self._chunker.embedding_input(record.document, chunk) for record in records for chunk in record.chunks
            ]
            self._encode_mixed(space, records, owners, texts, result)
        return result

    def _encode_mixed(
        self,
        space: EmbeddingSpace,
        records: Sequence[Record],
        owners: Sequence[int],
        texts: Sequence[str],
        result: ChunkVectors,
    ) -> None:
        """A space with a model: reuse stored vectors, embed every other string once, keep the vectors of rows.

        `owners` has the position of the record of each chunk, `texts` the string to embed for it.
        """
        is_brought = np.array([space.id in (records[owner].document.vectors or {}) for owner in owners], dtype=np.bool_)
        keys = [
            NO_KEY if brought else key for brought, key in zip(is_brought, embedding_keys(space, texts), strict=True)
        ]
        is_reused, reused = self._writer.reuse(space.id, keys)
        codes, norms = reused.codes, reused.norms
        rows = np.flatnonzero(~(is_reused | is_brought)).tolist()
        if rows:
            encoded = self._embed(space, [(keys[row], texts[row], owners[row]) for row in rows], result)
            codes[rows], norms[rows] = encoded.codes, encoded.norms
        if is_brought.any():
            rows = np.flatnonzero(is_brought).tolist()
            matrix = np.stack([(records[owners[row]].document.vectors or {})[space.id] for row in rows])
            encoded = self._encode(space, matrix, [owners[row] for row in rows], result)
            codes[rows], norms[rows] = encoded.codes, encoded.norms
        result.encoded[space.id], result.keys[space.id] = EncodedVectors(codes, norms), keys

    def _embed(
        self, space: EmbeddingSpace, chunks: Sequence[tuple[bytes, str, int]], result: ChunkVectors
    ) -> EncodedVectors:
        """One row for each (key, text, owner); texts with the same key are embedded once."""
        distinct: dict[bytes, tuple[int, str, int]] = {}
        for key, text, owner in chunks:
            distinct.setdefault(key, (len(distinct), text, owner))
        vectors = self._embedders[space.id].embed_documents([text for _, text, _ in distinct.values()])
        encoded = self._encode(space, vectors, [owner for _, _, owner in distinct.values()], result)
        result.embedded += len(distinct)
        positions = [distinct[key][0] for key, _, _ in chunks]
        return EncodedVectors(encoded.codes[positions], encoded.norms[positions])

    def _encode(
        self, space: EmbeddingSpace, matrix: NDArray[np.float32], owners: Sequence[int], result: ChunkVectors
    ) -> EncodedVectors:
        """Stored form of a matrix (rows, dimensions). Rows without one are added to `faults` and stay zero."""
        try:
            return self._writer.encode(space.id, matrix)
        except InvalidVector:
            rows = [self._encode_row(space, row, owner, result) for row, owner in zip(matrix, owners, strict=True)]
            valid = next((row for row in rows if row is not None), None)
            empty = (
                EncodedVectors(np.zeros((1, space.dimensions), np.float32), np.ones(1, np.float32))
                if valid is None
                else EncodedVectors(np.zeros_like(valid.codes), np.ones_like(valid.norms))
            )
            filled = [empty if row is None else row for row in rows]
            return EncodedVectors(
                np.concatenate([row.codes for row in filled]), np.concatenate([row.norms for row in filled])
            )

    def _encode_row(
        self, space: EmbeddingSpace, row: NDArray[np.float32], owner: int, result: ChunkVectors
    ) -> EncodedVectors | None:
        try:
            return self._writer.encode(space.id, row[None, :])
        except InvalidVector as error:
            result.faults[owner] = error.message
            return None


class StoredChunkEmbedder:
    """Embeds stored chunks: the strings that a new ingest would embed, equal strings of a call once.

    `embedded` counts the texts that went through the Embedder.
    """

    def __init__(self, space: EmbeddingSpace, embedder: Embedder, chunker: Chunker) -> None:
        self._space, self._embedder, self._chunker = space, embedder, chunker
        self.embedded = 0

    def keys(self, chunks: Sequence[RetrievedChunk]) -> list[bytes]:
        return embedding_keys(self._space, self._texts(chunks))

    def vectors(self, chunks: Sequence[RetrievedChunk]) -> NDArray[np.float32]:
        """One vector per chunk, (chunks, dimensions)."""
        texts = self._texts(chunks)
        positions = {text: position for position, text in enumerate(dict.fromkeys(texts))}
        vectors = self._embedder.embed_documents(list(positions))
        self.embedded += len(positions)
        return vectors[[positions[text] for text in texts]]

    def _texts(self, chunks: Sequence[RetrievedChunk]) -> list[str]:
        return [self._chunker.join_embedding_input(chunk.title, chunk.section, chunk.text) for chunk in chunks]


class StoredChunkEncoder(StoredChunkEmbedder):
    """Embeds stored chunks into their stored form, for `Sink.reembed`."""

    def __init__(self, writer: Sink, space: EmbeddingSpace, embedder: Embedder, chunker: Chunker) -> None:
        super().__init__(space, embedder, chunker)
        self._writer = writer

    def __call__(self, chunks: Sequence[RetrievedChunk]) -> tuple[EncodedVectors, Sequence[bytes]]:
        return self._writer.encode(self._space.id, self.vectors(chunks)), self.keys(chunks)
