"""The codebook of a space: a product quantizer and, for large segments, centroids; and the encoding of rows by both.

A codebook is a FAISS index without rows (André et al., "Quicker ADC", 2018: 4-bit fast scan), and the rotation of the
rows that it quantizes, if there is one (see `transform`). With centroids, which are rotated with the rows, it has one
inverted list for each: for the rows that are nearest to it, and for *spilled* copies. Every row has a copy in a second
list, whose centroid errs in another direction than the first (SOAR: Sun et al., "SOAR: Improved Indexing for
Approximate Nearest Neighbor Search", 2023), so that a query that misses one list is likely to probe the other. The
centroids are stored as the coarse quantizer of the FAISS index, which is never searched: see `CoarseQuantizer`.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, overload

import faiss
import numpy as np
from numpy.typing import NDArray

from aidre.engine.index.vectors.distance import ALL_THREADS, metric_of, use_all_threads, use_one_thread
from aidre.engine.index.vectors.inverted_lists import ZERO_STEPS, InvertedLists, in_steps, pack_lists
from aidre.engine.index.vectors.transform import Transform
from aidre.engine.model import EmbeddingSpace
from aidre.engine.native import native

if TYPE_CHECKING:
    from aidre.engine.native import kernel

MAX_TRAINING_ROWS = 20_000
"""Rows that a product quantizer is trained on at most."""

MAX_FAISS_INDEX_ROWS = 1 << 17
"""Rows of one FAISS index without centroids; a larger segment has several, so that two threads can share a scan."""

MIN_LISTED_ROWS = 50_000
"""Rows that the largest segment needs for its space to get centroids. Scanning fewer rows takes little longer than
probing, and in fewer rows a larger share of the lists has to be probed."""

MAX_LISTS = 4096
MIN_ROWS_PER_LIST = 64
"""Rows; a segment with fewer for each list is stored without lists and scanned whole."""

TRAINING_ROWS_PER_LIST = 32
"""Rows that train one centroid; after twice as many, or more rounds of k-means, probing misses no fewer neighbours."""

_TARGET_ROWS_PER_LIST = 128
_BLOCK_ROWS = 1 << 15
"""Rows that are converted and encoded at once, which bounds the temporary memory."""

_FAST_SCAN_BLOCK = 128
"""Rows in one packed block: the most that FAISS has a kernel for, about 15 % faster than its default of 32."""

_CENTROID_ITERATIONS = 5
"""Rounds of k-means."""

_CODE_ITERATIONS = 10
"""Rounds of k-means for each of a product quantizer's many small clusterings; FAISS's 25 find no more neighbours."""

_BLOCK_CENTROIDS, _PADDED_CENTROIDS, _BYTES_TOGETHER = 16, 32, 4
"""The order of centroids in bytes for the kernel: blocks of 16, two of which it multiplies at once, with four bytes of
each centroid side by side."""

_ROWS_OF_A_THREAD = 256
"""Rows that are worth a thread to choose their lists."""

_DISTANCE_CELLS = 1 << 21
"""Without the kernel: cells of a table of rows and centroids that is computed at once, which bounds the memory."""

_MIN_RESIDUAL = np.float32(5e-7)
"""Relative to the square of a row; less is rounding."""

_ARRAY_FACTOR, _ARRAY_SLACK = 4, 1 << 20
"""How many bytes FAISS may take for an array, by the bytes that it reads: some hold more than what was written."""

TABLE_FACTOR = 8
"""By how much larger the bound of an index without rows is: FAISS compares with it the size of a table of residuals,
which it does not make, of 16 numbers for each centroid and code; a centroid is written in 2 bytes a dimension."""

_bounding = threading.Lock()

_SEED = 20_260_102


@dataclass(frozen=True, slots=True)
class Codebook:
    """A FAISS index without rows, and the transform of the rows before they are quantized."""

    index: Any
    transform: Transform | None = None


@dataclass(frozen=True, slots=True)
class Quantized(Sequence[Any]):
    """Rows quantized by one codebook: FAISS indexes of at most MAX_FAISS_INDEX_ROWS rows each, or one InvertedLists."""

    parts: tuple[Any, ...]
    transform: Transform | None = None

    @overload
    def __getitem__(self, number: int) -> Any: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Any]: ...
    def __getitem__(self, number: int | slice) -> Any:
        return self.parts[number]

    def __len__(self) -> int:
        return len(self.parts)


def code_sizes(dimensions: int) -> list[int]:
    """The code sizes (4-bit codes a vector) that calibration tries, cheapest first: d/6, d/4, d/2 and d."""
    return sorted({-(-dimensions // step) for step in (6, 4, 2, 1)})


def rotated_dimensions(dimensions: int, code_size: int) -> int:
    """The dimensions of rotated rows in codes: about two thirds of theirs at least, which finds as many neighbours as
    all do.

    A code has 1, 2, 4 or 8 dimensions ...: FAISS encodes these up to three times as fast as 3 or 6.
    """
    least = -(-2 * dimensions // 3)
    return code_size << max(0, math.ceil(math.log2(least / code_size)))


def nlist_for(rows: int) -> int:
    """The number of centroids for a space with a largest segment of `rows` rows; 0: none."""
    return min(1 << round(math.log2(rows / _TARGET_ROWS_PER_LIST)), MAX_LISTS) if rows >= MIN_LISTED_ROWS else 0


def uses_lists(nlist: int, rows: int) -> bool:
    """Whether a segment of `rows` rows is large enough to be divided into `nlist` lists."""
    return rows >= MIN_ROWS_PER_LIST * nlist


def row_blocks(codes: NDArray[Any]) -> Iterator[NDArray[Any]]:
    for start in range(0, len(codes), _BLOCK_ROWS):
        yield codes[start : start + _BLOCK_ROWS]


# -- codebooks ---------------------------------------------------------------------------------------------


def train_codebook(
    space: EmbeddingSpace,
    sample: NDArray[Any],
    code_size: int,
    transform: Transform | None = None,
    *,
    iterations: int = _CODE_ITERATIONS,
) -> Codebook:
    """A codebook without centroids, trained on stored rows (n, d) of the space."""
    dimensions = code_size * -(-space.dimensions // code_size) if transform is None else len(transform.rotation)
    index = faiss.index_factory(dimensions, f"IVF1,PQ{code_size}x4fs_{_FAST_SCAN_BLOCK}", metric_of(space).faiss_type)
    index.pq.cp.niter = iterations
    # The clusterings are many and tiny: two threads would spend most of the time waiting for each other.
    use_one_thread()
    codebook = Codebook(index, transform)
    index.train(_prepared(codebook, sample))
    return codebook


def train_centroids(space: EmbeddingSpace, sample: NDArray[Any], nlist: int) -> NDArray[np.float32]:
    """Centroids (nlist, d) trained on stored rows of the space, rounded to the precision in which they are stored."""
    centroids = _kmeans(sample[: nlist * TRAINING_ROWS_PER_LIST].astype(np.float32), nlist)
    return centroids.astype(_centroid_dtype(space)).astype(np.float32)


def _centroid_dtype(space: EmbeddingSpace) -> type[np.floating[Any]]:
    return np.float16 if space.distance == "cosine" else np.float32  # cosine: no component exceeds 1


def with_centroids(space: EmbeddingSpace, codebook: Codebook, centroids: NDArray[np.float32]) -> Codebook:
    """A codebook with the same codes and the centroids (nlist, d) of rows, which are prepared as the rows are."""
    return with_prepared_centroids(
        space, codebook, prepared_centroids(space, codebook.index.d, centroids, codebook.transform)
    )


def prepared_centroids(
    space: EmbeddingSpace, codes_dimensions: int, centroids: NDArray[np.float32], transform: Transform | None
) -> NDArray[np.float32]:
    """Centroids (nlist, d) of rows as the rows are quantized (nlist, d_codes), to the precision that is stored."""
    prepared = _pad(centroids, codes_dimensions) if transform is None else transform.apply(centroids)
    return prepared.astype(_centroid_dtype(space)).astype(np.float32)


def with_prepared_centroids(space: EmbeddingSpace, codebook: Codebook, centroids: NDArray[np.float32]) -> Codebook:
    """A codebook with the same codes and the centroids (nlist, d_codes)."""
    index = codebook.index
    if _centroid_dtype(space) is np.float16:
        coarse = faiss.IndexScalarQuantizer(index.d, faiss.ScalarQuantizer.QT_fp16, index.metric_type)
    else:
        coarse = faiss.IndexFlat(index.d, index.metric_type)
    coarse.is_trained = True
    coarse.add(centroids)
    return replace(codebook, index=empty_index(index, len(centroids), coarse))


def without_centroids(codebook: Codebook) -> Codebook:
    """A codebook with the same codes and one list; segments of both can share one scan."""
    return replace(codebook, index=empty_index(codebook.index, 1))


def codebook_for(codebook: Codebook, rows: int) -> Codebook:
    """The codebook for a segment of `rows` rows: without centroids if these are too few for its lists."""
    index = codebook.index
    is_too_small = has_centroids(index) and not uses_lists(index.nlist, rows)
    return without_centroids(codebook) if is_too_small else codebook


def has_centroids(index: Any) -> bool:
    return bool(index.nlist > 1)


def centroids_of(index: Any) -> NDArray[np.float32]:
    """A copy of the centroids (nlist, d) of a codebook, or of an index made with it; nlist is 0 if it has none.

    The centroids of an opened index lie in the memory that it was read from: use only the copy once that is freed.
    """
    if not has_centroids(index):
        return np.empty((0, index.d), np.float32)
    coarse = faiss.downcast_index(index.quantizer)
    stored = faiss.rev_swig_ptr(coarse.codes.data(), coarse.codes.size()).tobytes()
    dtype = np.float16 if coarse.code_size < 4 * index.d else np.float32
    return np.frombuffer(stored, dtype).reshape(-1, index.d).astype(np.float32)


def empty_index(index: Any, nlist: int, coarse: Any = None, metric_type: int | None = None) -> Any:
    """An index without rows that has another index's product quantizer and `nlist` lists, and its metric if none is
    given."""
    if metric_type is None:
        metric_type = index.metric_type
    if coarse is None:
        coarse = faiss.IndexFlat(index.d, metric_type)
        coarse.add(np.zeros((1, index.d), np.float32))
        coarse.ntotal = nlist  # more than it holds, but it is never searched
    empty = faiss.IndexIVFPQFastScan(coarse, index.d, nlist, index.pq.M, index.pq.nbits, metric_type, index.bbs)
    empty.own_fields = True
    coarse.this.disown()
    empty.by_residual = False
    empty.pq = index.pq
    empty.is_trained = True
    return empty


def copy_without_rows(index: Any) -> Any:
    """A copy of an index with centroids, without its rows; it owns its memory, wherever the index was read from."""
    coarse = faiss.clone_index(faiss.downcast_index(index.quantizer))
    empty = empty_index(index, coarse.ntotal, coarse)
    return deserialize(faiss.serialize_index(empty))


def deserialize(serialized: NDArray[np.uint8]) -> Any:
    with bounded_arrays(TABLE_FACTOR * serialized.nbytes):
        return faiss.deserialize_index(serialized)


@contextmanager
def bounded_arrays(size: int) -> Iterator[None]:
    """While FAISS reads so many bytes: let it make no array that is much larger.

    It makes an array before it reads the numbers, so that a length from elsewhere could take all memory. The bound is
    the process's, so that one reads at a time, and what else uses FAISS has its own bound again afterwards.
    """
    with _bounding:
        former = faiss.get_deserialization_vector_byte_limit()
        faiss.set_deserialization_vector_byte_limit(_ARRAY_FACTOR * size + _ARRAY_SLACK)
        try:
            yield
        finally:
            faiss.set_deserialization_vector_byte_limit(former)


# -- encoding rows -----------------------------------------------------------------------------------------


def quantize_rows(
    codebook: Codebook, blocks: Iterable[NDArray[Any]], codes: NDArray[np.uint8] | None = None
) -> Quantized:
    """The codes of stored rows, given in order as blocks (n, d); InvertedLists if the codebook has centroids.

    `codes` (rows, bytes) are those of all rows by the same product quantizer, if they are known: lists take them over.
    """
    use_all_threads()
    index = codebook.index
    if has_centroids(index):
        return Quantized((_quantize_into_lists(codebook, blocks, codes),), codebook.transform)
    indexes: list[Any] = []
    for block in blocks:
        if not indexes or indexes[-1].ntotal + len(block) > MAX_FAISS_INDEX_ROWS:
            indexes.append(faiss.clone_index(index))
        indexes[-1].add(_prepared(codebook, block))
    return Quantized(tuple(indexes) or (faiss.clone_index(index),), codebook.transform)


def _quantize_into_lists(
    codebook: Codebook, blocks: Iterable[NDArray[Any]], known: NDArray[np.uint8] | None
) -> InvertedLists:
    index = codebook.index
    lists = _ListChooser(centroids_of(index))
    no_codes = np.empty((0, index.pq.code_size), np.uint8)

    def quantized(rows: NDArray[Any]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        use_one_thread()  # this one: the other has rows of its own
        prepared = _prepared(codebook, rows)
        return no_codes if known is not None else index.pq.compute_codes(prepared), lists.of(prepared)

    codes, assignments = [no_codes], [np.empty((2, 0), np.int64)]
    with ThreadPoolExecutor(ALL_THREADS) as pool:
        for block in blocks:
            for own_codes, own_lists in pool.map(quantized, _parts(block)):
                codes.append(own_codes)
                assignments.append(own_lists)
    all_codes = np.concatenate(codes) if known is None else known
    return pack_lists(copy_without_rows(index), all_codes, np.concatenate(assignments, axis=1))


def _parts(rows: NDArray[Any]) -> list[NDArray[Any]]:
    """The rows in one part for each thread, or in fewer if they are few."""
    return np.array_split(rows, max(1, min(ALL_THREADS, len(rows) // _ROWS_OF_A_THREAD)))


def _prepared(codebook: Codebook, rows: NDArray[Any]) -> NDArray[np.float32]:
    """Stored rows (n, d) as the codebook quantizes them (n, d_codes)."""
    if codebook.transform is not None:
        return codebook.transform.apply(rows.astype(np.float32))
    return _pad(rows, codebook.index.d)


def assign_lists(
    centroids: NDArray[np.float32], rows: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The nearest centroid of each row, and the centroid of the list that gets its copy: see `_ListChooser`."""
    nearest, copies = _in_threads(_ListChooser(centroids), rows)
    return nearest, copies


