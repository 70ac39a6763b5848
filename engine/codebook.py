"""What a scan learns: a product quantiser and, for many rows, centroids; and the encoding of rows by both.

A codebook is a FAISS index without rows. With centroids it has a list for each: for the rows that are nearest to it,
and for *spilled* copies. Every row stands in a second list as well, one whose centroid errs in another direction than
the first (SOAR: Sun et al., "SOAR: Improved Indexing for Approximate Nearest Neighbor Search", 2023), so that a query
that passes by one is likely to come by the other. The centroids are what the index has in place of its coarse
quantiser, which nothing here asks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from aidre.engine.kernel import all_threads, measure_of, single_thread
from aidre.engine.lists import Lists, packed
from aidre.engine.model import EmbeddingSpace

TRAIN_ROWS = 20_000
LIST_ROWS = 1 << 17
"""The most rows of an index that has one list; more are several indexes."""

LISTED_ROWS = 500_000
"""Where no segment has so many rows there are no lists: to go over all of fewer takes little longer than to go over
the nearest lists, of which in fewer rows a larger share is needed."""

MOST_LISTS = 4096
ROWS_A_LIST = 64
"""A segment of fewer rows for each list is one list."""

LEARNED_ROWS = 32
"""A list learns from so many; twice as many, or more rounds of k-means, leave out no more rows."""

_AIMED_ROWS = 512

_BLOCK = 1 << 15
_BLOCK_CODES = 128
"""Rows whose codes stand together: the most that FAISS has a kernel for, some 15 % faster than its default of 32."""

_ITERATIONS = 5
_CODE_ITERATIONS = 10
"""Of the many small clusterings of a product quantiser; with FAISS' 25 no more neighbours are found."""

_SIMILARITIES = 1 << 20
_SEED = 20_260_102


