"""The log of a backfill: vectors by embedding key, appended as they are made, so that an interrupted run loses none.

One file of fixed-size records, each with its own checksum: a record torn by a power cut is skipped, at any position.
No manifest names the file; it is removed when its space is complete.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from aidre.engine.index.vectors import dtype_of
from aidre.engine.model import EmbeddingSpace, EncodedVectors
from aidre.engine.storage import BACKFILLS, KEY_BYTES, durable, space_file_name

_MAX_UNSORTED_KEYS = 1 << 16
"""Appended keys are looked up in a dictionary; above this number they are merged into the sorted array."""


class VectorLog:
    """The log of one space in the collection at `folder`. Requires the writer's lock."""

    def __init__(self, folder: Path, space: EmbeddingSpace) -> None:
        self._path = log_path(folder, space.id)
        self._dtype = np.dtype(
            [
                ("key", f"S{KEY_BYTES}"),
                ("norm", np.float32),
                ("codes", dtype_of(space), (space.dimensions,)),
                ("checksum", np.uint64),
            ]
        )
        self._records: NDArray[Any] = np.empty(0, self._dtype)
        self._sorted_keys: NDArray[Any] = np.empty(0, self._dtype["key"])
        self._sorted_rows = np.empty(0, dtype=np.int64)
        self._unsorted_rows: dict[bytes, int] = {}
        self._open()

    def find(self, keys: Sequence[bytes]) -> NDArray[np.int64]:
        """The row of each key in the log, for `take`; -1 where the log lacks it."""
        searched = _key_array(keys)
        rows = np.full(len(searched), -1, dtype=np.int64)
        if len(self._sorted_keys):
            positions = np.minimum(np.searchsorted(self._sorted_keys, searched), len(self._sorted_keys) - 1)
            is_stored = self._sorted_keys[positions] == searched
            rows[is_stored] = self._sorted_rows[positions[is_stored]]
        for number in np.flatnonzero(rows < 0).tolist():
            rows[number] = self._unsorted_rows.get(keys[number], -1)
        return rows

    def take(self, rows: NDArray[np.int64]) -> EncodedVectors:
        records = self._records[rows]
        return EncodedVectors(np.ascontiguousarray(records["codes"]), np.ascontiguousarray(records["norm"]))

    def add(self, keys: Sequence[bytes], vectors: EncodedVectors) -> None:
        """Append vectors under keys that the log lacks; durable on return. StorageFailed."""
        records = np.zeros(len(keys), self._dtype)
        records["key"] = _key_array(keys)
        records["norm"], records["codes"] = vectors.norms, vectors.codes
        records["checksum"] = _checksums(records)
        first = len(self._records)
        with durable.write_errors(self._path), self._path.open("r+b") as file:
            file.seek(first * self._dtype.itemsize)
            file.write(records.tobytes())
            file.flush()
            os.fsync(file.fileno())
        self._map()
        self._unsorted_rows.update((key, first + number) for number, key in enumerate(keys))
        if len(self._unsorted_rows) > _MAX_UNSORTED_KEYS:
            unsorted = np.fromiter(self._unsorted_rows.values(), dtype=np.int64)
            self._sort(np.concatenate([self._sorted_rows, unsorted]))

    def _open(self) -> None:
        durable.make_folder(self._path.parent)
        with durable.write_errors(self._path):
            self._path.touch()
            durable.sync_folder(self._path.parent)
        self._map()
        self._sort(np.flatnonzero(_checksums(self._records) == self._records["checksum"]))

    def _map(self) -> None:
        """Map the complete records; an incomplete one at the end is overwritten by the next append."""
        count = self._path.stat().st_size // self._dtype.itemsize
        if count:
            self._records = np.memmap(self._path, dtype=self._dtype, mode="r", shape=(count,))

    def _sort(self, rows: NDArray[np.int64]) -> None:
        keys = self._records["key"][rows]
        order = np.argsort(keys, kind="stable")
        self._sorted_keys, self._sorted_rows, self._unsorted_rows = keys[order], rows[order], {}


def log_path(folder: Path, space_id: str) -> Path:
    return folder / BACKFILLS / space_file_name(space_id, "vectors").replace(".arrow", ".log")


def remove_log(folder: Path, space_id: str) -> None:
    """Remove the log of a space that is complete or removed."""
    log_path(folder, space_id).unlink(missing_ok=True)


def _key_array(keys: Sequence[bytes]) -> NDArray[Any]:
    # numpy strips trailing zero bytes of such strings on both sides of a comparison; keys all have one length.
    return np.frombuffer(b"".join(keys), dtype=f"S{KEY_BYTES}")


def _checksums(records: NDArray[Any]) -> NDArray[np.uint64]:
    ends = records.dtype.itemsize - 8
    return np.fromiter(
        (xxhash.xxh3_64_intdigest(record.tobytes()[:ends]) for record in records), np.uint64, len(records)
    )
