"""The scan: 4-bit product-quantised codes of every row, gone over in one pass for candidates.

(Andre et al., "Quicker ADC"; FAISS `IVF1,PQ{m}x4fs`.) The codes of a segment are one inverted list. Segments whose
codes come from the same codebook share one *sweep*: FAISS fills the query's look-up tables once and goes over all their
lists with one heap, so twenty segments cost what one of their size does. Candidates are compared exactly by the
kernel afterwards. FAISS writes through the indexes it is given only when told to: nothing here offers that.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import faiss
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine.arrow import FileProblem
from aidre.engine.kernel import Bits, all_threads, measure_of, single_thread, spare_core
from aidre.engine.model import EmbeddingSpace
from aidre.engine.schema import INDEX, SEGMENT_ROWS

Candidates = tuple[NDArray[np.int64], NDArray[np.float32]]
"""Rows, numbered by slots, and how close they seem."""

TRAIN_ROWS = 20_000
LIST_ROWS = 1 << 17
SHARED_ROWS = 1 << 18
"""A pass over so many rows takes long enough to be shared by two threads."""

_BLOCK = 1 << 15
_BLOCK_CODES = 128
"""Rows whose codes stand together: the most that FAISS has a kernel for, some 15 % faster than its default of 32."""


class Scan:
    """The opened codes of one segment, as lists of at most LIST_ROWS rows that sweeps go over.

    Its rows are numbered from `slot` * SEGMENT_ROWS on, so that the segments of a generation can be told apart.
    """

    def __init__(self, space: EmbeddingSpace, indexes: Sequence[Any]) -> None:
        self.space = space
        self.indexes = tuple(indexes)
        first = self.indexes[0]
        self.code_size = int(first.pq.M)
        self.padding = first.d - space.dimensions
        self.codebook_key = _key(first)
        self.slot: int | None = None
        self._ids = [faiss.rev_swig_ptr(index.invlists.get_ids(0), index.ntotal) for index in self.indexes]
        start = 0
        for ids in self._ids:
            ids[:] = np.arange(start, start + len(ids))
            start += len(ids)

    def __len__(self) -> int:
        return sum(map(len, self._ids))

    def number(self, slot: int) -> None:
        """Give its rows the numbers of a slot, once and before anything searches them."""
        self.slot = slot
        for ids in self._ids:
            ids[:] += slot * SEGMENT_ROWS

    def codebook(self) -> Any:
        """The trained index without its rows, to encode other rows of the same space alike."""
        return _emptied(self.indexes[0], 1)


def _key(index: Any) -> tuple[int, int, bytes]:
    """What indexes have in common where their lists can be gone over together."""
    return int(index.pq.M), int(index.bbs), faiss.vector_to_array(index.pq.centroids).tobytes()


def _emptied(index: Any, lists: int) -> Any:
    """An index without rows that has the codebook of another and so many lists."""
    coarse = faiss.IndexFlat(index.d, index.metric_type)
    coarse.add(np.zeros((lists, index.d), np.float32))
    made = faiss.IndexIVFPQFastScan(coarse, index.d, lists, index.pq.M, index.pq.nbits, index.metric_type, index.bbs)
    made.own_fields = True
    coarse.this.disown()
    made.by_residual = False
    made.pq = index.pq
    made.is_trained = True
    return made


class Sweep:
    """Scans that have one codebook, as the lists of one index."""

    def __init__(self, scans: Sequence[Scan]) -> None:
        self.scans = tuple(scans)
        self.padding = scans[0].padding
        self.larger_is_closer = measure_of(scans[0].space).metric == faiss.METRIC_INNER_PRODUCT
        stacked = faiss.InvertedListsPtrVector()
        self.owners: list[int] = []
        self.sizes: list[int] = []
        for number, scan in enumerate(scans):
            for index in scan.indexes:
                stacked.push_back(index.invlists)
                self.owners.append(number)
                self.sizes.append(int(index.ntotal))
        self._lists = faiss.VStackInvertedLists(len(self.sizes), stacked.data())
        self.index = _emptied(scans[0].indexes[0], len(self.sizes))
        self.index.replace_invlists(self._lists, False)
        self.index.ntotal = sum(self.sizes)


class Pass:
    """One way to go over a sweep: which of its scans, None: all, and which of their rows `bits` allow."""

    def __init__(self, sweep: Sweep, scans: Collection[int] | None = None, bits: Bits | None = None) -> None:
        lists = [number for number, owner in enumerate(sweep.owners) if scans is None or owner in scans]
        rows = [sweep.sizes[number] for number in lists]
        middle = int(np.searchsorted(np.cumsum(rows), sum(rows) / 2)) + 1
        self._padding = sweep.padding
        self._whole = _Lists(sweep, lists, bits)
        self._halves = None
        if sum(rows) >= SHARED_ROWS and middle < len(lists):
            self._halves = _Lists(sweep, lists[:middle], bits), _Lists(sweep, lists[middle:], bits)

    def search(self, query: NDArray[np.float32], count: int) -> Candidates:
        """The best `count` of the allowed rows, numbered by slots, and how close they seem (larger is closer).

        Best first; fewer where fewer are allowed, or where FAISS passes rows by since their codes are all alike.
        """
        return self.search_all(query, count)[0]

    def search_all(self, queries: NDArray[np.float32], count: int) -> list[Candidates]:
        """The same for each of several queries (n, d), at about half the cost of each alone: codes are read once."""
        if self._padding:
            queries = np.pad(queries, ((0, 0), (0, self._padding)))
        if self._halves is None:
            return self._whole.search(queries, count)
        one, other = self._halves
        with spare_core() as helper:
            if helper is None:
                return self._whole.search(queries, count)
            theirs = helper.submit(other.search, queries, count)
            pairs = zip(one.search(queries, count), theirs.result(), strict=True)
        return [_merged(mine, more, count) for mine, more in pairs]


def _merged(mine: Candidates, more: Candidates, count: int) -> Candidates:
    rows, near = np.concatenate([mine[0], more[0]]), np.concatenate([mine[1], more[1]])
    best = np.argsort(-near, kind="stable")[:count]
    return rows[best], near[best]


class _Lists:
    """Lists of a sweep, prepared to be gone over by one thread."""

    def __init__(self, sweep: Sweep, lists: Sequence[int], bits: Bits | None) -> None:
        numbers = np.array(lists, dtype=np.int64)
        distances = np.zeros(len(numbers), dtype=np.float32)  # of lists that have no centre
        self._parameters = faiss.IVFSearchParameters(nprobe=len(numbers))
        if bits is not None:
            self._parameters.sel = bits.selector
        self._sweep = sweep
        self._lists = numbers, distances
        self._bits = bits  # which the parameters do not keep alive

    def search(self, queries: NDArray[np.float32], count: int) -> list[Candidates]:
        single_thread()
        values, rows = np.empty((len(queries), count), np.float32), np.empty((len(queries), count), np.int64)
        lists = self._lists if len(queries) == 1 else self._repeated(len(queries))
        self._sweep.index.search_preassigned_c(
            len(queries), faiss.swig_ptr(queries), count, *map(faiss.swig_ptr, lists), faiss.swig_ptr(values),
            faiss.swig_ptr(rows), False, self._parameters, None,
        )  # fmt: skip
        near = values if self._sweep.larger_is_closer else -values
        return [_present(*one) for one in zip(rows, near, strict=True)]

    def _repeated(self, queries: int) -> tuple[NDArray[Any], NDArray[Any]]:
        numbers, distances = self._lists
        return np.tile(numbers, queries), np.tile(distances, queries)


def _present(rows: NDArray[np.int64], near: NDArray[np.float32]) -> Candidates:
    """Without the places at the end where no row was found."""
    if rows[-1] >= 0:
        return rows, near
    present = rows >= 0
    return rows[present], near[present]


def code_sizes(dimensions: int) -> list[int]:
    """The numbers of 4-bit codes a vector that calibration tries, cheapest first: d/4, d/2, d."""
    return sorted({-(-dimensions // step) for step in (4, 2, 1)})


def _padded_dimensions(dimensions: int, code_size: int) -> int:
    return code_size * -(-dimensions // code_size)


def train(space: EmbeddingSpace, sample: NDArray[Any], code_size: int) -> Any:
    """An empty index trained on stored rows (n, d) of the space."""
    padded = _padded_dimensions(space.dimensions, code_size)
    index = faiss.index_factory(padded, f"IVF1,PQ{code_size}x4fs_{_BLOCK_CODES}", measure_of(space).metric)
    # Many tiny clusterings: with two threads most of the time goes into waiting for each other.
    single_thread()
    index.train(_padded(sample, padded))
    return index


def fill(codebook: Any, blocks: Iterable[NDArray[Any]]) -> list[Any]:
    """Copies of a trained empty index with rows added, at most LIST_ROWS each; `blocks` are stored rows in order."""
    all_threads()
    filled: list[Any] = []
    for block in blocks:
        if not filled or filled[-1].ntotal + len(block) > LIST_ROWS:
            filled.append(faiss.clone_index(codebook))
        filled[-1].add(_padded(block, codebook.d))
    return filled or [faiss.clone_index(codebook)]


def blocks_of(codes: NDArray[Any]) -> Iterator[NDArray[Any]]:
    for start in range(0, len(codes), _BLOCK):
        yield codes[start : start + _BLOCK]


def _padded(rows: NDArray[Any], dimensions: int) -> NDArray[np.float32]:
    result = np.zeros((len(rows), dimensions), dtype=np.float32)
    result[:, : rows.shape[1]] = rows
    return result


def index_batch(indexes: Sequence[Any], vectors_checksum: str, trained_rows: int) -> pa.RecordBatch:
    """The indexes of a segment, one a row; the metadata say what they were built from and by which release of FAISS."""
    metadata = {
        "kind": "scan",
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
    return index_batch(fill(empty, blocks_of(codes)), vectors_checksum, trained_rows)


def open_scan(space: EmbeddingSpace, batch: pa.RecordBatch, rows: int, vectors_checksum: str) -> Scan:
    """Copy the indexes out of the map. FileProblem when they were not built from these vectors or cannot be read."""
    metadata = {key.decode(): value.decode() for key, value in (batch.schema.metadata or {}).items()}
    if metadata.get("vectors") != vectors_checksum:
        raise FileProblem("was built from other vectors")
    try:
        indexes = [_read(value.as_buffer()) for value in batch.column(0) if value.is_valid]
    except RuntimeError as error:
        raise FileProblem("cannot be read by this release of FAISS") from error
    for index in indexes:
        if not isinstance(index, faiss.IndexIVFPQFastScan) or (index.nlist, index.by_residual) != (1, False):
            raise FileProblem("is no index of this kind")
        if index.d < space.dimensions or index.invlists.list_size(0) != index.ntotal:
            raise FileProblem("does not fit its segment")
        if index.metric_type != measure_of(space).metric or _key(index) != _key(indexes[0]):
            raise FileProblem("is no index of this kind of distance, or of several codebooks")
    if not indexes or sum(index.ntotal for index in indexes) != rows:
        raise FileProblem("does not fit its segment")
    return Scan(space, indexes)


def _read(stored: pa.Buffer) -> Any:
    body = np.frombuffer(stored, dtype=np.uint8)
    return faiss.read_index(faiss.ZeroCopyIOReader(faiss.swig_ptr(body), body.nbytes))


def trained_rows_of(batch: pa.RecordBatch) -> int:
    return int((batch.schema.metadata or {}).get(b"trained_rows", b"0"))
