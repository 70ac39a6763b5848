"""The codes of a segment, opened: every row in four bits a dimension group, as inverted lists that passes go over.

(Andre et al., "Quicker ADC"; FAISS `IVF1,PQ{m}x4fs` and the same with more lists.) FAISS writes through the indexes it
is given only when told to: nothing here offers that.
"""

from __future__ import annotations

import itertools
from base64 import b64decode, b64encode
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import faiss
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine.arrow import FileProblem
from aidre.engine.codebook import blocks_of, centroids_of, emptied, fill, fitting, is_listed, router_of, with_centroids
from aidre.engine.kernel import Column, measure_of
from aidre.engine.model import EmbeddingSpace
from aidre.engine.schema import INDEX, SEGMENT_ROWS

_MOST_LISTS = 1 << 16
"""More cannot be told apart by 16 bits."""


class Scan:
    """The opened codes of one segment.

    Without centroids each index is one list; with `lists` centroids there is one index, whose lists hold the rows
    nearest to each centroid and then the spilled copies (see `codebook`). Its rows are numbered from `slot` *
    SEGMENT_ROWS on, so that the segments of a generation can be told apart.
    """

    def __init__(self, space: EmbeddingSpace, indexes: Sequence[Any]) -> None:
        self.space = space
        self.indexes = tuple(indexes)
        first = self.indexes[0]
        self.code_size = int(first.pq.M)
        self.padding = first.d - space.dimensions
        self._centroids = centroids_of(first)
        self.lists = len(self._centroids)
        self.block = int(first.bbs)
        self.slot: int | None = None
        self._ids = [ids for index in self.indexes for ids in ids_of(index)]
        self.sizes = np.array(list(map(len, self._ids)))
        """How many rows each inverted list holds."""
        if not self.lists:
            start = 0
            for ids in self._ids:
                ids[:] = np.arange(start, start + len(ids))
                start += len(ids)

    def __len__(self) -> int:
        return int(self.sizes[: self.lists or None].sum())

    @cached_property
    def codes_key(self) -> tuple[int, int, bytes]:
        """What scans have in common where their lists can be gone over together."""
        return _codes_key(self.indexes[0])

    @cached_property
    def codebook_key(self) -> tuple[tuple[int, int, bytes], bytes]:
        """The same, and where the rows near to a query stand."""
        return self.codes_key, self._centroids.tobytes()

    def number(self, slot: int) -> None:
        """Give its rows the numbers of a slot, before anything searches them."""
        moved = (slot - (self.slot or 0)) * SEGMENT_ROWS
        self.slot = slot
        for ids in self._ids if moved else ():
            np.add(ids, moved, out=ids)

    def codebook(self) -> Any:
        """The trained index without its rows, to encode other rows of the same space alike."""
        if not self.lists:
            return emptied(self.indexes[0], 1)
        return with_centroids(self.space, self.indexes[0], self._centroids)

    @cached_property
    def router(self) -> Column:
        """Its centroids, of which those nearest to a query say which lists to go over."""
        return router_of(self.space, self._centroids[:, : self.space.dimensions])

    @cached_property
    def places(self) -> NDArray[np.uint16]:
        """The two lists of every row, by their centroids: (2, rows)."""
        found = np.empty((2, len(self)), np.uint16)
        first = (self.slot or 0) * SEGMENT_ROWS
        for copy in range(2):
            own = slice(copy * self.lists, (copy + 1) * self.lists)
            rows = np.concatenate(self._ids[own]) - first
            found[copy, rows] = np.repeat(np.arange(self.lists, dtype=np.uint16), self.sizes[own])
        return found

    def counts(self, mask: NDArray[np.bool_] | None) -> NDArray[np.int64] | None:
        """How many rows of a mask stand in the list of each centroid; None where there is one list or no mask."""
        return np.bincount(self.places[0][mask], minlength=self.lists) if self.lists and mask is not None else None


def _codes_key(index: Any) -> tuple[int, int, bytes]:
    return int(index.pq.M), int(index.bbs), faiss.vector_to_array(index.pq.centroids).tobytes()


def ids_of(index: Any) -> list[NDArray[np.int64]]:
    """Views of the row numbers in each inverted list of an index."""
    lists = index.invlists
    sizes = [lists.list_size(number) for number in range(index.nlist)]
    empty = np.empty(0, np.int64)
    return [faiss.rev_swig_ptr(lists.get_ids(number), size) if size else empty for number, size in enumerate(sizes)]


# -- on disk -----------------------------------------------------------------------------------------------


