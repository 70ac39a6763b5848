"""Inverted lists: the rows of a segment grouped by nearest centroid, and the quantizer that picks the lists to probe.

Every row has a copy in a second, *spilled* list (see `quantizer.assign_lists`). The codes of all rows are stored once
more in row order, so a full scan reads no list and costs what it costs without centroids.

The codes of a list are contiguous, first those of its rows, then those of its copies: at the start of a list the
processor waits for memory longer than it takes to scan a hundred rows, so a probe should cost one such start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import faiss
import numpy as np
from numpy.typing import NDArray

from aidre.engine.index.vectors.encoding import is_unit
from aidre.engine.index.vectors.transform import Transform
from aidre.engine.model import EmbeddingSpace
from aidre.engine.native import native
from aidre.engine.storage import FileProblem

if TYPE_CHECKING:
    from aidre.engine.native import kernel

FULL_LIST_ROWS = 1 << 17
"""Rows; a full scan divides the segment into lists of this size, so that two threads can share it."""

ALIGNMENT_BYTES = 64
"""Codes begin at multiples of it: FAISS needs 32 bytes, a cache line has 64."""

BLOCK_SIZES = (32, 64, 128)
"""The numbers of rows in one packed block for which FAISS has a kernel."""

_PACKED_ROWS = 1 << 15
"""Rows packed at once, which bounds the temporary memory."""

_MAX_STEPS, ZERO_STEPS, _BYTES_AT_ONCE = 127, 128, 64
"""Centroids in bytes: the largest magnitude, the byte of 0, and the multiple to which they are padded."""

_UNASSIGNED = np.uint16((1 << 16) - 1)
_REFERENCE_CENTROIDS = 4
"""Nearest centroids from the mean of whose scores gaps are measured."""

_TINY = 1e-30
"""Keeps a division by the norm of a zero vector finite."""


def in_steps(
    centroids: NDArray[np.float32],
) -> tuple[NDArray[np.float32], NDArray[np.uint8], NDArray[np.float32], float]:
    """Centroids (n, d) in bytes, as the kernel compares them.

    Their mean (d,), which is taken off; the rest in steps plus 128 (n, bytes), padded with 128; its squares (n,); and
    the step.
    """
    mean = centroids.mean(axis=0)
    centred = centroids - mean
    step = float(np.abs(centred).max()) / _MAX_STEPS or 1.0
    steps = np.pad(np.rint(centred / np.float32(step)), ((0, 0), (0, -centred.shape[1] % _BYTES_AT_ONCE)))
    return mean, (steps + ZERO_STEPS).astype(np.uint8), np.einsum("ij,ij->i", centred, centred), step


class CoarseQuantizer:
    """Ranks the centroids (nlist, d_codes) of a space, given as its rows are quantized, by their distance to a query.

    The kernel has them in bytes: their mean is taken off, which all of them share.
    """

    def __init__(
        self, space: EmbeddingSpace, centroids: NDArray[np.float32], transform: Transform | None = None
    ) -> None:
        if is_unit(space):  # rows are unit vectors: the direction of a centroid says most
            centroids = centroids / np.maximum(np.linalg.norm(centroids, axis=1, keepdims=True), _TINY)
        self._centroids = np.ascontiguousarray(centroids, np.float32)
        self._transform = transform
        self._is_l2 = space.distance == "euclidean"
        self._gaps_scale_with_query = space.distance == "dot"

    def __len__(self) -> int:
        return len(self._centroids)

    @cached_property
    def native(self) -> kernel.Centroids:
        """The same for the kernel."""
        mean, steps, squares, step = in_steps(self._centroids)
        centroids: kernel.Centroids = native.Centroids(
            steps, mean, squares, step, self._is_l2, self._gaps_scale_with_query
        )
        return centroids

    def probe(self, query: NDArray[np.float32], nprobe: int, max_gap: float = 0.0) -> NDArray[np.int64]:
        """The nearest `nprobe` centroids at most, nearest first, none beyond `max_gap` (0: no bound); see `rank`."""
        centroids, gaps = self.rank(query, nprobe)
        return centroids[: int(np.searchsorted(gaps, max_gap, side="right"))] if max_gap else centroids

    def rank(self, query: NDArray[np.float32], nprobe: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The nearest `nprobe` centroids to a query (1, d), nearest first, and their gaps.

        A gap is the mean score of the nearest four centroids minus the score of this one, for inner products as if the
        query had length 1. Measured from the nearest alone, which may be near by chance, as that of a row that trained
        it is, the same recall takes a quarter more entries.
        """
        if self._transform is not None:
            query = self._transform.apply(query)
        point = np.pad(query[0], (0, self._centroids.shape[1] - query.shape[1]))
        if native is not None:
            numbers, gaps = self.native.rank(point)
            return np.frombuffer(numbers, np.int64)[:nprobe], np.frombuffer(gaps, np.float64)[:nprobe]
        if self._is_l2:
            scores = -np.linalg.norm(self._centroids - point, axis=1).astype(np.float64)
        else:
            scores = (self._centroids @ point).astype(np.float64)
        nearest = np.argsort(-scores, kind="stable")
        gap_of_one = max(float(np.linalg.norm(point)), _TINY) if self._gaps_scale_with_query else 1.0
        reference = scores[nearest[:_REFERENCE_CENTROIDS]].mean()
        return nearest[:nprobe], (reference - scores[nearest[:nprobe]]) / gap_of_one


