"""Exact distances: the C kernel compares a query with stored vectors in the mapped column.

Without the kernel FAISS does, in the column or in a buffer into which rows are gathered. One process uses one of the
two, so the scores of exact, scanned and hybrid searches agree.

A FAISS view holds no reference to the memory behind it, and a write through a view of mapped memory kills the
process: the classes here keep the arrays alive and offer no writes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import faiss
import numpy as np
from numpy.typing import NDArray

from aidre.engine.model import EmbeddingSpace
from aidre.engine.native import native
from aidre.engine.storage import precision_of

if TYPE_CHECKING:
    from aidre.engine.native import kernel

Matches = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Rows (n,) and their scores (n,), best first."""

_FaissResult = tuple[NDArray[np.float32], NDArray[np.int64]]
"""Values (n,) and rows (n,) as FAISS returns them: best first, row -1 where there were too few rows."""

_TIE_SLACK = 16
"""Rows fetched beyond k, so that most ties with the k-th row need no second comparison."""

_MAX_BUFFERS = 4
"""Gather buffers that a thread keeps at most, one for each layout of rows (dimensions, type and metric)."""

_MAX_KEPT_BYTES = 1 << 23
"""Bytes; a larger gather buffer is freed after its search."""

_MEAN_BLOCKS, _BLOCK_ROWS = 32, 128
"""Runs of rows of a column whose mean stands for that of all; a run is read from the disk at once."""

ALL_THREADS = faiss.omp_get_max_threads()
"""As many as the process may use cores, or as OMP_NUM_THREADS says."""

_NO_NORMS = np.empty(0, np.float32)
_local = threading.local()
_second_thread_lock = threading.Lock()


# -- threads -----------------------------------------------------------------------------------------------


def use_one_thread() -> None:
    """Limit OpenMP to one thread in this Python thread: a second gains nothing for one query and slows the others."""
    if not getattr(_local, "single", False):
        faiss.omp_set_num_threads(1)
        _local.single = True


def use_all_threads() -> None:
    """Let OpenMP use all threads again, to build an index: there FAISS splits the rows."""
    faiss.omp_set_num_threads(ALL_THREADS)
    _local.single = False


@contextmanager
def spare_core() -> Iterator[Executor | None]:
    """A second thread for half of a long search; None if no core is idle or another long search has the thread."""
    if not (_core_is_idle() and _second_thread_lock.acquire(blocking=False)):
        yield None
        return
    try:
        yield _second_thread()
    finally:
        _second_thread_lock.release()


def _core_is_idle() -> bool:
    """Whether fewer threads are runnable than there are cores, this one included: half a scan must not wait."""
    try:
        runnable = int(os.pread(_load_average(), 64, 0).split()[3].partition(b"/")[0])
    except (OSError, ValueError, IndexError):  # not Linux
        return False
    return runnable < len(os.sched_getaffinity(0))


@cache
def _load_average() -> int:
    return os.open("/proc/loadavg", os.O_RDONLY)


@cache
def _second_thread() -> Executor:
    return ThreadPoolExecutor(1, thread_name_prefix="search")


os.register_at_fork(after_in_child=_second_thread.cache_clear)  # a fork does not copy the thread itself


# -- metric ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Metric:
    """How FAISS measures the distance of a space, and how its values become scores.

    A cosine space in float32 is measured by the squared chord, 2 - 2cos: near 1 a float32 cosine cannot tell
    neighbours apart, the chord can.
    """

    faiss_type: int
    chord: bool
    clamp: bool
    """Whether scores are cosines, which rounding must not move outside of [-1, 1]."""

    @property
    def name(self) -> str:
        """As the kernel calls it."""
        if self.faiss_type == faiss.METRIC_L2:
            return "chord" if self.chord else "euclidean"
        return "cosine" if self.clamp else "dot"

    def scores(self, values: NDArray[np.float32]) -> NDArray[np.float64]:
        """Scores, larger is better: cosine, inner product or minus the euclidean distance."""
        result = values.astype(np.float64)
        if self.chord:
            result = 1.0 - result / 2.0
        elif self.faiss_type == faiss.METRIC_L2:
            result = -np.sqrt(np.maximum(result, 0.0))
        return np.minimum(np.maximum(result, -1.0), 1.0) if self.clamp else result


def metric_of(space: EmbeddingSpace) -> Metric:
    cosine = space.distance == "cosine"
    chord = cosine and precision_of(space) == "float32"
    l2 = chord or space.distance == "euclidean"
    return Metric(faiss.METRIC_L2 if l2 else faiss.METRIC_INNER_PRODUCT, chord, cosine)


