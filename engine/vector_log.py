"""Vectors by embedding key, appended as they are made, so that a fill of many hours loses none when it is interrupted.

One file of records of one size, each with its own checksum: what a power cut tore is left out, wherever it stands.
No manifest names it; it goes when the space that it is for is complete.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from aidre.engine import durable
from aidre.engine.model import EmbeddingSpace, Encoded
from aidre.engine.schema import FILLING, KEY_BYTES, space_file_name
from aidre.engine.vectors import dtype_of

_RECENT = 1 << 16


class VectorLog:
    """The log of one space in the collection at `folder`. Use it under the writer's lock."""

    def __init__(self, folder: Path, space: EmbeddingSpace) -> None:
        self._path = log_path(folder, space.id)
        self._record = np.dtype(
            [
                ("key", f"S{KEY_BYTES}"),
                ("norm", np.float32),
                ("codes", dtype_of(space), (space.dimensions,)),
                ("checksum", np.uint64),
            ]
        )
        self._records: NDArray[Any] = np.empty(0, self._record)
        self._sorted: NDArray[Any] = np.empty(0, self._record["key"])
        self._places = np.empty(0, dtype=np.int64)
        self._recent: dict[bytes, int] = {}
        self._open()

    def find(self, keys: Sequence[bytes]) -> NDArray[np.int64]:
        """Where each key stands in the log, -1 where it does not: for `take`."""
        wanted = _array(keys)
        found = np.full(len(wanted), -1, dtype=np.int64)
        if len(self._sorted):
            at = np.minimum(np.searchsorted(self._sorted, wanted), len(self._sorted) - 1)
            known = self._sorted[at] == wanted
            found[known] = self._places[at[known]]
        for number in np.flatnonzero(found < 0).tolist():
            found[number] = self._recent.get(keys[number], -1)
        return found

    def take(self, places: NDArray[np.int64]) -> Encoded:
        records = self._records[places]
        return Encoded(np.ascontiguousarray(records["codes"]), np.ascontiguousarray(records["norm"]))

    def add(self, keys: Sequence[bytes], encoded: Encoded) -> None:
        """Append vectors under new keys; they are durable when this returns."""
        records = np.zeros(len(keys), self._record)
        records["key"] = _array(keys)
        records["norm"], records["codes"] = encoded.norms, encoded.codes
        records["checksum"] = _checksums(records)
        first = len(self._records)
        with durable.storage_errors(self._path), self._path.open("r+b") as file:
            file.seek(first * self._record.itemsize)
            file.write(records.tobytes())
            file.flush()
            os.fsync(file.fileno())
        self._map()
        self._recent.update((key, first + number) for number, key in enumerate(keys))
        if len(self._recent) > _RECENT:
            self._sort(np.concatenate([self._places, np.fromiter(self._recent.values(), dtype=np.int64)]))

    def _open(self) -> None:
        durable.make_folder(self._path.parent)
        with durable.storage_errors(self._path):
            self._path.touch()
            durable.sync_folder(self._path.parent)
        self._map()
        self._sort(np.flatnonzero(_checksums(self._records) == self._records["checksum"]))

    def _map(self) -> None:
        """Map the whole records; a torn one at the end is written over by the next."""
        count = self._path.stat().st_size // self._record.itemsize
        if count:
            self._records = np.memmap(self._path, dtype=self._record, mode="r", shape=(count,))

    def _sort(self, places: NDArray[np.int64]) -> None:
        keys = self._records["key"][places]
        order = np.argsort(keys, kind="stable")
        self._sorted, self._places, self._recent = keys[order], places[order], {}


def log_path(folder: Path, space_id: str) -> Path:
    return folder / FILLING / space_file_name(space_id, "vectors").replace(".arrow", ".log")


def remove_log(folder: Path, space_id: str) -> None:
    """Remove what was kept for a space that is complete, or gone."""
    log_path(folder, space_id).unlink(missing_ok=True)


def _array(keys: Sequence[bytes]) -> NDArray[Any]:
    # numpy leaves trailing zero bytes of such values out, on both sides of every comparison: keys have one length.
    return np.frombuffer(b"".join(keys), dtype=f"S{KEY_BYTES}")


def _checksums(records: NDArray[Any]) -> NDArray[np.uint64]:
    ends = records.dtype.itemsize - 8
    return np.fromiter(
        (xxhash.xxh3_64_intdigest(record.tobytes()[:ends]) for record in records), np.uint64, len(records)
    )
