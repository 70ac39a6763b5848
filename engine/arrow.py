"""Arrow IPC files: written in one pass, opened by memory map, checked against their FileEntry.

Knows no column by name. The *frame* of a file is everything but the bodies of its record batches: the
schema, each batch's header, the footer. A flipped bit there can move a column; it is checked on every open,
bodies of data files only by `verify`.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from aidre.engine.durable import storage_errors

_MAGIC_BYTES = 8
_PREFIX = struct.Struct("<Ii")
_BLOCK = 1 << 24


class FileProblem(Exception):
    """Why a file cannot be trusted, in a few words; the caller decides whether that is damage or a detour."""


class Unreadable(FileProblem):
    """The disk refuses to say what is in it."""


_BEYOND = 1 << 63
"""No place in a file."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """What a manifest knows of a file: size in bytes, xxh3-128 of the whole and of its frame (hex).

    `frame` lists the (offset, length) pairs outside the bodies of the batches.
    """

    size: int
    checksum: str
    frame: tuple[tuple[int, int], ...]
    frame_checksum: str

    def to_json(self) -> dict[str, Any]:
        return {
            "size": self.size,
            "checksum": self.checksum,
            "frame": [list(part) for part in self.frame],
            "frame_checksum": self.frame_checksum,
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> FileEntry:
        """ValueError where a place in a file is none."""
        frame = tuple((int(offset), int(length)) for offset, length in value["frame"])
        if not all(0 <= place < _BEYOND for part in frame for place in part):
            raise ValueError("frame")
        return FileEntry(int(value["size"]), str(value["checksum"]), frame, str(value["frame_checksum"]))


class ArrowWriter:
    """Writes one IPC file batch by batch, remembering where the frame lies. Close it to get the FileEntry."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        with storage_errors(path):
            # Never in place: what an interrupted writer left under this name may be read-only, or mapped.
            path.unlink(missing_ok=True)
            self._sink = pa.OSFile(str(path), "wb")
        self._writer = pa.ipc.new_file(self._sink, schema)
        self._starts: list[int] = []

    def write(self, batch: pa.RecordBatch) -> None:
        with storage_errors(self._path):
            self._starts.append(self._sink.tell())
            self._writer.write_batch(batch)

    def close(self) -> FileEntry:
        with storage_errors(self._path):
            end = self._sink.tell()
            self._writer.close()
            self._sink.close()
            return describe(self._path, self._starts, end)

    def abandon(self) -> None:
        self._sink.close()


def write_file(path: Path, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> FileEntry:
    writer = ArrowWriter(path, schema)
    try:
        for batch in batches:
            writer.write(batch)
    except BaseException:
        writer.abandon()
        raise
    return writer.close()


def describe(path: Path, starts: list[int], end: int) -> FileEntry:
    """The FileEntry of a finished file whose batches begin at `starts` and whose footer begins at `end`."""
    data = _bytes_of(path)
    # The writer puts the schema down together with the first batch: that batch begins behind the schema.
    first = _MAGIC_BYTES + _PREFIX.size + _PREFIX.unpack_from(data.data, _MAGIC_BYTES)[1]
    frame = [(0, first)]
    for start in (max(start, first) for start in starts):
        continuation, length = _PREFIX.unpack_from(data.data, start)
        if continuation != 0xFFFFFFFF:
            raise FileProblem("a record batch does not begin with a message")
        frame.append((start, _PREFIX.size + length))
    frame.append((end, len(data) - end))
    parts = tuple(frame)
    return FileEntry(len(data), whole_checksum(data), parts, _frame_checksum(data, parts))


def whole_checksum(data: NDArray[np.uint8]) -> str:
    digest = xxhash.xxh3_128()
    for start in range(0, len(data), _BLOCK):
        digest.update(data[start : start + _BLOCK].data)
    return digest.hexdigest()


def _frame_checksum(data: NDArray[np.uint8], frame: tuple[tuple[int, int], ...]) -> str:
    digest = xxhash.xxh3_128()
    for offset, length in frame:
        digest.update(data[offset : offset + length].data)
    return digest.hexdigest()


def _bytes_of(path: Path) -> NDArray[np.uint8]:
    with path.open("rb", buffering=0) as file:
        if not os.fstat(file.fileno()).st_size:
            return np.empty(0, np.uint8)
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)


def check(path: Path, entry: FileEntry, *, whole: bool) -> None:
    """Raise FileProblem unless the file has the size and the checksum (of the frame, or of the whole)."""
    try:
        size = path.stat().st_size
        data = _bytes_of(path)
    except FileNotFoundError as error:
        raise FileProblem("is missing") from error
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror or error}") from error
    if size != entry.size:
        raise FileProblem(f"has {size} bytes instead of {entry.size}")
    if any(offset < 0 or length < 0 or offset + length > size for offset, length in entry.frame):
        raise FileProblem("has a frame outside the file")
    if whole and whole_checksum(data) != entry.checksum:
        raise FileProblem("does not have the checksum that was recorded")
    if not whole and _frame_checksum(data, entry.frame) != entry.frame_checksum:
        raise FileProblem("has a header or footer that was altered")


@dataclass(frozen=True, slots=True)
class ArrowFile:
    """An open IPC file: its batches point into the map, so keep this object as long as anything made from it."""

    schema: pa.Schema
    batches: tuple[pa.RecordBatch, ...]
    source: pa.MemoryMappedFile

    @property
    def rows(self) -> int:
        return sum(batch.num_rows for batch in self.batches)


def open_file(path: Path, entry: FileEntry, *, whole: bool = False) -> ArrowFile:
    """Open a file by memory map after checking it. Copies nothing. Raises FileProblem."""
    check(path, entry, whole=whole)
    try:
        source = pa.memory_map(str(path), "r")
    except OSError as error:
        raise Unreadable(f"cannot be read: {error}") from error
    try:
        reader = pa.ipc.open_file(source)
        batches = tuple(reader.get_batch(number) for number in range(reader.num_record_batches))
    except (OSError, pa.ArrowInvalid) as error:
        raise FileProblem("is not an Arrow file") from error
    return ArrowFile(reader.schema, batches, source)


def list_view(column: pa.Array) -> NDArray[Any]:
    """The values of a list column with one row, as a numpy view."""
    return np.asarray(column.flatten().to_numpy(zero_copy_only=True))