def _in_threads(lists: _ListChooser, rows: NDArray[np.float32]) -> NDArray[np.int64]:
    """`lists.of` the rows, by all threads."""
    with ThreadPoolExecutor(ALL_THREADS) as pool:
        return np.concatenate(list(pool.map(lists.of, _parts(rows))), axis=1)


class _ListChooser:
    """Chooses the lists of rows: the nearest centroid, and unless `copies` is false the one that gets the copy (SOAR).

    The second minimises |x - c|^2 + (r . (x - c))^2 / |r|^2, where r is the residual x - c of the nearest centroid.
    Distances are halved and lack the |x|^2 that all centroids share; one matrix product serves both terms.
    """

    def __init__(self, centroids: NDArray[np.float32], copies: bool = True) -> None:
        self._centroids = np.ascontiguousarray(centroids, np.float32)
        self._half_squares = np.einsum("ij,ij->i", centroids, centroids) / np.float32(2)
        self._products = centroids @ centroids.T - self._half_squares if copies else np.empty((0, 0), np.float32)
        self._native = None if native is None else self._for_the_kernel()

    def _for_the_kernel(self) -> kernel.Lists:
        mean, codes, squares, step = in_steps(self._centroids)
        padding = -len(codes) % _PADDED_CENTROIDS
        codes = np.pad(codes, ((0, padding), (0, 0)), constant_values=ZERO_STEPS)
        blocks = codes.reshape(-1, _BLOCK_CENTROIDS, codes.shape[1] // _BYTES_TOGETHER, _BYTES_TOGETHER)
        half_squares = np.pad(self._half_squares, (0, padding), constant_values=np.inf)
        lists: kernel.Lists = native.Lists(
            self._centroids,
            np.ascontiguousarray(blocks.transpose(0, 2, 1, 3)),
            mean,
            half_squares,
            self._products,
            step,
            float(squares.mean()),
        )
        return lists

    def of(self, rows: NDArray[np.float32]) -> NDArray[np.int64]:
        """The two lists of each row (2, n), or the nearest (1, n)."""
        if self._native is not None:
            rows = np.ascontiguousarray(rows)
            return np.frombuffer(self._native.choose(rows), np.int64).reshape(-1, len(rows))
        count = len(self._half_squares)
        step = max(1, _DISTANCE_CELLS // count)
        assigned = []
        for start in range(0, len(rows), step):
            block = rows[start : start + step]
            distances = self._half_squares - block @ self._centroids.T
            squares = np.einsum("ij,ij->i", block, block)
            assigned.append(_choose_lists(distances, self._products, self._half_squares, squares))
        return np.concatenate(assigned, axis=1)


def _choose_lists(
    distances: NDArray[np.float32],
    products: NDArray[np.float32],
    half_squares: NDArray[np.float32],
    squares: NDArray[np.float32],
) -> NDArray[np.int64]:
    """The lists of rows, of which the second follows from `products` (centroids, centroids) if these are there."""
    nearest: NDArray[np.int64] = distances.argmin(axis=1)
    if not len(products):
        return nearest[None]
    every = np.arange(len(distances))
    residual = squares / 2 + distances[every, nearest]  # |r|^2 / 2
    # r . (x - c) for all c, then its square over |r|^2
    loss = products[nearest]
    loss += distances
    loss += (squares - half_squares[nearest] + distances[every, nearest])[:, None]
    loss *= loss
    loss *= np.divide(0.25, residual, out=np.zeros_like(residual), where=residual > _MIN_RESIDUAL * squares)[:, None]
    loss += distances
    loss[every, nearest] = np.inf
    return np.stack([nearest, loss.argmin(axis=1)])


def _kmeans(rows: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """k-means by the products of `_ListChooser`, which are several times faster than those of FAISS's own BLAS."""
    rng = np.random.default_rng(_SEED)
    centroids = rows[np.sort(rng.choice(len(rows), count, replace=len(rows) < count))]
    for _ in range(_CENTROID_ITERATIONS):
        nearest = _in_threads(_ListChooser(centroids, copies=False), rows)[0]
        order, ends = np.argsort(nearest, kind="stable"), np.cumsum(np.bincount(nearest, minlength=count)).tolist()
        clusters = [order[start:end] for start, end in pairwise([0, *ends])]
        # A centroid that is nearest to no row starts again at a random row.
        centroids = rows[rng.choice(len(rows), count)]
        for own, centroid in zip(clusters, centroids, strict=True):
            if len(own):  # one by one: their rows stay in the cache
                rows[own].mean(axis=0, out=centroid)
    return centroids


def _pad(rows: NDArray[Any], dimensions: int) -> NDArray[np.float32]:
    """Rows as float32, with zeros up to the dimensions of a codebook."""
    padded = np.zeros((len(rows), dimensions), dtype=np.float32)
    padded[:, : rows.shape[1]] = rows
    return padded
