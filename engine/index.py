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
from aidre.engine.codebook import (
    blocks_of,
    centroids_of,
    emptied,
    fill,
    fitting,
    is_listed,
    with_centroids,
    without_rows,
)
from aidre.engine.kernel import measure_of
from aidre.engine.lists import ALIGNED, BLOCKS, Inverted, Lists, members, taken_out
from aidre.engine.lists import read as read_lists
from aidre.engine.model import EmbeddingSpace
from aidre.engine.router import Router
from aidre.engine.schema import INDEX, SEGMENT_ROWS

_MOST_LISTS = (1 << 16) - 1
"""More cannot be told apart by 16 bits, of which one number says that there is none."""

_FEW = 0.4
"""Lists with a smaller share of the rows than this are gone over one by one, which takes up to twice as long."""

_MEMBERS = 6
_LISTS = "codes in lists"
""""lists", as earlier releases wrote them, are one index with all its rows."""


class Scan:
    """The opened codes of one segment, `filled` by rows (see `codebook.fill`).

    Without centroids each index is one list; with `lists` centroids there are those of `lists.Inverted`. Its rows are
    numbered from `slot` * SEGMENT_ROWS on, so that the segments of a generation can be told apart.
    """

    def __init__(self, space: EmbeddingSpace, filled: Sequence[Any]) -> None:
        self.space = space
        self.filled = tuple(filled)
        first = filled[0]
        self._listed: Lists | None = first if isinstance(first, Lists) else None
        self._index = first if self._listed is None else self._listed.codebook
        self.code_size = int(self._index.pq.M)
        self.padding = self._index.d - space.dimensions
        self._centroids = centroids_of(self._index)
        self.lists = len(self._centroids)
        self.slot: int | None = None
        if self._listed is None:
            self._ids = [ids for index in filled for ids in ids_of(index)]
            self.inverted = [index.invlists for index in filled]
            self.sizes: NDArray[np.int64] = np.array(list(map(len, self._ids)))
            """How many rows each list holds."""
            for ids, end in zip(self._ids, np.cumsum(self.sizes).tolist(), strict=True):
                ids[:] = np.arange(end - len(ids), end)
        else:
            inverted = Inverted(self._listed)
            self._ids, self.inverted, self.sizes = inverted.ids, [inverted.lists], inverted.sizes

    def __len__(self) -> int:
        return int(self.sizes.sum()) if self._listed is None else len(self._listed)

    @cached_property
    def codes_key(self) -> tuple[int, int, bytes]:
        """What scans have in common where their lists can be gone over together."""
        return _codes_key(self._index)

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
            return emptied(self._index, 1)
        return with_centroids(self.space, self._index, self._centroids)

    def emptied(self, lists: int) -> Any:
        """An index of so many lists that are none of its own, to go over any with the same codes."""
        return emptied(self._index, lists)

    @cached_property
    def router(self) -> Router:
        """Its centroids, of which those nearest to a query say which lists to go over."""
        return Router(self.space, self._centroids[:, : self.space.dimensions])

    @property
    def places(self) -> NDArray[np.uint16]:
        """The two lists of every row, by their centroids: (2, rows)."""
        assert self._listed is not None
        return self._listed.chosen

    def counts(self, mask: NDArray[np.bool_] | None) -> NDArray[np.int64] | None:
        """How many rows of a mask are nearest to each centroid; None where there is one list or no mask."""
        return np.bincount(self.places[0][mask], minlength=self.lists) if self.lists and mask is not None else None

    def once(self, counts: NDArray[np.int64] | None) -> NDArray[np.int64]:
        """The lists in which each row stands once; where few of them hold one of a mask's rows (`counts`), those."""
        if not self.lists:
            return np.arange(len(self.sizes))
        if counts is not None:
            held = self.lists + np.flatnonzero(counts)
            if self.sizes[held].sum() < _FEW * len(self):
                return held
        return np.arange(2 * self.lists, len(self.sizes))


def _codes_key(index: Any) -> tuple[int, int, bytes]:
    return int(index.pq.M), int(index.bbs), faiss.vector_to_array(index.pq.centroids).tobytes()


def ids_of(index: Any) -> list[NDArray[np.int64]]:
    """Views of the row numbers in each inverted list of an index."""
    lists = index.invlists
    sizes = [lists.list_size(number) for number in range(index.nlist)]
    empty = np.empty(0, np.int64)
    return [faiss.rev_swig_ptr(lists.get_ids(number), size) if size else empty for number, size in enumerate(sizes)]


# -- on disk -----------------------------------------------------------------------------------------------


def index_batch(filled: Sequence[Any], vectors_checksum: str, trained_rows: int) -> pa.RecordBatch:
    """What a segment was filled into: indexes, one a row, or the members of its Lists.

    The metadata say what it was built from and by which release of FAISS.
    """
    lists = filled[0] if isinstance(filled[0], Lists) else None
    metadata = {
        "kind": "scan" if lists is None else _LISTS,
        "code_size": str((filled[0] if lists is None else lists.codebook).pq.M),
        "faiss": faiss.__version__,
        "vectors": vectors_checksum,
        "trained_rows": str(trained_rows),
    }
    schema = INDEX.with_metadata(metadata)
    if lists is None:
        return _batch([faiss.serialize_index(index) for index in filled], schema)
    codebook = faiss.serialize_index(lists.codebook)
    filler = np.zeros(-(_begin(schema, _MEMBERS) + len(codebook)) % ALIGNED, np.uint8)
    return _batch([codebook, filler, *members(lists)], schema)


