"""The vector index of one segment, opened: the 4-bit codes of its rows, in one list or in inverted lists, and its file.

(André et al., "Quicker ADC", 2018; FAISS `IVF1,PQ{m}x4fs`, and the same with more lists.) FAISS writes through an index
over mapped memory only when told to: nothing here offers that.
"""

from __future__ import annotations

import itertools
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import faiss
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine.index.vectors.distance import metric_of
from aidre.engine.index.vectors.encoding import is_unit
from aidre.engine.index.vectors.inverted_lists import (
    ALIGNMENT_BYTES,
    BLOCK_SIZES,
    CoarseQuantizer,
    FaissLists,
    InvertedLists,
    from_buffers,
    nibble_order,
    packed_bytes,
    to_buffers,
    unpack_rows,
)
from aidre.engine.index.vectors.quantizer import (
    TABLE_FACTOR,
    Codebook,
    Quantized,
    bounded_arrays,
    centroids_of,
    codebook_for,
    copy_without_rows,
    deserialize,
    empty_index,
    has_centroids,
    prepared_centroids,
    quantize_rows,
    row_blocks,
    with_prepared_centroids,
)
from aidre.engine.index.vectors.transform import Transform, transform_from_bytes
from aidre.engine.model import EmbeddingSpace
from aidre.engine.native import native
from aidre.engine.storage import INDEX_SCHEMA, MAX_SEGMENT_ROWS, FileProblem

if TYPE_CHECKING:
    from aidre.engine.native import kernel

_MAX_LISTS = (1 << 16) - 1
"""Lists of a file: their ids are uint16, and one value marks a row without a list."""

_FEW_ROWS_SHARE = 0.4
"""Share of the rows; a filtered full scan reads single lists only if they hold less, as that takes up to twice as
long a row."""

_LISTS_VALUES = 6
"""Values in the file of an index of kind _LISTS_KIND: codebook, padding, all codes, codes, rows and sizes."""

_CODEWORDS = 16
"""Codewords of a component of a code: 4 bits."""

_ID_BYTES = 8
"""Bytes of a row's id in a serialized FAISS index."""

_NO_CODES = np.empty(0, np.uint8)

_SCAN_KIND = "scan"
_LISTS_KIND = "codes in lists"
"""Inverted lists."""

_ROTATED = "rotated "
"""Prefix of the kind of a file whose codes are of rotated rows: its last value is the rotation."""

_ROTATED_LISTS_KIND = "codes in rotated lists"
"""Inverted lists whose centroids are rotated, too. (Those of earlier releases were not.)"""

NORM_WEIGHT = 0.25
"""Share of a row's squared decoded norm that is subtracted from its estimated inner product, in spaces of unit rows.

A decoded row is shorter than the row, and the more so the worse its codes fit: without this correction badly fitting
rows near the query fall behind. Half the similarity of query and neighbours would be unbiased; among 60,000 embeddings
of passages any weight of .15 to .35 asks for about half as many candidates as none, with a rotation, and four fifths
without."""


