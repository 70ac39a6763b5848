"""The vectors of a batch of records: brought by the row, known to the store, or made by an Embedder, in that order."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from aidre.engine.embed import Embedder, embedding_key
from aidre.engine.errors import InvalidVector
from aidre.engine.model import EmbeddingSpace, Encoded, Record
from aidre.engine.schema import NO_KEY
from aidre.engine.segment import StoredChunk
from aidre.engine.writer import Writer
from aidre.ingest.chunk import Chunker


@dataclass(slots=True)
class Vectors:
    """What `Writer.upsert` takes beside the records; `faults` names records whose vectors cannot be stored."""

    encoded: dict[str, Encoded] = field(default_factory=dict)
    keys: dict[str, list[bytes]] = field(default_factory=dict)
    embedded: int = 0
    faults: dict[int, str] = field(default_factory=dict)

    def chosen(self, rows: Sequence[int]) -> Vectors:
        """Those of some rows, of vectors that are all sound."""
        encoded = {
            space: each if len(rows) == len(each.codes) else Encoded(each.codes[list(rows)], each.norms[list(rows)])
            for space, each in self.encoded.items()
        }
        return Vectors(encoded, {space: [NO_KEY] * len(rows) for space in self.keys})


class VectorStage:
    """Finds or makes the vectors of every space for the chunks of some records."""

    def __init__(
        self,
        writer: Writer,
        spaces: Sequence[EmbeddingSpace],
        embedders: Mapping[str, Embedder],
        chunker: Chunker,
    ) -> None:
        self._writer, self._spaces, self._embedders, self._chunker = writer, spaces, embedders, chunker

    def vectors(self, records: Sequence[Record]) -> Vectors:
        result = Vectors()
        owners = [at for at, record in enumerate(records) for _ in record.chunks]
        texts: list[str] | None = None
        for space in self._spaces:
            brought = [record.document.vectors or {} for record in records]
            own = [at for at, vectors in enumerate(brought) if space.id in vectors]
            if len(own) == len(records):
                matrix = np.concatenate([vectors[space.id] for vectors in brought]).reshape(len(own), -1)
                result.encoded[space.id] = self._encode(space, matrix, owners, result)
                if space.id in self._embedders:
                    result.keys[space.id] = [NO_KEY] * len(own)
                continue
            texts = texts or [
                self._chunker.embedded(record.document, chunk) for record in records for chunk in record.chunks
            ]
            self._fill(space, records, owners, texts, result)
        return result

    def is_served_by(self, vectors: Collection[str]) -> bool:
        """Whether vectors in these spaces leave nothing to embed."""
        return all(space.id in vectors for space in self._spaces)

    def stored(self, vectors: Mapping[str, NDArray[np.float32]]) -> Vectors | None:
        """Vectors that rows bring for all spaces, a matrix each; None where one of them cannot be stored."""
        result = Vectors()
        try:
            for space in self._spaces:
                result.encoded[space.id] = self._writer.encode(space.id, vectors[space.id], kept=True)
                if space.id in self._embedders:
                    result.keys[space.id] = [NO_KEY] * len(vectors[space.id])
        except InvalidVector:
            return None
        return result

    def _fill(
        self,
        space: EmbeddingSpace,
        records: Sequence[Record],
        owners: Sequence[int],
        texts: Sequence[str],
        result: Vectors,
    ) -> None:
        """A space with a model: look up what is known, embed each other string once, keep what rows brought."""
        own = np.array([space.id in (records[at].document.vectors or {}) for at in owners], dtype=np.bool_)
        keys = [NO_KEY if mine else embedding_key(space, text) for mine, text in zip(own, texts, strict=True)]
        found, known = self._writer.reuse(space.id, keys)
        codes, norms = known.codes, known.norms
        wanted: dict[bytes, int] = {}
        for row in np.flatnonzero(~(found | own)).tolist():
            wanted.setdefault(keys[row], row)
        if wanted:
            firsts = list(wanted.values())
            fresh = self._embedders[space.id].embed_documents([texts[row] for row in firsts])
            encoded = self._encode(space, fresh, [owners[row] for row in firsts], result)
            place = {key: at for at, key in enumerate(wanted)}
            rows = np.flatnonzero(~(found | own)).tolist()
            picks = [place[keys[row]] for row in rows]
            codes[rows], norms[rows] = encoded.codes[picks], encoded.norms[picks]
            result.embedded += len(firsts)
        if own.any():
            rows = np.flatnonzero(own).tolist()
            matrix = np.stack([(records[owners[row]].document.vectors or {})[space.id] for row in rows])
            encoded = self._encode(space, matrix, [owners[row] for row in rows], result)
            codes[rows], norms[rows] = encoded.codes, encoded.norms
        result.encoded[space.id], result.keys[space.id] = Encoded(codes, norms), keys

    def _encode(
        self, space: EmbeddingSpace, matrix: NDArray[np.float32], owners: Sequence[int], result: Vectors
    ) -> Encoded:
        """The stored form of a matrix; rows that have none are named in `faults` and stay zero."""
        try:
            return self._writer.encode(space.id, matrix)
        except InvalidVector:
            encoded = [self._encode_row(space, row, owner, result) for row, owner in zip(matrix, owners, strict=True)]
            some = next((each for each in encoded if each is not None), None)
            empty = (
                Encoded(np.zeros((1, space.dimensions), np.float32), np.ones(1, np.float32))
                if some is None
                else (Encoded(np.zeros_like(some.codes), np.ones_like(some.norms)))
            )
            filled = [empty if each is None else each for each in encoded]
            return Encoded(
                np.concatenate([each.codes for each in filled]), np.concatenate([each.norms for each in filled])
            )

    def _encode_row(
        self, space: EmbeddingSpace, row: NDArray[np.float32], owner: int, result: Vectors
    ) -> Encoded | None:
        try:
            return self._writer.encode(space.id, row[None, :])
        except InvalidVector as error:
            result.faults[owner] = error.message
            return None


class StoredEmbedding:
    """Embeds stored chunks: the strings that a fresh ingest would embed, equal ones of a call once.

    `embedded` counts the texts that went through the Embedder.
    """

    def __init__(self, space: EmbeddingSpace, embedder: Embedder, chunker: Chunker) -> None:
        self._space, self._embedder, self._chunker = space, embedder, chunker
        self.embedded = 0

    def keys(self, chunks: Sequence[StoredChunk]) -> list[bytes]:
        return [embedding_key(self._space, text) for text in self._texts(chunks)]

    def vectors(self, chunks: Sequence[StoredChunk]) -> NDArray[np.float32]:
        texts = self._texts(chunks)
        places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        vectors = self._embedder.embed_documents(list(places))
        self.embedded += len(places)
        return vectors[[places[text] for text in texts]]

    def _texts(self, chunks: Sequence[StoredChunk]) -> list[str]:
        return [self._chunker.embedded_text(chunk.title, chunk.section, chunk.text) for chunk in chunks]


class Recomputation(StoredEmbedding):
    """The same in stored form, for `Writer.reembed`."""

    def __init__(self, writer: Writer, space: EmbeddingSpace, embedder: Embedder, chunker: Chunker) -> None:
        super().__init__(space, embedder, chunker)
        self._writer = writer

    def __call__(self, chunks: Sequence[StoredChunk]) -> tuple[Encoded, Sequence[bytes]]:
        return self._writer.encode(self._space.id, self.vectors(chunks)), self.keys(chunks)
