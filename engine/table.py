"""Arrow files of several batches, read row by row from the map without making Arrow scalars where it matters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine.arrow import ArrowFile
from aidre.engine.schema import BATCH_ROWS


class Bytes:
    """A column of strings or bytes without nulls, read row by row from the map without making Arrow scalars."""

    def __init__(self, file: ArrowFile, name: str) -> None:
        place = file.schema.get_field_index(name)
        self._parts = [_string_views(batch.column(place)) for batch in file.batches]

    def __getitem__(self, row: int) -> bytes:
        offsets, data = self._parts[row // BATCH_ROWS]
        place = row % BATCH_ROWS
        return data[offsets[place] : offsets[place + 1]].tobytes()


def _string_views(column: pa.Array) -> tuple[NDArray[np.int64], memoryview]:
    _, offsets, data = column.buffers()
    rows = np.frombuffer(offsets, dtype=np.int64)[column.offset : column.offset + len(column) + 1]
    return rows, memoryview(data) if data is not None else memoryview(b"")


class Fixed:
    """A column of byte strings of one length, read like Bytes."""

    def __init__(self, file: ArrowFile, name: str) -> None:
        place = file.schema.get_field_index(name)
        self._width = file.schema.field(place).type.byte_width
        self._parts = [memoryview(batch.column(place).buffers()[1]) for batch in file.batches]

    def __getitem__(self, row: int) -> bytes:
        start = row % BATCH_ROWS * self._width
        return self._parts[row // BATCH_ROWS][start : start + self._width].tobytes()


class Table:
    """A file of several batches of BATCH_ROWS rows, read by row."""

    def __init__(self, file: ArrowFile) -> None:
        self.file = file
        self._bytes: dict[str, Bytes] = {}
        self._fixed: dict[str, Fixed] = {}

    def bytes(self, name: str) -> Bytes:
        column = self._bytes.get(name)
        if column is None:
            column = self._bytes[name] = Bytes(self.file, name)
        return column

    def fixed(self, name: str) -> Fixed:
        column = self._fixed.get(name)
        if column is None:
            column = self._fixed[name] = Fixed(self.file, name)
        return column

    def value(self, name: str, row: int) -> Any:
        return self.file.batches[row // BATCH_ROWS].column(name)[row % BATCH_ROWS].as_py()

    def numbers(self, name: str) -> NDArray[Any]:
        """A numeric column as one array (a copy where the file has several batches)."""
        return np.asarray(self.chunked(name).to_numpy())

    def chunked(self, name: str) -> pa.ChunkedArray:
        place = self.file.schema.get_field_index(name)
        columns = [batch.column(place) for batch in self.file.batches]
        return pa.chunked_array(columns, type=self.file.schema.field(place).type)
