"""FAISS over vectors that stay in their mapped Arrow column. The only module that knows FAISS, with calibration.

Two kinds of search inside one segment. *Exact* compares the query with every allowed row of the column.
*Scan* goes over 4-bit product-quantised codes (Andre et al., "Quicker ADC", fast scan; FAISS `IVF1,PQ{m}x4fs`)
and yields candidates, which the caller re-ranks exactly. Both leave the final score to `evaluate`.

FAISS views hold no reference to the memory they look at, and writing through a view ends the process: the
classes here keep the arrays alive and offer no writes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import faiss
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine.arrow import FileProblem
from aidre.engine.model import EmbeddingSpace
from aidre.engine.schema import INDEX, precision_of

Found = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Rows and their scores, best first, both of shape (n,)."""

Found32 = tuple[NDArray[np.float32], NDArray[np.int64]]
"""What FAISS answers: its values and rows, best first, -1 where there was no row."""

TRAIN_ROWS = 20_000
_TIES = 16
_BLOCK = 32_768
_threads = threading.local()


def single_thread() -> None:
    """One OpenMP thread for searches of this Python thread: two gain nothing for one query and hurt the others."""
    if not getattr(_threads, "single", False):
        faiss.omp_set_num_threads(1)
        _threads.single = True


def _all_threads() -> None:
    """Every core for building, where FAISS splits the rows."""
    faiss.omp_set_num_threads(os.cpu_count() or 1)
    _threads.single = False


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


def evaluate(
    measure: Measure, codes: NDArray[Any], query: NDArray[np.float32], best: int | None = None
) -> NDArray[np.float64]:
    """The score of every row of `codes` (n, d, contiguous), in their order: the one kernel behind all scores.

    Rows that are not among the `best` highest scores, all ties with the last of them included, may come out as
    -inf: to put every row in order takes several times as long as to compare it.
    """
    single_thread()
    index, count = _flat(measure, codes), len(codes) if best is None else min(len(codes), best + _TIES)
    values, rows = _ask(index, query, count, None)
    found = measure.scores(values)
    if best is not None and count < len(codes) and found[-1] == found[best - 1]:
        values, rows = _ask(index, query, len(codes), None)
        found = measure.scores(values)
    scores = np.full(len(codes), -np.inf)
    scores[rows] = found
    return scores


def _ask(index: Any, query: NDArray[np.float32], count: int, params: Any) -> Found32:
    """One search of one query, past FAISS' wrapper, which takes longer than a small segment."""
    values, rows = np.empty(count, dtype=np.float32), np.empty(count, dtype=np.int64)
    if count:
        index.search_c(1, faiss.swig_ptr(query), count, faiss.swig_ptr(values), faiss.swig_ptr(rows), params)
    return values, rows


class Bits:
    """Allowed rows as the bitmap FAISS reads (bit i of byte i // 8, least significant first)."""

    def __init__(self, mask: NDArray[np.bool_]) -> None:
        self._packed = np.packbits(mask, bitorder="little")
        self.selector = faiss.IDSelectorBitmap(len(mask), faiss.swig_ptr(self._packed))


