"""Arrow IPC files: written in one pass, opened by memory map, checked against their FileEntry.

The *frame* of a file is everything but the bodies of its record batches: the schema, the header of each batch, the
footer. A flipped bit in the frame can move a column, so the frame is checked on every open. The bodies of derived files
and tombstones are checked on every open too; those of documents, chunks and vectors only before a merge copies them,
and by `verify`, the scrub and backups. Knows no column by name.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Collection, Iterable, Sequence, Sized
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from aidre.engine.errors import StorageFailed
from aidre.engine.storage.durable import write_failure

_MAGIC_BYTES = 8
"""Bytes before the first message: "ARROW1" and two of padding."""
_PREFIX = struct.Struct("<Ii")
"""Before each message: the continuation marker 0xFFFFFFFF and the length of the metadata."""
_CHECKSUM_BLOCK_BYTES = 1 << 24
MAX_COUNT = 1 << 53
"""Counts, sizes and offsets are far below it; their sums fit a signed 64-bit integer."""
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=MAX_COUNT)]


class _Kernels:
    def __getattr__(self, name: str) -> Any:
        import pyarrow.compute

        function = getattr(pyarrow.compute, name)
        setattr(self, name, function)  # found without this method from now on
        return function


kernels: Final[Any] = _Kernels()
"""Arrow's compute functions, imported at the first use: that takes a tenth of a second, and a search needs none.
Untyped, since their stubs reject arrays of `Any`."""


class FileProblem(Exception):
    """Why a file cannot be trusted, in a few words; the caller decides whether that is damage or can be bypassed."""


class FileMissing(FileProblem):
    """There is no such file."""


class FileUnreadable(FileProblem):
    """The operating system could not read the file."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file as a manifest describes it: size in bytes, xxh3-128 (hex) of the whole file and of its frame.

    `frame` lists the (offset, length) pairs outside the bodies of the batches.
    """

    size: Count
    checksum: str
    frame: tuple[tuple[Count, Count], ...]
    frame_checksum: str


@dataclass(frozen=True, slots=True)
class ArrowFile:
    """An open IPC file. Its batches point into the memory map, which lives as long as anything made from them."""

    schema: pa.Schema
    batches: tuple[pa.RecordBatch, ...]

    @property
    def rows(self) -> int:
        return sum(batch.num_rows for batch in self.batches)


# -- write -------------------------------------------------------------------------------------------------------


class ArrowWriter:
    """Writes one IPC file batch by batch and records where the frame lies. `close` returns the FileEntry."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        try:
            # Never in place: a file that an interrupted writer left under this name may be read-only, or mapped.
            path.unlink(missing_ok=True)
            self._sink = pa.OSFile(str(path), "wb")
        except OSError as error:
            raise write_failure(path, error) from error
        self._writer = pa.ipc.new_file(self._sink, schema)
        self._starts: list[int] = []

    def write(self, batch: pa.RecordBatch) -> None:
        try:
            self._starts.append(self._sink.tell())
            self._writer.write_batch(batch)
        except OSError as error:
            raise write_failure(self._path, error) from error

    def close(self) -> FileEntry:
        try:
            end = self._sink.tell()
            self._writer.close()
            self._sink.close()
            return describe(self._path, self._starts, end)
        except OSError as error:
            raise write_failure(self._path, error) from error
        except FileProblem as problem:
            raise StorageFailed(f"{self._path.name} was written and {problem}", file=self._path.name) from problem

    def abandon(self) -> None:
        """Close the file without a footer, and remove it."""
        with suppress(OSError):
            self._sink.close()
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


def write_file(path: Path, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> FileEntry:
    """Write a whole file; not synced yet. StorageFailed, and nothing stays of it."""
    writer = ArrowWriter(path, schema)
    try:
        for batch in batches:
            writer.write(batch)
        return writer.close()
    except BaseException:
        writer.abandon()
        raise


def describe(path: Path, starts: list[int], end: int) -> FileEntry:
    """The FileEntry of a finished file whose batches begin at `starts` and whose footer begins at `end`."""
    data = map_file(path)
    # The writer emits the schema with the first batch: the first batch begins where the schema ends.
    first = _MAGIC_BYTES + _PREFIX.size + _PREFIX.unpack_from(data.data, _MAGIC_BYTES)[1]
    spans = [(0, first)]
    for start in (max(start, first) for start in starts):
        continuation, length = _PREFIX.unpack_from(data.data, start)
        if continuation != 0xFFFFFFFF:
            raise FileProblem("a record batch does not begin with a message")
        spans.append((start, _PREFIX.size + length))
    spans.append((end, len(data) - end))
    frame = tuple(spans)
    return FileEntry(len(data), checksum_of(data), frame, _frame_checksum(data, frame))


# -- check and open ----------------------------------------------------------------------------------------------


def check_file(path: Path, entry: FileEntry, *, whole: bool) -> NDArray[np.uint8]:
    """The bytes of a file as a memory map, if size and checksum match: that of the whole file, or of its frame alone.

    FileProblem.
    """
    data = map_file(path)
    check_bytes(data, entry, whole=whole)
    return data


def check_bytes(data: NDArray[np.uint8], entry: FileEntry, *, whole: bool) -> None:
    """Compare the bytes of a file with its entry, as `check_file` does. FileProblem."""
    size = len(data)
    if size != entry.size:
        raise FileProblem(f"has {size} bytes instead of {entry.size}")
    if any(offset < 0 or length < 0 or offset + length > size for offset, length in entry.frame):
        raise FileProblem("has a frame outside the file")
    if whole and checksum_of(data) != entry.checksum:
        raise FileProblem("does not have the checksum that was recorded")
    if not whole and _frame_checksum(data, entry.frame) != entry.frame_checksum:
        raise FileProblem("has a header or footer that was altered")


def open_file(path: Path, entry: FileEntry, *, whole: bool = False) -> ArrowFile:
    """Check a file and open it by memory map, without a copy; a whole one with all offsets in it. FileProblem."""
    return open_bytes(check_file(path, entry, whole=whole), whole=whole)


def check_offsets(file: ArrowFile) -> None:
    """Check the offsets of strings, which Arrow trusts as memory, and not their bytes: 8 bytes a value are read. For a
    file of data, whose content is not read when it is opened. FileProblem."""
    try:
        for batch in file.batches:
            for column in batch.columns:
                if pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type):
                    column.view(pa.large_binary()).validate(full=True)
    except pa.ArrowException as error:
        raise FileProblem("holds offsets or lengths that point outside of it") from error


