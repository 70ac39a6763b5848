"""A small file of fixed size that all workers of a server map into their memory, each locking it for microseconds.

What stands in it are counts that may be lost, so nothing is synced, and a damaged file is made anew. Whoever is named
in it is named by a hash under a key that the file was born with. A worker that dies lets go of its lock.
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
"""A word that names the kind and version, the size of what follows, the key."""
TRIES = 64
LOCKED = fcntl.LOCK_EX | fcntl.LOCK_NB
ATTEMPTS = 3


class SharedFile:
    """One file, mapped. `body` is what stands behind the header; `key` is for the hashes of what is named in it."""

    def __init__(self, folders: Iterable[Path], name: str, kind: bytes, size: int) -> None:
        """In the first of the folders that can be written; else in the memory of this process, which is then alone."""
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

    def lock(self) -> bool:
        """Whether the file is now this process's alone. It never waits long: a count may be lost, a server not."""
        if self._descriptor < 0:
            return False
        try:
            fcntl.flock(self._descriptor, LOCKED)
        except BlockingIOError:
            return self._waited()
        except OSError:
            return False
        return True

    def _waited(self) -> bool:
        """Held by a worker that needs a microsecond, or was stopped with it."""
        for _ in range(TRIES):
            os.sched_yield()
            with suppress(BlockingIOError):
                fcntl.flock(self._descriptor, LOCKED)
                return True
        return False

    def unlock(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    @contextmanager
    def locked(self) -> Iterator[None]:
        held = self.lock()
        try:
            yield
        finally:
            if held:
                self.unlock()

    def number(self, name: str) -> int:
        """128 bits that stand for a name, never 0."""
        hashed = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), key=self.key, digest_size=16).digest()
        return int.from_bytes(hashed, "little") | 1

    def close(self) -> None:
        """All views of the body must be released before."""
        self.body.release()
        self._map.close()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _header(kind: bytes, size: int) -> bytes:
    return HEADER.pack(kind, size, secrets.token_bytes(32))


def _open(folder: Path, name: str, kind: bytes, size: int) -> int:
    """A descriptor of the file, which is made where it is not there or is not what it should be; OSError."""
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / name
    for attempt in range(ATTEMPTS):
        with suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            if _fits(descriptor, kind, size):
                return descriptor
            os.close(descriptor)
            logger.warning("%s is damaged or of another release: it is made anew", path)
            path.unlink(missing_ok=True)
        _make(path, kind, size, attempt)
    raise OSError(f"{path} changes while it is opened")


def _fits(descriptor: int, kind: bytes, size: int) -> bool:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size != HEADER.size + size:
        return False
    found = os.pread(descriptor, HEADER.size, 0)
    return HEADER.unpack(found)[:2] == (kind, size)


def _make(path: Path, kind: bytes, size: int, attempt: int) -> None:
    """Puts a whole file in place, unless another worker was quicker."""
    made = path.with_name(f".{path.name}.{os.getpid()}.{attempt}")
    made.unlink(missing_ok=True)
    descriptor = os.open(made, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        # Every block is there before it is mapped: to find no space through a map would end the process.
        os.posix_fallocate(descriptor, 0, HEADER.size + size)
        os.pwrite(descriptor, _header(kind, size), 0)
        with suppress(FileExistsError):
            os.link(made, path)
    finally:
        os.close(descriptor)
        made.unlink(missing_ok=True)
