"""The cache of a lazy replica: collections that are pulled when they are asked for, and removed when they are not.

    CACHE/.collections.json      what is known of every collection: its publication, counts, manifest without segments
    CACHE/.used/<collection>     its modification time: when a question was last asked, by any process

A collection that is not in the cache is listed, and its visibility holds, by what is known of it. `CURRENT` in its
folder says that it is there, as in every store. It is removed first and the files after it; who has them open keeps
them, as with the garbage collection of a store.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Collection, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from stat import S_ISDIR
from typing import Protocol

import msgspec

from aidre.engine.collection import Snapshot, Store
from aidre.engine.errors import StoreLocked
from aidre.engine.maintenance.publication import BucketCatalog, Count, Listed
from aidre.engine.maintenance.statement import StatementClaims, read_claims
from aidre.engine.ports import Reader
from aidre.engine.storage import (
    CHANGES,
    CURRENT,
    DELETES,
    MANIFESTS,
    PINS,
    REPLICA,
    SEGMENTS,
    Manifest,
    WriterLock,
    decode_manifest,
    durable,
    encode_manifest,
)

FACTS_FILE = ".collections.json"
USED = ".used"
LEARN_SECONDS = 60.0
"""What is known of a collection that nobody asks for is not brought up to date more often."""
LEAVING_SECONDS = 10.0
_USED_SECONDS = 5.0
"""Between two notes of a use; a process notes no more."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a collection. `manifest` is that of the newest publication without segments; `statement` the one
    of that publication, where it was verified."""

    generation: Count
    token: str
    documents: Count
    chunks: Count
    manifest: str
    dropped: bool = False
    statement: str | None = None

    @classmethod
    def of(cls, manifest: Manifest, token: str, statement: str | None) -> Facts:
        bare = encode_manifest(replace(manifest, segments=(), deletes={})).decode()
        return cls(manifest.generation, token, manifest.documents, manifest.chunks, bare, manifest.dropped, statement)

    def is_of(self, listed: Listed | None) -> bool:
        return listed is not None and (self.generation, self.token) == (listed.generation, listed.token)


class FactsFile:
    """That file of a cache, read again where another process has replaced it."""

    def __init__(self, cache: Path) -> None:
        self._path = cache / FACTS_FILE
        self._mark: tuple[int, int] | None = None
        self._facts: Mapping[str, Facts] = {}

    def read(self) -> Mapping[str, Facts]:
        """Nothing where there is none, or none that can be read: it is learned again."""
        try:
            status = os.stat(self._path)  # noqa: PTH116
        except OSError:
            return {}
        mark = status.st_ino, status.st_mtime_ns
        if mark != self._mark:
            found: Mapping[str, Facts] = {}
            with suppress(OSError, ValueError, msgspec.ValidationError):
                found = msgspec.json.decode(self._path.read_bytes(), type=dict[str, Facts])
            self._mark, self._facts = mark, found
        return self._facts

    def write(self, facts: Mapping[str, Facts]) -> None:
        """StorageFailed."""
        with durable.write_errors(self._path):
            durable.replace_file(self._path, msgspec.json.encode(facts))


class LazyCache:
    """What a replica knows, and keeps until nobody has asked for it for `keep_seconds`. `max_bytes` bounds the cache,
    0: no bound, and `max_files` the files of the collections that stay, 0: half of what the process may open."""

    def __init__(self, cache: Path, keep_seconds: float, max_bytes: int, max_files: int) -> None:
        self.facts = FactsFile(cache)
        self._cache, self._keep_seconds, self._max_bytes = cache, keep_seconds, max_bytes
        self._max_files = max_files or resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2
        self._learned: dict[str, Facts] = {}
        self._learned_at: dict[str, float] = {}
        self._leaving: dict[Path, float] = {}

    # -- what is known -----------------------------------------------------------------------------------------

    def is_known(self, name: str, catalog: BucketCatalog) -> bool:
        """Whether what is known of a collection is what the catalog lists, or was learned a moment ago."""
        facts, listed = self.facts.read().get(name), catalog.publications.get(name)
        is_recent = time.monotonic() < self._learned_at.get(name, -LEARN_SECONDS) + LEARN_SECONDS
        return facts is not None and (facts.is_of(listed) or is_recent)

    def learn(self, name: str, facts: Facts) -> None:
        self._learned[name] = facts
        self._learned_at[name] = time.monotonic()

    def claims(self, name: str) -> StatementClaims | None:
        facts = self._learned.get(name) or self.facts.read().get(name)
        return None if facts is None or facts.statement is None else read_claims(facts.statement)

    def keep(self, names: Collection[str]) -> None:
        """Write what was learned, for every process, and forget collections that are not in `names`, unless a signed
        publication of them was accepted. StorageFailed."""
        known = self.facts.read()
        remaining = {name: fact for name, fact in {**known, **self._learned}.items() if name in names or fact.statement}
        if remaining != known:
            self.facts.write(remaining)
        self._learned.clear()

    # -- what is kept ------------------------------------------------------------------------------------------

    def let_go(self, wanted: int = 0, *, spared: str | None = None) -> None:
        """Remove the collections that were not used for long, and the least recently used ones as long as there are
        more bytes, with those that are `wanted`, and files than allowed; `spared` is not removed."""
        self._sweep()
        pulled = sorted((used_at(self._cache, name), name) for name in self._pulled() if name != spared)
        held, files_held = wanted + _measure(self._cache)[0], sum(_measure(self._cache / name)[1] for _, name in pulled)
        for moment, name in pulled:
            is_over = 0 < self._max_bytes < held or 0 < self._max_files < files_held
            is_old = moment < time.time() - self._keep_seconds
            if is_over or is_old:
                before = _measure(self._cache / name)
                self._release(name)
                after = _measure(self._cache / name)
                held, files_held = held - before[0] + after[0], files_held - before[1] + after[1]

    def _pulled(self) -> list[str]:
        folders = (path for path in self._cache.iterdir() if not path.name.startswith("."))
        return [path.name for path in folders if (path / CURRENT).exists()]

    def _release(self, name: str) -> None:
        """Remove a collection from the cache, unless somebody is pulling it. The changes go a little later: a reader
        that has the collection open reads them by name."""
        folder = self._cache / name
        try:
            with WriterLock(folder, name):
                if not (self._cache / REPLICA).exists():
                    return  # it was promoted: what is here is the only copy, or soon will be
                durable.remove(folder / CURRENT)
                for part in (MANIFESTS, SEGMENTS, DELETES, PINS):
                    durable.remove(folder / part)
        except StoreLocked:
            return
        self._leaving[folder] = time.monotonic() + LEAVING_SECONDS

    def _sweep(self) -> None:
        for folder, moment in list(self._leaving.items()):
            if time.monotonic() < moment:
                continue
            with suppress(StoreLocked), WriterLock(folder, folder.name):
                del self._leaving[folder]
                if (self._cache / REPLICA).exists() and not (folder / CURRENT).exists():
                    durable.remove(folder / CHANGES)


def _measure(folder: Path) -> tuple[int, int]:
    """The bytes and the number of the files in a folder."""
    size = files = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            status = path.stat()
            if not S_ISDIR(status.st_mode):
                size, files = size + status.st_size, files + 1
    return size, files


def note_use(cache: Path, name: str) -> None:
    with suppress(OSError):  # a full disk: the collection is released earlier
        folder = cache / USED
        folder.mkdir(durable.FOLDER_MODE, exist_ok=True)
        (folder / name).touch()


def used_at(cache: Path, name: str) -> float:
    """The Unix time of the last use; where none was noted, that of the pull."""
    for path in (cache / USED / name, cache / name / CURRENT):
        with suppress(OSError):
            return path.stat().st_mtime
    return 0.0


class PullingReplica(Protocol):
    """The replica behind a cache."""

    def fetch(self, collection: str, generation: int) -> bool: ...
    def pull_collection(self, name: str) -> None: ...


class UnpulledSnapshot(Snapshot):
    """A state of a collection that is not in the cache: what is known of it, without documents."""

    def __init__(self, folder: Path, name: str, facts: Facts, pulling: PullingReplica) -> None:
        super().__init__(folder, decode_manifest(facts.manifest.encode(), facts.generation, name))
        self.documents, self.chunks = facts.documents, facts.chunks
        self._pulling = pulling

    def pull(self) -> None:
        self._pulling.pull_collection(self.collection.name)


class LazyStore(Store):
    """The cache of a lazy replica as a `Source`: its collections are those that the bucket has. `open` gives an
    `ports.Unpulled` one until somebody has pulled it."""

    def __init__(self, cache: Path, pulling: PullingReplica) -> None:
        super().__init__(cache, pulling.fetch)
        self._pulling = pulling
        self._facts = FactsFile(cache)
        self._noted: dict[str, float] = {}

    def collections(self) -> list[str]:
        pulled, aliases = super().collections(), self._aliases.known()
        known = (name for name in self._facts.read() if name not in aliases and not self.is_dropped(name))
        return sorted({*pulled, *known})

    def current(self, collection: str) -> int:
        """Of a collection that is not in the cache, what is known."""
        facts = self._facts.read().get(self.named(collection))
        is_here = facts is None or self._mark(self.named(collection)) is not None
        return super().current(collection) if is_here or facts is None else facts.generation

    def mark(self, collection: str) -> Hashable:  # type: ignore[override]
        name = self.named(collection)
        mark = self._mark(name)
        if mark is None:
            facts = self._facts.read().get(name)
            return None if facts is None else (name, facts.token)
        return mark

    def is_dropped(self, collection: str) -> bool:
        if self._mark(collection) is not None:
            return super().is_dropped(collection)
        facts = self._facts.read().get(collection)
        return facts is not None and facts.dropped

    def open(self, collection: str, *, previous: Reader | None = None, generation: int | None = None) -> Snapshot:
        name = self.named(collection)
        facts = self._facts.read().get(name)
        if generation is None and facts is not None and self._mark(name) is None:
            return UnpulledSnapshot(self.path / name, name, facts, self._pulling)
        return super().open(collection, previous=previous, generation=generation)

    def used(self, collection: str) -> None:
        name, now = self.named(collection), time.monotonic()
        if now >= self._noted.get(name, -_USED_SECONDS) + _USED_SECONDS:
            self._noted[name] = now
            note_use(self.path, name)