@dataclass(frozen=True)
class InvertedLists:
    """The rows of a segment in `nlist` lists, each row in two of them.

    `codebook` is a FAISS index without rows that has one list for each centroid. `list_sizes` (2, nlist) counts the
    rows of each list and the copies behind them. `rows` holds the row of each entry, list after list. `codes` holds the
    codes of the entries, packed in blocks as FAISS scans them, each list padded to whole blocks; `all_codes` holds the
    packed codes of all rows in row order.
    """

    codebook: Any
    list_sizes: NDArray[np.int32]
    rows: NDArray[np.int32]
    codes: NDArray[np.uint8]
    all_codes: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.rows) // 2

    @cached_property
    def totals(self) -> NDArray[np.int64]:
        """Entries of each list, copies included."""
        totals: NDArray[np.int64] = self.list_sizes.sum(axis=0, dtype=np.int64)
        return totals

    @cached_property
    def row_ends(self) -> NDArray[np.int64]:
        """The end of each list in `rows`."""
        return np.cumsum(self.totals)

    @cached_property
    def code_starts(self) -> NDArray[np.int64]:
        """The start of each list in `codes`, in entries with padding, and the end of the last list: (nlist + 1,)."""
        return np.concatenate([[0], np.cumsum(_padded_size(self.codebook, self.totals))])

    @cached_property
    def assignments(self) -> NDArray[np.uint16]:
        """The two lists of each row, that of its copy second: (2, rows). FileProblem if a row is not in both."""
        lists = np.repeat(np.arange(len(self.totals), dtype=np.uint16), self.totals)
        offsets = np.arange(len(self.rows)) - np.repeat(self.row_ends - self.totals, self.totals)
        is_copy = offsets >= np.repeat(self.list_sizes[0], self.totals)
        assigned = np.full((2, len(self)), _UNASSIGNED)
        for copy, entries in enumerate((~is_copy, is_copy)):
            rows = self.rows[entries]
            if len(rows) == len(self) > 0 and rows.min() >= 0 and rows.max() < len(self):
                assigned[copy, rows] = lists[entries]
        if assigned.max(initial=0) == _UNASSIGNED:
            raise FileProblem("does not match the vectors of its segment")
        return assigned

    def native_lists(self, column: int) -> list[tuple[Any, ...]]:
        """The lists of `FaissLists`, for the kernel."""
        width, full_starts = _code_bytes(self.codebook), np.arange(0, len(self), FULL_LIST_ROWS)
        codes, entries = self.code_starts[:-1] * width, self.row_ends - self.totals
        full_sizes = np.minimum(len(self) - full_starts, FULL_LIST_ROWS)
        own = self.list_sizes[0].astype(np.int64)
        return [
            (column, self.codes, self.rows, codes, entries, self.totals),
            (column, self.codes, self.rows, codes, entries, own),
            (column, self.all_codes, None, full_starts * width, full_starts, full_sizes),
        ]


