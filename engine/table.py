"""Arrow files of several batches, read row by row from the map without making Arrow scalars where it matters."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine.arrow import ArrowFile
from aidre.engine.schema import BATCH_ROWS


class Strings(NamedTuple):
    """Strings or bytes of one batch. A memoryview yields plain integers and bytes, which numpy would wrap."""

    valid: memoryview | None
    offsets: memoryview
    data: memoryview


class Bytes:
    """A column of strings or bytes, read row by row from the map.

    Slices end where the file ends, whatever its offsets say; Arrow's own scalars trust them, and an altered
    offset ends the process.
    """

    def __init__(self, file: ArrowFile, name: str) -> None:
        place = file.schema.get_field_index(name)
        self.parts = [_strings(batch.column(place)) for batch in file.batches]

    def __getitem__(self, row: int) -> bytes:
        _, offsets, data = self.parts[row // BATCH_ROWS]
        place = row % BATCH_ROWS
        return data[offsets[place] : offsets[place + 1]].tobytes()

    def get(self, row: int) -> bytes | None:
        """The value, None where it is null."""
        valid, place = self.parts[row // BATCH_ROWS].valid, row % BATCH_ROWS
        return self[row] if valid is None or valid[place >> 3] >> (place & 7) & 1 else None


def _offsets_and_content(*buffers: pa.Buffer | None) -> tuple[Any, Any]:
    """The last is the content. As ctypes has it a slice is bytes in one step; of a memoryview it takes two."""
    *before, content = buffers
    offsets = memoryview(before[0]).cast("q") if before and before[0] is not None else None
    return offsets, b"" if content is None else (ctypes.c_char * content.size).from_address(content.address)


def _strings(column: pa.Array) -> Strings:
    valid, offsets, data = column.buffers()
    rows = memoryview(offsets).cast("q")[: len(column) + 1]
    return Strings(None if valid is None else memoryview(valid), rows, memoryview(data if data is not None else b""))


class Fixed:
    """A column of byte strings of one length, read like Bytes."""

    def __init__(self, file: ArrowFile, name: str) -> None:
        place = file.schema.get_field_index(name)
        self._width = file.schema.field(place).type.byte_width
        self.parts = [memoryview(batch.column(place).buffers()[1]) for batch in file.batches]

    def __getitem__(self, row: int) -> bytes:
        start = row % BATCH_ROWS * self._width
        return self.parts[row // BATCH_ROWS][start : start + self._width].tobytes()


class Integers:
    """A column of whole numbers of 32 or 64 bits, read like Bytes."""

    def __init__(self, file: ArrowFile, name: str) -> None:
        place = file.schema.get_field_index(name)
        width = file.schema.field(place).type.bit_width
        self._parts = [_number_views(batch.column(place), width) for batch in file.batches]

    def get(self, row: int) -> int | None:
        """The value, None where it is null."""
        (valid, numbers), place = self._parts[row // BATCH_ROWS], row % BATCH_ROWS
        return numbers[place] if valid is None or valid[place >> 3] >> (place & 7) & 1 else None


def _number_views(column: pa.Array, width: int) -> tuple[memoryview | None, memoryview]:
    valid, data = column.buffers()
    numbers = memoryview(data if data is not None else b"").cast("B").cast("q" if width == 64 else "i")
    return memoryview(valid) if valid is not None else None, numbers


class Table:
    """A file of several batches of BATCH_ROWS rows, read by row."""

    def __init__(self, file: ArrowFile) -> None:
        self.file = file
        self._bytes: dict[str, Bytes] = {}
        self._fixed: dict[str, Fixed] = {}
        self._integers: dict[str, Integers] = {}
        self._whole = frozenset(field.name for field in file.schema if pa.types.is_integer(field.type))
        self._strings = frozenset(field.name for field in file.schema if pa.types.is_large_string(field.type))
        self._blobs = frozenset(field.name for field in file.schema if pa.types.is_large_binary(field.type))

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

    def integers(self, name: str) -> Integers:
        column = self._integers.get(name)
        if column is None:
            column = self._integers[name] = Integers(self.file, name)
        return column

    def plain(self, name: str) -> list[tuple[Any, Any]]:
        """Offsets and content of a column, batch by batch. Slices of the content are bytes at once and end where the
        file ends; they hold no reference to the table."""
        place = self.file.schema.get_field_index(name)
        return [_offsets_and_content(*batch.column(place).buffers()[1:]) for batch in self.file.batches]

    def value(self, name: str, row: int) -> Any:
        if name in self._whole:
            return self.integers(name).get(row)
        if name in self._blobs:
            return self.bytes(name).get(row)
        if name in self._strings:
            value = self.bytes(name).get(row)
            return None if value is None else value.decode()
        return self.file.batches[row // BATCH_ROWS].column(name)[row % BATCH_ROWS].as_py()

    def numbers(self, name: str) -> NDArray[Any]:
        """A numeric column as one array (a copy where the file has several batches)."""
        return np.asarray(self.chunked(name).to_numpy())

    def chunked(self, name: str) -> pa.ChunkedArray:
        place = self.file.schema.get_field_index(name)
        columns = [batch.column(place) for batch in self.file.batches]
        return pa.chunked_array(columns, type=self.file.schema.field(place).type)