class Column:
    """The vectors of one space in one segment: a view over the mapped column, searched exactly."""

    def __init__(self, space: EmbeddingSpace, codes: NDArray[Any]) -> None:
        self.measure = measure_of(space)
        self.codes = codes
        self._rows = codes.view(f"V{codes.itemsize * codes.shape[1]}").reshape(-1) if len(codes) else codes
        self._index = _flat(self.measure, codes)

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Stored rows (n, d), copied. Whole rows as opaque bytes are gathered several times faster than by value."""
        gathered = np.take(self._rows, rows)
        return gathered.view(self.codes.dtype).reshape(len(rows), self.codes.shape[1])

    def search(self, query: NDArray[np.float32], count: int, bits: Bits | None) -> Found:
        single_thread()
        params = faiss.SearchParameters(sel=bits.selector) if bits else None
        return _found(self.measure, *_ask(self._index, query, min(count, len(self.codes)), params))


class Scan:
    """An opened fast-scan index: candidates by approximate score."""

    def __init__(self, space: EmbeddingSpace, index: Any, keep: Any) -> None:
        self._measure = measure_of(space)
        self._index = index
        self._keep = keep
        self._padding = index.d - space.dimensions
        self.code_size = int(index.pq.M)

    def search(self, query: NDArray[np.float32], count: int, bits: Bits | None) -> Found:
        single_thread()
        if self._padding:
            query = np.pad(query, ((0, 0), (0, self._padding)))
        params = faiss.IVFSearchParameters(sel=bits.selector, nprobe=1) if bits else None
        return _found(self._measure, *_ask(self._index, query, min(count, self._index.ntotal), params))

    def codebook(self) -> Any:
        """The trained index without its rows, to encode other rows of the same space alike."""
        empty = faiss.clone_index(self._index)
        empty.reset()
        return empty


def _found(measure: Measure, values: NDArray[np.float32], rows: NDArray[np.int64]) -> Found:
    if len(rows) and rows[-1] < 0:  # fewer rows were allowed than asked for: the rest is -1
        present = rows >= 0
        values, rows = values[present], rows[present]
    return rows, measure.scores(values)


def code_sizes(dimensions: int) -> list[int]:
    """The numbers of 4-bit codes a vector that calibration tries, cheapest first: d/4, d/2, d."""
    return sorted({-(-dimensions // step) for step in (4, 2, 1)})


def _padded_dimensions(dimensions: int, code_size: int) -> int:
    return code_size * -(-dimensions // code_size)


def train(space: EmbeddingSpace, sample: NDArray[Any], code_size: int) -> Any:
    """An empty index trained on stored rows (n, d) of the space."""
    padded = _padded_dimensions(space.dimensions, code_size)
    index = faiss.index_factory(padded, f"IVF1,PQ{code_size}x4fs", measure_of(space).metric)
    # Many tiny clusterings: with two threads most of the time goes into waiting for each other.
    single_thread()
    index.train(_padded(sample, padded))
    return index


def fill(codebook: Any, blocks: Iterable[NDArray[Any]]) -> Any:
    """A copy of a trained empty index with rows added; `blocks` are stored rows in order."""
    _all_threads()
    index = faiss.clone_index(codebook)
    for block in blocks:
        index.add(_padded(block, index.d))
    return index


def blocks_of(codes: NDArray[Any]) -> Iterator[NDArray[Any]]:
    for start in range(0, len(codes), _BLOCK):
        yield codes[start : start + _BLOCK]


def _padded(rows: NDArray[Any], dimensions: int) -> NDArray[np.float32]:
    result = np.zeros((len(rows), dimensions), dtype=np.float32)
    result[:, : rows.shape[1]] = rows
    return result


def index_batch(index: Any, vectors_checksum: str, trained_rows: int) -> pa.RecordBatch:
    """The index as one Arrow row; its metadata say what it was built from and by which release of FAISS."""
    metadata = {
        "kind": "scan",
        "code_size": str(index.pq.M),
        "faiss": faiss.__version__,
        "vectors": vectors_checksum,
        "trained_rows": str(trained_rows),
    }
    body = pa.py_buffer(faiss.serialize_index(index))
    offsets = pa.py_buffer(np.array([0, body.size], dtype=np.int64))
    value = pa.LargeBinaryArray.from_buffers(pa.large_binary(), 1, [None, offsets, body])
    return pa.RecordBatch.from_arrays([value], schema=INDEX.with_metadata(metadata))


def open_scan(space: EmbeddingSpace, batch: pa.RecordBatch, rows: int, vectors_checksum: str) -> Scan:
    """Open an index over the map. FileProblem when it was not built from these vectors or cannot be read."""
    metadata = {key.decode(): value.decode() for key, value in (batch.schema.metadata or {}).items()}
    if metadata.get("vectors") != vectors_checksum:
        raise FileProblem("was built from other vectors")
    body = np.frombuffer(batch.column(0).buffers()[2], dtype=np.uint8)
    try:
        reader = faiss.ZeroCopyIOReader(faiss.swig_ptr(body), body.nbytes)
        index = faiss.read_index(reader)
    except RuntimeError as error:
        raise FileProblem("cannot be read by this release of FAISS") from error
    if index.ntotal != rows or index.d < space.dimensions:
        raise FileProblem("does not fit its segment")
    return Scan(space, index, (batch, body, reader))


def trained_rows_of(batch: pa.RecordBatch) -> int:
    return int((batch.schema.metadata or {}).get(b"trained_rows", b"0"))
