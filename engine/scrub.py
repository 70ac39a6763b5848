"""Reads a store slowly, again and again, and says which files have come to differ from their manifest.

What `verify` reads in one go is read in small pieces with pauses between them, so that nobody who searches notices. A
file is known by its checksum: what was found whole is not read again in the same pass, whatever generation names it.
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

from aidre.engine.arrow import FileEntry, FileProblem
from aidre.engine.changes import list_path
from aidre.engine.errors import AidreError
from aidre.engine.manifest import Manifest, read_manifest
from aidre.engine.schema import CURRENT, MANIFESTS, manifest_name
from aidre.engine.store import Store
from aidre.engine.verify import files_of

PIECE = 1 << 18
SLOWEST = 1 << 14
"""Bytes in a second: a small store is read in less than its time."""
FASTEST = 1 << 26


@dataclass(frozen=True, slots=True)
class Looked:
    """A file that was read whole; `problem` says what is wrong with it. `file` is relative to the store."""

    collection: str
    file: str
    derived: bool
    problem: str | None = None


class Stopped(Exception):
    """The one who reads was told to end."""


class Scrub:
    """Reads what the newest generations name, once in about `seconds`, until `stop` is set."""

    def __init__(self, store: Store, seconds: float, stop: threading.Event) -> None:
        self._store = store
        self._seconds = seconds
        self._stop = stop
        self._pace = float(FASTEST)

    def one_pass(self) -> Iterator[Looked]:
        """Each file as it has been read; raises Stopped. A collection whose manifest is damaged is one file."""
        whole: set[str] = set()
        names = self._names()
        size = sum(entry.size for name in names for _, entry, _ in self._files(name))
        self._pace = min(max(size / self._seconds, SLOWEST), FASTEST)
        for name in names:
            yield from self._collection(name, whole)

    def is_damaged(self, collection: str, file: str, *, read: bool) -> bool:
        """Whether a file that was found damaged is still named by the newest generation and, where it has to be `read`
        again, still not whole; raises Stopped."""
        path = self._store.path / file
        if path.parent.name == MANIFESTS or path.name == CURRENT:
            try:
                return self._manifest(collection) is None
            except (AidreError, OSError):
                return collection in self._names()
        entries = [entry for named, entry, _ in self._files(collection) if named == path]
        return any(not read or self._problem(path, entry) is not None for entry in entries)

    def _names(self) -> list[str]:
        try:
            return self._store.collections()
        except (AidreError, OSError):  # a store that is away has nothing to be read
            return []

    def _files(self, collection: str) -> list[tuple[Path, FileEntry, bool]]:
        try:
            return _named(self._store.path / collection, self._manifest(collection))
        except (AidreError, OSError):
            return []

    def _manifest(self, collection: str) -> Manifest:
        generation = self._store.current(collection)
        return read_manifest(self._store.path / collection / MANIFESTS, generation, collection)

    def _collection(self, name: str, whole: set[str]) -> Iterator[Looked]:
        where = f"{name}/{CURRENT}"
        try:
            generation = self._store.current(name)
            where = f"{name}/{MANIFESTS}/{manifest_name(generation)}"
            manifest = read_manifest(self._store.path / name / MANIFESTS, generation, name)
        except (AidreError, OSError) as error:
            with suppress(AidreError, OSError):  # a writer may have come in between
                self._manifest(name)
                return
            details = error.details if isinstance(error, AidreError) else {}
            yield Looked(name, where, False, str(details.get("problem", error)))
            return
        yield Looked(name, where, False)
        for path, entry, derived in _named(self._store.path / name, manifest):
            known = f"{path}\n{entry.checksum}"
            if known in whole:
                continue
            problem = self._problem(path, entry)
            if problem is not None and not self._is_named(name, path, entry):
                continue  # a writer has swept it meanwhile
            if problem is None:
                whole.add(known)
            yield Looked(name, path.relative_to(self._store.path).as_posix(), derived, problem)

    def _is_named(self, collection: str, path: Path, entry: FileEntry) -> bool:
        return any(named == path and known == entry for named, known, _ in self._files(collection))

    def _problem(self, path: Path, entry: FileEntry) -> str | None:
        """What is wrong with a file, None where it is whole; raises Stopped."""
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
            found = os.fstat(descriptor).st_size
            if found != size:
                raise FileProblem(f"has {found} bytes instead of {size}")
            # What is read here once must not push out what searches need.
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_NOREUSE)
            for start in range(0, size, PIECE):
                began = time.monotonic()
                piece = os.pread(descriptor, PIECE, start)
                digest.update(piece)
                self._rest(len(piece) / self._pace - (time.monotonic() - began))
        finally:
            os.close(descriptor)
        return digest.hexdigest()

    def _rest(self, seconds: float) -> None:
        if self._stop.wait(max(0.0, seconds)):
            raise Stopped


def _named(folder: Path, manifest: Manifest) -> list[tuple[Path, FileEntry, bool]]:
    """What a generation is made of, and the newest list of changes."""
    files = list(files_of(folder, manifest))
    newest = manifest.changes
    return files if newest.file is None else [*files, (list_path(folder, newest.generation), newest.file, True)]