def check_arrived(path: Path, entry: FileEntry) -> None:
    """Check a file that somebody else may have written: its checksum, which proves that it is whole and not whose it
    is, and every offset and length in it, which Arrow trusts as memory. FileProblem."""
    open_file(path, entry, whole=True)


def open_bytes(data: NDArray[np.uint8], *, whole: bool = False) -> ArrowFile:
    """Open the bytes of a file, without a copy, and check the lengths of its buffers; of a `whole` one all offsets and
    indices. FileProblem."""
    try:
        # Not pa.memory_map: Arrow hands the reading of a file to a thread of its own, but reads a buffer at once.
        reader = pa.ipc.open_file(pa.BufferReader(pa.py_buffer(data)))
        batches = tuple(reader.get_batch(number) for number in range(reader.num_record_batches))
        schema, _ = reader.schema, reader.schema.names  # the names must be UTF-8
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise FileProblem("is not an Arrow file") from error
    try:
        for batch in batches:
            batch.validate(full=whole)
    except pa.ArrowException as error:
        raise FileProblem("holds offsets or lengths that point outside of it") from error
    return ArrowFile(schema, batches)


def check_columns(file: ArrowFile, expected: pa.Schema, optional: Collection[str] = ()) -> None:
    """FileProblem where a column is missing or of another type, but for an optional one that is missing."""
    found = dict(zip(file.schema.names, file.schema.types, strict=True))
    for name, kind in zip(expected.names, expected.types, strict=True):
        if name not in found and name not in optional:
            raise FileProblem(f"lacks the column {name}")
        if name in found and found[name] != kind:
            raise FileProblem(f"has the column {name} of another type")


def list_columns(schema: pa.Schema, values: Sequence[Any]) -> list[pa.Array]:
    """The columns of a batch of one row, whose values are lists."""
    columns = []
    for column, lists in zip(schema, values, strict=True):
        flat = lists if isinstance(lists, pa.Array) else pa.array(lists, column.type.value_type)
        columns.append(pa.LargeListArray.from_arrays(pa.array([0, len(flat)], pa.int64()), flat, type=column.type))
    return columns


def list_array(column: pa.Array) -> pa.Array:
    """The values of a list column that has one row, as a view. ValueError where the list is null, or no part of the
    values."""
    values = column.values
    first, last = (int(column.offsets[place].as_py()) for place in (0, 1)) if len(column) else (0, -1)
    if column.null_count or not 0 <= first <= last <= len(values):
        raise ValueError("holds no list")
    return values.slice(first, last - first)


def list_values(column: pa.Array) -> NDArray[Any]:
    """The same as a numpy view."""
    return np.asarray(list_array(column).to_numpy(zero_copy_only=True))


def check_rows(rows: NDArray[Any], count: int) -> None:
    """Raises ValueError where a value is not below `count`, the number of rows that it may name."""
    if len(rows) and int(rows.max()) >= count:
        raise ValueError("names rows that do not exist")


def check_lengths(*arrays: Sized) -> None:
    """Raises ValueError where arrays differ in length."""
    if len({len(array) for array in arrays}) > 1:
        raise ValueError("has lists of different lengths")


def checksum_of(data: NDArray[np.uint8]) -> str:
    digest = xxhash.xxh3_128()
    for start in range(0, len(data), _CHECKSUM_BLOCK_BYTES):
        digest.update(data[start : start + _CHECKSUM_BLOCK_BYTES].data)
    return digest.hexdigest()


def _frame_checksum(data: NDArray[np.uint8], frame: tuple[tuple[int, int], ...]) -> str:
    digest = xxhash.xxh3_128()
    for offset, length in frame:
        digest.update(data[offset : offset + length].data)
    return digest.hexdigest()


def map_file(path: Path) -> NDArray[np.uint8]:
    """The bytes of a file as a memory map; an empty array for an empty file, which cannot be mapped. FileProblem."""
    try:
        with path.open("rb", buffering=0) as file:
            if not os.fstat(file.fileno()).st_size:
                return np.empty(0, np.uint8)
            return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    except FileNotFoundError as error:
        raise FileMissing("is missing") from error
    except OSError as error:
        raise FileUnreadable(f"cannot be read: {error.strerror or error}") from error
