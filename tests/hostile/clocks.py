"""A clock that is wrong, for commands in this process and for the processes of a server."""

from __future__ import annotations

import mmap
import os
import struct
import time
from datetime import datetime, tzinfo
from pathlib import Path

from aidre.engine.storage import manifest
from tests.hostile.server import environment

CLOCK = "TESTS_CLOCK"
SITE = f"""
import mmap, os, struct, time
with open(os.environ["{CLOCK}"], "rb") as file:
    _offset = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
_time = time.time
time.time = lambda: _time() + struct.unpack("d", _offset)[0]
"""
"""What every process of the server runs first."""


class Clock:
    """How wrong the clock of the server and of the commands is, in a file that the server has mapped."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._path = folder / "offset"
        self._path.write_bytes(struct.pack("d", 0.0))
        (folder / "sitecustomize.py").write_text(SITE, encoding="utf-8")
        self._folder = folder
        self.offset = 0.0

    def set(self, offset: float) -> None:
        self.offset = offset
        with self._path.open("r+b") as file, mmap.mmap(file.fileno(), 8) as mapped:
            mapped[:] = struct.pack("d", offset)

    def variables(self) -> dict[str, str]:
        """Of the environment: processes that are started with them have this clock."""
        path = os.pathsep.join((str(self._folder), environment()["PYTHONPATH"]))
        return {"PYTHONPATH": path, CLOCK: str(self._path)}


def wrong_by(offset: float) -> None:
    """For the rest of this process; times of files are the kernel's, and right."""
    right = time.time

    class Wrong(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Wrong:
            return cls.fromtimestamp(time.time(), tz)

    vars(time)["time"] = lambda: right() + offset
    vars(manifest)["datetime"] = Wrong
