"""Look-up of strings and keys by hash: sorted arrays in a mapped file, no start-up cost.

A hash match is only a hint: the caller confirms it against the full value (`confirm`), so colliding ids
never answer for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from numpy.typing import NDArray

from aidre.engine.arrow import list_view
from aidre.engine.schema import IDS, KEYS, NO_KEY

_STEP = 4096


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
        """The hashes in the order of their rows, where every row has one."""
        hashes = np.empty(len(self._hashes), dtype=np.uint64)
        hashes[self._rows] = self._hashes
        return hashes

    def find(self, value: bytes, confirm: Callable[[int], bool]) -> int | None:
        """The last row whose hash matches and which `confirm` accepts: a later document replaces an earlier one."""
        wanted = hash_of(value)
        place = int(np.searchsorted(self._hashes, np.uint64(wanted), side="right")) - 1
        while place >= 0 and int(self._hashes[place]) == wanted:
            row = int(self._rows[place])
            if confirm(row):
                return row
            place -= 1
        return None

    def find_all(self, values: Sequence[bytes], confirm: Callable[[int, int], bool]) -> NDArray[np.int64]:
        """For each value its last row or -1; `confirm(number, row)` compares value `number` with what `row` holds."""
        found = np.full(len(values), -1, dtype=np.int64)
        if not len(self._hashes) or not len(values):
            return found
        hashes = hashes_of(values)
        places = np.searchsorted(self._hashes, hashes, side="right") - 1
        hits = np.flatnonzero(self._hashes[np.maximum(places, 0)] == hashes)
        for number in hits.tolist():
            place = int(places[number])
            while place >= 0 and self._hashes[place] == hashes[number]:
                row = int(self._rows[place])
                if confirm(number, row):
                    found[number] = row
                    break
                place -= 1
        return found

    def following(
        self, after: int | None, count: int, allowed: NDArray[np.bool_] | None
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
        """The first `count` hashes behind `after` (None: from the start), with their rows, of the allowed rows."""
        place = 0 if after is None else int(np.searchsorted(self._hashes, np.uint64(after), side="right"))
        if allowed is None:
            return self._hashes[place : place + count], self._rows[place : place + count]
        found: list[NDArray[np.int64]] = []
        step = max(count, _STEP)
        while count > 0 and place < len(self._hashes):
            kept = place + np.flatnonzero(allowed[self._rows[place : place + step]])[:count]
            found.append(kept)
            count -= len(kept)
            place += step
        places = np.concatenate(found) if found else np.empty(0, dtype=np.int64)
        return self._hashes[places], self._rows[places]


def _sorted_lookup(hashes: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    order = np.argsort(hashes, kind="stable")
    return hashes[order], order.astype(np.uint32)


def _encoded(ids: pa.ChunkedArray) -> list[bytes]:
    return [value for value in ids.cast(pa.large_binary()).to_pylist() if value is not None]


def build_ids(chunk_ids: pa.ChunkedArray, document_ids: pa.ChunkedArray) -> pa.RecordBatch:
    """The look-ups of a segment: chunk ids, document ids, and each chunk's rank in the order of ids."""
    chunk_hashes, chunk_rows = _sorted_lookup(hashes_of(_encoded(chunk_ids)))
    document_hashes, document_rows = _sorted_lookup(hashes_of(_encoded(document_ids)))
    order = pc.sort_indices(chunk_ids).to_numpy()
    ranks = np.empty(len(order), dtype=np.uint32)
    ranks[order] = np.arange(len(order), dtype=np.uint32)
    return _one_row(IDS, chunk_hashes, chunk_rows, ranks, document_hashes, document_rows)


def build_keys(keys: pa.ChunkedArray) -> pa.RecordBatch:
    """The look-up of embedding keys; rows without a key are left out."""
    values = keys.to_pylist()
    present = np.array([row for row, key in enumerate(values) if key and key != NO_KEY], dtype=np.uint32)
    hashes = hashes_of([values[row] for row in present.tolist()])
    order = np.argsort(hashes, kind="stable")
    return _one_row(KEYS, hashes[order], present[order])


def _one_row(schema: pa.Schema, *columns: NDArray[Any]) -> pa.RecordBatch:
    arrays = []
    for field, values in zip(schema, columns, strict=True):
        offsets = pa.array([0, len(values)], pa.int64())
        arrays.append(pa.LargeListArray.from_arrays(offsets, pa.array(values, field.type.value_type)))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class Ids:
    """An opened ids file: look-ups over the map, and `ranks` (chunk row -> place in the order of chunk ids)."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.chunks = Lookup(list_view(batch.column(0)), list_view(batch.column(1)))
        self.ranks: NDArray[np.uint32] = list_view(batch.column(2))
        self.documents = Lookup(list_view(batch.column(3)), list_view(batch.column(4)))


def open_keys(batch: pa.RecordBatch) -> Lookup:
    return Lookup(list_view(batch.column(0)), list_view(batch.column(1)))
