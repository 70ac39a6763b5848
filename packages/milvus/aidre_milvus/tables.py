"""The collections of Milvus that hold one collection, and their rows.

    STORE_catalog          the commit records: see `catalog`
    STORE_NAME_N_rows      documents and chunks; NAME is a digest of the collection's name, N its lineage
    STORE_NAME_N_space_M   one row a chunk with its vector in the space of table M; the numbers are those of the chunks.
                           `blob` has the chunk with its document, where they are short: one request finds all
    STORE_NAME_N_words     one row a chunk with its terms, and
    STORE_NAME_N_terms     how many chunks have a term: see `words`

A document, its chunks and what does not fit into one row of them have consecutive numbers; `extent` is how many. The
values are packed into `blob`: text has at most 65,535 bytes and JSON as many, so what is longer takes several rows, all
`pieces` but the first of kind PIECE.
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from aidre.engine.errors import InvalidInput
from aidre.engine.index.vectors import dtype_of
from aidre.engine.model import EmbeddingSpace
from aidre.engine.search import bm25
from aidre_milvus.expressions import MOST_TOKENS, TOKEN_CHARACTERS, listed_values
from aidre_milvus.server import MilvusDatabase, Row
from aidre_rows import ChunkRow, DocumentRow, PendingDocument, PendingVector, digest

WITH_BLOBS: Final = 2
FORMAT: Final = 3
"""Of the collections of Milvus: in 1 the rows of a space had no `blob`, in 2 there are no words, as before Milvus
2.5."""
PIECE, DOCUMENT, CHUNK = 0, 1, 2
_PIECE_CHARACTERS: Final = 60_000
MOST_CHARACTERS: Final = 65_535
_MOST_WITH_VECTOR: Final = 8_192
"""Characters of a chunk and its document that are kept beside each of its vectors."""
UNUSED: Final = [0.0, 0.0]
"""A collection of Milvus has a vector field, whatever it is for."""

_VALUES: Final = f"born INT64, tokens ARRAY({MOST_TOKENS} {TOKEN_CHARACTERS}), bounds JSON"
_ROWS: Final = (
    "row INT64, document INT64, kind INT8, extent INT64, pieces INT64, chunks INT64, has_url BOOL, digest VARCHAR(64), "
    f"source VARCHAR(64), fingerprint VARCHAR(1024), blob VARCHAR({MOST_CHARACTERS}), {_VALUES}, vector FLOAT_VECTOR(2)"
)
_SPACE: Final = f"row INT64, document INT64, key VARCHAR(64), norm FLOAT, {_VALUES}, vector FLOAT_VECTOR"
_WORDS: Final = (
    f"row INT64, document INT64, words VARCHAR({MOST_CHARACTERS}), length INT64, language VARCHAR(64), {_VALUES}, "
    "vector SPARSE_FLOAT_VECTOR"
)
_TERMS: Final = "row INT64, born INT64, chunks INT64, vector FLOAT_VECTOR(2)"
_BM25: Final[Row] = {
    "index_type": "SPARSE_INVERTED_INDEX",
    "metric_type": "BM25",
    "params": {"bm25_k1": bm25.K1, "bm25_b": bm25.B},
}
PLAIN_INDEX: Final[Row] = {"index_type": "FLAT", "metric_type": "L2"}
_MOST_DIMENSIONS: Final = 32_768
_NEIGHBOURS: Final = 16
_CONSTRUCTION: Final = 128


class RowExtent(NamedTuple):
    """The rows of a document: its number, which is that of the first, and how many."""

    document: int
    rows: int


@dataclass(frozen=True, slots=True)
class MilvusTables:
    """The names of what holds a collection of one lineage."""

    server: MilvusDatabase
    collection: str
    lineage: str

    @property
    def stem(self) -> str:
        return f"{self.server.store}_{name_of(self.collection)[:16]}_"

    def _name(self, kind: str) -> str:
        return f"{self.stem}{self.lineage}_{kind}"

    @property
    def rows(self) -> str:
        return self._name("rows")

    @property
    def words(self) -> str:
        return self._name("words")

    @property
    def terms(self) -> str:
        return self._name("terms")

    def space(self, table: int) -> str:
        return self._name(f"space_{table}")

    def make(self, spaces: Iterable[tuple[EmbeddingSpace, int]], format: int) -> None:
        self.server.make(self.rows, _ROWS, PLAIN_INDEX)
        names = [self.rows]
        if format >= FORMAT:
            self.server.make(self.words, _WORDS, _BM25, scored="words")
            self.server.make(self.terms, _TERMS, PLAIN_INDEX)
            names += [self.words, self.terms]
        for space, table in spaces:
            self.make_space(space, table, format)
            names.append(self.space(table))
        self.server.wait_for(names)

    def make_space(self, space: EmbeddingSpace, table: int, format: int) -> None:
        if space.dimensions > _MOST_DIMENSIONS:
            raise InvalidInput(
                f"embedding space {space.id!r} has {space.dimensions} dimensions, Milvus stores {_MOST_DIMENSIONS}: "
                "keep it in local segments"
            )
        blob = f", blob VARCHAR({MOST_CHARACTERS})" if format >= WITH_BLOBS else ""
        fields = f"{_SPACE}({space.dimensions}){blob}"
        graph = {"M": _NEIGHBOURS, "efConstruction": _CONSTRUCTION}
        metric = "L2" if space.distance == "euclidean" else "IP"
        self.server.make(self.space(table), fields, {"index_type": "HNSW", "metric_type": metric, "params": graph})

    def all(self) -> list[str]:
        """What there is of the collection, also of another lineage: a first commit that failed, or a drop that did."""
        names: list[str] = self.server.call("list_collections")
        return [name for name in names if name.startswith(self.stem)]

    def sizes(self, spaces: Iterable[tuple[EmbeddingSpace, int]], chunks: int) -> dict[int, dict[str, int]]:
        """The bytes of the vectors and of the graph of each space, computed from their numbers: Milvus tells none."""
        found = {}
        for space, table in spaces:
            index = self.server.call("describe_index", self.space(table), "vector")
            graph = int(index["indexed_rows"]) * _NEIGHBOURS * 2 * 4
            found[table] = {"vectors": chunks * space.dimensions * 4, "index": graph, "keys": 0}
        return found


def name_of(text: str | bytes) -> str:
    """The digest of a name, as rows have it."""
    return digest(text.encode() if isinstance(text, str) else text).hex()


# -- rows --------------------------------------------------------------------------------------------------------


def document_rows(first: int, born: int, pending: PendingDocument) -> tuple[list[Row], list[Row]]:
    """The rows of a document, of which the first has the number `first`, and of each chunk what its rows elsewhere
    begin with."""
    document, listed = pending.rows.document, listed_values(pending.rows.fields)
    head: dict[str, Any] = {"kind": DOCUMENT, "chunks": document.chunk_count, "has_url": document.url is not None}
    head |= {"digest": name_of(document.id), "source": name_of(document.source)}
    made, numbers = _in_pieces(first, document, {**head, **listed, "fingerprint": document.fingerprint.hex()}), []
    for chunk in pending.rows.chunks:
        numbers.append(first + len(made))
        made += _in_pieces(numbers[-1], chunk, {"kind": CHUNK, "digest": name_of(chunk.id)})
    made[0]["extent"] = len(made)
    own = {"document": first, "born": born}
    return [{**row, **own} for row in made], [{"row": number, **own, **listed} for number in numbers]


def _in_pieces(number: int, value: Any, head: Row) -> list[dict[str, Any]]:
    plain: dict[str, Any] = dict.fromkeys(("extent", "pieces", "chunks"), 0)
    plain |= {**dict.fromkeys(("digest", "source", "fingerprint"), ""), "has_url": False, "kind": PIECE}
    plain |= {"tokens": [], "bounds": {}, "vector": UNUSED}
    pieces = packed(msgspec.msgpack.encode(value))
    made = [{**plain, "row": number + place, "blob": piece} for place, piece in enumerate(pieces)]
    return [{**made[0], **head, "pieces": len(pieces)}, *made[1:]]


def packed(data: bytes) -> list[str]:
    """Bytes as texts of limited length."""
    text = b64encode(zlib.compress(data, 1)).decode()
    return [text[start : start + _PIECE_CHARACTERS] for start in range(0, len(text), _PIECE_CHARACTERS)]


def unpacked(pieces: Iterable[str]) -> bytes:
    return zlib.decompress(b64decode("".join(pieces)))


def unpacked_rows(rows: Sequence[Row]) -> Iterator[tuple[Row, DocumentRow | ChunkRow]]:
    """Documents and chunks of rows in the order of their numbers, with the first row of each."""
    starts = [place for place, row in enumerate(rows) if row["kind"] != PIECE]
    for start, end in zip(starts, [*starts[1:], len(rows)], strict=True):
        kind: Any = DocumentRow if rows[start]["kind"] == DOCUMENT else ChunkRow
        data = unpacked(row["blob"] for row in rows[start:end])
        yield rows[start], msgspec.msgpack.decode(data, type=kind)


def blob_of(document: DocumentRow, chunk: ChunkRow) -> str:
    """A chunk with its document, as the rows of spaces have them; nothing of long ones."""
    pieces = packed(msgspec.msgpack.encode((document, chunk)))
    return pieces[0] if len(pieces) == 1 and len(pieces[0]) <= _MOST_WITH_VECTOR else ""


def unpacked_blob(blob: str) -> tuple[DocumentRow, ChunkRow]:
    return msgspec.msgpack.decode(unpacked([blob]), type=tuple[DocumentRow, ChunkRow])


def vector_values(vector: PendingVector) -> Row:
    key = "" if vector.key is None else vector.key.hex()
    return {"key": key, "norm": vector.norm, "vector": np.asarray(vector.codes, np.float32)}


def vector_of(space: EmbeddingSpace, row: Row) -> PendingVector:
    codes: NDArray[Any] = np.asarray(row["vector"], np.float32).astype(dtype_of(space))
    return PendingVector(codes, float(row["norm"]), bytes.fromhex(row.get("key", "")) or None)