class VectorIndex:
    """The quantized vectors of one segment, to be scanned in a ScanGroup.

    Without centroids (`nlist` is 0) every FAISS index of `quantized` is one list. With centroids its lists are those of
    FaissLists: nlist lists of rows and copies, the same without the copies, then lists of all rows. `list_sizes` counts
    the rows of each list.

    A scan of many segments tells their rows apart by row ids: the row plus `slot` * MAX_SEGMENT_ROWS.
    """

    def __init__(
        self, space: EmbeddingSpace, quantized: Quantized, centroids: NDArray[np.float32] | None = None
    ) -> None:
        """`centroids` (nlist, d_codes) stand in for those of the FAISS index."""
        self.space = space
        self.quantized = quantized
        self.transform: Transform | None = quantized.transform
        """Applied to the rows before they were quantized; to be applied to queries."""
        self.norm_weight = NORM_WEIGHT if is_unit(space) else 0.0
        first = quantized[0]
        self._inverted: InvertedLists | None = first if isinstance(first, InvertedLists) else None
        self._index = first if self._inverted is None else self._inverted.codebook
        self.code_size = int(self._index.pq.M)
        self.padding = 0 if self.transform is not None else int(self._index.d - space.dimensions)
        self._centroids = centroids_of(self._index) if centroids is None else centroids
        self.nlist = len(self._centroids)
        self.slot: int | None = None
        self.list_sizes: NDArray[np.int64]
        if self._inverted is None:
            self._ids = [ids for index in quantized for ids in row_ids_by_list(index)]
            self.faiss_lists = [index.invlists for index in quantized]
            self.list_sizes = np.array(list(map(len, self._ids)))
            for ids, end in zip(self._ids, np.cumsum(self.list_sizes).tolist(), strict=True):
                ids[:] = np.arange(end - len(ids), end)
        else:
            lists = FaissLists(self._inverted)
            self._ids, self.faiss_lists, self.list_sizes = lists.ids, [lists.lists], lists.sizes

    def __len__(self) -> int:
        return int(self.list_sizes.sum()) if self._inverted is None else len(self._inverted)

    @cached_property
    def codes_key(self) -> tuple[int, int, bytes]:
        """Equal for indexes with the same product quantizer and transform, which can be scanned together."""
        return _codes_key(self._index, self.transform)

    @cached_property
    def codebook_key(self) -> tuple[tuple[int, int, bytes], bytes]:
        """Equal for indexes with the same product quantizer and the same centroids."""
        return self.codes_key, self._centroids.tobytes()

    def native_lists(self, column: int) -> list[tuple[Any, ...]]:
        """The lists in the order of `list_sizes`, for the Codes of the kernel, as those of a column of its Columns."""
        if self._inverted is not None:
            return self._inverted.native_lists(column)
        lists, first_row = [], 0
        for index in self.quantized:
            size = index.invlists.list_size(0)
            codes = faiss.rev_swig_ptr(index.invlists.get_codes(0), packed_bytes(index, size)) if size else _NO_CODES
            lists.append((column, codes, None, _one(0), _one(first_row), _one(size)))
            first_row += size
        return lists

    def native_codes(self, columns: kernel.Columns, lists: Sequence[tuple[Any, ...]]) -> kernel.Codes:
        """Codes with this index's product quantizer."""
        quantizer, rotation = (
            self._index.pq,
            None if self.transform is None else self.transform.rotation.astype(np.float16),
        )
        centroids = faiss.vector_to_array(quantizer.centroids)
        codes: kernel.Codes = native.Codes(
            columns,
            centroids,
            self.norm_weight,
            rotation,
            int(quantizer.M),
            int(quantizer.dsub),
            int(self._index.bbs),
            lists,
        )
        return codes

    def assign_slot(self, slot: int) -> None:
        """Change the row ids to those of a slot. Not thread-safe: call it before anything scans this index."""
        shift = (slot - (self.slot or 0)) * MAX_SEGMENT_ROWS
        self.slot = slot
        for ids in self._ids if shift else ():
            np.add(ids, shift, out=ids)

    def known_codes(self, codebook: Codebook) -> NDArray[np.uint8] | None:
        """The codes (rows, bytes) of all rows as `codebook` has them, for its lists; None if this index cannot tell."""
        if self.nlist or not has_centroids(codebook.index):
            return None
        if self.codes_key != _codes_key(codebook.index, codebook.transform):
            return None
        order, parts = nibble_order(self._index), self.native_lists(0)
        return np.concatenate([unpack_rows(self._index, codes, int(size[0]), order) for _, codes, *_, size in parts])

    def codebook(self) -> Codebook:
        """The codebook, to quantize other rows of the space alike."""
        codebook = Codebook(empty_index(self._index, 1), self.transform)
        return with_prepared_centroids(self.space, codebook, self._centroids) if self.nlist else codebook

    def empty_index(self, lists: int) -> Any:
        """A FAISS index with this product quantizer and `lists` lists that are not its own, to scan any segment with
        the same codes. With a norm weight its distances are Euclidean: see `ScanGroup.prepare`."""
        return empty_index(self._index, lists, metric_type=faiss.METRIC_L2 if self.norm_weight else None)

    @cached_property
    def coarse_quantizer(self) -> CoarseQuantizer:
        return CoarseQuantizer(self.space, self._centroids, self.transform)

    @property
    def assignments(self) -> NDArray[np.uint16]:
        """The two lists of each row, that of its copy second: (2, rows). Only with centroids."""
        assert self._inverted is not None
        return self._inverted.assignments

    def count_by_list(self, mask: NDArray[np.bool_] | None) -> NDArray[np.int64] | None:
        """The number of masked rows in each of the nlist lists, without copies; None without centroids or mask."""
        if not self.nlist or mask is None:
            return None
        return np.bincount(self.assignments[0][mask], minlength=self.nlist)

    def covering_lists(self, counts: NDArray[np.int64] | None) -> NDArray[np.int64]:
        """Lists that together hold each row once, for a full scan.

        With the `counts` of a filter (see `count_by_list`), only the lists that hold an allowed row, if these are few.
        """
        if not self.nlist:
            return np.arange(len(self.list_sizes))
        if counts is not None:
            occupied = self.nlist + np.flatnonzero(counts)
            if self.list_sizes[occupied].sum() < _FEW_ROWS_SHARE * len(self):
                return occupied
        return np.arange(2 * self.nlist, len(self.list_sizes))