def code_sizes(dimensions: int) -> list[int]:
    """The numbers of 4-bit codes a vector that calibration tries, cheapest first: d/4, d/2, d."""
    return sorted({-(-dimensions // step) for step in (4, 2, 1)})


def lists_for(rows: int) -> int:
    """How many centroids a space should have whose largest segment has so many rows; 0: none."""
    return min(1 << round(math.log2(rows / _AIMED_ROWS)), MOST_LISTS) if rows >= LISTED_ROWS else 0


def blocks_of(codes: NDArray[Any]) -> Iterator[NDArray[Any]]:
    for start in range(0, len(codes), _BLOCK):
        yield codes[start : start + _BLOCK]


def train(space: EmbeddingSpace, sample: NDArray[Any], code_size: int) -> Any:
    """A codebook without centroids, trained on stored rows (n, d) of the space."""
    padded = code_size * -(-space.dimensions // code_size)
    index = faiss.index_factory(padded, f"IVF1,PQ{code_size}x4fs_{_BLOCK_CODES}", measure_of(space).metric)
    index.pq.cp.niter = _CODE_ITERATIONS
    # Many tiny clusterings: with two threads most of the time goes into waiting for each other.
    single_thread()
    index.train(_padded(sample, padded))
    return index


def learned(space: EmbeddingSpace, sample: NDArray[Any], lists: int) -> NDArray[np.float32]:
    """Centroids (n, d) learned from stored rows of the space, as precise as they are kept."""
    return _centroids(sample[: lists * LEARNED_ROWS].astype(np.float32), lists).astype(_kept(space)).astype(np.float32)


def _kept(space: EmbeddingSpace) -> type[np.floating[Any]]:
    return np.float16 if space.distance == "cosine" else np.float32  # cosine: no component is beyond 1


def with_centroids(space: EmbeddingSpace, codebook: Any, centroids: NDArray[np.float32]) -> Any:
    """The same codes with given centroids (n, d), padded or not."""
    if _kept(space) is np.float16:
        coarse = faiss.IndexScalarQuantizer(codebook.d, faiss.ScalarQuantizer.QT_fp16, codebook.metric_type)
    else:
        coarse = faiss.IndexFlat(codebook.d, codebook.metric_type)
    coarse.is_trained = True
    coarse.add(_padded(centroids, codebook.d))
    return emptied(codebook, len(centroids), coarse)


def one_list(codebook: Any) -> Any:
    """The same codes without centroids, such that both can be gone over together."""
    return emptied(codebook, 1)


def is_listed(index: Any) -> bool:
    return bool(index.nlist > 1)


def centroids_of(index: Any) -> NDArray[np.float32]:
    """The centroids (n, d) of a codebook or of an index made with it, copied; n is 0 where it has none.

    An index that was opened has them where it was read from: afterwards only the copy may be used.
    """
    if not is_listed(index):
        return np.empty((0, index.d), np.float32)
    coarse = faiss.downcast_index(index.quantizer)
    stored = faiss.rev_swig_ptr(coarse.codes.data(), coarse.codes.size()).tobytes()
    dtype = np.float16 if coarse.code_size < 4 * index.d else np.float32
    return np.frombuffer(stored, dtype).reshape(-1, index.d).astype(np.float32)


def emptied(index: Any, lists: int, coarse: Any = None) -> Any:
    """An index without rows that has the product quantiser of another and so many lists."""
    if coarse is None:
        coarse = faiss.IndexFlat(index.d, index.metric_type)
        coarse.add(np.zeros((1, index.d), np.float32))
        coarse.ntotal = lists  # more than there are vectors: nobody looks for the nearest one
    made = faiss.IndexIVFPQFastScan(coarse, index.d, lists, index.pq.M, index.pq.nbits, index.metric_type, index.bbs)
    made.own_fields = True
    coarse.this.disown()
    made.by_residual = False
    made.pq = index.pq
    made.is_trained = True
    return made


def fill(codebook: Any, blocks: Iterable[NDArray[Any]]) -> list[Any]:
    """Stored rows, in order, by a codebook: indexes of at most LIST_ROWS each, or one Lists where it has centroids."""
    all_threads()
    if is_listed(codebook):
        return [_listed(codebook, blocks)]
    filled: list[Any] = []
    for block in blocks:
        if not filled or filled[-1].ntotal + len(block) > LIST_ROWS:
            filled.append(faiss.clone_index(codebook))
        filled[-1].add(_padded(block, codebook.d))
    return filled or [faiss.clone_index(codebook)]


def fitting(codebook: Any, rows: int) -> Any:
    """The codebook as a segment of so many rows is filled by it: too few for its lists are one list."""
    return one_list(codebook) if is_listed(codebook) and not is_for(codebook.nlist, rows) else codebook


def is_for(lists: int, rows: int) -> bool:
    """Whether a segment of so many rows is divided into so many lists."""
    return rows >= ROWS_A_LIST * lists


def _listed(codebook: Any, blocks: Iterable[NDArray[Any]]) -> Lists:
    centroids = centroids_of(codebook)
    codes, chosen = [np.empty((0, codebook.pq.code_size), np.uint8)], [np.empty((2, 0), np.int64)]
    for block in blocks:
        rows = _padded(block, codebook.d)
        codes.append(codebook.pq.compute_codes(rows))
        chosen.append(np.stack(assigned(centroids, rows)))
    return packed(without_rows(codebook), np.concatenate(codes), np.concatenate(chosen, axis=1))


def without_rows(index: Any) -> Any:
    """An index with centroids, emptied; what it holds is its own, wherever the first was read from."""
    coarse = faiss.clone_index(faiss.downcast_index(index.quantizer))
    copied = emptied(index, coarse.ntotal, coarse)
    return faiss.deserialize_index(faiss.serialize_index(copied))


def assigned(centroids: NDArray[np.float32], rows: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The nearest centroid of each row, and the one that its copy goes to.

    That one minimises |x - c|^2 + (r . (x - c))^2 / |r|^2, r being what the nearest leaves of x.
    """
    halves = np.einsum("ij,ij->i", centroids, centroids) / np.float32(2)
    table = np.concatenate([-centroids, halves[:, None]], axis=1).T
    products = centroids @ centroids.T - halves
    step = max(1, _SIMILARITIES // len(centroids))
    found = np.empty((2, len(rows)), np.int64)
    room = np.empty((2, min(step, len(rows)), len(centroids)), np.float32)
    for start in range(0, len(rows), step):
        block = np.pad(rows[start : start + step], ((0, 0), (0, 1)), constant_values=1)
        every, (distances, lost) = np.arange(len(block)), room[:, : len(block)]
        np.matmul(block, table, out=distances)  # half of |x - c|^2, but for |x|^2, as is all that follows
        first = distances.argmin(axis=1)
        lengths = np.einsum("ij,ij->i", block[:, :-1], block[:, :-1])
        left = lengths / 2 + distances[every, first]
        # r . (x - c) without a second matrix product, then its square
        np.take(products, first, axis=0, out=lost, mode="clip")
        lost += distances
        lost += (lengths - halves[first] + distances[every, first])[:, None]
        lost *= lost
        lost *= np.divide(0.25, left, out=np.zeros_like(left), where=left > 5e-7 * lengths)[:, None]
        lost += distances
        lost[every, first] = np.inf
        found[0, start : start + step] = first
        found[1, start : start + step] = lost.argmin(axis=1)
    return found[0], found[1]


def _centroids(rows: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """k-means by matrix products, which numpy makes several times faster than FAISS' own BLAS."""
    rng = np.random.default_rng(_SEED)
    centroids = rows[np.sort(rng.choice(len(rows), count, replace=len(rows) < count))]
    for _ in range(_ITERATIONS):
        squares = np.einsum("ij,ij->i", centroids, centroids)
        step = max(1, _SIMILARITIES // count)
        chosen = np.concatenate(
            [
                (rows[start : start + step] @ (centroids.T * np.float32(-2)) + squares).argmin(axis=1)
                for start in range(0, len(rows), step)
            ]
        )
        order = np.argsort(chosen, kind="stable")
        found, starts = np.unique(chosen[order], return_index=True)
        sizes = np.diff(np.append(starts, len(rows)))
        # A centroid that nothing is nearest to begins again at any row.
        centroids = rows[rng.choice(len(rows), count)]
        centroids[found] = np.add.reduceat(rows[order], starts) / sizes[:, None].astype(np.float32)
    return centroids


def _padded(rows: NDArray[Any], dimensions: int) -> NDArray[np.float32]:
    result = np.zeros((len(rows), dimensions), dtype=np.float32)
    result[:, : rows.shape[1]] = rows
    return result
