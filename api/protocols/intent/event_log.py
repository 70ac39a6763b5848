"""The event log: append-only segments of JSON Lines that all workers share, rotated by size and never rewritten.

A lock file orders the writers. The ledger keeps checksums of the synced content (table `marks`), by which
`altered_segments` finds damage.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
import xxhash

from aidre.engine.errors import StorageFailed
from aidre.engine.storage import make_folder, sync_folder, write_errors

CHECKSUM_TABLE = """
CREATE TABLE IF NOT EXISTS marks (
    segment INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (segment, first)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS marks_checked ON marks (segment, first, checksum(last, content));
"""


def record_checksums(connection: sqlite3.Connection, folder: Path, unsynced_segment: int) -> None:
    """Record a checksum of everything appended since the last call, which must be on disk; skips `unsynced_segment`.

    For the log of an older release it starts at the newest segment. Raises StorageFailed and sqlite3.Error.
    """
    newest = newest_segment(folder)
    last = connection.execute("SELECT segment, last FROM marks ORDER BY segment DESC, first DESC LIMIT 1").fetchone()
    first_segment, first_offset = last or (newest, 0)
    for segment in range(first_segment, newest + 1):
        begin = first_offset if segment == first_segment else 0
        if segment != unsynced_segment and has_segment(folder, segment):
            end, checksum = checksum_range(folder, segment, begin)
            if end > begin:
                row = (segment, begin, end, checksum)
                connection.execute("INSERT OR REPLACE INTO marks VALUES (?, ?, ?, ?)", row)


def altered_segments(ledger: Path, folder: Path) -> Iterator[int]:
    """The segments whose content differs from its checksums; a deleted segment is not reported.

    Raises StorageFailed and sqlite3.Error.
    """
    if not ledger.exists():
        return
    with closing(sqlite3.connect(f"{ledger.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'marks'").fetchone() is None:
            return
        rows = connection.execute("SELECT segment, first, last, content FROM marks").fetchall()
    for number in sorted({segment for segment, *_ in rows if has_segment(folder, segment)}):
        ranges = [columns for segment, *columns in rows if segment == number]
        if any(checksum_range(folder, number, first, last) != (last, content) for first, last, content in ranges):
            yield number


EVENTS_FOLDER = "events"
LOCK_FILE = "LOCK"
SUFFIX = ".jsonl"
PRIVATE_MODE, SEALED_MODE = 0o600, 0o400
"""File modes: for the owner alone, and read-only for a full segment."""
SEGMENT_BYTES = 67_108_864
"""A segment of this size or more is full."""
_READ_BYTES = 1 << 20


class EventLog:
    """The writer of one process, for one thread at a time. It opens no file before its first use.

    `segment` is the number of the open segment, `unsynced_segment` that of the last one whose sync failed.
    """

    def __init__(self, folder: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.folder = folder
        self._segment_bytes = segment_bytes
        self._lock = -1
        self._file = -1
        self.segment = 0
        self._next_path = os.fspath(folder / _name(1))
        self.unsynced_segment = 0
        self._end = 0

    def append(self, lines: Sequence[bytes]) -> None:
        """Write complete lines, all or none, and return once they are on disk. Raises StorageFailed."""
        with self.locked():
            self.write(lines)
        self.sync()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other workers from writing; inside, the newest segment is open. Raises StorageFailed."""
        with write_errors(self.folder):
            if self._lock < 0:
                make_folder(self.folder)
                self._lock = os.open(self.folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_MODE)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            with write_errors(self.folder):
                self._open_newest()
            yield
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def write(self, lines: Sequence[bytes]) -> None:
        """Write complete lines, all or none, while `locked`; they are on disk after `sync`. Raises StorageFailed."""
        with write_errors(self.folder):
            size = os.fstat(self._file).st_size
            try:
                self._write(b"".join(lines), size)
            except BaseException:
                with suppress(OSError):
                    os.ftruncate(self._file, size)  # under the lock nothing was appended after it
                raise

    def _write(self, content: bytes, size: int) -> None:
        if size not in {0, self._end} and os.pread(self._file, 1, size - 1) != b"\n":
            content = b"\n" + content  # another process died in the middle of a line
        self._end = size + len(content)
        written = 0
        while written < len(content):
            written += os.write(self._file, content[written:])

    def sync(self) -> None:
        """Return once everything written is on disk. Raises StorageFailed."""
        with write_errors(self.folder):
            try:
                os.fdatasync(self._file)
            except OSError:
                self.unsynced_segment = self.segment  # a later fsync does not repair what a failed one has lost
                raise

    def _open_newest(self) -> None:
        """Open the newest segment; start another one if it is full or could not be synced."""
        if self._file < 0:
            self._open(newest_segment(self.folder))
        while os.access(self._next_path, os.F_OK):  # another worker has started the next segment
            self._open(self.segment + 1)
        if self.segment == self.unsynced_segment:
            self._open(self.segment + 1)
        elif os.fstat(self._file).st_size >= self._segment_bytes:
            self.sync()  # the last time: later syncs reach only the next segment
            self._open(self.segment + 1)
            (self.folder / _name(self.segment - 1)).chmod(SEALED_MODE)

    def _open(self, segment: int) -> None:
        path = self.folder / _name(segment)
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, PRIVATE_MODE)
        sync_folder(self.folder)  # of an existing segment too: a worker may have been killed before it synced the name
        if self._file >= 0:
            os.close(self._file)
        self._file, self.segment, self._next_path = file, segment, os.fspath(self.folder / _name(segment + 1))
        self._end = 0

    def close(self) -> None:
        for descriptor in (self._file, self._lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._lock = -1


def encode_line(event: Mapping[str, Any]) -> bytes:
    return orjson.dumps(event) + b"\n"


def read_events(folder: Path, journaled: Iterable[bytes] = ()) -> Iterator[dict[str, Any]]:
    """The events in log order, followed by the journaled lines that the log lacks. Torn lines are skipped.

    `journaled` must be read before this call: a checkpoint in between would remove lines from the journal that this
    reader has not seen in the log.
    """
    missing = dict.fromkeys(journaled)
    for line in _lines(folder):
        missing.pop(line, None)
        yield from _parse(line)
    for line in missing:
        yield from _parse(line)


def _parse(line: bytes) -> Iterator[dict[str, Any]]:
    with suppress(orjson.JSONDecodeError):
        event = orjson.loads(line)
        if type(event) is dict:
            yield event


def _lines(folder: Path, first_segment: int = 1) -> Iterator[bytes]:
    for segment in _segments(folder):
        if segment >= first_segment:
            with _reading(folder / _name(segment)) as descriptor, os.fdopen(descriptor, "rb", closefd=False) as file:
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


def missing_lines(folder: Path, lines: Iterable[bytes], first_segment: int) -> list[bytes]:
    """The lines, in order, that are in no segment from `first_segment` on."""
    missing = dict.fromkeys(lines)
    for line in _lines(folder, first_segment):
        missing.pop(line, None)
    return list(missing)


def checksum_range(folder: Path, segment: int, begin: int, end: int | None = None) -> tuple[int, bytes]:
    """The end of a byte range of a segment (default: to its end) and the XXH3-128 of its content.

    If the segment is shorter than `end`, the first value is where it ends. Raises StorageFailed.
    """
    digest, offset = xxhash.xxh3_128(), begin
    with _reading(folder / _name(segment)) as descriptor:
        end = os.fstat(descriptor).st_size if end is None else end
        while content := os.pread(descriptor, min(_READ_BYTES, end - offset), offset):
            digest.update(content)
            offset += len(content)
    return offset, digest.digest()


def has_segment(folder: Path, segment: int) -> bool:
    return (folder / _name(segment)).exists()


def newest_segment(folder: Path) -> int:
    """The highest segment number; 1 for an empty log."""
    segments = _segments(folder)
    return segments[-1] if segments else 1


def _segments(folder: Path) -> list[int]:
    return sorted(int(path.stem) for path in folder.glob(f"*{SUFFIX}") if path.stem.isdecimal())


def _name(segment: int) -> str:
    return f"{segment:06d}{SUFFIX}"