# -- a column in place -------------------------------------------------------------------------------------


def _faiss_view(array: NDArray[Any]) -> Any:
    flat = array.view(np.uint8).reshape(-1)
    no_owner = faiss.MaybeOwnedVectorUInt8().owner
    return faiss.MaybeOwnedVectorUInt8.create_view(faiss.swig_ptr(flat), flat.nbytes, no_owner)


def _flat_index(metric: Metric, codes: NDArray[Any]) -> Any:
    """A FAISS index whose storage is `codes` (n, d) itself; valid while the caller keeps `codes` alive."""
    dimensions = int(codes.shape[1])
    if codes.dtype == np.float16:
        index = faiss.IndexScalarQuantizer(dimensions, faiss.ScalarQuantizer.QT_fp16, metric.faiss_type)
        index.is_trained = True
    else:
        index = faiss.IndexFlat(dimensions, metric.faiss_type)
    index.codes = _faiss_view(codes)
    index.ntotal = len(codes)
    return index


def _search_one(index: Any, query: NDArray[np.float32], k: int, parameters: Any) -> _FaissResult:
    """Search one query without FAISS's Python wrapper, which takes longer than a small segment."""
    values, rows = np.empty(k, dtype=np.float32), np.empty(k, dtype=np.int64)
    if k:
        index.search_c(1, faiss.swig_ptr(query), k, faiss.swig_ptr(values), faiss.swig_ptr(rows), parameters)
    return values, rows


class Bitmap:
    """Allowed rows as the bitmap that FAISS reads: bit i of byte i // 8, least significant first."""

    def __init__(self, packed: NDArray[np.uint8]) -> None:
        self.packed = packed
        self.selector = faiss.IDSelectorBitmap(len(packed), faiss.swig_ptr(packed))
        self.parameters = faiss.SearchParameters(sel=self.selector)


