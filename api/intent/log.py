"""The event log: append-only segments of JSON Lines in the store, shared by all workers, rotated and never rewritten.

One lock orders the writers.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
import xxhash

from aidre.engine.durable import make_folder, storage_errors, sync_folder
from aidre.engine.errors import StorageFailed

FOLDER = "events"
LOCK = "LOCK"
SUFFIX = ".jsonl"
PRIVATE, FULL = 0o600, 0o400
SEGMENT_BYTES = 67_108_864
_PIECE = 1 << 20


class EventLog:
    """Appends for one process. Not for several threads at once; opens nothing before it is first used.

    `number` is that of the segment that is open, `distrusted` that of one that could not be synced.
    """

    def __init__(self, folder: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.folder = folder
        self._segment_bytes = segment_bytes
        self._lock = -1
        self._file = -1
        self.number = 0
        self._next = os.fspath(folder / _name(1))
        self.distrusted = 0
        self._end = 0

    def append(self, lines: Sequence[bytes]) -> None:
        """Writes complete lines, all or none, and returns when they are on disk. StorageFailed."""
        with self.alone():
            self.write(lines)
        self.sync()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keeps the other workers from writing; inside, the newest segment is open. StorageFailed."""
        with storage_errors(self.folder):
            if self._lock < 0:
                make_folder(self.folder)
                self._lock = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            with storage_errors(self.folder):
                self._at_the_end()
            yield
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def write(self, lines: Sequence[bytes]) -> None:
        """Writes complete lines, all or none, while this process is alone; not on disk before `sync`. StorageFailed."""
        with storage_errors(self.folder):
            size = os.fstat(self._file).st_size
            try:
                self._write(b"".join(lines), size)
            except BaseException:
                with suppress(OSError):
                    os.ftruncate(self._file, size)  # nobody stands behind it
                raise

    def _write(self, content: bytes, size: int) -> None:
        if size not in {0, self._end} and os.pread(self._file, 1, size - 1) != b"\n":
            content = b"\n" + content  # another process died within its line
        self._end = size + len(content)
        written = 0
        while written < len(content):
            written += os.write(self._file, content[written:])

    def sync(self) -> None:
        """Returns when all that was written is on disk. StorageFailed."""
        with storage_errors(self.folder):
            try:
                os.fdatasync(self._file)
            except OSError:
                self.distrusted = self.number  # what a failed fsync left behind, a later one does not repair
                raise

    def _at_the_end(self) -> None:
        """Opens the newest segment, and begins another one where that is full."""
        if self._file < 0:
            self._open(newest_segment(self.folder))
        while os.access(self._next, os.F_OK):  # another worker has gone on
            self._open(self.number + 1)
        if self.number == self.distrusted:
            self._open(self.number + 1)
        elif os.fstat(self._file).st_size >= self._segment_bytes:
            self.sync()  # for good: the next syncs are of another file
            self._open(self.number + 1)
            (self.folder / _name(self.number - 1)).chmod(FULL)

    def _open(self, number: int) -> None:
        path = self.folder / _name(number)
        fresh = not path.exists()
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
        if fresh:
            sync_folder(self.folder)
        if self._file >= 0:
            os.close(self._file)
        self._file, self.number, self._next = file, number, os.fspath(self.folder / _name(number + 1))
        self._end = 0

    def close(self) -> None:
        for descriptor in (self._file, self._lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._lock = -1


def line_of(event: Mapping[str, Any]) -> bytes:
    return orjson.dumps(event) + b"\n"


def read_events(folder: Path, noted: Iterable[bytes] = ()) -> Iterator[dict[str, Any]]:
    """The events in the order of their lines, and after them what was noted and is not in the log (any more).

    A line that a dying writer left torn is none. `noted` is read first, else what is struck meanwhile is in neither.
    """
    missing = dict.fromkeys(noted)
    for line in _lines(folder):
        missing.pop(line, None)
        yield from _events(line)
    for line in missing:
        yield from _events(line)


def _events(line: bytes) -> Iterator[dict[str, Any]]:
    with suppress(orjson.JSONDecodeError):
        event = orjson.loads(line)
        if type(event) is dict:
            yield event


def _lines(folder: Path, since: int = 1) -> Iterator[bytes]:
    for number in _numbers(folder):
        if number >= since:
            with _reading(folder / _name(number)) as descriptor, os.fdopen(descriptor, "rb", closefd=False) as file:
                yield from file


@contextmanager
def _reading(path: Path) -> Iterator[int]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise StorageFailed(f"cannot read {path.name}: {error.strerror or error}", file=path.name) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def missing_lines(folder: Path, lines: Iterable[bytes], since: int) -> list[bytes]:
    """Those that stand in no segment from that one on, in their order."""
    missing = dict.fromkeys(lines)
    for line in _lines(folder, since):
        missing.pop(line, None)
    return list(missing)


def content_mark(folder: Path, number: int, first: int, last: int | None = None) -> tuple[int, bytes]:
    """Where a part of a segment ends (with it, where no other end is given), and its checksum. StorageFailed."""
    digest, at = xxhash.xxh3_128(), first
    with _reading(folder / _name(number)) as descriptor:
        last = os.fstat(descriptor).st_size if last is None else last
        while piece := os.pread(descriptor, min(_PIECE, last - at), at):
            digest.update(piece)
            at += len(piece)
    return at, digest.digest()


def has_segment(folder: Path, number: int) -> bool:
    return (folder / _name(number)).exists()


def newest_segment(folder: Path) -> int:
    numbers = _numbers(folder)
    return numbers[-1] if numbers else 1


def _numbers(folder: Path) -> list[int]:
    return sorted(int(path.stem) for path in folder.glob(f"*{SUFFIX}") if path.stem.isdecimal())


def _name(number: int) -> str:
    return f"{number:06d}{SUFFIX}"