def index_batch(indexes: Sequence[Any], vectors_checksum: str, trained_rows: int) -> pa.RecordBatch:
    """The indexes of a segment, one a row; the metadata say what they were built from and by which release of FAISS."""
    metadata = {
        "kind": "lists" if is_listed(indexes[0]) else "scan",
        "code_size": str(indexes[0].pq.M),
        "faiss": faiss.__version__,
        "vectors": vectors_checksum,
        "trained_rows": str(trained_rows),
    }
    bodies = [faiss.serialize_index(index) for index in indexes]
    offsets = pa.py_buffer(np.cumsum([0, *map(len, bodies)], dtype=np.int64))
    body = pa.py_buffer(bodies[0] if len(bodies) == 1 else np.concatenate(bodies))
    value = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(bodies), [None, offsets, body])
    return pa.RecordBatch.from_arrays([value], schema=INDEX.with_metadata(metadata))


def codebook_text(scan: Scan) -> str:
    """What a scan learned, without its rows, as text that another process can be sent."""
    return b64encode(faiss.serialize_index(scan.codebook())).decode("ascii")


def encoded_batch(codes: NDArray[Any], codebook: str, vectors_checksum: str, trained_rows: int) -> pa.RecordBatch:
    """An index of stored rows (n, d) by the codebook of a `codebook_text`."""
    empty = faiss.deserialize_index(np.frombuffer(b64decode(codebook), np.uint8))
    return index_batch(fill(fitting(empty, len(codes)), blocks_of(codes)), vectors_checksum, trained_rows)


def open_scan(space: EmbeddingSpace, batch: pa.RecordBatch, rows: int, vectors_checksum: str) -> Scan:
    """Copy the indexes out of the map. FileProblem when they were not built from these vectors or cannot be read."""
    metadata = {key.decode(): value.decode() for key, value in (batch.schema.metadata or {}).items()}
    if metadata.get("vectors") != vectors_checksum:
        raise FileProblem("was built from other vectors")
    bodies = _bodies(batch.column(0))  # which what was read looks at, as long as centroids are not copied
    try:
        indexes = [faiss.read_index(faiss.ZeroCopyIOReader(faiss.swig_ptr(body), body.nbytes)) for body in bodies]
    except RuntimeError as error:
        raise FileProblem("cannot be read by this release of FAISS") from error
    for index in indexes:
        if not isinstance(index, faiss.IndexIVFPQFastScan) or index.by_residual:
            raise FileProblem("is no index of this kind")
        if index.d < space.dimensions:
            raise FileProblem("does not fit its segment")
        if index.metric_type != measure_of(space).metric or _codes_key(index) != _codes_key(indexes[0]):
            raise FileProblem("is no index of this kind of distance, or of several codebooks")
        if is_listed(index):
            _check_lists(index, rows, alone=len(indexes) == 1)
        elif index.invlists.list_size(0) != index.ntotal:
            raise FileProblem("does not fit its segment")
    if not indexes or sum(index.ntotal // (1 + is_listed(index)) for index in indexes) != rows:
        raise FileProblem("does not fit its segment")
    return Scan(space, indexes)


def _check_lists(index: Any, rows: int, *, alone: bool) -> None:
    """Raise FileProblem unless there are centroids and every row stands in one of their lists, and in one more."""
    coarse = faiss.downcast_index(index.quantizer)
    kinds = {faiss.IndexScalarQuantizer: 2, faiss.IndexFlat: 4, faiss.IndexFlatIP: 4, faiss.IndexFlatL2: 4}
    width = kinds.get(type(coarse))
    fits = index.nlist == 2 * coarse.ntotal and coarse.ntotal <= _MOST_LISTS and coarse.d == index.d
    if not alone or width is None or not fits:
        raise FileProblem("is no index of this kind")
    if coarse.code_size != width * coarse.d or coarse.codes.size() != coarse.ntotal * coarse.code_size:
        raise FileProblem("is no index of this kind")
    if not np.isfinite(centroids_of(index)).all():
        raise FileProblem("has centroids that are no numbers")
    ids = ids_of(index)
    for each in (ids[: coarse.ntotal], ids[coarse.ntotal :]):
        found = np.concatenate(each)
        if len(found) != rows or not rows or found.min() < 0 or found.max() >= rows or np.bincount(found).max() > 1:
            raise FileProblem("does not fit its segment")


def _bodies(column: pa.Array) -> list[NDArray[np.uint8]]:
    """The bytes of each value, where they lie."""
    _, offsets, data = column.buffers()
    if len(column) == 0:
        return []
    ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1].tolist()
    stored = np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8)
    return [stored[start:end] for start, end in itertools.pairwise(ends)]


def trained_rows_of(batch: pa.RecordBatch) -> int:
    return int((batch.schema.metadata or {}).get(b"trained_rows", b"0"))
