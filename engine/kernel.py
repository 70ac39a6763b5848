"""The one kernel behind all scores: FAISS compares a query with stored vectors, in place or copied together.

FAISS views hold no reference to the memory they look at, and writing through a view ends the process: the
classes here keep the arrays alive and offer no writes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from aidre.engine.model import EmbeddingSpace
from aidre.engine.schema import precision_of

Found = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Rows and their scores, best first, both of shape (n,)."""

Found32 = tuple[NDArray[np.float32], NDArray[np.int64]]
"""What FAISS answers: its values and rows, best first, -1 where there was no row."""

_TIES = 16
_BENCHES = 4
_KEPT_BYTES = 1 << 23
"""A thread keeps so many benches of at most so many bytes."""

_local = threading.local()
_lent = threading.Lock()


def single_thread() -> None:
    """One OpenMP thread for searches of this Python thread: two gain nothing for one query and hurt the others."""
    if not getattr(_local, "single", False):
        faiss.omp_set_num_threads(1)
        _local.single = True


def all_threads() -> None:
    """Every core for building, where FAISS splits the rows."""
    faiss.omp_set_num_threads(os.cpu_count() or 1)
    _local.single = False


@contextmanager
def spare_core() -> Iterator[Executor | None]:
    """A thread that can take half of a long search, None where no core is idle or another long search has it."""
    if not (_core_is_idle() and _lent.acquire(blocking=False)):
        yield None
        return
    try:
        yield _helper()
    finally:
        _lent.release()


def _core_is_idle() -> bool:
    """Whether fewer threads than cores want to run now, this one included; half a scan must not wait for its turn."""
    try:
        running = int(os.pread(_load(), 64, 0).split()[3].partition(b"/")[0])
    except (OSError, ValueError, IndexError):  # not Linux
        return False
    return running < len(os.sched_getaffinity(0))


@cache
def _load() -> int:
    return os.open("/proc/loadavg", os.O_RDONLY)


@cache
def _helper() -> Executor:
    return ThreadPoolExecutor(1, thread_name_prefix="search")


os.register_at_fork(after_in_child=_helper.cache_clear)  # the thread itself stays with the parent


@dataclass(frozen=True, slots=True)
class Measure:
    """How a space's distance is computed by FAISS and turned into a score.

    A cosine space in float32 is measured by the squared chord, 2 - 2cos: close to 1 a float32 cosine
    cannot tell neighbours apart, the chord can.
    """

    metric: int
    chord: bool
    clamp: bool

    def scores(self, values: NDArray[np.float32]) -> NDArray[np.float64]:
        result = values.astype(np.float64)
        if self.chord:
            result = 1.0 - result / 2.0
        elif self.metric == faiss.METRIC_L2:
            result = -np.sqrt(np.maximum(result, 0.0))
        return np.minimum(np.maximum(result, -1.0), 1.0) if self.clamp else result


def measure_of(space: EmbeddingSpace) -> Measure:
    cosine = space.distance == "cosine"
    chord = cosine and precision_of(space) == "float32"
    l2 = chord or space.distance == "euclidean"
    return Measure(faiss.METRIC_L2 if l2 else faiss.METRIC_INNER_PRODUCT, chord, cosine)


def _view(array: NDArray[Any]) -> Any:
    flat = array.view(np.uint8).reshape(-1)
    no_owner = faiss.MaybeOwnedVectorUInt8().owner
    return faiss.MaybeOwnedVectorUInt8.create_view(faiss.swig_ptr(flat), flat.nbytes, no_owner)


def _flat(measure: Measure, codes: NDArray[Any]) -> Any:
    """A FAISS index whose storage is `codes` (n, d) itself; valid while the caller keeps `codes`."""
    dimensions = int(codes.shape[1])
    if codes.dtype == np.float16:
        index = faiss.IndexScalarQuantizer(dimensions, faiss.ScalarQuantizer.QT_fp16, measure.metric)
        index.is_trained = True
    else:
        index = faiss.IndexFlat(dimensions, measure.metric)
    index.codes = _view(codes)
    index.ntotal = len(codes)
    return index


def ask(index: Any, query: NDArray[np.float32], count: int, params: Any) -> Found32:
    """One search of one query, past FAISS' wrapper, which takes longer than a small segment."""
    values, rows = np.empty(count, dtype=np.float32), np.empty(count, dtype=np.int64)
    if count:
        index.search_c(1, faiss.swig_ptr(query), count, faiss.swig_ptr(values), faiss.swig_ptr(rows), params)
    return values, rows


