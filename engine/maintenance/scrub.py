"""The scrub: reads a store slowly and repeatedly, and reports files that differ from their manifest.

It reads the newest generation of each collection and its newest changelog (`verify` also reads older ones), in small
blocks with pauses, so that searches are not disturbed. A file is identified by path and checksum: an intact one is read
once per pass.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import xxhash

from aidre.engine.collection import Store, local_store
from aidre.engine.errors import AidreError
from aidre.engine.maintenance.verify import files_of
from aidre.engine.ports import Source
from aidre.engine.storage import (
    CURRENT,
    MANIFESTS,
    FileEntry,
    FileProblem,
    Manifest,
    changelog_path,
    manifest_name,
    read_manifest,
)

BLOCK_BYTES = 1 << 18
"""Bytes read at a time."""
MIN_BYTES_PER_SECOND = 1 << 14
"""Lower bound of the speed, so a small store is read in less than the period."""
MAX_BYTES_PER_SECOND = 1 << 26


@dataclass(frozen=True, slots=True)
class ScrubbedFile:
    """A file that was read; `problem` describes its damage, None if intact. `file` is relative to the store."""

    collection: str
    file: str
    derived: bool
    problem: str | None = None


class ScrubStopped(Exception):
    """The scrub was asked to stop."""


class Scrub:
    """Reads the files of the newest generations, in about `seconds` per pass, until `stop` is set."""

    def __init__(self, store: Source, seconds: float, stop: threading.Event) -> None:
        self._store = Store(local_store(store).path)  # of a lazy replica, what is on this disk
        self._seconds = seconds
        self._stop = stop
        self._pace = float(MAX_BYTES_PER_SECOND)

    def one_pass(self) -> Iterator[ScrubbedFile]:
        """Yield each file after reading it; raises ScrubStopped. A collection with a damaged manifest yields one
        file."""
        intact: set[str] = set()
        names = self._names()
        size = sum(entry.size for name in names for _, entry, _ in self._files(name))
        self._pace = min(max(size / self._seconds, MIN_BYTES_PER_SECOND), MAX_BYTES_PER_SECOND)
        for name in names:
            yield from self._scrub_collection(name, intact)

    def is_damaged(self, collection: str, file: str, *, read: bool) -> bool:
        """Whether a damaged file is still named by the newest generation and, if it is to be `read` again, still
        damaged. Raises ScrubStopped."""
        path = self._store.path / file
        if path.parent.name == MANIFESTS or path.name == CURRENT:
            try:
                return self._manifest(collection) is None
            except (AidreError, OSError):
                return collection in self._names()
        entries = [entry for other, entry, _ in self._files(collection) if other == path]
        return any(not read or self._problem(path, entry) is not None for entry in entries)

    def _names(self) -> list[str]:
        try:
            return self._store.collections()
        except (AidreError, OSError):  # an unmounted store has nothing to scrub
            return []

    def _files(self, collection: str) -> list[tuple[Path, FileEntry, bool]]:
        try:
            return _files_of(self._store.path / collection, self._manifest(collection))
        except (AidreError, OSError):
            return []

    def _manifest(self, collection: str) -> Manifest:
        generation = self._store.current(collection)
        return read_manifest(self._store.path / collection / MANIFESTS, generation, collection)

    def _scrub_collection(self, name: str, intact: set[str]) -> Iterator[ScrubbedFile]:
        where = f"{name}/{CURRENT}"
        try:
            generation = self._store.current(name)
            where = f"{name}/{MANIFESTS}/{manifest_name(generation)}"
            manifest = read_manifest(self._store.path / name / MANIFESTS, generation, name)
        except (AidreError, OSError) as error:
            with suppress(AidreError, OSError):  # a writer may have committed meanwhile
                self._manifest(name)
                return
            details = error.details if isinstance(error, AidreError) else {}
            yield ScrubbedFile(name, where, False, str(details.get("problem", error)))
            return
        yield ScrubbedFile(name, where, False)
        for path, entry, derived in _files_of(self._store.path / name, manifest):
            identity = f"{path}\n{entry.checksum}"
            if identity in intact:
                continue
            problem = self._problem(path, entry)
            if problem is not None and (path, entry) not in ((file, named) for file, named, _ in self._files(name)):
                continue  # a writer has removed it meanwhile
            if problem is None:
                intact.add(identity)
            yield ScrubbedFile(name, path.relative_to(self._store.path).as_posix(), derived, problem)

    def _problem(self, path: Path, entry: FileEntry) -> str | None:
        """The damage of a file, None if it is intact; raises ScrubStopped."""
        try:
            checksum = self._checksum(path, entry.size)
        except FileProblem as problem:
            return str(problem)
        except OSError as error:
            return "is missing" if isinstance(error, FileNotFoundError) else "cannot be read"
        return None if checksum == entry.checksum else "does not have the checksum that was recorded"

    def _checksum(self, path: Path, size: int) -> str:
        digest = xxhash.xxh3_128()
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            actual = os.fstat(descriptor).st_size
            if actual != size:
                raise FileProblem(f"has {actual} bytes instead of {size}")
            # Pages read here once must not evict those that searches need.
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_NOREUSE)
            for start in range(0, size, BLOCK_BYTES):
                began = time.monotonic()
                block = os.pread(descriptor, BLOCK_BYTES, start)
                digest.update(block)
                self._wait(len(block) / self._pace - (time.monotonic() - began))
        finally:
            os.close(descriptor)
        return digest.hexdigest()

    def _wait(self, seconds: float) -> None:
        if self._stop.wait(max(0.0, seconds)):
            raise ScrubStopped


def _files_of(folder: Path, manifest: Manifest) -> list[tuple[Path, FileEntry, bool]]:
    """The files of a generation and the newest changelog."""
    files = list(files_of(folder, manifest))
    newest = manifest.changes
    return files if newest.file is None else [*files, (changelog_path(folder, newest.generation), newest.file, True)]