def _one(number: int) -> NDArray[np.int64]:
    return np.array([number], np.int64)


def _codes_key(index: Any, transform: Transform | None = None) -> tuple[int, int, bytes]:
    codewords = faiss.vector_to_array(index.pq.centroids).tobytes()
    return int(index.pq.M), int(index.bbs), codewords + (b"" if transform is None else transform.digest)


def row_ids_by_list(index: Any) -> list[NDArray[np.int64]]:
    """Views of the row ids in each inverted list of a FAISS index."""
    lists = index.invlists
    sizes = [lists.list_size(number) for number in range(index.nlist)]
    empty = np.empty(0, np.int64)
    return [faiss.rev_swig_ptr(lists.get_ids(number), size) if size else empty for number, size in enumerate(sizes)]


# -- written -----------------------------------------------------------------------------------------------


def index_to_batch(quantized: Quantized, vectors_checksum: str, trained_rows: int) -> pa.RecordBatch:
    """The content of an index file: one FAISS index a value, or the parts of one InvertedLists; then the rotation.

    The metadata name the kind, the vectors that the index was built from, and the release of FAISS.
    """
    inverted = quantized[0] if isinstance(quantized[0], InvertedLists) else None
    kind = _SCAN_KIND if inverted is None else _LISTS_KIND
    if quantized.transform is not None:
        kind = _ROTATED + (_SCAN_KIND if inverted is None else _ROTATED_LISTS_KIND)
    metadata = {
        "kind": kind,
        "code_size": str((quantized[0] if inverted is None else inverted.codebook).pq.M),
        "faiss": faiss.__version__,
        "vectors": vectors_checksum,
        "trained_rows": str(trained_rows),
    }
    schema = INDEX_SCHEMA.with_metadata(metadata)
    rotation = [] if quantized.transform is None else [np.frombuffer(quantized.transform.to_bytes(), np.uint8)]
    if inverted is None:
        return _batch_of([*(faiss.serialize_index(index) for index in quantized), *rotation], schema)
    codebook = faiss.serialize_index(inverted.codebook)
    offset = _data_offset(schema, _LISTS_VALUES + len(rotation)) + len(codebook)
    padding = np.zeros(-offset % ALIGNMENT_BYTES, np.uint8)
    return _batch_of([codebook, padding, *to_buffers(inverted), *rotation], schema)


def _batch_of(values: Sequence[NDArray[np.uint8]], schema: pa.Schema) -> pa.RecordBatch:
    offsets = pa.py_buffer(np.cumsum([0, *map(len, values)], dtype=np.int64))
    data = pa.py_buffer(values[0] if len(values) == 1 else np.concatenate(values))
    column = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(values), [None, offsets, data])
    return pa.RecordBatch.from_arrays([column], schema=schema)


