"""The snapshots in service: follows the newest state of every collection and swaps in new generations.

A request keeps the snapshot it started with. Superseded snapshots stay open for ten minutes, for cursors. A collection
that cannot be opened does not affect the others. It knows nothing of HTTP.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from aidre.engine.errors import AidreError, CollectionDropped, GenerationMissing, SpaceMissing
from aidre.engine.model import Alias, Visibility
from aidre.engine.ports import LazySource, Reader, Source, Unpulled

logger = logging.getLogger("aidre")

KEPT_SECONDS = 600.0
"""How long a superseded snapshot stays open: the lifetime of a cursor."""
MAX_KEPT = 32
"""Superseded snapshots of a collection."""
RETRY_SECONDS = 2.0
"""Time until a collection that could not be opened is tried again."""
POLL_SECONDS = 0.25
REOPEN_SECONDS = 0.6
"""Between two generations of a collection that commits often. With POLL_SECONDS this is less than the second within
which a commit is found."""


@dataclass(frozen=True, slots=True)
class OpenCollection:
    """A collection in service. `problem` is why its newest generation cannot be opened; `snapshot` is then an older one
    or None. `former` are superseded snapshots, each with the monotonic time at which it was replaced or opened again,
    the latest first."""

    mark: Hashable
    snapshot: Reader | None
    problem: str | None = None
    retry_at: float = 0.0
    opened_at: float = 0.0
    former: tuple[tuple[float, Reader], ...] = ()


@dataclass(frozen=True, slots=True)
class DroppedCollection:
    """A collection that was dropped, of which no other one took the name."""

    name: str
    lineage: str
    visibility: Visibility


class LiveSnapshots:
    """All collections of a store, each at its newest generation. `problem` is why the store cannot be read."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._used = source.used if isinstance(source, LazySource) else None
        self.problem: str | None = None
        self.collections: Mapping[str, OpenCollection] = {}
        """By name or alias, sorted. The mapping is replaced on changes and never modified."""
        self.aliases: Mapping[str, Alias] = {}
        self._aliases_problem = ""
        self._damaged: set[str] = set()
        self.gone: frozenset[str] = frozenset()
        """Collections that were in service and are in the store no more."""
        self._refreshing = threading.Lock()

    def used(self, names: Iterable[str]) -> None:
        """Questions were asked of these collections."""
        if self._used is not None:  # found once: asking a Protocol takes longer than all else of a look-up
            for name in names:
                self._used(name)

    def mark_damaged(self, names: Iterable[str]) -> None:
        """Makes the next refresh reopen every file of these collections."""
        self._damaged.update(names)

    def refresh(self, spacing: float = 0.0) -> None:
        """Opens new generations, but none of a collection that was opened less than `spacing` seconds ago. Blocking:
        call it from a thread."""
        with self._refreshing:
            try:
                stored = self.source.collections()
            except (AidreError, OSError) as error:
                self.problem = _first_line(error)
                return
            self.problem = None
            self._read_aliases()
            names = [*stored, *(name for name, alias in self.aliases.items() if alias.collection in stored)]
            self.gone = (self.gone | self.collections.keys()).difference(names)
            if not self.collections.keys() <= set(names):
                self.collections = {name: current for name, current in self.collections.items() if name in names}
            for name in names:
                current = self.collections.get(name)
                if current is not None and time.monotonic() < current.opened_at + spacing:
                    continue
                refreshed = self._refresh_one(name, current)
                if refreshed is not current and refreshed is not None:
                    # Published at once: the next collection may take long to open.
                    self.collections = dict(sorted({**self.collections, name: refreshed}.items()))

    def _read_aliases(self) -> None:
        """If the file is damaged, the aliases that were read last stay."""
        try:
            self.aliases = self.source.aliases()
        except (AidreError, OSError) as error:
            if str(error) != self._aliases_problem:
                logger.error("aliases cannot be read: %s", _first_line(error))
            self._aliases_problem = str(error)
        else:
            self._aliases_problem = ""

    def _refresh_one(self, name: str, current: OpenCollection | None) -> OpenCollection | None:
        mark = self.source.mark(name)
        if mark is None:
            return current
        if current is not None and name in self._damaged:
            self._damaged.discard(name)
            return self._reopen_all(name, current, mark)
        if current is None or current.mark != mark or (current.problem and time.monotonic() >= current.retry_at):
            return self._open(name, current, mark)
        alias = self.aliases.get(name)
        opened = None if alias is None else self.collections.get(alias.collection)
        if opened is not None and opened.mark == mark and opened.snapshot is not current.snapshot:
            current = replace(current, snapshot=opened.snapshot)  # it was opened again
        return _without_expired(current)

    def _open(self, name: str, current: OpenCollection | None, mark: Hashable) -> OpenCollection:
        previous = current.snapshot if current else None
        former = current.former if current else ()
        if isinstance(previous, Unpulled):
            previous = None
        alias = self.aliases.get(name)
        opened = None if alias is None else self.collections.get(alias.collection)
        shared = previous if opened is None else opened.snapshot
        try:
            snapshot = self.source.open(name, previous=shared)
            if isinstance(snapshot, Unpulled):
                return OpenCollection(mark, snapshot, opened_at=time.monotonic())
            if shared is not None and (shared.generation, shared.lineage) == (snapshot.generation, snapshot.lineage):
                snapshot = shared
            for space in snapshot.collection.spaces:  # relevance needs it, in the event loop
                with suppress(SpaceMissing):  # of a space that is being backfilled
                    snapshot.centroid(space.id)
        except Exception as error:  # the outermost handler of a collection: others must not be affected
            problem = _first_line(error)
            if current is None or current.problem != problem:
                logger.error("collection %s cannot be opened: %s", name, problem)
            return OpenCollection(mark, previous, problem, time.monotonic() + RETRY_SECONDS, former=former)
        for warning in snapshot.warnings:
            logger.warning("collection %s: %s", name, warning)
        if previous is not None and (previous.generation, previous.lineage) == (snapshot.generation, snapshot.lineage):
            snapshot = previous
        elif previous is not None and previous.lineage != snapshot.lineage and alias is None:
            former = ()  # another collection of that name
        elif previous is not None and previous.can.generations:
            former = ((time.monotonic(), previous), *former)[:MAX_KEPT]
        return OpenCollection(mark, snapshot, opened_at=time.monotonic(), former=former)

    def pull(self, name: str) -> None:
        """Bring a collection to this machine that is known by its facts alone, and open it. Blocking: call it from a
        thread. What `Unpulled.pull` raises."""
        current = self.collections.get(name)
        if current is None or not isinstance(current.snapshot, Unpulled):
            return
        current.snapshot.pull()
        alias = self.aliases.get(name)
        with self._refreshing:
            for served_name in (name,) if alias is None else (alias.collection, name):
                refreshed = self._refresh_one(served_name, self.collections.get(served_name))
                if refreshed is not None:
                    self.collections = dict(sorted({**self.collections, served_name: refreshed}.items()))

    def _reopen_all(self, name: str, current: OpenCollection, mark: Hashable) -> OpenCollection:
        """Opens without reuse of open files; the current snapshot stays if nothing can be opened."""
        reopened = self._open(name, None, mark)
        return replace(reopened, snapshot=reopened.snapshot or current.snapshot, former=current.former)

    def at(self, name: str, generation: int, belongs: Callable[[Reader], bool]) -> Reader:
        """The snapshot of a cursor's generation, in the collection to which it belongs: that of the name, or one that
        the alias meant before. Raises GenerationMissing. Blocking: call it from a thread."""
        opened = self._opened(name, generation, belongs)
        if opened is not None:
            return opened
        current = self.collections.get(name)
        if current is None or current.snapshot is None or current.snapshot.generation < generation:
            self.refresh()
            opened, current = self._opened(name, generation, belongs), self.collections.get(name)
        if opened is not None:
            return opened
        if current is None or current.snapshot is None:
            raise _generation_missing(generation)
        alias = self.aliases.get(name)
        for collection in (name, *(former for former, _ in alias.former)) if alias else (name,):
            superseded = self._open_superseded(collection, generation, current.snapshot)
            if superseded is not None and belongs(superseded):
                self._keep(name, superseded)
                return superseded
        raise _generation_missing(generation)

    def _opened(self, name: str, generation: int, belongs: Callable[[Reader], bool]) -> Reader | None:
        """The snapshot, if this process has it open."""
        current = self.collections.get(name)
        open_ones = () if current is None else (current.snapshot, *(snapshot for _, snapshot in current.former))
        return next(
            (
                candidate
                for candidate in open_ones
                if candidate and candidate.generation == generation and belongs(candidate)
            ),
            None,
        )

    def newest(self, reader: Reader) -> Reader:
        """The newest snapshot of the collection that a reader is of; the reader where that is not in service."""
        opened = (collection.snapshot for collection in self.collections.values())
        return next(
            (snapshot for snapshot in opened if snapshot is not None and snapshot.lineage == reader.lineage), reader
        )

    def dropped(self, names: Iterable[str]) -> list[DroppedCollection]:
        """The names whose collection was dropped. Blocking: call it from a thread."""
        found = []
        for name in names:
            try:
                self.source.open(name)
            except CollectionDropped as error:
                found.append(DroppedCollection(name, error.details["lineage"], error.details["visibility"]))
            except (AidreError, OSError):
                continue
        return found

    def _open_superseded(self, name: str, generation: int, newest: Reader) -> Reader | None:
        """A generation that this process has not opened, or has closed."""
        try:
            return self.source.open(name, previous=newest, generation=generation)
        except (AidreError, OSError):
            return None  # garbage collection may have removed some of its files

    def _keep(self, name: str, snapshot: Reader) -> None:
        with self._refreshing:
            current = self.collections.get(name)
            if current is not None:
                former = ((time.monotonic(), snapshot), *current.former)[:MAX_KEPT]
                self.collections = {**self.collections, name: replace(current, former=former)}

    async def follow(self, refreshed: Callable[[], None]) -> None:
        """Refreshes until it is cancelled, and calls `refreshed` after each time."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            try:
                await asyncio.to_thread(self.refresh, REOPEN_SECONDS)
                refreshed()
            except Exception:  # the outermost handler of this task: a failed poll must not be the last one
                logger.exception("the store could not be read")


def _without_expired(collection: OpenCollection) -> OpenCollection:
    oldest = time.monotonic() - KEPT_SECONDS
    if not collection.former or collection.former[-1][0] >= oldest:
        return collection
    return replace(collection, former=tuple(pair for pair in collection.former if pair[0] >= oldest))


def _generation_missing(generation: int) -> GenerationMissing:
    return GenerationMissing(f"generation {generation} is gone: start again", generation=generation)


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
