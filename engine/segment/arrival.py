"""Which files of data were checked by this user before: each is, at its first open, since somebody else may have
written it, and later opens pay nothing for that.

A file is known by its name, inode, size and time of change, which no copy shares and no program can set. What is known
is in a file of the cache folder for each collection. Where there is no such folder, or it cannot be written, nothing is
remembered: each open checks the files.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import orjson

from aidre.engine.embedding import named_cache
from aidre.engine.storage import ArrowFile, check_offsets, durable

logger = logging.getLogger("aidre")

_FOLDER = "checked"
_MAX_RECORDS = 256
"""Collections whose checks are remembered; the oldest record is dropped first."""
_MAX_FILES = 4_096
"""Checked files remembered of one collection."""
_TOLD_CHUNKS = 5_000_000
"""Chunks from which a check is logged: it reads some hundred bytes a chunk, a minute from a slow disk."""


class Arrivals:
    """The files of data of one collection, for one opening of it."""

    def __init__(self, folder: Path) -> None:
        digest = hashlib.blake2b(os.fsencode(folder), digest_size=16).hexdigest()
        self._folder = folder
        self._record: Path | None = None
        with suppress(RuntimeError):  # a user without a home
            self._record = named_cache() / _FOLDER / f"{digest}.json"
        self._known: dict[str, str] | None = None
        self._new: dict[str, str] = {}

    def knows(self, path: Path, mark: str | None) -> bool:
        """Whether the file with this mark was checked before. One without a mark was not."""
        if self._known is None:
            self._known = self._read()
        return mark is not None and self._known.get(self._name(path)) == mark

    def announce(self, chunks: Mapping[Path, int]) -> None:
        """Say so where the check of new files, given with the numbers of their chunks, may take its time."""
        new = sum(count for path, count in chunks.items() if not self.knows(path, mark_of(path)))
        if new >= _TOLD_CHUNKS:
            logger.warning("checking %d chunks of %s once, since their files are new here", new, self._folder.name)

    def check(self, path: Path, opened: str | None, file: ArrowFile) -> None:
        """Check the offsets of an open file, unless it was checked before. `opened` is the mark that it had before it
        was opened: another one may have its name by now, and nobody knows then which was opened. FileProblem."""
        mark, name = (opened if opened == mark_of(path) else None), self._name(path)
        if not self.knows(path, mark):
            check_offsets(file)
            if mark is not None:
                self._new[name] = mark

    def save(self) -> None:
        """Remember what was checked, as far as the cache folder can be written."""
        if not self._new or self._record is None:
            return
        known = {**(self._known or {}), **self._new}
        newest = dict(list(known.items())[-_MAX_FILES:])
        temporary = self._record.with_name(f".{self._record.name}.{os.getpid()}.tmp")
        with suppress(OSError):
            self._record.parent.mkdir(durable.FOLDER_MODE, parents=True, exist_ok=True)
            temporary.write_bytes(orjson.dumps(newest))
            temporary.replace(self._record)
            _forget_oldest(self._record.parent)

    def _read(self) -> dict[str, str]:
        if self._record is None:
            return {}
        with suppress(OSError, ValueError):
            found = orjson.loads(self._record.read_bytes())
            return found if isinstance(found, dict) else {}
        return {}

    def _name(self, path: Path) -> str:
        return path.relative_to(self._folder).as_posix()


def mark_of(path: Path) -> str | None:
    """What tells a file from others of its name; None where it cannot be looked at."""
    with suppress(OSError):
        status = path.stat()
        return f"{status.st_ino}.{status.st_size}.{status.st_ctime_ns}"
    return None


def _forget_oldest(folder: Path) -> None:
    records = list(folder.glob("*.json"))
    if len(records) > _MAX_RECORDS:
        for path in sorted(records, key=lambda record: record.stat().st_mtime_ns)[: len(records) - _MAX_RECORDS // 2]:
            path.unlink(missing_ok=True)
