"""The snapshots that are served: it follows CURRENT of every collection and swaps a new generation in.

A request takes one snapshot and keeps it; superseded ones stay open for ten minutes for the cursors that name them.
One collection that cannot be opened never disturbs the others. It knows nothing of HTTP.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from aidre.engine.errors import AidreError, GenerationMissing
from aidre.engine.snapshot import Snapshot
from aidre.engine.store import Store

logger = logging.getLogger("aidre")

KEPT_SECONDS = 600.0
KEPT_AT_MOST = 32
RETRY_SECONDS = 2.0
POLL_SECONDS = 0.25

Mark = tuple[int, int, int]
"""What tells one CURRENT from another, also where a re-created collection begins at the same number again."""


@dataclass(frozen=True, slots=True)
class Opened:
    """One collection as it is served. `problem` says why its newest generation could not be opened."""

    mark: Mark
    snapshot: Snapshot | None
    problem: str | None = None
    retry_at: float = 0.0
    kept: tuple[tuple[float, Snapshot], ...] = ()


class Live:
    """All collections of a store, each at its newest generation."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.problem: str | None = None
        self._opened: Mapping[str, Opened] = {}
        self._distrusted: set[str] = set()
        self._refreshing = threading.Lock()

    @property
    def collections(self) -> Mapping[str, Opened]:
        """By name; the mapping is replaced, never changed."""
        return self._opened

    def distrust(self, names: Iterable[str]) -> None:
        """Has the next refresh open these collections whole: something of what is open has been damaged since."""
        self._distrusted.update(names)

    def refresh(self) -> None:
        """Opens what is new. Blocks: call it from a thread."""
        with self._refreshing:
            try:
                names = self.store.collections()
            except (AidreError, OSError) as error:
                self.problem = _first_line(error)
                return
            self.problem = None
            self._opened = {name: opened for name, opened in self._opened.items() if name in names}
            for name in names:
                known = self._opened.get(name)
                opened = self._look(name, known)
                if opened is not known and opened is not None:
                    self._opened = dict(sorted({**self._opened, name: opened}.items()))  # at once: the next may be slow

    def _look(self, name: str, known: Opened | None) -> Opened | None:
        try:
            status = (self.store.path / name / "CURRENT").stat()
        except OSError:
            return known
        mark = (status.st_ino, status.st_mtime_ns, status.st_size)
        if known is not None and name in self._distrusted:
            self._distrusted.discard(name)
            return self._open_whole(name, known, mark)
        if known is None or known.mark != mark or (known.problem and time.monotonic() >= known.retry_at):
            return self._open(name, known, mark)
        return _expired(known)

    def _open(self, name: str, known: Opened | None, mark: Mark) -> Opened:
        former = known.snapshot if known else None
        try:
            snapshot = self.store.open(name, previous=former)
        except Exception as error:  # the outermost handler of a collection: what is wrong with it stays with it
            problem = _first_line(error)
            if known is None or known.problem != problem:
                logger.error("collection %s cannot be opened: %s", name, problem)
            return Opened(mark, former, problem, time.monotonic() + RETRY_SECONDS, known.kept if known else ())
        for warning in snapshot.warnings:
            logger.warning("collection %s: %s", name, warning)
        kept = known.kept if known else ()
        if former is not None and (former.generation, former.lineage) == (snapshot.generation, snapshot.lineage):
            snapshot = former
        elif former is not None:
            kept = ((time.monotonic(), former), *kept)[:KEPT_AT_MOST]
        return Opened(mark, snapshot, kept=kept)

    def _open_whole(self, name: str, known: Opened, mark: Mark) -> Opened:
        """Nothing that was open is used again, unless nothing else can be opened."""
        anew = self._open(name, None, mark)
        return replace(anew, snapshot=anew.snapshot or known.snapshot, kept=known.kept)

    def at(self, name: str, generation: int) -> Snapshot:
        """A generation that a cursor names; raises GenerationMissing. May block: call it from a thread."""
        opened = self._opened.get(name)
        if opened is None or opened.snapshot is None or opened.snapshot.generation < generation:
            self.refresh()
            opened = self._opened.get(name)
        if opened is None or opened.snapshot is None:
            raise _gone(generation)
        for snapshot in (opened.snapshot, *(snapshot for _, snapshot in opened.kept)):
            if snapshot.generation == generation:
                return snapshot
        return self._reopen(name, generation, opened.snapshot)

    def _reopen(self, name: str, generation: int, newest: Snapshot) -> Snapshot:
        """Opens a superseded generation that this process has not seen, or has let go, and keeps it."""
        try:
            snapshot = self.store.open(name, previous=newest, generation=generation)
        except (AidreError, OSError) as error:
            raise _gone(generation) from error  # also where only some of its files are swept yet
        with self._refreshing:
            opened = self._opened.get(name)
            if opened is not None:
                kept = ((time.monotonic(), snapshot), *opened.kept)[:KEPT_AT_MOST]
                self._opened = {**self._opened, name: replace(opened, kept=kept)}
        return snapshot

    async def follow(self, opened: Callable[[], None]) -> None:
        """Refreshes until it is cancelled, and calls `opened` after each time."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            try:
                await asyncio.to_thread(self.refresh)
                opened()
            except Exception:  # the outermost handler of this task: a poll that fails must not be the last one
                logger.exception("the store could not be read")


def _expired(opened: Opened) -> Opened:
    oldest = time.monotonic() - KEPT_SECONDS
    if not opened.kept or opened.kept[-1][0] >= oldest:
        return opened
    return replace(opened, kept=tuple(pair for pair in opened.kept if pair[0] >= oldest))


def _gone(generation: int) -> GenerationMissing:
    return GenerationMissing(f"generation {generation} is gone: start again", generation=generation)


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
