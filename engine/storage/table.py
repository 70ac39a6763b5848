"""Row access to Arrow files of several batches, straight from the memory map.

Values are read through memoryviews, which yield plain integers and bytes. Arrow's scalars cost an object a value, and
they trust the offsets of a string column: an altered offset would end the process. A slice here ends where the
buffer ends.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine.storage.arrow import ArrowFile
from aidre.engine.storage.format import BATCH_ROWS


class StringBuffers(NamedTuple):
    """The buffers of one batch of a string or binary column: validity bitmap (None: no nulls), offsets, bytes."""

    valid: memoryview | None
    offsets: memoryview
    data: memoryview


class BytesColumn:
    """A column of strings or bytes, by row."""

    def __init__(self, file: ArrowFile, name: str) -> None:
        field = file.schema.get_field_index(name)
        self._batches = [_string_buffers(batch.column(field)) for batch in file.batches]

    def __getitem__(self, row: int) -> bytes:
        _, offsets, data = self._batches[row // BATCH_ROWS]
        index = row % BATCH_ROWS
        return data[offsets[index] : offsets[index + 1]].tobytes()

    def get(self, row: int) -> bytes | None:
        """The value, None where it is null."""
        valid, index = self._batches[row // BATCH_ROWS].valid, row % BATCH_ROWS
        return self[row] if valid is None or valid[index >> 3] >> (index & 7) & 1 else None


class FixedColumn:
    """A column of byte strings of one length, by row. Nulls are not distinguished."""

    def __init__(self, file: ArrowFile, name: str) -> None:
        field = file.schema.get_field_index(name)
        self._width = file.schema.field(field).type.byte_width
        self._batches = [memoryview(batch.column(field).buffers()[1]) for batch in file.batches]

    def __getitem__(self, row: int) -> bytes:
        start = row % BATCH_ROWS * self._width
        return self._batches[row // BATCH_ROWS][start : start + self._width].tobytes()


class IntegerColumn:
    """A column of integers of 32 or 64 bits, by row."""

    def __init__(self, file: ArrowFile, name: str) -> None:
        field = file.schema.get_field_index(name)
        width = file.schema.field(field).type.bit_width
        self._batches = [_integer_buffers(batch.column(field), width) for batch in file.batches]

    def get(self, row: int) -> int | None:
        """The value, None where it is null."""
        (valid, numbers), index = self._batches[row // BATCH_ROWS], row % BATCH_ROWS
        return numbers[index] if valid is None or valid[index >> 3] >> (index & 7) & 1 else None


class Table:
    """An Arrow file whose batches have BATCH_ROWS rows each, the last one fewer."""

    def __init__(self, file: ArrowFile) -> None:
        self.file = file
        self._bytes: dict[str, BytesColumn] = {}
        self._fixed: dict[str, FixedColumn] = {}
        self._integers: dict[str, IntegerColumn] = {}
        self._names = frozenset(file.schema.names)
        self._integer_names = frozenset(field.name for field in file.schema if pa.types.is_integer(field.type))
        self._string_names = frozenset(field.name for field in file.schema if pa.types.is_large_string(field.type))
        self._binary_names = frozenset(field.name for field in file.schema if pa.types.is_large_binary(field.type))

    def has(self, name: str) -> bool:
        return name in self._names

    def bytes(self, name: str) -> BytesColumn:
        column = self._bytes.get(name)
        if column is None:
            column = self._bytes[name] = BytesColumn(self.file, name)
        return column

    def fixed(self, name: str) -> FixedColumn:
        column = self._fixed.get(name)
        if column is None:
            column = self._fixed[name] = FixedColumn(self.file, name)
        return column

    def integers(self, name: str) -> IntegerColumn:
        column = self._integers.get(name)
        if column is None:
            column = self._integers[name] = IntegerColumn(self.file, name)
        return column

    def raw(self, name: str) -> list[tuple[Any, Any]]:
        """Offsets (int64) and bytes of a string or binary column, batch by batch, for the hottest readers.

        A slice of the bytes is a `bytes` object. Neither keeps the file mapped: keep the table as long.
        """
        field = self.file.schema.get_field_index(name)
        return [_raw_buffers(*batch.column(field).buffers()[1:]) for batch in self.file.batches]

    def buffers(self, name: str) -> list[tuple[NDArray[np.int64], NDArray[np.uint8]]]:
        """Offsets and bytes of a string or binary column, batch by batch, as arrays that keep the file mapped."""
        field = self.file.schema.get_field_index(name)
        return [_arrays(batch.column(field)) for batch in self.file.batches]

    def arrays(self, name: str) -> list[NDArray[np.uint8]]:
        """The bytes of a column of one width, batch by batch, as arrays that keep the file mapped."""
        field = self.file.schema.get_field_index(name)
        return [np.frombuffer(batch.column(field).buffers()[1], np.uint8) for batch in self.file.batches]

    def value(self, name: str, row: int) -> Any:
        """The value as a Python object, None where it is null."""
        if name in self._integer_names:
            return self.integers(name).get(row)
        if name in self._binary_names:
            return self.bytes(name).get(row)
        if name in self._string_names:
            value = self.bytes(name).get(row)
            return None if value is None else value.decode()
        return self.file.batches[row // BATCH_ROWS].column(name)[row % BATCH_ROWS].as_py()

    def numbers(self, name: str) -> NDArray[Any]:
        """A numeric column as one array of shape (rows,); a copy where the file has several batches."""
        return np.asarray(self.chunked(name).to_numpy())

    def chunked(self, name: str) -> pa.ChunkedArray:
        field = self.file.schema.get_field_index(name)
        columns = [batch.column(field) for batch in self.file.batches]
        return pa.chunked_array(columns, type=self.file.schema.field(field).type)


def _string_buffers(column: pa.Array) -> StringBuffers:
    valid, offsets, data = column.buffers()
    rows = memoryview(offsets).cast("q")[: len(column) + 1]
    return StringBuffers(
        None if valid is None else memoryview(valid), rows, memoryview(data if data is not None else b"")
    )


def _arrays(column: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    _, offsets, data = column.buffers()
    rows = np.frombuffer(offsets, np.int64)[: len(column) + 1]
    return rows, np.frombuffer(b"" if data is None else data, np.uint8)


def _integer_buffers(column: pa.Array, width: int) -> tuple[memoryview | None, memoryview]:
    valid, data = column.buffers()
    numbers = memoryview(data if data is not None else b"").cast("B").cast("q" if width == 64 else "i")
    return memoryview(valid) if valid is not None else None, numbers


def _raw_buffers(*buffers: pa.Buffer | None) -> tuple[Any, Any]:
    """A slice of a ctypes array is `bytes` in one step; a slice of a memoryview takes two."""
    *before, content = buffers
    offsets = memoryview(before[0]).cast("q") if before and before[0] is not None else None
    return offsets, b"" if content is None else (ctypes.c_char * content.size).from_address(content.address)
