"""The writer's lock of a collection: flock on one file; pid and host inside are information for people."""

from __future__ import annotations

import fcntl
import os
import socket
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import orjson

from aidre.engine import durable
from aidre.engine.errors import StorageFailed, StoreLocked
from aidre.engine.schema import LOCK


class WriterLock:
    """Held by one process for the whole of its run; the kernel frees it when the process ends, however it ends."""

    def __init__(self, folder: Path, collection: str) -> None:
        self._path = folder / LOCK
        self._collection = collection
        self._descriptor: int | None = None

    def __enter__(self) -> WriterLock:
        descriptor = self._locked()
        while not self._is_there(descriptor):  # a restore has put another folder in the place of the one it was in
            os.close(descriptor)
            descriptor = self._locked()
        with suppress(OSError):  # a full disk keeps nobody from deleting; the lock is held without it
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, orjson.dumps({"pid": os.getpid(), "host": socket.gethostname()}), 0)
        self._descriptor = descriptor
        return self

    def _locked(self) -> int:
        with durable.storage_errors(self._path.parent):
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = _holder(descriptor)
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

    def _is_there(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), self._path.stat())
        except FileNotFoundError:
            return False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _holder(descriptor: int) -> dict[str, object]:
    try:
        value = orjson.loads(os.pread(descriptor, 1024, 0))
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}