class Bits:
    """Allowed rows as the bitmap FAISS reads (bit i of byte i // 8, least significant first)."""

    def __init__(self, packed: NDArray[np.uint8]) -> None:
        self.packed = packed
        self.selector = faiss.IDSelectorBitmap(len(packed), faiss.swig_ptr(packed))
        self.parameters = faiss.SearchParameters(sel=self.selector)


class Column:
    """The vectors of one space in one segment: a view over the mapped column, searched exactly."""

    def __init__(self, space: EmbeddingSpace, codes: NDArray[Any]) -> None:
        self.measure = measure_of(space)
        self.codes = codes
        self.kind = codes.shape[1], codes.dtype.char, self.measure.metric
        self._rows = opaque(codes)
        self._index = _flat(self.measure, codes)

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Stored rows (n, d), copied."""
        codes = np.empty((len(rows), self.codes.shape[1]), self.codes.dtype)
        if len(rows):
            self.copy(rows, opaque(codes))
        return codes

    def copy(self, rows: NDArray[np.int64], out: NDArray[Any]) -> None:
        """Copy stored rows to `opaque` ones, several times faster than by value."""
        self._rows.take(rows, out=out, mode="clip")  # to raise instead, numpy would copy twice

    def search(self, query: NDArray[np.float32], count: int, bits: Bits | None) -> Found:
        single_thread()
        values, rows = ask(self._index, query, min(count, len(self.codes)), bits.parameters if bits else None)
        if len(rows) and rows[-1] < 0:  # fewer rows were allowed than asked for: the rest is -1
            present = rows >= 0
            values, rows = values[present], rows[present]
        return rows, self.measure.scores(values)


def opaque(codes: NDArray[Any]) -> NDArray[Any]:
    """The same rows (n, d) as n values without a meaning."""
    return codes.view(f"V{codes.itemsize * codes.shape[1]}").reshape(-1) if len(codes) else codes


class _Bench:
    """Memory to which rows are copied to be compared, and FAISS' view of it, which takes longer to make than to use."""

    def __init__(self, measure: Measure, codes: NDArray[Any]) -> None:
        self.rows = opaque(codes)
        self._index = _flat(measure, codes)
        self._values, self._places = np.empty(len(codes), np.float32), np.empty(len(codes), np.int64)
        self._out = faiss.swig_ptr(self._values), faiss.swig_ptr(self._places), None
        self._used = len(codes)

    def compare(self, query: NDArray[np.float32], rows: int, count: int) -> Found32:
        """The nearest `count` of the first `rows`, until the next comparison."""
        if rows != self._used:  # FAISS' wrapper of an attribute takes longer than a comparison
            self._index.ntotal = self._used = rows
        self._index.search_c(1, faiss.swig_ptr(query), count, *self._out)
        return self._values[:count], self._places[:count]


def _bench(column: Column, rows: int) -> _Bench:
    """A bench for at least so many rows of such a column; this thread's own unless it has to be large."""
    benches: dict[Any, _Bench] = _local.__dict__.setdefault("benches", {})
    bench = benches.get(column.kind)
    if bench is None or len(bench.rows) < rows:
        size = 1 << max(8, (rows - 1).bit_length())
        bench = _Bench(column.measure, np.empty((size, column.codes.shape[1]), column.codes.dtype))
        if bench.rows.nbytes <= _KEPT_BYTES:
            while len(benches) >= _BENCHES:
                del benches[next(iter(benches))]
            benches[column.kind] = bench
    return bench


def nearest(
    chosen: Sequence[tuple[Column, NDArray[np.int64]]], query: NDArray[np.float32], wanted: int | None = None
) -> Found:
    """The query against chosen rows of columns of one space: their places, counted through, and scores, best first.

    At least the best `wanted` and all ties with the last of them; None: all. To put every row in order takes
    several times as long as to compare it.
    """
    total = sum([len(rows) for _, rows in chosen])
    if not total:
        return np.empty(0, np.int64), np.empty(0)
    single_thread()
    first = chosen[0][0]
    bench = _bench(first, total)
    start = 0
    for column, rows in chosen:
        column.copy(rows, bench.rows[start : start + len(rows)])
        start += len(rows)
    count = total if wanted is None else min(total, wanted + _TIES)
    values, places = bench.compare(query, total, count)
    scores = first.measure.scores(values)
    if wanted is not None and count < total and scores[-1] == scores[wanted - 1]:
        values, places = bench.compare(query, total, total)
        scores = first.measure.scores(values)
    return places.copy(), scores


def evaluate(column: Column, rows: NDArray[np.int64], query: NDArray[np.float32]) -> NDArray[np.float64]:
    """The score of each of some rows, in their order."""
    places, found = nearest([(column, rows)], query)
    scores = np.empty(len(rows))
    scores[places] = found
    return scores