def _data_offset(schema: pa.Schema, values: int) -> int:
    """The offset in an Arrow file of the first of a number of values; it does not depend on their lengths."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(_batch_of([np.zeros(8, np.uint8)] * values, schema))
    file = sink.getvalue()
    return int(pa.ipc.open_file(file).get_batch(0).column(0).buffers()[2].address - file.address)


def serialize_codebook(index: VectorIndex) -> str:
    """The codebook of an index as text, to be sent to another process."""
    codebook = index.codebook()
    parts = [faiss.serialize_index(codebook.index), *([] if index.transform is None else [index.transform.to_bytes()])]
    return " ".join(b64encode(part).decode("ascii") for part in parts)


def build_index_batch(
    codes: NDArray[Any], serialized_codebook: str, vectors_checksum: str, trained_rows: int
) -> pa.RecordBatch:
    """An index file of stored rows (n, d), quantized by a codebook of `serialize_codebook`."""
    serialized, *rotation = map(b64decode, serialized_codebook.split(" "))
    index = deserialize(np.frombuffer(serialized, np.uint8))
    codebook = Codebook(index, transform_from_bytes(rotation[0], index.d) if rotation else None)
    quantized = quantize_rows(codebook_for(codebook, len(codes)), row_blocks(codes))
    return index_to_batch(quantized, vectors_checksum, trained_rows)


# -- opened ------------------------------------------------------------------------------------------------


def open_index(space: EmbeddingSpace, batch: pa.RecordBatch, rows: int, vectors_checksum: str) -> VectorIndex:
    """Open an index file of a segment of `rows` rows. The codes of inverted lists stay mapped, the rest is copied.

    FileProblem if it was built from other vectors, does not fit the segment, or cannot be read.
    """
    metadata = {key.decode(): value.decode() for key, value in (batch.schema.metadata or {}).items()}
    if metadata.get("vectors") != vectors_checksum:
        raise FileProblem("was built from other vectors")
    values, kind, rotation = _values_of(batch.column(0)), metadata.get("kind", _SCAN_KIND), None
    if kind.startswith(_ROTATED):
        kind = kind.removeprefix(_ROTATED)
        if kind not in (_SCAN_KIND, _LISTS_KIND, _ROTATED_LISTS_KIND) or len(values) < 2:
            raise FileProblem("is not an index of this kind")
        values, rotation = values[:-1], values[-1]
    is_listed = kind in (_LISTS_KIND, _ROTATED_LISTS_KIND)
    size = max((value.nbytes for value in values), default=0)
    if is_listed and values:
        size = max(size, TABLE_FACTOR * values[0].nbytes)
    opened = partial(_read_index, space, 1 if rotation is not None else space.dimensions, size)
    parts = [_open_lists(opened, values, rows)] if is_listed else _open_indexes(opened, values, rows)
    index = parts[0].codebook if isinstance(parts[0], InvertedLists) else parts[0]
    transform, centroids = _open_transform(space, rotation, index.d), None
    if has_centroids(index) and kind != _ROTATED_LISTS_KIND:
        if index.d < space.dimensions:
            raise FileProblem("does not match the vectors of its segment")
        centroids = prepared_centroids(space, index.d, centroids_of(index)[:, : space.dimensions], transform)
    return VectorIndex(space, Quantized(tuple(parts), transform), centroids)


def _open_transform(space: EmbeddingSpace, stored: NDArray[np.uint8] | None, codes_dimensions: int) -> Transform | None:
    if stored is None:
        return None
    transform = transform_from_bytes(stored, codes_dimensions)
    if transform.rotation.shape[1] != space.dimensions:
        raise FileProblem("does not match the vectors of its segment")
    return transform


def _open_indexes(opened: Callable[[Any], Any], values: Sequence[NDArray[np.uint8]], rows: int) -> list[Any]:
    readers = [faiss.ZeroCopyIOReader(faiss.swig_ptr(value), value.nbytes) for value in values]
    indexes = [opened(reader) for reader in readers]
    for index, reader in zip(indexes, readers, strict=True):
        _check_packed(index, int(reader.rp_))
    if any(_codes_key(index) != _codes_key(indexes[0]) for index in indexes):
        raise FileProblem("is an index of several codebooks")
    if any(has_centroids(index) for index in indexes):
        raise FileProblem("is not an index of this kind")
    if any(index.invlists.list_size(0) != index.ntotal for index in indexes):
        raise FileProblem("does not match the vectors of its segment")
    if not indexes or sum(index.ntotal for index in indexes) != rows:
        raise FileProblem("does not match the vectors of its segment")
    return indexes


def _read_index(space: EmbeddingSpace, least_dimensions: int, size: int, reader: Any) -> Any:
    try:
        with bounded_arrays(size):
            index = faiss.read_index(reader)
    except (RuntimeError, MemoryError) as error:
        raise FileProblem("cannot be read by this release of FAISS") from error
    if not isinstance(index, faiss.IndexIVFPQFastScan) or index.by_residual:
        raise FileProblem("is not an index of this kind")
    if index.d < least_dimensions:
        raise FileProblem("does not match the vectors of its segment")
    if index.metric_type != metric_of(space).faiss_type:
        raise FileProblem("is an index of another kind of distance")
    _check_codebook(index)
    return index


def _check_codebook(index: Any) -> None:
    """Raise FileProblem unless the product quantizer has the shape that a scan reads, and finite numbers."""
    quantizer, codewords = index.pq, faiss.vector_to_array(index.pq.centroids)
    is_shaped = quantizer.nbits == 4 and quantizer.M * quantizer.dsub == quantizer.d == index.d > 0
    if not is_shaped or len(codewords) != _CODEWORDS * index.d:
        raise FileProblem("is not an index of this kind")
    if index.bbs not in BLOCK_SIZES or index.M2 != quantizer.M + quantizer.M % 2:
        raise FileProblem("is not an index of this kind")
    if not np.isfinite(codewords).all():
        raise FileProblem("has codewords that are not finite numbers")


def _check_packed(index: Any, size: int) -> None:
    """Raise FileProblem unless an index of `size` serialized bytes holds a code for each row.

    A scan reads what the sizes of lists promise, and nothing else says how many bytes there are.
    """
    lists, block = faiss.downcast_InvertedLists(index.invlists), int(index.bbs)
    if not isinstance(lists, faiss.BlockInvertedLists) or lists.nlist != index.nlist:
        raise FileProblem("is not an index of this kind")
    sizes = np.array([lists.list_size(number) for number in range(index.nlist)], np.int64)
    empty = copy_without_rows(index)
    expected = len(faiss.serialize_index(empty)) + _ID_BYTES * int(sizes.sum()) + packed_bytes(index, sizes)
    if (lists.n_per_block, lists.block_size) != (block, block * int(index.M2) // 2) or size != expected:
        raise FileProblem("does not match the vectors of its segment")


def _open_lists(opened: Callable[[Any], Any], values: Sequence[NDArray[np.uint8]], rows: int) -> InvertedLists:
    if len(values) != _LISTS_VALUES:
        raise FileProblem("does not match the vectors of its segment")
    reader = faiss.VectorIOReader()
    faiss.copy_array_to_vector(values[0], reader.data)
    codebook = opened(reader)
    _check_centroids(codebook)
    if not has_centroids(codebook) or any(map(len, row_ids_by_list(codebook))):
        raise FileProblem("does not match the vectors of its segment")
    return from_buffers(codebook, values[2:], rows)


def _check_centroids(index: Any) -> None:
    """Raise FileProblem unless the index has valid centroids and a list for each."""
    coarse = faiss.downcast_index(index.quantizer)
    widths = {faiss.IndexScalarQuantizer: 2, faiss.IndexFlat: 4, faiss.IndexFlatIP: 4, faiss.IndexFlatL2: 4}
    width = widths.get(type(coarse))
    has_lists = index.nlist == coarse.ntotal and 0 < coarse.ntotal <= _MAX_LISTS
    if width is None or not has_lists or coarse.d != index.d:
        raise FileProblem("is not an index of this kind")
    if coarse.code_size != width * coarse.d or coarse.codes.size() != coarse.ntotal * coarse.code_size:
        raise FileProblem("is not an index of this kind")
    if not np.isfinite(centroids_of(index)).all():
        raise FileProblem("has centroids that are not finite numbers")


def _values_of(column: pa.Array) -> list[NDArray[np.uint8]]:
    """Views of the bytes of each value."""
    _, offsets, data = column.buffers()
    if len(column) == 0:
        return []
    ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1].tolist()
    stored = np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8)
    return [stored[start:end] for start, end in itertools.pairwise(ends)]


def trained_rows_of(batch: pa.RecordBatch) -> int:
    """The number of rows that the codebook of an index file was trained on; 0 if the file does not say."""
    return int((batch.schema.metadata or {}).get(b"trained_rows", b"0"))