def _batch(bodies: Sequence[NDArray[np.uint8]], schema: pa.Schema) -> pa.RecordBatch:
    offsets = pa.py_buffer(np.cumsum([0, *map(len, bodies)], dtype=np.int64))
    body = pa.py_buffer(bodies[0] if len(bodies) == 1 else np.concatenate(bodies))
    value = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(bodies), [None, offsets, body])
    return pa.RecordBatch.from_arrays([value], schema=schema)


def _begin(schema: pa.Schema, values: int) -> int:
    """At which byte of an Arrow file the first of so many values begins, however long they are."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(_batch([np.zeros(8, np.uint8)] * values, schema))
    file = sink.getvalue()
    return int(pa.ipc.open_file(file).get_batch(0).column(0).buffers()[2].address - file.address)


def codebook_text(scan: Scan) -> str:
    """What a scan learned, without its rows, as text that another process can be sent."""
    return b64encode(faiss.serialize_index(scan.codebook())).decode("ascii")


def encoded_batch(codes: NDArray[Any], codebook: str, vectors_checksum: str, trained_rows: int) -> pa.RecordBatch:
    """An index of stored rows (n, d) by the codebook of a `codebook_text`."""
    empty = faiss.deserialize_index(np.frombuffer(b64decode(codebook), np.uint8))
    return index_batch(fill(fitting(empty, len(codes)), blocks_of(codes)), vectors_checksum, trained_rows)


def open_scan(space: EmbeddingSpace, batch: pa.RecordBatch, rows: int, vectors_checksum: str) -> Scan:
    """Copy indexes out of the map; of Lists the codes stay there.

    FileProblem when they were not built from these vectors or cannot be read.
    """
    metadata = {key.decode(): value.decode() for key, value in (batch.schema.metadata or {}).items()}
    if metadata.get("vectors") != vectors_checksum:
        raise FileProblem("was built from other vectors")
    bodies = _bodies(batch.column(0))
    if metadata.get("kind") == _LISTS:
        return Scan(space, [_opened_lists(space, bodies, rows)])
    # Centroids stay where they were read from as long as nobody copies them.
    indexes = [_read(space, faiss.ZeroCopyIOReader(faiss.swig_ptr(body), body.nbytes)) for body in bodies]
    for index in indexes:
        if _codes_key(index) != _codes_key(indexes[0]):
            raise FileProblem("is an index of several codebooks")
    if len(indexes) == 1 and is_listed(indexes[0]):
        _check_centroids(indexes[0], lists=2)
        return Scan(space, [taken_out(without_rows(indexes[0]), indexes[0], rows)])
    if any(is_listed(index) for index in indexes):
        raise FileProblem("is no index of this kind")
    if any(index.invlists.list_size(0) != index.ntotal for index in indexes):
        raise FileProblem("does not fit its segment")
    if not indexes or sum(index.ntotal for index in indexes) != rows:
        raise FileProblem("does not fit its segment")
    return Scan(space, indexes)


def _read(space: EmbeddingSpace, reader: Any) -> Any:
    try:
        index = faiss.read_index(reader)
    except RuntimeError as error:
        raise FileProblem("cannot be read by this release of FAISS") from error
    if not isinstance(index, faiss.IndexIVFPQFastScan) or index.by_residual:
        raise FileProblem("is no index of this kind")
    if index.d < space.dimensions:
        raise FileProblem("does not fit its segment")
    if index.metric_type != measure_of(space).metric:
        raise FileProblem("is no index of this kind of distance")
    return index


def _opened_lists(space: EmbeddingSpace, bodies: Sequence[NDArray[np.uint8]], rows: int) -> Lists:
    if len(bodies) != _MEMBERS:
        raise FileProblem("does not fit its segment")
    reader = faiss.VectorIOReader()
    faiss.copy_array_to_vector(bodies[0], reader.data)
    codebook = _read(space, reader)
    _check_centroids(codebook, lists=1)
    packed = codebook.bbs in BLOCKS and codebook.M2 == codebook.pq.M + codebook.pq.M % 2
    if not packed or not is_listed(codebook) or any(map(len, ids_of(codebook))):
        raise FileProblem("does not fit its segment")
    return read_lists(codebook, bodies[2:], rows)


def _check_centroids(index: Any, *, lists: int) -> None:
    """Raise FileProblem unless an index has so many lists for each of its centroids, and these are numbers."""
    coarse = faiss.downcast_index(index.quantizer)
    kinds = {faiss.IndexScalarQuantizer: 2, faiss.IndexFlat: 4, faiss.IndexFlatIP: 4, faiss.IndexFlatL2: 4}
    width = kinds.get(type(coarse))
    fits = index.nlist == lists * coarse.ntotal and 0 < coarse.ntotal <= _MOST_LISTS and coarse.d == index.d
    if width is None or not fits:
        raise FileProblem("is no index of this kind")
    if coarse.code_size != width * coarse.d or coarse.codes.size() != coarse.ntotal * coarse.code_size:
        raise FileProblem("is no index of this kind")
    if not np.isfinite(centroids_of(index)).all():
        raise FileProblem("has centroids that are no numbers")


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