class VectorColumn:
    """The stored vectors of one space in one segment: a view of the mapped column, searched exactly.

    `norms` (rows,) are those that the vectors had when they were ingested; empty where nobody asks for them.
    """

    def __init__(self, space: EmbeddingSpace, codes: NDArray[Any], norms: NDArray[np.float32] = _NO_NORMS) -> None:
        self.space = space
        self.metric = metric_of(space)
        self.codes, self.norms = codes, norms
        self.layout = codes.shape[1], codes.dtype.char, self.metric.faiss_type
        self._rows = opaque_rows(codes)

    @cached_property
    def native(self) -> kernel.Columns | None:
        return None if native is None else native_columns(self.space, [(np.ascontiguousarray(self.codes), (), 1)])

    @cached_property
    def _index(self) -> Any:
        return _flat_index(self.metric, self.codes)

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def mean(self) -> NDArray[np.float32]:
        """The mean of the rows, of many only of some runs at equal distances, shape (d,); zeros without rows."""
        if not len(self.codes):
            return np.zeros(self.codes.shape[1], np.float32)
        rows = self.codes
        if len(rows) > _MEAN_BLOCKS * _BLOCK_ROWS:
            starts = np.linspace(0, len(rows) - _BLOCK_ROWS, _MEAN_BLOCKS).astype(np.int64).tolist()
            rows = np.concatenate([rows[start : start + _BLOCK_ROWS] for start in starts])
        mean: NDArray[np.float32] = rows.mean(axis=0, dtype=np.float32)
        return mean

    @property
    def row_bytes(self) -> int:
        return int(self.codes.itemsize * self.codes.shape[1])

    def take(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """A copy of stored rows, of shape (n, d) and stored dtype."""
        codes = np.empty((len(rows), self.codes.shape[1]), self.codes.dtype)
        if len(rows):
            self.copy(rows, opaque_rows(codes))
        return codes

    def copy(self, rows: NDArray[np.int64], out: NDArray[Any]) -> None:
        """Copy stored rows into `opaque_rows` of an array, several times faster than value by value."""
        self._rows.take(rows, out=out, mode="clip")  # mode "raise" would copy twice

    def search(self, query: NDArray[np.float32], k: int, bitmap: Bitmap | None) -> Matches:
        """The best k of the rows that the bitmap allows (None: all rows); fewer if fewer are allowed."""
        if self.native is not None:
            _, row_bytes, score_bytes = self.native.search(0, query, k, None if bitmap is None else bitmap.packed)
            return np.frombuffer(row_bytes, np.int64), np.frombuffer(score_bytes, np.float64)
        use_one_thread()
        values, rows = _search_one(self._index, query, min(k, len(self.codes)), bitmap.parameters if bitmap else None)
        if len(rows) and rows[-1] < 0:  # fewer rows than k are allowed: FAISS fills up with -1
            present = rows >= 0
            values, rows = values[present], rows[present]
        return rows, self.metric.scores(values)


def native_columns(
    space: EmbeddingSpace, columns: Sequence[tuple[NDArray[Any], Sequence[tuple[Any, Any]], int]]
) -> kernel.Columns:
    """Stored vectors (n, d) of a space for the kernel, with the buffers of their ids and the rows of a batch of ids."""
    dtype = columns[0][0].dtype
    made: kernel.Columns = native.Columns(metric_of(space).name, space.dimensions, dtype.itemsize, columns)
    return made


def opaque_rows(codes: NDArray[Any]) -> NDArray[Any]:
    """A view of rows (n, d) as n opaque values, which numpy copies whole."""
    return codes.view(f"V{codes.itemsize * codes.shape[1]}").reshape(-1) if len(codes) else codes


# -- chosen rows, gathered ---------------------------------------------------------------------------------


class _GatherBuffer:
    """Memory into which rows are gathered to be compared, and its FAISS view, which is slower to make than to use."""

    def __init__(self, metric: Metric, codes: NDArray[Any]) -> None:
        self.rows = opaque_rows(codes)
        self._index = _flat_index(metric, codes)
        self._values, self._positions = np.empty(len(codes), np.float32), np.empty(len(codes), np.int64)
        self._out = faiss.swig_ptr(self._values), faiss.swig_ptr(self._positions), None
        self._used = len(codes)

    def compare(self, query: NDArray[np.float32], rows: int, k: int) -> _FaissResult:
        """The best k of the first `rows` rows, as views that the next call overwrites."""
        if rows != self._used:  # setting an attribute through FAISS's wrapper takes longer than a comparison
            self._index.ntotal = self._used = rows
        self._index.search_c(1, faiss.swig_ptr(query), k, *self._out)
        return self._values[:k], self._positions[:k]


def _gather_buffer(column: VectorColumn, rows: int) -> _GatherBuffer:
    """A buffer for at least `rows` rows of the column's layout, kept by this thread unless it is large."""
    buffers: dict[Any, _GatherBuffer] = _local.__dict__.setdefault("buffers", {})
    buffer = buffers.get(column.layout)
    if buffer is None or len(buffer.rows) < rows:
        capacity = 1 << max(8, (rows - 1).bit_length())
        buffer = _GatherBuffer(column.metric, np.empty((capacity, column.codes.shape[1]), column.codes.dtype))
        if buffer.rows.nbytes <= _MAX_KEPT_BYTES:
            while len(buffers) >= _MAX_BUFFERS:
                del buffers[next(iter(buffers))]
            buffers[column.layout] = buffer
    return buffer


def score_rows(
    chosen: Sequence[tuple[VectorColumn, NDArray[np.int64]]], query: NDArray[np.float32], k: int | None = None
) -> Matches:
    """Compare the query with chosen rows of columns of one space: positions and scores, best first.

    A position counts through the rows of all columns in their order. Returns at least the best k and all ties with
    the k-th, all rows for None: sorting every row takes several times as long as comparing it.
    """
    total = sum([len(rows) for _, rows in chosen])
    if not total:
        return np.empty(0, np.int64), np.empty(0)
    first = chosen[0][0]
    if first.native is not None:
        return _score_natively(chosen, query, np.empty(total), k)
    use_one_thread()
    buffer = _gather_buffer(first, total)
    start = 0
    for column, rows in chosen:
        column.copy(rows, buffer.rows[start : start + len(rows)])
        start += len(rows)
    count = total if k is None else min(total, k + _TIE_SLACK)
    values, positions = buffer.compare(query, total, count)
    scores = first.metric.scores(values)
    if k is not None and count < total and scores[-1] == scores[k - 1]:
        values, positions = buffer.compare(query, total, total)
        scores = first.metric.scores(values)
    return positions.copy(), scores


def _score_natively(
    chosen: Sequence[tuple[VectorColumn, NDArray[np.int64]]],
    query: NDArray[np.float32],
    scores: NDArray[np.float64],
    k: int | None,
) -> Matches:
    start = 0
    for column, rows in chosen:
        if column.native is not None:
            column.native.score(0, query, rows, scores[start : start + len(rows)])
        start += len(rows)
    if k is None or k >= len(scores):
        order = np.argsort(-scores, kind="stable")
    else:
        order = np.flatnonzero(scores >= -np.partition(-scores, k - 1)[k - 1])
        order = order[np.argsort(-scores[order], kind="stable")]
    return order, scores[order]
