"""Faults at the n-th call by which this process touches a folder, put in where Python asks the system: on any machine.

What is called from C (SQLite, and how Arrow writes into a file that it has open) is met where Python calls it; each
of its system calls is met by `tracing`.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa

CHANGING = (
    *("mkdir", "rmdir", "unlink", "remove", "rename", "replace", "link", "chmod", "truncate", "ftruncate", "write"),
    *("pwrite", "fsync", "fdatasync", "posix_fallocate"),
)
READING = ("scandir", "read", "pread")
"""Their errors matter; to die in them is to die before the next change."""

FREEING = ("scandir", "read", "pread", "unlink", "remove", "rmdir", "chmod")
"""Calls that a full disk does not refuse."""

Fault = Callable[[], None]


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


def fail(number: int) -> Fault:
    """The system refuses, by this errno."""

    def refuse() -> None:
        raise OSError(number, os.strerror(number))

    return refuse


class Calls:
    """Counts the calls that touch a folder, and lets the n-th meet with a fault; 0: none of them."""

    def __init__(self, folder: Path, at: int, fault: Fault, *, reading: bool = False) -> None:
        self.names: list[str] = []
        self._folder = os.fspath(folder)
        self._at, self._fault, self._reading = at, fault, reading

    def install(self) -> None:
        """For the rest of this process."""
        for name in (*CHANGING, *(READING if self._reading else ())):
            setattr(os, name, self._watched(name, getattr(os, name)))
        setattr(os, "open", self._watched_open(os.open))  # noqa: B010 - mypy knows os.open by its signature
        opened = self._watched_stream(io.open)
        vars(io)["open"] = vars(builtins)["open"] = opened
        vars(pa)["OSFile"] = self._watched("OSFile", pa.OSFile)
        vars(pa.ipc)["new_file"] = self._watched_writer(pa.ipc.new_file)

    def _meet(self, name: str) -> None:
        self.names.append(name)
        if len(self.names) == self._at:
            self._fault()

    def _touches(self, *arguments: Any) -> bool:
        return any(self._lies(one) for one in arguments[:2])

    def _lies(self, one: Any) -> bool:
        if isinstance(one, int) and not isinstance(one, bool):
            try:
                one = Path(f"/proc/self/fd/{one}").readlink()
            except OSError:
                return False
        return isinstance(one, str | os.PathLike) and os.fspath(one).startswith(self._folder)

    def _watched(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if self._touches(*arguments):
                self._meet(name)
            return real(*arguments, **named)

        return call

    def _watched_open(self, real: Callable[..., int]) -> Callable[..., int]:
        changing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

        def call(path: Any, flags: int, *arguments: Any, **named: Any) -> int:
            if self._touches(path) and (self._reading or flags & changing):
                self._meet("open")
            return real(path, flags, *arguments, **named)

        return call

    def _watched_stream(self, real: Callable[..., Any]) -> Callable[..., Any]:
        meet = self._meet

        class Raw(io.FileIO):
            def write(self, content: Any) -> int:
                meet("write")
                return super().write(content)

        def call(path: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
            if not self._touches(path):
                return real(path, mode, *arguments, **named)
            changing = not set(mode).isdisjoint("wax+")
            if self._reading or changing:
                meet("open")
            return io.BufferedWriter(Raw(path, mode)) if mode in ("wb", "xb") else real(path, mode, *arguments, **named)

        return call

    def _watched_writer(self, real: Callable[..., Any]) -> Callable[..., Any]:
        meet = self._meet

        class Writer:
            def __init__(self, *arguments: Any, **named: Any) -> None:
                self._writer = real(*arguments, **named)

            def write_batch(self, batch: Any) -> None:
                meet("write_batch")
                self._writer.write_batch(batch)

            def close(self) -> None:
                meet("close")
                self._writer.close()

        return Writer


class Full(Calls):
    """From the n-th call that needs room on, the disk has none."""

    def _meet(self, name: str) -> None:
        if name not in FREEING:
            self.names.append(name)
            if 0 < self._at <= len(self.names):
                self._fault()


ERRORS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC}
