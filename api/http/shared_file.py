"""A small file of fixed size that all workers of a server map into memory.

A worker locks it for microseconds, or for its lifetime if no other one writes to it. It holds counts that may be lost,
so nothing is synced, and a damaged file is replaced. Accounts are stored as hashes under a random key in the header of
the file. The kernel releases the lock of a worker that dies.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import mmap
import os
import secrets
import stat
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

logger = logging.getLogger("aidre")

HEADER = struct.Struct("<8sQ32s16x")
"""Kind and version, size of the body in bytes, hash key."""
LOCK_TRIES = 64
"""Attempts to lock, each after a yield; then the count proceeds without the lock."""
LOCKED = fcntl.LOCK_EX | fcntl.LOCK_NB
OPEN_TRIES = 3
"""Attempts to open or create the file while other workers replace it."""


class SharedFile:
    """One mapped file. `body` is the memory after the header; `key` is the hash key of the accounts in it."""

    def __init__(self, folders: Iterable[Path], name: str, kind: bytes, size: int) -> None:
        """The file is in the first writable folder; without one, in the memory of this process alone."""
        self._descriptor = -1
        for folder in folders:
            try:
                self._descriptor = _open(folder, name, kind, size)
                break
            except OSError as error:
                logger.warning("%s cannot be shared in %s: %s", name, folder, error.strerror or error)
        self._map = mmap.mmap(self._descriptor, HEADER.size + size)
        if self._descriptor < 0:
            self._map[: HEADER.size] = _header(kind, size)
        self.key: bytes = HEADER.unpack_from(self._map)[2]
        self.body = memoryview(self._map)[HEADER.size :]

    @property
    def is_shared(self) -> bool:
        return self._descriptor >= 0

    def lock(self) -> bool:
        """Whether the lock is held now. Never waits long: a lost count is better than a stalled server."""
        if self._descriptor < 0:
            return False
        try:
            fcntl.flock(self._descriptor, LOCKED)
        except BlockingIOError:
            return self._lock_with_retries()
        except OSError:
            return False
        return True

    def _lock_with_retries(self) -> bool:
        """Another worker holds the lock for a microsecond, or was stopped while it held it."""
        for _ in range(LOCK_TRIES):
            os.sched_yield()
            with suppress(BlockingIOError):
                fcntl.flock(self._descriptor, LOCKED)
                return True
        return False

    def unlock(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def is_locked(self) -> bool:
        """Whether a worker holds the lock now."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        self.unlock()
        return False

    @contextmanager
    def locked(self) -> Iterator[None]:
        held = self.lock()
        try:
            yield
        finally:
            if held:
                self.unlock()

    def number(self, name: str) -> int:
        """A 128-bit keyed hash of a name, never 0."""
        hashed = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), key=self.key, digest_size=16).digest()
        return int.from_bytes(hashed, "little") | 1

    def close(self) -> None:
        """Unmap the file; all views of the body must be released first."""
        self.body.release()
        self._map.close()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _header(kind: bytes, size: int) -> bytes:
    return HEADER.pack(kind, size, secrets.token_bytes(32))


def _open(folder: Path, name: str, kind: bytes, size: int) -> int:
    """A descriptor of the file, created if it is missing or invalid; raises OSError."""
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / name
    for attempt in range(OPEN_TRIES):
        with suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            if _fits(descriptor, kind, size):
                return descriptor
            os.close(descriptor)
            logger.warning("%s is damaged or of another release: it is replaced", path)
            path.unlink(missing_ok=True)
        _create(path, kind, size, attempt)
    raise OSError(f"{path} changes while it is opened")


def _fits(descriptor: int, kind: bytes, size: int) -> bool:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size != HEADER.size + size:
        return False
    header = os.pread(descriptor, HEADER.size, 0)
    return HEADER.unpack(header)[:2] == (kind, size)


def _create(path: Path, kind: bytes, size: int, attempt: int) -> None:
    """Put a complete file in place, unless another worker was faster."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{attempt}")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        # Allocate every block before mapping: a full disk behind a map would kill the process by SIGBUS.
        os.posix_fallocate(descriptor, 0, HEADER.size + size)
        os.pwrite(descriptor, _header(kind, size), 0)
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        os.close(descriptor)
        temporary.unlink(missing_ok=True)