def _padded_size(codebook: Any, sizes: Any) -> Any:
    """Entries of lists that are padded to whole blocks."""
    return -(-sizes // int(codebook.bbs)) * int(codebook.bbs)


def _code_bytes(codebook: Any) -> int:
    """Bytes of a packed code: 4 bits a component, of an even number of components."""
    return int(codebook.M2) // 2


# -- packing -----------------------------------------------------------------------------------------------


def pack_lists(codebook: Any, codes: NDArray[np.uint8], assignments: NDArray[np.int64]) -> InvertedLists:
    """Inverted lists of codes (n, bytes), given the two lists of each row (2, n)."""
    sizes = np.stack([np.bincount(lists, minlength=codebook.nlist) for lists in assignments]).astype(np.int32)
    rows = np.argsort(assignments.astype(np.uint16).reshape(-1), kind="stable").astype(np.int32) % max(1, len(codes))
    no_codes = np.empty(0, np.uint8)
    lists = InvertedLists(codebook, sizes, rows, no_codes, no_codes)
    padding_before = lists.code_starts[:-1] - lists.row_ends + lists.totals
    row_at = np.full(int(lists.code_starts[-1]), -1, np.int32)
    row_at[np.repeat(padding_before, lists.totals) + np.arange(len(rows))] = rows
    every_row = np.arange(_padded_size(codebook, len(codes)))
    every_row[len(codes) :] = -1
    return InvertedLists(
        codebook, sizes, rows, _pack_rows(codebook, codes, row_at), _pack_rows(codebook, codes, every_row)
    )


def _pack_rows(codebook: Any, codes: NDArray[np.uint8], row_at: NDArray[Any]) -> NDArray[np.uint8]:
    """The packed codes of a sequence of rows; row -1 is padding."""
    width = _code_bytes(codebook)
    packed = _aligned_buffer(len(row_at) * width)
    for start in range(0, len(row_at), _PACKED_ROWS):
        rows = row_at[start : start + _PACKED_ROWS]
        block = np.where(rows[:, None] < 0, np.uint8(0), codes[rows])
        _pack_codes(codebook, block, packed[start * width : (start + len(block)) * width])
    return packed


def _pack_codes(codebook: Any, codes: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
    """Pack codes by converting a plain FAISS index: FAISS offers packing only behind its own coarse quantizer."""
    plain = faiss.IndexIVFPQ(codebook.quantizer, codebook.d, 1, codebook.pq.M, codebook.pq.nbits)
    plain.by_residual, plain.pq, plain.is_trained, plain.ntotal = False, codebook.pq, True, len(codes)
    ids = np.zeros(len(codes), np.int64)
    plain.invlists.add_entries(0, len(codes), faiss.swig_ptr(ids), faiss.swig_ptr(codes))
    fast_scan = faiss.IndexIVFPQFastScan(plain, codebook.bbs)
    out[:] = faiss.rev_swig_ptr(fast_scan.invlists.get_codes(0), len(out))


def unpack_rows(codebook: Any, packed: NDArray[np.uint8], rows: int, order: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The codes (rows, bytes) of the first rows in packed blocks, as `pack_lists` takes them; `order` is that of
    `nibble_order`."""
    width, block = _code_bytes(codebook), int(codebook.bbs)
    codes = np.empty((rows, width), np.uint8)
    for start in range(0, rows, _PACKED_ROWS):
        count = min(_PACKED_ROWS, rows - start)
        blocks = packed[start * width : (start + _padded_size(codebook, count)) * width]
        nibbles = _nibbles(blocks).reshape(-1, 2 * block * width)[:, order]
        codes[start : start + count] = _bytes(nibbles).reshape(-1, width)[:count]
    return codes


def nibble_order(codebook: Any) -> NDArray[np.int64]:
    """The position in a packed block of each nibble of its codes, found by packing: FAISS's own unpacking is wrong."""
    block, width = int(codebook.bbs), _code_bytes(codebook)
    numbers, packed_numbers = np.arange(2 * block * width), np.zeros(2 * block * width, np.int64)
    for shift in range(0, 20, 4):
        packed = np.empty(block * width, np.uint8)
        _pack_codes(codebook, _bytes(numbers >> shift & 15).reshape(block, width), packed)
        packed_numbers |= _nibbles(packed).astype(np.int64) << shift
    return np.argsort(packed_numbers, kind="stable")


def _nibbles(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.stack([codes & 15, codes >> 4], axis=-1).reshape(-1)


def _bytes(nibbles: NDArray[Any]) -> NDArray[np.uint8]:
    pairs = nibbles.reshape(-1, 2).astype(np.uint8)
    return pairs[:, 0] | (pairs[:, 1] << np.uint8(4))


def _aligned_buffer(size: int) -> NDArray[np.uint8]:
    buffer = np.empty(size + ALIGNMENT_BYTES, np.uint8)
    start = -buffer.ctypes.data % ALIGNMENT_BYTES
    return buffer[start : start + size]


# -- as FAISS scans them -----------------------------------------------------------------------------------


class FaissLists:
    """Inverted lists as FAISS scans them, in memory of the InvertedLists, which the caller keeps alive.

    `lists` holds three ranges: the nlist lists, the same lists without their copies, and all rows in lists of
    FULL_LIST_ROWS. `sizes` counts the entries of each; `ids` are the arrays of row ids that they point to.
    """

    def __init__(self, inverted: InvertedLists) -> None:
        width = _code_bytes(inverted.codebook)
        full_starts = np.arange(0, len(inverted), FULL_LIST_ROWS)
        list_rows, all_rows = inverted.rows.astype(np.int64), np.arange(len(inverted))
        self.ids = [list_rows, all_rows]
        full_sizes = np.minimum(len(inverted) - full_starts, FULL_LIST_ROWS)
        self.sizes: NDArray[np.int64] = np.concatenate([inverted.totals, inverted.list_sizes[0], full_sizes])
        codes = inverted.code_starts[:-1] * width + inverted.codes.ctypes.data
        ids = (inverted.row_ends - inverted.totals) * 8 + list_rows.ctypes.data
        self.lists = _lists_at(
            self.sizes,
            np.concatenate([codes, codes, full_starts * width + inverted.all_codes.ctypes.data]),
            np.concatenate([ids, ids, full_starts * 8 + all_rows.ctypes.data]),
        )


def _lists_at(sizes: NDArray[np.int64], codes: NDArray[np.int64], ids: NDArray[np.int64]) -> Any:
    """FAISS inverted lists with codes and ids at given addresses, in memory that the caller keeps alive.

    These are FAISS's lists of a mapped file, where the ids of a list begin `capacity` * `code_size` bytes behind its
    codes. Here the file begins at address 0, where FAISS finds nothing to unmap, and a code has -1 bytes.
    """
    on_disk = faiss.OnDiskInvertedLists()
    on_disk.nlist, on_disk.code_size, on_disk.read_only = len(sizes), faiss.InvertedLists.INVALID_CODE_SIZE, True
    for size, code_address, id_address in zip(sizes.tolist(), codes.tolist(), ids.tolist(), strict=True):
        entry = faiss.OnDiskOneList()
        entry.size, entry.offset, entry.capacity = size, code_address, (code_address - id_address) % (1 << 64)
        on_disk.lists.push_back(entry)
    return on_disk


# -- on disk -----------------------------------------------------------------------------------------------


def to_buffers(lists: InvertedLists) -> list[NDArray[np.uint8]]:
    """The bytes of everything but the codebook. If the first buffer is stored aligned, so are the codes after it."""
    return [lists.all_codes, lists.codes, lists.rows.view(np.uint8), lists.list_sizes.reshape(-1).view(np.uint8)]


def from_buffers(codebook: Any, buffers: Sequence[NDArray[np.uint8]], rows: int) -> InvertedLists:
    """The lists of a segment of `rows` rows; aligned codes are not copied. FileProblem if the buffers do not fit."""
    all_codes, codes, row_bytes, size_bytes = buffers
    sized = len(size_bytes) == 8 * codebook.nlist and len(row_bytes) == 8 * rows
    if not sized or len(all_codes) != packed_bytes(codebook, rows):
        raise FileProblem("does not match the vectors of its segment")
    sizes = np.frombuffer(size_bytes.tobytes(), np.int32).reshape(2, -1)
    if sizes.min() < 0 or len(codes) != packed_bytes(codebook, sizes.sum(axis=0, dtype=np.int64)):
        raise FileProblem("does not match the vectors of its segment")
    is_aligned = row_bytes.ctypes.data % 4 == 0
    row_of_entry = row_bytes.view(np.int32) if is_aligned else np.frombuffer(row_bytes.tobytes(), np.int32)
    if sizes.sum(dtype=np.int64) != len(row_of_entry):
        raise FileProblem("does not match the vectors of its segment")
    lists = InvertedLists(codebook, sizes, row_of_entry, _aligned(codes), _aligned(all_codes))
    _ = lists.assignments  # FileProblem unless every row is in two lists
    return lists


def packed_bytes(codebook: Any, sizes: Any) -> int:
    """Bytes of the codes of lists of these sizes."""
    return int(np.sum(_padded_size(codebook, sizes))) * _code_bytes(codebook)


def _aligned(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    is_aligned = codes.ctypes.data % ALIGNMENT_BYTES == 0
    return codes if is_aligned else np.concatenate([codes], out=_aligned_buffer(len(codes)))
