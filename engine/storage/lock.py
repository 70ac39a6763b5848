"""The writer's lock of a collection: `flock` on the file LOCK, whose content names the holder for operators.

The kernel releases the lock when the process ends, also after `kill -9`: there is no stale lock to clean up. The pid
and host in the file are information only.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import orjson

from aidre.engine.errors import StorageFailed, StoreLocked
from aidre.engine.storage import durable
from aidre.engine.storage.format import LOCK

_RETRY_SECONDS = 0.05
"""Between two attempts of a writer that waits."""

_MAX_CONTENT_BYTES = 1_024
"""Bytes read of the lock file; a pid and a host name need far fewer."""


class WriterLock:
    """Context manager; one process holds the lock at a time. Entering waits up to `wait` seconds, then raises
    StoreLocked; it raises StorageFailed."""

    def __init__(self, folder: Path, collection: str, wait: float = 0.0) -> None:
        self._path = folder / LOCK
        self._collection = collection
        self._wait = wait
        self._descriptor: int | None = None

    def __enter__(self) -> WriterLock:
        descriptor = self._open_when_free()
        while not self._is_lock_file(descriptor):  # a restore replaced the folder between open and flock
            os.close(descriptor)
            descriptor = self._open_locked()
        with suppress(OSError):  # deleting must work on a full disk: the lock is held without the information
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, orjson.dumps({"pid": os.getpid(), "host": socket.gethostname()}), 0)
        self._descriptor = descriptor
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open_when_free(self) -> int:
        deadline = time.monotonic() + self._wait
        while True:
            try:
                return self._open_locked()
            except StoreLocked:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise
                time.sleep(min(_RETRY_SECONDS, left))

    def _open_locked(self) -> int:
        with durable.write_errors(self._path.parent):
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, durable.UNFINISHED)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = _read_holder(descriptor)
            os.close(descriptor)
            pid, host = holder.get("pid"), holder.get("host")
            raise StoreLocked(
                f"collection {self._collection!r} is being written by process {pid} on {host}: "
                "wait until it ends or stop it",
                collection=self._collection,
                pid=pid,
                host=host,
            ) from error
        except OSError as error:
            os.close(descriptor)
            raise StorageFailed(
                f"cannot lock collection {self._collection!r}: {error.strerror or error}; "
                "a store needs a file system that can lock files",
                file=self._path.name,
            ) from error
        return descriptor

    def _is_lock_file(self, descriptor: int) -> bool:
        """Whether the open file is still the one at the lock's path."""
        try:
            return os.path.samestat(os.fstat(descriptor), self._path.stat())
        except FileNotFoundError:
            return False


def _read_holder(descriptor: int) -> dict[str, object]:
    try:
        value = orjson.loads(os.pread(descriptor, _MAX_CONTENT_BYTES, 0))
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}
