"""Look-up of rows by id or key: sorted hashes in a mapped file, which cost nothing to open.

A matching hash is only a hint. The caller confirms it against the full value, so values with one hash are never
mistaken for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from aidre.engine.storage import IDS_SCHEMA, KEYS_SCHEMA, NO_KEY, check_lengths, check_rows, kernels, list_values

_STEP_ROWS = 4096
"""Hashes that `Lookup.hashes_after` filters at a time."""


def hash_of(value: bytes) -> int:
    return xxhash.xxh3_64_intdigest(value)


def hashes_of(values: Sequence[bytes]) -> NDArray[np.uint64]:
    digest = xxhash.xxh3_64_intdigest
    return np.fromiter((digest(value) for value in values), dtype=np.uint64, count=len(values))


class Lookup:
    """Rows by hash: `hashes` is sorted, `rows[i]` is the row of `hashes[i]`."""

    def __init__(self, hashes: NDArray[np.uint64], rows: NDArray[np.uint32]) -> None:
        self._hashes = hashes
        self._rows = rows

    def by_row(self) -> NDArray[np.uint64]:
        """The hashes in order of rows; call it only where every row has one."""
        hashes = np.empty(len(self._hashes), dtype=np.uint64)
        hashes[self._rows] = self._hashes
        return hashes

    def find(self, value: bytes, confirm: Callable[[int], bool]) -> int | None:
        """The last row whose hash matches and which `confirm(row)` accepts: later documents replace earlier ones."""
        hash_ = hash_of(value)
        i = int(np.searchsorted(self._hashes, np.uint64(hash_), side="right")) - 1
        while i >= 0 and int(self._hashes[i]) == hash_:
            row = int(self._rows[i])
            if confirm(row):
                return row
            i -= 1
        return None

    def find_all(self, values: Sequence[bytes], confirm: Callable[[int, int], bool]) -> NDArray[np.int64]:
        """The row that `find` gives for each value, or -1; `confirm(n, row)` compares value n with that of a row."""
        rows = np.full(len(values), -1, dtype=np.int64)
        if not len(self._hashes) or not len(values):
            return rows
        hashes = hashes_of(values)
        last = np.searchsorted(self._hashes, hashes, side="right") - 1
        matching = np.flatnonzero(self._hashes[np.maximum(last, 0)] == hashes)
        for n in matching.tolist():
            i = int(last[n])
            while i >= 0 and self._hashes[i] == hashes[n]:
                row = int(self._rows[i])
                if confirm(n, row):
                    rows[n] = row
                    break
                i -= 1
        return rows

    def hashes_after(
        self, after: int | None, count: int, mask: NDArray[np.bool_] | None
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
        """The first `count` hashes above `after` (None: from the start) of the rows in `mask`, with their rows."""
        start = 0 if after is None else int(np.searchsorted(self._hashes, np.uint64(after), side="right"))
        if mask is None:
            return self._hashes[start : start + count], self._rows[start : start + count]
        chosen: list[NDArray[np.int64]] = []
        step = max(count, _STEP_ROWS)
        while count > 0 and start < len(self._hashes):
            rows = start + np.flatnonzero(mask[self._rows[start : start + step]])[:count]
            chosen.append(rows)
            count -= len(rows)
            start += step
        indices = np.concatenate(chosen) if chosen else np.empty(0, dtype=np.int64)
        return self._hashes[indices], self._rows[indices]


class IdIndex:
    """An opened ids file: look-ups over the map, and `ranks`, the rank of each chunk row in the order of chunk ids.

    Raises ValueError for one whose rows and ranks contradict each other.
    """

    def __init__(self, batch: pa.RecordBatch) -> None:
        chunk_hashes, chunk_rows, ranks, document_hashes, document_rows = map(list_values, batch.columns)
        check_lengths(chunk_hashes, chunk_rows, ranks)
        for rows in (chunk_rows, ranks):
            check_rows(rows, len(ranks))
        check_lengths(document_hashes, document_rows)
        check_rows(document_rows, len(document_rows))
        self.chunks = Lookup(chunk_hashes, chunk_rows)
        self.ranks: NDArray[np.uint32] = ranks
        self.documents = Lookup(document_hashes, document_rows)


def open_keys(batch: pa.RecordBatch, count: int) -> Lookup:
    """The look-up of a keys file beside so many vectors. ValueError where it names others."""
    hashes, rows = map(list_values, batch.columns)
    check_lengths(hashes, rows)
    check_rows(rows, count)
    return Lookup(hashes, rows)


def build_ids(chunk_ids: pa.ChunkedArray, document_ids: pa.ChunkedArray) -> pa.RecordBatch:
    """The batch of an ids file: look-ups of chunk ids and document ids, and the ranks of the chunk ids."""
    chunk_hashes, chunk_rows = _sorted_lookup(hashes_of(_encoded(chunk_ids)))
    document_hashes, document_rows = _sorted_lookup(hashes_of(_encoded(document_ids)))
    order = kernels.sort_indices(chunk_ids).to_numpy()
    ranks = np.empty(len(order), dtype=np.uint32)
    ranks[order] = np.arange(len(order), dtype=np.uint32)
    return _one_row(IDS_SCHEMA, chunk_hashes, chunk_rows, ranks, document_hashes, document_rows)


def build_keys(keys: pa.ChunkedArray) -> pa.RecordBatch:
    """The batch of a keys file: the look-up of embedding keys, without the rows that have none."""
    values = keys.to_pylist()
    rows = np.array([row for row, key in enumerate(values) if key and key != NO_KEY], dtype=np.uint32)
    hashes = hashes_of([values[row] for row in rows.tolist()])
    order = np.argsort(hashes, kind="stable")
    return _one_row(KEYS_SCHEMA, hashes[order], rows[order])


def _sorted_lookup(hashes: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    order = np.argsort(hashes, kind="stable")
    return hashes[order], order.astype(np.uint32)


def _encoded(ids: pa.ChunkedArray) -> list[bytes]:
    return [value for value in ids.cast(pa.large_binary()).to_pylist() if value is not None]


def _one_row(schema: pa.Schema, *columns: NDArray[Any]) -> pa.RecordBatch:
    """A batch of a single row, each column of it a list."""
    arrays = []
    for field, values in zip(schema, columns, strict=True):
        offsets = pa.array([0, len(values)], pa.int64())
        arrays.append(pa.LargeListArray.from_arrays(offsets, pa.array(values, field.type.value_type)))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
